"""The functions whose Hessian-vector products `hvp` compares, each with the product by a way of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

import dualtape as dt

from ..shared.problems import LONG, Generator, rosenbrock

WIDTH, BATCH = 128, 64  # of the network
SAMPLES, FEATURES = 1000, 200  # of the logistic regression
TINY = 1e-100  # the complex step

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A real function of several arrays at a point, with two directions and the product by the first of them."""

    problem: str
    size: int
    f: Callable[..., Any]
    xs: Arrays
    v: Arrays
    u: Arrays
    product: Arrays


def _directions(xs: Arrays, rng: Generator) -> tuple[Arrays, Arrays]:
    v, u = (tuple(rng.normal(size=np.shape(x)) for x in xs) for _ in range(2))
    return v, u


# ---------------------------------------------------------------------------------------------------------------------
# Scalar loops: each operation is one addition or multiplication of numbers. Inputs are scalars, so that nothing but
# arithmetic is counted. The loops also run on the numbers of `counting`.


def factors(*xs: Any) -> Any:
    """prod x_i, one multiplication after the other."""
    product = xs[0]
    for x in xs[1:]:
        product = product * x
    return product


def valley(*xs: Any) -> Any:
    """Rosenbrock's function, term by term."""
    total = None
    for x, y in pairwise(xs):
        across, along = y - x * x, 1.0 - x
        term = 100.0 * (across * across) + along * along
        total = term if total is None else total + term
    return total


def power(multiplications: int) -> Callable[[Any, Any], Any]:
    """a b^k by k multiplications: two inputs however many operations, so that one more costs one more and no else."""

    def power(a: Any, b: Any) -> Any:
        for _ in range(multiplications):
            a = a * b
        return a

    return power


def product_case(n: int, rng: Generator) -> Case:
    xs: Arrays = tuple(rng.uniform(0.5, 1.5, n))
    v, u = _directions(xs, rng)
    x, along = np.array(xs, LONG), np.array(v, LONG)
    relative = along / x  # (H v)_i = P/x_i (sum_j v_j/x_j - v_i/x_i)
    return Case("product", n, factors, xs, v, u, tuple(np.prod(x) / x * (np.sum(relative) - relative)))


def valley_case(n: int, rng: Generator) -> Case:
    xs: Arrays = tuple(rng.uniform(0.1, 0.9, n))
    v, u = _directions(xs, rng)
    return Case("rosenbrock_scalar", n, valley, xs, v, u, tuple(_valley_product(np.array(xs), np.array(v))))


def _valley_product(x: Any, v: Any) -> Any:
    """Rosenbrock's Hessian, which is tridiagonal, times v, in extended precision."""
    x, v = x.astype(LONG), v.astype(LONG)
    found = np.zeros(x.size, LONG)
    found[:-1] += (1200 * x[:-1] ** 2 - 400 * x[1:] + 2) * v[:-1] - 400 * x[:-1] * v[1:]
    found[1:] += 200 * v[1:] - 400 * x[:-1] * v[:-1]
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Arrays.


def rosenbrock_case(n: int, rng: Generator) -> Case:
    xs: Arrays = (rng.uniform(0.1, 0.9, n),)
    v, u = _directions(xs, rng)
    return Case("rosenbrock", n, rosenbrock, xs, v, u, (_valley_product(xs[0], v[0]),))


def logistic_case(n: int, rng: Generator) -> Case:
    data, weights = rng.normal(size=(SAMPLES, n)), rng.normal(size=n) / np.sqrt(n)
    labels = np.sign(data @ rng.normal(size=n))

    def logreg(w: Any) -> Any:
        return np.sum(np.log1p(np.exp(-labels * (data @ w)))) + 0.5 * np.sum(np.square(w))

    xs: Arrays = (weights,)
    v, u = _directions(xs, rng)
    long = data.astype(LONG)
    odds = np.exp(labels * (long @ weights.astype(LONG)))
    along = v[0].astype(LONG)
    return Case("logreg", n, logreg, xs, v, u, (long.T @ (odds / (1 + odds) ** 2 * (long @ along)) + along,))


def mlp_case(depth: int, rng: Generator) -> Case:
    """A network of equal layers by all its weights; the reference is the complex step of its adjoint sweep."""
    inputs, targets = rng.normal(size=(2, BATCH, WIDTH))
    xs: Arrays = tuple(rng.normal(size=(depth, WIDTH, WIDTH)) / np.sqrt(WIDTH))

    def mlp(*weights: Any) -> Any:
        layer = inputs
        for w in weights:
            layer = np.tanh(layer @ w)
        return 0.5 * np.sum(np.square(layer - targets))

    v, u = _directions(xs, rng)
    _, pullback = dt.vjp(mlp, *(x + 1j * TINY * t for x, t in zip(xs, v, strict=True)))
    # A pullback conjugates, hence the sign.
    return Case("mlp", depth, mlp, xs, v, u, tuple(-np.asarray(g).imag / TINY for g in pullback(np.complex128(1))))
