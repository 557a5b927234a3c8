"""Copies of large arrays, in memory that was used before: a fresh allocation costs more than the copying itself."""

from __future__ import annotations

from sys import getrefcount
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

# Below the first size NumPy's own small blocks are as good; above the second, memory should not be kept in reserve.
SMALLEST, LARGEST, RESERVE = 2**16, 2**24, 6

_reserve: list[np.ndarray[Any, Any]] = []
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
    """A copy of ``a``, in the memory of an earlier copy that nobody holds any more, if there is one of its size."""
    if not SMALLEST <= a.nbytes <= LARGEST or not a.flags.c_contiguous or a.dtype.hasobject:
        return a.copy()
    with _lock:
        for block in _reserve:
            # Held by the list, this loop and the call: no array stands on its memory.
            if block.nbytes == a.nbytes and getrefcount(block) == 3:
                target = block.view(a.dtype).reshape(a.shape)
                break
        else:
            block = np.empty(a.nbytes, np.uint8)
            target = block.view(a.dtype).reshape(a.shape)
            _reserve.append(block)
            if len(_reserve) > RESERVE:
                del _reserve[0]
    np.copyto(target, a)
    return target  # type: ignore[no-any-return]
