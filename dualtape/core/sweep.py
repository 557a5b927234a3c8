"""Reverse mode: a walk over the entries of a tape from the last to the first. And along entries that are linear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import STACK
from dualtape.core.standin import OPEN
from dualtape.core.tensor import Node, Tensor, among, new, tensor
from dualtape.memory.reserve import GROWN, trim

Entries = dict[int, Any]


class Cotangents(dict[int, Any]):
    """Cotangents by identity. What is not in it is zero.

    ``owned`` are the identities whose array this sweep made itself and nobody else holds: only those may be
    changed in place. ``masked`` says that a rule further up selected elements, so that zeros among the
    cotangents mean "not taken" and must survive an infinite partial. ``sparse`` are the identities for which the
    caller takes slices in place of an array.
    """

    __slots__ = ("masked", "owned", "quiet", "sparse")

    def __init__(self) -> None:
        self.owned: set[int] = set()
        self.masked = False
        self.sparse: Any = ()
        self.quiet: Any = None

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


def sweep(
    entries: Entries, cotangents: Cotangents, sources: Sequence[int], consume: bool, all_watched: bool
) -> list[Any]:
    """Walk the entries from the last to the first; return the cotangent of each source, or None.

    With nobody recording, rules see plain arrays; else Tensors, so that the walk itself is recorded. A walk that
    consumes lets go of each entry as it passes it. If something is watched that is no source, what depends on no
    source is left out; ``all_watched`` says that there is nothing of the kind.
    """
    raw = not (STACK.get() and recorders.live())
    needed = None if all_watched else dependants(entries, sources)
    # Sources that were themselves computed: their cotangent is complete when the walk reaches them, and is passed on.
    computed = list(filter(entries.get, sources))
    whole: dict[int, Any] = {}
    pop = cotangents.pop
    try:
        if consume and not computed and needed is None and not OPEN[0]:  # the plain gradient: nothing to look out for
            take = entries.popitem
            while entries:
                i, e = take()
                if e:
                    g = pop(i, None)
                    if g is not None:
                        e[0].pull(e, g, cotangents, raw)
            return list(map(cotangents.get, sources))
        for i, e in drained(entries) if consume else reversed(list(entries.items())):
            if not e:
                continue
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
    finally:
        cotangents.close()
    return [whole[i] if i in whole else cotangents.get(i) for i in sources]


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
    """Go along linear entries with new tangents of what they start from, to those of their ends."""
    raw = not recorders.live()
    get = tangents.get
    for i, e, ids, last in steps:
        ts = [get(k) for k in ids]
        if any([t is not None for t in ts]):
            try:
                found = e[0].push(e, ts, raw)
            except Exception:
                standin = among(ts)
                if standin is None:
                    raise
                found = standin.push(e, ts, raw)
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
