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
# All that is kept in reserve while derivatives are computed, and from then on; and the most blocks of one size.
RESERVE, LASTING, ALIKE = 2**28, 2**26, 16

PAGE = 2**12

# Blocks by their size, the size used longest ago first.
_reserve: dict[int, list[np.ndarray[Any, Any]]] = {}
_lock = Lock()
# Whether blocks came into the reserve since it was last trimmed; those who end a computation then do.
GROWN = [False]
# Arrays and their latest copies, while both live.
_recent: list[tuple[Any, Any]] = []


def references(blocks: list[np.ndarray[Any, Any]]) -> list[int]:
    """The reference counts of blocks, as they are seen from here."""
    return [getrefcount(block) for block in blocks]


# That of a block on which no array stands: which references Python counts depends on its version.
IDLE = references([np.empty(0, np.uint8)])[0]


def taken(arrays: list[Any], k: int) -> np.ndarray[Any, Any]:
    """A large array out of a list, to be written to: itself if nobody else holds it or its memory, else a copy."""
    one = arrays[k : k + 1]
    base = one[0].base
    alone = one[0].flags.writeable and references(one)[0] == IDLE + 1
    if alone and base is not None:  # (of an array without base, a view would hold it)
        # Views of one block hold the block, and so does the reserve.
        blocks = _reserve.get(base.nbytes, ()) if isinstance(base, np.ndarray) else ()
        kept = any([block is base for block in blocks])
        held = [base]
        del base
        alone = references(held)[0] == IDLE + 1 + kept
    return one[0] if alone else copied(one[0])


def copied_once(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of ``a`` that is never written to: the latest one, if somebody still holds it and ``a`` has not changed.

    A loop that uses one constant matrix in every step then keeps one copy of it and not one a step.
    """
    if a.nbytes < SMALLEST:
        return a.copy("K")
    for original, copy in _recent:
        if original() is a:
            c = copy()
            if c is not None and c.shape == a.shape and c.dtype == a.dtype and same_bits(c, a):
                return c  # type: ignore[no-any-return]
    c = copied(a)
    _recent.append((ref(a), ref(c)))
    if len(_recent) > 32:
        _recent[:] = [(o, k) for o, k in _recent[-16:] if o() is not None and k() is not None]
    return c


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are the same to the last bit: 0.0 and -0.0 are not. False if it takes long to find out."""
    if not (a.flags.c_contiguous and b.flags.c_contiguous) or a.dtype.hasobject:
        return False
    unit = np.uint64 if a.nbytes % 8 == 0 else np.uint8
    return bool(np.array_equal(a.reshape(-1).view(unit), b.reshape(-1).view(unit)))


def copied(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy of ``a`` with its axes in the same order, in memory used before if it is large."""
    if a.nbytes < SMALLEST or not a.flags.forc or a.dtype.hasobject:
        return a.copy("K")
    target = room(a.shape, a.dtype) if a.flags.c_contiguous else room(a.shape[::-1], a.dtype).T
    np.copyto(target, a)
    return target


def room(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array with arbitrary elements, in the memory of an earlier one of its size that nobody holds any more."""
    nbytes = prod(shape) * dtype.itemsize
    # Whoever holds the lock may be this very thread, interrupted: then, as in other threads, memory is fetched afresh.
    if not SMALLEST <= nbytes <= RESERVE // 2 or not _lock.acquire(blocking=False):
        return np.empty(shape, dtype)
    try:
        # Rounded up to whole pages, so that arrays of n and of n - 1 elements can follow each other.
        size = -(-nbytes // PAGE) * PAGE
        blocks = _reserve.pop(size, None) or []
        _reserve[size] = blocks
        for block, count in zip(blocks, references(blocks), strict=True):
            if count == IDLE:
                return np.ndarray(shape, dtype, block)
        block = np.empty(size, np.uint8)
        blocks.append(block)
        del blocks[:-ALIKE]
        GROWN[0] = True
        shorten(RESERVE)
        return np.ndarray(shape, dtype, block)
    finally:
        _lock.release()


def shorten(limit: int) -> None:
    """Let go of the blocks used longest ago; with the lock held."""
    while sum([size * len(blocks) for size, blocks in _reserve.items()]) > limit:
        size, oldest = next(iter(_reserve.items()))
        del oldest[:1]
        if not oldest:
            del _reserve[size]


def trim(limit: int = LASTING) -> None:
    """Give back what only a running computation should keep in reserve."""
    if (GROWN[0] or limit < LASTING) and _lock.acquire(blocking=limit < LASTING):
        try:
            GROWN[0] = False
            shorten(limit)
        finally:
            _lock.release()
