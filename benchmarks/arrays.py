"""Problems where arithmetic and memory traffic are the cost: long elementwise formulas, a network, a regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from .problem import Array, Problem

# ---------------------------------------------------------------------------------------------------------------------
# Fifteen elementwise operations, none of which can be merged with its neighbour, and the sum of the result.


def elementwise_value(xp: Any, data: Any, x: Any) -> Any:
    a = xp.sin(x)
    b = a * x
    c = xp.exp(-b)
    e = 1.0 / (c + 1.0)
    u = xp.tanh(e * a)
    k = xp.sqrt(u * u + 1.0)
    m = xp.log(k) - b
    return xp.sum(xp.cos(m * e))


def elementwise_hand(data: Any, x: Array) -> tuple[Array]:
    a = np.sin(x)
    b = a * x
    c = np.exp(-b)
    e = 1.0 / (c + 1.0)
    u = np.tanh(e * a)
    h = u * u + 1.0
    m = np.log(np.sqrt(h)) - b
    gn = -np.sin(m * e)
    gm = gn * e
    gf = gm * u / h * (1.0 - u * u)
    ge = gn * m + gf * a
    gb = ge * c * (e * e) - gm
    return ((gf * e + gb * x) * np.cos(x) + gb * a,)


def elementwise(size: int) -> Problem:
    return Problem(elementwise_value, (np.random.default_rng(3).uniform(-2.0, 2.0, size),), (), elementwise_hand)


# ---------------------------------------------------------------------------------------------------------------------
# A network of one hidden layer: tanh, then the mean cross entropy of a softmax.


def network_value(xp: Any, data: tuple[Any, Any], w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    x, labels = data
    z = xp.tanh(x @ w1 + b1) @ w2 + b2
    top = xp.max(z, axis=1)
    logs = xp.log(xp.sum(xp.exp(z - top[:, None]), axis=1)) + top
    return xp.mean(logs - xp.sum(z * labels, axis=1))


def network_hand(data: tuple[Array, Array], w1: Array, b1: Array, w2: Array, b2: Array) -> tuple[Array, ...]:
    x, labels = data
    h = np.tanh(x @ w1 + b1)
    z = h @ w2 + b2
    p = np.exp(z - np.max(z, axis=1, keepdims=True))
    p /= np.sum(p, axis=1, keepdims=True)
    gz = (p - labels) / len(x)
    ga = (gz @ w2.T) * (1.0 - h * h)
    return x.T @ ga, np.sum(ga, axis=0), h.T @ gz, np.sum(gz, axis=0)


def network(batch: int, inputs: int, hidden: int, outputs: int) -> Problem:
    rng = np.random.default_rng(4)
    x, labels = rng.standard_normal((batch, inputs)), np.eye(outputs)[rng.integers(0, outputs, batch)]
    w1 = rng.standard_normal((inputs, hidden)) / inputs**0.5
    w2 = rng.standard_normal((hidden, outputs)) / hidden**0.5
    b1, b2 = 0.1 * rng.standard_normal(hidden), 0.1 * rng.standard_normal(outputs)
    return Problem(network_value, (w1, b1, w2, b2), (x, labels), network_hand)


# ---------------------------------------------------------------------------------------------------------------------
# Logistic regression with labels of -1 and 1 and a little ridge, and its dense Hessian.


def logistic_value(xp: Any, data: tuple[Any, Any], w: Any) -> Any:
    x, labels = data
    return xp.sum(xp.log(1.0 + xp.exp(-labels * (x @ w)))) + 0.5 * xp.sum(w * w)


def logistic_hand(data: tuple[Array, Array], w: Array) -> tuple[Array]:
    x, labels = data
    p = 1.0 / (1.0 + np.exp(-labels * (x @ w)))
    return ((x.T * (p * (1.0 - p))) @ x + np.eye(len(w)),)


def logistic(points: int, size: int) -> Problem:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((points, size)) / size**0.5
    labels = np.where(rng.random(points) < 0.5, -1.0, 1.0)
    return Problem(logistic_value, (rng.standard_normal(size),), (x, labels), logistic_hand, "hessian")


# ---------------------------------------------------------------------------------------------------------------------
# A dense layer of as many units as inputs, and its Jacobian.


def layer_value(xp: Any, data: tuple[Any, Any], x: Any) -> Any:
    w, b = data
    return xp.tanh(w @ x + b)


def layer_hand(data: tuple[Array, Array], x: Array) -> tuple[Array]:
    w, b = data
    return ((1.0 - np.tanh(w @ x + b) ** 2)[:, None] * w,)


def layer(size: int, order: str) -> Problem:
    rng = np.random.default_rng(6)
    w, b = rng.standard_normal((size, size)) / size**0.5, rng.standard_normal(size)
    return Problem(layer_value, (rng.standard_normal(size),), (w, b), layer_hand, "jacobian", order)
