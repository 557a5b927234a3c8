"""What several tests measure with: the peak of memory, and running without the garbage collector."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def bytes_at_most(f: Callable[[], Any]) -> int:
    """The peak of what ``f`` allocates."""
    with no_collector():
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            f()
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
