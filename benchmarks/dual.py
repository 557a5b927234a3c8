"""How dualtape computes what a problem asks for: the derivative, one JVP, and the bytes of its tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dualtape as dt

from .problem import Array, Problem

Thunk = Callable[[], Any]


def constants(data: Any) -> Any:
    """Constant arrays wrapped once, so that no tape copies them; the rest as it is."""
    if isinstance(data, (list, tuple)):
        return type(data)(constants(item) for item in data)
    return dt.constant(data) if isinstance(data, np.ndarray) and data.dtype.kind == "f" else data


def function(problem: Problem) -> Callable[..., Any]:
    """The problem's function of its arguments alone."""
    xp = dt if problem.spelling == "dt" else np
    data = constants(problem.data)
    f = problem.text("dualtape")
    return lambda *args: f(xp, data, *args)


def directions(problem: Problem) -> tuple[Array, ...]:
    """A tangent for each argument."""
    rng = np.random.default_rng(8)
    return tuple(rng.uniform(-1.0, 1.0, a.shape) for a in problem.args)


def derivative(problem: Problem) -> Thunk:
    """A call without arguments that returns a flat tuple of Tensors."""
    f, args = function(problem), problem.args
    if problem.derivative == "gradient":
        gradient = dt.value_and_grad(f, argnums=tuple(range(len(args))))
        return lambda: gradient(*args)[1]
    if problem.derivative == "hessian":
        hessian = dt.hessian(f)
        return lambda: (hessian(*args),)
    if problem.derivative == "jacobian":
        jacobian = (dt.jacfwd if problem.order == "f" else dt.jacrev)(f)
        return lambda: (jacobian(*args),)
    if problem.derivative == "hvp":
        v, order = problem.data[0], problem.order
        return lambda: (dt.hvp(f, args[0], v, order=order),)
    cotangents = rows(problem)

    def two_sweeps() -> tuple[Any, ...]:
        _, pullback = dt.vjp(f, *args)
        return tuple(g for cotangent in cotangents for g in pullback(cotangent))

    return two_sweeps


def rows(problem: Problem) -> list[Array]:
    """For each row of the result, a cotangent of ones there and zeros elsewhere."""
    shape = np.shape(problem.value())
    found = np.zeros((shape[0], *shape))
    for k in range(shape[0]):
        found[k, k] = 1.0
    return list(found)


def jvp(problem: Problem) -> Thunk:
    """One forward sweep, whatever the derivative asked for."""
    f, tangents = function(problem), directions(problem)
    return lambda: dt.jvp(f, problem.args, tangents)[1]


def tape_bytes(problem: Problem) -> int:
    """What a tape of the function keeps for its sweep."""
    f = function(problem)
    args = [dt.constant(a) for a in problem.args]
    with dt.GradientTape() as tape:
        tape.watch(args)
        f(*args)
    return int(tape.nbytes)
