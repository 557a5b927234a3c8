"""Batched sweeps: all rows or columns of a Jacobian by one walk over the entries, with a batch of seeds, in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.examples import layered
from dualtape.batching.level import Level
from dualtape.batching.physical import repeated
from dualtape.core import recorders
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.standin import Refused
from dualtape.core.sweep import Cotangents, Entries, kept_bytes, planned, sweep, walk
from dualtape.core.tangents import TangentRecorder, attach
from dualtape.core.tensor import Node, Tensor, among, tensor

# What the cotangents or tangents of one chunk may take, roughly, in bytes.
MEMORY = 2**28


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


# ------------------------------------------------------------------ Jacobians
def pull_many(
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

    def back(start: dict[int, Any]) -> list[Any]:
        cotangents = Cotangents()
        cotangents.update(start)
        cotangents.seeded = True
        return sweep(entries, cotangents, sources, False, all_watched)

    return run_many(back, {target.id: seeds}, len(seeds), looped, one_by_one)


def push_many(
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
    steps = planned(entries, ends)

    def along(start: dict[int, Any]) -> list[Any]:
        found = walk(steps, start)
        return [found.get(i) for i in ends]

    return run_many(along, tangents, size, looped)


def run_many(
    run: Callable[[dict[int, Any]], list[Any]],
    seeds: dict[int, Any],
    size: int,
    looped: dict[str, int] | None,
    one_by_one: bool = False,
) -> list[Any]:
    """The results of a sweep for each of many seeds as physical arrays: in one go, or if it must be one by one."""
    if not one_by_one:
        level = Level(size, recorders.live())
        # Rules take seeds as Batches, or as Tensors of them if somebody records.
        seeded = Batch if level.marker is None else lambda level, s: tensor(Batch(level, s))
        before = level.enter()
        try:
            try:
                found = run({i: seeded(level, s) for i, s in seeds.items()})
            finally:
                level.leave(before)
            return [None if c is None else repeated(level, c) for c in found]
        except Refused:
            level.note("the whole sweep")
        finally:
            level.close()
            if looped is not None:
                looped.update(level.looped)
    each = [run({i: s[k] for i, s in seeds.items()}) for k in range(size)]
    return [layered(list(found)) for found in zip(*each, strict=True)]


# ------------------------------------------------------------------ accumulators
def directions(level: Level | None, check: Callable[..., Any], value: Any, tangents: Any, name: str) -> Batch:
    """A batch of tangents, checked against their primal's value; of a level of its own if there is none yet."""
    shape = tangents.shape if hasattr(tangents, "shape") else np.shape(tangents)
    if not shape or shape[1:] != value.shape:
        raise ValueError(
            f"the tangents of {name} have shape {shape}: with batch=True one axis is needed before {value.shape}"
        )
    level = level or Level(shape[0])
    if shape[0] != level.size:
        raise ValueError(f"{shape[0]} tangents of {name}, but {level.size} of the one before it")
    return Batch(level, check(np.broadcast_to(np.zeros((), value.dtype), shape), tangents, name))


def each_direction(level: Level, t: Any) -> Any:
    """A tangent of a result as a physical array."""
    value = t._node.value if t.__class__ is Tensor else t
    if isinstance(value, Batch) and value.number > level.number:
        raise RuntimeError("an accumulator with a batch of tangents must be made inside the vmap that it is used in")
    return repeated(level, t)


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
        level.surround(self.outside(stack))  # tapes may be entered and left while an accumulator lasts
        raw = level.marker is None
        if raw:
            found = [t._node.value if t.__class__ is Tensor else t for t in found]
        else:
            found = [tensor(t) if t.__class__ is Batch else t for t in found]
        before = level.enter()
        try:
            batch = among(found)
            result = (entry[0] if batch is None else batch).push(entry, found, raw)
            if len(outs) == 1:
                result = self.settled(entry, nodes, outs[0], result)
        finally:
            level.leave(before)
        for out, t in zip(outs, (result,) if len(outs) == 1 else result, strict=True):
            if t is not None:
                attach(out, key, t)
