"""The pictures of the mode-cost experiments: one figure each, and the pair side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from . import measure, plots
from .plots import COLOURS, MARKERS
from .spec import Row

# One colour a method; a mode keeps its colour in both experiments.
LOOKS = {
    "reverse": ("reverse mode", COLOURS["blue"]),
    "reverse_recorded": ("reverse, recorded once", COLOURS["sky"]),
    "forward": ("forward mode", COLOURS["vermilion"]),
    "forward_linearised": ("forward, linearised once", COLOURS["orange"]),
    "fd_forward": ("forward differences", COLOURS["green"]),
    "fd_central": ("central differences", COLOURS["purple"]),
}


@dataclass(frozen=True)
class Theory:
    """A formula for the ratio, drawn dashed."""

    formula: Callable[[float], float]
    label: str
    dashes: Any = None


def _sizes(rows: Sequence[Row]) -> list[int]:
    return sorted({row["n"] for row in rows})


def _lines(axes: Axes, rows: Sequence[Row], quantity: str, methods: Sequence[str]) -> None:
    """A line a problem and method: colour says the method, marker the problem."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    for number, problem in enumerate(problems):
        for method in methods:
            mine = [row for row in rows if row["problem"] == problem and row["method"] == method]
            axes.plot(
                [row["n"] for row in mine],
                [row[quantity] for row in mine],
                color=LOOKS[method][1],
                marker=MARKERS[number],
                markeredgecolor="white",
                markeredgewidth=0.3,
                linewidth=0.9,
                alpha=0.9,
            )


def _overhead_size(rows: Sequence[Row]) -> float:
    """The largest size at which the median problem still spends less than 5 us an operation; 0 if there is none."""
    upto = 0.0
    for n in _sizes(rows):
        mine = {row["problem"]: row["f_seconds"] / row["operations"] for row in rows if row["n"] == n}
        if median(mine.values()) >= measure.OVERHEAD_SECONDS:
            break
        upto = n
    return upto * 2**0.5  # half way, on this axis, to the next size


def figure(rows: Sequence[Row], x_label: str, theories: Sequence[Theory]) -> Figure:
    """Work ratio (left) and wall-clock ratio (right) of every method and problem."""
    drawing, (work, wall) = plots.panels(2, height=4.5)
    sizes, methods = _sizes(rows), list(dict.fromkeys(row["method"] for row in rows))
    for axes, quantity, label in (
        (work, "flops_ratio", "Work(derivative) / Work(f)   [flops]"),
        (wall, "wall_ratio", "time(derivative) / time(f)"),
    ):
        plots.log_log(axes, sizes, x_label, label)
        _lines(axes, rows, quantity, methods)
    dashed = [plots.theory(work, sizes, t.formula, t.label, t.dashes) for t in theories]
    work.set_title("a   counted operations")
    wall.set_title("b   wall clock")
    shade = plots.shade_overhead(wall, _overhead_size(rows))
    colours = [Line2D([], [], color=LOOKS[method][1], label=LOOKS[method][0]) for method in methods]
    plots.legend_below(drawing, [*colours, *_markers(rows), *dashed, *([shade] if shade else [])], columns=3)
    return drawing


def _markers(rows: Sequence[Row]) -> list[Line2D]:
    """A legend entry for the marker of each problem, if there are several."""
    names = list(dict.fromkeys(r["problem"] for r in rows))
    if len(names) == 1:
        return []
    return [
        Line2D([], [], color="0.35", linestyle="", marker=marker, label=name)
        for marker, name in zip(MARKERS, names, strict=False)
    ]


def side_by_side(many_to_one: Sequence[Row], one_to_many: Sequence[Row]) -> Figure:
    """The front page: which mode is cheap depends on which end of the function is narrow."""
    drawing, both = plots.panels(2, height=3.5)
    halves = (
        (many_to_one, "inputs n", "gradient of  R$^n$ → R"),
        (one_to_many, "outputs m", "derivative of  R → R$^m$"),
    )
    modes = ("forward", "reverse")
    top = max(row["flops_ratio"] for row in (*many_to_one, *one_to_many) if row["method"] in modes)
    for letter, axes, (rows, x_label, title) in zip("ab", both, halves, strict=True):
        sizes = _sizes(rows)
        plots.log_log(axes, sizes, x_label, "Work(derivative) / Work(f)   [flops]")
        _lines(axes, rows, "flops_ratio", modes)
        axes.set_ylim(0.8, top * 1.6)
        axes.set_title(f"{letter}   {title}")
        axes.legend(handles=_markers(rows), loc="upper left", frameon=False, fontsize="small")  # the corner is empty
    left, right = both
    limit = plots.theory(left, _sizes(many_to_one), lambda n: 5, "5: bound, reverse sweep")
    other = plots.theory(right, _sizes(one_to_many), lambda m: 4, "4: bound, forward sweep", dashes=(1.5, 1.5))
    colours = [Line2D([], [], color=LOOKS[m][1], label=LOOKS[m][0]) for m in modes]
    plots.legend_below(drawing, [*colours, limit, other], columns=4)
    return drawing
