"""Products of large arrays with a partial derivative, a block at a time: temporaries stay in the cache.

Written in one expression, ``c * (1 - out * out)`` makes three arrays of full size; in blocks it makes one. Each element
is computed as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.memory.reserve import room

# Elements of a block, and of an array that is worth being cut up.
BLOCK, LARGE = 2**14, 2**16


def blockwise(kept: tuple[Any, ...], c: Any) -> bool:
    """Whether arrays are real, of one dtype and laid out alike, so that blocks of them belong together."""
    return (
        c.dtype.kind == "f"
        and (c.flags.c_contiguous or c.size <= BLOCK * c.shape[0])
        and all([a.__class__ is np.ndarray and a.shape == c.shape and a.dtype == c.dtype for a in kept])
        and all([a.flags.c_contiguous for a in kept])
    )


def product(c: Any, rule: Callable[..., Any], kept: tuple[Any, ...]) -> Any:
    """``c * rule(*kept)``."""
    result = room(c.shape, c.dtype)
    whole = [*kept, c, result]
    if c.flags.c_contiguous:
        whole = [a.reshape(-1) for a in whole]
    length = whole[0].shape[0]
    step = max(1, BLOCK * length // c.size)
    for start in range(0, length, step):
        *block, factor, out = [a[start : start + step] for a in whole]
        np.multiply(factor, rule(*block), out=out)
    return result
