"""Memory for large arrays that was used before: a fresh allocation costs more than filling it.

The operating system clears a fresh page before it hands it out, which takes about as long as ten products on its
elements; and the C library gives freed pages back time and again.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

# Below this size NumPy's own small blocks are as good.
SMALLEST = 2**16
# All that is kept in reserve while derivatives are computed, and from then on.
RESERVE, LASTING = 2**28, 2**26

# Blocks by their size, the size used longest ago first.
_reserve: dict[int, list[np.ndarray[Any, Any]]] = {}
_held = 0
_lock = Lock()
# Arrays and their latest copies, while both live.
_recent: list[tuple[Any, Any]] = []


def copied_once(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of ``a`` that is never written to: the latest one, if somebody still holds it and ``a`` has not changed.

    A loop that uses one constant matrix in every step then keeps one copy of it and not one a step.
    """
    if a.nbytes < SMALLEST:
        return a.copy()
    for original, copy in _recent:
        if original() is a:
            c = copy()
            if c is not None and c.shape == a.shape and c.dtype == a.dtype and np.array_equal(c, a):
                return c  # type: ignore[no-any-return]
    c = copied(a)
    _recent.append((ref(a), ref(c)))
    if len(_recent) > 32:
        _recent[:] = [(o, k) for o, k in _recent[-16:] if o() is not None and k() is not None]
    return c


def copied(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of ``a``, in memory used before if it is large."""
    if a.nbytes < SMALLEST or not a.flags.c_contiguous or a.dtype.hasobject:
        return a.copy()
    target = room(a.shape, a.dtype)
    np.copyto(target, a)
    return target


def room(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array with arbitrary elements, in the memory of an earlier one of its size that nobody holds any more."""
    global _held
    nbytes = prod(shape) * dtype.itemsize
    if not SMALLEST <= nbytes <= RESERVE // 2:
        return np.empty(shape, dtype)
    with _lock:
        blocks = _reserve.pop(nbytes, None) or []
        _reserve[nbytes] = blocks
        for block in blocks:
            # Held by the list, this loop and the call: no array stands on its memory.
            if getrefcount(block) == 3:
                return np.ndarray(shape, dtype, block)
        block = np.empty(nbytes, np.uint8)
        blocks.append(block)
        _held += nbytes
        shorten(RESERVE)
        return np.ndarray(shape, dtype, block)


def shorten(limit: int) -> None:
    """Let go of the blocks used longest ago."""
    global _held
    while _held > limit:
        size, oldest = next(iter(_reserve.items()))
        del oldest[0]
        _held -= size
        if not oldest:
            del _reserve[size]


def trim() -> None:
    """Give back what only a running computation should keep in reserve."""
    if _held > LASTING:
        with _lock:
            shorten(LASTING)
