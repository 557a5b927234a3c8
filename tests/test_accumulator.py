"""ForwardAccumulator: its surface, its errors, and what surprises people who meet it first."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt

X = np.array([1.0, 2.0])


def test_a_product_with_the_jacobian() -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, np.array([10.0, 100.0])) as acc:
        y = x * x
        z = np.sum(y)
    assert np.array_equal(acc.jvp(y), [20.0, 400.0])
    assert float(acc.jvp(z)) == 420.0
    assert isinstance(acc.jvp(y), dt.Tensor)
    assert np.array_equal(acc.jvp(x), [10.0, 100.0])  # the primal's own tangent


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structures() -> None:
    x, v = dt.constant(X), dt.Variable(3.0)
    for primals, tangents in (
        ([x, v], [np.ones(2), 2.0]),
        ((x, [v]), (np.ones(2), [2.0])),
        ({"x": x, "v": v}, {"v": 2.0, "x": np.ones(2)}),
        (Pair(x, v), Pair(np.ones(2), 2.0)),
        ([x, v], [[1.0, 1.0], 2]),
    ):
        with dt.ForwardAccumulator(primals, tangents) as acc:
            y = x * v
        assert np.array_equal(acc.jvp(y), [5.0, 7.0])
        found = acc.jvp({"y": y, "rest": (x, [None, v])})
        assert float(found["rest"][1][1]) == 2.0 and found["rest"][1][0] is None


def test_unconnected_gradients() -> None:
    x, c = dt.constant(X), dt.constant([1.0, 2.0, 3.0], dtype="float32")
    with dt.ForwardAccumulator(x, X) as acc:
        y = c * 2.0
    assert acc.jvp(y) is None
    assert acc.jvp(np.ones(3)) is None
    zero = acc.jvp(y, unconnected_gradients="zero")
    assert np.array_equal(zero, np.zeros(3)) and zero.dtype == np.float32
    with pytest.raises(ValueError, match="unconnected_gradients"):
        acc.jvp(y, unconnected_gradients="zeros")


def test_tangents_have_the_dtype_of_their_primals() -> None:
    x = dt.constant(X, dtype="float32")
    with dt.ForwardAccumulator(x, np.ones(2, int)) as acc:
        y = np.exp(x) * 2.0
    assert acc.jvp(y).dtype == np.float32
    z = dt.constant([1.0 + 1.0j])
    with dt.ForwardAccumulator(z, np.ones(1)) as acc:
        y = z * z
    assert acc.jvp(y).dtype == np.complex128
    assert np.array_equal(acc.jvp(y), [2 + 2j])


def test_the_tangent_of_a_broadcast_has_the_shape_of_the_result() -> None:
    x = dt.constant(2.0)
    with dt.ForwardAccumulator(x, 1.0) as acc:
        y = x + np.zeros((2, 3))
        z = np.ones((2, 1), np.float32) * x
    assert acc.jvp(y).shape == (2, 3)
    assert acc.jvp(z).shape == (2, 1) and acc.jvp(z).dtype == z.dtype
    acc.jvp(y).numpy()


# ------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("primals", "tangents", "says"),
    [
        (dt.constant(X), np.ones(3), r"tangent of the primal has shape \(3,\), but the primal has shape \(2,\)"),
        (dt.constant(X), 1.0, r"has shape \(\)"),
        ([dt.constant(X), dt.constant(1.0)], [X, X], r"tangent of primal 1 has shape \(2,\)"),
        ([dt.constant(X)], [X, X], "2 entries where there are 1 values"),
        (X, X, r"the primal is a ndarray.*dualtape\.constant\(value\)"),
        ([dt.constant(X), 3.0], [X, 1.0], "primal 1 is a float"),
        (dt.constant([1, 2]), X, "dtype int64: only floating and complex dtypes have tangents"),
        (dt.constant(X), X * 1j, "is complex, but the primal is real"),
    ],
)
def test_misuse_is_refused(primals: Any, tangents: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        dt.ForwardAccumulator(primals, tangents)


def test_a_primal_is_listed_once() -> None:
    x, v = dt.constant(X), dt.Variable(X)
    with pytest.raises(ValueError, match="primal 1 is listed multiple times"):
        dt.ForwardAccumulator([x, x], [X, X])
    with pytest.raises(ValueError, match="multiple times"):
        dt.ForwardAccumulator([v, v], [X, X])


def test_it_is_entered_once_at_a_time() -> None:
    x = dt.constant(X)
    acc = dt.ForwardAccumulator(x, X)
    with acc, pytest.raises(ValueError, match="already recording"):
        acc.__enter__()
    with acc:
        y = x * x
    assert np.array_equal(acc.jvp(y), 2 * X * X)


def test_a_refused_accumulator_leaves_no_tangents() -> None:
    x = dt.constant(X)
    with pytest.raises(ValueError):
        dt.ForwardAccumulator([x, dt.constant(1.0)], [X, X])
    assert not x._node.tangents


# ------------------------------------------------------------------ when it records
def test_jvp_works_after_it_is_left_and_tangents_stay_when_it_is_entered_again() -> None:
    x = dt.constant(X)
    acc = dt.ForwardAccumulator(x, np.ones(2))
    with acc:
        y = x * x
    lost = y * y
    assert acc.jvp(lost) is None
    with acc:
        z = y * x
    assert np.array_equal(acc.jvp(z), 3 * X * X)
    assert np.array_equal(acc.jvp(y), 2 * X)


def test_it_holds_its_primals_weakly() -> None:
    gc.disable()
    try:
        x = dt.constant(np.ones(100))
        acc = dt.ForwardAccumulator(x, np.ones(100))
        with acc:
            y = np.sum(x * x)
        value = weakref.ref(x._node.value)
        del x
        assert value() is None
        assert float(acc.jvp(y)) == 200.0
    finally:
        gc.enable()


def test_tangents_go_with_the_accumulator_or_with_the_value() -> None:
    gc.disable()
    try:
        x = dt.constant(np.ones(100))
        with dt.ForwardAccumulator(x, np.ones(100)) as acc:
            y = x * 2.0
            tangent = weakref.ref(acc.jvp(y)._node.value)
            del y
            assert tangent() is None
    finally:
        gc.enable()


def test_a_pause_of_everything_pauses_it() -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, X) as acc:
        with dt.stop_recording():
            y = x * x
        z = x * y
    assert acc.jvp(y) is None
    assert np.array_equal(acc.jvp(z), X * X * X)


def test_tape_stop_recording_does_not() -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, X) as acc, dt.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            y = x * x
    assert tape.gradient(y, x) is None
    assert np.array_equal(acc.jvp(y), 2 * X * X)


def test_exits_in_every_way() -> None:
    x = dt.constant(X)
    outer, inner = dt.ForwardAccumulator(x, X), dt.ForwardAccumulator(x, X)
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    y = x * x
    inner.__exit__(None, None, None)
    assert outer.jvp(y) is None and inner.jvp(y) is not None
    with pytest.raises(ZeroDivisionError), outer:
        raise ZeroDivisionError
    assert outer.jvp(x * x) is None and inner.jvp(x * x) is None

    def steps() -> Iterator[Any]:
        with outer:
            yield x * x

    generator = steps()
    z = next(generator)
    generator.close()
    assert outer.jvp(z) is not None
    assert outer.jvp(x * x) is None


def test_another_thread_loses_no_tangent() -> None:
    x = dt.constant(X)
    found: list[Any] = []
    with dt.ForwardAccumulator(x, X) as acc:
        thread = threading.Thread(target=lambda: found.append(x * x))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(acc.jvp(found[0]), 2 * X * X)


# ------------------------------------------------------------------ Variables
def test_variables() -> None:
    v, w = dt.Variable(3.0), dt.Variable(2.0, trainable=False)
    with dt.ForwardAccumulator([v, w], [1.0, 10.0]) as acc:
        y = v * w
        v.assign(5.0)
        z = v * w  # the tangent of a Variable stays with it
    assert float(acc.jvp(y)) == 32.0
    assert float(acc.jvp(z)) == 52.0
    assert float(acc.jvp(v)) == 1.0


def test_what_is_assigned_has_no_tangent() -> None:
    v, x = dt.Variable(3.0), dt.constant(2.0)
    with dt.ForwardAccumulator(x, 1.0) as acc:
        v.assign(x * x)
        y = v * 2.0
    assert acc.jvp(y) is None


# ------------------------------------------------------------------ no derivative
@pytest.mark.parametrize(
    "f",
    [np.floor, np.round, np.rint, np.fix, np.argmax, np.zeros_like, np.ones_like, np.isnan, lambda x: x.astype(int)],
)
def test_what_has_no_derivative_is_none(f: Callable[[Any], Any]) -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, X) as acc:
        y = f(x)
    assert acc.jvp(y) is None


def test_sign_has_a_true_zero() -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, X) as acc:
        y = np.sign(x)
    assert np.array_equal(acc.jvp(y), [0.0, 0.0])


def test_what_happens_in_place() -> None:
    x = dt.constant([1.0, 2.0, 3.0])
    with dt.ForwardAccumulator(x, np.ones(3)) as acc:
        y = x * x
        y[0] = 10 * x[1]
        y[1:] += x[1:]
    assert np.array_equal(acc.jvp(y), [10.0, 5.0, 7.0])


def test_complex_tangents() -> None:
    z = dt.constant(1.0 + 2.0j)
    with dt.ForwardAccumulator(z, 1j) as acc:
        w = z * z
        a = np.abs(z)
    assert complex(acc.jvp(w)) == 2j * (1 + 2j)
    assert acc.jvp(a).dtype == np.float64
    assert float(acc.jvp(a)) == pytest.approx(2 / np.sqrt(5))
