"""Reverse mode: a walk over the entries of a tape from the last to the first. And along entries that are linear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.apart import apart
from dualtape.core.reached import SMALL, Reach, gaps, marks_along, outline, pushed, shape_of
from dualtape.core.recorders import STACK
from dualtape.core.standin import OPEN, finite
from dualtape.core.tensor import Node, Tensor, among, new, tensor
from dualtape.memory.reserve import GROWN, trim

Entries = dict[int, Any]


class Cotangents(dict[int, Any]):
    """Cotangents by identity. What is not in it is zero.

    ``owned`` are the identities whose array this sweep made itself and nobody else holds: only those may be
    changed in place. ``sparse`` are the identities for which the caller takes slices in place of an array.

    Zeros among the cotangents can mean "not taken", and must survive an infinite partial then. ``reach`` tells, once
    elements are left out; ``masked`` says that a rule chose among values, so that all partials are looked at, and not
    those alone which can be infinite where the value is finite. ``seeded`` says that the sweep may start with zeros.
    """

    __slots__ = ("ahead", "at", "cut", "masked", "owned", "quiet", "reach", "rest", "seeded", "sparse")

    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.sparse: Any = ()
        self.quiet: Any = None
        self.seeded = self.masked = self.cut = False
        self.reach: Reach | None = None
        # The identity of the result whose entry is being passed; while nothing is left out, what is still to be passed
        # by a walk that looks out for nothing, and what it was, once something is.
        self.at = 0
        self.ahead: Entries | None = None
        self.rest: Entries | None = None

    def select(self, raw: bool) -> None:
        """A rule chooses elements by their values."""
        self.masked = True
        self.leave_out(raw, True)

    def leave_out(self, raw: bool, always: bool = False) -> None:
        """A rule leaves elements out: from here on what is passed is remembered, if a partial ahead can be infinite."""
        ahead = self.ahead
        self.cut = True
        if self.reach is None and (always or ahead is None or any_singular(ahead)):
            self.reach = Reach(Marks(), raw)
            self.reach.full = {i: shape_of(g) for i, g in self.items()}
            if ahead is not None:
                self.rest = dict(ahead)
                ahead.clear()

    def start(self, entries: Entries, raw: bool) -> None:
        """What is not seeded is left out as well."""
        if any_singular(entries):
            self.told({i: gaps(g) for i, g in self.items()}, raw)

    def told(self, marks: dict[int, Any], raw: bool) -> None:
        """What the sweep starts with has these marks; None where all is reached."""
        self.reach = reach = Reach(Marks(), raw)
        reach.first = False
        reach.full = {i: shape_of(self[i]) for i, m in marks.items() if m is None}
        reach.marks.update({i: m for i, m in marks.items() if m is not None})

    def hush(self) -> None:
        """No more floating-point warnings in this sweep: an infinite slope is a result, no mishap."""
        self.quiet = np.errstate(divide="ignore", invalid="ignore")
        self.quiet.__enter__()

    def close(self) -> None:
        """End of the sweep."""
        if GROWN[0]:
            trim()
        if self.quiet is not None:
            self.quiet.__exit__(None, None, None)
            self.quiet = None

    def add(self, i: int, c: Any, fresh: bool = False) -> None:
        """Add to the cotangent of ``i``; a ``fresh`` array is nobody else's and may be added into."""
        before = self.get(i)
        if before is None:
            self[i] = c
        elif before.__class__ is c.__class__ is np.ndarray and before.dtype == c.dtype and (fresh or i in self.owned):
            if i in self.owned:
                before += c
            else:
                c += before
                self[i] = c
                self.owned.add(i)
        else:
            after = before + c
            self[i] = after
            if after.__class__ is np.ndarray or after.__class__ is Tensor:
                self.owned.add(i)

    def passed_on(self, i: int) -> Any:
        """The cotangent of a source that was itself computed, complete when it is passed on to what that came from."""
        c = self[i]
        self.owned.discard(i)
        if hasattr(c, "dense"):  # slices in place of an array
            self[i] = c.dense()
        return c

    def buffer(self, i: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """The cotangent of ``i`` as an array to write into, zeros at first."""
        before = self.get(i)
        if before is not None and i in self.owned:
            return before
        if before is None:
            after = np.zeros(shape, dtype)
        else:
            assert before.__class__ is not Tensor, "a recorded cotangent cannot be written into"
            after = np.array(before, dtype=np.result_type(before, dtype))
        self[i] = after
        self.owned.add(i)
        return after


class Marks(Cotangents):
    """Marks of what is reached, in the place of cotangents."""

    __slots__ = ()

    def leave_out(self, raw: bool, always: bool = False) -> None:
        """Nothing is asked of marks."""


def sweep(
    entries: Entries, cotangents: Cotangents, sources: Sequence[int], consume: bool, all_watched: bool
) -> list[Any]:
    """Walk the entries from the last to the first; return the cotangent of each source, or None.

    With nobody recording, rules see plain arrays; else Tensors, so that the walk itself is recorded. A walk that
    consumes lets go of each entry as it passes it. If something is watched that is no source, what depends on no
    source is left out; ``all_watched`` says that there is nothing of the kind.
    """
    raw = not (STACK.get() and (stack := recorders.live()) and not stack[-1].listens)
    if cotangents.seeded:
        cotangents.start(entries, raw)
    needed = None if all_watched else dependants(entries, sources)
    # Sources that were themselves computed: their cotangent is complete when the walk reaches them, and is passed on.
    computed = list(filter(entries.get, sources))
    whole: dict[int, Any] = {}
    pop = cotangents.pop
    try:
        if consume and not computed and needed is None and not OPEN[0] and cotangents.reach is None:
            # The plain gradient: nothing to look out for, until a rule selects elements.
            cotangents.ahead = entries
            take = entries.popitem
            while entries:
                i, e = take()
                if e:
                    g = pop(i, None)
                    if g is not None:
                        e[0].pull(e, g, cotangents, raw)
            if cotangents.rest is None:
                return list(map(cotangents.get, sources))
            assert cotangents.reach is not None
            cotangents.reach.begin(i, e, g)
            cotangents.ahead, entries = None, cotangents.rest
        for i, e in drained(entries) if consume else reversed(list(entries.items())):
            if not e:
                continue
            cotangents.at = i
            if i in computed and i in cotangents:
                whole[i] = cotangents.passed_on(i)
            g = pop(i, None)
            if g is None:
                continue
            if needed is not None:
                if i not in needed and needed.isdisjoint(e[0].inputs(e)):
                    continue
                e = e[0].restrict(e, needed)
                if e is None:
                    continue
            if OPEN[0] and (standin := among((g, *e))) is not None:
                standin.pull(e, g, cotangents, raw)
            else:
                e[0].pull(e, g, cotangents, raw)
            if (reach := cotangents.reach) is not None:
                if reach.first:
                    reach.begin(i, e, g)
                else:  # large arrays are let go of with what their entries keep
                    small = g.__class__ is list or g.size < SMALL
                    reach.passed[i] = e if small else outline(e, g.shape, raw)
    finally:
        cotangents.close()
    return [whole[i] if i in whole else cotangents.get(i) for i in sources]


def any_singular(entries: Entries) -> bool:
    """Whether an entry can have an infinite partial."""
    for e in entries.values():
        if e and e[0].singular:
            return True
    return False


def finished(c: Any, source: Any, zero: bool = True) -> Any:
    """A cotangent as the caller gets it: a Tensor like its source, a handle that nobody else has; or None."""
    if c is None:
        if not zero:
            return None
        return tensor(np.zeros(source.shape, source.dtype)[()])
    if c.__class__ is Tensor:
        handle: Tensor = new(Tensor)
        handle._node = c._node
        return handle
    if c.__class__ is np.ndarray:
        if c.base is not None and 0 in c.strides:
            c = np.ascontiguousarray(c) if c.ndim else c[()]
    elif hasattr(c, "dense"):  # slices in place of an array
        return c.finish()
    return tensor(c)


def drained(entries: Entries) -> Iterator[tuple[int, Any]]:
    """The entries from the last to the first, each let go of as it is passed."""
    while entries:
        yield entries.popitem()


def dependants(entries: Entries, sources: Iterable[int]) -> set[int]:
    """The identities that depend on any of ``sources``: nothing else needs a cotangent."""
    needed = set(sources)
    for i, e in entries.items():
        if e and not needed.isdisjoint(e[0].inputs(e)):
            needed.add(i)
    return needed


# A step of a walk along: identity of the result, entry, identities it reads, and those that nothing reads later.
Step = tuple[int, Any, tuple[int, ...], list[int]]


def planned(entries: Entries, ends: Sequence[int]) -> list[Step]:
    """The entries that ``ends`` depend on, in the order of their recording, each with the tangents that it is the last
    to read: they are let go of, and their memory is used again."""
    wanted = set(ends)
    steps: list[Step] = []
    for i, e in reversed(entries.items()):
        if e and i in wanted:
            ids = e[0].inputs(e)
            steps.append((i, e, ids, [k for k in ids if k not in wanted]))
            wanted.update(ids)
    steps.reverse()
    return steps


def walk(steps: Sequence[Step], tangents: dict[int, Any]) -> dict[int, Any]:
    """Go along linear entries with new tangents of what they start from, to those of their ends.

    Where a tangent has zeros to start with and an infinity comes out, once more: what is not reached stays 0.
    """
    raw = not recorders.following()
    start = dict(tangents)
    with np.errstate(invalid="ignore"):
        found = walked(steps, tangents, None, raw) if raw else {}
        if raw and all(map(finite, found.values())):
            return found
        marks = {i: m for i, t in start.items() if (m := gaps(t)) is not None}
        return found if raw and not marks else walked(steps, start, marks or None, raw)


def walked(
    steps: Sequence[Step], tangents: dict[int, Any], marks: dict[int, Any] | None, raw: bool
) -> dict[int, Any]:
    """Go along once; with the ``marks`` of tangents, 0 stays 0 where nothing is reached."""
    get = tangents.get
    for i, e, ids, last in steps:
        ts = [get(k) for k in ids]
        if any([t is not None for t in ts]):
            found = pushed(e, ts, raw)
            if marks is not None and hasattr(found, "shape"):
                marks[i] = m = marks_along(
                    e, [None if t is None else t.shape for t in ts], [marks.get(k) for k in ids], found.shape
                )
                found = found if m is None else apart(found, [m])
            if found is not None:
                tangents[i] = found
            found = None
        for k in last:
            tangents.pop(k, None)
        del ts
    if GROWN[0]:
        trim()
    return tangents


def kept_bytes(entries: Entries) -> int:
    """The bytes of the arrays that entries keep, each buffer counted once, and of the tangents that hang on them."""
    buffers: dict[int, int] = {}
    for e in entries.values():
        for kept in e[0].kept(e) if e else ():
            tangents = kept.tangents if kept.__class__ is Node else None
            for value in (kept, *tangents.values()) if tangents else (kept,):
                value = value._node if value.__class__ is Tensor else value
                value = value.value if value.__class__ is Node else value
                while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
                    value = value.base
                if isinstance(value, (np.ndarray, np.generic)):
                    buffers[id(value)] = value.nbytes
    return sum(buffers.values())
