"""Draws the scene of an evaluation trace by matplotlib, as `graph` does without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from ..harness import plots
from ..harness.spec import Row
from .graph import RADIUS, Scene


def figure(rows: Sequence[Row], drawn: dict[str, Any]) -> Figure:
    """The trace as a graph; the scene was made from the rows."""
    scene = Scene.of(drawn)
    left, bottom, right, top = scene.box()
    drawing, (axes,) = plots.panels(1, height=plots.COLUMNS[2] * (top - bottom) / (right - left))
    axes.set_axis_off()
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_aspect("equal")

    def text(x: float, y: float, words: str, size: float, **style: Any) -> None:
        axes.text(x, y, words, ha="center", va="center", fontsize=size, zorder=4, **style)

    for edge in scene.edges:
        x1, y1, x2, y2 = edge.ends()
        axes.add_patch(
            FancyArrowPatch(
                (x1, y1), (x2, y2), arrowstyle="-|>", mutation_scale=9, color="#555555", shrinkA=0, shrinkB=0
            )
        )
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}
        text(*edge.middle(), edge.label, plots.POINTS, color="#0072B2", bbox=ground)
    for node in scene.nodes:
        circle = Circle((node.x, node.y), RADIUS, facecolor=node.colour, edgecolor="#222222", linewidth=0.8, zorder=3)
        axes.add_patch(circle)
        text(node.x, node.y + 0.09, f"${node.name}$", 11)
        text(node.x, node.y - 0.11, f"${node.formula}$", 8)
        text(node.x, node.y - RADIUS - 0.12, node.below, plots.POINTS)
    text((left + right) / 2, bottom + 0.16, scene.caption, plots.POINTS, color="#444444")
    return drawing
