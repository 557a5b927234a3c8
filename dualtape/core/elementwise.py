"""The elementwise family: the partial derivative of each operand in, both rules and the other columns out.

Length: one and two operands are written out in straight lines, forward and reverse, since this is where small arrays
spend their time; the two forms are best read side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from dualtape.core import costs
from dualtape.batching.level import composed
from dualtape.memory.blocks import LARGE, blockwise, product
from dualtape.core.cotangents import fit, fitted, guarded, stretched
from dualtape.core.recording import (
    NOTHING,
    OPERANDS,
    PLAIN,
    Rule,
    fresh,
    hold,
    name_of,
    ndarray,
    opened,
    publish,
    reads,
    stack_now,
)
from dualtape.core.table import TABLE, Row
from dualtape.core.tensor import Node, Tensor, new, new_id, operand


def numeric_pull(factor: float) -> Rule:
    """The reverse rule of an operand whose partial is a number."""

    def pull(entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, _ = entry
        if factor != 1:
            g = -g if factor == -1 else g * factor
        if like is not None:
            g = fitted(g, like)
        if i in cotangents:
            cotangents.add(i, g)
        else:
            cotangents[i] = g

    return pull


def partial_pull(rule: Rule, singular: bool, chooses: bool, whole: bool) -> Rule:
    """The reverse rule of an operand whose partial reads something: cotangent x conjugate partial."""
    plain = not singular and not chooses

    def pull(entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if plain and raw and kept.__class__ is Node and not cotangents.masked and g.size < LARGE:
            c = g * rule(kept.value).conjugate()  # conjugate() is free on reals
        elif kept.__class__ in PLAIN and not cotangents.masked:
            c = g * rule(kept)
        else:
            c = careful(kept, g, cotangents, raw)
        if like is not None:
            c = fitted(c, like)
        if i in cotangents:
            cotangents.add(i, c, like is None)
        else:
            cotangents[i] = c

    def careful(kept: Any, g: Any, cotangents: Any, raw: bool) -> Any:
        """The product of large arrays, under recorders, and where a zero must beat an infinity."""
        if singular and cotangents.quiet is None:
            cotangents.hush()
        zeros_win = cotangents.masked or singular
        if raw and not whole and g.__class__ is ndarray and g.size >= LARGE and blockwise(values := arrays(kept), g):
            return product(g, rule, values, zeros_win)
        d = partial_of(rule, kept, raw)
        if raw or not (d.__class__ is Tensor or g.__class__ is Tensor):
            c = g * d.conjugate()
            if zeros_win:
                c = guarded(g, c)
        elif zeros_win:
            c = TABLE["zero_wins"](g, d.conjugate())
        else:  # a Tensor first, so that Python and not NumPy finds the product
            c = d.conjugate() * g if d.__class__ is Tensor else g * d.conjugate()
        if chooses:
            c = guarded(d, c)
            cotangents.masked = True
        return c

    return pull


def partial_of(rule: Rule, kept: Any, raw: bool) -> Any:
    """A partial from what an entry keeps: a Node or constant, or a tuple of them if the rule reads several."""
    if kept.__class__ is tuple:
        return rule(*[opened(a, raw) for a in kept])
    return rule(opened(kept, raw))


def arrays(kept: Any) -> tuple[Any, ...]:
    """The plain values of what an entry keeps, one for each parameter of its rule."""
    if kept.__class__ is tuple:
        return tuple([opened(a, True) for a in kept])
    return (opened(kept, True),)


class Side(Row):
    """An elementwise operation seen from one operand: the derivative by it alone.

    Entry: the Side, identity, fit, kept. A unary operation has one, which is its row; a binary one has two, which
    read its entries whenever only one operand is followed.

    Forward: partial x tangent. Reverse: cotangent x conjugate partial, un-broadcast. A zero cotangent or tangent
    beats an infinite partial in rows marked ``singular``, and in all rows below one that selects elements.
    """

    __slots__ = ("chooses", "partial", "pick", "plain", "pull", "singular", "whole")

    def __init__(
        self, name: str, kernel: Any, partial: Rule | float, operands: int, singular: bool, chooses: bool
    ) -> None:
        super().__init__(name, kernel, kind="elementwise")
        # Which of the operands and the result an entry keeps: None, one position, or several.
        self.pick: Any = None
        self.partial: Any = partial
        self.singular = singular
        self.chooses = chooses
        self.whole = chooses  # its arrays are not cut into blocks
        self.plain = not singular and not chooses
        if callable(partial):
            slots = {n: k for k, n in enumerate(OPERANDS[:operands])} | {"out": operands}
            try:
                picks = [slots[n] for n in reads(partial)]
            except KeyError as error:
                raise ValueError(f"{name}: a partial may read {', '.join(slots)}, not {error}") from None
            self.pick = picks[0] if len(picks) == 1 else tuple(picks)
            self.pull = partial_pull(partial, singular, chooses, self.whole)  # type: ignore[method-assign]
        else:
            self.pull = numeric_pull(partial)  # type: ignore[method-assign]

    def keep(self, nodes: tuple[Any, ...]) -> Any:
        """What an entry keeps for the partial, of the operands and the result."""
        pick = self.pick
        if pick.__class__ is int:
            return nodes[pick]
        return None if pick is None else tuple([nodes[k] for k in pick])

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        x, out = operands[0], outs[0]
        return self, ids[0], fit(x.value, out.value), self.keep((x, out))

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, _, like, kept = entry
        s = self.along(tangents[0], kept, raw)
        return s if like is None else stretched(s, like[2], like[3])

    def along(self, t: Any, kept: Any, raw: bool) -> Any:
        """Tangent x partial."""
        if self.pick is None:
            return t if self.partial == 1 else t * self.partial
        if self.plain:
            if kept.__class__ is Node:
                if raw and t.size < LARGE:
                    return t * self.partial(kept.value)
            elif kept.__class__ in PLAIN:
                return t * self.partial(kept)
        large = raw and not self.whole and t.__class__ is ndarray and t.size >= LARGE and blockwise(arrays(kept), t)
        if self.singular:
            with np.errstate(divide="ignore", invalid="ignore"):  # an infinite slope is a result, no mishap
                if large:
                    return product(t, self.partial, arrays(kept), True)
                d = partial_of(self.partial, kept, raw)
                if d.__class__ is Tensor or t.__class__ is Tensor:
                    return TABLE["zero_wins"](t, d)
                s = guarded(t, t * d)
                return guarded(d, s) if self.chooses else s
        if large:
            return product(t, self.partial, arrays(kept), False)
        d = partial_of(self.partial, kept, raw)
        s = d * t if d.__class__ is Tensor else t * d
        return guarded(d, s) if self.chooses else s

    def advance(self, operands: Any, outs: Any, params: Any, tangents: Any, raw: bool) -> Any:
        out = outs[0]
        pick = self.pick
        kept = operands[0] if pick == 0 else out if pick == 1 else self.keep((operands[0], out))
        s = self.along(tangents[0], kept, raw)
        value = out.value
        return s if s.dtype is value.dtype else stretched(s, value.shape, value.dtype)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return (entry[1],)

    def restrict(self, entry: Any, needed: Any) -> Any:
        return entry

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return entry[3] if isinstance(entry[3], tuple) else (entry[3],)


class Binary(Row):
    """An elementwise operation of two operands. Entry if both are followed: row, entry of each side."""

    __slots__ = ("sides",)

    def __init__(self, name: str, kernel: Any, partials: Sequence[Rule | float], singular: bool, chooses: bool) -> None:
        super().__init__(name, kernel, kind="elementwise")
        self.sides = tuple(Side(name, kernel, p, 2, singular, chooses) for p in partials)

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        i, j = ids
        x, y = operands
        return self.pair_entry(i, j, x, y, outs[0])

    def pair_entry(self, i: int, j: int, x: Any, y: Any, out: Node) -> Any:
        """The entry of operands x and y, followed under i and j (0: not followed)."""
        nodes = (x, y, out)
        by_x, by_y = self.sides
        value = out.value
        shape, dtype = value.shape, value.dtype
        e: Any = None
        if i:
            v = x.value
            like = None if v.dtype is dtype and v.shape == shape else fit(v, value)
            pick = by_x.pick
            e = (by_x, i, like, nodes[pick] if pick.__class__ is int else None if pick is None else by_x.keep(nodes))
            if not j:
                return e
        v = y.value
        like = None if v.dtype is dtype and v.shape == shape else fit(v, value)
        pick = by_y.pick
        f = (by_y, j, like, nodes[pick] if pick.__class__ is int else None if pick is None else by_y.keep(nodes))
        return (self, e, f) if i else f

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, e, f = entry
        e[0].pull(e, g, cotangents, raw)
        f[0].pull(f, g, cotangents, raw)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, e, f = entry
        return e[0].push(e, tangents[:1], raw) + f[0].push(f, tangents[1:], raw)

    def advance(self, operands: Any, outs: Any, params: Any, tangents: Any, raw: bool) -> Any:
        nodes = (*operands, *outs)
        s, t = tangents
        by_x, by_y = self.sides
        if s is not None:
            pick = by_x.pick
            kept_x = nodes[pick] if pick.__class__ is int else None if pick is None else by_x.keep(nodes)
            if t is None:
                s = by_x.along(s, kept_x, raw)
        if t is not None:
            pick = by_y.pick
            kept_y = nodes[pick] if pick.__class__ is int else None if pick is None else by_y.keep(nodes)
            if s is None:
                s = by_y.along(t, kept_y, raw)
            else:  # one expression: NumPy adds large products in place
                s = by_x.along(s, kept_x, raw) + by_y.along(t, kept_y, raw)
        value = outs[0].value
        if s.dtype is value.dtype and s.shape == value.shape:
            return s
        return stretched(s, value.shape, value.dtype)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1][1], entry[2][1]

    def restrict(self, entry: Any, needed: Any) -> Any:
        _, e, f = entry
        if e[1] not in needed:
            return f
        return entry if f[1] in needed else e

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return (*entry[1][0].kept(entry[1]), *entry[2][0].kept(entry[2]))


def elementwise(
    kernel: Any,
    *partials: Rule | float,
    name: str | None = None,
    functions: Sequence[Any] = (),
    singular: bool = False,
    chooses: bool = False,
    changes_dtype: bool = False,
    nonlinear: int = 1,
    work: Any = None,
    doc: str | None = None,
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
        work: the cost column, if the family's default does not hold.
        doc: the docstring; NumPy's summary if None.

    Returns:
        The operation, a function of Tensors and arrays that returns a Tensor.
    """
    row_name = name_of(kernel, name)
    row: Any
    if len(partials) == 1:
        row = Side(row_name, kernel, partials[0], 1, singular, chooses)
        kernel = row.kernel = composed(row, kernel) if isinstance(kernel, FunctionType) else kernel
        call = unary_call(row, kernel, changes_dtype)
    elif len(partials) == 2:
        row = Binary(row_name, kernel, partials, singular, chooses)
        kernel = row.kernel = composed(row, kernel) if isinstance(kernel, FunctionType) else kernel
        call = binary_call(row, kernel)
    else:
        raise ValueError(f"{row_name}: an elementwise row has one or two partials, got {len(partials)}")
    row.work = work or costs.elementwise(len(partials), nonlinear=nonlinear)
    row.pattern = "elementwise"
    return publish(row, call, functions, doc)


def unary_call(row: Side, kernel: Any, changes_dtype: bool) -> Any:
    keeps_out = row.pick == 1
    simple = not changes_dtype and row.pick.__class__ is int

    def call(x: Any) -> Tensor:
        if x.__class__ is not Tensor:
            x = operand(x)
            if x.__class__ is not Tensor:
                return fresh(kernel(x))
        n = x._node
        out = new(Node)
        out.value = kernel(n.value)
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                if simple:
                    r.see_side(row, n, out if keeps_out else n, out, row, (n,), stack)
                else:
                    r.see(row, (n,), (out,), NOTHING, stack)
            elif n.id in known:
                if simple:
                    known[out.id] = (row, n.id, None, out if keeps_out else n)
                else:
                    known[out.id] = row.entry((n.id,), (n,), (out,), NOTHING)
        result = new(Tensor)
        result._node = out
        return result

    return call


def with_constant(row: Binary, kernel: Any, k: int) -> Callable[[Tensor, float], Tensor]:
    """The commonest case of a binary operation: operand k is a Tensor, the other one a Python number."""
    side = row.sides[k]
    pick = side.pick
    # Under Python's operators and NumPy's ufuncs a number changes neither shape nor dtype; SciPy's may promote.
    keeps_dtype = kernel.__class__ is not np.ufunc or getattr(np, kernel.__name__, None) is kernel
    simple = keeps_dtype and (pick is None or pick.__class__ is int)
    keeps_number, keeps_tensor = pick == 1 - k, pick == k

    def call(x: Tensor, number: float) -> Tensor:
        n = x._node
        out = new(Node)
        out.value = kernel(number, n.value) if k else kernel(n.value, number)
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                operands = (number, n) if k else (n, number)
                if simple:
                    kept = number if keeps_number else n if keeps_tensor else None if pick is None else out
                    r.see_side(side, n, kept, out, row, operands, stack)
                else:
                    r.see(row, operands, (out,), NOTHING, stack)
            elif n.id in known:
                if simple:
                    kept = number if keeps_number else n if keeps_tensor else None if pick is None else out
                    known[out.id] = (side, n.id, None, kept)
                elif k:
                    known[out.id] = row.entry((0, n.id), (number, n), (out,), NOTHING)
                else:
                    known[out.id] = row.entry((n.id, 0), (n, number), (out,), NOTHING)
        result = new(Tensor)
        result._node = out
        return result

    return call


def binary_call(row: Binary, kernel: Any) -> Any:
    with_number = [with_constant(row, kernel, k) for k in (0, 1)]
    tensor_first, number_first = with_number

    def reflected(y: Any, x: Any) -> Tensor:
        if x.__class__ in PLAIN and y.__class__ is Tensor:
            return number_first(y, x)
        return call(x, y)

    def call(x: Any, y: Any) -> Tensor:
        if y.__class__ in PLAIN and x.__class__ is Tensor:
            return tensor_first(x, y)
        if x.__class__ in PLAIN and y.__class__ is Tensor:
            return number_first(y, x)
        a: Any = x
        b: Any = y
        if x.__class__ is Tensor or (x.__class__ not in PLAIN and (x := operand(x)).__class__ is Tensor):
            a = x._node
            u, i = a.value, a.id
        else:
            a = u = x
            i = 0
        if y.__class__ is Tensor or (y.__class__ not in PLAIN and (y := operand(y)).__class__ is Tensor):
            b = y._node
            v, j = b.value, b.id
        else:
            b = v = y
            j = 0
        if not (i or j):
            if u.__class__ in PLAIN and v.__class__ in PLAIN:
                u = np.asarray(u)  # NumPy's arithmetic, also for two Python numbers
            return fresh(kernel(u, v))
        out = new(Node)
        out.value = value = kernel(u, v)
        if value.__class__ is complex:  # what Python makes of complex * np.float64
            out.value = np.complex128(value)
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                r.see(row, (a, b), (out,), NOTHING, stack)
                continue
            s = i if i in known else 0
            t = j if j in known else 0
            if s or t:
                entry = row.pair_entry(s, t, a, b, out)
                known[out.id] = hold(entry) if a.__class__ is ndarray or b.__class__ is ndarray else entry
        result = new(Tensor)
        result._node = out
        return result

    call.reflected = reflected  # type: ignore[attr-defined]
    return call
