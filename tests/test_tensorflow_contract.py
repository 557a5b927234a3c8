"""What a TensorFlow user counts on and no other file tests: order of entering, pauses, names, structures."""

from __future__ import annotations

import asyncio
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import dualtape as tf

NONE, ZERO = tf.UnconnectedGradients.NONE, tf.UnconnectedGradients.ZERO


# ------------------------------------------------------------------ targets, seeds, structures
def test_a_cast_to_integer_and_back_cuts_the_path_in_both_modes() -> None:
    x = tf.constant(3.7)
    with tf.GradientTape() as tape, tf.ForwardAccumulator(x, 1.0) as acc:
        tape.watch(x)
        y = tf.cast(tf.cast(x, "int32"), "float64")
    assert float(y) == 3.0 and acc.jvp(y) is None and tape.gradient(y, x) is None


def test_output_gradients_are_matched_by_key_and_not_by_order() -> None:
    """They were once taken in the order in which the dict was written, which gave another gradient, silently."""

    @dataclasses.dataclass
    class Pair:
        left: Any
        right: Any

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        a, b = 3.0 * x, 5.0 * x
    assert float(tape.gradient({"a": a, "b": b}, x, output_gradients={"b": 10.0, "a": 1.0})) == 53.0
    assert float(tape.gradient({"a": a, "b": [b]}, x, {"b": [10.0], "a": None})) == 53.0
    assert float(tape.gradient(Pair({"p": a, "q": b}, b), x, Pair({"q": 10.0, "p": 1.0}, 0.0))) == 53.0
    assert float(tape.gradient([a, (b, b)], x, output_gradients=[1.0, 10.0, 0.0])) == 53.0  # flat, as in TensorFlow
    assert float(tape.gradient({"a": a}, x, {"a": 2.0})) == 6.0
    with pytest.raises(ValueError, match=r"2 entries .* keys \['a', 'c'\] where the values have \['a', 'b'\]"):
        tape.gradient({"a": a, "b": b}, x, {"a": 1.0, "c": 1.0})
    with pytest.raises(ValueError, match="output_gradients has 3 entries for 2 targets"):
        tape.gradient([a, b], x, [1.0, 2.0, 3.0])


def test_unconnected_gradients_are_spelt_as_in_tensorflow_too() -> None:
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape, tf.ForwardAccumulator(x, np.ones(2)) as acc:
        z = y * y
    assert tape.gradient(z, x, unconnected_gradients=NONE) is None
    assert np.array_equal(tape.gradient(z, x, unconnected_gradients=ZERO), [0.0, 0.0])
    assert acc.jvp(z, unconnected_gradients=NONE) is None
    assert float(acc.jvp(z, unconnected_gradients=ZERO)) == 0.0
    assert tf.UnconnectedGradients("zero") is ZERO
    for call in (lambda: tape.gradient(z, x, unconnected_gradients="nonsense"), lambda: acc.jvp(z, "nonsense")):
        with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 'nonsense'; it is"):
            call()
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 3; it is"):
        tape.gradient(z, x, unconnected_gradients=3)


# ------------------------------------------------------------------ entering, pausing
def test_the_order_of_entering_decides_nesting_and_not_that_of_creation() -> None:
    x = tf.constant(3.0)
    first, second = tf.ForwardAccumulator(x, 1.0), tf.ForwardAccumulator(x, 1.0)
    with second, first:  # created first, entered last: the inner one
        y = x * x * x
    assert float(second.jvp(first.jvp(y))) == 18.0
    assert first.jvp(second.jvp(y)) is None
    tape, acc = tf.GradientTape(persistent=True), tf.ForwardAccumulator(x, 1.0)
    with acc, tape:
        tape.watch(x)
        y = x * x * x
    assert tape.gradient(acc.jvp(y), x) is None
    with tape, acc:
        tape.watch(x)
        y = x * x * x
    assert float(tape.gradient(acc.jvp(y), x)) == 18.0


def test_an_inner_tape_does_not_record_an_outer_accumulators_tangents() -> None:
    """So what those computed on the way goes at once, and the tape is as long as the program."""
    x = tf.constant(np.ones(1000))
    with tf.ForwardAccumulator(x, np.ones(1000)), tf.GradientTape() as tape:
        tape.watch(x)
        np.tanh(np.exp(x))
    assert len(tape) == 2


def test_a_recorder_entered_in_a_pause_of_everything_stays_when_the_pause_ends() -> None:
    x = tf.constant(3.0)
    inner = tf.GradientTape()
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.stop_recording():
            inner.__enter__()
            inner.watch(x)
        y = x * x
    z = y * x
    inner.__exit__(None, None, None)
    assert float(tape.gradient(y, x)) == 6.0
    assert float(inner.gradient(z, x)) == 27.0


def test_a_pause_of_everything_ends_with_an_exception_and_leaves_closed_tapes_closed() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with pytest.raises(ZeroDivisionError), tf.stop_recording():
            raise ZeroDivisionError
        y = x * x
        pause = tf.stop_recording()
        pause.__enter__()
    pause.__exit__(None, None, None)
    assert float(tape.gradient(y, x)) == 6.0 and tape.gradient(x * x, x) is None


def test_tasks_with_open_tapes_do_not_disturb_each_other() -> None:
    x = tf.constant(3.0)

    async def work(n: int, gate: asyncio.Barrier) -> tuple[Any, Any]:
        with tf.ForwardAccumulator(x, 1.0) as acc, tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            await gate.wait()
            y = x
            for _ in range(n):
                y = y * x
                await asyncio.sleep(0)
            await gate.wait()
            return float(acc.jvp(y).numpy()), float(tape.gradient(y, x).numpy())

    async def program() -> list[Any]:
        gate = asyncio.Barrier(2)
        return await asyncio.gather(work(1, gate), work(2, gate))

    assert asyncio.run(program()) == [(6.0, 6.0), (27.0, 27.0)]


# ------------------------------------------------------------------ decided points
@pytest.mark.parametrize(
    ("f", "at", "slope"),
    [
        (lambda x: tf.maximum(x, 2.0), 2.0, 0.5),
        (lambda x: tf.minimum(x, 2.0), 2.0, 0.5),
        (lambda x: tf.max(tf.stack([x, 2.0 * x, 4.0 - x])), 2.0, 2.0),
        (lambda x: np.max(np.stack([x, x])), 2.0, 1.0),
        (lambda x: np.linalg.norm(np.stack([x, x])), 0.0, 0.0),
        (lambda x: np.hypot(x, 0.0 * x), 0.0, 0.0),
        (lambda x: np.std(np.stack([x, x])), 1.0, 0.0),
        (lambda x: x**0, 0.0, 0.0),
    ],
)
def test_ties_are_shared_and_minima_have_slope_zero_in_both_modes(f: Any, at: float, slope: float) -> None:
    assert float(tf.grad(f)(at)) == slope
    assert float(tf.jvp(f, (at,), (1.0,))[1]) == slope


def test_nested_accumulators_are_right_when_an_intermediate_is_used_again() -> None:
    """TensorFlow prints 2.4."""
    x = tf.constant(0.7)
    with tf.ForwardAccumulator(x, 1.0) as outer, tf.ForwardAccumulator(x, 1.0) as inner:
        m = tf.identity(x)
        y = (m * m) * m
    assert float(outer.jvp(inner.jvp(y))) == pytest.approx(4.2, rel=1e-15)


def test_rounding_cuts_and_sign_gives_zeros_in_both_modes() -> None:
    x = tf.constant([1.4, -2.6])
    for f in (np.round, np.floor, np.ceil, np.rint, np.trunc, np.fix):
        with tf.GradientTape() as tape, tf.ForwardAccumulator(x, np.ones(2)) as acc:
            tape.watch(x)
            y = f(x)
        assert acc.jvp(y) is None and tape.gradient(y, x) is None
    with tf.GradientTape() as tape, tf.ForwardAccumulator(x, np.ones(2)) as acc:
        tape.watch(x)
        y = np.sign(x)
    assert np.array_equal(acc.jvp(y), [0.0, 0.0]) and np.array_equal(tape.gradient(y, x), [0.0, 0.0])


def test_complex_gradients_are_conjugated_and_real_sources_get_real_ones() -> None:
    z, x = tf.Variable(1.0 + 2.0j), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        w = z * z * x
    gz, gx = tape.gradient(w, [z, x])
    assert complex(gz) == np.conj(2 * (1 + 2j) * 3) and gx.dtype == np.float64 and float(gx) == -3.0


# ------------------------------------------------------------------ convert_to_tensor, TensorSpec
def test_convert_to_tensor() -> None:
    x, v = tf.constant([1.0, 2.0]), tf.Variable(3.0)
    assert tf.convert_to_tensor(x) is x
    assert float(tf.convert_to_tensor(v)) == 3.0
    assert tf.convert_to_tensor([1, 2], dtype=tf.float32).dtype == np.float32
    assert tf.convert_to_tensor([1, 2], dtype_hint="float32").dtype == np.float32
    assert tf.convert_to_tensor([1.5, 2.0], dtype_hint="int32").dtype == np.float64  # a half would be lost
    assert tf.convert_to_tensor(np.ones(2), dtype_hint="float32").dtype == np.float64
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.convert_to_tensor([v, x[1], 4.0], name="y")
    gx, gv = tape.gradient(y, [x, v])
    assert np.array_equal(gx, [0.0, 1.0]) and float(gv) == 1.0
    assert tf.convert_to_tensor(np.ones(2), dtype="float32").dtype == np.float32
    for value in (x, v):
        with pytest.raises(ValueError, match=r"convert_to_tensor: dtype float32 for a .* of dtype float64; .*cast"):
            tf.convert_to_tensor(value, dtype="float32")
    with pytest.raises(TypeError, match="no Tensor can be made"):
        tf.convert_to_tensor("text")


def test_a_constant_is_filled_or_reshaped_to_a_shape() -> None:
    assert np.array_equal(tf.constant(2.0, shape=[2, 2]), [[2.0, 2.0], [2.0, 2.0]])
    assert np.array_equal(tf.constant([1, 2, 3, 4], dtype=tf.float32, shape=(2, 2)), [[1.0, 2.0], [3.0, 4.0]])


def test_specs_compare_shapes_and_dtypes() -> None:
    spec = tf.TensorSpec([None, 3], tf.float32, name="x")
    assert (spec.shape, spec.dtype, spec.name) == ((None, 3), np.float32, "x")
    assert repr(spec) == "TensorSpec(shape=(None, 3), dtype=float32, name='x')"
    assert spec == tf.TensorSpec((None, 3), "float32", "x") != tf.TensorSpec((None, 3), "float32")
    assert spec in {pickle.loads(pickle.dumps(spec))} and spec != 3
    assert spec.is_compatible_with(np.ones((2, 3), np.float32))
    assert spec.is_compatible_with(tf.TensorSpec((5, None), "float32"))
    assert spec.is_compatible_with(tf.TensorSpec(None, "float32")) and tf.TensorSpec(None).is_compatible_with(1.0)
    for other in (np.ones((2, 3)), np.ones((2, 2), np.float32), np.ones(3, np.float32)):
        assert not spec.is_compatible_with(other)
    v = tf.Variable([1.0], name="v")
    assert tf.TensorSpec.from_tensor(v) == tf.TensorSpec((1,), "float64", "v")
    assert tf.TensorSpec.from_tensor(2.0, name="c") == tf.TensorSpec((), "float64", "c")
    assert tf.TensorSpec(3).shape == (3,)
    with pytest.raises(ValueError, match=r"a length in .* is negative"):
        tf.TensorSpec((-1, 3))
    assert tf.TensorSpec([np.int64(2)]).shape == (2,)
