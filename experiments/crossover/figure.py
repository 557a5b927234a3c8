"""The picture of the crossover: which mode wins at every shape, in flops and in time; time against the chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row

# Each end has the colour of its mode in all figures; white is where the modes cost the same.
COLOUR_MAP = LinearSegmentedColormap.from_list("modes", [COLOURS["vermilion"], "white", COLOURS["blue"]])
WAYS = {
    ("forward", "loop"): ("forward, loop", COLOURS["vermilion"], "s"),
    ("reverse", "loop"): ("reverse, loop", COLOURS["blue"], "s"),
    ("reverse", "batched"): ("reverse, batched", COLOURS["sky"], "D"),
}


def shown(value: float) -> str:
    """An exponent in few characters."""
    if abs(value) < 0.05:
        return "0"
    return f"{value:+.1f}" if abs(value) < 9.95 else f"{value:+.0f}"


def _map(axes: Axes, rows: Sequence[Row], sizes: Sequence[int], quantity: str, limit: float) -> Any:
    """log2(forward / reverse), both batched, at every shape, with the diagonal that is predicted."""
    values = np.full((len(sizes), len(sizes)), np.nan)
    for row in rows:
        if (row["part"], row["mode"], row["way"]) == ("grid", "forward", "batched"):
            values[sizes.index(row["n_out"]), sizes.index(row["n_in"])] = np.log2(row[quantity])
    image = axes.imshow(values, cmap=COLOUR_MAP, norm=CenteredNorm(0, limit), origin="lower")
    edge = len(sizes) - 0.5
    axes.plot([-0.5, edge], [-0.5, edge], color="black", linewidth=0.9, dashes=(5, 2.5))
    for (i, j), value in np.ndenumerate(values):
        text = axes.text(
            j,
            i,
            shown(float(value)),
            ha="center",
            va="center",
        )
        text.set_path_effects([withStroke(linewidth=4, foreground=COLOUR_MAP(0.5 + value / (2 * limit)))])
    axes.set_xlim(-0.5, edge)
    axes.set_ylim(-0.5, edge)
    for set_ticks in (axes.set_xticks, axes.set_yticks):
        set_ticks(range(len(sizes)), [str(n) for n in sizes])
    axes.set_xlabel("inputs")
    axes.set_ylabel("outputs")
    axes.grid(False)
    return image


def _chunks(axes: Axes, rows: Sequence[Row]) -> list[Line2D]:
    """Time of the square Jacobian against the directions a sweep takes; the other ways as level lines."""
    mine = [row for row in rows if row["part"] == "chunks" and row["way"] == "chunked"]
    square = mine[0]["n_in"]
    sizes = [row["chunk"] for row in mine]
    plots.log_log(axes, sizes, "directions a sweep (chunk)", "time of the Jacobian [ms]")
    handles = axes.plot(
        sizes, [row["seconds"] * 1e3 for row in mine], color=COLOURS["orange"], marker="o", label="forward, in chunks"
    )
    for row in rows:
        if (row["part"], row["n_in"], row["n_out"]) == ("grid", square, square) and (row["mode"], row["way"]) in WAYS:
            label, colour, marker = WAYS[row["mode"], row["way"]]
            place = sizes[-1] if row["way"] == "batched" else sizes[0]
            handles += axes.plot(place, row["seconds"] * 1e3, color=colour, marker=marker, linestyle="", label=label)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"c   chunks, {square} by {square}")
    return handles


def figure(rows: Sequence[Row], sizes: Sequence[int]) -> Any:
    """Who wins in flops (left) and in time (middle); time against the chunk (right)."""
    drawing, (counted, timed, chunked, rest) = plots.panels(4, height=5.6)
    limit = float(np.log2(max(sizes)))
    _map(counted, rows, sizes, "over_reverse", limit)
    image = _map(timed, rows, sizes, "wall_over_reverse", limit)
    counted.set_title("a   counted operations")
    timed.set_title("b   wall clock")
    bar = drawing.colorbar(image, ax=[counted, timed], shrink=0.85, pad=0.02)
    bar.set_label("log₂ (forward / reverse), batched")
    ends = round(limit)
    bar.set_ticks(
        [-ends, 0, ends], labels=[f"\N{MINUS SIGN}{ends}\nforward\nwins", "0\nequal", f"+{ends}\nreverse\nwins"]
    )
    handles = _chunks(chunked, rows)
    line = Line2D([], [], color="black", linewidth=0.9, dashes=(5, 2.5), label="inputs = outputs  (predicted)")
    plots.legend_in(rest, [line, *handles])
    return drawing
