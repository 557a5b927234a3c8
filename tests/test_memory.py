"""Long programs: time and memory grow linearly, forward mode's memory does not grow, and nothing is left behind."""

from __future__ import annotations

import gc
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from measuring import bytes_at_most, no_collector

import dualtape as dt

LONG = 200_000


def chain(x: Any, n: int) -> Any:
    for _ in range(n // 2):
        x = np.sin(x) * 1.0001
    return x


def reverse(n: int) -> Any:
    x = dt.constant(0.5)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = chain(x, n)
    return tape.gradient(y, x)


def forward(n: int) -> Any:
    return dt.jvp(lambda x: chain(x, n), (0.5,), (1.0,))[1]


def test_a_long_chain_in_both_modes() -> None:
    with no_collector():
        assert float(reverse(LONG)) == pytest.approx(float(forward(LONG)), rel=1e-9)


def slope(sizes: list[int], costs: list[float]) -> float:
    """The exponent of growth."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def test_memory_grows_linearly_in_reverse_mode() -> None:
    sizes = [2_000, 8_000, 32_000]
    reverse(10)
    found = [bytes_at_most(lambda n=n: reverse(n)) for n in sizes]  # type: ignore[misc]
    assert 0.9 < slope(sizes, found) < 1.1
    assert found[-1] / sizes[-1] < 1000  # bytes an operation, the values included


def test_memory_does_not_grow_in_forward_mode() -> None:
    forward(10)
    short, long = (bytes_at_most(lambda n=n: forward(n)) for n in (100, 10_000))  # type: ignore[misc]
    assert long < short + 2_000


@pytest.mark.parametrize("f", [reverse, forward])
def test_time_grows_linearly(f: Callable[[int], Any]) -> None:
    """Processor time, and of several attempts the best: a busy machine makes no program faster.

    The sizes stay within a core's own cache: what lies beyond, its neighbours slow down, the longest program most.
    """
    sizes = [1_000, 3_000, 9_000]
    f(1_000)
    best = [float("inf")] * len(sizes)
    with no_collector():
        for _ in range(100):
            for k, n in enumerate(sizes):
                start = time.process_time()
                f(n)
                best[k] = min(best[k], time.process_time() - start)
            if 0.9 < slope(sizes, best) < 1.1:
                return
    assert 0.9 < slope(sizes, best) < 1.1


def test_a_wide_program_too() -> None:
    """A sum over all earlier values: each node has a second reader, and the sweep still passes it once."""
    x = dt.constant(1.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = total = x
        for _ in range(20_000):
            y = y * 1.0
            total = total + y
    assert float(tape.gradient(total, x)) == 20_001.0


def test_elements_read_one_by_one() -> None:
    """Each reading once cost an array of the whole size, and a loop over all elements was quadratic."""

    def sweep(n: int) -> float:
        x = dt.constant(np.ones(n))
        with dt.GradientTape() as tape:
            tape.watch(x)
            total = dt.constant(0.0)
            for k in range(n):
                total = total + x[k] * 2.0
        start = time.perf_counter()
        g = tape.gradient(total, x)
        seconds = time.perf_counter() - start
        assert np.array_equal(g, np.full(n, 2.0))
        return seconds

    with no_collector():
        # four times the elements: 4 times the time, not 16
        assert any(sweep(60_000) < 8 * sweep(15_000) for _ in range(5))


# ------------------------------------------------------------------ nothing is left behind
def use(tape: dt.GradientTape, x: Any) -> None:
    with tape:
        tape.watch(x)
        y = np.sum(np.exp(x) * x)
    tape.gradient(y, x)


def abandon(tape: dt.GradientTape, x: Any) -> None:
    with tape:
        tape.watch(x)
        np.sum(np.exp(x) * x)


def fail(tape: dt.GradientTape, x: Any) -> None:
    try:
        with tape:
            tape.watch(x)
            np.exp(x) @ np.ones(7)
    except ValueError:
        pass


def nest(tape: dt.GradientTape, x: Any) -> None:
    with dt.ForwardAccumulator(x, x.numpy()) as acc, tape:
        tape.watch(x)
        y = np.sum(np.exp(x) * x)
        g = tape.gradient(y, x)
    acc.jvp(g)


def leave_open(tape: dt.GradientTape, x: Any) -> None:
    def steps() -> Iterator[Any]:
        with tape:
            tape.watch(x)
            yield np.exp(x)

    next(steps())  # the generator goes, and closes the tape


def transform(tape: dt.GradientTape, x: Any) -> None:
    dt.hvp(lambda x: np.sum(np.exp(x)), x, x)
    dt.checkpoint(np.exp)(x)
    dt.vjp(np.exp, x)[1](x)
    dt.linearize(np.exp, x)[1](x)


@pytest.mark.parametrize("what", [use, abandon, fail, nest, leave_open, transform])
@pytest.mark.parametrize("persistent", [False, True])
def test_many_tapes_leave_nothing_behind_without_the_collector(what: Any, persistent: bool) -> None:
    x = dt.constant(np.ones(100))
    times = 300

    def loop() -> None:
        for _ in range(times):
            what(dt.GradientTape(persistent=persistent), x)

    with no_collector():
        loop()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            loop()
            assert tracemalloc.get_traced_memory()[0] - before < 30 * times  # not one object a tape
        finally:
            tracemalloc.stop()
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert np.array_equal(tape.gradient(y, x), 2 * np.ones(100))


def test_ten_thousand_tapes() -> None:
    x = dt.constant(0.5)

    def loop() -> None:
        for _ in range(10_000):
            with dt.GradientTape() as tape:
                tape.watch(x)
                y = x * x
            tape.gradient(y, x)

    with no_collector():
        objects = len(gc.get_objects())
        loop()
        assert len(gc.get_objects()) - objects < 100


def test_a_primal_does_not_collect_the_tangents_of_accumulators_that_are_gone() -> None:
    """A Variable lives through a whole optimisation; each step's direction once stayed with it for ever."""
    v = dt.Variable(np.ones(100))
    with no_collector():
        for _ in range(3):
            with dt.ForwardAccumulator(v, np.ones(100)) as acc:
                y = v * v
            tangent = weakref.ref(acc.jvp(v)._node.value)
            v.assign(v * 0.5)
            assert tangent() is not None and np.array_equal(acc.jvp(v), np.ones(100))
            del acc, y
            assert tangent() is None
    assert not v._node.tangents


def test_a_sweep_lets_go_of_what_it_has_passed() -> None:
    """The peak of a sweep: without letting go, all cotangents and all values are there at the end."""
    n, size = 50, 20_000
    x = dt.constant(np.full(size, 0.5))

    def peak(persistent: bool) -> int:
        with dt.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = x
            for _ in range(n):
                y = np.exp(-y)
        return bytes_at_most(lambda: tape.gradient(y, x))

    assert peak(False) < 8 * size * 8
    with no_collector():
        with dt.GradientTape() as tape:
            tape.watch(x)
            h = np.exp(x)
            y = np.sum(np.exp(h))
        value = weakref.ref(h._node.value)
        del h
        tape.gradient(y, x)
        assert value() is None
        assert len(tape) == 0
        with dt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            h = np.exp(x)
            y = np.sum(np.exp(h))
        value = weakref.ref(h._node.value)
        del h
        tape.gradient(y, x)
        assert value() is not None and len(tape) == 3
        del tape
        assert value() is None


def test_an_exception_lets_go_when_it_is_handled() -> None:
    x = dt.constant(np.ones(100))
    with no_collector():
        values: list[Any] = []
        try:
            with dt.GradientTape() as tape:
                tape.watch(x)
                h = np.exp(x)
                values.append(weakref.ref(h._node.value))
                np.exp(h) @ np.ones(7)
        except ValueError:
            pass
        del tape, h
        assert values[0]() is None


def test_a_checkpointed_chain_needs_the_memory_of_its_pieces() -> None:
    """Chains of n in pieces of sqrt(n): n = 400, so 20 pieces of 20, and about 40 arrays instead of 400."""
    size = 5_000
    x = np.full(size, 0.5)

    def piece(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(x)
        return x

    def whole(step: Callable[..., Any]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for _ in range(20):
                x = step(x)
            return np.sum(x)

        return f

    plain, checkpointed = dt.grad(whole(piece)), dt.grad(whole(dt.checkpoint(piece)))
    assert bytes_at_most(lambda: plain(x)) > 400 * 8 * size
    assert bytes_at_most(lambda: checkpointed(x)) < 50 * 8 * size
    assert np.array_equal(plain(x), checkpointed(x))


def test_copies_of_large_arrays_use_memory_again() -> None:
    """A copy nobody holds gives its memory to the next; one that is held, or seen through a view, never does."""
    from dualtape.memory.reserve import copied

    a, b = np.zeros(20_000), np.ones(20_000)
    first = copied(a)
    place = first.ctypes.data
    view = first[5:]
    second = copied(b)
    assert second.ctypes.data != place and first.sum() == 0.0
    del first
    assert copied(b).ctypes.data != place and view.sum() == 0.0
    del view
    assert place in {copied(b).ctypes.data, copied(b).ctypes.data}
