"""Random programs of operations, branches, loops, writes mean the same when traced, derivatives included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt

ONE = (
    np.sin, np.tanh, np.abs, np.cumsum, np.sort, lambda z: z * z, lambda z: z / (1 + z * z), lambda z: -z,
    lambda z: 1.0 * z, lambda z: np.maximum(z, 0.1), lambda z: np.where(z > 0, z, 0.5 * z), lambda z: z[::-1],
    lambda z: z - np.mean(z),
    lambda z: np.concatenate([z[1:], z[:1]]), lambda z: z.reshape(2, -1).T.ravel(), lambda z: np.sqrt(z * z + 0.1),
)  # fmt: skip
TWO = (
    np.add, np.subtract, np.multiply, np.maximum, np.hypot, lambda a, b: a / (1 + b * b), lambda a, b: a * np.sum(b),
    lambda a, b: np.where(a > b, a, b * b), lambda a, b: a @ b * a,
)  # fmt: skip


def random_program(seed: int, length: int) -> Any:
    """A function of two arrays of four numbers: operations, branches, loops, writes."""
    rng = np.random.default_rng(seed)
    plan = [[int(k) for k in rng.integers(0, 720720, 5)] for _ in range(length)]

    def f(x: Any, y: Any) -> Any:
        kept = [x, y, x + y, x * y, x - y]
        for kind, i, j, k, m in plan:
            z, w = kept[i % 5], kept[j % 5]
            if kind % 10 < 4:
                v = ONE[k % len(ONE)](z)
            elif kind % 10 < 7:
                v = TWO[k % len(TWO)](z, w)
            elif kind % 10 == 7:
                v = ONE[k % len(ONE)](z) if np.sum(z) > 0.3 else TWO[m % len(TWO)](z, w)
            elif kind % 10 == 8:
                v = z * 1.0
                v[k % 4] = v[k % 4] * 0.5 + w[m % 4]
                v[1:3] += w[:2]
            else:
                v, n = z * 1.0, 0
                while np.sum(v * v) < 2 and n < 3:
                    v, n = v * 1.5 + 0.1, n + 1
            kept = [*kept[1:], np.tanh(v)]
        return np.sum(kept[-1] * kept[-2] + kept[-3])

    return f


def agree(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_mean_the_same_when_traced(seed: int) -> None:
    f = random_program(seed, 10)
    traced = dt.function(f)
    gradient = dt.function(lambda x, y: dt.grad(f, argnums=(0, 1))(x, y))
    rng = np.random.default_rng(seed)
    for _ in range(3):
        x, y, v, w = rng.normal(size=(4, 4))
        agree(traced(x, y), f(x, y))
        expected = dt.grad(f, argnums=(0, 1))(x, y)
        agree(gradient(x, y), expected, 1e-10)
        agree(dt.grad(traced, argnums=(0, 1))(x, y), expected, 1e-10)
        agree(dt.jvp(traced, (x, y), (v, w)), dt.jvp(f, (x, y), (v, w)), 1e-10)
