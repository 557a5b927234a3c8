"""Traced functions as they are called: Variables, arguments that are written into, methods, signatures, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from test_function import M, X, agree

import dualtape as dt


# ------------------------------------------------------------------ state
def test_variables_are_read_and_assigned_in_every_call() -> None:
    w = dt.Variable([1.0, 2.0])

    @dt.function
    def step(a: Any) -> Any:
        w.assign_add(a)
        return np.sum(w**2)

    assert [float(step(np.ones(2))) for _ in range(3)] == [13.0, 25.0, 41.0]
    w.assign([0.0, 0.0])
    assert step(np.ones(2)) == 2 and list(w.numpy()) == [1, 1]
    with dt.GradientTape() as tape:
        y = step(np.zeros(2))
    agree(tape.gradient(y, w), 2 * w.numpy())
    assert list(w.numpy()) == [1, 1]


def test_a_variable_has_derivatives_in_both_modes_and_to_second_order() -> None:
    w = dt.Variable(2.0)
    f = dt.function(lambda x: np.sum(x) * w**3)
    f(X)
    with dt.GradientTape() as outer, dt.GradientTape() as tape:
        y = f(X)
        g = tape.gradient(y, w)
    agree(g, 12 * np.sum(X))
    agree(outer.gradient(g, w), 12 * np.sum(X))
    with dt.ForwardAccumulator(w, 1.0) as accumulator:
        y = f(X)
    agree(accumulator.jvp(y), 12 * np.sum(X))

    @dt.function
    def inside(x: Any) -> Any:
        with dt.ForwardAccumulator(w, 1.0) as accumulator:
            y = np.sum(x) * w**3
        return accumulator.jvp(y)

    for value in (2.0, 3.0):
        w.assign(value)
        agree(inside(X), 3 * value**2 * np.sum(X))


def test_what_a_failing_function_assigned_is_forgotten() -> None:
    w = dt.Variable(0.0)

    @dt.function
    def f(x: Any) -> Any:
        w.assign_add(1.0)
        return np.linalg.inv(x)

    f(np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((2, 2)))
    assert w.numpy() == 1


def test_arguments_are_written_into() -> None:
    @dt.function
    def f(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x)

    for _ in range(2):
        a, t = np.ones(3), dt.constant(np.ones(3))
        assert f(a) == 7 and list(a) == [5, 1, 1]
        assert float(f(t)) == 7 and list(t.numpy()) == [5, 1, 1]


# ------------------------------------------------------------------ calling it
def test_methods_keywords_and_defaults() -> None:
    class Scale:
        def __init__(self, w: float) -> None:
            self.w = w

        @dt.function
        def __call__(self, x: Any, *, times: int = 1) -> Any:
            return x * self.w * times

    a, b = Scale(2.0), Scale(3.0)
    for _ in range(2):
        agree([a(X), b(X), a(X, times=3)], [2 * X, 3 * X, 6 * X])
    with pytest.raises(TypeError, match="unexpected keyword"):
        a(X, wrong=1)


def test_parameters_may_have_any_names() -> None:
    f = dt.function(lambda t0, c0, sin, add: np.sin(t0) * np.ones(3) + c0 * sin + np.sum(add) * np.arange(3.0))
    for shift in (0, 1):
        a, b, c, d = np.random.default_rng(shift).normal(size=(4, 3))
        agree(f(a, b, c, d), np.sin(a) + b * c + np.sum(d) * np.arange(3.0))


def test_an_input_signature_converts_and_holds() -> None:
    f = dt.function(lambda x: x * 2, input_signature=[dt.TensorSpec((None,), "float64")])
    agree(f([1, 2]), np.array([2.0, 4.0]))
    assert f(np.ones(3, "f4")).dtype == np.float64
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        f(np.ones((2, 2)))


def test_tensors_come_out_where_tensors_go_in() -> None:
    f = dt.function(lambda x: x * 2)
    assert isinstance(f(X), np.ndarray) and isinstance(f(dt.constant(X)), dt.Tensor)
    assert isinstance(dt.grad(lambda x: np.sum(f(x)))(X), np.ndarray)


def test_threads_call_it_at_once() -> None:
    f, found = dt.function(lambda x: np.sum(np.sin(x) * x)), []
    points = [np.arange(3.0) + k for k in range(16)]
    threads = [threading.Thread(target=lambda x=x: found.append(f(x) - np.sum(np.sin(x) * x))) for x in points]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [0.0] * 16


def test_examples_of_a_batch_run_as_the_function_does() -> None:
    f = dt.function(lambda x: np.sin(x) if np.sum(x) > 0 else x)
    agree(dt.vmap(f)(M), np.stack([np.sin(r) if np.sum(r) > 0 else r for r in M]))


def test_functions_can_be_run_eagerly() -> None:
    calls = []
    f = dt.function(lambda x: (calls.append(1), x * 2)[1])
    f(X), f(X)
    dt.run_functions_eagerly(True)
    try:
        f(X), f(X)
    finally:
        dt.run_functions_eagerly(False)
    f(X)
    assert len(calls) == 3
