"""The stack of active recorders: who is told of an operation, and in which order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from sys import exception
from threading import get_ident
from typing import Any

from dualtape.core.remedies import remark
from dualtape.memory.reserve import GROWN, trim

# What a closed recorder keeps as its entries: nothing is ever found in it, so nothing is ever recorded.
CLOSED: dict[int, Any] = {}


class Recorder:
    """One activation of a tape or an accumulator, from the moment it is entered until it is left.

    Entering again makes a new activation, so a stack that still holds an old one (a generator closed
    elsewhere, a context copied earlier) can never bring it back to life.

    ``entries`` is the tape's dictionary, identity of a result -> entry. It is also the set of what the tape
    tracks, so recording asks it one question. ``None`` marks a recorder that works through ``see``.
    """

    __slots__ = ("below", "entries", "live", "owner", "reads", "sealed")

    # Set by ``enter``: the recorders of other contexts below it on the stack, if those of this context begin with it;
    # None where it was entered while others were hidden. And the thread.
    below: Stack | None
    owner: int

    # Whether it follows what carries no derivative as well, comparisons and indices, as a reader does that wants to
    # carry out the program again. Rules then find their masks by operations that it is told of (``absent.still``).
    facts = False
    # Whether it stands for one that does.
    for_facts = False
    # Whether it follows nothing at all, and hears of Variables and operations alone; it is the outermost one then.
    listens = False

    def __init__(self, entries: dict[int, Any] | None, sealed: bool = False) -> None:
        self.entries = entries
        self.live = True
        # While it is the innermost one: how Variables were read under the whole stack (``modes/variable.py``).
        self.reads: dict[int, Any] | None = {}
        # Whether its sources are handles of its own, that nobody else has and nobody may write into.
        self.sealed = sealed
        self.below = None

    def tracks(self, node: Any) -> bool:
        """Whether this recorder follows the derivative of ``node``."""
        return self.entries is not None and node.id in self.entries

    def stands_for(self, recorder: Recorder) -> bool:
        """Whether this one is on the stack in the place of ``recorder``, among others."""
        return False

    def pause(self, recorder: Recorder, paused: bool) -> None:
        """Leave out ``recorder``, or no longer, of those that this one stands for."""

    def access(self, variable: Any) -> None:
        """A Variable was read (a tape may want to watch it)."""

    def unread(self, variable: Any, out: Any) -> None:
        """A Variable was read where this one was not entered (a tape remembers it for ``why``)."""

    # Those that this one stands for.
    outer: Stack = ()

    def hear(self, operands: Sequence[Any]) -> None:
        """These were read; of interest to those who listen alone, and passed on by those who stand for others."""
        for r in self.outer:
            r.hear(operands)

    def cut(self, row: Any, operands: Sequence[Any], outs: Sequence[Any]) -> None:
        """An operation without derivative took place (a tape remembers it for ``why``)."""

    def see(
        self, row: Any, entry: Any, nodes: Sequence[Any], operands: Any, outs: Any, params: dict[str, Any], stack: Stack
    ) -> None:
        """An operation took place; only recorders without ``entries`` are told this way.

        ``entry`` is what a tape would keep that follows all operands which are nodes, ``nodes`` are these; None and
        none, if the operation has no derivative.

        Whatever the operation reads is among ``operands`` and ``params``: the row's kernel, called with their values,
        gives those of ``outs``. Where a Tensor was given for a parameter, or inside of one (an index in a tuple), a
        recorder of ``facts`` is told its node in that place; all others are told its plain value, and so do entries
        keep it. What Python was told of a value (``bool``, ``int``, ``numpy``) is an operation without results: its
        kernel gives what the program went on with, ``params["found"]``.
        """
        raise AssertionError("a recorder with entries records in place")

    # The same for the commonest operations, of which nothing need be kept: making entries that nobody keeps would cost
    # a chain of small operations in forward mode a tenth.
    def see_one(
        self, edge: Any, node: Any, like: Any, kept: Any, operands: Any, out: Any, params: Any, stack: Stack
    ) -> None:
        """An operation of one Tensor took place."""
        self.see(edge.row, (edge, node.id, like, kept), (node,), operands, (out,), params, stack)

    def see_two(self, row: Any, x: Any, y: Any, out: Any, params: Any, stack: Stack) -> None:
        """An operation of two operands took place, of which one at least is a Tensor."""
        self.see(row, row.entry((x, y), out, params), row.nodes((x, y)), (x, y), (out,), params, stack)


Stack = Sequence[Recorder]

# What a context has that entered no block, such as that of a thread in a pool: nothing, or while there are live
# recorders in other contexts, for each of them the one that stands for all (``core/elsewhere.py``). So what they follow
# is recorded in all contexts. Those with blocks of their own never ask: their stack begins with whoever was live as
# they were entered. (A list of which nothing but the end is taken away: threads need no lock to go through it.)
OTHERS: list[Recorder] = []
STACK: ContextVar[Stack] = ContextVar("dualtape_recorders", default=OTHERS)

# All live recorders in the order in which they were entered, and those that are paused just now.
_all: list[Recorder] = []
_hidden: list[Recorder] = []
_standing: Recorder


def stand(recorder: Recorder) -> None:
    """Let ``recorder`` stand for all live ones where there are no others."""
    global _standing
    _standing = recorder


def everybody() -> Stack:
    """The live recorders of all contexts."""
    found = tuple(_all)
    return tuple([r for r in found if r not in _hidden]) if _hidden else found


def join(recorder: Recorder) -> None:
    """Let other contexts see ``recorder``, until it is left."""
    recorder.owner = get_ident()
    _all.append(recorder)
    OTHERS.append(_standing)

# Whether what runs is part of a computation that recorders or a batch are open around, though none may be on the stack.
INSIDE: ContextVar[bool] = ContextVar("dualtape_inside", default=False)


def outermost() -> bool:
    """Whether what runs is part of no other computation: no recorder is open here, paused or not, and no batch."""
    return not (INSIDE.get() or any([r.live for r in entered(STACK.get())]))


def enter(recorder: Recorder) -> None:
    """Make ``recorder`` the innermost one; forget the dead ones on the way."""
    stack = STACK.get()
    if stack is not OTHERS:
        for r in stack:
            if not r.live:
                live()
                stack = STACK.get()
                break
    if stack is OTHERS:
        recorder.below = stack = everybody() if _all else ()
    else:
        recorder.below = stack[-1].below if stack else None
    STACK.set((*stack, recorder) if stack else (recorder,))
    recorder.owner = get_ident()
    _all.append(recorder)
    OTHERS.append(_standing)


def leave(recorder: Recorder) -> None:
    """Close ``recorder``, so that it never records again in whichever stack it still stands, and take it
    off this context's stack, wherever in it it stands.

    By identity and not by ``ContextVar.reset``: a reset would bring back recorders that were closed in between.
    """
    if (error := exception()) is not None:
        remark(error)
    recorder.live = False
    recorder.entries = CLOSED
    recorder.reads = None
    if GROWN[0]:
        trim()
    try:
        _all.remove(recorder)
        OTHERS.pop()
    except ValueError:
        pass  # it was left before
    stack = STACK.get()
    if stack and stack[-1] is recorder:
        if len(stack) == 1 and recorder.below == ():
            STACK.set(OTHERS)
            return
        stack, below = stack[:-1], recorder.below
    elif stack is OTHERS:
        return
    else:
        below = recorder.below if recorder in stack else None
        stack = tuple([r for r in stack if r.live])
    # With the last block of its own, a context that hid nobody is again as it was.
    back = below is not None and len(stack) <= len(below) and (not stack or all([r in below for r in stack]))
    STACK.set(OTHERS if back else stack)


def live() -> Stack:
    """The recorders that are told of an operation now, outermost first."""
    stack = STACK.get()
    if stack is OTHERS:
        return everybody() if _all else ()
    for r in stack:
        if not r.live:
            before, stack = stack, tuple([r for r in stack if r.live])
            STACK.set(left_of(before, stack))
            break
    return stack


def listeners() -> Stack:
    """Those that listen alone."""
    return tuple([r for r in STACK.get() if r.listens])


def following() -> Stack:
    """Those of them that follow what is done, and do not listen alone."""
    stack = live()
    return stack[1:] if stack and stack[0].listens else stack


def left_of(before: Stack, stack: Stack) -> Stack:
    """What is left of a stack: with its last block gone, a context that hid nobody is again as it was."""
    hid = before is not OTHERS and (not before or before[-1].below is None)
    return stack if stack or hid else OTHERS


def entered(stack: Stack) -> Stack:
    """The recorders of a stack that this context entered, or that it was started under."""
    if stack is OTHERS or not stack:
        return ()
    below = stack[-1].below
    return tuple([r for r in stack if r not in below]) if below else stack


def forked() -> None:
    """In a new process, which is in no block: what it has of followed values can still not leave it unnoticed."""
    STACK.set(OTHERS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)


def is_tracked(node: Any) -> bool:
    """Whether an active recorder follows ``node``."""
    for r in STACK.get():
        if r.tracks(node):
            return True
    return False


def has_derivative(node: Any) -> bool:
    """Whether an active recorder follows ``node`` for the sake of its derivative."""
    return any([r.tracks(node) for r in STACK.get() if not r.facts])


def is_fact(node: Any) -> bool:
    """Whether an active recorder follows ``node`` that follows what carries no derivative as well."""
    for r in STACK.get():
        if r.facts and r.tracks(node):
            return True
    return False


@contextmanager
def under(stack: Stack) -> Iterator[None]:
    """Run a block under ``stack`` alone."""
    before, inside = STACK.get(), INSIDE.get()
    STACK.set(stack)
    INSIDE.set(True)
    try:
        yield
    finally:
        STACK.set(before)
        INSIDE.set(inside)


@contextmanager
def hidden(recorders: Stack, stack: Stack, before: Stack) -> Iterator[None]:
    """Run a block under ``stack`` with ``recorders`` hidden from other contexts; afterwards ``before`` is put back,
    with what was entered in the block and not left, and without what was closed meanwhile."""
    own, inside = entered(before), INSIDE.get()  # who entered no block hides nobody from others
    gone = [r for r in recorders if r in own and r in _all]
    _hidden.extend(gone)
    STACK.set(stack)
    INSIDE.set(inside or bool(own))
    try:
        yield
    finally:
        INSIDE.set(inside)
        for r in gone:
            _hidden.remove(r)
        known = (*before, *stack)
        more = [r for r in STACK.get() if r not in known]
        for r in more:
            r.below = () if before is OTHERS else before[-1].below if before else None
        if before is OTHERS:
            STACK.set(tuple(more) or OTHERS)
        else:
            STACK.set(left_of(before, tuple([r for r in (*before, *more) if r.live])))


@contextmanager
def without(recorder: Recorder) -> Iterator[None]:
    """Run a block with one recorder paused; it is put back where it stood, unless it was closed meanwhile."""
    before = STACK.get()
    stands = [r for r in before if r.stands_for(recorder)]
    for r in stands:
        r.pause(recorder, True)
    try:
        with hidden((recorder,), tuple([r for r in live() if r is not recorder]), before):
            yield
    finally:
        for r in stands:
            r.pause(recorder, False)


@contextmanager
def paused() -> Iterator[None]:
    """Run a block with nobody recording who is there for derivatives; one that is entered in it and not left stays."""
    now = live()
    with hidden([r for r in now if not r.facts], tuple([r for r in now if r.facts]), STACK.get()):
        yield
