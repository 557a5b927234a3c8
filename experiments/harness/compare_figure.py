"""The picture of `compare`: what each way to a derivative costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import plots


def draw(name: str, found: Sequence[Any], path: Path) -> None:
    """Predicted, performed and measured beside one another."""
    figure, (axes,) = plots.panels(1, height=0.35 * len(found) + 1.2)
    for mark, label, pick in (
        ("o", "predicted flops", lambda w: w.predicted),
        ("x", "performed flops", lambda w: w.performed),
        ("|", "measured time", lambda w: w.seconds),
    ):
        points = [(pick(w), k) for k, w in enumerate(found) if pick(w)]
        axes.plot([a for a, _ in points], [k for _, k in points], mark, mfc="none", ms=9, label=label)
    axes.set_yticks(range(len(found)), [w.name for w in found])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"times {name}")
    axes.legend()
    figure.savefig(path, dpi=300)
