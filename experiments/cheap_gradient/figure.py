"""The picture of E04: for each operation the cost of its adjoint over its evaluation, declared and performed."""

from __future__ import annotations

from typing import Any

from ..harness import plots
from ..harness.spec import Row


def figure(rows: list[Row], size: int) -> Any:
    """Dots sorted by the declared ratio, with the bounds as lines; programs in a second panel."""
    chosen = [r for r in rows if r["part"] == "adjoint" and (r["kind"] == "program" or r["size"] == size)]
    chosen = [r for r in chosen if r["declared_flops_ratio"]]
    panels = [[r for r in chosen if r["kind"] == kind] for kind in ("operation", "program")]
    heights = [len(panel) for panel in panels]
    drawn, axes = plots.panels(2, height=0.128 * max(heights) + 1.2)
    for axis, panel, title in zip(axes, panels, ("a   operations", "b   programs"), strict=True):
        panel.sort(key=lambda r: r["declared_flops_ratio"])
        places = range(len(panel))
        axis.plot([r["declared_flops_ratio"] for r in panel], places, "o", mfc="none", label="declared (model)", ms=4)
        known = [(r["performed_flops_ratio"], k) for k, r in enumerate(panel) if r["performed_flops_ratio"]]
        axis.plot([a for a, _ in known], [k for _, k in known], "x", label="performed (NumPy calls)", ms=4)
        axis.axvline(5, color="black", dashes=(4, 2), lw=1, label="5 (bound, flops)")
        axis.set_yticks(list(places), [r["name"] for r in panel])
        axis.set_xlim(0.8, min(16.0, 1.1 * max(r["performed_flops_ratio"] or r["declared_flops_ratio"] for r in panel)))
        axis.set_ylim(-1, len(panel))
        axis.set_title(title)
        axis.set_xlabel("flops of adjoint and evaluation\nover flops of the evaluation")
    plots.legend_below(drawn, axes[1].get_legend_handles_labels()[0], 3)
    return drawn
