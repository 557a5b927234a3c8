"""The kinds of edges and rows: what each family keeps of an operation, its way back and its way along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dualtape.core.apart import apart, at_once, product_apart
from dualtape.core.calls import PLAIN
from dualtape.core.cotangents import cast_back, fitted
from dualtape.core.standin import OPEN, finite
from dualtape.core.table import OPERANDS, OUT, PARAMS, Edge, Row, Rule, flat
from dualtape.core.tensor import Node, Tensor, masks, opened
from dualtape.facts import patterns
from dualtape.memory import blocks

ndarray = np.ndarray
# Patterns of linear operations that only move and add. (Not the elementwise ones: the imaginary part of a mark is 0.)
MOVING = patterns.moved, patterns.reduced, patterns.scattered, patterns.traced, patterns.cumulative


# ------------------------------------------------------------------ one partial derivative
class Number(Edge):
    """An operand whose partial is a number."""

    __slots__ = ("conjugate", "factor")

    exact = False
    spreads = True

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
        factor = self.factor
        return t if factor == 1 else -t if factor == -1 else t * factor

    def outline(self, kept: Any, raw: bool) -> Any:
        return None if self.factor else 0.0

    def partly(self, kept: Any) -> bool:
        return not self.factor


class Partial(Edge):
    """An operand whose partial reads something: tangent x partial, cotangent x conjugate partial, un-broadcast.

    ``singular``: the partial can be infinite where the value is finite, and nobody is warned of it. ``chooses``: the
    partial is 0 where another operand is taken, and that zero beats an infinite cotangent or tangent; so does False
    where the other factor is a mask. ``whole``: the partial may look at all of an array.
    """

    __slots__ = ("chooses", "partial", "places", "plain", "singular", "whole")

    exact = False
    spreads = True

    def __init__(self, partial: Rule, pick: Any, singular: bool, chooses: bool) -> None:
        super().__init__(pick)
        self.partial = partial
        self.singular = singular
        self.chooses = self.places = self.whole = chooses
        self.plain = not singular and not chooses

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        selected = cotangents.masked
        if self.plain and raw and kept.__class__ is Node and not selected and g.size < blocks.LARGE:
            c = g * self.partial(kept.value).conjugate()  # conjugate() is free on reals
        elif kept.__class__ in PLAIN and not selected:
            c = g * self.partial(kept)
        else:
            if self.singular and cotangents.quiet is None:
                cotangents.hush()
            c = self.product(g, kept, raw, cotangents, True)
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
                return self.product(t, kept, raw, None, False)
        return self.product(t, kept, raw, None, False)

    def product(self, c: Any, kept: Any, raw: bool, cotangents: Any, back: bool) -> Any:
        """A cotangent times the conjugate partial, or a tangent times the partial: of large arrays in blocks, under
        recorders as Tensors, with 0 where another operand is taken or no target reaches."""
        if raw and not self.whole and c.__class__ is ndarray and c.size >= blocks.LARGE:
            values = kept if kept.__class__ is tuple else (kept,)
            values = tuple([opened(a, True) for a in values])
            if blocks.blockwise(values, c):  # real arrays
                p = blocks.product(c, self.partial, values)
                reach = None if cotangents is None or not (self.singular or cotangents.masked) else cotangents.reach
                return p if reach is None else apart(p, [reach.later(cotangents.at)])
        read = opened(kept, raw)
        d = self.partial(*read) if kept.__class__ is tuple else self.partial(read)
        if back:
            d = d.conjugate()
        zeros = []
        if self.chooses or (kept.__class__ is tuple and len(kept) == 1):  # partly taken
            zeros.append(d)
            if cotangents is not None and not cotangents.masked:
                cotangents.select(raw)
        apart_from = cotangents is not None and cotangents.reach is not None and (self.singular or cotangents.masked)
        tensors = d.__class__ is Tensor or c.__class__ is Tensor
        if not tensors:
            p = c * d
            if not (zeros or apart_from) or finite(p):
                return p
        if apart_from:
            zeros.append(cotangents.reach.later(cotangents.at))
        if zeros and tensors and not (at_once(c) or at_once(d)):
            return product_apart(c, d, zeros=tuple(zeros))
        if tensors:
            p = d * c if d.__class__ is Tensor else c * d  # a Tensor first: Python and not NumPy finds the product
        return apart(p, zeros) if zeros else p

    def keep(self, nodes: tuple[Any, ...], params: dict[str, Any]) -> Any:
        kept = super().keep(nodes, params)
        return (kept,) if kept is not nodes[OUT] and masks(kept) else kept

    def outline(self, kept: Any, raw: bool) -> Any:
        if not self.partly(kept):
            return None
        read = opened(kept, raw)
        return self.partial(*read) if kept.__class__ is tuple else self.partial(read)

    def partly(self, kept: Any) -> bool:
        return self.chooses or (kept.__class__ is tuple and len(kept) == 1)  # (a mask is kept in a tuple by itself)


# ------------------------------------------------------------------ linear, and linear in each of two
class Linear(Edge):
    """The operand of a linear operation: its own forward rule; the reverse rule is its transpose.

    ``transpose(g, shape, **params)`` maps a cotangent back to an operand of that shape.
    """

    __slots__ = ("moves", "places", "selects", "transpose")

    def __init__(self, transpose: Rule, selects: bool = False, places: bool = False) -> None:
        super().__init__(PARAMS)
        self.transpose = transpose
        self.selects = selects
        self.places = places

    def enter(self, row: Row, position: int) -> None:
        super().enter(row, position)
        self.moves = row.pattern in MOVING

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, (shape, dtype), params = entry
        if self.selects and not cotangents.masked:
            cotangents.select(raw)
        c = self.transpose(g, shape, **params)
        if c.dtype is not dtype:
            c = cast_back(c, dtype)
        if i in cotangents:
            cotangents.add(i, c)
        else:
            cotangents[i] = c

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        row = self.row
        if t.__class__ is ndarray and not OPEN[0]:  # (there may be a stand-in among the keywords)
            return row.function(t, **kept)
        return (row.call if t.__class__ is Tensor else row.kernel)(t, **kept)


class Factor(Edge):
    """One of two operands of an operation that is linear in each; the other one comes conjugated.

    ``transpose(g, other, shape, **params)`` is linear in the first two.
    """

    __slots__ = ("moves", "transpose")

    def __init__(self, transpose: Rule, other: int) -> None:
        super().__init__((other, PARAMS))
        self.transpose = transpose

    def back(self, g: Any, like: Any, kept: Any) -> Any:
        other, params = kept
        return self.transpose(g, other.conjugate(), like[0], **params)

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        other, params = opened(kept, raw)
        x, y = (other, t) if self.position else (t, other)
        row = self.row
        return (row.call if x.__class__ is Tensor or y.__class__ is Tensor else row.kernel)(x, y, **params)

    def enter(self, row: Row, position: int) -> None:
        super().enter(row, position)
        self.moves = row.pattern in (patterns.multiplied, patterns.contracted)

    def outline(self, kept: Any, raw: bool) -> Any:
        other, params = kept
        return np.broadcast_to(1.0, (other.value if other.__class__ is Node else other).shape), params

    def keywords(self, kept: Any) -> dict[str, Any]:
        return kept[1]  # type: ignore[no-any-return]


# ------------------------------------------------------------------ both rules written out
class Ruled(Edge):
    """An operand with both rules written out: a forward rule ``jvp(t, ...)``, a reverse rule ``vjp(g, ...)``.

    What follows in the signature is what the rule reads: ``x``, ``y``, ``z`` operands; ``out`` the result (a
    tuple, if several); ``shape`` and ``dtype`` of the operand, ``out_shape`` and ``out_dtype`` of the (first) result,
    ``results`` of them all; or a keyword by its name. Of several results, ``g`` is a tuple with None for those without
    a cotangent, and ``jvp`` returns a tuple. Names are turned into positions in what an entry keeps.
    """

    __slots__ = ("facts", "jvp", "jvp_reads", "moves", "selects", "vjp", "vjp_reads")

    def __init__(
        self, jvp: Rule, jvp_reads: Sequence[str], vjp: Rule, vjp_reads: Sequence[str], selects: bool = False
    ) -> None:
        names = list(dict.fromkeys((*jvp_reads, *vjp_reads)))
        kept = [n for n in names if n not in OF_OPERAND]
        super().__init__(tuple([OPERANDS.index(n) if n in OPERANDS else OUT if n == "out" else n for n in kept]))
        # Whether it keeps facts about the results, which are no keywords.
        self.facts = not OF_RESULTS.keys().isdisjoint(kept)
        places = {n: k for k, n in enumerate(kept)} | OF_OPERAND
        self.jvp, self.jvp_reads = jvp, [places[n] for n in jvp_reads]
        self.vjp, self.vjp_reads = vjp, [places[n] for n in vjp_reads]
        self.selects = self.moves = selects

    def keep(self, nodes: Any, params: dict[str, Any]) -> Any:
        if self.facts:
            outs = nodes[OUT] if nodes[OUT].__class__ is tuple else nodes[OUT:]
            params = params | {name: fact([out.value for out in outs]) for name, fact in OF_RESULTS.items()}
        return super().keep(nodes, params)

    def read(self, places: list[int], like: Any, kept: Any, raw: bool) -> list[Any]:
        """The values that a rule names."""
        return [opened(kept[k], raw) if k >= 0 else like[k] for k in places]

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if self.selects and not cotangents.masked:
            cotangents.select(raw)
        if g.__class__ is list:
            g = tuple(g)
        cotangents.add(i, cast_back(self.vjp(g, *self.read(self.vjp_reads, like, kept, raw)), like[1]))

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        return self.jvp(t, *self.read(self.jvp_reads, like, kept, raw))

# Names in rules that are read from shapes and dtypes: places from the end of an operand's likeness, and of all results.
OF_OPERAND = {"shape": -2, "dtype": -1}
OF_RESULTS: dict[str, Rule] = {
    "out_shape": lambda values: values[0].shape,
    "out_dtype": lambda values: values[0].dtype,
    "results": lambda values: tuple([(v.shape, v.dtype) for v in values]),
}


# ------------------------------------------------------------------ rules for all operands at once
class Together(Row):
    """A row whose rules are for all operands at once: concatenate joins a hundred as well as two.

    Its entry is the row, the identities of all operands (0: not followed), and what the rules read. (An entry for each
    operand, as other rows have, cost a ``stack`` of two numbers 20 % on a tape and 40 % under an accumulator.)
    """

    __slots__ = ()

    def shared(self, operands: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
        """What the rules read."""
        raise NotImplementedError

    def nodes(self, operands: Sequence[Any]) -> list[Any]:
        return [x if x.__class__ is Node else None for x in operands]

    def entry(self, operands: Sequence[Any], out: Any, params: dict[str, Any], known: Any = None) -> Any:
        ids = [x.id if x.__class__ is Node and (known is None or x.id in known) else 0 for x in operands]
        return (self, tuple(ids), self.shared(operands, out, params)) if any(ids) else None

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def restrict(self, entry: Any, needed: Any) -> Any:
        _, ids, shared = entry
        found = tuple([i if i in needed else 0 for i in ids])
        return (self, found, shared) if any(found) else None

    def kept(self, entry: Any) -> Iterable[Any]:
        return flat(entry[2])


class Joint(Together):
    """A linear operation of a list of operands: concatenate, stack.

    ``split(g, shapes, **params)`` gives the cotangents of all operands.
    """

    __slots__ = ("split",)

    moves = places = True
    split: Rule

    def shared(self, operands: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
        values = [a.value if a.__class__ is Node else a for a in operands]
        return tuple([v.shape for v in values]), tuple([v.dtype for v in values]), params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, (shapes, dtypes, params) = entry
        for i, c, dtype in zip(ids, self.split(g, shapes, **params), dtypes, strict=True):
            if i:
                if c.dtype is not dtype:
                    c = cast_back(c, dtype)
                if i in cotangents:
                    cotangents.add(i, c)
                else:
                    cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        shapes, dtypes, params = entry[2]
        filled = [np.zeros(s, d) if t is None else t for t, s, d in zip(tangents, shapes, dtypes, strict=True)]
        return (self.call if any([t.__class__ is Tensor for t in filled]) else self.kernel)(filled, **params)
