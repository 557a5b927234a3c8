"""What all families share: telling the recorders of an operation, what rules see, entering a row in the table.

Recording is straight-line code for one and two operands, since on small arrays Python is the whole cost: no
introspection, no loops over arguments, one tuple kept per operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from dualtape.batching.level import NotBatched, retried
from dualtape.core.recorders import STACK, is_tracked
from dualtape.core.table import Row, add_row, register
from dualtape.core.tensor import Node, Tensor, frozen, operand, tensor, wrap

stack_now = STACK.get
ndarray = np.ndarray
NOTHING: dict[str, Any] = {}
# The entry under the second and later results of one operation; the first result's entry has the rules.
LATER = ()
PLAIN = (float, int)
OPERANDS = ("x", "y", "z")

Rule = Callable[..., Any]


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
    try:
        value = np.asarray(value)[()]
    except NotBatched:
        return tensor(value._detached())
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


def several_call(row: Row, kernel: Any) -> Any:
    """The callable of a row with any number of operands and results."""

    def call(*args: Any, **params: Any) -> Any:
        operands = [operand(a) for a in args]
        nodes = tuple([a._node if a.__class__ is Tensor else a for a in operands])
        values = [n.value if n.__class__ is Node else n for n in nodes]
        try:
            result = kernel(*values, **params)
        except Exception as error:
            result = retried(row, kernel, tuple(values), params, error)
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
