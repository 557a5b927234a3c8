"""The picture of the Hessian-vector products: cost in gradients, bytes against depth, operations per multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row

LOOKS = {
    "gradient": ("gradient", COLOURS["grey"], "D"),
    "fr": ("forward over reverse", COLOURS["vermilion"], "o"),
    "rf": ("reverse over forward", COLOURS["sky"], "s"),
    "rr": ("reverse over reverse", COLOURS["blue"], "^"),
}
PRODUCTS = ("fr", "rf", "rr")
QUANTITIES = {
    "wall_ratio": "time",
    "gradient_ratio": "flops",
    "matmul_ratio": "matmul\nflops",
    "tape_ratio": "tape\nbytes",
    "memory_ratio": "peak\nmemory",
}
BAR = 0.26


def _in_gradients(axes: Axes, rows: Sequence[Row], depth: int) -> Any:
    """Bars: each quantity over the gradient's, a group a quantity; the line that the bar is held to."""
    mine = {row["composition"]: row for row in rows if row["problem"] == "mlp" and row["size"] == depth}
    for number, composition in enumerate(PRODUCTS):
        places = [k + BAR * (number - 1) for k in range(len(QUANTITIES))]
        axes.bar(places, [mine[composition][q] for q in QUANTITIES], BAR * 0.92, color=LOOKS[composition][1])
    axes.set_xticks(range(len(QUANTITIES)), QUANTITIES.values())
    axes.set_xlim(-0.6, len(QUANTITIES) - 0.4)
    axes.set_ylabel("in units of a gradient")
    axes.grid(False, axis="x")
    axes.set_title(f"a   network, {depth} layers")
    at = list(QUANTITIES).index("matmul_ratio")  # the bound is on these alone
    return plots.theory(axes, (at - 0.45, at + 0.45), lambda x: 3, "3  (bound, matmul flops)")


def _bytes(axes: Axes, rows: Sequence[Row]) -> None:
    for composition, (_, colour, marker) in LOOKS.items():
        mine = [row for row in rows if row["problem"] == "mlp" and row["composition"] == composition]
        depths = [row["size"] for row in mine]
        axes.plot(depths, [row["tape_bytes"] / 2**20 for row in mine], color=colour, marker=marker)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(depths, [str(depth) for depth in depths])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("layers L")
    axes.set_ylabel("tape [MiB]")
    axes.set_title("b   what the tape keeps")


def _per_multiplication(axes: Axes, rows: Sequence[Row]) -> list[Patch]:
    """Bars: one more factor of a product, dropping no zeros (pale) and as dualtape does it."""
    for place, (composition, (_, colour, _)) in enumerate(LOOKS.items()):
        (row,) = (row for row in rows if row["problem"] == "product" and row["composition"] == composition)
        for shift, height, alpha in ((-0.2, row["plain_each"], 0.35), (0.2, row["each"], 1.0)):
            axes.bar(place + shift, height, 0.36, color=colour, alpha=alpha)
            axes.text(place + shift, height + 0.3, f"{height:g}", ha="center")
    axes.set_xticks(range(len(LOOKS)), ["gradient", "FoR", "RoF", "RoR"])
    axes.set_ylabel("flops per multiplication")
    axes.grid(False, axis="x")
    axes.set_title("c   product of n factors")
    return [Patch(color="0.3", alpha=0.35, label="no zeros dropped (exact)"), Patch(color="0.3", label="dualtape")]


def figure(rows: Sequence[Row], depth: int) -> Any:
    """Cost in gradients (left), bytes against depth (middle), operations per multiplication (right)."""
    drawing, (cost, held, counts, rest) = plots.panels(4, height=5.4)
    bound = _in_gradients(cost, rows, depth)
    _bytes(held, rows)
    shades = _per_multiplication(counts, rows)
    colours = [
        held.plot([], [], color=colour, marker=marker, label=label)[0] for label, colour, marker in LOOKS.values()
    ]
    plots.legend_in(rest, [*colours, bound, *shades])
    return drawing
