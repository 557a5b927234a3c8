"""Batched sweeps: all rows or columns of a Jacobian by one walk over the entries, with a batch of seeds, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.batching.level import Batch, Level, NotBatched, Outside, count_open, is_batched, sliced, stacked, top
from dualtape.core import recorders
from dualtape.core.recorders import STACK, Recorder, Stack
from dualtape.core.sweep import Cotangents, Entries, kept_bytes, planned, sweep, walk
from dualtape.core.tangents import TangentRecorder, attach
from dualtape.core.tensor import Node, Tensor, among, tensor

# What the cotangents or tangents of one chunk may take, roughly, in bytes.
MEMORY = 2**28


# ------------------------------------------------------------------ reverse
def pull(batch: Batch, e: Any, g: Any, cotangents: Cotangents, raw: bool) -> None:
    """One step of a sweep. A rule that does not get through with Batches is applied once for each example."""
    in_place = e[0].row.pull_batch
    if in_place is not None and in_place(e, g, cotangents, raw):
        return
    if len(e[0].inputs(e)) == 1:  # it adds to one cotangent, as the last thing it does
        try:
            e[0].pull(e, g, cotangents, raw)
        except Exception as error:
            merge(cotangents, pull_each(batch.level, e, g, cotangents, raw, error))
        return
    part = portion(cotangents)
    try:
        e[0].pull(e, g, part, raw)
    except Exception as error:
        cotangents.quiet = part.quiet
        part = pull_each(batch.level, e, g, cotangents, raw, error)
    merge(cotangents, part)


def portion(cotangents: Cotangents) -> Cotangents:
    """Cotangents of their own for one step, so that a step that fails leaves nothing behind."""
    part = Cotangents()
    part.masked, part.quiet = cotangents.masked, cotangents.quiet
    return part


def merge(cotangents: Cotangents, part: Cotangents) -> None:
    """Take over what one step has found."""
    cotangents.masked |= part.masked
    cotangents.quiet = part.quiet
    for i, c in part.items():
        cotangents.add(i, c)


def pull_each(level: Level, e: Any, g: Any, cotangents: Cotangents, raw: bool, error: Exception) -> Cotangents:
    """One step of a sweep, for one example after the other."""
    if not raw and level.marker is None:
        raise NotBatched(f"{e[0].name}: recorders inside the batch follow this step") from error
    level.note(e[0].name)
    found: list[dict[int, Any]] = []
    masked, quiet = cotangents.masked, cotangents.quiet
    with level.outside():
        for k in range(level.size):
            one = portion(cotangents)
            one.quiet = quiet
            entry, c = sliced(level, e, k), sliced(level, g, k)
            if (outer := among((c, *entry))) is None:
                entry[0].pull(entry, c, one, raw)
            else:
                outer.pull(entry, c, one, raw)
            found.append(dict(one))
            masked, quiet = masked or one.masked, one.quiet
        part = Cotangents()
        part.masked, part.quiet = masked, quiet
        for i in dict.fromkeys(i for one in found for i in one):
            cs = [one.get(i) for one in found]
            like = next(c for c in cs if c is not None)
            part[i] = stacked(level, [np.zeros(like.shape, like.dtype) if c is None else c for c in cs])
    if not raw:
        part.update({i: tensor(c) for i, c in part.items()})
    return part


def chunk_size(entries: Entries, chunk: int | None, count: int, nbytes: int) -> int:
    """How many seeds go into one sweep: as asked for, else as many as the memory bound allows.

    A sweep holds about as much for each seed as the tape keeps once, or ``nbytes`` if that is more.
    """
    if chunk is None:
        return max(1, min(count, MEMORY // max(kept_bytes(entries), nbytes, 1)))
    if not isinstance(chunk, (int, np.integer)) or chunk < 1:
        raise ValueError(f"chunk is a positive int, the number of seeds in one sweep, or None; got {chunk!r}")
    return int(chunk)


def chunks(count: int, size: int) -> Iterator[tuple[int, int]]:
    """The bounds of pieces of at most ``size``."""
    for start in range(0, count, size):
        yield start, min(start + size, count)


def unit_seeds(like: Any, start: int, stop: int, factor: Any = 1) -> np.ndarray[Any, Any]:
    """The unit arrays of a shape from ``start`` to ``stop``, in its dtype, one after the other."""
    seeds = np.zeros((stop - start, like.size), like.dtype)
    seeds[np.arange(stop - start), np.arange(start, stop)] = factor
    return seeds.reshape((stop - start, *like.shape))


def opened_level(size: int) -> Level:
    """A level for a sweep, under the recorders that are active."""
    return Level(size, recorders.live())


def seeded(level: Level, physical: Any) -> Any:
    """A batch of seeds as rules take them: plain, or a Tensor if somebody records."""
    batch = Batch(level, physical)
    return batch if level.marker is None else tensor(batch)


def unpacked(level: Level, c: Any) -> Any:
    """The physical array of a result, with the batch as its first axis; None if there is none."""
    if c is None:
        return None
    value = c._node.value if c.__class__ is Tensor else c
    if is_batched(level, value):
        return value.physical
    if isinstance(value, Batch) and value.level.number > level.number:
        raise RuntimeError("an accumulator with a batch of tangents must be made inside the vmap that it is used in")
    return np.broadcast_to(c, (level.size, *c.shape))


def rows(
    entries: Entries,
    target: Node,
    sources: Sequence[int],
    seeds: Any,
    all_watched: bool,
    looped: dict[str, int] | None = None,
    one_by_one: bool = False,
) -> list[Any]:
    """The cotangents of the sources for each of a batch of cotangents of the target.

    Args:
        entries: what a tape recorded; nothing is let go of.
        target: a node of a floating or complex dtype.
        sources: identities.
        seeds: shape (batch,) + that of the target.
        all_watched: whether nothing is watched that is no source.
        looped: gets the names of operations that ran once for each seed.
        one_by_one: a sweep for each seed.

    Returns:
        For each source an array of shape (batch,) + its shape, a Tensor if somebody records; None where there is none.
    """

    def one(k: int) -> list[Any]:
        cotangents = Cotangents()
        cotangents[target.id] = seeds[k]
        return sweep(entries, cotangents, sources, False, all_watched)

    if not one_by_one:
        level = opened_level(len(seeds))
        cotangents = Cotangents()
        cotangents[target.id] = seeded(level, seeds)
        try:
            with level.running():
                found = sweep(entries, cotangents, sources, False, all_watched)
            return [unpacked(level, c) for c in found]
        except NotBatched:
            level.note("the whole sweep")
        finally:
            level.close()
            if looped is not None:
                looped.update(level.looped)
    return in_columns([one(k) for k in range(len(seeds))], len(sources))


def in_columns(found: list[list[Any]], count: int) -> list[Any]:
    """Results of sweeps one by one, as one array for each source."""
    columns = []
    for m in range(count):
        cs = [c[m] for c in found]
        like = next((c for c in cs if c is not None), None)
        if like is not None:
            like = np.stack([np.zeros(like.shape, like.dtype) if c is None else c for c in cs])
        columns.append(like)
    return columns


# ------------------------------------------------------------------ forward
def columns(
    entries: Entries, tangents: dict[int, Any], ends: Sequence[int], size: int, looped: dict[str, int]
) -> list[Any]:
    """The tangents of results for a batch of tangents of what linear entries start from.

    Args:
        entries: linear operations, as ``linearize`` records them.
        tangents: by identity, arrays of shape (size,) + that of the source; what is not in it is zero.
        ends: identities of results.
        size: the number of tangents.
        looped: gets the names of operations that ran once for each tangent.

    Returns:
        For each result an array of shape (size,) + its shape, a Tensor if somebody records; None for zero.
    """
    level = opened_level(size)
    steps = planned(entries, ends)
    try:
        with level.running():
            found = walk(steps, {i: seeded(level, t) for i, t in tangents.items()})
        return [unpacked(level, found.get(i)) for i in ends]
    except NotBatched:
        level.note("the whole sweep")
    finally:
        level.close()
        looped.update(level.looped)
    each = [walk(steps, {i: t[k] for i, t in tangents.items()}) for k in range(size)]
    return in_columns([[one.get(i) for i in ends] for one in each], len(ends))


def push(batch: Batch, e: Any, tangents: Sequence[Any], raw: bool) -> Any:
    """A forward rule. One that does not get through with Batches is applied to one set of tangents after the other."""
    try:
        return e[0].push(e, tangents, raw)
    except Exception:
        level = top(tangents)
        if level is None:
            raise
    level.note(e[0].name)
    with level.outside():
        examples = [(sliced(level, e, k), sliced(level, list(tangents), k)) for k in range(level.size)]
        found = stacked(level, [e[0].push(one, ts, raw) for one, ts in examples])
    if raw:
        return found
    return tuple([tensor(t) for t in found]) if isinstance(found, tuple) else tensor(found)


Batch.pull = pull  # type: ignore[method-assign, assignment]  # in a file of their own, and of this class all the same
Batch.push = push  # type: ignore[method-assign, assignment]


class BatchRecorder(TangentRecorder):
    """One activation of an accumulator whose tangents are Batches."""

    __slots__ = ("level",)

    def __init__(self, key: int, level: Level) -> None:
        super().__init__(key)
        self.level = level

    see_one, see_two = Recorder.see_one, Recorder.see_two

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Stack) -> None:
        key, level = self.key, self.level
        found = [None if a is None or a.tangents is None else a.tangents.get(key) for a in nodes]
        if all([t is None for t in found]):
            return
        outer = self.outside(stack)
        if (outer and level.marker is None) or (not outer and level.marker is not None):
            # Tapes may be entered and left while an accumulator lasts.
            level.marker = Outside(level, outer) if outer else None
        elif level.marker is not None:
            level.marker.outer = level.marker.every = outer
        raw = level.marker is None
        found = [t._node.value if raw and t.__class__ is Tensor else t for t in found]
        if not raw:
            found = [tensor(t) if t.__class__ is Batch else t for t in found]
        count_open(1)
        before = STACK.get()
        STACK.set(() if level.marker is None else (level.marker,))
        try:
            batch = among(found)
            result = entry[0].push(entry, found, raw) if batch is None else batch.push(entry, found, raw)
        finally:
            count_open(-1)
            STACK.set(before)
        for out, t in zip(outs, (result,) if len(outs) == 1 else result, strict=True):
            if t is not None:
                attach(out, key, t)
