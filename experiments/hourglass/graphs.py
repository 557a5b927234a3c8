"""Programs of numbers, and chains of matrices, whose Jacobians are accumulated in several orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

# One vertex each, with two operands, smooth wherever the values of a random program are.
OPERATIONS = (np.multiply, np.add, np.subtract, np.logaddexp, np.hypot, np.arctan2)


def dag(rng: np.random.Generator, inputs: int = 3, vertices: int = 8, outputs: int = 3) -> Callable[..., list[Any]]:
    """A program of random operations on two values each, all of which are read; the last few are its results."""
    inner = inputs + vertices
    while True:
        # Results are not read again.
        pairs = [rng.choice(min(k, inner), 2, replace=False) for k in range(inputs, inner + outputs)]
        if len({int(i) for pair in pairs for i in pair}) == inner:
            break
    plan = [(OPERATIONS[rng.integers(len(OPERATIONS))], int(i), int(j)) for i, j in pairs]

    def f(*xs: Any) -> list[Any]:
        values = list(xs)
        for operation, i, j in plan:
            values.append(operation(values[i], values[j]))
        return values[-outputs:]

    return f


def mixture(*p: Any) -> Any:
    """One point of a Gaussian mixture with D = 2, K = 2, in numbers: the log-likelihood (formula: E11)."""
    x = (0.3, -0.7)
    alphas, terms = p[:2], []
    for k in range(2):
        mean, q, low = p[2 + 2 * k : 4 + 2 * k], p[6 + 2 * k : 8 + 2 * k], p[10 + k]
        d0, d1 = x[0] - mean[0], x[1] - mean[1]
        y0, y1 = np.exp(q[0]) * d0, low * d0 + np.exp(q[1]) * d1
        terms.append(alphas[k] + (q[0] + q[1]) - (y0 * y0 + y1 * y1) * 0.5)
    return np.log(np.exp(terms[0]) + np.exp(terms[1])) - np.log(np.exp(alphas[0]) + np.exp(alphas[1]))


# ---------------------------------------------------------------------------------------------------------------------
# Chains: the Jacobian of a composition is a product of matrices.


class Chained(NamedTuple):
    """A product of matrices and the multiplications it took, counted at each product of two."""

    value: Any
    mults: int


def product(a: Chained, b: Chained) -> Chained:
    (m, k), n = a.value.shape, b.value.shape[1]
    return Chained(a.value @ b.value, a.mults + b.mults + m * k * n)


def folded(factors: Sequence[Any], forward: bool) -> Chained:
    """J_l ... J_1 as forward mode makes it, from the inputs on, or as reverse mode does, from the results back."""
    chain = [Chained(j, 0) for j in factors]
    found = chain[0] if forward else chain[-1]
    for j in chain[1:] if forward else chain[-2::-1]:
        found = product(j, found) if forward else product(found, j)
    return found


def bracketed(factors: Sequence[Any]) -> Chained:
    """The same with the best brackets: the matrix-chain dynamic programme."""
    count = len(factors)
    sizes = [factors[0].shape[1], *[j.shape[0] for j in factors]]  # factor k maps sizes[k] to sizes[k + 1]
    best: dict[tuple[int, int], tuple[int, int]] = {(k, k): (0, k) for k in range(count)}
    for span in range(1, count):
        for i in range(count - span):
            j = i + span
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def made(i: int, j: int) -> Chained:
        if i == j:
            return Chained(factors[i], 0)
        k = best[i, j][1]
        return product(made(k + 1, j), made(i, k))

    return made(0, count - 1)
