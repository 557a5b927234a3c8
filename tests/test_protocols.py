"""NumPy's protocols and Python's: what works on a Tensor as on an array, and what is refused with the way out.

Length: one test a form of call, most of them a line in a list.
"""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core import recorders
from dualtape.core.lookup import unknown
from dualtape.testing import check_grads

A = np.array
X = A([[0.5, 1.25, -0.75], [2.0, -1.5, 0.25]])
V = A([0.5, 1.25, -0.75])


@pytest.fixture(autouse=True)
def no_tape_left() -> Iterator[None]:
    """A test that fails inside a tape must not fail the next one."""
    yield
    recorders.STACK.set(recorders.OTHERS)


def tracked(value: Any) -> tuple[dt.GradientTape, dt.Tensor]:
    """A tape that is recording and a Tensor it watches; the caller leaves the tape."""
    tape = dt.GradientTape(persistent=True)
    x = dt.constant(value)
    tape.__enter__()
    tape.watch(x)
    return tape, x


# ------------------------------------------------------------------ ufuncs, beyond the plain call
UFUNC_FORMS: dict[str, Any] = {
    "add.reduce": lambda x: np.add.reduce(x),
    "add.reduce axis": lambda x: np.add.reduce(x, axis=1),
    "add.reduce all kept": lambda x: np.add.reduce(x, axis=None, keepdims=True),
    "add.reduce initial": lambda x: np.add.reduce(x, axis=0, initial=2.0),
    "add.reduce where": lambda x: np.add.reduce(x, axis=0, where=X > 0),
    "multiply.reduce": lambda x: np.multiply.reduce(x, axis=1),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1),
    "minimum.reduce": lambda x: np.minimum.reduce(x, axis=None),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, axis=1),
    "hypot.reduce, element by element": lambda x: np.hypot.reduce(x, axis=1),
    "subtract.reduce": lambda x: np.subtract.reduce(x, axis=0),
    "add.accumulate": lambda x: np.add.accumulate(x, axis=1),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "logaddexp.accumulate": lambda x: np.logaddexp.accumulate(x, axis=0),
    "multiply.outer": lambda x: np.multiply.outer(x, V),
    "subtract.outer on the left": lambda x: np.subtract.outer(V, x),
    "add.outer with itself": lambda x: np.add.outer(x[0], x[1]),
    "dtype=": lambda x: np.exp(x, dtype=np.float64),
    "dtype=float32": lambda x: np.multiply(x, 2.0, dtype=np.float32),
    "ufunc.at of a copy": lambda x: accumulated(np.add, x, [0, 0, 1], 2.0),
    "add.at with values": lambda x: accumulated(np.add, x[0].copy(), [0, 0, 2], x[1] * 2),
    "subtract.at": lambda x: accumulated(np.subtract, x[0].copy(), [1, 1], x[1, :2]),
    "multiply.at": lambda x: accumulated(np.multiply, x[0].copy(), [1, 1, 0], x[1]),
    "negative.at": lambda x: accumulated(np.negative, x[0].copy(), [1]),
}


def accumulated(ufunc: Any, x: Any, *args: Any) -> Any:
    y = x.copy()
    ufunc.at(y, *args)
    return y * y


@pytest.mark.parametrize("form", UFUNC_FORMS)
def test_ufunc_forms(form: str) -> None:
    f = UFUNC_FORMS[form]
    check_grads(f, (X,), order=1 if "dtype" in form else 2)
    got, expected = f(dt.constant(X)), f(X)
    assert isinstance(got, dt.Tensor)
    assert got.shape == np.shape(expected) and got.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)


def test_out_and_where_of_a_ufunc() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        result = np.multiply(x, x, out=y)
        assert result is y
        z = x.copy()
        np.exp(x, out=z, where=X > 0)
        return y + z

    check_grads(f, (X,))


def test_where_without_out_is_refused() -> None:
    with pytest.raises(ValueError, match="where= leaves elements without a value"):
        np.exp(dt.constant(X), where=X > 0)


def test_reduceat_is_refused() -> None:
    tape, x = tracked(V)
    with pytest.raises(TypeError, match="reduceat"):
        np.add.reduceat(x, [0, 1])
    tape.__exit__(None, None, None)


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(TypeError):
        np.exp(dt.constant(V), signature="d->d")


# ------------------------------------------------------------------ nothing is lost silently
def plus_equals(a: Any, t: Any) -> None:
    a += t


def item_equals(a: Any, t: Any) -> None:
    a[0] = t


REFUSED: dict[str, Any] = {
    "ndarray += t": lambda t: plus_equals(np.ones(3), t),
    "out=ndarray": lambda t: np.add(t, 1.0, out=np.ones(3)),
    "out=(ndarray,)": lambda t: np.exp(t, out=(np.ones(3),)),
    "ndarray[0] = t": lambda t: item_equals(np.ones((2, 3)), t),
    "np.add.at(ndarray)": lambda t: np.add.at(np.ones(3), [0, 1, 1], t),
    "np.asarray(t)": np.asarray,
    "np.array(t)": np.array,
    "t.tolist()": lambda t: t.tolist(),
    "float(t[0])": lambda t: float(t[0]),
    "int(t[0])": lambda t: int(t[0]),
    "complex(t[0])": lambda t: complex(t[0]),
    "t[0].item()": lambda t: t[0].item(),
    "np.full(3, t)": lambda t: np.full(3, t),
    "ndarray.dot(t)": lambda t: np.ones(3).dot(t),
    "np.float64(t[0])": lambda t: np.float64(t[0]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_leaving_the_tape_raises(what: str) -> None:
    """Each of these would silently give a derivative of zero."""
    tape, t = tracked(V)
    with pytest.raises((TypeError, ValueError)):
        REFUSED[what](t)
    tape.__exit__()


@pytest.mark.parametrize("what", ["np.asarray(t)", "float(t[0])", "t.tolist()", "t[0].item()"])
def test_leaving_an_accumulator_raises(what: str) -> None:
    t = dt.constant(V)
    with dt.ForwardAccumulator(t, np.ones(3)), pytest.raises(TypeError, match=r"\.numpy\(\)"):
        REFUSED[what](t)


@pytest.mark.parametrize("what", ["np.asarray(t)", "float(t[0])", "t.tolist()", "out=ndarray", "ndarray += t"])
def test_a_refusal_names_the_way_out(what: str) -> None:
    tape, t = tracked(V)
    with pytest.raises(TypeError, match=r"\.numpy\(\)|zeros_like"):
        REFUSED[what](t)
    tape.__exit__()


def test_untracked_tensors_convert_freely() -> None:
    t = dt.constant(V)
    np.testing.assert_array_equal(np.asarray(t), V)
    assert np.asarray(t, dtype=np.float32).dtype == np.float32
    assert float(t[0]) == 0.5 and int(t[0]) == 0 and complex(t[0]) == 0.5
    assert t.tolist() == V.tolist() and t[1].item() == 1.25
    with dt.GradientTape() as tape:
        tape.watch(dt.constant(1.0))
        assert float(t[0]) == 0.5  # followed by nobody: there is no derivative to lose
    tape, x = tracked(V)
    y = x * 2
    tape.__exit__()
    np.testing.assert_array_equal(np.asarray(y), 2 * V)


def test_numpy_method_works_while_tracked() -> None:
    tape, x = tracked(V)
    y = x * x.numpy()
    tape.__exit__()
    np.testing.assert_array_equal(tape.gradient(y, x), V)


def test_lists_of_tensors_become_arrays() -> None:
    """np.array([t1, t2]) is not dispatched by NumPy, yet every right-hand side of an ODE is written so."""

    def f(x: Any) -> Any:
        return dt.asarray(np.array([x[0] * x[1], np.sin(x[1]), 3.0]) * 2.0)

    check_grads(f, (A([0.4, 1.3]),))
    jacobian = dt.jacobian(lambda x: np.array([x[0] * x[1], np.sin(x[1]), 3.0]))(A([0.4, 1.3]))
    np.testing.assert_allclose(jacobian, [[1.3, 0.4], [0.0, np.cos(1.3)], [0.0, 0.0]])
    check_grads(lambda x: dt.asarray(np.array([[x[0], 1.0], [x[1] ** 2, x[0]]]) @ A([1.0, 2.0])), (A([0.4, 1.3]),))
    check_grads(lambda x: np.sum([x[0], x[1] * x[0]]), (A([0.4, 1.3]),))
    check_grads(lambda x: np.stack([x, [x[0], 2.0]]), (A([0.4, 1.3]),))


def test_check_grads_sees_results_that_are_lists_of_tensors() -> None:
    check_grads(lambda x: np.array([x[0], x[1]]), (A([0.4, 1.3]),))


# ------------------------------------------------------------------ functions without a row
def test_a_function_without_a_row_raises_at_the_call() -> None:
    tape, x = tracked(V)
    with pytest.raises(TypeError, match=r"packbits has no row.*extend\.operation"):
        np.packbits(x)
    with pytest.raises(TypeError, match="spacing has no row"):
        np.spacing(x)
    tape.__exit__(None, None, None)


def test_where_nobody_follows_a_function_without_a_row_is_numpys() -> None:
    x, k = dt.constant(V), dt.constant([6, 4, 9])
    for found, right in (
        (np.spacing(x), np.spacing(V)),
        (np.unwrap(x, period=2.0), np.unwrap(V, period=2.0)),
        (np.packbits(k), np.packbits([6, 4, 9])),
        (np.gcd(k, 6), [6, 2, 3]),
        (np.gcd.reduce(k), 1),
        (np.spacing(x, where=np.ones(len(V), bool), out=np.zeros(len(V))), np.spacing(V)),
        (np.add.reduceat(x, [0, 1]), np.add.reduceat(V, [0, 1])),
        (np.lexsort([x, x]), np.lexsort([V, V])),
    ):
        assert not isinstance(found, dt.Tensor) and np.array_equal(found, right)
    with pytest.raises(ValueError, match="read-only"):
        np.put_along_axis(x, np.array([0]), 1.0, 0)
    assert np.array_equal(x, V)


def test_the_message_says_what_to_write_and_compares_no_letters() -> None:
    def cov(x: Any) -> None:
        """A function of the user's, of which nothing is known."""

    assert "numpy.cov has no row in dualtape's table and cannot take a Tensor; write products of" in unknown(np.cov)
    assert "cov has no row in dualtape's table and cannot take a Tensor. Register it with" in unknown(cov)


def test_nothing_is_half_recorded_when_a_call_raises() -> None:
    tape, x = tracked(V)
    before = len(tape)
    for bad in (
        lambda: x + np.ones(2),
        lambda: x @ np.ones((2, 2)),
        lambda: np.reshape(x, (2, 2)),
        lambda: np.packbits(x),
    ):
        with pytest.raises((TypeError, ValueError)):
            bad()
    assert len(tape) == before
    y = x * 2
    tape.__exit__()
    np.testing.assert_array_equal(tape.gradient(y, x), [2.0, 2.0, 2.0])


# ------------------------------------------------------------------ operators
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod]
P, Q = A([0.55, 1.25, 0.75]), A([1.5, 2.25, 0.35])


@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda op: op.__name__)
@pytest.mark.parametrize(
    "other",
    [Q, 1.75, 2, np.float64(1.75), np.float32(1.75), [1.5, 2.25, 0.35], np.asarray(1.75)],
    ids=lambda o: type(o).__name__,
)
def test_operators_and_reflected_operators(op: Any, other: Any) -> None:
    for f in (lambda x: op(x, other), lambda x: op(other, x)):
        got, expected = f(dt.constant(P)), f(P)
        assert isinstance(got, dt.Tensor), "a list, a scalar or an array on the left must not take the Tensor apart"
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-15)
        assert got.dtype == expected.dtype
        check_grads(f, (P,), order=1)
    check_grads(op, (P, Q), order=1)


def test_matmul_operator_on_either_side() -> None:
    m = A([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])
    check_grads(lambda x: m @ x, (P,))
    check_grads(lambda x: x @ m.T, (P,))
    assert isinstance(m @ dt.constant(P), dt.Tensor)


def test_unary_operators() -> None:
    check_grads(lambda x: -x + abs(x) * +x, (V,))


@pytest.mark.parametrize("op", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons(op: Any) -> None:
    x = dt.constant(V)
    for other in (0.5, V[::-1], dt.constant(V)):
        plain = other.numpy() if isinstance(other, dt.Tensor) else other
        got = op(x, other)
        assert got.dtype == bool
        np.testing.assert_array_equal(got.numpy(), op(V, plain))
        np.testing.assert_array_equal(op(plain, x).numpy(), op(plain, V))


def test_integer_operators() -> None:
    k, j = A([6, 5, 3]), A([1, 2, 3])
    x = dt.constant(k)
    for op in (
        operator.floordiv,
        operator.and_,
        operator.or_,
        operator.xor,
        operator.lshift,
        operator.rshift,
        operator.mod,
    ):
        np.testing.assert_array_equal(op(x, j).numpy(), op(k, j))
        np.testing.assert_array_equal(op(j, x).numpy(), op(j, k))
    np.testing.assert_array_equal((~x).numpy(), ~k)
    assert (x + 1).dtype == k.dtype and (x / 2).dtype == np.float64


def test_divmod_and_rounding() -> None:
    x = dt.constant(2.7)
    assert round(x) == 3 and float(np.floor(x)) == 2.0
    check_grads(lambda t: t // 1.0 + t % 1.0, (2.7,), order=1)


def test_inplace_operators_rebind_the_handle_only() -> None:
    x = dt.constant(V)
    y, alias = x * 1, x
    kept = y
    y += 1
    y *= x
    np.testing.assert_allclose(y.numpy(), (V + 1) * V)
    assert kept is y  # as an ndarray, the object stays the same
    np.testing.assert_array_equal(alias.numpy(), V)
    check_grads(lambda t: augmented(t), (V,))


def augmented(t: Any) -> Any:
    y = t * 1
    y += t
    y -= 2.0
    y *= t
    y /= 3.0
    y **= 2
    return y


# ------------------------------------------------------------------ Python's protocols
def test_iteration_len_bool_index() -> None:
    x = dt.constant(X)
    assert len(x) == 2
    rows = list(x)
    assert len(rows) == 2 and all(isinstance(r, dt.Tensor) and r.shape == (3,) for r in rows)
    _, second = x
    np.testing.assert_array_equal(second.numpy(), X[1])
    assert bool(dt.constant(1.0)) and not dt.constant(0.0)
    with pytest.raises(ValueError):
        bool(x)
    with pytest.raises(TypeError):
        len(dt.constant(1.0))
    with pytest.raises(TypeError):
        iter(dt.constant(1.0))
    assert [10, 20, 30][dt.constant(1)] == 20 and list(range(dt.constant(3))) == [0, 1, 2]
    assert 0.5 in dt.constant(V)
    check_grads(lambda t: sum(v * v * (k + 1) for k, v in enumerate(t)), (V,))
    check_grads(lambda t: max(t) * min(t) + sorted([t[0], t[1], t[2]])[1], (V,))


def test_a_floating_tensor_is_no_index() -> None:
    with pytest.raises(TypeError):
        [10, 20][dt.constant(1.0)]


def test_tensors_are_hashed_by_reference_only() -> None:
    x, y = dt.constant(V), dt.constant(V)
    with pytest.raises(TypeError):
        hash(x)
    assert x.ref() == x.ref() and x.ref() != y.ref()
    table = {x.ref(): "x", y.ref(): "y"}
    assert table[x.ref()] == "x" and x.ref().deref() is x


def test_copy_deepcopy_pickle() -> None:
    x = dt.constant(V)
    for same in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(same, dt.Tensor) and same is not x
        np.testing.assert_array_equal(same.numpy(), V)
        assert same.dtype == x.dtype
        same[0] = 7.0
        assert float(x[0]) == 0.5
    # A copy inside a program carries the derivative.
    check_grads(lambda t: copy.copy(t) * copy.deepcopy(t), (V,))
    check_grads(lambda t: np.copy(t) * t.copy(), (V,))


def test_numpy_is_read_only_and_shared_with_nobody() -> None:
    x = dt.constant(V)
    view = x.numpy()
    assert not view.flags.writeable
    with pytest.raises(ValueError):
        view[0] = 1.0
    assert isinstance(dt.constant(1.0).numpy(), np.generic)
    with pytest.raises(ValueError):
        np.asarray(x)[0] = 1.0


def test_constant_copies() -> None:
    source = V.copy()
    x = dt.constant(source)
    source[0] = 99.0
    assert float(x[0]) == 0.5


def test_arrays_changed_later_do_not_reach_the_tape() -> None:
    data, mask, index = V.copy(), A([True, False, True]), A([0, 0, 1])
    tape, x = tracked(V)
    y = np.sum(x * data) + np.sum(np.where(mask, x, 0.0)) + np.sum(x[index] ** 2) + x @ data
    data[:], mask[:], index[:] = 0.0, False, 2
    tape.__exit__()
    expected = 2 * V + A([1.0, 0.0, 1.0]) + 2 * V * A([2, 1, 0])
    np.testing.assert_allclose(tape.gradient(y, x), expected)


def test_format_and_repr() -> None:
    x = dt.constant(2.5)
    assert f"{x:.3f}" == "2.500" and f"{x}" == "2.5" and repr(x) == "Tensor(2.5)"
    assert repr(dt.constant(A([1, 2]), dtype="float32")) == "Tensor([1., 2.], dtype=float32)"
    tape, t = tracked(V)
    assert "0.5" in repr(t) and "0.5" in str(t)  # looking does not convert
    tape.__exit__()


# ------------------------------------------------------------------ attributes and methods of an array
METHODS: dict[str, Any] = {
    "reshape": lambda x: x.reshape(3, 2) + x.reshape((3, 2)),
    "reshape order": lambda x: x.reshape((3, 2), order="F"),
    "transpose": lambda x: x.transpose() + x.transpose(1, 0) + x.transpose((1, 0)),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "real": lambda x: x.real,
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x.reshape(1, 6).squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "repeat": lambda x: x.repeat(2, axis=1),
    "take": lambda x: x.take([0, 0, 2], axis=1),
    "dot": lambda x: x.dot(V),
    "conj": lambda x: x.conj() + x.conjugate(),
    "sum": lambda x: x.sum() + x.sum(axis=1, keepdims=True),
    "mean": lambda x: x.mean(0),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.max() + x.max(axis=0),
    "min": lambda x: x.min(),
    "var": lambda x: x.var(ddof=1),
    "std": lambda x: x.std(axis=1),
    "cumsum": lambda x: x.cumsum() + x.cumsum(),
    "cumprod": lambda x: x.cumprod(axis=1),
    "clip": lambda x: x.clip(-1.0, 1.0),
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(np.float64),
    "flat": lambda x: sum(v * v for v in x.flat),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    f = METHODS[name]
    got, expected = f(dt.constant(X)), f(X)
    assert isinstance(got, dt.Tensor) and got.shape == np.shape(expected) and got.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-14)
    check_grads(f, (X,), order=1)
    # Variables have them too.
    np.testing.assert_allclose(np.asarray(f(dt.Variable(X))), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["all", "any", "argmax", "argmin", "argsort", "round", "nonzero"])
def test_methods_without_derivative(name: str) -> None:
    got, expected = getattr(dt.constant(X), name)(), getattr(X, name)()
    for a, b in zip(
        got if isinstance(got, tuple) else [got], expected if isinstance(expected, tuple) else [expected], strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b)


def test_attributes() -> None:
    x = dt.constant(X)
    for name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize"):
        assert getattr(x, name) == getattr(X, name)
    assert x.device == "cpu"
    assert x.__array_namespace__() is dt
    tape, t = tracked(X)
    assert np.shape(t) == (2, 3) and np.ndim(t) == 2 and np.size(t) == 6 and np.result_type(t, np.float32) == np.float64
    assert not np.iscomplexobj(t) and np.isrealobj(t)
    tape.__exit__()


def test_numpy_creation_functions_follow_their_model() -> None:
    x = dt.constant(X.astype(np.float32))
    for make in (np.zeros_like, np.ones_like, np.empty_like):
        made = make(x)
        assert isinstance(made, dt.Tensor) and made.shape == (2, 3) and made.dtype == np.float32
    assert np.full_like(x, 2.0).dtype == np.float32
    check_grads(lambda t: np.full_like(t, t[0]), (V,))
    check_grads(lambda t: dt.full((2, 2), t), (0.5,))


def test_variables_take_part_like_tensors() -> None:
    v = dt.Variable(V)
    with dt.GradientTape() as tape:
        y = np.sum(np.exp(v) * v + v[0] - 2.0 * v / A([1.0, 2.0, 4.0]))
    expected = np.exp(V) * (V + 1) + A([3.0, 0.0, 0.0]) - 2.0 / A([1.0, 2.0, 4.0])
    np.testing.assert_allclose(tape.gradient(y, v), expected)


def test_keywords_of_older_numpy() -> None:
    x = dt.constant(X)
    np.testing.assert_allclose(np.clip(x, a_min=-1.0, a_max=1.0).numpy(), np.clip(X, -1.0, 1.0))
