"""The functions that users call: operands opened, the kernel, the result told to the recorders, outermost first.

The order matters: the rule of an inner accumulator may read the result, and everybody outside must know the result by
then. One operand, one with a number and two are written out in straight lines, since on small arrays Python is the
whole cost: one function for all, with an entry made by a method, took 15 % longer on eleven small programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtape.core.absent import NOTHING, following, unfollowed
from dualtape.core.cotangents import fit
from dualtape.core.recorders import STACK
from dualtape.core.standin import Standin
from dualtape.core.table import OUT, PARAMS, PICK, Row, arrays_alone
from dualtape.core.tensor import Node, Tensor, hold, masks, new, new_id, operand, tensor, wrap

stack_now = STACK.get
ndarray = np.ndarray
PLAIN = (float, int)


def record(
    row: Row, operands: Sequence[Any], outs: Sequence[Node], params: dict[str, Any], told: dict[str, Any] | None = None
) -> None:
    """Tell the active recorders of an operation of any number of operands and results.

    ``told`` are the parameters with nodes in the place of values, if there are any.
    """
    out = outs[0] if row.outputs == 1 else tuple(outs)
    kept = params
    together = 0
    stack = stack_now()
    if told is not None:
        if any([a.__class__ is Node and isinstance(a.value, Standin) for a in operands]):
            unfollowed(told)
            told = None
        elif any([r.facts for r in stack]):
            kept = told
    for r in stack:
        known = r.entries
        if known is None:
            given = told if told is not None and r.facts else params
            entry = row.entry(operands, out, kept)
            entry = entry if kept is params else following(entry)
            r.see(row, entry, row.nodes(operands), operands, outs, given, stack)
            continue
        entry = row.entry(operands, out, kept, known)
        if kept is not params:
            entry = following(entry)
        if entry is None:
            r.cut(row, operands, outs)
            continue
        if row.edges and any([a.__class__ is ndarray for a in operands]):
            entry = hold(entry)
        if row.outputs == 1:
            known[outs[0].id] = entry
        else:
            together = together or new_id()
            known[together] = entry
            for k, node in enumerate(outs):
                known[node.id] = PICK, together, None, (k, len(outs))


def with_constant(e: Any, other: Any) -> Any:
    """An entry of one of two operands, as a tape may keep it; the ``other`` is followed by nobody."""
    kept = e[3]
    if kept is other and masks(other):
        e = (*e[:3], (kept,))
    return hold(e) if other.__class__ is ndarray else e


def fresh(value: Any) -> Tensor:
    """The result of an operation on constants, as a Tensor that shares no memory with them."""
    if isinstance(value, Standin):
        return tensor(value.detached())
    value = np.asarray(value)[()]
    if isinstance(value, ndarray) and not value.flags.owndata:
        value = value.copy("K")
    return tensor(value)


def call_of_one(row: Row, *, alike: bool = False, internal: bool = False) -> Any:
    """The function of a row of one operand.

    ``alike``: the result has the shape and dtype of the operand. ``internal``: plain arrays in, plain arrays out, for
    helpers of rules.
    """
    function, kernel = row.function, row.kernel
    (edge,) = row.edges
    keeps_operand, keeps_result, keeps_params = edge.pick == 0, edge.pick == OUT, edge.pick is PARAMS
    exact = edge.exact

    def call(x: Any, /, *, _params: dict[str, Any] = NOTHING) -> Any:
        if x.__class__ is not Tensor:
            if internal:
                return kernel(x, **_params)
            x = operand(x)
            if x.__class__ is not Tensor:
                return fresh(kernel(x, **_params))
        n = x._node
        v = n.value
        out = new(Node)
        if _params:
            value = function(v, **_params) if v.__class__ is ndarray else kernel(v, **_params)
        else:
            value = kernel(v)
        out.value = value
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        if stack:
            like = None if alike else (v.shape, v.dtype) if exact else fit(v, value)
            if keeps_operand:
                kept: Any = n
            else:
                kept = out if keeps_result else _params if keeps_params else edge.keep((n, out), _params)
            for r in stack:
                known = r.entries
                if known is None:
                    r.see_one(edge, n, like, kept, (n,), out, _params, stack)
                elif n.id in known:
                    known[out.id] = (edge, n.id, like, kept)
        result = new(Tensor)
        result._node = out
        return result

    # (Gathering keywords would cost 4 % of recording the sine of ten numbers.)
    return call if arrays_alone(row) else lambda x, /, **params: call(x, _params=params)


def call_with_number(row: Row, k: int, alike: bool) -> Any:
    """The function of a row of two operands for the commonest case: its operand ``k`` is a Tensor, the other a number.

    ``alike``: the result has the shape and dtype of the Tensor.
    """
    kernel = row.kernel
    edge = row.edges[k]
    pick, exact = edge.pick, edge.exact
    keeps_operand, keeps_number, keeps_result = pick == k, pick == 1 - k, pick == OUT

    def call(n: Node, number: Any, params: dict[str, Any]) -> Tensor:
        v = n.value
        out = new(Node)
        if params:
            out.value = value = kernel(number, v, **params) if k else kernel(v, number, **params)
        else:
            out.value = value = kernel(number, v) if k else kernel(v, number)
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        if stack:
            like = None if alike else (v.shape, v.dtype) if exact else fit(v, value)
            kept = n if keeps_operand else number if keeps_number else out if keeps_result else None
            if kept is None and pick is not None:
                kept = edge.keep((number, n, out) if k else (n, number, out), params)
            for r in stack:
                known = r.entries
                if known is None:
                    r.see_one(edge, n, like, kept, (number, n) if k else (n, number), out, params, stack)
                elif n.id in known:
                    known[out.id] = (edge, n.id, like, kept)
        result = new(Tensor)
        result._node = out
        return result

    return call


def call_of_two(row: Row, *, alike: bool = False) -> Any:
    """The function of a row of two operands, with ``reflected`` for operands exchanged.

    ``alike``: with a Python number the result has the shape and dtype of the other operand.
    """
    kernel = row.kernel
    by_x, by_y = row.edges
    exact, pick_x, pick_y = by_x.exact, by_x.pick, by_y.pick
    one_x, one_y = pick_x.__class__ is int, pick_y.__class__ is int
    tensor_first, tensor_second = call_with_number(row, 0, alike), call_with_number(row, 1, alike)

    def call(x: Any, y: Any, /, *, _params: dict[str, Any] = NOTHING) -> Any:
        if y.__class__ in PLAIN and x.__class__ is Tensor:
            return tensor_first(x._node, y, _params)
        if x.__class__ in PLAIN and y.__class__ is Tensor:
            return tensor_second(y._node, x, _params)
        a: Any
        b: Any
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
            return fresh(kernel(u, v, **_params))
        out = new(Node)
        value = kernel(u, v, **_params) if _params else kernel(u, v)
        if value.__class__ is complex:  # what Python makes of complex * np.float64
            value = np.complex128(value)
        out.value = value
        out.id = new_id()
        out.tangents = None
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                r.see_two(row, a, b, out, _params, stack)
                continue
            nodes = (a, b, out)
            e = None
            if i in known:
                if exact:
                    like: Any = u.shape, u.dtype
                else:
                    like = None if u.dtype is value.dtype and u.shape == value.shape else fit(u, value)
                kept = nodes[pick_x] if one_x else None if pick_x is None else by_x.keep(nodes, _params)
                e = (by_x, i, like, kept)
                if j not in known:
                    known[out.id] = with_constant(e, b)
                    continue
            elif j not in known:
                continue
            if exact:
                like = v.shape, v.dtype
            else:
                like = None if v.dtype is value.dtype and v.shape == value.shape else fit(v, value)
            kept = nodes[pick_y] if one_y else None if pick_y is None else by_y.keep(nodes, _params)
            f = (by_y, j, like, kept)
            known[out.id] = (row, e, f) if e else with_constant(f, a)
        result = new(Tensor)
        result._node = out
        return result

    if not arrays_alone(row):
        return lambda x, y, /, **params: call(x, y, _params=params)

    def reflected(y: Any, x: Any) -> Any:
        if x.__class__ in PLAIN and y.__class__ is Tensor:
            return tensor_second(y._node, x, NOTHING)
        return call(x, y)

    call.reflected = reflected  # type: ignore[attr-defined]
    return call


def call_of_many(row: Row) -> Any:
    """The function of a row with any number of operands and results; Tensors and arrays in, Tensors out."""
    kernel, alone = row.kernel, bool(row.edges) and arrays_alone(row)

    def call(*args: Any, **params: Any) -> Any:
        if params and alone:
            raise TypeError(f"{row.name}() takes arrays alone, and no {', '.join(params)}")
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
        stack = stack_now()
        for r in stack:
            if r.entries is None:
                r.see(row, row.entry(operands, out, params), row.nodes(operands), operands, (out,), params, stack)
            elif (entry := row.entry(operands, out, params, r.entries)) is not None:
                r.entries[out.id] = entry
        return wrap(out)

    return call


def node_or_array(a: Any) -> Any:
    """The node of an operand if it has one, else its array."""
    x = operand(a)
    return x._node if x.__class__ is Tensor else np.asarray(x)
