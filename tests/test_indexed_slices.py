"""gather and IndexedSlices: what they compute, when a gradient has this form, and that it never makes the array."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads

TABLE = np.arange(12.0).reshape(4, 3)


def gradient(f: Any, x: Any, **kwargs: Any) -> Any:
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x, **kwargs)


# ------------------------------------------------------------------ gather
@pytest.mark.parametrize(
    ("shape", "indices", "options", "expected"),
    [
        ((4, 3), [2, 0, 2], {}, lambda x: x[[2, 0, 2]]),
        ((4, 3), 1, {}, lambda x: x[1]),
        ((4, 3), [[0, 1], [3, 3]], {}, lambda x: x[[[0, 1], [3, 3]]]),
        ((4, 3), [], {}, lambda x: x[:0]),
        ((4, 3), [2, 0], {"axis": 1}, lambda x: x[:, [2, 0]]),
        ((4, 3), [[2, 0]], {"axis": -1}, lambda x: x[:, [[2, 0]]]),
        ((4, 3, 2), [1, 1], {"axis": 1}, lambda x: x[:, [1, 1]]),
        ((4, 3), 2, {"axis": 1}, lambda x: x[:, 2]),
        ((2, 3, 4), [[0, 2], [1, 1]], {"batch_dims": 1}, lambda x: np.stack([x[0][[0, 2]], x[1][[1, 1]]])),
        ((2, 3, 4), [[0], [3]], {"batch_dims": 1, "axis": 2}, lambda x: np.stack([x[0][:, [0]], x[1][:, [3]]])),
        (
            (2, 3, 5, 4),
            [[[0, 3]], [[1, 1]]],
            {"batch_dims": 1, "axis": 2},
            lambda x: np.stack([x[0][:, [[0, 3]]], x[1][:, [[1, 1]]]]),
        ),
        (
            (2, 3, 4),
            [[0, 1, 2], [3, 3, 0]],
            {"batch_dims": 2},
            lambda x: x[np.ix_(range(2), range(3))][[[0], [1]], [[0, 1, 2]], [[0, 1, 2], [3, 3, 0]]],
        ),
        ((2, 3, 4), [[0], [2]], {"batch_dims": -1}, lambda x: np.stack([x[0][[0]], x[1][[2]]])),
    ],
)
def test_gather_reads_as_numpy_does(shape: Any, indices: Any, options: Any, expected: Any) -> None:
    x = np.random.default_rng(1).normal(size=shape)
    assert np.array_equal(dt.gather(x, indices, **options), expected(x))
    assert np.array_equal(dt.gather(dt.Variable(x), dt.constant(np.array(indices, int)), **options), expected(x))
    check_grads(lambda x: dt.gather(x, indices, **options) ** 2, (x,))


@pytest.mark.parametrize(
    ("indices", "options", "error", "says"),
    [
        ([4], {}, IndexError, "gather: index 4 is out of range for axis 0 of length 4"),
        ([-1], {}, IndexError, "gather: index -1 is out of range .* negative ones do not count from the end"),
        ([1.0], {}, TypeError, "gather: indices are integers, not float64"),
        ([True], {}, TypeError, "gather: indices are integers, not bool"),
        ([0], {"axis": 2}, ValueError, r"gather: axis=2 with batch_dims=0 for an array of shape \(4, 3\)"),
        ([0], {"axis": -3}, ValueError, "gather: axis=-3"),
        ([[0]], {"batch_dims": 1}, ValueError, r"leading axes of params, \(4, 3\), and of indices, \(1, 1\), must be"),
        ([0], {"batch_dims": 1, "axis": 0}, ValueError, "gather: axis=0 with batch_dims=1"),
    ],
)
def test_what_gather_refuses(indices: Any, options: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        dt.gather(TABLE, indices, **options)


def test_the_indices_may_change_afterwards() -> None:
    index = np.array([2, 0])
    x = dt.constant(TABLE)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.gather(x, index)
        index[:] = 1
    assert np.array_equal(tape.gradient(y, x).indices, [2, 0])


# ------------------------------------------------------------------ when a gradient has this form
@pytest.mark.parametrize("kind", [dt.constant, dt.Variable])
def test_a_gather_straight_from_a_source_gives_slices(kind: Any) -> None:
    x = kind(TABLE)
    g = gradient(lambda x: dt.gather(x, [2, 0, 2]) * [[1.0], [2.0], [3.0]], x)
    assert isinstance(g, dt.IndexedSlices)
    assert np.array_equal(g.values, np.array([[1.0], [2.0], [3.0]]) * np.ones(3))
    assert np.array_equal(g.indices, [2, 0, 2]) and g.dense_shape == (4, 3)
    assert np.array_equal(g, [[2.0] * 3, [0.0] * 3, [4.0] * 3, [0.0] * 3])


def test_one_position_is_one_slice() -> None:
    g = gradient(lambda x: dt.gather(x, 1) * 2.0, dt.constant(TABLE))
    assert g.values.shape == (1, 3) and np.array_equal(g.indices, [1])


def test_indices_with_axes_are_slices_in_one_axis() -> None:
    g = gradient(lambda x: dt.gather(x, [[0, 1], [3, 3]]), dt.constant(TABLE))
    assert g.values.shape == (4, 3) and np.array_equal(g.indices, [0, 1, 3, 3])


def test_two_gathers_concatenate() -> None:
    g = gradient(lambda x: np.sum(dt.gather(x, [1, 2])) + 5.0 * np.sum(dt.gather(x, [1])), dt.constant(TABLE))
    assert np.array_equal(g.indices, [1, 2, 1])
    assert np.array_equal(g.values[:, 0], [1.0, 1.0, 5.0])
    assert np.array_equal(dt.convert_to_tensor(g)[:, 0], [0.0, 6.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("f", "column"),
    [
        (lambda x: dt.gather(x * 2.0, [1]), [0.0, 2.0, 0.0, 0.0]),
        (lambda x: np.sum(dt.gather(x, [1])) + np.sum(x), [1.0, 2.0, 1.0, 1.0]),
        (lambda x: np.sum(x) + np.sum(dt.gather(x, [1])), [1.0, 2.0, 1.0, 1.0]),
        (lambda x: np.sum(x[0]) + np.sum(dt.gather(x, [1])), [1.0, 1.0, 0.0, 0.0]),
        (lambda x: np.sum(dt.gather(x, [1])) + np.sum(x[0]), [1.0, 1.0, 0.0, 0.0]),
        (lambda x: [x, dt.gather(x, [1])], [1.0, 2.0, 1.0, 1.0]),
        (lambda x: dt.gather(x, [0, 2], axis=1)[1], [0.0, 1.0, 0.0, 0.0]),
        (lambda x: x[np.array([1, 1])], [0.0, 2.0, 0.0, 0.0]),
        (lambda x: np.take(x, [1, 1], axis=0), [0.0, 2.0, 0.0, 0.0]),
    ],
)
def test_through_another_operation_it_is_dense(f: Any, column: Any) -> None:
    for x in (dt.constant(TABLE), dt.Variable(TABLE)):
        g = gradient(f, x)
        assert isinstance(g, dt.Tensor) and np.array_equal(g[:, 0], column)


def test_a_source_that_was_computed_gets_slices_and_passes_them_on() -> None:
    x = dt.constant(TABLE)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
        z = dt.gather(y, [3, 3])
    gx, gy = tape.gradient(z, [x, y])
    assert isinstance(gx, dt.Tensor) and np.array_equal(gx[:, 0], [0.0, 0.0, 0.0, 4.0])
    assert isinstance(gy, dt.IndexedSlices) and np.array_equal(gy.indices, [3, 3])
    assert isinstance(tape.gradient(z, y), dt.IndexedSlices)
    assert np.array_equal(tape.gradient(z, x)[:, 0], [0.0, 0.0, 0.0, 4.0])


@pytest.mark.parametrize("f", [np.sqrt, lambda x: x * np.array([1.0, np.inf, 0.25])])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_zero_of_what_was_not_gathered_beats_an_infinite_slope(f: Any) -> None:
    x = dt.constant([1.0, 0.0, 4.0])
    with np.errstate(invalid="ignore"), dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        z = dt.gather(y, [2])
    for sources in ([x], [x, y]):
        assert np.array_equal(tape.gradient(z, sources)[0], [0.0, 0.0, 0.25])


def test_transforms_and_jacobians_are_dense() -> None:
    f = lambda x: np.sum(dt.gather(x, [2, 0]) ** 2)  # noqa: E731
    for found in (dt.grad(f)(TABLE), dt.vjp(f, TABLE)[1](1.0)[0], dt.jacrev(f)(TABLE), dt.jacfwd(f)(TABLE)):
        assert type(found) is np.ndarray and np.array_equal(found, 2 * TABLE * [[1.0], [0.0], [1.0], [0.0]])


def test_unconnected_zeros_are_dense() -> None:
    x, y = dt.constant(TABLE), dt.constant(1.0)
    with dt.GradientTape() as tape:
        tape.watch([x, y])
        dt.gather(x, [0])
        z = y * y
    assert isinstance(tape.gradient(z, x, unconnected_gradients="zero"), dt.Tensor)


def test_dtypes_are_those_of_the_source() -> None:
    x = dt.constant(TABLE, dtype="float32")
    assert gradient(lambda x: dt.gather(x, [0]) * 2.0, x).dtype == np.float32
    assert gradient(lambda x: dt.gather(x, [0]) * np.full(3, 2j), x).dtype == np.float32
    z = dt.constant(TABLE * 1j)
    assert np.array_equal(gradient(lambda z: dt.gather(z, [0]) * 2j, z).values, np.full((1, 3), -2j))


# ------------------------------------------------------------------ higher orders
def test_a_tape_outside_follows_the_slices() -> None:
    x = dt.constant(TABLE)
    with dt.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with dt.GradientTape() as inner:
            inner.watch(x)
            y = np.sum(dt.gather(x, [1, 1, 2]) ** 3)
        g = inner.gradient(y, x)
        dense = dt.convert_to_tensor(g)
        total = np.sum(g)
    expected = 6 * TABLE * [[0.0], [2.0], [1.0], [0.0]]
    for target in (g, dense, total):
        assert np.array_equal(outer.gradient(target, x), expected)
    assert np.array_equal(outer.gradient([g, total], x), 2 * expected)
    assert outer.why(g, x) == "the target is connected with the source"
    with pytest.raises(ValueError, match="the target is IndexedSlices, of which a cotangent could mean"):
        outer.gradient(g, x, output_gradients=np.ones((4, 3)))


def test_an_accumulator_outside_gives_the_tangent_as_slices() -> None:
    x, v = dt.constant(TABLE), np.ones((4, 3))
    with dt.ForwardAccumulator(x, v) as acc:
        g = gradient(lambda x: np.sum(dt.gather(x, [1, 1, 2]) ** 3), x)
    t = acc.jvp(g)
    assert isinstance(t, dt.IndexedSlices) and np.array_equal(t.indices, [1, 1, 2])
    assert np.array_equal(t, 6 * TABLE * [[0.0], [2.0], [1.0], [0.0]])
    constant = dt.IndexedSlices(np.ones((1, 3)), [0], (4, 3))
    assert acc.jvp(constant) is None
    assert np.array_equal(acc.jvp(constant, unconnected_gradients="zero"), np.zeros((4, 3)))


# ------------------------------------------------------------------ the object itself
def test_numpy_and_operators_make_it_dense() -> None:
    s = dt.IndexedSlices([[1.0, 2.0], [3.0, 4.0]], [2, 2], (3, 2))
    dense = np.array([[0.0, 0.0], [0.0, 0.0], [4.0, 6.0]])
    assert np.array_equal(np.asarray(s), dense) and np.array_equal(s.numpy(), dense)
    assert np.array_equal(0.5 * s + 1.0, 0.5 * dense + 1.0)
    assert np.array_equal(np.exp(s), np.exp(dense)) and float(np.sum(s)) == 10.0
    assert np.array_equal(s.T, dense.T) and np.array_equal(s[2], dense[2])
    assert np.array_equal(dt.constant(s), dense)
    assert (s.shape, s.ndim, s.size, len(s), s.dtype) == ((3, 2), 2, 6, 3, np.float64)
    assert s.nbytes == s.values.nbytes + s.indices.nbytes


def test_its_negative_has_the_same_form() -> None:
    s = -dt.IndexedSlices([1.0, 2.0], [0, 3], (5,))
    assert isinstance(s, dt.IndexedSlices) and np.array_equal(s, [-1.0, 0.0, 0.0, -2.0, 0.0])


def test_it_can_be_printed_and_pickled() -> None:
    s = dt.IndexedSlices([1.0, 2.0], [0, 3], (5,))
    assert repr(s) == str(s) == "IndexedSlices(values=Tensor([1., 2.]), indices=Tensor([0, 3]), dense_shape=(5,))"
    assert np.array_equal(pickle.loads(pickle.dumps(s)), s)


def test_without_a_shape_there_is_no_dense_array() -> None:
    s = dt.IndexedSlices([1.0], [0])
    assert s.dense_shape is None
    with pytest.raises(ValueError, match="have no dense_shape"):
        dt.convert_to_tensor(s)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (([1.0, 2.0], [0]), ValueError, r"values of shape \(2,\) for indices of shape \(1,\)"),
        ((1.0, 0), ValueError, "with n indices"),
        (([[1.0]], [0], (3, 2)), ValueError, r"\(1, 1\) are no slices of an array of shape \(3, 2\)"),
        (([1.0], [0.0]), TypeError, "indices are integers, not float64"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        dt.IndexedSlices(*arguments)


def test_an_index_outside_the_shape_is_found_when_it_is_made_dense() -> None:
    with pytest.raises(IndexError, match=r"outside the first axis of the dense shape \(2,\)"):
        dt.convert_to_tensor(dt.IndexedSlices([1.0], [2], (2,)))


def test_it_has_no_identity() -> None:
    s = dt.IndexedSlices([1.0], [0], (2,))
    with dt.GradientTape() as tape:
        with pytest.raises(ValueError, match="cannot watch a IndexedSlices"):
            tape.watch(s)
    with pytest.raises(TypeError, match="a source of a gradient is a Tensor or Variable, not IndexedSlices"):
        tape.gradient(dt.constant(1.0), s)
    with pytest.raises(ValueError, match="the primal is a IndexedSlices"):
        dt.ForwardAccumulator(s, np.ones(2))
    with pytest.raises(TypeError, match="no identity that a tape or accumulator could follow"):
        s._node  # noqa: B018


def test_no_derivative_is_lost_by_converting_it() -> None:
    x = dt.constant(TABLE)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        g = gradient(lambda x: dt.gather(x, [1]) ** 2, x)
        with pytest.raises(TypeError, match="would lose its derivative"):
            np.asarray(g)
        assert np.array_equal(g.numpy()[1], 2 * TABLE[1])


# ------------------------------------------------------------------ Variables
def test_variables_take_slices() -> None:
    s = dt.IndexedSlices([10.0, 1.0, 1.0], [2, 0, 0])
    start = [1.0, 2.0, 3.0]
    for change, expected in (
        ("scatter_add", [3.0, 2.0, 13.0]),
        ("scatter_sub", [-1.0, 2.0, -7.0]),
        ("scatter_update", [1.0, 2.0, 10.0]),
        ("assign_add", [3.0, 2.0, 13.0]),
        ("assign_sub", [-1.0, 2.0, -7.0]),
    ):
        v = dt.Variable(start)
        assert getattr(v, change)(s) is v and np.array_equal(v, expected)
    v = dt.Variable(start, dtype="float32")
    assert v.scatter_add(s).dtype == np.float32
    assert np.array_equal(v.assign(dt.IndexedSlices([5.0], [1], (3,))), [0.0, 5.0, 0.0])


def test_a_gradient_uses_the_values_read_before_a_scatter() -> None:
    v = dt.Variable([1.0, 2.0, 3.0])
    with dt.GradientTape() as tape:
        y = dt.gather(v, [1]) ** 2
        v.scatter_update(dt.IndexedSlices([7.0], [1]))
    assert np.array_equal(tape.gradient(y, v).values, [4.0])


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (np.ones(3), TypeError, "scatter_add takes IndexedSlices, not ndarray"),
        (dt.IndexedSlices(np.ones((1, 2)), [0]), ValueError, "are no slices of 'v'"),
        (dt.IndexedSlices([1.0], [3]), IndexError, "outside the first axis of 'v'"),
        (dt.IndexedSlices([1.0], [-1]), IndexError, "outside the first axis of 'v'"),
        (dt.IndexedSlices([1j], [0]), TypeError, "complex128"),
    ],
)
def test_slices_that_do_not_fit_a_variable_are_refused(value: Any, error: Any, says: str) -> None:
    v = dt.Variable([1.0, 2.0, 3.0], name="v")
    with pytest.raises(error, match=says):
        v.scatter_add(value)
    assert np.array_equal(v, [1.0, 2.0, 3.0])


# ------------------------------------------------------------------ memory
@pytest.mark.parametrize("order", [1, 2])
def test_the_gradient_by_a_large_table_holds_the_slices_alone(order: int) -> None:
    """A table of 128 MB, ten lines of which are read."""
    table = dt.Variable(np.zeros((1_000_000, 16)))
    index = np.arange(10) * 99_999

    def run() -> Any:
        if order == 1:
            return gradient(lambda t: np.sum(np.exp(dt.gather(t, index))), table)
        with dt.GradientTape() as outer:
            g = gradient(lambda t: np.sum(np.exp(dt.gather(t, index))), table)
            y = np.sum(g.values**2)
        return outer.gradient(y, table)

    run()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        g = run()
        assert tracemalloc.get_traced_memory()[1] - before < 50_000
    finally:
        tracemalloc.stop()
    assert isinstance(g, dt.IndexedSlices) and g.values.shape == (10, 16) and g.nbytes < 2_000
    assert np.array_equal(g.values, np.full((10, 16), float(order)))


def test_an_accumulator_of_several_directions_gives_arrays() -> None:
    x = dt.constant([1.0, 2.0])
    with dt.ForwardAccumulator(x, np.eye(2), batch=True) as acc:
        g = gradient(lambda x: np.sum(dt.gather(x, [1, 1]) ** 3), x)
    assert isinstance(g, dt.IndexedSlices) and np.array_equal(acc.jvp(g), [[0.0, 0.0], [0.0, 24.0]])
