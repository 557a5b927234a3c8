"""The picture of accuracy against the step: V-curves of the quotients, dualtape flat below them; and a histogram."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row
from ..shared.measure import EPS
from .curves import BY_HAND
from .experiment import BIN, BINS, MODES

# What is drawn later is drawn smaller, so that it hides nothing: curves that coincide are seen to.
LOOKS = {
    "forward": ("forward difference", COLOURS["green"], 4.2),
    "central": ("central difference", COLOURS["purple"], 2.8),
    "complex": ("complex step", COLOURS["orange"], 1.5),
    "ad_reverse": ("dualtape, reverse mode", COLOURS["blue"], 0),
    "ad_forward": ("dualtape, forward mode", COLOURS["vermilion"], 0),
}
LOWEST, HIGHEST = 1e-18, 1e2  # an error below the lowest is drawn there: it may be zero
NARROWEST, WIDEST = 1e-20, 1.0
LABELLED = {
    "1": 1e-12,
    "2": 1e-7,
    "\N{MINUS SIGN}1": 1e-3,
}  # the error at which a theory line is named: where there is room


Curve = Mapping[str, Any]


def _theories(curve: Curve) -> list[tuple[str, str, Callable[[float], float], Any]]:
    """Name, slope, error as a function of the step, dashes: what Taylor's formula and rounding predict."""
    return [
        ("h |f''| / 2|f'|", "1", lambda h: curve["bend"] * h / 2, None),
        ("h² |f'''| / 6|f'|", "2", lambda h: curve["twist"] * h * h / 6, (2, 1.5)),
        ("ε |f| / h|f'|", "\N{MINUS SIGN}1", lambda h: EPS * curve["noise"] / h, (6, 1.5, 1, 1.5)),
    ]


def _visible(error: float) -> float:
    return max(error, LOWEST)


def _curves(axes: Axes, rows: Sequence[Row], curve: Curve) -> list[Any]:
    """The V of one function, and its theory lines."""
    handles = []
    mine = [row for row in rows if row["function"] == curve["name"]]
    axes.set_xscale("log")
    axes.set_yscale("log")
    for method, (label, colour, size) in LOOKS.items():
        if method in MODES:
            (row,) = (row for row in mine if row["kind"] == "best" and row["method"] == method)
            height = _visible(row["error"])
            style: Any = "-" if method == "ad_reverse" else (0, (3, 3))
            look: Any = {"color": colour, "linestyle": style, "linewidth": 1.6, "label": label, "zorder": 4}
            handles += axes.plot((NARROWEST, WIDEST), (height, height), **look)
            continue
        steps = [row for row in mine if row["kind"] == "step" and row["method"] == method and row["h"] >= NARROWEST / 2]
        handles += axes.plot(
            [row["h"] for row in steps],
            [_visible(row["error"]) for row in steps],
            color=colour,
            marker="o",
            markersize=size,
            markeredgewidth=0,
            linestyle="",
            label=label,
        )
        envelope = [_visible(row["envelope"]) for row in steps]
        axes.plot([row["h"] for row in steps], envelope, color=colour, linewidth=0.7)
    for label, slope, formula, dashes in _theories(curve):
        inside = [float(h) for h in np.logspace(-16, 0, 200) if LOWEST * 30 < formula(h) < 3]
        if not inside:
            continue  # the derivative in it is zero
        handles.append(plots.theory(axes, inside, formula, label, dashes))
        at = min(inside, key=lambda h: abs(np.log10(formula(h)) - np.log10(LABELLED[slope])))
        beside = (8, -7 if slope in "12" else 5)
        axes.annotate(f"slope {slope}", (at, formula(at)), beside, textcoords="offset points")
    notes = []
    stepped = {row["h"]: row["error"] for row in mine if row["kind"] == "step" and row["method"] == "complex"}
    unseen = [error for h, error in stepped.items() if h < NARROWEST / 2]
    if unseen and max(unseen) <= max(error for h, error in stepped.items() if h < 1e-15 and h > NARROWEST / 2):
        notes.append("complex step:\nthe same down\nto h = 1e-300")
    if curve["source"] != BY_HAND:
        notes.append("reference:\n" + curve["source"].replace(" in ", "\nin "))
    axes.text(NARROWEST * 3, 1e-9, "\n\n".join(notes), va="center")  # below the left arm it is empty
    axes.set_xlim(NARROWEST, WIDEST * 2)
    axes.set_ylim(LOWEST / 2, HIGHEST)
    axes.set_xlabel("step h")
    axes.set_ylabel("relative error of the derivative")
    return handles


def _histogram(axes: Axes, rows: Sequence[Row]) -> None:
    for method in ("complex", *MODES):
        label, colour, _ = LOOKS[method]
        mine = [row for row in rows if row["kind"] == "bin" and row["method"] == method]
        edges = [row["bin"] for row in mine] + [BIN * BINS]
        axes.stairs([row["count"] for row in mine], edges, color=colour, linewidth=1.3, label=label)
    axes.set_xlim(0, BIN * BINS)
    axes.set_xlabel("error / what ε in every operation\nmakes of it (last bin: all beyond)")
    axes.set_ylabel("points")


def figure(rows: Sequence[Row], curves: Sequence[Curve]) -> Any:
    """A V-curve for each function, then the histogram where there is one."""
    histogram = any(row["kind"] == "bin" for row in rows)
    count = len(curves) + histogram
    drawing, panels = plots.panels(4 if count == 3 else count, height=6.2 if count == 3 else 4.2)
    handles: list[Any] = []
    for letter, axes, curve in zip("ab", panels, curves, strict=False):
        handles = _curves(axes, rows, curve)
        axes.set_title((f"{letter}   " if count > 1 else "") + f"{curve['formula']}  at  {curve['x']:g}")
    if histogram:
        _histogram(panels[2], rows)
        panels[2].set_title("c   A at random points")
        plots.legend_in(panels[3], handles)
    else:
        plots.legend_below(drawing, handles, columns=3)
    return drawing
