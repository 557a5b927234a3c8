"""Threads and processes: what a live recorder follows is recorded in every thread, or leaves it with an error.

Right values by hand, or those of the same program without a pool.
"""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core import recorders

X = np.array([1.5, 2.5, 3.25])


def sq(x: Any) -> Any:
    return x * x


class Threads:
    """``map`` by a plain thread each."""

    def map(self, f: Callable[[Any], Any], items: Any) -> list[Any]:
        found: list[Any] = [None] * len(items)

        def work(k: int) -> None:
            try:
                found[k] = f(items[k])
            except Exception as error:
                found[k] = error

        threads = [threading.Thread(target=work, args=(k,)) for k in range(len(items))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for value in found:
            if isinstance(value, Exception):
                raise value
        return found


class Tasks:
    """``map`` by asyncio's threads, which carry the context along, as tasks do."""

    def map(self, f: Callable[[Any], Any], items: Any) -> list[Any]:
        async def run() -> list[Any]:
            return list(await asyncio.gather(*[asyncio.to_thread(f, item) for item in items]))

        return asyncio.run(run())


class Contexts:
    """``map`` in contexts of their own, in this very thread."""

    def map(self, f: Callable[[Any], Any], items: Any) -> list[Any]:
        return [contextvars.Context().run(f, item) for item in items]


@contextmanager
def joblib_threads() -> Iterator[Any]:
    joblib = pytest.importorskip("joblib")

    class Pool:
        def map(self, f: Callable[[Any], Any], items: Any) -> Any:
            return joblib.Parallel(2, prefer="threads")(joblib.delayed(f)(item) for item in items)

    yield Pool()


@contextmanager
def used_before() -> Iterator[Any]:
    """A pool whose threads had blocks of their own before."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(dt.grad(lambda x: x**3), [1.0, 2.0, 3.0]))
        list(pool.map(lambda x: dt.jvp(sq, (x,), (1.0,)), [1.0, 2.0]))
        yield pool


@contextmanager
def plain(kind: Any) -> Iterator[Any]:
    yield kind()


POOLS: dict[str, Callable[[], Any]] = {
    "ThreadPoolExecutor": lambda: ThreadPoolExecutor(2),
    "ThreadPool": lambda: ThreadPool(2),
    "threads": lambda: plain(Threads),
    "tasks": lambda: plain(Tasks),
    "contexts": lambda: plain(Contexts),
    "joblib": joblib_threads,
    "used before": used_before,
}


@pytest.fixture(params=POOLS)
def pool(request: Any) -> Iterator[Any]:
    with POOLS[request.param]() as made:
        yield made
    assert recorders.STACK.get() is recorders.OTHERS
    assert not recorders.everybody()
    assert not recorders.OTHERS


def test_derivatives_pass_through_a_pool(pool: Any) -> None:
    f = lambda x: sum(pool.map(sq, [x, 2 * x]))  # 5 x^2  # noqa: E731
    assert float(dt.grad(f)(5.0)) == 50.0
    value, slope = dt.jvp(f, (5.0,), (1.0,))
    assert (float(value), float(slope)) == (125.0, 50.0)
    assert float(dt.vjp(f, 5.0)[1](1.0)[0]) == 50.0
    assert float(dt.linearize(f, 5.0)[1](1.0)) == 50.0
    for order in ("fr", "rf", "rr", "ff"):
        assert float(dt.hvp(f, 5.0, 1.0, order=order)) == 10.0
    np.testing.assert_allclose(np.asarray(dt.hessian(lambda x: np.sum(f(x)))(X)), 10.0 * np.eye(3))
    np.testing.assert_allclose(np.asarray(dt.jacfwd(f)(X)), np.diag(10.0 * X))
    assert float(dt.grad(dt.checkpoint(f))(5.0)) == 50.0
    np.testing.assert_allclose(np.asarray(dt.vmap(dt.grad(f))(X)), 10.0 * X)


def test_every_kind_of_operation_is_recorded_there(pool: Any) -> None:
    def g(x: Any) -> Any:
        y = np.concatenate([x, x * 2.0])  # a list of operands
        y[0] = y[1] * y[2]  # a write
        q, _ = np.linalg.qr(np.reshape(y, (3, 2)))  # several results
        z = np.sum(np.where(y > 2.0, y, 0.0)) + np.max(y) + y[[3, 4]] @ y[1:3]  # masks, choices, indices
        return z + np.sum(q * np.arange(6.0).reshape(3, 2)) + float(np.sum(np.ones(3)))

    want = [np.asarray(a) for a in (dt.grad(g)(X), dt.hessian(g)(X), dt.jvp(g, (X,), (X,))[1])]
    there = lambda x: list(pool.map(g, [x]))[0]  # noqa: E731, RUF015
    for a, b in zip(want, (dt.grad(there)(X), dt.hessian(there)(X), dt.jvp(there, (X,), (X,))[1]), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-12)


def test_transforms_in_a_pool_from_outside(pool: Any) -> None:
    assert [float(g) for g in pool.map(dt.grad(lambda x: x**3), [1.0, 2.0, 3.0])] == [3.0, 12.0, 27.0]
    assert [float(h) for h in pool.map(lambda x: dt.hvp(lambda x: x**3, x, 1.0), [1.0, 2.0])] == [6.0, 12.0]
    found = pool.map(dt.vmap(dt.grad(lambda x: x**3)), [X, 2.0 * X])
    np.testing.assert_allclose([np.asarray(a) for a in found], [3.0 * X**2, 12.0 * X**2])


def test_transforms_in_a_pool_inside_a_transform(pool: Any) -> None:
    inner = dt.grad(lambda y, x: y**3 * x)
    f = lambda x: sum(pool.map(lambda y: inner(y, x), [x, 2.0 * x]))  # 3 x^3 + 12 x^3  # noqa: E731
    assert float(dt.grad(f)(5.0)) == 45.0 * 25.0
    assert float(dt.jvp(f, (5.0,), (1.0,))[1]) == 45.0 * 25.0
    closed = lambda x: sum(pool.map(lambda a: dt.grad(lambda y: y * y * x)(a), [1.0, 2.0]))  # 6 x  # noqa: E731
    assert float(dt.grad(closed)(5.0)) == 6.0
    forward = lambda x: sum(pool.map(lambda y: dt.jvp(lambda z: z**3, (y,), (x,))[1], [x, x]))  # 6 x^3  # noqa: E731
    assert float(dt.grad(forward)(5.0)) == 18.0 * 25.0
    many = lambda x: sum(pool.map(lambda y: np.sum(dt.vmap(sq)(y * X)), [x, x]))  # noqa: E731
    np.testing.assert_allclose(float(dt.grad(many)(5.0)), 4.0 * 5.0 * np.sum(X * X))


def test_rules_of_ones_own_in_a_pool(pool: Any) -> None:
    @dt.custom_gradient
    def cube(x: Any) -> Any:
        return x**3, lambda g: g * 3.0 * x**2

    f = lambda x: sum(pool.map(cube, [x, x]))  # noqa: E731
    assert float(dt.grad(f)(5.0)) == 150.0
    assert float(dt.hvp(f, 5.0, 1.0)) == 60.0
    assert float(dt.jvp(f, (5.0,), (1.0,))[1]) == 150.0
    w = dt.constant(2.0)
    with dt.GradientTape() as tape:
        tape.watch(w)
        # w is taken from outside, in the pool.
        y = dt.checkpoint(lambda x: sum(pool.map(lambda a: a * w, [x, x])) * x)(dt.constant(3.0) * w)
    assert float(tape.gradient(y, w)) == 2.0 * 9.0 * 3.0 * 4.0  # of 18 w^3


def test_a_pause_holds_in_a_pool(pool: Any) -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape, dt.ForwardAccumulator(x, 1.0) as acc:
        tape.watch(x)
        with tape.stop_recording():
            (y,) = pool.map(sq, [x])
        with dt.stop_recording():
            (z,) = pool.map(sq, [x])
        (w,) = pool.map(sq, [x])
        (v,) = pool.map(paused_there, [x])
    assert [tape.gradient(t, x) is None for t in (y, z, w, v)] == [True, True, False, True]
    assert [acc.jvp(t) is None for t in (y, z, w, v)] == [False, True, False, True]


def paused_there(x: Any) -> Any:
    with dt.stop_recording():
        return x * x


def test_a_block_that_is_over_records_nothing_in_a_pool(pool: Any) -> None:
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    (z,) = pool.map(sq, [y])
    assert tape.gradient(z, x) is None
    assert len(tape) == 1


@pytest.mark.parametrize("leaving", [float, np.asarray, int, pickle.dumps, lambda x: np.array([x]).astype(float)])
def test_conversions_in_a_pool_say_what_they_would_lose(pool: Any, leaving: Any) -> None:
    with pytest.raises(TypeError, match="follows it, would lose its derivative"):
        dt.grad(lambda x: sum(pool.map(lambda a: leaving(a + np.ones(1)), [x])))(5.0)
    x = dt.constant([5.0])
    assert list(pool.map(lambda a: leaving(a[0]) is not None, [x])) == [True]  # nobody follows it


def test_a_variable_is_not_read_for_others(pool: Any) -> None:
    if isinstance(pool, Tasks):
        pytest.skip("a task carries the block along")
    v, x = dt.Variable(3.0), dt.constant(2.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        (y,) = pool.map(lambda a: a * v, [x])
        z = v * 1.0
    assert float(tape.gradient(y, x)) == 3.0
    assert tape.gradient(y, v) is None
    assert "a read in a thread that did not enter the tape" in tape.why(y, v)
    assert tape.why(z, v) == "the target is connected with the source"
    with dt.GradientTape() as tape:
        (y,) = pool.map(lambda a: a * v, [x])
    assert "a read in a thread that did not enter the tape" in tape.why(y, v)
    with dt.GradientTape() as tape:
        tape.watch(x)
        (y,) = pool.map(lambda a: dt.grad(lambda b: b * b * v)(a), [x])  # 2 x v
    assert tape.watched_variables() == ()
    assert float(tape.gradient(y, x)) == 6.0


# ------------------------------------------------------------------ processes
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes(start: str) -> None:
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} here")
    context = multiprocessing.get_context(start)
    f = lambda pool: lambda x: sum(pool.map(sq, [x, 2 * x]))  # noqa: E731
    with context.Pool(1) as pool, ProcessPoolExecutor(1, mp_context=context) as executor:
        for each in (pool, executor):
            for differentiate in (dt.grad(f(each)), lambda x, each=each: dt.jvp(f(each), (x,), (1.0,))):
                with pytest.raises(TypeError, match=r"pickling .*use threads, or differentiate.*\.numpy\(\)"):
                    differentiate(5.0)
            assert [float(y) for y in each.map(sq, [dt.constant(2.0)])] == [4.0]
            assert [float(g) for g in each.map(slope, [1.0, 2.0])] == [3.0, 12.0]
            with dt.GradientTape():  # somebody records, and follows nothing of this
                assert [float(g) for g in each.map(slope, [1.0, 2.0])] == [3.0, 12.0]


def slope(x: Any) -> Any:
    return dt.grad(lambda x: x**3)(x)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="processes are not forked here")
def test_a_process_that_is_forked_inside_a_block() -> None:
    """It is in no block, and what it has inherited that somebody follows cannot leave it unnoticed."""
    context = multiprocessing.get_context("fork")
    x, v = dt.constant(3.0), dt.Variable(2.0)
    answers = context.SimpleQueue()

    def work() -> None:
        answers.put(recorders.STACK.get() is recorders.OTHERS)
        answers.put(float(v * 2.0))
        try:
            pickle.dumps(x * x)
        except TypeError as error:
            answers.put(str(error))
        answers.put(float(slope(2.0)))

    with dt.GradientTape() as tape:
        tape.watch(x)
        v * 1.0
        process = context.Process(target=work)
        process.start()
        process.join(60)
    assert answers.get()
    assert answers.get() == 4.0
    assert "would lose its derivative" in answers.get()
    assert answers.get() == 12.0


# ------------------------------------------------------------------ many at once
def test_threads_with_blocks_of_their_own_do_not_disturb_each_other() -> None:
    """Each of four threads enters and leaves blocks, and hands values on that are followed there alone."""
    wrong: list[Any] = []
    jobs: queue.Queue[Any] = queue.Queue()
    gate = threading.Barrier(4)
    w = dt.constant(2.0)

    def helper() -> None:
        while (job := jobs.get()) is not None:
            x, answer = job
            answer.put(x * x * w)

    def work(k: int) -> None:
        gate.wait()
        answer: queue.Queue[Any] = queue.Queue()

        def f(x: Any) -> Any:
            jobs.put((x, answer))
            return answer.get(timeout=60) * x

        for j in range(40):
            a = float(k + j)
            found = float(dt.grad(f)(a)), float(dt.jvp(f, (a,), (1.0,))[1]), float(dt.hvp(f, a, 1.0))
            if not np.allclose(found, (6.0 * a * a, 6.0 * a * a, 12.0 * a)):
                wrong.append((k, j, found))
        if recorders.STACK.get() is not recorders.OTHERS:
            wrong.append((k, "left behind"))

    helpers = [threading.Thread(target=helper) for _ in range(2)]
    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in (*helpers, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    for _ in helpers:
        jobs.put(None)
    for thread in helpers:
        thread.join()
    assert not wrong
    assert not recorders.everybody()
    assert not recorders.OTHERS


def test_blocks_left_out_of_order_leave_the_context_as_it_was() -> None:
    """Closed in any order, in a thread that knows of others, the stack is the common one again."""

    def work(order: tuple[int, ...]) -> bool:
        tapes = [dt.GradientTape() for _ in range(3)]
        for tape in tapes:
            tape.__enter__()
        for k in order:
            tapes[k].__exit__(None, None, None)
        return recorders.STACK.get() is recorders.OTHERS

    with ThreadPoolExecutor(1) as pool, dt.GradientTape():
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)):
            assert pool.submit(work, order).result()
    with dt.stop_recording():
        x = dt.constant(3.0)
        assert float(dt.grad(sq)(x)) == 6.0
        assert recorders.STACK.get() == ()  # still paused
    assert recorders.STACK.get() is recorders.OTHERS
