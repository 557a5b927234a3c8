"""The functions that users call: operands opened, the kernel, the result told to the recorders, outermost first.

The order matters: the rule of an inner accumulator may read the result, and everybody outside must know the result by
then. One and two operands are written out in straight lines, since on small arrays Python is the whole cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtape.core.lookup import ASKED
from dualtape.core.recorders import STACK, is_fact
from dualtape.core.standin import Standin
from dualtape.core.table import OUT, PICK, Edge, Row, following
from dualtape.core.tensor import Node, Operand, Tensor, frozen, new, new_id, operand, raw, tensor, wrap

stack_now = STACK.get
ndarray = np.ndarray
NOTHING: dict[str, Any] = {}
PLAIN = (float, int)


def of_one(
    edge: Edge, n: Node, value: Any, operands: tuple[Any, ...], params: dict[str, Any], alike: bool, held: bool = False
) -> Tensor:
    """The result of an operation with one Tensor among its operands.

    ``alike``: the result is known to have the operand's shape and dtype. ``held``: an operand is an array that somebody
    could still write to.
    """
    out = new(Node)
    out.value = value
    out.id = new_id()
    out.tangents = None
    stack = stack_now()
    if stack:
        i = n.id
        pick = edge.pick
        entry = (
            edge,
            i,
            None if alike else edge.like(n.value, value),
            out
            if pick == OUT
            else operands[pick]
            if pick.__class__ is int
            else None
            if pick is None
            else edge.keep((*operands, out), params),
        )
        for r in stack:
            known = r.entries
            if known is None:
                r.see(edge.row, entry, (n,), operands, (out,), params, stack)
            elif i in known:
                known[out.id] = hold(entry) if held else entry
    result = new(Tensor)
    result._node = out
    return result


def of_two(row: Row, x: Node, y: Node, value: Any, params: dict[str, Any]) -> Tensor:
    """The result of an operation of two Tensors."""
    out = new(Node)
    out.value = value
    out.id = new_id()
    out.tangents = None
    stack = stack_now()
    if stack:
        by_x, by_y = row.edges
        nodes = (x, y, out)
        e, f = by_x.entry(x, nodes, params), by_y.entry(y, nodes, params)
        both = row, e, f
        for r in stack:
            known = r.entries
            if known is None:
                r.see(row, both, (x, y), (x, y), (out,), params, stack)
            elif x.id in known:
                known[out.id] = both if y.id in known else e
            elif y.id in known:
                known[out.id] = f
    result = new(Tensor)
    result._node = out
    return result


def record(
    row: Row, operands: Sequence[Any], outs: Sequence[Node], params: dict[str, Any], told: dict[str, Any] | None = None
) -> None:
    """Tell the active recorders of an operation of any number of operands and results.

    ``told`` are the parameters with nodes in the place of values, if there are any.
    """
    stack = stack_now()
    if not stack:
        return
    out = outs[0] if row.outputs == 1 else tuple(outs)
    if told is None:
        told = params
        parts = row.parts(operands, out, params)
    elif any([a.__class__ is Node and isinstance(a.value, Standin) for a in operands]):
        unfollowed(told)
        told = params
        parts = row.parts(operands, out, params)
    elif any([r.facts for r in stack]):
        parts = following(row.parts(operands, out, told))
    else:
        parts = row.parts(operands, out, params)
    nodes = row.nodes(operands)
    entry = row.whole(parts)
    held = any([a.__class__ is ndarray for a in operands])
    together = 0
    for r in stack:
        known = r.entries
        if known is None:
            r.see(row, entry, nodes, operands, outs, told if r.facts else params, stack)
            continue
        kept = None if entry is None else entry[0].restrict(entry, known)
        if kept is None:
            r.cut(row, operands, outs)
            continue
        if held:
            kept = hold(kept)
        if row.outputs == 1:
            known[outs[0].id] = kept
        else:
            together = together or new_id()
            known[together] = kept
            for k, node in enumerate(outs):
                known[node.id] = PICK, together, None, (k, len(outs))


def hold(kept: Any) -> Any:
    """An entry as a tape may keep it: constants that somebody could still write to are copied."""
    if kept.__class__ is ndarray:
        return frozen(kept)
    return tuple([hold(a) for a in kept]) if kept.__class__ is tuple else kept


# ------------------------------------------------------------------ what carries no derivative
STILL = Row("still", lambda x: x, kind="absent")
ASKED["truth"] = Row("truth", lambda x: bool(x), kind="absent", outputs=0)
ASKED["position"] = Row("position", lambda x: int(x), kind="absent", outputs=0)
ASKED["value"] = Row("value", lambda x: x, kind="absent", outputs=0)


def still(x: Any) -> Any:
    """The value of ``x`` for a mask, a case or an index, without derivative: the plain one, so that rules and helpers
    are as fast as NumPy; a Tensor, if a recorder follows ``x`` that has to know what was read (``Recorder.facts``)."""
    if x.__class__ is not Tensor:
        return x
    stack = stack_now()
    if not stack:
        return raw(x)
    n = x._node
    if isinstance(n.value, Standin):  # not to be followed without its derivative: those around it hear of it
        absent(STILL, (n,), (), NOTHING, NOTHING)
        return n.value.detached()
    if not is_fact(n):
        return n.value
    out = Node(n.value)
    absent(STILL, (n,), (out,), NOTHING, NOTHING)
    return wrap(out)


def absent(
    row: Row, operands: Sequence[Any], outs: Sequence[Node], params: dict[str, Any], told: dict[str, Any]
) -> None:
    """Tell the active recorders of an operation without derivative."""
    stack = stack_now()
    for r in stack:
        if r.entries is None:
            r.see(row, None, (), operands, outs, told if r.facts else params, stack)
        else:
            r.cut(row, operands, outs)


def unfollowed(a: Any) -> None:
    """Tell those around a stand-in of parameters that it goes on with, of whose nodes they will not be told."""
    if a.__class__ is Node:
        absent(STILL, (a,), (), NOTHING, NOTHING)
    for b in a.values() if a.__class__ is dict else a if a.__class__ is tuple else ():
        unfollowed(b)


def closed(a: Any) -> Any:
    """A parameter without Tensors and nodes: their values, in nested tuples too."""
    if isinstance(a, Operand):
        return a._value()
    if a.__class__ is Node:
        return a.value
    return tuple([closed(b) for b in a]) if a.__class__ is tuple else a


def noded(a: Any) -> Any:
    """A parameter with nodes in the place of Tensors, in nested tuples too."""
    if isinstance(a, Operand):
        return a._read()._node
    return tuple([noded(b) for b in a]) if a.__class__ is tuple else a


def holds(a: Any) -> bool:
    """Whether there is a Tensor or node in a parameter."""
    return a.__class__ is Tensor or a.__class__ is Node or (a.__class__ is tuple and any([holds(b) for b in a]))


def fresh(value: Any) -> Tensor:
    """The result of an operation on constants, as a Tensor that shares no memory with them."""
    if isinstance(value, Standin):
        return tensor(value.detached())
    value = np.asarray(value)[()]
    if isinstance(value, ndarray) and not value.flags.owndata:
        value = value.copy()
    return tensor(value)


def keywords_of(row: Row) -> Any:
    """The kernel, for calls with keywords. Those of a ufunc (``out``, ``where``) its partials know nothing of."""

    def refuse(*operands: Any, **params: Any) -> Any:
        raise TypeError(f"{row.name}() takes arrays alone, and no {', '.join(params)}")

    return refuse if row.kind == "elementwise" else row.kernel


def call_of_one(row: Row, *, alike: bool = False, internal: bool = False) -> Any:
    """The function of a row of one operand. ``internal``: plain arrays in, plain arrays out, for helpers of rules."""
    kernel, with_keywords = row.kernel, keywords_of(row)
    (edge,) = row.edges

    def call(x: Any, /, **params: Any) -> Any:
        if x.__class__ is not Tensor:
            if internal:
                return kernel(x, **params)
            x = operand(x)
            if x.__class__ is not Tensor:
                return fresh(with_keywords(x, **params) if params else kernel(x))
        n = x._node
        value = with_keywords(n.value, **params) if params else kernel(n.value)
        return of_one(edge, n, value, (n,), params, alike)

    return call


def call_of_two(row: Row, *, alike: bool = False) -> Any:
    """The function of a row of two operands, with ``reflected`` for operands exchanged.

    ``alike``: with a Python number the result has the shape and dtype of the other operand.
    """
    kernel, with_keywords = row.kernel, keywords_of(row)
    by_x, by_y = row.edges

    def call(x: Any, y: Any, /, **params: Any) -> Any:
        if y.__class__ in PLAIN and x.__class__ is Tensor:  # the commonest case: an array and a Python number
            n = x._node
            value = with_keywords(n.value, y, **params) if params else kernel(n.value, y)
            return of_one(by_x, n, value, (n, y), params, alike)
        if x.__class__ in PLAIN and y.__class__ is Tensor:
            n = y._node
            value = with_keywords(x, n.value, **params) if params else kernel(x, n.value)
            return of_one(by_y, n, value, (x, n), params, alike)
        a: Any
        b: Any
        if x.__class__ is Tensor or (x.__class__ not in PLAIN and (x := operand(x)).__class__ is Tensor):
            a = x._node
            u = a.value
        else:
            a = u = x
        if y.__class__ is Tensor or (y.__class__ not in PLAIN and (y := operand(y)).__class__ is Tensor):
            b = y._node
            v = b.value
        else:
            b = v = y
        if u.__class__ in PLAIN and v.__class__ in PLAIN:
            u = np.asarray(u)  # NumPy's arithmetic, also for two Python numbers
        value = with_keywords(u, v, **params) if params else kernel(u, v)
        if a is u:
            return fresh(value) if b is v else of_one(by_y, b, scalar(value), (a, b), params, False, True)
        if b is v:
            return of_one(by_x, a, scalar(value), (a, b), params, False, True)
        return of_two(row, a, b, scalar(value), params)

    call.reflected = lambda y, x: call(x, y)  # type: ignore[attr-defined]
    return call


def scalar(value: Any) -> Any:
    """A result as NumPy has it, also where Python made it (of complex * np.float64)."""
    return np.complex128(value) if value.__class__ is complex else value


def call_of_many(row: Row) -> Any:
    """The function of a row with any number of operands and results; Tensors and arrays in, Tensors out."""
    kernel = row.kernel

    def call(*args: Any, **params: Any) -> Any:
        operands = tuple([a._node if a.__class__ is Tensor else a for a in map(operand, args)])
        result = kernel(*[a.value if a.__class__ is Node else a for a in operands], **params)
        results = result if row.outputs > 1 else (result,)
        if any([a.__class__ is Node for a in operands]):
            outs = tuple([Node(v) for v in results])
            record(row, operands, outs, params)
            found = tuple([wrap(out) for out in outs])
        else:
            found = tuple([fresh(v) for v in results])
        return found if row.outputs > 1 else found[0]

    return call


def call_of_list(row: Row) -> Any:
    """The function of a row whose kernel takes a list of operands."""
    kernel = row.kernel

    def call(items: Any, /, **params: Any) -> Any:
        operands = tuple([a._node if a.__class__ is Tensor else node_or_array(a) for a in items])
        value = kernel([n.value if n.__class__ is Node else n for n in operands], **params)
        if not any([n.__class__ is Node for n in operands]):
            return fresh(value)
        out = Node(value)
        record(row, operands, (out,), params)
        return wrap(out)

    return call


def node_or_array(a: Any) -> Any:
    """The node of an operand if it has one, else its array."""
    x = operand(a)
    return x._node if x.__class__ is Tensor else np.asarray(x)
