"""The picture of E14: errors of derivatives against the condition of a matrix, and against the gap of two values."""

from __future__ import annotations

from typing import Any

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row
from ..shared.measure import EPS

CONDITION = (
    ("inv", "inv", "blue", "o"),
    ("solve", "solve", "vermilion", "s"),
    ("logdet", "logdet", "green", "^"),
    ("cholesky", "Cholesky", "orange", "D"),
    ("qr", "QR", "purple", "v"),
)
GAP = (
    ("eigenvectors", "eigenvectors", "blue", "o"),
    ("singular_vectors", "singular vectors", "vermilion", "s"),
    ("eigenvalues", "eigenvalues", "orange", "D"),
    ("projector", "projector through vectors", "purple", "v"),
    ("logdet_of_eigenvalues", "logdet through eigenvalues", "green", "^"),
)


def figure(rows: list[Row]) -> Any:
    """The largest error of both modes at each condition (left) and gap (right), with eps times either dashed."""
    drawing, (left, right) = plots.panels(2, height=4.0)
    for axes, study, series, x_label in (
        (left, "condition", CONDITION, "condition number κ"),
        (right, "gap", GAP, "1 / gap"),
    ):
        mine = [row for row in rows if row["study"] == study]
        handles = []
        for problem, label, colour, marker in series:
            errors: dict[float, float] = {}
            for row in mine:
                if row["problem"] == problem:
                    worst = max(row["jvp_error"], row["vjp_error"])
                    errors[row["condition"]] = max(errors.get(row["condition"], 0.0), worst)
            xs = sorted(errors)
            handles += axes.plot(
                xs,
                [max(errors[x], EPS / 10) for x in xs],
                color=COLOURS[colour],
                marker=marker,
                mfc="none",
                label=label,
            )
        ends = sorted({row["condition"] for row in mine if row["problem"] == series[0][0]})
        handles.append(plots.theory(axes, ends, lambda x: EPS * x, "κ eps" if study == "condition" else "eps / gap"))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(x_label)
        axes.set_ylabel("relative error of the derivative")
        axes.legend(handles=handles, loc="upper left", handlelength=2.2)
    left.set_title("a   condition")
    right.set_title("b   gap")
    return drawing
