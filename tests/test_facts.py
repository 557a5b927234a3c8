"""The ten facts that the core stands on, each with a test that fails when the fact is broken.

The docstring of a test says what breaking its fact looks like: each was broken on purpose once.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import copy_context
from itertools import count
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.extend import operation

NAMES = count()


def spy(name: str, seen: list[Any]) -> Any:
    """x * y, whose reverse rules note which operand they are for, the cotangent, and the other operand."""

    def left(g: Any, y: Any) -> Any:
        seen.append(("x", g, y))
        return g * y

    def right(g: Any, x: Any) -> Any:
        seen.append(("y", g, x))
        return g * x

    return operation(
        lambda x, y: x * y,
        jvp=(lambda t, y: t * y, lambda t, x: x * t),
        vjp=(left, right),
        name=f"{name}_{next(NAMES)}",
    )


def test_1_an_operation_is_served_to_the_outermost_recorder_first() -> None:
    """Innermost first: the outer recorders do not know exp's result when its rule reads it, and exp'' is 0 or None."""
    x = dt.constant(0.3)
    with dt.ForwardAccumulator(x, 1.0) as outer, dt.ForwardAccumulator(x, 1.0) as inner:
        y = np.exp(x)
    assert float(outer.jvp(inner.jvp(y))) == pytest.approx(np.exp(0.3), rel=1e-15)
    with dt.GradientTape() as tape:
        tape.watch(x)
        with dt.ForwardAccumulator(x, 1.0) as acc:
            y = np.exp(x)
        slope = acc.jvp(y)
    assert float(tape.gradient(slope, x)) == pytest.approx(np.exp(0.3), rel=1e-15)


def test_2_a_rule_runs_under_the_recorders_outside_its_own_only() -> None:
    """Under the full stack: perturbations are confused (2 instead of 1), and inner recorders see outer tangents."""
    inner_slope = lambda x: dt.jvp(lambda y: x + y, (1.0,), (1.0,))[1]  # noqa: E731
    assert float(dt.jvp(lambda x: x * inner_slope(x), (1.0,), (1.0,))[1]) == 1.0
    x = dt.constant(3.0)
    with dt.ForwardAccumulator(x, 1.0) as outer, dt.ForwardAccumulator(x, 1.0) as inner:
        y = x * x * x
    assert inner.jvp(outer.jvp(y)) is None
    assert float(outer.jvp(inner.jvp(y))) == 18.0
    with dt.ForwardAccumulator(x, 1.0) as acc, dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        recorded = len(tape)
    assert recorded == 2
    assert tape.gradient(acc.jvp(y), x) is None


def test_3_gradient_runs_its_rules_under_what_is_active_when_it_is_called() -> None:
    """Always raw: second derivatives are None. Always Tensors: every first-order sweep pays for recording."""
    seen: list[Any] = []
    product = spy("product", seen)
    x = dt.constant([1.0, 2.0])

    def given(surroundings: Any) -> tuple[type, type]:
        seen.clear()
        with dt.GradientTape() as tape:
            tape.watch(x)
            y = product(x, x)
        with surroundings:
            if isinstance(surroundings, dt.GradientTape):
                surroundings.watch(x)
            g = tape.gradient(y, x)
        return type(seen[0][2]), type(g)

    assert given(nullcontext()) == (np.ndarray, dt.Tensor)
    assert given(dt.GradientTape()) == (dt.Tensor, dt.Tensor)
    assert given(dt.ForwardAccumulator(x, np.ones(2))) == (dt.Tensor, dt.Tensor)
    with dt.GradientTape() as paused:
        paused.watch(x)
        assert given(paused.stop_recording()) == (np.ndarray, dt.Tensor)
        assert given(dt.stop_recording()) == (np.ndarray, dt.Tensor)
    assert given(nullcontext()) == (np.ndarray, dt.Tensor)

    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x**3
    with dt.ForwardAccumulator(x, np.ones(2)) as acc:
        g = tape.gradient(y, x)
    assert np.array_equal(acc.jvp(g), [6.0, 12.0])


def test_4_an_identity_is_never_used_again() -> None:
    """With id(object): a Tensor born where a watched one died counts as watched, and entries overwrite each other."""
    with dt.GradientTape(persistent=True) as tape:
        tape.watch([dt.constant(1.0) for _ in range(2000)])
        born_later = [dt.constant(2.0) for _ in range(2000)]
        y = sum(x * x for x in born_later)
    assert tape.gradient(y, born_later) == [None] * 2000


def test_4_a_node_never_changes() -> None:
    """Writing into the node: the tape's own operand changes under it, and the gradient is 20 instead of 4."""
    x = dt.constant([1.0, 2.0])
    first = dt.constant([1.0, 2.0])
    with dt.GradientTape() as tape:
        tape.watch(first)
        x = first + 0.0
        y = x * x
        x[1] = 10.0
    assert np.array_equal(tape.gradient(y, first), [2.0, 4.0])
    v = dt.Variable(2.0)
    with dt.GradientTape() as tape:
        y = v * v
        v.assign(10.0)
    assert float(tape.gradient(y, v)) == 4.0


def test_4_tangents_die_with_their_node() -> None:
    """A dictionary of tangents by identity: forward mode keeps one array for each operation done."""
    x = dt.constant(np.ones(10))
    with dt.ForwardAccumulator(x, np.ones(10)) as acc:
        y = x * 2.0
        tangent = weakref.ref(acc.jvp(y)._node.value)
        y = y * 2.0
        assert tangent() is None
    assert acc.jvp(y) is not None


def test_5_a_tape_owns_its_entries() -> None:
    """Results that own the graph: a stored loss keeps every intermediate array alive after the tape is gone."""
    gc.disable()
    try:
        x = dt.constant(np.ones(10))
        with dt.GradientTape() as tape:
            tape.watch(x)
            h = np.exp(x)
            loss = np.sum(h * h)
        kept = weakref.ref(h._node.value)
        del h
        assert kept() is not None
        del tape
        assert kept() is None
        assert float(loss) == pytest.approx(10 * np.exp(2.0))
    finally:
        gc.enable()


def test_5_a_tape_can_be_differentiated_later_under_a_recorder_that_did_not_exist() -> None:
    """Entries that keep arrays instead of nodes: the accumulator finds no tangent of x, and the result is None."""
    x = dt.constant(0.5)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x**3
    with dt.GradientTape() as later:
        later.watch(x)
        g = tape.gradient(y, x)
    assert float(later.gradient(g, x)) == pytest.approx(3.0)


def test_5_a_closed_recorder_never_records_again() -> None:
    """ContextVar.reset: leaving the outer generator brings the inner tape back, and it records for ever."""
    x = dt.constant(3.0)

    def recording(tape: dt.GradientTape) -> Iterator[None]:
        with tape:
            tape.watch(x)
            yield

    outer, inner = dt.GradientTape(persistent=True), dt.GradientTape(persistent=True)
    first, second = recording(outer), recording(inner)
    next(first)
    next(second)
    first.close()  # out of order: the outer one goes first
    y = x * x
    second.close()
    z = x * x
    assert outer.gradient(y, x) is None
    assert float(inner.gradient(y, x)) == 6.0
    assert outer.gradient(z, x) is None and inner.gradient(z, x) is None

    tape = dt.GradientTape(persistent=True)
    with pytest.raises(ZeroDivisionError), tape:
        tape.watch(x)
        raise ZeroDivisionError
    assert tape.gradient(x * x, x) is None

    elsewhere = recording(tape)
    copy_context().run(next, elsewhere)  # entered in one context, closed in another
    elsewhere.close()
    assert tape.gradient(x * x, x) is None


def test_5_a_plain_thread_loses_nothing() -> None:
    """Nobody stands for the recorders of other threads: what they follow has no derivative in a pool."""
    x = dt.constant(3.0)
    found: list[Any] = []
    with dt.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: found.append(x * x))
        thread.start()
        thread.join()
        copied = copy_context().run(lambda: x * x)
    assert float(tape.gradient(found[0], x)) == 6.0
    with dt.GradientTape() as tape:
        tape.watch(x)
        copied = copy_context().run(lambda: x * x)
    assert float(tape.gradient(copied, x)) == 6.0


def test_6_absent_means_zero_and_costs_nothing() -> None:
    """Cotangents for everything: the rule of an operand that is constant, or that nobody asks about, runs as well."""
    seen: list[Any] = []
    product = spy("product", seen)
    data, w, unasked = np.ones(3), dt.constant([1.0, 2.0, 3.0]), dt.constant([1.0, 1.0, 1.0])
    with dt.GradientTape() as tape:
        tape.watch([w, unasked])
        y = product(data, w) + product(unasked, w)
    tape.gradient(y, w)
    assert [operand for operand, *_ in seen] == ["y", "y"]
    with dt.GradientTape() as tape:
        tape.watch(w)
        y = dt.constant(1.0) * dt.constant(2.0)
    assert tape.gradient(y, w) is None
    with dt.ForwardAccumulator(w, np.ones(3)) as acc:
        y = product(data, unasked)
    assert acc.jvp(y) is None


@pytest.mark.parametrize(
    ("f", "arrays"),
    [
        (lambda x: x + 1, 0),
        (lambda x: np.sum(x), 0),
        (lambda x: np.reshape(x, (10, 10)), 0),
        (lambda x: np.exp(x), 1),
        (lambda x: np.sin(x), 1),
        (lambda x: 2.0 * x, 0),
        (lambda x: np.exp(x + 1), 1),
        (lambda x: x * np.tanh(x), 2),  # x and the result, each of them once
    ],
)
def test_7_a_tape_keeps_what_the_rules_name(f: Callable[[Any], Any], arrays: int) -> None:
    """Keeping all operands and results: x + 1 keeps 1600 bytes instead of none."""
    x = dt.constant(np.linspace(0.0, 1.0, 100))
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.nbytes == 800 * arrays
    assert tape.gradient(y, x).shape == (100,)


def test_8_walks_are_loops() -> None:
    """Recursion: RecursionError after a thousand operations, in either mode or when the tape is let go of."""
    x = dt.constant(1.0)
    with dt.ForwardAccumulator(x, 1.0) as acc, dt.GradientTape(persistent=True) as tape:
        tape.watch([x])
        y = x
        for _ in range(20_000):
            y = y + 1.0
    assert float(tape.gradient(y, x)) == 1.0
    assert float(acc.jvp(y)) == 1.0
    assert tape.why(y, x) == "the target is connected with the source"
    del tape, y


@pytest.mark.parametrize(
    ("leave", "name"),
    [
        (np.asarray, "conversion to an array"),
        (lambda x: np.asarray(x, dtype=float), "conversion to an array"),
        (lambda x: float(np.sum(x)), r"float\(\)"),
        (lambda x: int(np.sum(x)), r"int\(\)"),
        (lambda x: complex(np.sum(x)), r"complex\(\)"),
        (lambda x: x.tolist(), r"tolist\(\)"),
        (lambda x: np.sum(x).item(), r"item\(\)"),
    ],
)
def test_9_no_derivative_is_lost_silently_by_converting(leave: Callable[[Any], Any], name: str) -> None:
    """Conversion always allowed: f(float(x)) gives the gradient None or 0, and nobody is told why."""
    x = dt.constant([1.0, 2.0])
    leave(x)
    for recorder in (dt.GradientTape(), dt.ForwardAccumulator(x, np.ones(2))):
        with recorder:
            if isinstance(recorder, dt.GradientTape):
                recorder.watch(x)
            with pytest.raises(TypeError, match=rf"{name} of a Tensor.*\.numpy\(\)"):
                leave(x)
            assert np.array_equal(x.numpy(), [1.0, 2.0])
    leave(x)


def test_9_a_function_without_a_row_raises_at_the_call() -> None:
    """Falling back to plain NumPy: the result of an unknown function is a constant."""
    x = dt.constant([1.0, 2.0])
    assert type(np.unwrap(x)) is np.ndarray  # NumPy's own: nobody follows x
    with dt.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(TypeError, match="has no row"):
            np.unwrap(x)
        with pytest.raises(TypeError, match=r"numpy\.\w*gcd has no row.*extend\.operation"):
            np.gcd(x, 2)


def test_9_what_has_no_derivative_says_so() -> None:
    """No memory of operations without derivative: why() can not say where the path was cut."""
    x = dt.constant([1.0, 2.0])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.floor(x * 2.0) * 3.0
    assert tape.gradient(y, x) is None
    assert "'floor'" in tape.why(y, x) and "test_facts.py" in tape.why(y, x)


def test_10_arrays_taken_in_are_never_changed_behind_anyones_back() -> None:
    """Keeping the caller's array: what is written into it later changes the gradient."""
    data = np.array([1.0, 2.0])
    x = dt.constant(data)
    weights = np.array([3.0, 4.0])
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x * weights) + np.sum(weights @ x)
    data[:] = 0.0
    weights[:] = 0.0
    assert np.array_equal(x, [1.0, 2.0])
    assert np.array_equal(tape.gradient(y, x), [6.0, 8.0])


def test_10_arrays_handed_out_are_read_only() -> None:
    """The value itself handed out: x.numpy()[0] = 9 changes x, and what every tape keeps of it."""
    x = dt.constant([1.0, 2.0])
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    for array in (x.numpy(), y.numpy(), np.asarray(x)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9.0
    np.array(x)[0] = 9.0  # a copy is the caller's own
    assert np.array_equal(tape.gradient(y, x), [2.0, 4.0])


def test_10_a_tensor_is_never_written_into_an_array() -> None:
    """Conversion on the way: the derivative of what was written is lost."""
    x = dt.constant(2.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        array = np.zeros(3)
        with pytest.raises((TypeError, ValueError)):
            array[0] = x
        with pytest.raises((TypeError, ValueError)):
            array[:2] = np.stack([x, x])
        for write in (
            lambda: array.__iadd__(x),
            lambda: np.multiply(x, x, out=array),
            lambda: np.add.at(array, [0], x),
        ):
            with pytest.raises(TypeError, match="zeros_like"):
                write()
    assert not array.any()
