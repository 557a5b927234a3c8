"""Large arrays: computed in blocks and in memory used before, with the same results as small ones."""

from __future__ import annotations

import contextlib
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from measuring import bytes_at_most

import dualtape as dt
from dualtape.inspect import release_memory
from dualtape.memory import reserve as memory

SIZE = 2**17
NUMBERS = np.linspace(0.1, 0.9, SIZE)
DIRECTION = np.cos(np.arange(SIZE))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.tanh(x[:-5])),
        lambda x: np.sum(np.tanh(x) * np.max(x)),  # below a choice zeros win over infinities
        lambda x: np.sum(np.sqrt(x) / (1.0 + x)),
        lambda x: np.sum(np.square(x.reshape(4, -1)[:, ::2].sum(axis=0))),
        lambda x: np.sum(np.square(np.reshape(x, (64, -1))).sum(axis=1) ** 2),  # a broadcast cotangent
        lambda x: np.sum(np.square(np.reshape(x, (2, -1))).sum(axis=1) ** 2),
        lambda x: np.sum(np.arctan2(x, x[::-1])),
        lambda x: np.sum(np.tanh(np.reshape(x, (256, -1)).T) * np.reshape(x, (-1, 256))),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_change_no_bit(f: Any, dtype: Any, monkeypatch: Any) -> None:
    x, v = NUMBERS.astype(dtype), DIRECTION.astype(dtype)

    def both() -> list[Any]:
        return [dt.grad(f)(x), dt.jvp(f, (x,), (v,))[1]]

    found = both()
    monkeypatch.setattr("dualtape.memory.blocks.LARGE", 2**40)
    for a, b in zip(found, both(), strict=True):
        assert a.dtype == b.dtype == dtype
        assert np.array_equal(a, b)


def test_a_large_tangent_takes_the_dtype_of_the_result() -> None:
    x, t, y = np.ones(SIZE, np.float32), np.full(SIZE, 1e10, np.float32), np.full(SIZE, 1e30)
    for f in (lambda x: x * y, lambda x: y * x):
        _, moved = dt.jvp(f, (x,), (t,))
        assert moved.dtype == np.float64
        assert np.allclose(moved, 1e40)
    z = NUMBERS * (1 + 1j)
    for f in (lambda x: x * z, lambda x: x / z):
        _, moved = dt.jvp(f, (NUMBERS,), (DIRECTION,))
        assert np.allclose(moved, f(DIRECTION), rtol=1e-14)


def test_a_constant_that_changed_its_sign_at_zero_is_another_constant() -> None:
    zeros = np.zeros(SIZE)
    x = dt.constant(np.ones(SIZE))
    with np.errstate(divide="ignore"), dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = x / zeros
        zeros[:] = -0.0
        second = x / zeros
    assert np.all(tape.gradient(first, x).numpy() == np.inf)
    assert np.all(tape.gradient(second, x).numpy() == -np.inf)


def test_a_zero_beats_an_infinity_in_any_block() -> None:
    x = NUMBERS.copy()
    x[[3, 70_000, -1]] = 0.0
    g = dt.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)))(x)
    assert np.all(g[[3, 70_000, -1]] == 0.0)
    assert np.all(np.isfinite(g))
    _, t = dt.jvp(np.sqrt, (x,), (np.zeros_like(x),))
    assert np.all(t == 0.0)


def test_results_in_memory_used_before_stay_as_they_are() -> None:
    """A gradient handed out keeps its memory, however many large ones are computed after it."""
    gradients = [dt.grad(lambda x, k=k: np.sum(np.sin(k * x)))(NUMBERS) for k in range(4)]
    w, ones = np.ones((300, 300)), np.ones((300, 300))
    matrices = [dt.grad(lambda w, k=k: np.sum(np.square(w) @ (k * ones)))(w) for k in range(4)]
    for k in range(4):
        assert np.allclose(gradients[k], k * np.cos(k * NUMBERS), rtol=1e-14)
        assert np.array_equal(matrices[k], np.full((300, 300), 600.0 * k))


def test_the_cotangent_of_a_broadcast_matrix_is_one_product() -> None:
    """One matrix times many columns: no array of a matrix for each column."""
    a, x = np.ones((1, 64, 64)), np.ones((2000, 64, 1))
    assert bytes_at_most(lambda: dt.grad(lambda a: np.sum((a @ x) ** 2))(a)) < 12 * x.nbytes


def test_a_large_contraction_agrees_with_products_of_matrices() -> None:
    a, b = np.sin(np.arange(6000.0)).reshape(20, 30, 10), np.cos(np.arange(12000.0)).reshape(10, 30, 40)
    found = dt.grad(lambda a, b: np.sum(np.einsum("kij,jil->kl", a, b) ** 2), (0, 1))(a, b)
    right = dt.grad(lambda a, b: np.sum(np.tensordot(a, b, ((1, 2), (1, 0))) ** 2), (0, 1))(a, b)
    for g, h in zip(found, right, strict=True):
        assert np.allclose(g, h, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("accumulates", [False, True])
def test_the_bytes_of_a_tape_are_what_it_makes_memory_grow_by(accumulates: bool) -> None:
    def program(x: Any) -> Any:
        y = np.sin(x) * x
        y = np.sqrt(np.tanh(y) ** 2 + 1.0)
        return np.sum(np.exp(np.cos(y) / x)[: SIZE // 2])

    release_memory()  # what is in reserve is not counted when it is used again
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        x = dt.constant(NUMBERS)
        forward = dt.ForwardAccumulator(x, DIRECTION) if accumulates else contextlib.nullcontext()
        with forward, dt.GradientTape() as tape:
            tape.watch(x)
            y = program(x)
        release_memory()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert y.shape == ()
    assert 0.9 * grown < tape.nbytes < 1.1 * grown


def in_reserve() -> int:
    return sum(size * len(blocks) for size, blocks in memory._reserve.items())


def failing_gradient() -> None:
    def f(x: Any) -> Any:
        dt.grad(lambda y: np.sum(np.tanh(y) * y))(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dt.grad(f)(WIDE)


def recorded_only() -> None:
    x = dt.constant(WIDE)
    with dt.GradientTape() as tape:
        tape.watch(x)
        np.sum(np.tanh(x) * WIDE)


WIDE = np.linspace(0.1, 0.9, 2**21)


@pytest.mark.parametrize(
    "run",
    [
        lambda: dt.vmap(lambda x: np.tanh(x) * x)(WIDE.reshape(8, -1)),
        lambda: dt.vjp(lambda x: np.tanh(x) * WIDE, WIDE),
        lambda: dt.linearize(lambda x: np.tanh(x) * WIDE, WIDE)[1](WIDE),
        lambda: dt.jacfwd(lambda a: np.tanh(a[0] * WIDE + a[1]))(np.ones(2)),
        failing_gradient,
        recorded_only,
    ],
)
def test_at_most_64_megabytes_stay_in_reserve(run: Any) -> None:
    run()
    run()
    assert in_reserve() <= 2**26
    release_memory()
    assert in_reserve() == 0


def test_many_arrays_of_one_size_are_no_burden() -> None:
    """Only some blocks of each size are remembered: looking for a free one takes no longer than using it."""
    held = [memory.room((2**13,), np.dtype(float)) for _ in range(1000)]
    assert len({a.ctypes.data for a in held}) == 1000
    assert max(len(blocks) for blocks in memory._reserve.values()) <= memory.ALIKE


def test_memory_may_be_released_while_others_work() -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def release() -> None:
        while not stop.is_set():
            try:
                release_memory()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=release) for _ in range(2)]
    for thread in threads:
        thread.start()
    right = np.cos(NUMBERS)
    found = [dt.grad(lambda x: np.sum(np.sin(x)))(NUMBERS) for _ in range(200)]
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(np.array_equal(g, right) for g in found)


def test_inside_vmap_what_has_no_batch_is_computed_as_outside() -> None:
    x = np.linspace(0.3, 1.7, 10)

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x * x + x * np.exp(x) * x)

    inside: list[Any] = []
    dt.vmap(lambda z: (inside.append(dt.grad(f)(x)), z * 2)[1])(np.ones(3))
    assert np.array_equal(inside[0].numpy(), dt.grad(f)(x))
