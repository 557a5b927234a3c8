"""Draws an evaluation trace as a graph: one scene, rendered to SVG by hand and to a matplotlib figure for the PNG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

UNIT = 130.0  # SVG pixels in a unit of the layout
RADIUS = 0.3


@dataclass(frozen=True)
class Node:
    """A circle with a name and a formula in it (in the subset of TeX that `_svg_formula` knows) and a line under it."""

    name: str
    formula: str
    below: str
    x: float
    y: float
    colour: str


@dataclass(frozen=True)
class Edge:
    """An arrow between two nodes with a text beside its middle."""

    start: Node
    end: Node
    label: str

    def ends(self) -> tuple[float, float, float, float]:
        """From rim to rim."""
        dx, dy = self.end.x - self.start.x, self.end.y - self.start.y
        length = (dx * dx + dy * dy) ** 0.5
        ux, uy = dx / length * RADIUS, dy / length * RADIUS
        return self.start.x + ux, self.start.y + uy, self.end.x - ux, self.end.y - uy

    def middle(self) -> tuple[float, float]:
        x1, y1, x2, y2 = self.ends()
        return x1 + 0.5 * (x2 - x1), y1 + 0.5 * (y2 - y1)


@dataclass(frozen=True)
class Scene:
    """What is drawn; y points up."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    caption: str

    @classmethod
    def of(cls, made: dict[str, Any]) -> Scene:
        """A scene from the dictionaries that it became."""
        edges = [Edge(Node(**e["start"]), Node(**e["end"]), e["label"]) for e in made["edges"]]
        return cls([Node(**n) for n in made["nodes"]], edges, made["caption"])

    def box(self) -> tuple[float, float, float, float]:
        xs, ys = [n.x for n in self.nodes], [n.y for n in self.nodes]
        return min(xs) - 0.75, min(ys) - 0.95, max(xs) + 0.75, max(ys) + 0.55


def _svg_formula(tex: str) -> str:
    """`v_{1}`, `\\ln` and `\\sin` as SVG text."""
    words = escape(tex.replace("-", "\N{MINUS SIGN}").replace("\\,", " ").replace("\\", ""))
    # The second tspan returns to the base line; it has to contain something to do so.
    return re.sub(
        r"_\{(.*?)\}",
        '<tspan dy="4" font-size="70%" font-style="normal">\\1</tspan><tspan dy="-4">&#8203;</tspan>',
        words,
    )


def to_svg(scene: Scene) -> str:
    """The scene as SVG text, with no library."""
    left, bottom, right, top = scene.box()
    width, height = (right - left) * UNIT, (top - bottom) * UNIT

    def at(x: float, y: float) -> tuple[str, str]:
        return f"{(x - left) * UNIT:.1f}", f"{(top - y) * UNIT:.1f}"

    def text(x: float, y: float, words: str, size: int, style: str = "") -> str:
        px, py = at(x, y - 0.35 * size / UNIT)  # the middle of the letters, without the patchy dominant-baseline
        return f'<text x="{px}" y="{py}" font-size="{size}" text-anchor="middle" {style}>{words}</text>'

    def label(x: float, y: float, words: str) -> str:
        """On a white ground, or the arrow would strike it through."""
        px, py = at(x, y)
        width = 7 * len(words) + 6  # digits at size 11
        ground = (
            f'<rect x="{float(px) - width / 2:.1f}" y="{float(py) - 8:.1f}" width="{width}" height="16" fill="white"/>'
        )
        return ground + text(x, y, escape(words), 11, 'fill="#0072B2"')

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 1 L10 5 L0 9 z" fill="#555"/></marker></defs>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for edge in scene.edges:
        x1, y1, x2, y2 = edge.ends()
        (sx, sy), (ex, ey) = at(x1, y1), at(x2, y2)
        parts.append(
            f'<line x1="{sx}" y1="{sy}" x2="{ex}" y2="{ey}" stroke="#555" stroke-width="1.3" marker-end="url(#tip)"/>'
        )
    for node in scene.nodes:
        px, py = at(node.x, node.y)
        parts.append(f'<circle cx="{px}" cy="{py}" r="{RADIUS * UNIT:.1f}" fill="{node.colour}" stroke="#222"/>')
        parts += [
            text(node.x, node.y + 0.09, _svg_formula(node.name), 15, 'font-style="italic"'),
            text(node.x, node.y - 0.11, _svg_formula(node.formula), 11),
            text(node.x, node.y - RADIUS - 0.12, escape(node.below), 11, 'fill="#222"'),
        ]
    parts += [label(*edge.middle(), edge.label) for edge in scene.edges]
    parts += [text((left + right) / 2, bottom + 0.16, escape(scene.caption), 11, 'fill="#444"'), "</svg>"]
    return "\n".join(parts) + "\n"
