"""Reading and writing parts of arrays: every kind of index, writes that reach nobody else, loops that are linear.

Length: reading, writing and their cost are one subject, and most of it is a list of indices and of programs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core import recorders
from dualtape.testing import check_grads

A = np.array
X = np.linspace(-1.3, 1.7, 24).reshape(2, 3, 4)
V = A([0.5, 1.25, -0.75, 2.0])
MASK = X > 0


@pytest.fixture(autouse=True)
def no_tape_left() -> Iterator[None]:
    """A test that fails inside a tape must not fail the next one."""
    yield
    recorders.STACK.set(recorders.OTHERS)


INDEXES: dict[str, Any] = {
    "integer": 1,
    "negative integer": -1,
    "NumPy integer": np.int32(1),
    "slice": slice(None, None, -1),
    "slice of length 0": slice(1, 1),
    "all integers": (1, 2, 3),
    "ellipsis": Ellipsis,
    "ellipsis between": (1, ..., 0),
    "empty tuple": (),
    "newaxis": (None, 0, None, ..., None),
    "step": (slice(None), slice(0, 3, 2), slice(None, None, -3)),
    "list": [0, 1, 1],
    "integer array": A([[0, 1], [1, 1]]),
    "repeated": A([0, 0, 0, 1]),
    "negative in array": (slice(None), A([-1, 2, -1])),
    "pairs": (A([0, 1, 0, 0]), A([2, 2, 2, -1])),
    "pairs, broadcast": (A([[0], [1]]), A([0, 2])),
    "array and slice": (A([1, 0]), slice(1, None)),
    "array, slice, array": (A([1, 0]), slice(None), A([3, 3])),
    "array, newaxis, array": (A([1, 0]), None, A([2, 2])),
    "integer and array": (0, A([2, 2, 0])),
    "integer, slice, array": (0, slice(None), A([2, 2, 0])),
    "mask": MASK,
    "mask of the first axes": MASK[..., 0],
    "mask of one axis": (slice(None), A([True, False, True])),
    "mask and integers": (A([True, True]), A([0, 2])),
    "mask of nothing": np.zeros((2, 3, 4), bool),
    "no integers": A([], dtype=int),
    "empty list": [],
    "true": True,
}


@pytest.mark.parametrize("name", INDEXES)
def test_reading(name: str) -> None:
    index = INDEXES[name]
    got = dt.constant(X)[index]
    np.testing.assert_array_equal(got.numpy(), X[index])
    check_grads(lambda x: x[index] ** 3, (X,))


@pytest.mark.parametrize("name", [n for n in INDEXES if n not in ("true",)])
def test_writing(name: str) -> None:
    """y[index] = v, in a value that both operands' derivatives go through; the last of repeated places stays."""
    index = INDEXES[name]
    values = np.cos(np.arange(X[index].size)).reshape(X[index].shape)

    def f(x: Any, v: Any) -> Any:
        y = dt.copy(x * x)
        y[index] = v * v
        return y * y

    expected = X * X
    expected[index] = values**2
    np.testing.assert_allclose(f(X, values).numpy(), expected**2)
    if values.size:
        check_grads(f, (X, values))
    check_grads(lambda x: f(x, 0.5), (X,), order=1)


@pytest.mark.parametrize("name", INDEXES)
def test_scattering_is_the_adjoint_of_reading(name: str) -> None:
    index = INDEXES[name]
    x = dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x[index]
    weights = np.sin(np.arange(X[index].size) + 1.0).reshape(X[index].shape)
    expected = np.zeros_like(X)
    np.add.at(expected, index, weights)
    np.testing.assert_allclose(tape.gradient(y, x, output_gradients=weights), expected)


def test_a_tensor_as_index() -> None:
    k, ks, mask = dt.constant(2), dt.constant([0, 0, 3]), dt.constant([True, False, True, True])
    check_grads(lambda x: x[k] * x[ks] + x[mask], (V,))
    check_grads(lambda x: x[np.argmax(x)] ** 2 + x[x > 0] + x[np.argsort(x)[-3:]], (V,))

    def write(x: Any) -> Any:
        y = dt.copy(x)
        y[k] = x[0] * 3
        y[ks] = x[:3]
        return y * y

    check_grads(write, (V,))


def test_an_index_that_is_no_index() -> None:
    x = dt.constant(V)
    for bad in (1.0, A([0.5]), "a", dt.constant(1.0)):
        with pytest.raises((IndexError, TypeError)):
            x[bad]
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(IndexError):
        x[0, 0]


def test_an_index_array_changed_later() -> None:
    ks = A([0, 0, 1])
    x = dt.constant(V)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x[ks] ** 2
        ks[:] = 3
    np.testing.assert_allclose(tape.gradient(y, x), 2 * V * A([2, 1, 0, 0]))


# ------------------------------------------------------------------ writing in Python's ways
def augmented(x: Any) -> Any:
    y = dt.copy(x * 2)
    y[0] += x[1] * x[2]
    y[1:3] *= x[:2]
    y[[0, 3]] -= 1.0
    y[x > 1] /= 3.0
    y[-1] **= 2
    return y * x


def through_slices(x: Any) -> Any:
    y = dt.copy(x)
    tail = y[1:]
    tail[1] = x[0] * x[1]
    inner = tail[1:]
    inner += x[2]
    inner[0] *= 2.0
    return y * y


def rows(x: Any) -> Any:
    """Rows of a matrix are filled one after the other."""
    y = dt.zeros((3, 4))
    for k in range(3):
        y[k] = x ** (k + 1)
        y[k][0] = x[1]
    y[:, 1] += 1.0
    return y


def element_by_element(x: Any) -> Any:
    y = dt.zeros(4)
    y[0] = x[0]
    for k in range(1, 4):
        y[k] = y[k - 1] * x[k] + np.sin(y[k - 1])
    return y


def swapped(x: Any) -> Any:
    y = dt.copy(x)
    y[0], y[1] = y[1] * 2, y[0]
    return y * x


def shifted(x: Any) -> Any:
    y = dt.copy(x)
    y[1:] = y[:-1] * x[1:]
    return y**2


def whole(x: Any) -> Any:
    y = dt.copy(x)
    y[...] = x**2
    y[:] += 1.0
    return y * x


def plain(function: Callable[[Any], Any], x: Any) -> Any:
    """What NumPy makes of the same text."""
    numpy_names = {"copy": np.copy, "zeros": np.zeros}

    class Names:
        def __getattr__(self, name: str) -> Any:
            return numpy_names[name]

    before = function.__globals__["dt"]
    function.__globals__["dt"] = Names()
    try:
        return function(x)
    finally:
        function.__globals__["dt"] = before


WRITERS = [augmented, through_slices, rows, element_by_element, swapped, shifted, whole]


@pytest.mark.parametrize("f", WRITERS, ids=lambda f: f.__name__)
def test_writers(f: Callable[[Any], Any]) -> None:
    np.testing.assert_allclose(f(dt.constant(V)).numpy(), plain(f, V), rtol=1e-14)
    check_grads(f, (V,))


def test_repeated_indices_the_last_value_stays() -> None:
    v = dt.constant(A([1.0, 2.0, 3.0]))
    with dt.GradientTape() as tape:
        tape.watch(v)
        y = dt.zeros(3)
        y[[1, 1, 0]] = v
    np.testing.assert_array_equal(y.numpy(), [3.0, 2.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(y, v), [0.0, 1.0, 1.0])


def test_writing_into_a_watched_source_is_refused() -> None:
    x = dt.constant(V)
    with dt.GradientTape() as tape:
        tape.watch(x)
        for write in (
            lambda: x.__setitem__(0, 1.0),
            lambda: x.__iadd__(1.0),
            lambda: x[1:].__setitem__(0, 2.0),
            lambda: x[1:].__imul__(2.0),
        ):
            with pytest.raises(ValueError, match="copy"):
                write()
        y = x * 2
    np.testing.assert_array_equal(x.numpy(), V)
    np.testing.assert_array_equal(tape.gradient(y, x), np.full(4, 2.0))


def test_writing_into_the_argument_of_a_transform_is_refused() -> None:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return np.sum(x)

    with pytest.raises(ValueError, match="copy"):
        dt.grad(f)(V)


def test_what_does_not_fit_is_refused() -> None:
    y = dt.copy(dt.constant(V))
    with pytest.raises(ValueError, match="shape"):
        y[:2] = np.ones(3)
    with pytest.raises(TypeError, match="dtype"):
        dt.zeros(3, dtype=int)[0] = 1.5
    with pytest.raises(TypeError, match="dtype"):
        y[0] = 1j
    with pytest.raises(IndexError):
        y[7] = 1.0
    np.testing.assert_array_equal(y.numpy(), V)


def test_single_precision_stays() -> None:
    x = dt.constant(V.astype(np.float32))
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.zeros(4, dtype=np.float32)
        y[1:] = x[:-1] * 2.0
        y[0] = 3.0
        z = y[[0, 0, 1]]
    assert z.dtype == np.float32 and tape.gradient(z, x).dtype == np.float32


# ------------------------------------------------------------------ a tape keeps what it saw
def test_a_later_write_never_reaches_what_was_recorded() -> None:
    """Each entry keeps the value it was computed from, whoever writes into the handle afterwards."""
    x = dt.constant(V)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = np.exp(y)
        product = y * z
        y[:] = 0.0
        z += 100.0
        z[0] = -1.0
    expected = (2 * V * np.exp(V**2)) * (1 + V**2)
    np.testing.assert_allclose(tape.gradient(product, x), expected)


def test_a_handle_and_its_alias() -> None:
    """``y = x`` is one handle; ``copy`` is a value of its own; a slice is a view, as in NumPy."""
    x = dt.copy(dt.constant(V))
    alias, other, part = x, dt.copy(x), x[1:]
    x[1] = 9.0
    assert float(alias[1]) == 9.0 and float(other[1]) == 1.25
    assert float(part[0]) == 9.0


def test_the_callers_arrays_are_not_written() -> None:
    data = V.copy()
    y = dt.asarray(data)
    y[0] = 7.0
    y += 1.0
    np.testing.assert_array_equal(data, V)
    given = V.copy()
    z = dt.zeros(4)
    z[:] = given
    z[0] = 5.0
    np.testing.assert_array_equal(given, V)


def test_a_read_only_view_handed_out_is_not_written() -> None:
    y = dt.copy(dt.constant(V))
    before = y.numpy()
    y[0] = 7.0
    y[1] = 8.0
    np.testing.assert_array_equal(before, V)


def test_a_tangent_handed_out_is_not_written() -> None:
    x = dt.constant(V)
    with dt.ForwardAccumulator(x, np.ones(4)) as acc:
        y = dt.copy(x * 2.0)
        first = acc.jvp(y)
        y[0] = 0.0
        second = acc.jvp(y)
        y[1] = x[2] * 5.0
        third = acc.jvp(y)
    np.testing.assert_array_equal(first, [2.0, 2.0, 2.0, 2.0])
    np.testing.assert_array_equal(second, [0.0, 2.0, 2.0, 2.0])
    np.testing.assert_array_equal(third, [0.0, 5.0, 2.0, 2.0])


def test_a_gradient_is_not_shared() -> None:
    """A sweep writes into its own buffers only: neither seeds nor results change afterwards."""
    x, seed = dt.constant(V), np.ones(4)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = dt.copy(x)
        y[0] = x[1] * 2
        z = y + x[0]
    one = tape.gradient(z, x, output_gradients=seed).numpy().copy()
    two = tape.gradient(z, x, output_gradients=seed)
    np.testing.assert_array_equal(seed, np.ones(4))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, [4.0, 3.0, 1.0, 1.0])


def test_sums_of_cotangents_keep_apart() -> None:
    """x is read as a whole, by slices and by elements; its cotangents meet in one buffer."""
    check_grads(lambda x: x[0] * x + x[1:3].sum() * x[[0, 0]].sum() + x[2] * np.exp(x), (V,))
    check_grads(lambda x: x + x[0], (V,))
    # The cotangent of x is recorded when that of x[0], a plain number, joins it.
    check_grads(lambda x: x[0] + np.sum(x**3), (V,))
    check_grads(lambda x: x[[0, 0]].sum() + np.sum(x**3) + x[1], (V,))
    check_grads(lambda x: x[0] + x, (V,))
    check_grads(lambda x: x[1:] + x[:-1] + x[0], (V,))


# ------------------------------------------------------------------ loops over elements are linear in time
def reads(x: Any) -> Any:
    total = 0.0
    for k in range(x.shape[0]):
        total = total + x[k] * x[k]
    return total


def writes(x: Any) -> Any:
    y = dt.zeros(x.shape)
    for k in range(x.shape[0]):
        y[k] = x[k] * 2.0
    return np.sum(y)


def additions(x: Any) -> Any:
    y = dt.zeros(x.shape)
    for k in range(x.shape[0]):
        y[k] += x[k] * x[k]
    return np.sum(y)


def recurrence(x: Any) -> Any:
    y = dt.zeros(x.shape)
    y[0] = x[0]
    for k in range(1, x.shape[0]):
        y[k] = 0.5 * y[k - 1] + x[k]
    return y[-1]


def seconds(run: Callable[[], Any]) -> float:
    best = np.inf
    for _ in range(3):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        gc.enable()
    return best


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("f", [reads, writes, additions, recurrence], ids=lambda f: f.__name__)
def test_loops_over_elements_are_linear(f: Callable[[Any], Any], mode: str) -> None:
    """Four times the elements, four times the time; a quadratic loop takes sixteen times as long."""

    def run(n: int) -> Callable[[], Any]:
        x = np.linspace(0.1, 0.9, n)
        if mode == "reverse":
            return lambda: dt.grad(f)(x)
        return lambda: dt.jvp(f, (x,), (np.ones(n),))

    n = 3000
    # Once more before it counts: the machine may have been busy.
    ratios = []
    for _ in range(3):
        ratios.append(seconds(run(4 * n)) / seconds(run(n)))
        if ratios[-1] < 8:
            return
    raise AssertionError(f"4 times the elements took {ratios} times as long")
