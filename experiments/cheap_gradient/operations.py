"""The operations whose costs are compared, each with arguments of a size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt


@dataclass(frozen=True)
class Operation:
    """A function, and how many arrays it takes, of which shape for a size; `shift` moves them into its domain."""

    name: str
    f: Callable[..., Any]
    arrays: int = 1
    square: bool = False  # matrices of that many elements instead of vectors
    shift: float = 0.0

    def arguments(self, size: int, rng: np.random.Generator) -> tuple[Any, ...]:
        """Arrays with `size` elements between 0.1 and 0.9, moved."""
        side = round(size**0.5)
        shape = (side, side) if self.square else (size,)
        return tuple(rng.uniform(0.1, 0.9, shape) + self.shift for _ in range(self.arrays))


UNARY = (
    "negative absolute square sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh "
    "tanh arcsinh arctanh reciprocal deg2rad rad2deg sinc"
).split()
BINARY = (
    "add subtract multiply divide power maximum minimum fmax fmin hypot arctan2 logaddexp logaddexp2 copysign"
).split()
REDUCTIONS = "sum mean prod max min var std cumsum cumprod".split()
PLACES = np.array([3, 0, 2, 0])


def operations() -> Iterator[Operation]:
    """All of them."""
    for name in UNARY:
        yield Operation(name, getattr(np, name))
    yield Operation("arccosh", np.arccosh, shift=1.0)
    for name in BINARY:
        yield Operation(name, getattr(np, name), arrays=2)
    for name in REDUCTIONS:
        yield Operation(name, getattr(np, name))
    yield Operation("sum, one axis", lambda x: np.sum(x, axis=0), square=True)
    yield Operation("norm", np.linalg.norm)
    yield Operation("logsumexp", dt.special.logsumexp)
    yield Operation("matmul", np.matmul, arrays=2, square=True)
    yield Operation("matmul, one constant", lambda x: x @ np.full(x.shape, 0.5), square=True)
    yield Operation("dot", np.dot, arrays=2)
    yield Operation("outer", np.outer, arrays=2)
    yield Operation("einsum", lambda x, y: np.einsum("ij,jk->ik", x, y), arrays=2, square=True)
    yield Operation("times a number", lambda x: 3.0 * x)
    yield Operation("where", lambda x, y: np.where(np.arange(x.size) % 2 == 0, x, y), arrays=2)
    yield Operation("clip", lambda x: np.clip(x, 0.3, 0.6))
    yield Operation("reshape", lambda x: np.reshape(x, (2, -1)))
    yield Operation("transpose", np.transpose, square=True)
    yield Operation("concatenate", lambda x, y: np.concatenate([x, y]), arrays=2)
    yield Operation("stack", lambda x, y: np.stack([x, y]), arrays=2)
    yield Operation("x[0]", lambda x: x[0])
    yield Operation("x[1:3]", lambda x: x[1:3])
    yield Operation("x[places]", lambda x: x[PLACES])
    yield Operation("flip", np.flip)
    yield Operation("inv", np.linalg.inv, square=True)
    yield Operation("det", np.linalg.det, square=True)
    yield Operation("solve", np.linalg.solve, arrays=2, square=True)
