"""The picture of E18: multiplications of a linearised program against those of its transpose."""

from __future__ import annotations

from typing import Any

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row


def figure(rows: list[Row]) -> Any:
    """The diagonal is what transposition promises for multiplications; additions scatter about it."""
    drawing, (axes,) = plots.panels(1, height=3.6, columns=1)
    handles = []
    for kind, label, colour, marker in (
        ("mults", "multiplications", "blue", "o"),
        ("adds", "additions", "orange", "s"),
    ):
        xs, ys = [row[f"linear_{kind}"] for row in rows], [row[f"transpose_{kind}"] for row in rows]
        handles += axes.plot(xs, ys, color=COLOURS[colour], marker=marker, label=label, linestyle="", mfc="none")
    ends = [1, 2 * max(max(row["linear_adds"], row["transpose_mults"]) for row in rows)]
    handles.append(plots.theory(axes, ends, lambda n: n, "equal"))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("of the linearised program")
    axes.set_ylabel("of its transpose")
    plots.legend_below(drawing, handles, columns=2)
    return drawing
