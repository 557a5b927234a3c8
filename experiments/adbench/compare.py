"""Distances entry by entry, and derivatives by the complex step, for all problems of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-200  # no difference is taken, so it may be as small as one likes (Squire & Trapp, SIAM Review 40(1), 1998)


def relative(found: Any, reference: Any) -> float:
    """The largest distance of an entry, relative to the entry; to 1 where that is 0."""
    reference = np.asarray(reference)
    return float(np.max(np.abs(found - reference) / np.where(reference == 0, 1.0, np.abs(reference))))


def stepped(f: Callable[[Any], Any], x: Any, directions: Any) -> Any:
    """The derivatives of an array along each direction, as columns."""
    return np.stack([f(x + 1j * STEP * v).imag / STEP for v in directions], axis=-1)
