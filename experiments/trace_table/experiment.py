"""E00: the two evaluation traces of the textbook example, read off the recorded operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import measure
from .graph import Edge, Node, Scene, to_svg

SPEC = Spec(
    id="E00",
    name="trace_table",
    title="the two evaluation traces of y = ln x1 + x1 x2 - sin x2 at (2, 5)",
    claims=(
        Claim(
            "primal-trace",
            "The primal trace passes 0.693, 10, 10.693, -0.959 on its way to 11.652.",
            "Baydin, Pearlmutter, Radul & Siskind, JMLR 18(153), 2018, tables 2 and 3, restated in lecture notes",
            "R",
        ),
        Claim(
            "partials",
            "One tangent sweep in direction (1, 0) gives 5.5; one adjoint sweep gives 5.5 and 1.7163378145367738, "
            "and passes every node on the way as by hand.",
            "the chain rule at (2, 5), in high precision",
            "D",
        ),
    ),
)

COLUMNS = (
    Column("node", "name in the published tables"),
    Column("operation", "recorded operation"),
    Column("expression", "the same, written out"),
    Column("value", "primal trace"),
    Column("tangent_x1", "tangent trace in direction (1, 0)"),
    Column("tangent_x2", "tangent trace in direction (0, 1)"),
    Column("adjoint", "adjoint trace"),
    Column("incoming", "adjoint as the sum of what the edges of the graph carry"),
    Column("published", "value printed in the source, three decimals"),
    Column("trace_gap", "largest distance of both tangents and the adjoint from those by hand"),
    Column("value_ulps", "distance of the value from the reference", "ulp"),
    Column("tangent_ulps", "largest distance of the two tangents from the reference", "ulp"),
    Column("adjoint_ulps", "distance of the adjoint from the reference", "ulp"),
    Column("forward_sweeps", "evaluations of f by the gradient in forward mode"),
    Column("reverse_sweeps", "evaluations of f by the gradient in reverse mode"),
)

POINT = (2.0, 5.0)
VALUE, PARTIALS = 11.652071455223084, (5.5, 1.7163378145367738)
PUBLISHED = {"v1": 0.693, "v2": 10.0, "v3": -0.959, "v4": 10.693, "v5": 11.652}
# Both tangents and the adjoint of each node by hand: partials of v_i by x1 and x2, and of y by v_i.
COS_5 = 0.28366218546322625
BY_HAND = {
    "v-1": (1.0, 0.0, 5.5),
    "v0": (0.0, 1.0, 2 - COS_5),
    "v1": (0.5, 0.0, 1.0),
    "v2": (5.0, 2.0, 1.0),
    "v3": (0.0, COS_5, -1.0),
    "v4": (5.5, 2.0, 1.0),
    "v5": (5.5, 2 - COS_5, 1.0),
}
NAMES = ("v-1", "v0", "v1", "v2", "v3", "v4", "v5")
SYMBOLS = {"add": "{} + {}", "subtract": "{} - {}", "multiply": "{} {}", "log": "ln {}", "sin": "sin {}"}
# Partial derivatives of the five operations, to label the edges; the table itself comes from the tape.
PARTIAL: dict[str, Callable[..., tuple[float, ...]]] = {
    "log": lambda x: (1 / x,),
    "sin": lambda x: (np.cos(x),),
    "multiply": lambda x, y: (y, x),
    "add": lambda x, y: (1.0, 1.0),
    "subtract": lambda x, y: (1.0, -1.0),
}
PLACES = dict(zip(NAMES, ((0, 2), (0, 0), (1.6, 2.4), (1.6, 1.2), (1.6, -0.2), (3.2, 1.7), (4.8, 0.8)), strict=True))


def f(x1: Any, x2: Any) -> Any:
    """Statement by statement in the order of the published tables."""
    v1 = np.log(x1)
    v2 = x1 * x2
    v3 = np.sin(x2)
    v4 = v1 + v2
    return v4 - v3


def _edges(nodes: Any) -> list[tuple[int, int, float]]:
    """(from, to, adjoint carried back along the edge)."""
    edges = []
    for node in nodes:
        if node.name in PARTIAL:
            partials = PARTIAL[node.name](*(nodes[i].value for i in node.inputs))
            edges += [(i, node.index, float(node.adjoint * p)) for i, p in zip(node.inputs, partials, strict=True)]
    return edges


def run(config: Config) -> Result:
    along = [inspect.trace(f, *POINT, tangents=t, adjoint=True).nodes for t in ((1.0, 0.0), (0.0, 1.0))]
    nodes = along[0]
    edges = _edges(nodes)
    rows: list[Row] = []
    for node, other, name in zip(nodes, along[1], NAMES, strict=True):
        inputs = [NAMES[i] for i in node.inputs]
        sources = [carried for start, _, carried in edges if start == node.index]
        rows.append(
            {
                "node": name,
                "operation": node.name,
                "expression": SYMBOLS[node.name].format(*inputs) if inputs else f"x{node.index + 1}",
                "value": float(node.value),
                "tangent_x1": float(node.tangent),
                "tangent_x2": float(other.tangent),
                "adjoint": float(node.adjoint),
                "incoming": sum(sources) if sources else 1.0,
                "published": PUBLISHED.get(name),
            }
        )
    for row in rows:
        found = (row["tangent_x1"], row["tangent_x2"], row["adjoint"])
        row["trace_gap"] = max(abs(a - b) for a, b in zip(found, BY_HAND[row["node"]], strict=True))
    last = rows[-1]
    last["value_ulps"] = measure.ulps(last["value"], VALUE)
    last["tangent_ulps"] = max(
        measure.ulps(last[f"tangent_x{i}"], partial) for i, partial in enumerate(PARTIALS, start=1)
    )
    for row, partial in zip(rows, PARTIALS, strict=False):
        row["adjoint_ulps"] = measure.ulps(row["adjoint"], partial)
    last |= _sweeps()
    scene = _scene(rows, edges)
    files = {"table.md": _markdown(rows), "table.tex": _latex(rows)}
    return Result(COLUMNS, rows, bars({}), files=files, drawn=(asdict(scene),))


def svg(rows: list[Row], scene: dict[str, Any]) -> str:
    """The picture, without matplotlib."""
    return to_svg(Scene.of(scene))


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The traces by hand, and the sweeps they take."""
    return [
        Bar("value", 'only(value_ulps, node == "v5")', "<=", 1),
        Bar("tangents", 'only(tangent_ulps, node == "v5")', "<=", 1),
        Bar("adjoints", 'max(adjoint_ulps, operation == "input")', "<=", 1),
        Bar("traces", "max(trace_gap)", "<=", 4.5e-16),
        Bar("edges-add-up", "max(abs(incoming - adjoint))", "<=", 1e-15),
        Bar("operations", 'count(operation != "input")', "==", 5),
        Bar("forward-sweeps", 'only(forward_sweeps, node == "v5")', "==", 2),
        Bar("reverse-sweeps", 'only(reverse_sweeps, node == "v5")', "==", 1),
        Bar("published", 'max(abs(value - published), operation != "input")', "<=", 5.0001e-4),
    ]


def _sweeps() -> dict[str, int]:
    """How often each mode evaluates f for the whole gradient."""
    forward, reverse = measure.Counted(f), measure.Counted(f)
    for direction in ((1.0, 0.0), (0.0, 1.0)):
        dt.jvp(forward, POINT, direction)
    dt.grad(reverse, argnums=(0, 1))(*POINT)
    return {"forward_sweeps": forward.calls, "reverse_sweeps": reverse.calls}


def _markdown(rows: list[Row]) -> str:
    lines = [
        "| node | | value | tangent, x1 | tangent, x2 | adjoint |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        numbers = " | ".join(f"{row[key]:.15g}" for key in ("value", "tangent_x1", "tangent_x2", "adjoint"))
        lines.append(f"| {row['node']} | {row['expression']} | {numbers} |")
    return "\n".join(lines) + "\n"


def _tex(expression: str) -> str:
    """`ln v-1` as TeX."""
    names = {"ln": r"\ln", "sin": r"\sin"}
    return " ".join(f"{w[0]}_{{{w[1:]}}}" if w[0] in "vx" else names.get(w, w) for w in expression.split())


def _latex(rows: list[Row]) -> str:
    lines = [
        r"\begin{tabular}{llrrrr}",
        r"\hline",
        r"node & & $v_i$ & $\dot v_i$, $\dot x = (1,0)$ & $\dot v_i$, $\dot x = (0,1)$ & $\bar v_i$ \\",
        r"\hline",
    ]
    for row in rows:
        numbers = " & ".join(f"${row[key]:.6g}$" for key in ("value", "tangent_x1", "tangent_x2", "adjoint"))
        lines.append(f"${_tex(row['node'])}$ & ${_tex(row['expression'])}$ & {numbers} \\\\")
    return "\n".join([*lines, r"\hline", r"\end{tabular}"]) + "\n"


def _scene(rows: list[Row], edges: list[tuple[int, int, float]]) -> Scene:
    colours = {"input": "#FBE3D0", "last": "#D5EFE4"}
    drawn = []
    for row in rows:
        kind = "last" if row is rows[-1] else row["operation"]
        below = f"value {row['value']:.4g}, adjoint {row['adjoint']:.4g}".replace("-", "\N{MINUS SIGN}")
        formula = _tex(row["expression"]).replace("} v", r"}\,v")  # a product needs its gap in either renderer
        drawn.append(Node(_tex(row["node"]), formula, below, *PLACES[row["node"]], colours.get(kind, "#E4EEF7")))
    arrows = [
        Edge(drawn[start], drawn[end], f"{carried:.4g}".replace("-", "\N{MINUS SIGN}")) for start, end, carried in edges
    ]
    caption = "arrows: evaluation; blue: the adjoint an edge carries back (they add up over the edges leaving a node)"
    return Scene(drawn, arrows, caption)
