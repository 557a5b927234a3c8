"""GradientTape: its surface, its errors, and what surprises people who meet it first.

Length: one class, all of its surface.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt


def close(found: Any, expected: Any) -> bool:
    return bool(np.allclose(found, expected, rtol=1e-14, atol=0))


# ------------------------------------------------------------------ sources, targets, structures
def test_a_target_that_is_a_source_gets_ones() -> None:
    x = dt.constant([2.0, 3.0])
    with dt.GradientTape(persistent=True) as tape:
        y = x * x
    assert np.array_equal(tape.gradient(x, x), [1.0, 1.0])  # not even watched
    assert tape.gradient(y, x) is None
    x = dt.constant(2.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient([x, y], x)) == 5.0
    assert [float(g) for g in tape.gradient([x, y], [x, y])] == [5.0, 1.0]


def test_a_source_that_was_itself_computed() -> None:
    x = dt.constant(2.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y + x
    assert [float(g) for g in tape.gradient(z, [x, y, z])] == [33.0, 8.0, 1.0]
    assert float(tape.gradient(z, y)) == 8.0


def test_several_targets_are_summed() -> None:
    x = dt.constant([1.0, 2.0])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = {"square": x * x, "double": (2 * x, [np.sum(x)])}
    assert np.array_equal(tape.gradient(y, x), [5.0, 7.0])
    assert np.array_equal(tape.gradient([x * x, x * x, y["square"], y["square"]], x), [4.0, 8.0])


def test_output_gradients_seed_each_target() -> None:
    x = dt.constant([1.0, 2.0])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = x * x, np.sum(x)
    assert np.array_equal(tape.gradient(y, x, output_gradients=np.array([10.0, 100.0])), [20.0, 400.0])
    assert np.array_equal(tape.gradient(y, x, output_gradients=[10.0, 100.0]), [20.0, 400.0])
    assert np.array_equal(tape.gradient(y, x, 10.0), [20.0, 40.0])  # broadcast
    assert np.array_equal(tape.gradient([y, z], x, [None, 5.0]), [7.0, 9.0])
    assert np.array_equal(tape.gradient([y, z], x, output_gradients=[dt.constant([1.0, 0.0]), 1]), [3.0, 1.0])
    with pytest.raises(ValueError, match=r"output_gradients has shape \(3,\), which does not broadcast to .* \(2,\)"):
        tape.gradient(y, x, np.ones(3))
    with pytest.raises(ValueError, match=r"output_gradients\[1\] has shape \(2,\)"):
        tape.gradient([y, z], x, [None, np.ones(2)])
    with pytest.raises(ValueError, match="output_gradients has 1 entries for 2 targets"):
        tape.gradient([y, z], x, [1.0])


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Model:
    weights: Any
    bias: Any


def test_structures_of_sources() -> None:
    a, b = dt.constant(2.0), dt.Variable(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch({"a": [a]})
        y = a * b
    assert [float(g) for g in tape.gradient(y, [a, b])] == [3.0, 2.0]
    assert isinstance(tape.gradient(y, (a, b)), tuple)
    found = tape.gradient(y, Pair(a, [b, None]))
    assert isinstance(found, Pair) and float(found.right[0]) == 2.0 and found.right[1] is None
    found = tape.gradient(y, Model({"w": a}, (b,)))
    assert isinstance(found, Model) and float(found.weights["w"]) == 3.0 and float(found.bias[0]) == 2.0
    assert tape.gradient(y, []) == []
    assert [float(g) for g in tape.gradient(y, [a, a])] == [3.0, 3.0]


def test_unconnected_gradients() -> None:
    x, y = dt.constant([1.0, 2.0], dtype="float32"), dt.constant(1.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = y * y
    assert tape.gradient(z, x) is None
    zero = tape.gradient(z, x, unconnected_gradients="zero")
    assert np.array_equal(zero, [0.0, 0.0]) and zero.dtype == np.float32
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients: 'zeros'; it is"):
        tape.gradient(z, x, unconnected_gradients="zeros")


def test_empty_shapes() -> None:
    x = dt.constant(np.ones((1, 0)))
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(x * x)
    assert tape.gradient(y, x).shape == (1, 0)


# ------------------------------------------------------------------ errors
def test_a_second_gradient_needs_a_persistent_tape() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match=r"A non-persistent GradientTape can only.*GradientTape\(persistent=True\)"):
        tape.gradient(y, x)


def test_misuse() -> None:
    x = dt.constant(3.0)
    tape = dt.GradientTape()
    with pytest.raises(RuntimeError, match=r"stop_recording\(\) needs a tape that is recording"):
        tape.stop_recording()
    with pytest.raises(ValueError, match=r"reset\(\) needs a tape that is recording"):
        tape.reset()
    with tape, pytest.raises(ValueError, match="already recording"):
        tape.__enter__()
    with pytest.raises(TypeError, match="needs a target, got None"):
        tape.gradient(None, x)
    with pytest.raises(TypeError, match="a source of a gradient is a Tensor or Variable, not ndarray"):
        dt.GradientTape().gradient(x, np.ones(3))
    with pytest.raises(TypeError, match="a source of a gradient is a Tensor or Variable, not float"):
        dt.GradientTape().gradient(x, [x, 2.0])


@pytest.mark.parametrize(("value", "kind"), [(np.ones(3), "ndarray"), (3.0, "float"), (2, "int"), ("x", "str")])
def test_only_what_has_an_identity_is_watched(value: Any, kind: str) -> None:
    with pytest.raises(ValueError, match=rf"cannot watch a {kind}.*dualtape\.constant\(value\)"):
        dt.GradientTape().watch(value)
    with pytest.raises(ValueError, match=rf"cannot watch a {kind}"):
        dt.GradientTape().watch([dt.constant(1.0), {"a": value}])


def test_watching_integers_warns() -> None:
    x = dt.constant([1, 2])
    with dt.GradientTape(persistent=True) as tape:
        with pytest.warns(RuntimeWarning, match="dtype int64: only floating and complex"):
            tape.watch(x)
        y = x * 2.0
    assert tape.gradient(y, x) is None
    assert "dtype int64" in tape.why(y, x)


def test_a_failed_gradient_of_another_kind_leaves_the_tape_usable() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(ValueError, match="unconnected_gradients"):
        tape.gradient(y, x, unconnected_gradients="nothing")
    with pytest.raises(TypeError, match="source"):
        tape.gradient(y, 3.0)
    assert float(tape.gradient(y, x)) == 6.0


# ------------------------------------------------------------------ what is recorded
def test_gradient_inside_the_context_stops_a_tape_that_is_not_persistent() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert float(tape.gradient(y, x)) == 6.0
        z = x * x
        assert len(tape) == 0
    assert float(z) == 9.0


def test_gradient_inside_the_context_of_a_persistent_tape_is_recorded() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        g = tape.gradient(y, x)
        z = x * g
    assert float(tape.gradient(g, x)) == 18.0
    assert float(tape.gradient(z, x)) == 81.0


def test_a_tape_may_be_entered_again() -> None:
    x = dt.constant(3.0)
    tape = dt.GradientTape(persistent=True)
    with tape:
        tape.watch(x)
        y = x * x
    lost = y * y
    with tape:
        z = y * x
    assert float(tape.gradient(z, x)) == 27.0
    assert tape.gradient(lost, x) is None
    assert len(tape) == 2


def test_watching_outside_the_context() -> None:
    x, v = dt.constant(3.0), dt.Variable(2.0)
    tape = dt.GradientTape(watch_accessed_variables=False)
    tape.watch([x, v])
    with tape:
        y = x * v
    assert tape.watched_variables() == (v,)
    assert [float(g) for g in tape.gradient(y, [x, v])] == [2.0, 3.0]


def test_watched_variables_are_in_the_order_of_creation() -> None:
    a, b, frozen, c = dt.Variable(1.0), dt.Variable(2.0), dt.Variable(3.0, trainable=False), dt.Variable(4.0)
    with dt.GradientTape() as tape:
        y = c * frozen * b
        a.assign(5.0)
    assert tape.watched_variables() == (a, b, c)
    assert float(tape.gradient(y, c)) == 6.0
    assert tape.watched_variables() == (a, b, c)
    for access in (a.numpy, a.value, a.read_value, lambda: a + 1, lambda: a.assign_sub(1)):
        with dt.GradientTape() as tape:
            access()
        assert tape.watched_variables() == (a,)
    with dt.GradientTape(watch_accessed_variables=False) as tape:
        y = a * frozen
        tape.watch(frozen)
        z = a * frozen
    assert tape.watched_variables() == (frozen,)
    assert float(tape.gradient([y, z], frozen)) == float(a)


def test_assignment_is_not_differentiated() -> None:
    v, w = dt.Variable(3.0), dt.Variable(2.0)
    with dt.GradientTape(persistent=True) as tape:
        before = v * v
        v.assign(w * w)
        after = v * v
    assert float(tape.gradient(before, v)) == 6.0  # by the value it was read with
    assert float(tape.gradient(after, v)) == 8.0
    assert tape.gradient(after, w) is None
    assert float(tape.gradient([before, after], v)) == 14.0


def test_a_tape_can_be_paused() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as one, dt.GradientTape(persistent=True) as two:
        one.watch(x)
        two.watch(x)
        with one.stop_recording():
            y = x * x
            with two.stop_recording():
                z = x * x
            with pytest.raises(ValueError, match="already recording"):
                one.__enter__()
        with dt.stop_recording():
            u = x * x
        w = x * x
    found = [[tape.gradient(t, x) is not None for t in (y, z, u, w)] for tape in (one, two)]
    assert found == [[False, False, False, True], [True, False, False, True]]


def test_a_pause_ends_with_an_exception_or_with_the_tape() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with pytest.raises(ZeroDivisionError), tape.stop_recording():
            raise ZeroDivisionError
        y = x * x
        paused = tape.stop_recording()
        paused.__enter__()
    paused.__exit__(None, None, None)  # the tape was left meanwhile, and stays so
    z = x * x
    assert float(tape.gradient(y, x)) == 6.0
    assert tape.gradient(z, x) is None


def test_a_recorder_entered_in_a_pause_stays_when_the_pause_ends() -> None:
    x = dt.constant(3.0)
    inner = dt.GradientTape()
    with dt.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            inner.__enter__()
            inner.watch(x)
        y = x * x
        inner.__exit__(None, None, None)
    assert float(inner.gradient(y, x)) == 6.0
    assert float(tape.gradient(y, x)) == 6.0


def test_reset_forgets_everything() -> None:
    x, v = dt.constant(3.0), dt.Variable(2.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * v
        assert len(tape) == 1
        tape.reset()
        assert len(tape) == 0 and tape.watched_variables() == ()
        z = x * x
        tape.watch(x)
        u = x * x * x
    assert tape.gradient([y, z, u], x, unconnected_gradients="zero").numpy() == 27.0


def test_what_happens_in_place() -> None:
    x = dt.constant([1.0, 2.0, 3.0])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z, kept = y, y.copy()
        y += x
        y[0] = 10 * x[1]
    assert z is y  # as in NumPy: one object with two names
    assert np.array_equal(tape.gradient(y, x), [0.0, 15.0, 7.0])
    assert np.array_equal(kept, [1.0, 4.0, 9.0])
    assert np.array_equal(tape.gradient(kept, x), [2.0, 4.0, 6.0])


# ------------------------------------------------------------------ no derivative, and why
@pytest.mark.parametrize("rounding", [np.round, np.floor, np.ceil, np.rint, np.trunc, np.fix, dt.round])
def test_rounding_cuts(rounding: Callable[[Any], Any]) -> None:
    x = dt.constant([1.4, 2.6])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = rounding(x) * 2.0
    assert tape.gradient(y, x) is None
    assert np.array_equal(tape.gradient(y, x, unconnected_gradients="zero"), [0.0, 0.0])


def test_sign_has_a_true_zero() -> None:
    x = dt.constant([-1.0, 2.0])
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = np.sign(x)
    assert np.array_equal(tape.gradient(y, x), [0.0, 0.0])


def test_integers_cut() -> None:
    x = dt.constant(3.7)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x.astype(int).astype(float) * 2.0
        z = x > 3.0
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x) is None


def test_why() -> None:
    x, v = dt.constant([1.5, 2.5]), dt.Variable(2.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        good = x * v
        rounded = np.floor(x) + 1.0
    assert tape.why(good, x) == "the target is connected with the source"
    assert "'floor' at " in tape.why(rounded, x) and "test_tape.py:" in tape.why(rounded, x)
    assert "was not watched" in tape.why(good, dt.constant(1.0))
    assert "make it a Tensor" in tape.why(good, 3.0)
    assert "not a Tensor" in tape.why(3.0, x)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = np.floor(x)
    assert "'floor'" in tape.why(y, x)
    tape.gradient(y, x)
    assert "let go" in tape.why(y, x)
    with dt.GradientTape() as tape:
        tape.watch(x)
        with tape.stop_recording():
            unseen = x * 2.0
        other = np.exp(v)
    assert "computed outside the tape, or paused?" in tape.why(unseen, x)
    assert "does not depend on the source" in tape.why(other, x)


# ------------------------------------------------------------------ what a tape holds
def test_length_and_bytes() -> None:
    x = dt.constant(np.ones(100))
    with dt.GradientTape() as tape:
        tape.watch(x)
        assert (len(tape), tape.nbytes, bool(tape)) == (0, 0, True)
        y = np.exp(x)
        assert (len(tape), tape.nbytes) == (1, 800)
        y = y + 1
        y = y * 3.0
        assert (len(tape), tape.nbytes) == (3, 800)
        y = y[:10] * y[10:20]  # two views of one buffer, each keeping it alive
        assert (len(tape), tape.nbytes) == (6, 1600)
    tape.gradient(y, x)
    assert (len(tape), tape.nbytes) == (0, 0)


def test_only_what_depends_on_the_watched_is_recorded() -> None:
    x, c = dt.constant(1.0), dt.constant(2.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        c * c + np.exp(c)
    assert len(tape) == 0


# ------------------------------------------------------------------ leaving in every way
def test_exits_out_of_order() -> None:
    x = dt.constant(3.0)
    outer, inner = dt.GradientTape(persistent=True), dt.GradientTape(persistent=True)
    outer.__enter__()
    inner.__enter__()
    outer.watch(x)
    inner.watch(x)
    outer.__exit__(None, None, None)
    y = x * x
    inner.__exit__(None, None, None)
    z = x * x
    assert outer.gradient(y, x) is None
    assert float(inner.gradient(y, x)) == 6.0
    assert inner.gradient(z, x) is None


def test_an_exception_leaves_the_tape() -> None:
    x = dt.constant(3.0)
    tape = dt.GradientTape(persistent=True)
    with pytest.raises(ZeroDivisionError), tape:
        tape.watch(x)
        y = x * x
        raise ZeroDivisionError
    z = x * x
    assert float(tape.gradient(y, x)) == 6.0
    assert tape.gradient(z, x) is None


def test_a_generator_closed_half_way() -> None:
    x = dt.constant(3.0)
    tape = dt.GradientTape(persistent=True)

    def steps() -> Iterator[Any]:
        with tape:
            tape.watch(x)
            y = x
            while True:
                y = y * x
                yield y

    generator = steps()
    next(generator)
    y = next(generator)
    seen = x * x  # between the steps the tape is still active
    generator.close()
    unseen = x * x
    assert float(tape.gradient(y, x)) == 27.0
    assert float(tape.gradient(seen, x)) == 6.0
    assert tape.gradient(unseen, x) is None


def test_a_generator_closed_elsewhere() -> None:
    x = dt.constant(3.0)
    tape = dt.GradientTape(persistent=True)

    def steps() -> Iterator[Any]:
        with tape:
            tape.watch(x)
            yield x * x

    generator = steps()
    y = next(generator)
    thread = threading.Thread(target=generator.close)
    thread.start()
    thread.join()
    assert tape.gradient(x * x, x) is None
    assert float(tape.gradient(y, x)) == 6.0
    with dt.GradientTape() as other:
        other.watch(x)
        z = x * x
    assert float(other.gradient(z, x)) == 6.0


# ------------------------------------------------------------------ threads and tasks
def test_another_thread_loses_no_derivative() -> None:
    x = dt.constant(3.0)
    found: dict[str, Any] = {}

    def work() -> None:
        found["y"] = x * x
        with dt.GradientTape() as own:
            own.watch(x)
            z = x * x * x
        found["g"] = own.gradient(z, x)

    with dt.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert float(found["g"]) == 27.0
    assert float(tape.gradient([found["y"], found["g"]], x)) == 6.0 + 18.0  # 2 x, and of 3 x^2, 6 x


def test_threads_do_not_disturb_each_other() -> None:
    wrong: list[Any] = []
    gate = threading.Barrier(4)

    def work(k: int) -> None:
        gate.wait()
        for n in range(50):
            x = dt.constant(float(k + n))
            with dt.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            if float(tape.gradient(y, x)) != 2.0 * (k + n):
                wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tasks_carry_the_block_they_were_started_in() -> None:
    x = dt.constant(3.0)

    async def square(delay: int) -> Any:
        for _ in range(delay):
            await asyncio.sleep(0)
        return x * x

    async def own_tape(n: int) -> float:
        with dt.GradientTape() as tape:
            tape.watch(x)
            await asyncio.sleep(0)
            y = x**n
            await asyncio.sleep(0)
        return float(tape.gradient(y, x).numpy())

    async def program() -> None:
        outside = asyncio.create_task(square(5))
        with dt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            inside = asyncio.create_task(square(0))
            y = await inside
            slopes = await asyncio.gather(own_tape(2), own_tape(3), own_tape(4))
        assert slopes == [6.0, 27.0, 108.0]
        assert float(tape.gradient(y, x)) == 6.0
        # What a task that was started before did to x meanwhile has not lost its derivative.
        assert float(tape.gradient(await outside, x)) == 6.0

    asyncio.run(program())


def test_a_task_that_outlives_the_block_is_not_recorded() -> None:
    x = dt.constant(3.0)

    async def late(event: asyncio.Event) -> Any:
        await event.wait()
        return x * x

    async def program() -> None:
        event = asyncio.Event()
        with dt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            task = asyncio.create_task(late(event))
            await asyncio.sleep(0)
        event.set()
        assert tape.gradient(await task, x) is None

    asyncio.run(program())


def test_a_copied_context_carries_the_block() -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        context = contextvars.copy_context()
        y = context.run(lambda: x * x)
    z = context.run(lambda: x * x)  # the copy still holds the tape, which is closed
    assert float(tape.gradient(y, x)) == 6.0
    assert tape.gradient(z, x) is None


# ------------------------------------------------------------------ complex numbers, dtypes, Tensors as values
def test_complex_gradients_are_conjugated() -> None:
    z = dt.constant(1.0 + 2.0j)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(z)
        w = z * z
        a = np.abs(z)
    assert complex(tape.gradient(w, z)) == np.conj(2 * (1 + 2j))
    assert close(tape.gradient(a, z), (1 + 2j) / np.sqrt(5))
    x = dt.constant(3.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        w = x * (1 + 2j)
    g = tape.gradient(w, x)
    assert g.dtype == np.float64 and float(g) == 1.0


def test_dtypes_of_gradients_are_those_of_their_sources() -> None:
    x, y = dt.constant([1.0, 2.0], dtype="float32"), dt.constant([1.0, 2.0])
    with dt.GradientTape() as tape:
        tape.watch([x, y])
        z = x * y
    assert [g.dtype for g in tape.gradient(z, [x, y])] == [np.float32, np.float64]


def test_tensors_are_not_hashable_and_compare_elementwise() -> None:
    x = dt.constant([1.0, 2.0])
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert np.array_equal(x == dt.constant([1.0, 3.0]), [True, False])
    assert {x.ref(): 1}[x.ref()] == 1
    assert x.ref().deref() is x
    assert x.ref() != dt.constant([1.0, 2.0]).ref()
