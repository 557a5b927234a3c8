"""The front page: both mode costs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..harness import plots
from ..harness.spec import Row
from ..shared.mode_figure import LOOKS, lines, markers, sizes


def figure(many_to_one: Sequence[Row], one_to_many: Sequence[Row]) -> Figure:
    """The front page: which mode is cheap depends on which end of the function is narrow."""
    drawing, both = plots.panels(2, height=3.5)
    halves = (
        (many_to_one, "inputs n", "gradient of  Rⁿ → R"),
        (one_to_many, "outputs m", "derivative of  R → Rᵐ"),
    )
    modes = ("forward", "reverse")
    top = max(row["flops_ratio"] for row in (*many_to_one, *one_to_many) if row["method"] in modes)
    for letter, axes, (rows, x_label, title) in zip("ab", both, halves, strict=True):
        plots.log_log(axes, sizes(rows), x_label, "Work(derivative) / Work(f)   [flops]")
        lines(axes, rows, "flops_ratio", modes)
        axes.set_ylim(0.8, top * 1.6)
        axes.set_title(f"{letter}   {title}")
        axes.legend(handles=markers(rows), loc="upper left", frameon=False)  # the corner is empty
    left, right = both
    limit = plots.theory(left, sizes(many_to_one), lambda n: 5, "5: bound, reverse sweep")
    other = plots.theory(right, sizes(one_to_many), lambda m: 4, "4: bound, forward sweep", dashes=(1.5, 1.5))
    colours = [Line2D([], [], color=LOOKS[m][1], label=LOOKS[m][0]) for m in modes]
    plots.legend_below(drawing, [*colours, limit, other], columns=4)
    return drawing
