"""The picture of E17: multiplications of a Jacobian by both modes and by other orders, relative to the best."""

from __future__ import annotations

from typing import Any

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row

METHODS = (
    ("forward", "forward mode", "vermilion", "^"),
    ("reverse", "reverse mode", "blue", "v"),
    ("markowitz", "Markowitz's rule", "green", "o"),
)


def figure(rows: list[Row]) -> Any:
    """Small graphs, sorted by what the better mode loses (left); the hourglass against its waist (right)."""
    drawing, (left, right) = plots.panels(2, height=3.4)
    graphs = [row for row in rows if row["study"] == "graph"]
    graphs.sort(
        key=lambda row: (min(row["forward"], row["reverse"]) / row["optimum"], row["markowitz"] / row["optimum"])
    )
    handles = []
    for method, label, colour, marker in METHODS:
        ratios = [row[method] / row["optimum"] for row in graphs]
        handles += left.plot(
            range(1, len(graphs) + 1),
            ratios,
            color=COLOURS[colour],
            marker=marker,
            mfc="none",
            linestyle="",
            label=label,
        )
    handles.append(left.axhline(1, color="black", linewidth=0.9, dashes=(5, 2.5), label="the best order"))
    left.set_xlabel("random graphs, by what the better mode loses")
    left.set_ylabel("multiplications over the fewest")
    left.set_title("a   3 numbers to 3 by 8 operations")

    waists = [row for row in rows if row["study"] == "hourglass"]
    ks, n = [row["k"] for row in waists], waists[0]["n"]
    handles += right.plot(
        ks, [row["factored"] for row in waists], color=COLOURS["orange"], marker="s", label="both factors"
    )
    handles += right.plot(
        ks, [row["explicit"] for row in waists], color=COLOURS["sky"], marker="D", label="their product"
    )
    right.plot(ks, [row["forward"] for row in waists], color=COLOURS["vermilion"], marker="^", mfc="none")
    right.plot(ks, [row["reverse"] for row in waists], color=COLOURS["blue"], marker="v", linestyle="", mfc="none")
    handles.append(plots.theory(right, ks, lambda k: k * (2 * n * k + k), "k (2n + 1) k", (2, 1.5)))
    right.set_xscale("log", base=2)
    right.set_yscale("log")
    right.set_xlabel(f"waist k of n = {n}")
    right.set_ylabel("multiplications")
    right.set_title("b   V tanh(U x)")
    plots.legend_below(drawing, handles, columns=4)
    return drawing
