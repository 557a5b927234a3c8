"""Timing calls in turns, so that a disturbance meets all of them, and the peak of memory in a run of its own."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dualtape.inspect import release_memory

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Seconds a call: of the fastest sample, and of the one in the middle."""

    least: float
    median: float
    samples: int
    repeats: int


def sample(call: Call, repeats: int, now: Clock) -> float:
    """Seconds that `repeats` calls take. The garbage collector stays on: it is part of what a user waits for."""
    start = now()
    for _ in range(repeats):
        call()
    return now() - start


def enough(call: Call, least: float, now: Clock) -> int:
    """The smallest power of two of calls that last longer than `least` seconds."""
    repeats = 1
    while sample(call, repeats, now) <= least:
        repeats *= 2
    return repeats


def interleaved(
    calls: Mapping[str, Call],
    least: float = 1e-2,
    rounds: int = 15,
    limit: float = 20.0,
    now: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Time calls in turns: f, g, f, g, ..., until so many rounds are done or, after three, so many seconds have passed.

    `now` may be `time.process_time`, which other programs on the machine disturb less; it adds up all threads.
    What is there before the clock starts is set aside from the collector, or a large library that is merely imported
    would make every collection, and so every other library, slower.
    """
    gc.collect()
    gc.freeze()
    try:
        start = time.perf_counter()
        repeats = {name: enough(call, least, now) for name, call in calls.items()}
        found: dict[str, list[float]] = {name: [] for name in calls}
        for done in range(1, rounds + 1):
            for name, call in calls.items():
                found[name].append(sample(call, repeats[name], now) / repeats[name])
            if done >= 3 and time.perf_counter() - start > limit:
                break
    finally:
        gc.unfreeze()
    return {
        name: Timing(min(times), statistics.median(times), len(times), repeats[name]) for name, times in found.items()
    }


def peak_bytes(call: Call) -> int:
    """The most that is allocated at one time during a call, beyond what was there before."""
    gc.collect()
    release_memory()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
