"""Arrays of objects, which np.array makes of Tensors: right, or refused with the remedy; dtypes given as classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import dualtape as dt

A = np.array


def along(f: Callable[..., Any], x: Any, t: Any) -> Any:
    """The tangent of f at x along t, as an array."""
    return np.asarray(dt.jvp(f, (x,), (t,))[1])


def test_complex_tensors_refuse_to_be_objects() -> None:
    """NumPy answers .imag of objects with zeros, .real with themselves; joined, the value is .3 + .3 + .9, by hand."""

    def f(join: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: x[0] + np.sum(join([x[0] * 1j, x[1] * (2 + 1j)]).imag)

    x = A([0.3, 0.9])
    for transform in (dt.value_and_grad, dt.jacfwd):
        with pytest.raises(TypeError, match=r"complex Tensors.*np\.stack"):
            transform(f(np.array))(x)
    np.testing.assert_allclose(dt.vmap(f(np.array))(np.stack([x, x])), [1.5, 1.5], rtol=1e-15)  # one by one
    for join in (np.stack, dt.asarray, dt.array):
        value, slope = dt.value_and_grad(f(join))(x)
        np.testing.assert_allclose(value, 1.5, rtol=1e-15)
        np.testing.assert_allclose(slope, [2.0, 1.0], rtol=1e-15)


OBJECTS: dict[str, Callable[..., Any]] = {
    **{f.__name__: (lambda a, f=f: np.sum(f(a))) for f in (np.sin, np.sqrt, np.abs, np.square, np.cumsum, np.diff)},
    **{f.__name__: f for f in (np.linalg.norm, np.max, np.prod, np.trapezoid)},
    "norm of order 1": lambda a: np.linalg.norm(a, 1),
    "real and imaginary part": lambda a: np.sum(a.real) + np.sum(a.imag),
    "quantile": lambda a: np.quantile(a, 0.3),
    "percentile": lambda a: np.sum(np.percentile(a, [25, 60])),
    "nanquantile": lambda a: np.nanquantile(a, 0.3),
    "comparison": lambda a: np.sum(np.where(a > 0.5, a * a, a)),
    "maximum": lambda a: np.sum(np.maximum(a, A([0.4, 1.2]))),
    "dot": lambda a: a @ a + np.dot(a, A([2.0, 3.0])),
    "einsum": lambda a: np.einsum("i,j->", a, a),
    "polynomial": lambda a: np.polyval(a, 2.0),
    "joined with itself": lambda a: np.sum(np.concatenate([a, a]) ** 2),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_arrays_of_objects_give_what_arrays_give(name: str) -> None:
    """Value and slope of the same text on plain numbers, the slope by differences."""
    x = A([0.3, 0.9])

    def f(x: Any) -> Any:
        return OBJECTS[name](np.array([x[0] * 1.0, x[1] * 2.0]))

    value, slope = dt.value_and_grad(f)(x)
    right = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(slope, right, rtol=1e-8)
    np.testing.assert_allclose(along(f, x, A([1.0, -2.0])), right @ A([1.0, -2.0]), rtol=1e-7)


REFUSED: dict[str, Callable[..., Any]] = {
    "Cannot cast ufunc 'inv'": lambda x: np.sum(np.linalg.inv(np.array([[x[0], x[1]], [x[1], x[1]]]))),
    "setting an array element": lambda x: np.sum(written(np.zeros(2), x[0])),
    "arctan2": lambda x: np.sum(np.arctan2(A([0.4, 1.2]), np.array([x[0], x[1]]))),
    "isfinite": lambda x: np.sum(np.isfinite(np.array([x[0], x[1]]))) * x[0],
    "'erf' not supported": lambda x: np.sum(sc.erf(np.array([x[0], x[1]]))),
    "loop of ufunc": lambda x: np.sum(np.exp(np.array([x[0], 1.0]))),
}


def written(y: Any, value: Any) -> Any:
    y[0] = value
    return y


@pytest.mark.parametrize("message", REFUSED)
def test_what_numpy_refuses_of_objects_comes_with_the_remedy(message: str) -> None:
    """Once, from transforms and blocks alike, however many of them it leaves."""
    f, x = REFUSED[message], A([0.3, 0.9])

    def in_a_block(x: Any) -> Any:
        with dt.GradientTape() as tape:
            y = dt.constant(x)
            tape.watch(y)
            return f(y)

    calls = [
        lambda: dt.grad(f)(x),
        lambda: dt.jvp(f, (x,), (x,)),
        lambda: dt.hessian(f)(x),
        lambda: dt.vmap(dt.grad(f))(np.stack([x, x])),
        lambda: in_a_block(x),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError, AttributeError), match=message) as caught:
            call()
        (note,) = caught.value.__notes__
        assert all(remedy in note for remedy in ("np.stack", "dualtape.asarray", "dualtape.zeros_like"))


def test_other_errors_have_no_remedy() -> None:
    def f(x: Any) -> Any:
        raise ValueError("something else")

    def g(z: Any) -> Any:
        return np.real(dt.special.log_expit(z))  # a kernel that has no complex numbers

    for h, x in ((f, 1.0), (g, 1j)):
        with pytest.raises((ValueError, TypeError)) as caught:
            dt.grad(h)(x)
        assert not getattr(caught.value, "__notes__", [])


def test_a_class_of_dtypes_is_the_dtype_that_numpy_makes_of_it() -> None:
    """np.dtype takes these classes for object; NumPy's functions do not."""
    single = np.dtypes.Float32DType
    x = dt.constant([1.0, 2.0])
    for found in (
        x.astype(single),
        np.sum(x, dtype=single),
        np.add(x, 1.0, dtype=single),
        dt.constant(x, dtype=single),
    ):
        assert found.dtype == np.float32
    with dt.GradientTape() as tape:
        y = dt.constant(1.0)
        tape.watch(y)
        with pytest.raises(TypeError, match="derivative"):
            y.__array__(np.dtypes.Float64DType)
        assert y.__array__(np.dtypes.ObjectDType)[()] is y
