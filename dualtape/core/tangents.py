"""Forward mode: tangents hang on nodes, and a recorder hangs on each result the tangent that its operands make.

Where a tangent has zeros that no value can change (not seeded, not selected: ``reached.py``), its marks hang beside it,
under the complement of the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dualtape.core.apart import apart
from dualtape.core.cotangents import stretched
from dualtape.core.reached import Later, gaps, marks_along, united
from dualtape.core.recorders import STACK, Recorder, Stack
from dualtape.core.tensor import Node, Tensor

ndarray = np.ndarray
NOTHING: dict[int, Any] = {}


class TangentRecorder(Recorder):
    """One activation of an accumulator. Tangents hang on the nodes, under the accumulator's key."""

    __slots__ = ("apart", "key")

    def __init__(self, key: int, apart: bool = False) -> None:
        self.entries = None
        self.live = True
        self.reads = {}
        self.key = key
        # Whether there are marks.
        self.apart = apart

    def tracks(self, node: Node) -> bool:
        return self.live and node.tangents is not None and self.key in node.tangents

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Stack) -> None:
        key = self.key
        # (No name is left bound to a tangent: ``setitem`` writes into one that nobody else holds.)
        if len(nodes) == 1:
            tangents = nodes[0].tangents
            if tangents is None or key not in tangents:
                return
            found = [tangents[key]]
        else:
            found = [None if n is None or n.tangents is None else n.tangents.get(key) for n in nodes]
            if all([t is None for t in found]):
                return
        if stack[0] is self or not (outer := self.outside(stack)):
            for k in range(len(found)):
                if found[k].__class__ is Tensor:
                    found[k] = found[k]._node.value
            result = entry[0].push(entry, found, True)
            if (self.apart or entry[0].places) and len(outs) == 1:
                result = self.settled(entry, nodes, outs[0], result)
        else:
            STACK.set(outer)
            try:
                result = entry[0].push(entry, found, False)
                if (self.apart or entry[0].places) and len(outs) == 1:
                    result = self.settled(entry, nodes, outs[0], result)
            finally:
                STACK.set(stack)
        if len(outs) == 1:
            out = outs[0]
            if out.tangents is None:
                out.tangents = {key: result}
            else:
                out.tangents[key] = result
        else:
            for out, t in zip(outs, result, strict=True):
                if t is not None:
                    attach(out, key, t)

    def see_one(
        self, edge: Any, node: Node, like: Any, kept: Any, operands: Any, out: Node, params: Any, stack: Stack
    ) -> None:
        tangents = node.tangents
        if tangents is None or (t := tangents.get(self.key)) is None:
            return
        outer = () if stack[0] is self else self.outside(stack)
        if outer:
            STACK.set(outer)
        elif t.__class__ is Tensor:
            t = t._node.value
        try:
            s = edge.along(t, like, kept, not outer)
            if like is not None and not edge.exact:
                s = stretched(s, like[2], like[3])
            if self.apart or edge.places:
                marks = tangents.get(~self.key)
                if marks is not None and edge.moves:
                    s = self.hung(edge, Later((edge, node.id, like, kept), [marks], out.value.shape), out, s)
                elif marks is not None and like is None and edge.spreads and not edge.partly(kept):
                    s = self.hung(edge, marks, out, s)  # element by element: the same ones
                elif marks is not None or edge.places:
                    s = self.settled((edge, node.id, like, kept), (node,), out, s)
        finally:
            if outer:
                STACK.set(stack)
        if out.tangents is None:
            out.tangents = {self.key: s}
        else:
            out.tangents[self.key] = s

    def see_two(self, row: Any, x: Any, y: Any, out: Node, params: Any, stack: Stack) -> None:
        key, value = self.key, out.value
        s = x.tangents.get(key) if x.__class__ is Node and x.tangents is not None else None
        t = y.tangents.get(key) if y.__class__ is Node and y.tangents is not None else None
        if s is None and t is None:
            return
        outer = () if stack[0] is self else self.outside(stack)
        raw = not outer
        by_x, by_y = s is not None, t is not None
        mask = False
        if s is None or t is None:
            other = y if t is None else x
            v: Any = other.value if other.__class__ is Node else other
            mask = hasattr(v, "dtype") and v.dtype.kind == "b"
        if raw:
            if s.__class__ is Tensor:
                s = s._node.value
            if t.__class__ is Tensor:
                t = t._node.value
        else:
            STACK.set(outer)
        try:
            s = row.along((x, y, out), params, s, t, raw, mask)
            if not (s.dtype is value.dtype and s.shape == value.shape):
                s = stretched(s, value.shape, value.dtype)
            if self.apart or row.chooses or mask:
                nodes = (x, y) if by_x and by_y else (x,) if by_x else (y,)
                marks = [n.tangents.get(~key) for n in nodes]
                if row.even and not mask and all([n.value.shape == value.shape for n in nodes]):
                    if any([m is not None for m in marks]) and (m := united(marks, value.shape)) is not None:
                        s = self.hung(row, m, out, s)
                elif row.chooses or mask or any([m is not None for m in marks]):
                    edges = row.edges if by_x and by_y else row.edges[:1] if by_x else row.edges[1:]
                    parts = [e.entry(n, (x, y, out), params) for e, n in zip(edges, nodes, strict=True)]
                    s = self.settled(row.whole(parts), nodes, out, s)
        finally:
            if outer:
                STACK.set(stack)
        if out.tangents is None:
            out.tangents = {key: s}
        else:
            out.tangents[key] = s

    def settled(self, entry: Any, nodes: Any, out: Node, result: Any) -> Any:
        """The tangent of a result, 0 where nothing is reached; its marks are hung up."""
        key = self.key
        there = [NOTHING if n is None or n.tangents is None else n.tangents for n in nodes]
        shapes = [n.value.shape if key in held else None for n, held in zip(nodes, there, strict=True)]
        marks = marks_along(entry, shapes, [held.get(~key) for held in there], out.value.shape)
        return result if marks is None else self.hung(entry[0], marks, out, result)

    def hung(self, edge: Any, marks: Any, out: Node, result: Any) -> Any:
        """The same with marks that are known."""
        self.apart = True
        attach(out, ~self.key, marks)
        return apart(result, [marks]) if edge.singular else result

    def outside(self, stack: Stack) -> Stack:
        """The recorders that follow what this one computes: those that were entered before it."""
        return tuple([r for r in stack[: stack.index(self)] if r.live])


def start(nodes: Iterable[Node], key: int, tangents: Sequence[Any]) -> bool:
    """Hang on nodes tangents to start with, and their marks; whether there are any."""
    apart = False
    for node, t in zip(nodes, tangents, strict=True):
        if node.tangents is None:
            node.tangents = {key: t}
        else:
            node.tangents[key] = t
        if (t.__class__ is not ndarray or np.count_nonzero(t) < t.size) and (marks := gaps(t)) is not None:
            attach(node, ~key, marks)
            apart = True
    return apart


def finish(node: Node, key: int) -> None:
    """Take a tangent and its marks off a node."""
    if node.tangents is not None:
        node.tangents.pop(key, None)
        node.tangents.pop(~key, None)


def attach(node: Node, key: int, tangent: Any) -> None:
    """Hang a tangent on a node."""
    if node.tangents is None:
        node.tangents = {key: tangent}
    else:
        node.tangents[key] = tangent
