"""The picture of the benchmark: our relative times among the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row
from . import published

GREY, INK = "0.62", "0.35"
DRAWN = ("Manual (C++)", "Theano (vector)", "Tapenade (C)", "Adept (C++)", "Autograd (split)")  # the lines of GMM
LOOKS = {
    "reverse": ("dualtape, reverse", COLOURS["blue"], "o"),
    "forward": ("dualtape, forward", COLOURS["vermilion"], "s"),
    "reverse, scan": ("dualtape, reverse, the loop by scan", COLOURS["sky"], "^"),
}
OURS = {mode: look[1] for mode, look in LOOKS.items()}


def _spread_out(heights: Sequence[float], gap: float) -> list[float]:
    """Heights, rising, moved up just enough to be a factor `gap` apart."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] * gap) if placed else height)
    return placed


def _published(axes: Axes) -> None:
    """Thin grey lines, each with its tool's name at its end."""
    sizes = [published.parameters(d, k) for d, k in published.GMM_SIZES]
    lines = {tool: [(p, t) for p, t in zip(sizes, published.GMM[tool], strict=True) if t] for tool in DRAWN}
    tools = sorted(lines, key=lambda tool: lines[tool][-1][1])
    for tool in tools:
        axes.plot(*zip(*lines[tool], strict=True), color=GREY, linewidth=0.8, marker=".", markersize=3)
    for tool, height in zip(tools, _spread_out([lines[tool][-1][1] for tool in tools], gap=1.5), strict=True):
        axes.text(sizes[-1] * 1.5, height, tool, color=INK, va="center")


def _mixtures(axes: Axes, rows: Sequence[Row]) -> list[Any]:
    """Relative time against the number of parameters: 10,000 points as lines, fewer as hollow marks."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("parameters P")
    axes.set_ylabel("time(derivative) / time(f)")
    large = [row for row in rows if row["observations"] == 10_000]
    handles = []
    for mode, (label, colour, marker) in LOOKS.items():
        points = sorted((row["parameters"], row["relative_time"]) for row in large if row["mode"] == mode)
        axes.plot([p for p, _ in points], [time for _, time in points], color=colour, marker=marker)
        handles.append(Line2D([], [], color=colour, marker=marker, label=label))
    hollow: dict[str, Any] = {"color": OURS["reverse"], "marker": "o", "linestyle": "", "markerfacecolor": "white"}
    few = [row for row in rows if row["mode"] == "reverse" and row["observations"] < 10_000]
    axes.plot([row["parameters"] for row in few], [row["relative_time"] for row in few], **hollow)
    handles.insert(1, Line2D([], [], label="the same, 1 and 1,000 points", **hollow))
    _published(axes)
    axes.set_xlim(10, 1e8)  # room for the names of the lines
    axes.set_xticks([10, 1e3, 1e5])
    axes.set_ylim(1, 1000)  # forward mode leaves it: P sweeps for P parameters
    python = [row["parameters"] for row in large if row["f_seconds"] / row["operations"] < plots.OVERHEAD_SECONDS]
    shade = plots.shade_overhead(axes, max(python, default=0) * 1.3)
    axes.set_title("a   mixtures (GMM), 10k points")
    return [*handles, *([shade] if shade else [])]


def _bars(axes: Axes, bars: Sequence[tuple[str, float, str]], title: str) -> None:
    """Horizontal bars of a quantity on a logarithmic axis, each with its number."""
    heights = range(len(bars))[::-1]
    axes.barh(list(heights), [value for _, value, _ in bars], color=[colour for *_, colour in bars], height=0.72)
    for height, (_, value, _) in zip(heights, bars, strict=True):
        axes.text(value * 1.08, height, f"{value:.3g}", color=INK, va="center")
    axes.set_xscale("log")
    axes.set_xlim(1, max(value for _, value, _ in bars) * 3)
    axes.set_yticks(list(heights), [name for name, *_ in bars])
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time(derivative) / time(f)")
    axes.set_title(title)


def _bundle(axes: Axes, rows: Sequence[Row]) -> None:
    """Our times at the smallest published scene among the published ones there."""
    mine = [row for row in rows if row["case"] == "ba1"]
    bars = [(f"here, {row['mode']}", row["relative_time"], OURS[row["mode"]]) for row in mine]
    bars += [(tool, float(times[0] or 0), GREY) for tool, times in published.BA.items()]
    _bars(axes, sorted(bars, key=lambda bar: bar[1]), "b   bundle adjustment, ba1")


def _others(axes: Axes, rows: Sequence[Row]) -> None:
    """The LSTM and the largest hands; nothing is published for them but pictures."""
    most = max(row["observations"] for row in rows if row["problem"] == "hand")
    bars, python = [], True
    for row in rows:
        lstm = row["problem"] == "LSTM" and row["mode"] in OURS
        if lstm or (row["problem"] == "hand" and row["observations"] == most):
            kind = f"{row['problem']} {row['case']}"
            bars.append((kind, row["relative_time"], OURS[row["mode"]]))
            python &= "scan" in row["mode"] or row["f_seconds"] < plots.OVERHEAD_SECONDS * row["operations"]
    _bars(axes, bars, f"c   LSTM and hand{', overhead-bound' if python else ''}")


def figure(rows: Sequence[Row]) -> Any:
    """Relative times among the published ones: mixtures against the number of parameters, the others as bars."""
    drawing, (mixtures, bundle, others, rest) = plots.panels(4, height=6.4)
    timed = [row for row in rows if row.get("relative_time") is not None]
    handles = _mixtures(mixtures, [row for row in timed if row["problem"] == "GMM"])
    _bundle(bundle, [row for row in timed if row["problem"] == "BA"])
    _others(others, [row for row in timed if row["problem"] in ("LSTM", "hand")])
    grey = Line2D([], [], color=GREY, marker=".", label="published 2018, other machine")
    plots.legend_in(rest, [*handles, grey])
    return drawing
