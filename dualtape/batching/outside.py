"""The recorder that stands for those around a level, and tells them of operations on all examples at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, Shared
from dualtape.batching.physical import is_batched, top
from dualtape.core import recorders
from dualtape.core.calls import record
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.standin import Refused
from dualtape.core.tensor import Node, Tensor, wrap


class Outside(Recorder):
    """Stands for the recorders around a level while its operations run.

    They see each operation on all examples at once. For operands that are Batches the kernel has done that already, by
    way of NumPy's protocols; where an operand without batch is followed as well, the result is computed again from its
    Tensor.
    """

    __slots__ = ("every", "level", "outer", "paused")

    def __init__(self, level: Any, outer: Stack) -> None:
        super().__init__(None)
        self.level = level
        self.every = outer
        self.paused: list[Recorder] = []
        self.outer = outer

    def stands_for(self, recorder: Recorder) -> bool:
        return any([r is recorder or r.stands_for(recorder) for r in self.every])

    def pause(self, recorder: Recorder, paused: bool) -> None:
        if recorder in self.every:
            (self.paused.append if paused else self.paused.remove)(recorder)
            self.outer = tuple([r for r in self.every if r not in self.paused])
        for r in self.every:
            if r.stands_for(recorder):
                r.pause(recorder, paused)

    def tracks(self, node: Node) -> bool:
        if not self.live:
            return False
        value = node.value
        while isinstance(value, Batch):
            value = value.physical
            if value.__class__ is Tensor:
                return any([r.tracks(value._node) for r in self.outer])
        return any([r.tracks(node) for r in self.outer])

    def access(self, variable: Any) -> None:
        for r in self.outer:
            r.access(variable)

    @property
    def for_facts(self) -> bool:  # type: ignore[override]
        """Whether one of them follows what carries no derivative."""
        return any([r.facts or r.for_facts for r in self.outer])

    def cut(self, row: Any, operands: Any, outs: Any) -> None:
        for r in self.outer:
            r.cut(row, operands, outs)

    def within(self, a: Any) -> bool:
        """Whether there is a node in parameters that one of them follows."""
        if a.__class__ is Node:
            return self.tracks(a)
        items = a.values() if a.__class__ is dict else a if a.__class__ is tuple else ()
        return any([self.within(b) for b in items])

    def absent(self, row: Any, batched: Any, followed: Any, operands: Any, outs: Any, params: Any) -> None:
        """An operation without derivative took place.

        Those who follow such have been told by the kernel of what it did to all examples at once, if nothing else that
        they follow went into it, and if they follow what came of it. Else they hear that there was something.
        """
        alone = all([b for b, f in zip(batched, followed, strict=True) if f]) and not self.within(params)
        told = alone and outs and all([self.tracks(out) for out in outs])
        for r in self.outer:
            if not (told and r.facts):
                r.cut(row, operands, outs)

    def see(
        self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: dict[str, Any], stack: Stack
    ) -> None:
        self.hear(operands)
        followed = [a.__class__ is Node and self.tracks(a) for a in operands]
        if not any(followed) and not (entry is None and self.within(params)):
            return
        level = self.level
        batched = [a.__class__ is Node and is_batched(level, a.value) for a in operands]
        if entry is None:
            self.absent(row, batched, followed, operands, outs, params)
            return
        # A function with rules of its own may use more than its operands.
        if row.kind == "custom" and any([*batched, *[is_batched(level, out.value) for out in outs]]):
            raise Refused(f"{row.name} has rules of its own, and recorders around the batch follow it")
        if not any(batched) and top([params]) is not level:
            with recorders.under(tuple([r for r in self.outer if r.live])):
                record(row, operands, outs, params)
            return
        direct = row.batch is None and is_direct(row)
        if direct and all([b for b, f in zip(batched, followed, strict=True) if f]):
            return  # the kernel has told them
        values = [
            Shared(level, wrap(a)) if f and not b else a.value if a.__class__ is Node else a
            for a, b, f in zip(operands, batched, followed, strict=True)
        ]
        arguments = (values,) if row.kind == "joint" else tuple(values)
        found = row.kernel(*arguments, **params) if direct else level.through(row, arguments, params)
        for out, value in zip(outs, found if row.outputs > 1 else (found,), strict=True):
            out.value = value


def is_direct(row: Any) -> bool:
    """Whether a row's kernel is one NumPy function, which has the same row: what it does to a Batch may be recorded.

    A function from elsewhere may be composed of several, and the row is there to say that its derivative is another.
    """
    kernel = row.kernel
    if isinstance(kernel, np.ufunc):
        return True
    if row.kind == "elementwise" and hasattr(kernel, "__wrapped__"):
        return False
    return (kernel.__module__ or "").startswith(("dualtape.ops.", "numpy", "_operator"))
