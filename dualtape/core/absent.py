"""What carries no derivative, for those who want to carry out a program again: masks, indices, what Python was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dualtape.core.lookup import ASKED
from dualtape.core.recorders import STACK, is_fact
from dualtape.core.standin import Standin
from dualtape.core.table import Edge, Row
from dualtape.core.tensor import Node, Operand, Tensor, opened, raw, tensor, wrap

NOTHING: dict[str, Any] = {}

STILL = Row("still", lambda x: x, kind="absent")
ASKED["truth"] = Row("truth", lambda x: bool(x), kind="absent", outputs=0)
ASKED["position"] = Row("position", lambda x: int(x), kind="absent", outputs=0)
ASKED["value"] = Row("value", lambda x: x, kind="absent", outputs=0)


def still(x: Any) -> Any:
    """The value of ``x`` for a mask, a case or an index, without derivative: the plain one, so that rules and helpers
    are as fast as NumPy; a Tensor, if a recorder follows ``x`` that has to know what was read (``Recorder.facts``)."""
    if x.__class__ is not Tensor:
        return x
    stack = STACK.get()
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
    stack = STACK.get()
    for r in stack:
        if r.entries is None:
            r.see(row, None, (), operands, outs, told if r.facts or r.for_facts else params, stack)
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


# ------------------------------------------------------------------ parameters with nodes inside
class Following(Edge):
    """An edge that keeps parameters with nodes inside: its rules see them as they see operands."""

    __slots__ = ("edge", "exact", "moves", "places")

    def __init__(self, edge: Edge) -> None:
        super().__init__(edge.pick)
        self.edge, self.row, self.position, self.exact = edge, edge.row, edge.position, edge.exact
        self.moves, self.places = edge.moves, edge.places

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        kept = unfolded(kept, raw)
        self.edge.pull((self.edge, i, like, kept), lifted(g, kept), cotangents, raw)

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        kept = unfolded(kept, raw)
        return self.edge.along(lifted(t, kept), like, kept, raw)


def following(entry: Any) -> Any:
    """An entry whose parameters have nodes inside. (Rules for all operands at once see to it themselves.)"""
    if entry is None or entry[0].pick is None:
        return entry
    if isinstance(entry[0], Row):
        return (entry[0], *map(following, entry[1:]))
    return (Following(entry[0]), *entry[1:])


def unfolded(kept: Any, raw: bool) -> Any:
    """What a rule sees of something an entry keeps, nodes inside of parameters included."""
    if kept.__class__ is tuple:
        return tuple([unfolded(a, raw) for a in kept])
    if kept.__class__ is dict:
        return {name: unfolded(a, raw) for name, a in kept.items()}
    return opened(kept, raw)


def lifted(t: Any, kept: Any) -> Any:
    """A cotangent or tangent as a Tensor, if there is one in what a rule sees beside it."""
    return t if t.__class__ is Tensor or not any_tensor(kept) else tensor(t)


def any_tensor(kept: Any) -> bool:
    """Whether there is a Tensor in nested tuples and dictionaries."""
    if kept.__class__ is dict:
        kept = tuple(kept.values())
    return any([any_tensor(a) for a in kept]) if kept.__class__ is tuple else kept.__class__ is Tensor
