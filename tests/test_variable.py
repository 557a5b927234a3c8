"""Variable: its surface, and what a reading of it is to the recorders."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import dualtape as tf


# ------------------------------------------------------------------ surface
def test_a_variable_has_tensorflows_surface() -> None:
    v = tf.Variable(initial_value=lambda: [1, 2], trainable=False, name="v", dtype="float32", shape=(None,))
    assert (v.name, v.trainable, v.dtype, v.shape) == ("v", False, np.float32, (2,))
    before = v.value()
    assert v.assign([5.0, 6.0, 7.0]) is v and v.shape == (3,)
    assert np.array_equal(before, [1.0, 2.0]) and np.array_equal(v.read_value(), [5.0, 6.0, 7.0])
    assert v.assign_add([1.0, 1.0, 1.0]) is v and v.assign_sub(np.full(3, 2.0)) is v
    assert np.array_equal(v.numpy(), [4.0, 5.0, 6.0]) and v.numpy().dtype == np.float32
    with pytest.raises(ValueError, match="cannot be assigned to 'v'"):
        v.assign([[1.0]])
    with pytest.raises(TypeError, match="complex128 cannot be assigned to 'v' of dtype float32"):
        v.assign(np.ones(3) * 1j)
    assert np.array_equal(v, [4.0, 5.0, 6.0])


def test_a_custom_function_that_would_lose_a_variable_names_it() -> None:
    v = tf.Variable(2.0, trainable=False, name="scale")
    by_gradient = tf.custom_gradient(lambda x: (x * v, lambda g: g * v))
    by_vjp = tf.custom_vjp(lambda x: x * v)
    by_vjp.defvjp(lambda x: (x * v, None), lambda kept, g: (g * v,))
    for f in (by_gradient, by_vjp):
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)  # nobody follows the Variable
        assert float(tape.gradient(y, x)) == 2.0
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            with pytest.raises(TypeError, match=r"uses the Variable 'scale' \(\) from outside .* make it an argument"):
                f(x)


def test_variables_are_not_hashable_and_compare_elementwise() -> None:
    v = tf.Variable([1.0, 2.0])
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)
    assert np.array_equal(v == [1.0, 3.0], [True, False])
    assert {v.ref(): "v"}[v.ref()] == "v" and v.ref().deref() is v


def test_the_gradient_by_an_integer_variable_is_none_whether_it_was_watched_or_read() -> None:
    """Reading it was enough to get a number once."""
    v = tf.Variable(3)
    with tf.GradientTape(persistent=True) as tape:
        y = v * 2.0
    assert tape.gradient(y, v) is None and "dtype int64" in tape.why(y, v)
    assert tape.watched_variables() == (v,)
    with tf.GradientTape(persistent=True) as tape:
        with pytest.warns(RuntimeWarning, match="dtype int64"):
            tape.watch(v)
        y = v * 2.0
    assert tape.gradient(y, v) is None


# ------------------------------------------------------------------ reading a Variable
def test_a_value_read_before_an_assignment_is_a_constant_to_a_later_tape() -> None:
    """A proximal term: the last iterate stands still. All reads had the Variable's identity once, and this was 0."""
    w = tf.Variable(3.0)
    old = w.value()
    w.assign(5.0)
    with tf.GradientTape() as tape, tf.ForwardAccumulator(w, 1.0) as acc:
        loss = (w - old) ** 2
    assert float(tape.gradient(loss, w)) == 4.0 and float(acc.jvp(loss)) == 4.0


@pytest.mark.parametrize("read", [tf.Variable.value, tf.Variable.read_value, tf.convert_to_tensor, lambda v: v + 0.0])
def test_a_value_read_outside_or_in_a_pause_is_a_constant(read: Any) -> None:
    w = tf.Variable(3.0)
    before = read(w)
    with tf.GradientTape(persistent=True) as tape:
        with tape.stop_recording():
            paused = read(w)
        with tf.stop_recording():
            all_paused = read(w)
        y, z, u = w * before, w * paused, w * all_paused
    assert [float(tape.gradient(t, w)) for t in (y, z, u)] == [3.0, 3.0, 3.0]
    with tf.ForwardAccumulator(w, 1.0) as acc:
        y, z = w * before, w * read(w)
    assert (float(acc.jvp(y)), float(acc.jvp(z))) == (3.0, 6.0)


def test_each_reading_is_a_tensor_of_its_own() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        a, b = v.value(), tf.convert_to_tensor(v)
        v.assign(5.0)
        c = v.value()
        y = a * b * v + c
    assert [float(g) for g in tape.gradient(y, [a, b, c, v])] == [15.0, 15.0, 1.0, 40.0]
    assert float(tape.gradient(v, v)) == 1.0 and float(tape.gradient([v, y], v)) == 41.0
    assert len(tape) == 3  # readings are not counted


def test_a_value_that_is_watched_itself_is_not_the_variable() -> None:
    v = tf.Variable(3.0, trainable=False)
    r = v.value()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(r)
        y = r * r * v
    assert float(tape.gradient(y, r)) == 18.0 and tape.gradient(y, v) is None


def test_what_was_read_before_the_variable_was_watched_is_not_followed() -> None:
    v = tf.Variable(3.0)
    with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        y = v * v
        tape.watch(v)
        z = v * v
    assert tape.gradient(y, v) is None and float(tape.gradient(z, v)) == 6.0
    acc = tf.ForwardAccumulator(v, 1.0)
    with tape:
        y = v * v
        with acc:
            z = v * v
        u = v * v
    assert acc.jvp(y) is None and float(acc.jvp(z)) == 6.0 and acc.jvp(u) is None
    assert [float(tape.gradient(t, v)) for t in (y, z, u)] == [6.0, 6.0, 6.0]


def test_operations_share_a_reading_and_leave_nothing_behind() -> None:
    gc.collect()
    gc.disable()
    try:
        v = tf.Variable(np.ones(100))
        with tf.GradientTape() as tape:
            y = v * v
            for _ in range(10):
                y = y * v
        assert len(tape._entries) == 13  # the Variable, one reading of it, eleven products
        assert np.array_equal(tape.gradient(y, v), np.full(100, 12.0))
        gone = weakref.ref(v)
        del v, y, tape
        assert gone() is None
    finally:
        gc.enable()


def test_a_reading_is_shared_under_the_same_recorders_only() -> None:
    v, w = tf.Variable(3.0), tf.Variable(2.0)
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        y = v * w
        with outer.stop_recording():
            paused = v.real  # of a real Variable, what operations on it share
        z = y + paused * w
    assert float(outer.gradient(z, v)) == 2.0  # by y alone
    assert float(inner.gradient(z, v)) == 4.0


def test_a_variable_read_in_threads_is_followed_by_each_ones_own_tape() -> None:
    v = tf.Variable(3.0)
    found: list[float] = []

    def work(n: int) -> None:
        for _ in range(50):
            with tf.GradientTape() as tape:
                y = v**n
            found.append(float(tape.gradient(y, v)) / n)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
    with tf.GradientTape() as tape:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [1.0] * 50 + [3.0] * 50 + [9.0] * 50 and len(tape._entries) == 0
