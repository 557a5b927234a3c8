"""Families of rows: one formula in, both derivative rules and the other columns out.

Length: the four families and the general form share their recording code, and reading them together is
what makes it plain that the two modes cannot drift apart.

Recording is straight-line code for one and two operands, since on small arrays Python is the whole cost: no
introspection, no loops over arguments, one tuple kept per operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from dualtape.core import costs
from dualtape.core.cotangents import cast_back, fit, fitted, guarded, stretched
from dualtape.core.recorders import STACK, is_tracked
from dualtape.core.table import TABLE, Row, add_row, register
from dualtape.core.tensor import Node, Tensor, frozen, new, new_id, operand, tensor, wrap

stack_now = STACK.get
ndarray = np.ndarray
NOTHING: dict[str, Any] = {}
# The entry under the second and later results of one operation; the first result's entry has the rules.
LATER = ()
PLAIN = (float, int)
OPERANDS = ("x", "y", "z")

Rule = Callable[..., Any]


# ------------------------------------------------------------------ recording
def record(row: Row, operands: tuple[Any, ...], outs: tuple[Node, ...], params: dict[str, Any]) -> None:
    """Tell the active recorders of an operation, outermost first.

    The order matters: the rule of an inner accumulator may read the result, and everybody outside must know
    the result by then.
    """
    stack = stack_now()
    for r in stack:
        known = r.entries
        if known is None:
            r.see(row, operands, outs, params, stack)
            continue
        ids = tuple([a.id if a.__class__ is Node and a.id in known else 0 for a in operands])
        if any(ids):
            entry = row.entry(ids, operands, outs, params)
            known[outs[0].id] = hold(entry) if any([a.__class__ is ndarray for a in operands]) else entry
            for out in outs[1:]:
                known[out.id] = LATER


def hold(kept: Any) -> Any:
    """An entry as a tape may keep it: constants that somebody could still write to are copied."""
    if kept.__class__ is ndarray:
        return frozen(kept)
    return tuple([hold(a) for a in kept]) if kept.__class__ is tuple else kept


def fresh(value: Any) -> Tensor:
    """The result of an operation on constants, as a Tensor that shares no memory with them."""
    value = np.asarray(value)[()]
    if isinstance(value, ndarray) and not value.flags.owndata:
        value = value.copy()
    return tensor(value)


def see_through(a: Node) -> Any:
    """What a rule works on under outer recorders: a Tensor if one of them follows it, else the plain array."""
    return wrap(a) if is_tracked(a) else a.value


def opened(a: Any, raw: bool) -> Any:
    """What a rule sees of something an entry keeps."""
    if a.__class__ is Node:
        return a.value if raw else see_through(a)
    if a.__class__ is tuple:
        return tuple([opened(b, raw) for b in a])
    return a


def reads(rule: Rule) -> tuple[str, ...]:
    """The parameter names of a rule: they say what it reads."""
    if not isinstance(rule, FunctionType):
        raise TypeError(f"a rule is a Python function whose parameter names say what it reads, not {rule!r}")
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def name_of(kernel: Any, name: str | None) -> str:
    return name or kernel.__name__


def publish(row: Row, call: Any, keys: Sequence[Any], doc: str | None) -> Any:
    """Give the row its callable and enter both in the table, or neither."""
    call.__name__ = call.__qualname__ = row.name
    call.__doc__ = doc or describe(row)
    call.row = row
    row.call = call
    kernel = row.kernel
    if isinstance(kernel, np.ufunc) or (getattr(kernel, "__module__", None) or "").startswith("numpy"):
        keys = (kernel, *keys)
    register(call, *keys)
    add_row(row)
    return call


def describe(row: Row) -> str:
    """The docstring of an operation that stands for a NumPy or SciPy function of the same arguments."""
    return (
        f"``{row.name}``, differentiable in both modes ({row.kind}).\n\n"
        f"Takes arrays and Tensors as NumPy's or SciPy's function of the name does; returns a Tensor.\n"
    )


# ------------------------------------------------------------------ elementwise
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


def partial_pull(rule: Rule, singular: bool, chooses: bool) -> Rule:
    """The reverse rule of an operand whose partial reads something: cotangent x conjugate partial."""
    plain = not singular and not chooses

    def pull(entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if plain and raw and kept.__class__ is Node and not cotangents.masked:
            # One expression, so that NumPy can put a large product where the partial was; conjugate() is free on reals.
            c = g * rule(kept.value).conjugate()
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
        """The product, under recorders, and where a zero must beat an infinity."""
        if singular and cotangents.quiet is None:
            cotangents.hush()
        d = partial_of(rule, kept, raw)
        zeros_win = cotangents.masked or singular
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


class Side(Row):
    """An elementwise operation seen from one operand: the derivative by it alone.

    Entry: the Side, identity, fit, kept. A unary operation has one, which is its row; a binary one has two, which
    read its entries whenever only one operand is followed.

    Forward: partial x tangent. Reverse: cotangent x conjugate partial, un-broadcast. A zero cotangent or tangent
    beats an infinite partial in rows marked ``singular``, and in all rows below one that selects elements.
    """

    __slots__ = ("chooses", "partial", "pick", "plain", "pull", "singular")

    def __init__(
        self, name: str, kernel: Any, partial: Rule | float, operands: int, singular: bool, chooses: bool
    ) -> None:
        super().__init__(name, kernel, kind="elementwise")
        # Which of the operands and the result an entry keeps: None, one position, or several.
        self.pick: Any = None
        self.partial: Any = partial
        self.singular = singular
        self.chooses = chooses
        self.plain = not singular and not chooses
        if callable(partial):
            slots = {n: k for k, n in enumerate(OPERANDS[:operands])} | {"out": operands}
            try:
                picks = [slots[n] for n in reads(partial)]
            except KeyError as error:
                raise ValueError(f"{name}: a partial may read {', '.join(slots)}, not {error}") from None
            self.pick = picks[0] if len(picks) == 1 else tuple(picks)
            self.pull = partial_pull(partial, singular, chooses)  # type: ignore[method-assign]
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
        if self.plain and raw and kept.__class__ is Node:
            return t * self.partial(kept.value)
        if self.singular:
            with np.errstate(divide="ignore", invalid="ignore"):  # an infinite slope is a result, no mishap
                d = partial_of(self.partial, kept, raw)
                if d.__class__ is Tensor or t.__class__ is Tensor:
                    return TABLE["zero_wins"](t, d)
                return guarded(t, t * d)
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
        pick = by_x.pick
        kept_x = nodes[pick] if pick.__class__ is int else None if pick is None else by_x.keep(nodes)
        pick = by_y.pick
        kept_y = nodes[pick] if pick.__class__ is int else None if pick is None else by_y.keep(nodes)
        if t is None:
            s = by_x.along(s, kept_x, raw)
        elif s is None:
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
        call = unary_call(row, kernel, changes_dtype)
    elif len(partials) == 2:
        row = Binary(row_name, kernel, partials, singular, chooses)
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
                r.see(row, (number, n) if k else (n, number), (out,), NOTHING, stack)
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


# ------------------------------------------------------------------ linear
class Linear(Row):
    """A linear operation of one operand: its own forward rule; the reverse rule is its transpose.

    ``transpose(g, shape, **params)`` maps a cotangent back to an operand of that shape.
    Entry: row, identity, shape, dtype, params.
    """

    __slots__ = ("selects", "transpose")

    def __init__(self, name: str, kernel: Any, transpose: Rule, selects: bool) -> None:
        super().__init__(name, kernel, kind="linear")
        self.transpose = transpose
        self.selects = selects

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        value = operands[0].value
        return self, ids[0], value.shape, value.dtype, params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, shape, dtype, params = entry
        if self.selects:
            cotangents.masked = True
        c = self.transpose(g, shape, **params)
        if c.dtype is not dtype:
            c = cast_back(c, dtype)
        if i in cotangents:
            cotangents.add(i, c)
        else:
            cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        return self.advance((), (), entry[4], tangents, raw)

    def advance(self, operands: Any, outs: Any, params: Any, tangents: Any, raw: bool) -> Any:
        t = tangents[0]
        return self.kernel(t, **params) if t.__class__ is not Tensor else self.call(t, **params)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return (entry[1],)

    def restrict(self, entry: Any, needed: Any) -> Any:
        return entry

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return tuple(a for a in entry[4].values() if isinstance(a, ndarray))


def linear(
    kernel: Any,
    transpose: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    selects: bool = False,
    internal: bool = False,
    work: Any = costs.moves,
    doc: str | None = None,
) -> Any:
    """Enter a linear operation of one array operand; axes and shapes are keywords.

    Args:
        kernel: ``kernel(x, **params)`` on plain arrays.
        transpose: ``transpose(g, shape, **params)``, of operations that have rows themselves.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        internal: an adjoint helper: plain arrays in, plain arrays out, so that rules stay plain NumPy.
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Linear(name_of(kernel, name), kernel, transpose, selects)
    row.work = work

    def call(x: Any, **params: Any) -> Any:
        if x.__class__ is not Tensor:
            if internal:
                return kernel(x, **params)
            x = operand(x)
            if x.__class__ is not Tensor:
                return fresh(kernel(x, **params))
        n = x._node
        value = n.value
        out = Node(kernel(value, **params))
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                r.see(row, (n,), (out,), params, stack)
            elif n.id in known:
                known[out.id] = (row, n.id, value.shape, value.dtype, params)
        return wrap(out)

    return publish(row, call, functions, doc)


# ------------------------------------------------------------------ bilinear
class Bilinear(Row):
    """An operation linear in each of two operands.

    ``transposes`` are ``(g, y, shape_of_x, **params)`` and ``(g, x, shape_of_y, **params)``; the operand comes
    conjugated. Entry: row, identity of x, y, shape and dtype of x; likewise for y; params.
    """

    __slots__ = ("transposes",)

    def __init__(self, name: str, kernel: Any, transposes: tuple[Rule, Rule]) -> None:
        super().__init__(name, kernel, kind="bilinear")
        self.transposes = transposes

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        i, j = ids
        x, y = operands
        return (
            self,
            i,
            y if i else None,
            (x.value.shape, x.value.dtype) if i else None,
            j,
            x if j else None,
            (y.value.shape, y.value.dtype) if j else None,
            params,
        )

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, y, like_x, j, x, like_y, params = entry
        for id_, other, like, transpose in ((i, y, like_x, self.transposes[0]), (j, x, like_y, self.transposes[1])):
            if id_:
                c = cast_back(transpose(g, opened(other, raw).conjugate(), like[0], **params), like[1])
                if id_ in cotangents:
                    cotangents.add(id_, c)
                else:
                    cotangents[id_] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, i, y, _, j, x, _, params = entry
        s, t = tangents
        if not j:
            return self.product(s, opened(y, raw), params)
        second = self.product(opened(x, raw), t, params)
        return self.product(s, opened(y, raw), params) + second if i else second

    def product(self, x: Any, y: Any, params: Any) -> Any:
        """The operation itself, on arrays or on Tensors."""
        if x.__class__ is Tensor or y.__class__ is Tensor:
            return self.call(x, y, **params)
        return self.kernel(x, y, **params)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1], entry[4]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, i, y, like_x, j, x, like_y, params = entry
        if i not in needed:
            i, y = 0, None
        if j not in needed:
            j, x = 0, None
        return row, i, y, like_x, j, x, like_y, params

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return entry[2], entry[5]


def bilinear(
    kernel: Any,
    transpose_x: Rule,
    transpose_y: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    work: Any = None,
    doc: str | None = None,
) -> Any:
    """Enter a bilinear operation.

    Args:
        kernel: ``kernel(x, y, **params)`` on plain arrays.
        transpose_x: ``(g, y, shape_of_x, **params)``, linear in g and y.
        transpose_y: ``(g, x, shape_of_y, **params)``.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        work: the cost column; by default that of a contraction.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Bilinear(name_of(kernel, name), kernel, (transpose_x, transpose_y))
    row.work = work or costs.bilinear(costs.contraction)
    return publish(row, several_call(row, kernel), functions, doc)


def several_call(row: Row, kernel: Any) -> Any:
    """The callable of a row with any number of operands and results."""

    def call(*args: Any, **params: Any) -> Any:
        operands = [operand(a) for a in args]
        nodes = tuple([a._node if a.__class__ is Tensor else a for a in operands])
        values = [n.value if n.__class__ is Node else n for n in nodes]
        result = kernel(*values, **params)
        if not any(n.__class__ is Node for n in nodes):
            return tuple([fresh(v) for v in result]) if row.outputs > 1 else fresh(result)
        if row.outputs > 1:
            outs = tuple([Node(v) for v in result])
            record(row, nodes, outs, params)
            return tuple([wrap(out) for out in outs])
        out = Node(result)
        record(row, nodes, (out,), params)
        return wrap(out)

    return call


# ------------------------------------------------------------------ joining many operands
class Joint(Row):
    """A linear operation of a list of operands: concatenate, stack.

    ``parts(g, shapes, **params)`` gives the cotangents of all operands.
    Entry: row, identities, (shapes, dtypes), params.
    """

    __slots__ = ("parts",)

    def __init__(self, name: str, kernel: Any, parts: Rule) -> None:
        super().__init__(name, kernel, kind="joint")
        self.parts = parts

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        values = [a.value if a.__class__ is Node else a for a in operands]
        return self, ids, tuple([v.shape for v in values]), tuple([v.dtype for v in values]), params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, shapes, dtypes, params = entry
        for i, c, dtype in zip(ids, self.parts(g, shapes, **params), dtypes, strict=True):
            if i:
                if c.dtype is not dtype:
                    c = cast_back(c, dtype)
                if i in cotangents:
                    cotangents.add(i, c)
                else:
                    cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, _, shapes, dtypes, params = entry
        filled = [np.zeros(s, d) if t is None else t for t, s, d in zip(tangents, shapes, dtypes, strict=True)]
        if any([t.__class__ is Tensor for t in filled]):
            return self.call(filled, **params)
        return self.kernel(filled, **params)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, ids, *rest = entry
        return (row, tuple([i if i in needed else 0 for i in ids]), *rest)

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return ()


def joint(
    kernel: Any,
    parts: Rule,
    *,
    name: str,
    functions: Sequence[Any] = (),
    work: Any = costs.moves,
    doc: str | None = None,
) -> Any:
    """Enter a linear operation of a list of operands.

    Args:
        kernel: ``kernel(list_of_arrays, **params)``.
        parts: ``parts(g, shapes, **params)``, the cotangents of the operands, one after the other.
        name: the row's name.
        functions: other names and functions that this row answers for.
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation, a function of a list.
    """
    row = Joint(name, kernel, parts)
    row.work = work

    def call(items: Any, **params: Any) -> Any:
        operands = [operand(a) for a in items]
        nodes = tuple([a._node if a.__class__ is Tensor else np.asarray(a) for a in operands])
        value = kernel([n.value if n.__class__ is Node else n for n in nodes], **params)
        if not any([n.__class__ is Node for n in nodes]):
            return fresh(value)
        out = Node(value)
        record(row, nodes, (out,), params)
        return wrap(out)

    return publish(row, call, functions, doc)


# ------------------------------------------------------------------ anything else
class General(Row):
    """An operation with both rules written out, one function per operand in each.

    A reverse rule is ``vjp(g, ...)``, a forward rule ``jvp(t, ...)``; the forward contributions are summed.
    What follows in the signature is what the rule reads: ``x``, ``y``, ``z`` operands; ``out`` the result (a
    tuple, if several); ``shape`` and ``dtype`` of the operand the rule belongs to, ``out_shape`` and ``out_dtype``
    of the (first) result; or a keyword by its name.
    Of several results, ``g`` is a tuple with None for those without a cotangent, and ``jvp`` returns a tuple.

    Entry: row, identities, identities of all results (if several), kept nodes, (shape, dtype) per operand, params.
    """

    __slots__ = ("jvps", "needs", "reads_result_type", "selects", "vjps")

    def __init__(
        self, name: str, kernel: Any, jvps: Sequence[Rule], vjps: Sequence[Rule], outputs: int, selects: bool
    ) -> None:
        super().__init__(name, kernel, kind="general", outputs=outputs)
        if len(jvps) != len(vjps):
            raise ValueError(f"{name}: {len(jvps)} forward and {len(vjps)} reverse rules; each operand needs both")
        self.jvps = [(rule, reads(rule)[1:]) for rule in jvps]
        self.vjps = [(rule, reads(rule)[1:]) for rule in vjps]
        self.selects = selects
        named = {name for _, names in (*self.jvps, *self.vjps) for name in names}
        self.reads_result_type = not named.isdisjoint(("out_shape", "out_dtype"))
        # For each operand, the slots its two rules read: operands by position, -1 for the result.
        self.needs = [
            {OPERANDS.index(n) if n != "out" else -1 for n in (*fwd[1], *rev[1]) if n in (*OPERANDS, "out")}
            for fwd, rev in zip(self.jvps, self.vjps, strict=True)
        ]

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        needed = set().union(*(need for i, need in zip(ids, self.needs, strict=True) if i))
        kept = tuple([a if k in needed else None for k, a in enumerate(operands)])
        kept += (outs if self.outputs > 1 else outs[0],) if -1 in needed else (None,)
        likes = tuple(
            [(a.value.shape, a.value.dtype) if i else None for i, a in zip(ids, operands, strict=True)]
        )
        if self.reads_result_type:
            params = {**params, "out_shape": outs[0].value.shape, "out_dtype": outs[0].value.dtype}
        out_ids = tuple([out.id for out in outs]) if self.outputs > 1 else None
        return self, ids, out_ids, kept, likes, params

    def arguments(self, names: tuple[str, ...], k: int, entry: Any, raw: bool) -> list[Any]:
        """The values a rule of operand ``k`` names."""
        _, _, _, kept, likes, params = entry
        found: list[Any] = []
        for name in names:
            if name in OPERANDS:
                found.append(opened(kept[OPERANDS.index(name)], raw))
            elif name == "out":
                found.append(opened(kept[-1], raw))
            elif name == "shape":
                found.append(likes[k][0])
            elif name == "dtype":
                found.append(likes[k][1])
            else:
                found.append(params[name])
        return found

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, out_ids, _, likes, _ = entry
        if self.selects:
            cotangents.masked = True
        if out_ids is not None:
            g = (g, *(cotangents.pop(i, None) for i in out_ids[1:]))
            if all(c is None for c in g):
                return
        for k, i in enumerate(ids):
            if i:
                rule, names = self.vjps[k]
                c = cast_back(rule(g, *self.arguments(names, k, entry, raw)), likes[k][1])
                cotangents.add(i, c)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        total: Any = None
        for k, t in enumerate(tangents):
            if t is None or not entry[1][k]:
                continue
            rule, names = self.jvps[k]
            part = rule(t, *self.arguments(names, k, entry, raw))
            if total is None:
                total = part
            elif self.outputs > 1:
                total = tuple([a + b for a, b in zip(total, part, strict=True)])
            else:
                total = total + part
        return total

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, ids, *rest = entry
        return (row, tuple([i if i in needed else 0 for i in ids]), *rest)

    def kept(self, entry: Any) -> tuple[Any, ...]:
        kept = entry[3]
        outs = kept[-1] if isinstance(kept[-1], tuple) else (kept[-1],)
        return (*kept[:-1], *outs, *(a for a in entry[5].values() if isinstance(a, ndarray)))


def general(
    kernel: Any,
    *,
    jvp: Rule | Sequence[Rule],
    vjp: Rule | Sequence[Rule],
    name: str | None = None,
    functions: Sequence[Any] = (),
    outputs: int = 1,
    selects: bool = False,
    work: Any = None,
    doc: str | None = None,
) -> Any:
    """Enter an operation with both rules written out (see ``General`` for their form).

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays; a tuple of arrays if there are several results.
        jvp: the forward rule, or one for each operand.
        vjp: the reverse rule, or one for each operand.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation.
    """
    jvps, vjps = ([rule] if callable(rule) else list(rule) for rule in (jvp, vjp))
    row = General(name_of(kernel, name), kernel, jvps, vjps, outputs, selects)
    row.work = work or costs.composite(costs.Work(nonlinear=2), costs.Work(nonlinear=2), costs.Work(mults=1))
    return publish(row, several_call(row, kernel), functions, doc)


# ------------------------------------------------------------------ no derivative
class Absent(Row):
    """An operation whose results carry no derivative: rounding, casts to integer, comparisons, argmax."""

    __slots__ = ()


def nondifferentiable(
    kernel: Any, *, name: str | None = None, functions: Sequence[Any] = (), outputs: int = 1, doc: str | None = None
) -> Any:
    """Enter an operation whose results carry no derivative: None in both modes, and ``tape.why`` says so.

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Absent(name_of(kernel, name), kernel, kind="absent", outputs=outputs)

    def call(*args: Any, **params: Any) -> Any:
        operands = [operand(a) for a in args]
        nodes = [a._node if a.__class__ is Tensor else a for a in operands]
        result = kernel(*[n.value if n.__class__ is Node else n for n in nodes], **params)
        results = result if outputs > 1 else (result,)
        outs = tuple([fresh(v) for v in results])
        for r in stack_now():
            r.cut(row, nodes, [out._node for out in outs])
        return outs if outputs > 1 else outs[0]

    return publish(row, call, functions, doc)
