"""Problems where Python is the cost: chains of tiny operations, an ODE, and classical gradients of few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .problem import Array, Problem

# ---------------------------------------------------------------------------------------------------------------------
# A chain: 333 times sin, * 1.01, + 0.1.


def chain_value(xp: Any, data: tuple[int], x: Any) -> Any:
    """The sum of x after that many rounds of three operations."""
    for _ in range(data[0]):
        x = xp.sin(x) * 1.01 + 0.1
    return xp.sum(x)


def chain_hand(data: tuple[int], x: Array) -> tuple[Array]:
    slopes = []
    for _ in range(data[0]):
        slopes.append(np.cos(x))
        x = np.sin(x) * 1.01 + 0.1
    g = np.ones(x.shape)
    for slope in reversed(slopes):
        g = g * 1.01 * slope
    return (g,)


def chain(size: int, spelling: Any, rounds: int = 333) -> Problem:
    x = np.linspace(0.3, 0.9, size)
    return Problem(chain_value, (x,), (rounds,), chain_hand, spelling=spelling, casadi=True)


# ---------------------------------------------------------------------------------------------------------------------
# Rosenbrock's function, sum of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2; Rosenbrock, Computer Journal 3(3), 1960.


def rosenbrock_value(xp: Any, data: Any, x: Any) -> Any:
    return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def rosenbrock_hand(data: Any, x: Array) -> tuple[Array]:
    left = x[:-1]
    off = x[1:] - left**2
    g = np.zeros(x.shape)
    g[1:] = 200.0 * off
    g[:-1] -= 400.0 * off * left + 2.0 * (1.0 - left)
    return (g,)


def rosenbrock_product(data: tuple[Array], x: Array) -> tuple[Array]:
    """The tridiagonal Hessian times data[0]."""
    v, left = data[0], x[:-1]
    h = np.zeros(x.shape)
    h[:-1] = (1200.0 * left**2 - 400.0 * x[1:] + 2.0) * v[:-1] - 400.0 * left * v[1:]
    h[1:] += 200.0 * v[1:] - 400.0 * left * v[:-1]
    return (h,)


def rosenbrock(size: int, order: str = "") -> Problem:
    rng = np.random.default_rng(1)
    x, v = rng.uniform(0.5, 1.5, size), rng.uniform(0.5, 1.5, size)
    casadi = size <= 1000
    if not order:
        return Problem(rosenbrock_value, (x,), (), rosenbrock_hand, casadi=casadi)
    return Problem(rosenbrock_value, (x,), (v,), rosenbrock_product, "hvp", order, casadi=casadi)


# ---------------------------------------------------------------------------------------------------------------------
# The Helmholtz energy of a mixed fluid, as in Griewank & Walther, Evaluating Derivatives (2nd ed., SIAM 2008), with
# R = T = 1.

ROOT_2 = 2.0**0.5


def helmholtz_value(xp: Any, data: tuple[Any, Any], x: Any) -> Any:
    a, b = data
    bx = xp.sum(b * x)
    mixing = xp.sum(x * xp.log(x / (1.0 - bx)))
    ratio = (1.0 + (1.0 + ROOT_2) * bx) / (1.0 + (1.0 - ROOT_2) * bx)
    return mixing - xp.sum(x * (a @ x)) / (8.0**0.5 * bx) * xp.log(ratio)


def helmholtz_hand(data: tuple[Array, Array], x: Array) -> tuple[Array]:
    a, b = data
    bx, ax = b @ x, a @ x
    free = 1.0 - bx
    up, down = 1.0 + (1.0 + ROOT_2) * bx, 1.0 + (1.0 - ROOT_2) * bx
    factor, log = (x @ ax) / (8.0**0.5 * bx), np.log(up / down)
    by_bx = np.sum(x) / free + factor * log / bx - factor * ((1.0 + ROOT_2) / up - (1.0 - ROOT_2) / down)
    return (np.log(x / free) + 1.0 - (2.0 * log / (8.0**0.5 * bx)) * ax + by_bx * b,)


def helmholtz(size: int) -> Problem:
    rng = np.random.default_rng(2)
    a = 0.1 * rng.random((size, size))
    b, x = 0.1 * rng.random(size), 0.1 * rng.random(size)
    return Problem(helmholtz_value, (x,), ((a + a.T) / 2, b), helmholtz_hand, casadi=True)


# ---------------------------------------------------------------------------------------------------------------------
# The pendulum theta'' = -sin(theta) by the classical Runge-Kutta method of fourth order.

STEP = 0.01


def pendulum_value(xp: Any, data: tuple[int], y: Any) -> Any:
    """Half the squared norm of the state after that many steps."""

    def slope(y: Any) -> Any:
        return xp.stack([y[1], -xp.sin(y[0])])

    for _ in range(data[0]):
        k1 = slope(y)
        k2 = slope(y + 0.5 * STEP * k1)
        k3 = slope(y + 0.5 * STEP * k2)
        k4 = slope(y + STEP * k3)
        y = y + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return 0.5 * xp.sum(y * y)


def pendulum_hand(data: tuple[int], y: Array) -> tuple[Array]:
    def slope(y: Array) -> Array:
        return np.stack([y[1], -np.sin(y[0])])

    def back(cosine: Any, g: Array) -> Array:
        return np.stack([-cosine * g[1], g[0]])

    cosines = []
    for _ in range(data[0]):
        k1 = slope(y)
        y2 = y + 0.5 * STEP * k1
        k2 = slope(y2)
        y3 = y + 0.5 * STEP * k2
        k3 = slope(y3)
        y4 = y + STEP * k3
        k4 = slope(y4)
        cosines.append((np.cos(y[0]), np.cos(y2[0]), np.cos(y3[0]), np.cos(y4[0])))
        y = y + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    g = y
    for c1, c2, c3, c4 in reversed(cosines):
        s = STEP / 6.0 * g
        g4 = back(c4, s)
        g3 = back(c3, 2.0 * s + STEP * g4)
        g2 = back(c2, 2.0 * s + 0.5 * STEP * g3)
        g1 = back(c1, s + 0.5 * STEP * g2)
        g = g + g1 + g2 + g3 + g4
    return (g,)


def pendulum_jax(xp: Any, data: tuple[int], y: Any) -> Any:
    """The same with JAX's own loop: a thousand steps unrolled take it minutes to compile."""
    from jax import lax

    def slope(y: Any) -> Any:
        return xp.stack([y[1], -xp.sin(y[0])])

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + 0.5 * STEP * k1)
        k3 = slope(y + 0.5 * STEP * k2)
        k4 = slope(y + STEP * k3)
        return y + STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

    y, _ = lax.scan(step, y, None, length=data[0])
    return 0.5 * xp.sum(y * y)


def pendulum(steps: int) -> Problem:
    y = np.array([1.2, 0.1])
    return Problem(pendulum_value, (y,), (steps,), pendulum_hand, casadi=True, versions={"jax": pendulum_jax})
