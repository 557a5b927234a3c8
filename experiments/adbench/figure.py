"""The picture of the benchmark: our relative times among the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row

# Gradient time over function time, GMM with 10k points: Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, LaTeX source
# (the relative table stands there commented out; absolute times are printed).
PUBLISHED_PARAMETERS = (30, 330, 1200, 3300)
PUBLISHED = {
    "Manual (C++)": (1.88, 2.94, 2.18, 3.13),
    "Theano (vector)": (3.01, 3.82, 3.26, 4.06),
    "Tapenade (C)": (3.74, 7.69, 4.09, 7.93),
    "Adept (C++)": (10.9, 21.7, 8.05, 25.2),
    "Autograd (split)": (34.5, 89.8, 34.3, 107),
}
LOOKS = {
    "reverse": ("dualtape, reverse", COLOURS["blue"], "o"),
    "forward": ("dualtape, forward (linearised, P pushes)", COLOURS["vermilion"], "s"),
}


def _spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Heights, rising, moved up just enough to be a factor `gap` apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] * gap) if placed else height)
    return placed


def _published(axes: Axes) -> None:
    tools = sorted(PUBLISHED, key=lambda tool: PUBLISHED[tool][-1])
    heights = _spread_out([PUBLISHED[tool][-1] for tool in tools], gap=1.45)
    for tool, height in zip(tools, heights, strict=True):
        axes.plot(PUBLISHED_PARAMETERS, PUBLISHED[tool], color="0.62", linewidth=0.8, marker=".", markersize=3)
        axes.text(PUBLISHED_PARAMETERS[-1] * 1.12, height, tool, color="0.35", va="center")


def _ours(axes: Axes, rows: Sequence[Row], quantity: str) -> list[Any]:
    handles = []
    for mode, (label, colour, marker) in LOOKS.items():
        mine = sorted((row for row in rows if row["mode"] == mode), key=lambda row: row["parameters"])
        xs, ys = [row["parameters"] for row in mine], [row[quantity] for row in mine]
        handles += axes.plot(xs, ys, color=colour, marker=marker, label=label)
    return handles


def figure(rows: Sequence[Row]) -> Any:
    """Counted work (left) and relative time among the published ones (right) against the number of parameters."""
    drawing, (work, wall) = plots.panels(2, height=3.6)
    gmm = [row for row in rows if row["problem"] == "GMM" and row["mode"] != "value"]
    for axes, quantity, label in (
        (work, "flops_ratio", "Work(gradient) / Work(f)   [flops]"),
        (wall, "relative_time", "time(gradient) / time(f)"),
    ):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("parameters P")
        axes.set_ylabel(label)
        handles = _ours(axes, gmm, quantity)
    work.set_xlim(10, 4000)
    work.set_ylim(1, 2 * max(row["flops_ratio"] for row in gmm))
    bound = plots.theory(work, (10, 4000), lambda p: 5, "5  (bound, reverse)")
    _published(wall)
    wall.set_xlim(10, PUBLISHED_PARAMETERS[-1] * 9)  # room for the names of the lines
    wall.set_xticks([10, 100, 1000])
    python = [row["parameters"] for row in gmm if row["f_seconds"] / row["operations"] < plots.OVERHEAD_SECONDS]
    shade = plots.shade_overhead(wall, max(python, default=0) * 1.3)
    work.set_title("a   GMM, counted operations")
    wall.set_title("b   GMM, wall clock")
    published = Line2D([], [], color="0.62", marker=".", label="published 2018, other machine, 10k points")
    plots.legend_below(drawing, [*handles, bound, published, *([shade] if shade else [])], columns=2)
    return drawing
