"""The picture of E07: sizes of expressions and operations of automatic differentiation against n."""

from __future__ import annotations

from typing import Any

from ..harness import plots
from ..harness.plots import COLOURS
from ..harness.spec import Row

SERIES = (
    ("derivative_tree", "derivative, written out", "vermilion", "o"),
    ("tree", "iterate, written out", "orange", "s"),
    ("reverse_flops", "flops of a gradient", "blue", "^"),
    ("derivative_shared", "derivative, shared parts once", "green", "D"),
    ("shared", "iterate, shared parts once", "sky", "v"),
)


def figure(rows: list[Row]) -> Any:
    """Five series on a logarithmic axis, the formulas dashed."""
    drawing, (axes,) = plots.panels(1, height=4.6, columns=1)
    ns = [row["n"] for row in rows]
    handles = []
    for column, label, colour, marker in SERIES:
        known = [(row["n"], row[column]) for row in rows if row.get(column)]
        xs, ys = [n for n, _ in known], [y for _, y in known]
        handles += axes.plot(xs, ys, color=COLOURS[colour], marker=marker, label=label, linestyle="")
    several = [n for n in ns if n > 1]
    handles.append(plots.theory(axes, several, lambda n: 9 * (n - 1) * 2 ** (n - 1) + 1, "9(n-1)2ⁿ⁻¹ + 1"))
    handles.append(plots.theory(axes, ns, lambda n: 6 * 2 ** (n - 1) - 5, "6·2ⁿ⁻¹ - 5", (2, 1.5)))
    handles.append(plots.theory(axes, several, lambda n: 10 * n - 7, "10n - 7", (6, 1.5, 1, 1.5)))
    handles.append(plots.theory(axes, several, lambda n: 3 * n, "3n", (1, 1)))
    axes.set_yscale("log")
    axes.set_xticks([n for n in ns if n % 4 == 0 or n == 1])
    axes.set_xlabel("iterate n of the logistic map")
    axes.set_ylabel("nodes, or flops")
    plots.legend_below(drawing, handles, columns=2)
    return drawing
