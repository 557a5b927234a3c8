"""Modes inside modes: all words over f and r up to the third order, against mpmath, and every nested bug ever met.

Length: cases of nesting stay for ever, each with its story.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import TABLE
from dualtape.extend import operation

WORDS = {n: ["".join(word) for word in itertools.product("fr", repeat=n)] for n in (1, 2, 3)}
ALL = [word for words in WORDS.values() for word in words]
identity = TABLE["identity"]
logistic = operation(lambda x: 1 / (1 + np.exp(-x)), partials=lambda out: out * (1 - out), name="nesting_logistic")


def forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: dt.jvp(f, (x,), (1.0,))[1]


MODES = {"f": forward, "r": dt.grad}


def by_transforms(f: Callable[[Any], Any], word: str, x: float) -> float:
    """The derivative of a function of one number, outermost mode first."""
    for mode in reversed(word):
        f = MODES[mode](f)
    return float(f(x))


def by_objects(f: Callable[[Any], Any], word: str, x: float) -> float:
    """The same with tapes and accumulators, all of which follow one and the same Tensor."""
    t = dt.constant(x)

    def derivative(word: str) -> Any:
        if not word:
            return f(t)
        if word[0] == "f":
            with dt.ForwardAccumulator(t, 1.0) as acc:
                y = derivative(word[1:])
            return taken(acc, y, t)
        with dt.GradientTape() as tape:
            tape.watch(t)
            y = derivative(word[1:])
        return taken(tape, y, t)

    y = derivative(word)
    return 0.0 if y is None else float(y)


def taken(recorder: Any, y: Any, x: Any) -> Any:
    """The derivative of y by x, None if there is none."""
    if y is None:
        return None
    return recorder.jvp(y) if isinstance(recorder, dt.ForwardAccumulator) else recorder.gradient(y, x)


def by_persistent_tapes_left_late(f: Callable[[Any], Any], word: str, x: float) -> float:
    """The same, with everything entered first, and every gradient taken inside every recorder that is open."""
    t = dt.constant(x)
    recorders: list[Any] = []
    try:
        for mode in word:
            recorders.append(dt.ForwardAccumulator(t, 1.0) if mode == "f" else dt.GradientTape(persistent=True))
            recorders[-1].__enter__()
            if mode == "r":
                recorders[-1].watch(t)
        y = f(t)
        for recorder in reversed(recorders):
            y = taken(recorder, y, t)
    finally:
        for recorder in recorders:  # out of order
            recorder.__exit__(None, None, None)
    return 0.0 if y is None else float(y)


WAYS = {"transforms": by_transforms, "objects": by_objects, "left late": by_persistent_tapes_left_late}


# ------------------------------------------------------------------ against mpmath
def reuse(lib: Any, x: Any) -> Any:
    m = lib.exp(x)
    n = m * m
    return n * m + n / (1 + m)


def closure(lib: Any, x: Any) -> Any:
    a = lib.sin(x)

    def inner(y: Any) -> Any:
        return a * y + lib.tanh(a * x)

    return inner(x) * inner(a)


def loop(lib: Any, x: Any) -> Any:
    y = x
    for _ in range(5):
        y = lib.sqrt(1 + lib.tanh(y) * y)
    return y


def cube(x: Any) -> Any:
    m = identity(x)
    return (m * m) * m


def vector(x: Any) -> Any:
    v = np.stack([x, np.exp(x), x * x])
    m = np.arange(9.0).reshape(3, 3) / 10
    return np.sum(np.tanh(m @ v) * v[::-1]) + np.prod(v) + v @ v


def mp_vector(x: Any) -> Any:
    v = [x, mpmath.exp(x), x * x]
    w = [mpmath.tanh(sum(mpmath.mpf(float(np.float64(3 * i + j) / 10)) * v[j] for j in range(3))) for i in range(3)]
    return sum(w[i] * v[2 - i] for i in range(3)) + v[0] * v[1] * v[2] + sum(a * a for a in v)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (np.exp, mpmath.exp),
    "tanh": (np.tanh, mpmath.tanh),
    "sqrt": (np.sqrt, mpmath.sqrt),
    "logistic": (logistic, lambda x: 1 / (1 + mpmath.exp(-x))),
    "exp of exp": (lambda x: np.exp(np.exp(x)), lambda x: mpmath.exp(mpmath.exp(x))),
    "tanh of sqrt": (lambda x: np.tanh(np.sqrt(x)), lambda x: mpmath.tanh(mpmath.sqrt(x))),
    "sqrt of logistic": (lambda x: np.sqrt(logistic(x)), lambda x: mpmath.sqrt(1 / (1 + mpmath.exp(-x)))),
    "reciprocal": (lambda x: 1 / x, lambda x: 1 / x),
    "power": (lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5)),
    "power of itself": (lambda x: x**x, lambda x: x**x),
    "identity, cubed": (cube, lambda x: x**3),
    "an intermediate used again": (lambda x: reuse(np, x), lambda x: reuse(mpmath, x)),
    "an outer variable": (lambda x: closure(np, x), lambda x: closure(mpmath, x)),
    "a loop": (lambda x: loop(np, x), lambda x: loop(mpmath, x)),
    "vectors": (vector, mp_vector),
    "a sum": (lambda x: np.sum(np.exp(x * np.arange(3.0))), lambda x: sum(mpmath.exp(x * k) for k in range(3))),
    "logaddexp": (lambda x: np.logaddexp(x, x * x), lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(x * x))),
    "hypot": (lambda x: np.hypot(x, np.sin(x)), lambda x: mpmath.sqrt(x * x + mpmath.sin(x) ** 2)),
    "a linear function": (lambda x: 3 * x, lambda x: 3 * x),
    "a tape in the function": (
        lambda x: x * dt.grad(lambda y: np.exp(x * y))(x),
        lambda x: x * x * mpmath.exp(x * x),
    ),
    "an accumulator in the function": (
        lambda x: x * forward(lambda y: np.exp(x * y))(x),
        lambda x: x * x * mpmath.exp(x * x),
    ),
}


def exact(f: Callable[[Any], Any], x: float, order: int) -> float:
    with mpmath.workdps(50):
        return float(mpmath.diff(f, mpmath.mpf(x), order))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_nesting_agrees_with_mpmath(name: str, way: str) -> None:
    f, reference = FUNCTIONS[name]
    for word in ALL:
        expected = exact(reference, 0.7, len(word))
        assert WAYS[way](f, word, 0.7) == pytest.approx(expected, rel=1e-12, abs=1e-12), word


@pytest.mark.parametrize("word", WORDS[2])
@pytest.mark.parametrize("way", WAYS)
def test_an_intermediate_used_again_at_second_order(way: str, word: str) -> None:
    """Nested accumulators in another framework give 2.4 here: a tangent was kept under the wrong level."""
    assert WAYS[way](cube, word, 0.7) == pytest.approx(4.2, rel=1e-15)
    assert WAYS[way](lambda x: (np.positive(x) * np.positive(x)) * x, word, 0.7) == pytest.approx(4.2, rel=1e-15)


@pytest.mark.parametrize("word", WORDS[3])
def test_mixed_derivatives(word: str) -> None:
    """One variable a level: the modes must not only be right, but be right about which variable is whose."""
    point = (0.3, -0.7, 1.1)

    def level(k: int, fixed: tuple[Any, ...]) -> Any:
        if k == 3:
            x, y, z = fixed
            return np.exp(x * y * z)
        return MODES[word[k]](lambda v: level(k + 1, (*fixed, v)))(point[k])

    s = math.prod(point)
    assert float(level(0, ())) == pytest.approx((1 + 3 * s + s * s) * math.exp(s), rel=1e-14)


# ------------------------------------------------------------------ perturbation confusion
@pytest.mark.parametrize(("outer", "inner"), WORDS[2])
def test_perturbations_are_not_confused(outer: str, inner: str) -> None:
    """Without identity per activation, each of these sees the other level's perturbation as its own."""
    D, d = MODES[outer], MODES[inner]
    # d/dx [x d/dy (x + y)] = 1; confused levels give 2
    assert float(D(lambda x: x * d(lambda y: x + y)(1.0))(1.0)) == 1.0
    assert float(D(lambda x: x * d(lambda y: x * y)(2.0))(3.0)) == 6.0
    # the inner point is the outer variable itself
    assert float(D(lambda x: d(lambda y: x * y)(x))(3.0)) == 1.0
    assert float(D(lambda x: d(lambda y: x * y * y)(x))(3.0)) == 12.0
    # the inner function ignores its own variable, or the outer one
    assert float(D(lambda x: x * d(lambda y: x * 1.0)(2.0))(3.0)) == 0.0
    assert float(D(lambda x: d(lambda y: y * y)(2.0))(3.0)) == 0.0
    # the shift operator: its derivative at 0, applied twice, is the second derivative
    shift = lambda f: lambda y: d(lambda x: f(x + y))(0.0)  # noqa: E731
    assert float(shift(shift(np.exp))(1.0)) == pytest.approx(math.e, rel=1e-15)
    assert float(D(shift(lambda x: x**3))(2.0)) == 12.0
    # a function of the outer variable made outside the inner level
    assert float(D(lambda x: (lambda g: d(lambda y: g(y) * g(x))(x))(lambda z: x * z))(2.0)) == 12.0


@pytest.mark.parametrize(("outer", "inner"), WORDS[2])
def test_a_value_that_leaks_out_of_a_level_is_a_constant_of_it(outer: str, inner: str) -> None:
    leaked: list[Any] = []

    def f(x: Any) -> Any:
        def g(y: Any) -> Any:
            leaked.append(y * y)
            return y * x

        slope = MODES[inner](g)(x)
        return slope * leaked[-1]  # x * x**2: it still depends on x, as y was x

    assert float(MODES[outer](f)(3.0)) == 27.0
    assert float(MODES[inner](lambda z: z * leaked[-1])(2.0)) == 9.0
    assert float(MODES[outer](lambda z: MODES[inner](lambda y: y * z * leaked[-1])(1.0))(2.0)) == 9.0


def test_siblings_do_not_see_each_other() -> None:
    x = dt.constant(2.0)
    slopes = []
    for _ in range(2):
        with dt.ForwardAccumulator(x, 1.0) as acc:
            y = x * x
        slopes.append(acc)
    assert slopes[0].jvp(y) is None
    assert float(slopes[1].jvp(y)) == 4.0


# ------------------------------------------------------------------ tapes and accumulators in each other
def test_an_inner_accumulator_knows_nothing_of_outer_tangents() -> None:
    x = dt.constant(3.0)
    with dt.ForwardAccumulator(x, 1.0) as outer, dt.ForwardAccumulator(x, 1.0) as inner:
        y = np.exp(x)
    assert inner.jvp(outer.jvp(y)) is None
    assert float(outer.jvp(inner.jvp(y))) == pytest.approx(math.exp(3.0))


def test_entering_decides_the_nesting_not_creation() -> None:
    x = dt.constant(3.0)
    first, second = dt.ForwardAccumulator(x, 1.0), dt.ForwardAccumulator(x, 1.0)
    with second, first:
        y = x * x * x
    assert float(second.jvp(first.jvp(y))) == 18.0
    assert first.jvp(second.jvp(y)) is None


def test_an_inner_tape_does_not_keep_the_tangents_of_an_outer_accumulator() -> None:
    x = dt.constant(np.ones(10))
    with dt.ForwardAccumulator(x, np.ones(10)) as acc, dt.GradientTape() as tape:
        tape.watch(x)
        y = np.exp(np.exp(x))
    assert len(tape) == 2
    assert tape.gradient(acc.jvp(y), x) is None


def test_an_outer_tape_records_the_tangents_of_an_inner_accumulator() -> None:
    x = dt.constant([0.1, 0.2])
    with dt.GradientTape() as tape:
        tape.watch(x)
        with dt.ForwardAccumulator(x, np.array([1.0, 2.0])) as acc:
            y = np.sum(np.exp(x) * x)
        t = acc.jvp(y)
    assert np.allclose(tape.gradient(t, x), np.exp([0.1, 0.2]) * (2 + np.array([0.1, 0.2])) * [1.0, 2.0])


def test_a_tangent_may_itself_be_followed() -> None:
    v = dt.constant([1.0, 2.0])
    x = dt.constant([3.0, 4.0])
    with dt.GradientTape() as tape:
        tape.watch(v)
        with dt.ForwardAccumulator(x, v) as acc:
            y = np.sum(x * x)
        t = acc.jvp(y)
    assert np.array_equal(tape.gradient(t, v), [6.0, 8.0])


@pytest.mark.parametrize("later", ["tape", "accumulator"])
def test_gradient_under_a_recorder_that_was_opened_after_the_recording(later: str) -> None:
    """Rules read nodes, not arrays, so whoever follows an operand sees what a sweep does with it."""
    x = dt.constant([0.5, 2.0])
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x**3
    if later == "tape":
        with dt.GradientTape() as second:
            second.watch(x)
            g = tape.gradient(y, x)
        found = second.gradient(g, x)
    else:
        with dt.ForwardAccumulator(x, np.ones(2)) as acc:
            g = tape.gradient(y, x)
        found = acc.jvp(g)
    assert np.allclose(g, 3 * x.numpy() ** 2)
    assert np.allclose(found, 6 * x.numpy())


def test_gradient_inside_its_own_persistent_tape() -> None:
    x = dt.constant(2.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.exp(x) * x
        g = tape.gradient(y, x)
        h = tape.gradient(g, x)
    assert float(g) == pytest.approx(3 * math.exp(2.0))
    assert float(h) == pytest.approx(4 * math.exp(2.0))
    assert float(tape.gradient(h, x)) == pytest.approx(5 * math.exp(2.0))


def test_output_gradients_may_themselves_be_followed() -> None:
    x, w = dt.constant([1.0, 2.0]), dt.constant([3.0, 4.0])
    with dt.GradientTape() as outer:
        outer.watch(w)
        with dt.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        g = inner.gradient(y, x, output_gradients=w)
    assert np.array_equal(outer.gradient(g, w), [2.0, 4.0])


@pytest.mark.parametrize("word", WORDS[2])
def test_variables_nest_like_tensors(word: str) -> None:
    v = dt.Variable(0.7)

    def derivative(word: str) -> Any:
        if not word:
            return np.exp(v) * v
        if word[0] == "f":
            with dt.ForwardAccumulator(v, 1.0) as acc:
                y = derivative(word[1:])
            return acc.jvp(y)
        with dt.GradientTape() as tape:
            y = derivative(word[1:])
        return tape.gradient(y, v)

    assert float(derivative(word)) == pytest.approx(2.7 * math.exp(0.7), rel=1e-15)


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
def test_transforms_built_on_transforms(order: str) -> None:
    A = np.array([[2.0, 1.0], [0.5, 3.0]])
    f = lambda x: np.sum(np.exp(A @ x))  # noqa: E731
    x, v = np.array([0.1, -0.2]), np.array([1.0, 2.0])
    hessian = A.T @ np.diag(np.exp(A @ x)) @ A
    assert np.allclose(dt.hvp(f, x, v, order=order), hessian @ v, rtol=1e-13)
    third = dt.jvp(lambda x: dt.hvp(f, x, v, order=order), (x,), (v,))[1]
    assert np.allclose(third, A.T @ (np.exp(A @ x) * (A @ v) ** 2), rtol=1e-13)
    third = dt.grad(lambda x: v @ dt.hvp(f, x, v, order=order))(x)
    assert np.allclose(third, A.T @ (np.exp(A @ x) * (A @ v) ** 2), rtol=1e-13)


def test_linearize_and_vjp_inside_other_levels() -> None:
    def by_linearize(x: Any) -> Any:
        _, push = dt.linearize(lambda y: np.exp(y) * x, x)
        return push(1.0) + push(x)

    def by_vjp(x: Any) -> Any:
        _, pullback = dt.vjp(lambda y: np.exp(y) * x, x)
        return pullback(1.0)[0] + pullback(x)[0]

    reference = lambda x: mpmath.exp(x) * x * (1 + x)  # noqa: E731
    for word in ALL:
        for f in (by_linearize, by_vjp):
            assert by_transforms(f, word, 0.4) == pytest.approx(exact(reference, 0.4, len(word)), rel=1e-12)


def test_an_exception_at_an_inner_level_leaves_the_outer_ones_in_order() -> None:
    def fails(y: Any) -> Any:
        raise ZeroDivisionError

    def f(x: Any) -> Any:
        for mode in MODES.values():
            with pytest.raises(ZeroDivisionError):
                mode(fails)(x)
        return x**3

    for word in ALL[:6]:
        assert by_transforms(f, word, 2.0) == {1: 12.0, 2: 12.0}[len(word)]


@pytest.mark.parametrize("depth", [4, 5])
def test_deeper_nestings(depth: int) -> None:
    for word in ("f" * depth, "r" * depth, ("fr" * depth)[:depth], ("rf" * depth)[:depth]):
        assert by_transforms(np.exp, word, 0.5) == pytest.approx(math.exp(0.5), rel=1e-12)
        assert by_objects(lambda x: np.exp(2 * x), word, 0.5) == pytest.approx(2**depth * math.e, rel=1e-12)


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
@pytest.mark.parametrize(
    ("f", "second"),
    [
        (lambda x: np.where(x > 0, np.log(x), 0.0), [0.0, -1.0, 0.0]),
        (lambda x: np.where(x > 0, np.sqrt(x), x), [0.0, -0.25, 0.0]),
        (lambda x: np.where(x != 0, 1 / x, 0.0), [0.0, 2.0, -2.0]),
    ],
)
def test_the_branch_not_taken_stays_out_of_the_second_derivative(f: Any, second: Any, order: str) -> None:
    with np.errstate(all="ignore"):
        product = dt.hvp(lambda x: np.sum(f(x)), np.array([0.0, 1.0, -1.0]), np.ones(3), order=order)
    assert np.allclose(product, second, atol=1e-14)
