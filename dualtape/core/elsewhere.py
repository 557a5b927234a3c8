"""The recorder that stands for those of other contexts where a thread, or a task, entered no block of its own.

Recorders belong to the context that entered them, and a thread of a pool starts with an empty one. What they follow
would lose its derivative there without a word: so it is recorded there, in the order in which the blocks were entered.
"""

from __future__ import annotations

from typing import Any

from dualtape.core import recorders
from dualtape.core.absent import absent
from dualtape.core.calls import record
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.standin import Refused, Standin
from dualtape.core.tensor import Node


class Elsewhere(Recorder):
    """Tells the live recorders of other contexts of an operation here, if they follow an operand."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)
        self.reads = None

    def tracks(self, node: Node) -> bool:
        return any([r.tracks(node) for r in recorders.everybody() if not r.facts])

    def see(
        self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: dict[str, Any], stack: Stack
    ) -> None:
        everybody = recorders.everybody()
        if outs and any([r.tracks(outs[0]) for r in everybody]):
            return  # told already
        followed = [a for a in operands if a.__class__ is Node and any([r.tracks(a) for r in everybody])]
        if not followed and not any([a.__class__ is Node and isinstance(a.value, Standin) for a in operands]):
            return
        with recorders.under(everybody):
            if any([a.__class__ is Node and isinstance(a.value, Standin) for a in operands]):
                raise Refused(f"{row.name} of a batch in a thread that did not enter vmap: recorders may be around it")
            if entry is None:
                absent(row, operands, outs, params, params)
            else:
                record(row, operands, outs, params)


recorders.stand(Elsewhere())


def unread(stack: Stack, own: Stack, variable: Node, out: Node) -> None:
    """Tell the live recorders of other contexts that a Variable was read here, of which they record nothing."""
    for r in recorders.everybody() if stack is recorders.OTHERS else stack:
        if r not in own:
            r.unread(variable, out)
