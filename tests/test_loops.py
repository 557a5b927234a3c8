"""scan, fori_loop, map_fn: what a Python loop gives, in both modes, to second order, traced and untraced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_function import agree

import dualtape as dt

RNG = np.random.default_rng(0)
ARGS = RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=3), RNG.normal(size=(6, 3))
OTHERS = tuple(1.1 * a + 0.1 for a in ARGS)
DIRECTIONS = tuple(RNG.normal(size=a.shape) for a in ARGS)


def scanned(W: Any, h: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = np.tanh(W @ h + x)
        return h, np.sum(h * h)

    h, ys = dt.scan(cell, h, xs)
    return np.sum(ys) + np.sum(h)


def looped(W: Any, h: Any, xs: Any) -> Any:
    total = 0.0
    for x in xs:
        h = np.tanh(W @ h + x)
        total = total + np.sum(h * h)
    return total + np.sum(h)


def divided(W: Any, h: Any, xs: Any) -> Any:
    """With a branch in the body, and a state of several arrays of which one is a count."""

    def cell(state: Any, x: Any) -> Any:
        h, n = state
        h = W @ h if np.sum(x) > 0 else np.sin(h) + x * (n + 1.0)
        return (h, n + 1), {"h": h, "n": n}

    (h, n), ys = dt.scan(cell, (h, 0), xs)
    return np.sum(ys["h"] ** 2) + np.sum(h) * n


def divided_loop(W: Any, h: Any, xs: Any) -> Any:
    total, n = 0.0, 0
    for x in xs:
        h = W @ h if np.sum(x) > 0 else np.sin(h) + x * (n + 1.0)
        total, n = total + np.sum(h**2), n + 1
    return total + np.sum(h) * n


def backward(W: Any, h: Any, xs: Any) -> Any:
    h, ys = dt.scan(lambda h, x: (W @ h * x, h), h, xs, reverse=True)
    return np.sum(ys * np.arange(6.0)[:, None]) + np.sum(h)


def backward_loop(W: Any, h: Any, xs: Any) -> Any:
    total = 0.0
    for k in range(5, -1, -1):
        total = total + np.sum(h) * k
        h = W @ h * xs[k]
    return total + np.sum(h)


PAIRS = {"cell": (scanned, looped), "branches": (divided, divided_loop), "reverse": (backward, backward_loop)}


@pytest.mark.parametrize("name", PAIRS)
def test_a_scan_is_the_loop(name: str) -> None:
    scan, loop = PAIRS[name]
    for args in (ARGS, OTHERS):
        agree(scan(*args), dt.constant(loop(*args)))
        agree(dt.grad(scan, (0, 1, 2))(*args), dt.grad(loop, (0, 1, 2))(*args), 1e-11)
        agree(dt.jvp(scan, args, DIRECTIONS), dt.jvp(loop, args, DIRECTIONS), 1e-11)


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
@pytest.mark.parametrize("name", PAIRS)
def test_it_has_second_derivatives_in_every_order(name: str, order: str) -> None:
    scan, loop = PAIRS[name]
    agree(dt.hvp(scan, ARGS, DIRECTIONS, order=order), dt.hvp(loop, ARGS, DIRECTIONS, order=order), 1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_one_step_of_a_traced_function(name: str) -> None:
    scan, loop = PAIRS[name]
    traced = dt.function(lambda *args: dt.value_and_grad(scan, (0, 1, 2))(*args))
    products = dt.function(lambda *args: dt.hvp(scan, args, DIRECTIONS))
    for args in (ARGS, OTHERS, ARGS):
        agree(traced(*args), dt.value_and_grad(loop, (0, 1, 2))(*args), 1e-11)
        agree(products(*args), dt.hvp(loop, args, DIRECTIONS), 1e-10)
    assert traced.trace_count == products.trace_count == 1 and "loop(" in traced.source()
    outside = dt.function(scan)
    agree(dt.grad(outside, (0, 1, 2))(*OTHERS), dt.grad(loop, (0, 1, 2))(*OTHERS), 1e-11)


def test_a_variable_from_outside_has_its_derivative() -> None:
    w, xs = dt.Variable(2.0), ARGS[2][:, 0]

    def run(w: Any) -> Any:
        c: Any = 1.0
        for x in xs:
            c = c * w + x
        return c

    for value in (2.0, 3.0):
        w.assign(value)
        with dt.GradientTape() as tape:
            y, _ = dt.scan(lambda c, x: (c * w + x, None), 1.0, xs)
        agree(tape.gradient(y, w), dt.constant(dt.grad(run)(value)))


def test_examples_of_a_batch_and_no_steps() -> None:
    f = lambda x: dt.scan(lambda c, y: (c + y, c * y), 0.0, x)[1]  # noqa: E731
    agree(dt.vmap(f)(ARGS[2]), np.stack([f(x).numpy() for x in ARGS[2]]))
    last, ys = dt.scan(lambda c, x: (c, x * 2), 3.0, np.zeros((0, 2)))
    assert last == 3 and ys.shape == (0, 2)


def test_fori_loop_and_map_fn() -> None:
    assert dt.fori_loop(2, 5, lambda k, x: x * 2.0 + k, 1.0) == ((1 * 2 + 2) * 2 + 3) * 2 + 4
    agree(dt.grad(lambda x: dt.fori_loop(0, 3, lambda k, y: y * x, 1.0))(2.0), np.float64(12.0))
    agree(dt.grad(lambda x: np.sum(dt.map_fn(lambda y: y**3, x)))(ARGS[1]), 3 * ARGS[1] ** 2)


def test_memory_grows_with_the_steps_in_reverse_mode_alone() -> None:
    with dt.GradientTape() as tape:
        x = dt.constant(np.ones(1000))
        tape.watch(x)
        dt.scan(lambda c, k: (c * x, None), x, np.arange(50))
    assert 50 * 8000 <= tape.nbytes <= 54 * 8000


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: dt.scan(lambda c, x: (np.stack([c, c]), x), 0.0, np.ones(3)), TypeError, r"a step shape \(2,\)"),
        (lambda: dt.scan(lambda c, x: (c * 1.5, x), 1, np.zeros(3)), TypeError, "dtype int64"),
        (lambda: dt.scan(lambda c, x: c, 1.0, np.zeros(3)), TypeError, "returns a pair"),
        (lambda: dt.scan(lambda c, x: (c, x), 1.0, (np.zeros(3), np.zeros(4))), ValueError, r"lengths: \[3, 4\]"),
        (lambda: dt.scan(lambda c, x: (c, x), 1.0), ValueError, "no xs and no length"),
        (lambda: dt.scan(None, 1.0, np.zeros(3)), TypeError, "takes a function first"),
    ],
)
def test_wrong_loops_are_told(run: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        run()


def test_a_body_cannot_assign_variables() -> None:
    v = dt.Variable(0.0)
    with pytest.raises(TypeError, match="part of the state"):
        dt.scan(lambda c, x: (v.assign_add(x), (c, None))[1], 0.0, np.zeros(3))
    assert v.numpy() == 0
