"""Under vmap and in batched sweeps: writes through views, values that leak out, and nothing left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.extend import operation

ROWS = np.random.default_rng(3).normal(size=(3, 3))


def a_view_written(x: Any) -> Any:
    y = x * 1.0
    z = y[0:2]
    z[0] = 0.0
    return y


def centred_in_place(x: Any) -> Any:
    y = x * 1.0
    h = y[1:]
    h -= np.mean(h)
    return y


def an_owner_written(x: Any) -> Any:
    y = x * 1.0
    z = y[:2]
    y[0] = 0.0
    return z


def rows_exchanged(x: Any) -> Any:
    y = np.reshape(x, (3, 1)) * np.ones((3, 2))
    y[0], y[1] = y[1], y[0]
    return y


def rows_filled(x: Any) -> Any:
    y = dt.zeros((2, 3))
    for row in y:
        row[:] = x
    return y


def written_with_out(x: Any) -> Any:
    y = x * 1.0
    np.multiply(y[1:], 2, out=y[1:])
    y[1:][...] *= x[0]
    return y


def other_views(x: Any) -> Any:
    y = np.outer(x, x)
    y.T[0] = 0.0
    y.reshape(-1)[4] = 7.0
    np.ravel(y)[5] = x[0]
    w = y[:, 1]
    w *= 2
    return y


def recurrence(x: Any) -> Any:
    y = x * 1.0
    for i in range(1, 3):
        y[i] += y[i - 1] * x[i]
    return y


PROGRAMS = [
    a_view_written,
    centred_in_place,
    an_owner_written,
    rows_exchanged,
    rows_filled,
    written_with_out,
    other_views,
    recurrence,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_a_write_through_a_view_is_seen_in_every_example(f: Callable[[Any], Any]) -> None:
    def loss(x: Any) -> Any:
        return np.sum(f(x) ** 2)

    each = [f(dt.constant(row)).numpy() for row in ROWS]
    slopes = [dt.grad(loss)(row) for row in ROWS]
    assert np.allclose(dt.vmap(f)(ROWS), each)
    assert np.allclose(dt.vmap(dt.grad(loss))(ROWS), slopes)
    assert np.allclose(dt.grad(lambda X: np.sum(dt.vmap(f)(X) ** 2))(ROWS), slopes)
    one_by_one = dt.jacrev(f, chunk=1)(ROWS[0])
    assert np.allclose(dt.jacrev(f)(ROWS[0]), one_by_one)
    assert np.allclose(dt.jacfwd(f)(ROWS[0]), one_by_one)


def doubled_tail(x: Any) -> Any:
    y = x.copy()
    z = y[1:]
    z *= 2.0
    return y


def test_a_rule_may_write_through_a_view_of_its_own() -> None:
    tail = operation(doubled_tail, jvp=lambda t: doubled_tail(t), vjp=lambda g: doubled_tail(g), name="doubled_tail")

    @dt.custom_gradient
    def custom(x: Any) -> Any:
        return doubled_tail(x), doubled_tail

    right = np.diag([1.0, 2.0, 2.0])
    for f in (tail, custom):
        assert np.array_equal(dt.jacrev(f)(ROWS[0]), right)
        assert np.array_equal(dt.jacfwd(f)(ROWS[0]), right)
    x = dt.constant(ROWS[0])
    with dt.ForwardAccumulator(x, np.eye(3), batch=True) as acc:
        y = tail(x)
    assert np.array_equal(acc.jvp(y).numpy(), right)


def test_a_value_that_leaked_out_of_vmap_has_no_derivative_of_zero() -> None:
    leaked: list[Any] = []

    def f(X: Any) -> Any:
        dt.vmap(lambda a: (leaked.append(np.sum(a * a)), a)[1])(X)
        return leaked.pop()

    for transform in (dt.grad, dt.value_and_grad, dt.jacrev, dt.jacfwd, lambda f: dt.jvp(f, (ROWS,), (ROWS,))):
        with pytest.raises(RuntimeError, match="used after it ended"):
            transform(f)(ROWS)
    x = dt.constant(ROWS)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    for ask in (tape.gradient, tape.jacobian):
        with pytest.raises(RuntimeError, match="used after it ended"):
            ask(y, x)


@pytest.mark.parametrize(
    "run",
    [
        lambda: dt.grad(lambda X: np.sum(dt.vmap(lambda x: np.sin(x) * x)(X)))(ROWS),
        lambda: dt.jvp(lambda X: np.sum(dt.vmap(lambda x: np.sin(x) * x)(X)), (ROWS,), (ROWS,)),
        lambda: dt.jacrev(dt.jacrev(lambda x: x**3))(ROWS[0]),
        lambda: dt.grad(lambda x: np.sum(dt.jacfwd(lambda x: x**3)(x)))(ROWS[0]),
        lambda: dt.grad(lambda x: np.sum(dt.hessian(lambda x: np.sum(x**3))(x)))(ROWS[0]),
    ],
)
def test_a_batch_leaves_nothing_for_the_collector(run: Callable[[], Any]) -> None:
    run()
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            run()
        assert gc.collect() == 0
    finally:
        gc.enable()
