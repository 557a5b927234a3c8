"""The elementwise family: the partial derivative by each operand in, both rules and the other columns out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from dualtape.core import costs
from dualtape.core.calls import PLAIN, call_of_one, call_of_two
from dualtape.core.cotangents import fitted, guarded
from dualtape.core.table import OPERANDS, OUT, Columns, Edge, Row, Rule, publish, reads
from dualtape.core.tensor import Node, Tensor, opened
from dualtape.memory import blocks

ndarray = np.ndarray


class Number(Edge):
    """An operand whose partial is a number."""

    __slots__ = ("conjugate", "factor")

    exact = False

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.conjugate = factor, factor.conjugate()

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, _ = entry
        factor = self.conjugate
        if factor != 1:
            g = -g if factor == -1 else g * factor
        if like is not None:
            g = fitted(g, like)
        if i in cotangents:
            cotangents.add(i, g)
        else:
            cotangents[i] = g

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        return t if self.factor == 1 else t * self.factor


class Partial(Edge):
    """An operand whose partial reads something: tangent x partial, cotangent x conjugate partial, un-broadcast.

    ``singular``: the partial can be infinite where the value is finite, and a zero cotangent or tangent then wins; so
    it does in all rows below one that selects elements. ``chooses``: the partial is 0 where another operand is taken,
    and that zero beats an infinite cotangent. ``whole``: the partial may look at all of an array.
    """

    __slots__ = ("chooses", "partial", "plain", "singular", "whole")

    exact = False

    def __init__(self, partial: Rule, pick: Any, singular: bool, chooses: bool) -> None:
        super().__init__(pick)
        self.partial = partial
        self.singular = singular
        self.chooses = self.whole = chooses
        self.plain = not singular and not chooses

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if self.plain and raw and kept.__class__ is Node and not cotangents.masked and g.size < blocks.LARGE:
            c = g * self.partial(kept.value).conjugate()  # conjugate() is free on reals
        elif kept.__class__ in PLAIN and not cotangents.masked:
            c = g * self.partial(kept)
        else:
            if self.singular and cotangents.quiet is None:
                cotangents.hush()
            c = self.product(g, kept, raw, cotangents.masked or self.singular)
            if self.chooses:
                cotangents.masked = True
        if like is not None:
            c = fitted(c, like)
        if i in cotangents:
            cotangents.add(i, c, like is None)
        else:
            cotangents[i] = c

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        if self.plain:
            if kept.__class__ is Node:
                if raw and t.size < blocks.LARGE:
                    return t * self.partial(kept.value)
            elif kept.__class__ in PLAIN:
                return t * self.partial(kept)
        elif self.singular:
            with np.errstate(divide="ignore", invalid="ignore"):  # an infinite slope is a result, no mishap
                return self.product(t, kept, raw, True, np.positive)
        return self.product(t, kept, raw, False, np.positive)

    def product(self, c: Any, kept: Any, raw: bool, zeros_win: bool, turned: Any = np.conjugate) -> Any:
        """A cotangent times the conjugate partial, or a tangent times the partial: of large arrays in blocks, under
        recorders as Tensors, with 0 where a zero of the factor beats an infinity of the partial."""
        if raw and not self.whole and c.__class__ is ndarray and c.size >= blocks.LARGE:
            values = kept if kept.__class__ is tuple else (kept,)
            values = tuple([opened(a, True) for a in values])
            if blocks.blockwise(values, c):  # real arrays
                return blocks.product(c, self.partial, values, guarded if zeros_win else None)
        read = opened(kept, raw)
        d = self.partial(*read) if kept.__class__ is tuple else self.partial(read)
        if turned is np.conjugate:
            d = d.conjugate()
        if zeros_win and (d.__class__ is Tensor or c.__class__ is Tensor):
            p = zero_wins(c, d)
        else:
            p = d * c if d.__class__ is Tensor else c * d  # a Tensor first: Python and not NumPy finds the product
            if zeros_win:
                p = guarded(c, p)
        return guarded(d, p) if self.chooses else p


def elementwise(
    kernel: Any,
    *partials: Rule | float,
    name: str | None = None,
    functions: Sequence[Any] = (),
    singular: bool = False,
    chooses: bool = False,
    changes_dtype: bool = False,
    nonlinear: int = 1,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter an elementwise operation in the table.

    Args:
        kernel: the NumPy ufunc or function of the operands.
        *partials: for each operand the derivative by it: a number, or a function of ``x``, ``y``, ``out``
            (what it names is what a tape keeps).
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        singular: the partial can be infinite where the value is finite; a zero cotangent then wins.
        chooses: the partial is 0 where another operand is taken; that zero beats an infinite cotangent.
        changes_dtype: the result of a unary operation may have another dtype (``abs`` of complex).
        nonlinear: how many nonlinear evaluations one partial or value counts (see ``costs.py``).
        doc: the docstring; NumPy's summary if None.
        **columns: facts, where the family's default does not hold.

    Returns:
        The operation, a function of Tensors and arrays that returns a Tensor.
    """
    row = elementwise_row(
        name or kernel.__name__, kernel, partials, singular, chooses, nonlinear=nonlinear, **columns
    )
    if len(partials) == 1:
        call = call_of_one(row, alike=not changes_dtype)
    else:
        # Under Python's operators and NumPy's ufuncs a number changes neither shape nor dtype; SciPy's may promote.
        ours = not isinstance(kernel, np.ufunc) or getattr(np, kernel.__name__, None) is kernel
        call = call_of_two(row, alike=ours)
    return publish(row, call, functions, doc)


def elementwise_row(
    name: str,
    kernel: Any,
    partials: Sequence[Rule | float],
    singular: bool,
    chooses: bool,
    nonlinear: int = 1,
    **columns: Unpack[Columns],
) -> Row:
    """The row of an elementwise operation."""
    count = len(partials)
    if count not in (1, 2):
        raise ValueError(f"{name}: an elementwise row has one or two partials, got {count}")
    edges = [edge_of(name, p, count, singular, chooses) for p in partials]
    facts: Columns = {"work": costs.elementwise(count, nonlinear=nonlinear), "pattern": "elementwise"}
    return Row(name, kernel, edges, kind="elementwise", **(facts | columns))


def edge_of(name: str, partial: Rule | float, operands: int, singular: bool, chooses: bool) -> Edge:
    """The edge of an operand by its partial."""
    if not callable(partial):
        return Number(partial)
    places = {n: k for k, n in enumerate(OPERANDS[:operands])} | {"out": OUT}
    try:
        picks = [places[n] for n in reads(partial)]
    except KeyError as error:
        raise ValueError(f"{name}: a partial may read {', '.join(places)}, not {error}") from None
    return Partial(partial, picks[0] if len(picks) == 1 else tuple(picks), singular, chooses)


# A cotangent or tangent times a partial that may be infinite: 0 where the first factor is 0. Rules under a recorder use
# it, so that what is recorded holds for other cotangents and tangents too.
zero_wins = elementwise(
    lambda x, y: guarded(x, x * y),
    lambda y: y,
    lambda x: x,
    name="zero_wins",
    singular=True,
    chooses=True,
    work=costs.elementwise(2, mults=1, partial=costs.Work()),
)
