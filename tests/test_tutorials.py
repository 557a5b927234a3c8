"""What the first pages of TensorFlow tutorials do runs as it stands, with the numbers printed there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as tf


@pytest.mark.parametrize(
    ("f", "slope"),
    [(lambda x: x * x, 6.0), (lambda x: x**2 + 2 * x, 8.0), (lambda x: x**2 + 2 * x + 1, 8.0)],
)
def test_the_first_gradient(f: Callable[[Any], Any], slope: float) -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = f(x)
    assert tape.gradient(y, x).numpy() == slope


def test_a_constant_is_watched_or_not() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient(y, x).numpy() == 6.0
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, x) is None


def test_two_variables() -> None:
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        z = tf.square(x) + tf.pow(y, 3)
    dx, dy = tape.gradient(z, [x, y])
    assert (dx.numpy(), dy.numpy()) == (4.0, 27.0)
    with tf.GradientTape() as tape:
        z = tf.square(x) + tf.pow(y, 3)
    g = tape.gradient(z, {"x": x, "y": y})
    assert (g["x"].numpy(), g["y"].numpy()) == (4.0, 27.0)


def test_only_some_are_watched() -> None:
    x0, x1, x2, x3 = (tf.Variable(v) for v in (2.0, 2.0, 3.0, 5.0))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([x0, x1, x2])
        y = x0**2 + x1**4 / 2 + x2**3 + x3**2
    gradients = tape.gradient(y, [x0, x1, x2, x3])
    assert [None if g is None else g.numpy() for g in gradients] == [4.0, 16.0, 27.0, None]
    assert tape.watched_variables() == (x0, x1, x2)


def test_what_is_not_a_trainable_variable_is_not_watched() -> None:
    x0 = tf.Variable(3.0, name="x0")
    x1 = tf.Variable(3.0, name="x1", trainable=False)
    x2 = tf.Variable(2.0, name="x2") + 1.0
    x3 = tf.constant(3.0)
    with tf.GradientTape() as tape:
        y = (x0**2) + (x1**2) + (x2**2)
    gradients = tape.gradient(y, [x0, x1, x2, x3])
    assert [None if g is None else g.numpy() for g in gradients] == [6.0, None, None, None]
    assert [v.name for v in tape.watched_variables()] == ["x0"]


def test_a_persistent_tape() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert tape.gradient(z, x).numpy() == 108.0
    assert tape.gradient(y, x).numpy() == 6.0
    del tape
    x = tf.constant([1.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert np.array_equal(tape.gradient(z, x), [4.0, 108.0])
    assert np.array_equal(tape.gradient(y, x), [2.0, 6.0])


def test_an_intermediate_result() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert tape.gradient(z, y).numpy() == 18.0


def test_control_flow_on_a_variable() -> None:
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = x**2 if x > 0 else 2 * x
    assert tape.gradient(y, x).numpy() == 4.0
    v0, v1 = tf.Variable(2.0), tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        result = v0 if x > 0.0 else v1**2
    dv0, dv1 = tape.gradient(result, [v0, v1])
    assert (dv0.numpy(), dv1) == (1.0, None)
    assert tape.gradient(result, x) is None


def test_through_an_integer() -> None:
    x = tf.Variable(3.5)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.cast(tf.cast(x, tf.int32), tf.float32) * 2.0
    assert tape.gradient(y, x) is None
    assert "'to_integer'" in tape.why(y, x)


def test_work_done_before_the_block() -> None:
    x = tf.Variable(2.0)
    y = x * x
    with tf.GradientTape() as tape:
        z = y * y
    assert tape.gradient(z, x) is None


def test_a_variable_replaced_by_a_tensor() -> None:
    x = tf.Variable(2.0)
    found = []
    for _ in range(2):
        with tf.GradientTape() as tape:
            y = x + 1
        found.append(tape.gradient(y, x))
        x = x + 1  # the mistake of the tutorial: should be x.assign_add(1)
    assert found[0].numpy() == 1.0
    assert found[1] is None


def test_state_stops_a_gradient() -> None:
    x0, x1 = tf.Variable(3.0), tf.Variable(0.0)
    with tf.GradientTape() as tape:
        x1.assign_add(x0)
        y = x1**2
    assert tape.gradient(y, x0) is None


def test_zeros_instead_of_none() -> None:
    x, y = tf.Variable([2.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        z = y**2
    assert np.array_equal(tape.gradient(z, x, unconnected_gradients="zero"), [0.0, 0.0])


def test_recording_is_stopped_for_a_while() -> None:
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        x_sq = x * x
        with tape.stop_recording():
            y_sq = y * y
        z = x_sq + y_sq
    grad = tape.gradient(z, {"x": x, "y": y})
    assert grad["x"].numpy() == 4.0
    assert grad["y"] is None
    with tf.GradientTape() as tape:
        z = x**2 + tf.stop_gradient(y) ** 2
    grad = tape.gradient(z, {"x": x, "y": y})
    assert (grad["x"].numpy(), grad["y"]) == (4.0, None)


def test_start_again() -> None:
    x, y = tf.Variable(2.0), tf.Variable(3.0)
    started = False
    with tf.GradientTape() as tape:
        y_sq = y * y
        if not started:
            tape.reset()
        z = x * x + y_sq
    grad = tape.gradient(z, {"x": x, "y": y})
    assert (grad["x"].numpy(), grad["y"]) == (4.0, None)


def test_higher_orders() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = x * x * x
        dy_dx = inner.gradient(y, x)
    assert dy_dx.numpy() == 3.0
    assert outer.gradient(dy_dx, x).numpy() == 6.0


def test_a_layer_and_its_parameters() -> None:
    w = tf.Variable(np.ones((3, 2)), name="w")
    b = tf.Variable(tf.zeros(2), name="b")
    x = [[1.0, 2.0, 3.0]]
    with tf.GradientTape(persistent=True) as tape:
        y = x @ w + b
        loss = tf.mean(y**2)
    dw, db = tape.gradient(loss, [w, b])
    assert dw.shape == w.shape
    assert np.array_equal(dw, [[6.0, 6.0], [12.0, 12.0], [18.0, 18.0]])
    assert np.array_equal(db, [6.0, 6.0])


def test_forward_mode() -> None:
    x = tf.constant([[2.0, 3.0], [1.0, 4.0]])
    dense = tf.constant([[1.0], [-1.0]])
    with tf.ForwardAccumulator(primals=dense, tangents=tf.constant([[1.0], [0.0]])) as acc:
        loss = tf.sum((x @ dense - tf.constant([[1.0], [-1.0]])) ** 2.0)
    # residuals (2 - 3 - 1, 1 - 4 + 1) = (-2, -2), by the first column of x
    assert acc.jvp(loss).numpy() == 2 * (-2.0 * 2.0 - 2.0 * 1.0)
    v = tf.Variable(1.5)
    with tf.ForwardAccumulator(v, tf.constant(2.0)) as acc:
        y = v * v
    assert acc.jvp(y).numpy() == 6.0
