"""A thousand times over, in every way a recorder is used and left: stacks are empty and memory is flat afterwards.

The garbage collector is off: what is in a cycle counts as lost. Blocks of memory are counted, since counting bytes
takes ten times as long.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from measuring import no_collector

import dualtape as dt
from dualtape.core import recorders

TIMES = 1_000
X = dt.constant(np.linspace(0.1, 0.9, 20))


# ------------------------------------------------------------------ functions with rules of their own
@dt.custom_gradient
def by_gradient(x: Any) -> Any:
    e = np.exp(x)
    return e, lambda g: g * e


@dt.custom_jvp
def by_jvp(x: Any) -> Any:
    return np.exp(x)


@by_jvp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    e = by_jvp(*primals)
    return e, e * tangents[0]


@dt.custom_vjp
def by_vjp(x: Any) -> Any:
    return np.exp(x)


by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, g: (g * by_vjp(x),))


@dt.custom_vjp
def by_both(x: Any) -> Any:
    return np.exp(x)


by_both.defvjp(lambda x: (np.exp(x), x), lambda x, g: (g * np.exp(x),))
by_both.defjvp(lambda primals, tangents: (np.exp(primals[0]), np.exp(primals[0]) * tangents[0]))


def by_hand(x: Any) -> Any:
    with dt.stop_recording():
        y = np.exp(x)
    dt.record_operation("exponential", [y], [x], lambda g: [g * y])
    return y


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: np.exp(x) * x,
    "custom_gradient": by_gradient,
    "custom_jvp": by_jvp,
    "custom_vjp": by_vjp,
    "both rules": by_both,
    "checkpoint": dt.checkpoint(lambda x: np.exp(x) * x),
    "grad_pass_through": dt.grad_pass_through(np.round),
    "record_operation": by_hand,
    "gather": lambda x: dt.gather(x, [1, 3]),
    "cond": lambda x: dt.cond(x[0] > 0, lambda: x * x, lambda: x),
    "while_loop": lambda x: dt.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * x), (0, x))[1],
}


# ------------------------------------------------------------------ ways to use and to leave a recorder
def gradient(f: Callable[[Any], Any]) -> None:
    with dt.GradientTape() as tape:
        tape.watch(X)
        y = np.sum(f(X))
    tape.gradient(y, X)


def twice(f: Callable[[Any], Any]) -> None:
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = np.sum(f(X))
        g = tape.gradient(y, X)
    tape.gradient(g, X)


def forward(f: Callable[[Any], Any]) -> None:
    with dt.ForwardAccumulator(X, X.numpy()) as acc:
        y = f(X)
    acc.jvp(y)


def product(f: Callable[[Any], Any]) -> None:
    dt.hvp(lambda x: np.sum(f(x)), X, X)


def product_by_tapes(f: Callable[[Any], Any]) -> None:
    with dt.ForwardAccumulator(X, X.numpy()) as acc:
        with dt.GradientTape() as tape:
            tape.watch(X)
            y = np.sum(f(X))
        g = tape.gradient(y, X)
    acc.jvp(g)


def abandoned(f: Callable[[Any], Any]) -> None:
    tape = dt.GradientTape()
    with tape:
        tape.watch(X)
        f(X)


def an_exception_inside(f: Callable[[Any], Any]) -> None:
    try:
        with dt.GradientTape() as tape, dt.ForwardAccumulator(X, X.numpy()):
            tape.watch(X)
            f(X)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass


def never_left(f: Callable[[Any], Any]) -> None:
    tape = dt.GradientTape()
    tape.__enter__()
    tape.watch(X)
    f(X)
    tape.__exit__(None, None, None)


def generators_closed_out_of_order(f: Callable[[Any], Any]) -> None:
    def steps() -> Iterator[Any]:
        with dt.GradientTape() as tape:
            tape.watch(X)
            while True:
                yield f(X)

    one, two, three = steps(), steps(), steps()
    for generator in (one, two, three):
        next(generator)
    two.close()
    next(three)
    one.close()
    del three


def a_thread(f: Callable[[Any], Any]) -> None:
    left: list[Any] = []

    def work() -> None:
        gradient(f)
        left.append(recorders.STACK.get())

    thread = threading.Thread(target=work)
    with dt.GradientTape() as tape:
        tape.watch(X)
        thread.start()
        thread.join()
    assert left[0] is recorders.OTHERS  # its own context is as it was
    assert not recorders.OTHERS
    assert not recorders.everybody()


WAYS = [
    gradient,
    twice,
    forward,
    product,
    product_by_tapes,
    abandoned,
    an_exception_inside,
    never_left,
    generators_closed_out_of_order,
    a_thread,
]
# Each function in the common ways, and each way with the plain one and with one that has a rule of its own.
PAIRS = [(way, name) for name in FUNCTIONS for way in WAYS[:5]]
PAIRS += [(way, name) for way in WAYS[5:] for name in ("plain", "custom_gradient")]


@pytest.mark.parametrize(("way", "name"), PAIRS, ids=[f"{name}-{way.__name__}" for way, name in PAIRS])
def test_nothing_is_left_behind(way: Callable[[Any], None], name: str) -> None:
    f = FUNCTIONS[name]
    with no_collector():
        for _ in range(50):
            way(f)
        for _ in range(4):  # CPython keeps up to 2,000 empty tuples of each length for later: they may have to fill up
            blocks = -sys.getallocatedblocks()
            for _ in range(TIMES):
                way(f)
            blocks += sys.getallocatedblocks()
            if blocks < TIMES // 10:
                break
    assert recorders.STACK.get() is recorders.OTHERS
    assert not recorders.OTHERS
    assert not X._node.tangents
    assert blocks < TIMES // 10  # not one object each time (an array is an object as well)


def test_what_is_left_behind_is_found() -> None:
    """The check above, on a row that holds itself, as calls with one rule once did."""

    def leaky(f: Callable[[Any], Any]) -> None:
        cycle: list[Any] = [f]
        cycle.append(cycle)

    with pytest.raises(AssertionError):
        test_nothing_is_left_behind(leaky, "plain")


# ------------------------------------------------------------------ threads
@pytest.mark.parametrize("name", FUNCTIONS)
def test_eight_threads_compute_bitwise_what_one_does(name: str) -> None:
    f = FUNCTIONS[name]
    points = [np.linspace(0.1 + 0.01 * k, 1.0, 20) for k in range(8)]

    def derivatives(x: Any) -> list[bytes]:
        loss = lambda x: np.sum(np.sin(f(x)))  # noqa: E731
        tensor = dt.constant(x)
        with dt.GradientTape() as tape, dt.ForwardAccumulator(tensor, x) as acc:
            tape.watch(tensor)
            y = loss(tensor)
        g = dt.convert_to_tensor(tape.gradient(y, tensor))
        found = [acc.jvp(y), g, dt.grad(loss)(x), dt.hvp(loss, x, x)]
        return [np.asarray(a).tobytes() for a in found]

    expected = [derivatives(x) for x in points]
    found: list[list[list[bytes]]] = [[] for _ in points]
    gate = threading.Barrier(8)

    def work(k: int) -> None:
        gate.wait()
        for _ in range(5):
            found[k].append(derivatives(points[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[e] * 5 for e in expected]
