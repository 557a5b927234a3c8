"""The pictures of the nesting experiment: confused duals beside right answers, and the particle's flights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row
from . import particle

LOOKS = {
    ("forward", "forward"): ("forward over forward", "o", COLOURS["vermilion"]),
    ("forward", "reverse"): ("forward over reverse", "s", COLOURS["orange"]),
    ("reverse", "forward"): ("reverse over forward", "^", COLOURS["sky"]),
    ("reverse", "reverse"): ("reverse over reverse", "D", COLOURS["blue"]),
}
DASHES = (0, (5, 2.5))
NAMES = {"sum": "$x+y$", "product": "$x\\,y$", "square": "$y^2$", "shift": "shift of exp"}


def _answers(axes: Axes, rows: Sequence[Row]) -> list[Any]:
    handles = []
    for place, case in enumerate(NAMES):
        mine = [row for row in rows if row["case"] == case]
        axes.hlines(mine[0]["reference"], place - 0.42, place + 0.42, colors="black", linewidth=0.9, linestyles=DASHES)
        for number, row in enumerate(mine):
            label, marker, colour = LOOKS[row["outer"], row["inner"]]
            x = place + 0.16 * (number - 2)
            (dot,) = axes.plot(x, row["value"], marker=marker, color=colour, linestyle="", markersize=5, label=label)
            handles.append(dot)
        (cross,) = axes.plot(place + 0.34, mine[0]["untagged"], "kx", markersize=7, label="untagged dual numbers")
    axes.set_xticks(range(len(NAMES)), NAMES.values())
    axes.set_xlim(-0.6, len(NAMES) - 0.4)
    axes.set_ylim(-0.3, 3.4)
    axes.set_xlabel("$g$ in  $D_x[\\,x\\,D_y\\,g\\,]$;  the shift twice")
    axes.set_ylabel("value")
    axes.grid(False, axis="x")
    (right,) = axes.plot([], [], color="black", linewidth=0.9, linestyle=DASHES, label="right answer")
    return [*handles[:4], right, cross]


def _flights(axes: Axes, iterates: Sequence[float]) -> None:
    shades = ("#C6DBEF", "#9ECAE1", "#6BAED6", "#3182BD", "#08306B")
    for number, w in enumerate(iterates):
        path = np.array([np.asarray(position) for position in particle.fly(w)])
        axes.plot(path[:, 0], path[:, 1], color=shades[number], label=f"$w_{number} = {w:.6f}$")
    axes.axhline(0, color="black", linewidth=0.7)
    axes.plot(10, 0, "o", color=COLOURS["vermilion"], markersize=6, label="fixed charge")
    axes.plot(10, 10 - iterates[-1], "o", color=COLOURS["green"], markersize=6, label="charge moved by $w$")
    axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")


def figure(rows: Sequence[Row], iterates: Sequence[float]) -> Any:
    """Right and confused answers (left), the flights of Newton's iterates (right)."""
    drawing, (answers, flights) = plots.panels(2, height=3.6)
    handles = _answers(answers, rows)
    _flights(flights, iterates)
    flights.legend(loc="best")
    answers.set_title("a   nested derivatives")
    flights.set_title("b   charged particle, Newton on $w$")
    plots.legend_below(drawing, handles, columns=3)
    return drawing
