"""The stack of active recorders: who is told of an operation, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from sys import exception
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

    __slots__ = ("entries", "live", "reads", "sealed")

    # Whether it follows what carries no derivative as well, comparisons and indices, as a reader does that wants to
    # carry out the program again. Rules then find their masks by operations that it is told of (``absent.still``).
    facts = False
    # Whether it stands for one that does.
    for_facts = False

    def __init__(self, entries: dict[int, Any] | None, sealed: bool = False) -> None:
        self.entries = entries
        self.live = True
        # While it is the innermost one: how Variables were read under the whole stack (``modes/variable.py``).
        self.reads: dict[int, Any] | None = {}
        # Whether its sources are handles of its own, that nobody else has and nobody may write into.
        self.sealed = sealed

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


Stack = tuple[Recorder, ...]

STACK: ContextVar[Stack] = ContextVar("dualtape_recorders", default=())

# Whether what runs is part of a computation that recorders or a batch are open around, though none may be on the stack.
INSIDE: ContextVar[bool] = ContextVar("dualtape_inside", default=False)


def outermost() -> bool:
    """Whether what runs is part of no other computation: no recorder is open, paused or not, and no batch."""
    return not (STACK.get() and live()) and not INSIDE.get()


def enter(recorder: Recorder) -> None:
    """Make ``recorder`` the innermost one; forget the dead ones on the way."""
    stack = STACK.get()
    for r in stack:
        if not r.live:
            stack = live()
            break
    STACK.set((*stack, recorder) if stack else (recorder,))


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
    stack = STACK.get()
    if stack and stack[-1] is recorder:
        STACK.set(stack[:-1])
    else:
        STACK.set(tuple([r for r in stack if r.live]))


def live() -> Stack:
    """The recorders that are told of an operation now, outermost first."""
    stack = STACK.get()
    for r in stack:
        if not r.live:
            stack = tuple(r for r in stack if r.live)
            STACK.set(stack)
            break
    return stack


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
def without(recorder: Recorder) -> Iterator[None]:
    """Run a block with one recorder paused; it is put back where it stood, unless it was closed meanwhile."""
    before, inside = STACK.get(), INSIDE.get()
    STACK.set(tuple(r for r in before if r is not recorder))
    INSIDE.set(inside or bool(before))
    hidden = [r for r in before if r.stands_for(recorder)]
    for r in hidden:
        r.pause(recorder, True)
    try:
        yield
    finally:
        INSIDE.set(inside)
        for r in hidden:
            r.pause(recorder, False)
        entered = tuple(r for r in STACK.get() if r not in before)
        STACK.set((*(r for r in before if r.live), *entered))


@contextmanager
def paused() -> Iterator[None]:
    """Run a block with nobody recording who is there for derivatives; one that is entered in it and not left stays."""
    before, inside = STACK.get(), INSIDE.get()
    STACK.set(tuple([r for r in before if r.facts]))
    INSIDE.set(inside or bool(before))
    try:
        yield
    finally:
        INSIDE.set(inside)
        entered = [r for r in STACK.get() if r not in before]
        STACK.set(tuple([r for r in (*before, *entered) if r.live]))
