"""Reverse mode: a walk over the entries of a tape from the last to the first. And along entries that are linear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.cotangents import Cotangents
from dualtape.core.standin import OPEN
from dualtape.core.tensor import Node, Tensor, among
from dualtape.memory.reserve import trim

Entries = dict[int, Any]


def sweep(
    entries: Entries, cotangents: Cotangents, sources: Sequence[int], consume: bool, all_watched: bool
) -> list[Any]:
    """Walk the entries from the last to the first; return the cotangent of each source, or None.

    With nobody recording, rules see plain arrays; else Tensors, so that the walk itself is recorded. A walk that
    consumes lets go of each entry as it passes it. If something is watched that is no source, what depends on no
    source is left out; ``all_watched`` says that there is nothing of the kind.
    """
    raw = not recorders.live()
    needed = None if all_watched else dependants(entries, sources)
    # Sources that were themselves computed: their cotangent is complete when the walk reaches them, and is passed on.
    computed = [i for i in sources if entries.get(i) is not None]
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
            return [cotangents.get(i) for i in sources]
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
            if OPEN[0] and (standin := among((ts, *e))) is not None:
                found = standin.push(e, ts, raw)
            else:
                found = e[0].push(e, ts, raw)
            if found is not None:
                tangents[i] = found
            found = None
        for k in last:
            tangents.pop(k, None)
        del ts
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
