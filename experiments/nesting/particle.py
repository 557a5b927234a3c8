"""The charged particle of the nesting experiment: an optimisation around a simulation around a gradient.

A particle flies through the potential of two charges, one of which stands at (10, 10 - w); Newton's method chooses w
for the particle to cross x_2 = 0 as near to x_1 = 0 as it can. Numbers as in DiffSharp's nested-derivative test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dualtape as dt

STEP = 0.1
NEWTON_STEPS = 4


def potential(x: Any, w: Any) -> Any:
    """1/|x - (10, 10 - w)| + 1/|x - (10, 0)|."""
    across = np.square(x[0] - 10.0)
    return 1.0 / np.sqrt(across + np.square(x[1] - 10.0 + w)) + 1.0 / np.sqrt(across + np.square(x[1]))


def fly(w: Any) -> list[Any]:
    """Euler's positions from (0, 8) until the first with x_2 <= 0; the force is a reverse-mode gradient."""
    x, v = np.array([0.0, 8.0]), np.array([0.75, 0.0])
    path = [x]
    while path[-1][1] > 0:
        force = dt.grad(lambda x: potential(x, w))(path[-1])
        path.append(path[-1] + STEP * v)
        v = v - STEP * force
    return path


def landing(w: Any) -> Any:
    """x_1^2 where the straight line between the last two positions meets x_2 = 0."""
    before, after = fly(w)[-2:]
    share = before[1] / (before[1] - after[1])
    return np.square(before[0] + share * (after[0] - before[0]))


def newton(derivatives: Callable[[float], tuple[Any, Any]]) -> list[float]:
    """Newton's iterates from 0 for a stationary landing; `derivatives` maps w to its first and second derivative."""
    iterates = [0.0]
    for _ in range(NEWTON_STEPS):
        first, second = derivatives(iterates[-1])
        iterates.append(iterates[-1] - float(first) / float(second))
    return iterates
