"""What traced functions take from outside - Tensors, Variables - by every way there is, is an input and no constant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt

RNG = np.random.default_rng(0)
X = RNG.normal(size=4)
t = dt.constant(RNG.normal(size=4))
w = dt.Variable(RNG.normal(size=4))


@dt.custom_vjp
def reverse_rule(z: Any) -> Any:
    return z * t * w


reverse_rule.defvjp(lambda z: (z * t * w, z), lambda kept, g: (g * t * w,))


@dt.custom_jvp
def forward_rule(z: Any) -> Any:
    return z * 2.0


forward_rule.defjvp(lambda primals, ts: (primals[0] * 2.0, ts[0] * 2.0 * t * w))


@dt.custom_gradient
def tape_rule(z: Any) -> Any:
    return z * 2.0, lambda g: g * t * w


def slope(f: Any) -> Any:
    return lambda x: np.sum(dt.grad(lambda z: np.sum(f(z)))(x))


PROGRAMS: dict[str, Any] = {
    "plain": lambda x: np.sum(x * t * w),
    "a part": lambda x: np.sum(x * t[1] * w[2]),
    "vmap": lambda x: np.sum(dt.vmap(lambda a: a * t * w)(x)),
    "checkpoint": lambda x: np.sum(dt.checkpoint(lambda z: z * t * w)(x)),
    "a rule of one's own": lambda x: np.sum(reverse_rule(x)),
    "its derivative": slope(reverse_rule),
    "a forward rule": lambda x: np.sum(dt.jvp(forward_rule, (x,), (x,))[1]),
    "a forward rule, transposed": slope(forward_rule),
    "a gradient by a tape's rule": slope(tape_rule),
    "scan": lambda x: dt.scan(lambda c, y: (c * y + np.sum(t * w), None), 1.0, x)[0],
    "scan along it": lambda x: dt.scan(lambda c, y: (c * y + x[0] * np.sum(w), None), 1.0, t)[0],
    "map_fn": lambda x: np.sum(dt.map_fn(lambda a: a * t * w, x)),
    "vmap of scan": lambda x: np.sum(
        dt.vmap(lambda a: dt.scan(lambda c, y: (c * y + a * np.sum(w), None), 1.0, t)[0])(x)
    ),
    "Hessian": lambda x: np.sum(dt.hessian(lambda z: np.sum(z**3 * t * w))(x)),
    "Jacobian": lambda x: np.sum(dt.jacobian(lambda z: z**2 * t * w)(x)),
    "cond": lambda x: dt.cond(np.sum(x) > 0, lambda: np.sum(x * t * w), lambda: np.sum(x * x * t * w)),
    "numpy()": lambda x: np.sum(x * t.numpy() * w.numpy()),
    "stop_gradient": lambda x: np.sum(x * dt.stop_gradient(t * w)),
}


def gradients(f: Any) -> Any:
    with dt.GradientTape() as tape:
        tape.watch(t)
        y = f(dt.constant(X))
    return tape.gradient(y, [t, w])


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_outside_is_read_in_every_call(name: str) -> None:
    global t  # a name comes to stand for another Tensor, and the Variable gets another value
    f = PROGRAMS[name]
    traced = dt.function(f)
    for _ in range(3):
        np.testing.assert_allclose(float(traced(X)), float(f(X)), rtol=1e-11)
        if "rule" not in name and "derivative" not in name:  # those refuse a tape that follows what they take
            for found, expected in zip(gradients(traced), gradients(f), strict=True):
                assert (found is None) == (expected is None)
                if found is not None:
                    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)
        t = dt.constant(RNG.normal(size=4))
        w.assign(RNG.normal(size=4))


def nested(x: Any) -> Any:
    def body(c: Any, y: Any) -> Any:
        return c + dt.scan(lambda d, z: (d * z + c, None), y, x)[0], None

    return dt.scan(body, 0.0, x)[0]


def nested_loops(x: Any) -> Any:
    c: Any = 0.0
    for y in x:
        d = y
        for z in x:
            d = d * z + c
        c = c + d
    return c


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
def test_a_scan_in_a_scan_along_what_is_outside_both(order: str) -> None:
    v = np.ones(4)
    np.testing.assert_allclose(dt.grad(nested)(X), dt.grad(nested_loops)(X), rtol=1e-12)
    np.testing.assert_allclose(
        dt.hvp(nested, X, v, order=order), dt.hvp(nested_loops, X, v, order=order), rtol=1e-10, atol=1e-12
    )
