"""One look for all figures, a journal's, safe for the colour-blind: axes, theory lines, shading, legends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

# Okabe & Ito's palette (jfly.uni-koeln.de/color), which survives the common colour-vision deficiencies.
COLOURS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "grey": "#7F7F7F",
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SHADE = "#EFEFEF"
OVERHEAD_SECONDS = 5e-6  # an operation faster than this is mostly Python, not arithmetic

# Widths of one and of two columns of a journal, in inches; type is 8 points at these.
COLUMNS = {1: 3.5, 2: 7.16}
POINTS = 8

STYLE: dict[str, Any] = {
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",
    "font.size": POINTS,
    "axes.titlesize": POINTS,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": POINTS,
    "axes.linewidth": 0.7,
    "axes.titlepad": 7.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.labelsize": POINTS,
    "ytick.labelsize": POINTS,
    "legend.fontsize": POINTS,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.4,
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "dualtape",  # the same drawing is the same file
}


def panels(count: int, height: float = 3.1, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure of one or two columns' width with `count` panels, two a row; its height in inches."""
    matplotlib.rcParams.update(STYLE)  # type: ignore[arg-type]  # rc keys are literals in the stubs
    figure = Figure(figsize=(COLUMNS[columns], height), layout="constrained")  # not pyplot's: it needs no display
    across = min(count, 2)
    axes = figure.subplots((count + 1) // 2, across, squeeze=False).ravel()
    return figure, list(axes[:count])


def log_log(axes: Axes, sizes: Sequence[float], x_label: str, y_label: str) -> None:
    """Both axes logarithmic, sizes as powers of two."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(min(sizes) / 1.25, max(sizes) * 1.25)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)


def theory(
    axes: Axes, xs: Sequence[float], formula: Callable[[float], float], label: str, dashes: Any = None
) -> Line2D:
    """A dashed black line, named by its formula; `dashes` tells several of them apart."""
    return dashed(axes, xs, [formula(x) for x in xs], label, dashes)


def dashed(axes: Axes, xs: Sequence[float], ys: Sequence[float], label: str, dashes: Any = None) -> Line2D:
    """The same from its points."""
    (line,) = axes.plot(xs, ys, color="black", linewidth=0.9, label=label, zorder=5)
    line.set_dashes(dashes or (5, 2.5))
    return line


def shade_overhead(axes: Axes, upto: float) -> Patch | None:
    """Grey ground below size `upto`, where Python and not arithmetic is being timed; its legend entry.

    Where that is everywhere, a word in the title says so, and no ground is grey.
    """
    left, right = axes.get_xlim()
    if upto <= left:
        return None
    if upto >= right:
        axes.set_title(axes.get_title("left") + ", all overhead-bound")
        return None
    axes.axvspan(left, min(upto, right), color=SHADE, zorder=0, linewidth=0)
    axes.set_xlim(left, right)
    return Patch(color=SHADE, label="overhead-bound (operation < 5 µs)")


def legend_below(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """One legend for all panels, under them, where no data can be."""
    figure.legend(handles=list(handles), loc="outside lower center", ncols=columns, columnspacing=1.4, handlelength=2.4)


def legend_in(axes: Axes, handles: Sequence[Any]) -> None:
    """One legend for all panels in the place of one of them."""
    axes.set_axis_off()
    axes.legend(handles=list(handles), loc="center left", handlelength=2.4, labelspacing=0.8)
