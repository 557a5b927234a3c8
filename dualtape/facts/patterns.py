"""The `pattern` column: which elements of a result can depend on which elements of an operand.

A pattern is a function ``pattern(row, op, k, j)`` of one operation as it was performed (``costs.Performed``: shapes,
keywords, and the values of operands without derivative, such as masks). For operand k and result j it gives two arrays
of one length: element ``into[i]`` of the result can depend on element ``of[i]`` of the operand, counted in C order. A
pair that is not there promises that the derivative is zero whatever the other operands are: pairs too many are never
wrong, pairs too few always are. A row that states none is ``dense``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any

import numpy as np

from dualtape.facts.costs import Performed, Shape

Pairs = tuple[Any, Any]
Pattern = Callable[[Any, Performed, int, int], Pairs]
NONE: Pairs = (np.zeros(0, np.intp), np.zeros(0, np.intp))


def reached(row: Any, op: Performed, k: int = 0, j: int = 0) -> Pairs:
    """The pairs of one operation: elements of result j, elements of operand k; none where there is no derivative."""
    if row.kind == "absent" or (row.edges and row.edges[k] is None):
        return NONE
    return row.pattern(row, op, k, j)  # type: ignore[no-any-return]


def linked(out: Shape, into: Sequence[Hashable], shape: Shape, of: Sequence[Hashable]) -> Pairs:
    """All pairs of elements that agree in the indices which both name.

    ``into`` names the axes of the result, ``of`` those of the operand, as subscripts of ``einsum`` do. An axis of
    length 1 agrees with every index, which is broadcasting.
    """
    sizes: dict[Hashable, int] = {}
    for name, n in zip((*into, *of), (*out, *shape), strict=True):
        if n != 1 or name not in sizes:
            sizes[name] = n
    full = tuple(sizes.values())
    indices = dict(zip(sizes, np.indices(full, np.intp, sparse=True), strict=True))

    def numbers(lengths: Shape, names: Sequence[Hashable]) -> Any:
        number, step = np.zeros((1,) * len(full), np.intp), 1
        for n, name in zip(lengths[::-1], names[::-1], strict=True):
            if n != 1:
                number = number + step * indices[name]
            step *= n
        return np.broadcast_to(number, full).ravel()

    return numbers(out, into), numbers(shape, of)


def from_the_end(shape: Shape) -> range:
    """The axes as broadcasting counts them."""
    return range(-len(shape), 0)


def dense(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Everything depends on everything."""
    n, m = prod(op.outs[j]), prod(op.shapes[k])
    return np.repeat(np.arange(n), m), np.tile(np.arange(m), n)


def elementwise(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Each element by itself, with broadcasting; nothing, if the partial is the number 0."""
    if getattr(row.edges[k], "factor", None) == 0:
        return NONE
    out, shape = op.outs[j], op.shapes[k]
    return linked(out, from_the_end(out), shape, from_the_end(shape))


def moved(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Of a kernel that moves, repeats or drops elements, or puts zeros: it is asked where their numbers go."""
    operands = [np.arange(1, prod(s) + 1).reshape(s) * (i == k) for i, s in enumerate(op.shapes)]
    for i, edge in enumerate(row.edges):
        if edge is None:  # a mask, an index: its value says where
            operands[i] = op.constants[i]
    went = np.ravel(row.function(*([operands] if row.kind == "joint" else operands), **op.params))
    into = np.flatnonzero(went)
    return into, went[into] - 1


def scattered(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Each element at the place that the keyword ``index`` reads; several may share one."""
    place = np.arange(prod(op.outs[j])).reshape(op.outs[j])[op.params["index"]]
    of = np.arange(prod(op.shapes[k])).reshape(op.shapes[k])
    return np.ravel(place), np.ravel(np.broadcast_to(of, np.shape(place)))


def reduced(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Each result on all that was reduced to it, over the keyword ``axis``: None or a tuple."""
    out, shape, axis = op.outs[j], op.shapes[k], op.params["axis"]
    axes = range(len(shape))
    left = axes if len(out) == len(shape) else [a for a in axes if axis is not None and a not in axis]
    return linked(out, left, shape, axes)


def compared(holds: Callable[[Any, Any], Any]) -> Pattern:
    """Each line by itself, along the keyword ``axis`` or the last axis: places in result and operand that compare."""

    def pattern(row: Any, op: Performed, k: int, j: int) -> Pairs:
        out, shape = op.outs[j], op.shapes[k]
        axis = op.params.get("axis", -1) % len(out) - len(out)
        lines: list[Hashable] = [None if a == axis else a for a in from_the_end(out)]
        into, of = linked(out, lines, shape, from_the_end(shape))
        kept = holds(np.unravel_index(into, out)[axis], np.unravel_index(of, shape)[axis])
        return into[kept], of[kept]

    return pattern


cumulative, crossed = compared(np.greater_equal), compared(np.not_equal)


def traced(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Each result on a diagonal of two axes."""
    shape, (rows, columns) = op.shapes[k], op.params["axes"]
    axes = range(len(shape))
    into, of = linked(op.outs[j], [a for a in axes if a not in (rows, columns)], shape, axes)
    place = np.unravel_index(of, shape)
    kept = place[columns] - place[rows] == op.params["offset"]
    return into[kept], of[kept]


def contracted(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """By the keyword ``subscripts``."""
    sources, target = op.params["subscripts"].split("->")
    return linked(op.outs[j], target, op.shapes[k], sources.split(",")[k])


def multiplied(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Rows by columns, for each pair of matrices of a stack; a vector is one row or one column."""
    out, shape = op.outs[j], op.shapes[k]
    free = [name for name, s in zip(("row", "column"), op.shapes, strict=True) if len(s) > 1]
    own = ["sum"] if len(shape) == 1 else ["row", "sum"] if k == 0 else ["sum", "column"]
    return linked(out, [*range(len(free) - len(out), 0), *free], shape, [*range(len(own) - len(shape), 0), *own])


def stacked(row: Any, op: Performed, k: int, j: int) -> Pairs:
    """Matrices of a stack by themselves, dense in each; of a second operand, right sides, columns by themselves."""
    out, shape = op.outs[j], op.shapes[k]
    stack = max(map(len, op.shapes)) - 2
    own = ["k", "j" if k else "l"][: len(shape)]
    return linked(out, [*range(-stack, 0), *"ij"[: len(out) - stack]], shape, [*range(len(own) - len(shape), 0), *own])


# By the names that users give them, who register operations of their own.
NAMED: dict[str, Pattern] = {"dense": dense, "elementwise": elementwise, "moved": moved, "stacked": stacked}
