"""A level: one activation of vmap or of a sweep with a batch of seeds, and what its Batches ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock

from dualtape.batching import calls, steps
from dualtape.batching.outside import Outside
from dualtape.core import recorders
from dualtape.core.recorders import INSIDE, STACK, Stack
from dualtape.core.standin import OPEN
from dualtape.memory.reserve import trim

new_number = count(1).__next__
_lock = Lock()


class Level:
    """One activation of vmap or of a batched sweep: the number of examples, and who was recording around it.

    Levels are numbered as they are opened, so that of two Batches that meet the inner one has the higher number; for it
    the outer one is a constant, or part of what it holds.
    """

    __slots__ = ("live", "looped", "marker", "number", "size")

    # What its Batches ask of it.
    call, through, pull, push = calls.call, calls.through, steps.pull, steps.push

    def __init__(self, size: int, outer: Stack = ()) -> None:
        self.size = size
        self.number = new_number()
        self.live = True
        # With recorders around, they see the operations on all examples at once, and a stand-in takes their place.
        self.marker: Outside | None = None
        self.surround(outer)
        # The operations that ran once for each example, and how often.
        self.looped: dict[str, int] = {}

    def surround(self, outer: Stack) -> None:
        """From now on these are the recorders around it."""
        if not outer or self.marker is None:
            self.marker = Outside(self, outer) if outer else None
        else:
            self.marker.outer = self.marker.every = outer

    def ensure_live(self) -> None:
        """Refuse a value whose vmap has ended."""
        if not self.live:
            raise RuntimeError("a value that was made inside vmap is used after it ended: return it from the function")

    def enter(self) -> tuple[Stack, bool]:
        """From now on operations belong to this level; returns what ``leave`` puts back."""
        before = STACK.get(), INSIDE.get()
        with _lock:
            OPEN[0] += 1  # levels of all threads count
        STACK.set(() if self.marker is None else (self.marker,))
        INSIDE.set(True)
        return before

    def leave(self, before: tuple[Stack, bool]) -> None:
        """Operations belong to it no more."""
        STACK.set(before[0])
        INSIDE.set(before[1])
        with _lock:
            OPEN[0] -= 1
        trim()

    def close(self) -> None:
        """From now on its Batches are of no use."""
        self.live = False
        if self.marker is not None:
            recorders.leave(self.marker)
            self.marker.outer = self.marker.every = ()
            self.marker = None  # which knows of the level as well: neither should wait for the garbage collector

    def note(self, name: str) -> None:
        """Remember that an operation ran once for each example."""
        self.looped[name] = self.looped.get(name, 0) + 1

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A block that is seen by the recorders around this level, unless they are paused."""
        marker = self.marker
        if marker is None:
            yield
            return
        stack = STACK.get()
        # Without the stand-in (or that of a level inside, which stands for it), the block is outside already, or in a
        # pause: then no more is seen than is seen now.
        inside = any([r is marker or r.stands_for(marker) for r in stack])
        with recorders.under(tuple([r for r in marker.outer if r.live and (inside or r in stack)])):
            yield
