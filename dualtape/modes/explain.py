"""What a tape says of itself: why a gradient is None, where the path from target to source was cut; its state."""

from __future__ import annotations

from typing import Any

from dualtape.core.sweep import dependants
from dualtape.core.tensor import Operand, Tensor
from dualtape.modes.indexed_slices import IndexedSlices, followed
from dualtape.modes.structure import is_object_array, items_of

# What was done with a Variable that no recorder of another thread follows.
UNREAD = "a read in a thread that did not enter the tape"


def why(entries: dict[int, Any], cuts: list[Any], spent: bool, target: Any, source: Any) -> str:
    """A sentence on the connection of ``target`` with ``source``; see ``GradientTape.why``."""
    if spent:
        return "the tape has let go of what it recorded: make it persistent, or ask before gradient()"
    if not isinstance(source, Operand) or isinstance(source, IndexedSlices):
        return f"the source is a {type(source).__name__}, which has no identity: make it a Tensor with constant()"
    if source.dtype.kind not in "fc":
        return f"the source has dtype {source.dtype}: only floating and complex dtypes have derivatives"
    items = items_of(target)[0] if is_object_array(target) else [target]
    goals = [t for t in map(followed, items) if t.__class__ is Tensor]
    if not goals:
        return f"the target is a {type(target).__name__}, not a Tensor: it was not computed by recorded operations"
    want = source._node.id
    ids = {t._node.id for t in goals}
    if want not in ids and was_written(entries, source, want, ids):
        return (
            "the source was written in place (x[i] = v, x += v, or through what shares its memory) after the target "
            "was computed from it, and names a new value since, on which the target does not depend: ask for the "
            "gradient by a handle that keeps the old value (y = dualtape.identity(x), with the target computed from y)"
        )
    if want not in entries and not any([name == UNREAD and want in ins for name, ins, _, _ in cuts]):
        return "the source was not watched when the target was computed: call tape.watch(source) first"
    reached = dependants(entries, {want})
    if not reached.isdisjoint([t._node.id for t in goals]):
        return "the target is connected with the source"
    cut = said(cuts, reached)
    if cut:
        return (
            "the target is not connected with the source: of what was done with the source, no derivative passes"
            + cut
            + " (or the target was computed outside the tape, or while it was paused)"
        )
    if not reached.isdisjoint([i for t in goals for i in getattr(t, "_former", ())]):
        return "the target was written in place since it was computed, where the tape did not record: ask before that"
    if goals[0].dtype.kind not in "fc":
        return f"the target has dtype {goals[0].dtype}: only floating and complex results have derivatives"
    return "the target does not depend on the source by any recorded operation (computed outside the tape, or paused?)"


def spent(what: str) -> str:
    """Of a tape that is not persistent and used a second time."""
    return (
        "A non-persistent GradientTape can only be used once, for one set of gradients or Jacobians: it let go of what "
        f"it recorded, and {what}() was called again. Make it GradientTape(persistent=True)"
    )


def described(recording: bool, used: bool, persistent: bool, operations: int, nbytes: int) -> str:
    """A tape as ``repr`` shows it."""
    state = "recording" if recording else "used up" if used else "not recording"
    kind = "persistent, " if persistent else ""
    return f"<GradientTape: {kind}{state}, {operations} operation{'s' * (operations != 1)}, {nbytes} bytes>"


def was_written(entries: dict[int, Any], source: Any, want: int, goals: set[int]) -> bool:
    """Whether the target depends on a value that the handle ``source`` had before it was written, and not on this."""
    former = getattr(source, "_former", ())
    if not former or not goals.isdisjoint(dependants(entries, {want})):
        return False
    return any([i in entries and not goals.isdisjoint(dependants(entries, {i})) for i in former])


def said(cuts: list[Any], reached: set[int]) -> str:
    """The operations without derivative that the source went into, in words."""
    through = [f"{name!r} at {where}" for name, ins, _, where in cuts if not reached.isdisjoint(ins)]
    return " " + "; ".join(through) if through else ""
