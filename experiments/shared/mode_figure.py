"""The picture of a mode-cost experiment, and the parts that a picture of several is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..harness import plots
from ..harness.plots import COLOURS, MARKERS
from ..harness.spec import Row

# One colour a method; a mode keeps its colour in both experiments.
LOOKS = {
    "reverse": ("reverse mode", COLOURS["blue"]),
    "reverse_recorded": ("reverse, recorded once", COLOURS["sky"]),
    "forward": ("forward mode", COLOURS["vermilion"]),
    "forward_linearised": ("forward, linearised once", COLOURS["orange"]),
    "fd_forward": ("forward differences", COLOURS["green"]),
    "fd_central": ("central differences", COLOURS["purple"]),
}


def sizes(rows: Sequence[Row]) -> list[int]:
    return sorted({row["n"] for row in rows})


def lines(axes: Axes, rows: Sequence[Row], quantity: str, methods: Sequence[str]) -> None:
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
    for n in sizes(rows):
        mine = {row["problem"]: row["f_seconds"] / row["operations"] for row in rows if row["n"] == n}
        if median(mine.values()) >= plots.OVERHEAD_SECONDS:
            break
        upto = n
    return upto * 2**0.5  # half way, on this axis, to the next size


def figure(rows: Sequence[Row], x_label: str, theories: Sequence[Mapping[str, Any]]) -> Figure:
    """Work ratio (left) and wall-clock ratio (right) of every method and problem."""
    drawing, (work, wall) = plots.panels(2, height=4.5)
    ns, methods = sizes(rows), list(dict.fromkeys(row["method"] for row in rows))
    for axes, quantity, label in (
        (work, "flops_ratio", "Work(derivative) / Work(f)   [flops]"),
        (wall, "wall_ratio", "time(derivative) / time(f)"),
    ):
        plots.log_log(axes, ns, x_label, label)
        lines(axes, rows, quantity, methods)
    counted = performed(work, rows)
    dashed = [plots.dashed(work, t["x"], t["y"], t["label"], t["dashes"]) for t in theories]
    work.set_title("a   declared operations (lines)" if counted else "a   declared operations")
    wall.set_title("b   wall clock")
    shade = plots.shade_overhead(wall, _overhead_size(rows))
    colours = [Line2D([], [], color=LOOKS[method][1], label=LOOKS[method][0]) for method in methods]
    plots.legend_below(drawing, [*colours, *markers(rows), *counted, *dashed, *([shade] if shade else [])], columns=3)
    return drawing


def performed(axes: Axes, rows: Sequence[Row]) -> list[Line2D]:
    """Crosses where what is performed was counted as well, and their legend entry."""
    known = [row for row in rows if row.get("performed_flops_ratio")]
    for method in dict.fromkeys(row["method"] for row in known):
        mine = [row for row in known if row["method"] == method]
        axes.plot(
            [row["n"] for row in mine],
            [row["performed_flops_ratio"] for row in mine],
            color=LOOKS[method][1],
            marker="x",
            linestyle="",
            markeredgewidth=0.8,
            markersize=3.6,
        )
    return [Line2D([], [], color="0.35", linestyle="", marker="x", label="performed, call by call")] if known else []


def markers(rows: Sequence[Row]) -> list[Line2D]:
    """A legend entry for the marker of each problem, if there are several."""
    names = list(dict.fromkeys(r["problem"] for r in rows))
    if len(names) == 1:
        return []
    return [
        Line2D([], [], color="0.35", linestyle="", marker=marker, label=name)
        for marker, name in zip(MARKERS, names, strict=False)
    ]
