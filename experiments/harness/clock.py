"""Timing calls in turns, so that a disturbance meets all of them, and the peak of memory in a run of its own.

After the methodology of ADBench (microsoft/ADBench, docs/Methodology.md): a sample repeats a call until it lasts long
enough to be measured, and the least disturbed of several samples counts.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Effort:
    """How long to measure: seconds a sample at least, and how many rounds follow the one that finds how many calls that
    takes: `rounds` at most, and after `fewest` of them none that begins later than `limit` seconds from the start."""

    least: float
    rounds: int
    limit: float
    fewest: int = 3


_LOG: ContextVar[list[dict[str, Any]] | None] = ContextVar("samples", default=None)


@contextmanager
def kept() -> Iterator[list[dict[str, Any]]]:
    """Keep every sample that is taken inside, as what a result file can hold."""
    log: list[dict[str, Any]] = []
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


@contextmanager
def set_aside() -> Iterator[None]:
    """Keep what is there already from the collector, until the outermost of these blocks ends.

    A large library that is merely imported would make every collection, and so whatever is timed, slower.
    """
    gc.collect()
    outermost = not gc.get_freeze_count()
    gc.freeze()
    try:
        yield
    finally:
        if outermost:
            gc.unfreeze()


def sample(call: Call, repeats: int, now: Clock) -> float:
    """Seconds that `repeats` calls take. The garbage collector stays on: it is part of what a user waits for."""
    start = now()
    for _ in range(repeats):
        call()
    return now() - start


def enough(call: Call, least: float, now: Clock) -> tuple[int, float]:
    """The smallest power of two of calls that last longer than `least` seconds, and what they lasted."""
    repeats = 1
    while (seconds := sample(call, repeats, now)) <= least:
        repeats *= 2
    return repeats, seconds


def interleaved(
    calls: Mapping[str, Call], effort: Effort, now: Clock = time.perf_counter, about: str = ""
) -> dict[str, Timing]:
    """Time calls in turns: f, g, f, g, ..., until the effort is spent; `about` says of what in what is `kept`.

    `now` may be `time.process_time`, which other programs on the machine disturb less; it adds up all threads.
    """
    with set_aside():
        start = time.perf_counter()
        first = {name: enough(call, effort.least, now) for name, call in calls.items()}
        found = {name: [seconds] for name, (_, seconds) in first.items()}
        for done in range(effort.rounds):
            if done >= effort.fewest and time.perf_counter() - start > effort.limit:
                break
            for name, call in calls.items():
                found[name].append(sample(call, first[name][0], now))
    log = _LOG.get()
    if log is not None:
        calls_made = {name: {"repeats": first[name][0], "seconds": times} for name, times in found.items()}
        log.append({"about": about, "calls": calls_made})
    return {
        name: Timing(min(times) / repeats, statistics.median(times) / repeats, len(times), repeats)
        for (name, times), (repeats, _) in zip(found.items(), first.values(), strict=True)
    }


@contextmanager
def traced() -> Iterator[None]:
    """Trace what is allocated from here on, with no memory left over from what ran before."""
    gc.collect()
    release_memory()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def peak_bytes(call: Call) -> int:
    """The most that is allocated at one time during a call, beyond what was there before; a measurement."""
    with traced():
        call()
        return tracemalloc.get_traced_memory()[1]
