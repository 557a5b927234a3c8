"""The function transforms: every argument form, every result form, every error.

Length: one table of calls, with its misuse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt

X = np.array([0.3, -0.5, 1.2])
A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Model:
    weights: Any
    bias: Any


def close(found: Any, expected: Any) -> bool:
    return np.shape(found) == np.shape(expected) and bool(np.allclose(found, expected, rtol=1e-13, atol=1e-15))


# ------------------------------------------------------------------ grad and value_and_grad
def test_grad_takes_numbers_arrays_tensors_and_variables() -> None:
    f = lambda x: np.sum(np.sin(x))  # noqa: E731
    for x in (X, dt.constant(X), dt.Variable(X), X.astype(np.float32), X[:0], X.reshape(3, 1), X[0], float(X[0])):
        assert np.allclose(dt.grad(f)(x), np.cos(np.asarray(x)), rtol=1e-6)
    assert type(dt.grad(f)(X)) is np.ndarray and isinstance(dt.grad(f)(dt.constant(X)), dt.Tensor)
    assert dt.grad(f)(X.astype(np.float32)).dtype == np.float32


STRUCTURES = {
    "dict": {"a": X, "b": {"c": 2.0}},
    "list": [X, [2.0]],
    "tuple": (X, (2.0,)),
    "named tuple": Pair(X, Pair(2.0, 3.0)),
    "dataclass": Model(X, {"b": 2.0}),
    "with None": [X, None, 2.0],
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_results_have_the_structure_of_the_arguments(name: str) -> None:
    from dualtape.modes.structure import flatten

    p = STRUCTURES[name]
    f = lambda p: sum(np.sum(v * v) for v in flatten(p)[0])  # noqa: E731
    g = dt.grad(f)(p)
    assert type(g) is type(p)
    for found, v in zip(flatten(g)[0], flatten(p)[0], strict=True):
        assert close(found, 2 * np.asarray(v))
    assert type(dt.value_and_grad(f)(p)[1]) is type(p)
    value, t = dt.jvp(f, (p,), (p,))
    assert float(t) == pytest.approx(2 * float(value))
    _, pullback = dt.vjp(f, p)
    assert type(pullback(1.0)[0]) is type(p)
    _, push = dt.linearize(f, p)
    assert float(push(p)) == pytest.approx(float(t))
    product = dt.hvp(f, (p,), (p,))[0]
    assert type(product) is type(p)
    assert all(close(h, 2 * np.asarray(v)) for h, v in zip(flatten(product)[0], flatten(p)[0], strict=True))


def test_argnums() -> None:
    f = lambda x, y, z: x * y**2 * z**3  # noqa: E731
    args = (2.0, 3.0, 1.0)
    assert float(dt.grad(f)(*args)) == 9.0
    assert float(dt.grad(f, 2)(*args)) == 54.0
    assert float(dt.grad(f, -1)(*args)) == 54.0
    assert [float(g) for g in dt.grad(f, (0, -1))(*args)] == [9.0, 54.0]
    assert [float(g) for g in dt.grad(f, [2, 0])(*args)] == [54.0, 9.0]
    assert isinstance(dt.grad(f, (1,))(*args), tuple)
    assert float(dt.grad(lambda n, x: n * x, 1)(3, 2.0)) == 3.0  # the integer is not differentiated


def test_has_aux_and_keywords() -> None:
    def f(x: Any, *, power: int = 2) -> Any:
        return x**power, {"double": 2 * x, "text": power}

    g, aux = dt.grad(f, has_aux=True)(3.0, power=3)
    assert (float(g), float(aux["double"]), int(aux["text"])) == (27.0, 6.0, 3)
    (value, aux), g = dt.value_and_grad(f, has_aux=True)(3.0)
    assert (float(value), float(aux["double"]), float(g)) == (9.0, 6.0, 6.0)
    assert float(dt.value_and_grad(lambda x: x * x)(3.0)[0]) == 9.0
    # what is returned besides can be differentiated by outer levels
    assert float(dt.grad(lambda x: dt.grad(f, has_aux=True)(x)[1]["double"])(3.0)) == 2.0


def test_unused_arguments_have_zeros() -> None:
    g = dt.grad(lambda p: p["a"] * 1.0)({"a": 1.0, "b": X.astype(np.float32)})
    assert close(g["b"], np.zeros(3)) and g["b"].dtype == np.float32
    assert float(dt.grad(lambda x: dt.constant(3.0))(1.0)) == 0.0
    assert float(dt.grad(lambda x: 3.0)(1.0)) == 0.0
    assert float(dt.grad(lambda x: np.sum(np.floor(x)))(1.5)) == 0.0
    _, t = dt.jvp(lambda x: (x, 3.0, X), (1.0,), (1.0,))
    assert [float(np.sum(s)) for s in t] == [1.0, 0.0, 0.0] and t[2].shape == (3,)
    assert close(dt.vjp(lambda x: X, 1.0)[1](X)[0], 0.0)
    assert close(dt.jacobian(lambda x: X)(X), np.zeros((3, 3)))
    assert close(dt.hessian(lambda x: np.sum(x))(X), np.zeros((3, 3)))


def test_variables_inside_the_function_are_constants_of_it() -> None:
    v = dt.Variable(3.0)
    assert float(dt.grad(lambda x: x * v * v)(2.0)) == 9.0
    with dt.GradientTape() as tape:
        g = dt.grad(lambda x: x * v * v)(2.0)
    assert float(tape.gradient(g, v)) == 6.0


def test_the_function_writes_into_a_copy_of_its_argument() -> None:
    x = X.copy()

    def f(y: Any, copied: bool) -> Any:
        z = y.copy() if copied else y
        z[0] = 10.0
        return np.sum(z * z)

    assert close(dt.grad(f)(x, True), [0.0, -1.0, 2.4])
    with pytest.raises(ValueError, match=r"watched as a source.*y = dualtape\.copy\(x\)"):
        dt.grad(f)(x, False)
    assert np.array_equal(x, X)


def test_what_happens_to_an_array_afterwards_does_not_matter() -> None:
    x, v = X.copy(), X.copy()
    value, pullback = dt.vjp(lambda x: x * x, x)
    _, push = dt.linearize(lambda x: x * x, x)
    with dt.GradientTape():
        t = dt.jvp(lambda x: x * x, (x,), (v,))[1]
    x[:], v[:] = 0.0, 0.0
    assert close(value, X * X) and close(t, 2 * X * X)
    assert close(pullback(X)[0], 2 * X * X) and close(push(X), 2 * X * X)


def test_names_and_documentation() -> None:
    def cube(x: Any) -> Any:
        return x**3

    g = dt.grad(cube)
    assert g.__name__ == "grad(cube)" and g.__wrapped__ is cube


def test_complex_arguments_follow_the_convention() -> None:
    """A real function has the conjugate of the holomorphic derivative as its gradient: the steepest ascent."""
    z = np.array([1.0 + 2.0j, -0.5j])
    assert close(dt.grad(lambda z: np.sum(np.real(z * z)))(z), np.conj(2 * z))
    assert close(dt.grad(lambda z: np.sum(np.abs(z) ** 2))(z), 2 * z)
    assert close(dt.jvp(lambda z: z * z, (z,), (1j * z,))[1], 2j * z * z)
    assert close(dt.vjp(lambda z: z * z, z)[1](z)[0], z * np.conj(2 * z))
    for jac in (dt.jacfwd, dt.jacrev):
        assert close(jac(lambda z: z * z)(z), np.diag(2 * z))
    # real arguments of complex results have real gradients
    g = dt.vjp(lambda x: x * (1 + 2j), X)[1](X * (1 + 1j))[0]
    assert g.dtype == np.float64 and close(g, 3 * X)
    assert dt.grad(lambda x: np.sum(np.abs(np.exp(1j * x) + x)))(X).dtype == np.float64


# ------------------------------------------------------------------ jvp, vjp, linearize
def test_jvp() -> None:
    value, t = dt.jvp(lambda x, y: x @ y, (A, X), (np.ones_like(A), X))
    assert close(value, A @ X) and close(t, np.ones_like(A) @ X + A @ X)
    _, t = dt.jvp(lambda x: {"a": x, "b": [x * x]}, (3.0,), (2.0,))
    assert (float(t["a"]), float(t["b"][0])) == (2.0, 12.0)
    assert float(dt.jvp(np.sin, [0.0], [2])[1]) == 2.0  # lists, and a tangent of whole numbers


def test_vjp_may_be_used_many_times_and_with_every_structure() -> None:
    value, pullback = dt.vjp(lambda x, y: {"p": x * y, "s": np.sum(y)}, 2.0, X)
    assert close(value["p"], 2 * X)
    for k in (1.0, 2.0):
        gx, gy = pullback({"p": k * np.ones(3), "s": 1.0})
        assert close(gx, k * np.sum(X)) and close(gy, 2 * k + np.ones(3))
    gx, gy = pullback({"p": np.zeros(3), "s": 1.0})
    assert close(gx, 0.0)
    assert [float(g) for g in dt.vjp(np.multiply, 2.0, 3.0)[1](1)] == [3.0, 2.0]


def test_linearize_repeats_no_nonlinear_work() -> None:
    calls: list[int] = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return np.exp(x) * y, np.sum(y)

    _, push = dt.linearize(f, X, X)
    for _ in range(3):
        t, s = push(X, np.ones(3))
        assert close(t, np.exp(X) * X * X + np.exp(X)) and float(s) == 3.0
    assert len(calls) == 1
    t, s = push(np.zeros(3), np.zeros(3))
    assert close(t, np.zeros(3)) and float(s) == 0.0


def test_the_adjoint_identity() -> None:
    f = lambda x, y: np.tanh(x @ y) * x[:, 0]  # noqa: E731
    t, s, w = np.cos(A), np.sin(X), np.array([0.7, -0.2])
    pushed = dt.jvp(f, (A, X), (t, s))[1]
    ga, gx = dt.vjp(f, A, X)[1](w)
    assert float(w @ pushed) == pytest.approx(float(np.sum(ga * t) + gx @ s), rel=1e-14)
    assert close(dt.linearize(f, A, X)[1](t, s), pushed)


# ------------------------------------------------------------------ second order
@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
def test_hvp(order: str) -> None:
    f = lambda x: np.sum(np.exp(x) * x[::-1])  # noqa: E731
    v = np.array([1.0, -2.0, 0.5])
    h = np.diag(np.exp(X) * X[::-1])
    for j in range(3):
        h[j, 2 - j] += np.exp(X[j])
        h[2 - j, j] += np.exp(X[j])
    product = dt.hvp(f, X, v, order=order)
    assert isinstance(product, np.ndarray) and close(product, h @ v)
    a, b = dt.hvp(lambda x, y: np.sum(x * y**2), (2.0, X), (1.0, X), order=order)
    assert close(a, 2 * np.sum(X * X)) and close(b, 2 * X * 1.0 + 2 * 2.0 * X)
    p = dt.hvp(lambda p: p["a"] ** 3 + np.sum(p["b"]), {"a": 2.0, "b": X}, {"a": 1.0, "b": X}, order=order)
    assert float(p["a"]) == 12.0 and close(p["b"], np.zeros(3))
    z = np.array([1.0 + 1.0j])
    assert close(dt.hvp(lambda z: np.sum(np.abs(z) ** 2), z, 1j * z, order=order), 2j * z)


def test_hessian() -> None:
    f = lambda x: np.sum(x**2) * x[0]  # noqa: E731
    h = dt.hessian(f)(X)
    expected = 2 * X[0] * np.eye(3)
    expected[0] += 2 * X
    expected[:, 0] += 2 * X
    assert close(h, expected)
    (xx, xy), (yx, yy) = dt.hessian(lambda x, y: x**2 * y**3, (0, 1))(2.0, 3.0)
    assert [float(b) for b in (xx, xy, yx, yy)] == [54.0, 108.0, 108.0, 72.0]
    assert dt.hessian(lambda m: np.sum(m**3))(A).shape == (2, 3, 2, 3)


# ------------------------------------------------------------------ Jacobians
JACOBIANS: dict[str, Callable[..., Any]] = {
    "jacfwd": dt.jacfwd,
    "jacrev": dt.jacrev,
    "auto": dt.jacobian,
    "forward": lambda f, argnums=0: dt.jacobian(f, argnums, mode="forward"),
    "reverse": lambda f, argnums=0: dt.jacobian(f, argnums, mode="reverse"),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name: str) -> None:
    jac = JACOBIANS[name]
    assert close(jac(lambda x: A @ x)(X), A)
    assert close(jac(lambda x: np.sum(x))(X), np.ones(3))
    assert close(jac(lambda x: x * X)(2.0), X)
    assert close(jac(lambda x: x**2)(3.0), 6.0)
    j = jac(lambda m: m @ X)(A)
    assert j.shape == (2, 2, 3) and close(j, np.einsum("ik,j->ikj", np.eye(2), X))
    assert jac(lambda x: x * 2)(np.ones((1, 0))).shape == (1, 0, 1, 0)
    # structures: that of the result, and within it that of the argument
    j = jac(lambda p: {"u": p[0] * p[1]["a"], "v": p[0]})([2.0, {"a": X}])
    assert close(j["u"][0], X) and close(j["u"][1]["a"], 2 * np.eye(3)) and close(j["v"][1]["a"], np.zeros(3))
    jx, jy = jac(lambda x, y: x * y, (0, 1))(X, 2.0)
    assert close(jx, 2 * np.eye(3)) and close(jy, X)
    (jy,) = jac(lambda x, y: x * y, (-1,))(X, 2.0)
    assert close(jy, X)
    assert jac(lambda x: np.exp(x))(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_of_complex_results(name: str) -> None:
    jac = JACOBIANS[name]
    assert close(jac(lambda t: np.exp(1j * t))(1.0), 1j * np.exp(1j))
    assert close(jac(lambda x: np.sum(x) * 1j)(X), np.full(3, 1j))
    assert close(jac(lambda x: A @ x * (1 + 2j))(X), A * (1 + 2j))
    single = jac(lambda x: x * np.complex64(1j))(X.astype(np.float32))
    assert single.dtype == np.complex64 and close(single, 1j * np.eye(3))
    # A real and a complex argument, a real and a complex result.
    f = lambda x, z: {"real": x * x, "complex": x * z**2, "whole": np.argmax(x)}  # noqa: E731
    z = X + 1j
    j = jac(f, (0, 1))(X, z)
    assert close(j["real"][0], np.diag(2 * X)) and close(j["real"][1], np.zeros((3, 3)))
    assert close(j["complex"][0], np.diag(z**2)) and close(j["complex"][1], np.diag(2 * X * z))
    assert close(j["whole"][1], np.zeros(3))
    assert close(jac(lambda z: A @ z * 1j)(z), A * 1j)
    assert jac(lambda z: z[:0])(z).shape == (0, 3)


NOT_HOLOMORPHIC: dict[str, Callable[..., Any]] = {
    "conjugate": np.conj,
    "real part": np.real,
    "absolute value": lambda z: np.sum(np.abs(z)),
    "one element of many": lambda z: np.stack([1e6 * z[0], z[1], z[2] + 1e-3 * z[2].conjugate()]),
    "beside one that is": lambda z: (z * z, z * np.conj(z)),
}


@pytest.mark.parametrize("how", NOT_HOLOMORPHIC)
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_of_functions_that_are_not_holomorphic_are_refused(name: str, how: str) -> None:
    with pytest.raises(TypeError, match=r"jac(fwd|rev): .*not holomorphic.*jacobian\(lambda a, b"):
        JACOBIANS[name](NOT_HOLOMORPHIC[how])(X + 1j)


def test_the_way_out_for_functions_that_are_not_holomorphic() -> None:
    for jac in (dt.jacfwd, dt.jacrev, dt.jacobian):
        by_real, by_imaginary = jac(lambda a, b: np.conj(a + 1j * b), (0, 1))(X, X)
        assert close(by_real, np.eye(3)) and close(by_imaginary, -1j * np.eye(3))
    real_part = lambda z: np.sum(np.real(z**2))  # noqa: E731
    with pytest.raises(TypeError, match=r"not holomorphic.*hvp"):
        dt.hessian(real_part)(X + 1j)
    assert close(dt.hvp(real_part, X + 1j, X * 1j), X * -2j)
    assert close(dt.hessian(lambda z: np.sum(np.abs(z) ** 2))(X + 1j), 2 * np.eye(3))


def test_jacobian_explains_its_choice() -> None:
    j, why = dt.jacobian(lambda x: A @ x, explain=True)(X)
    assert close(j, A) and why == "reverse mode: 3 input and 2 output elements"
    _, why = dt.jacobian(lambda x: A.T @ x, explain=True)(X[:2])
    assert why == "forward mode: 2 input and 3 output elements"
    _, why = dt.jacobian(lambda x: A @ x * 1j, explain=True)(X)
    assert why == "forward mode: 3 input and 2 output elements, complex"
    _, why = dt.jacobian(lambda x: x, mode="reverse", explain=True)(X)
    assert why == "reverse mode: asked for"


@pytest.mark.parametrize("name", JACOBIANS)
def test_results_in_python_s_clothing(name: str) -> None:
    """np.array([...]) and lists of Tensors, as right-hand sides of ODEs are written."""
    jac = JACOBIANS[name]
    expected = np.array([[0.0, 1.0], [-math.cos(0.3), 0.0]])
    assert close(jac(lambda s: np.array([s[1], -np.sin(s[0])]))(np.array([0.3, 0.1])), expected)
    j = jac(lambda s: [s[1], -np.sin(s[0])])(np.array([0.3, 0.1]))
    assert isinstance(j, list) and close(j[0], expected[0]) and close(j[1], expected[1])
    j = jac(lambda s: np.array([[s[0], 0.0], [1.0, s[1]]]))(np.array([0.3, 0.1]))
    assert j.shape == (2, 2, 2) and close(j[1, 1], [0.0, 1.0])
    assert close(jac(lambda s: np.asarray([s[1], 2.0]))(np.array([0.3, 0.1])), [[0.0, 1.0], [0.0, 0.0]])


def test_np_array_of_tensors_in_the_other_transforms() -> None:
    f = lambda s: np.array([s[1], s[0] * s[1]])  # noqa: E731
    s = np.array([2.0, 3.0])
    value, t = dt.jvp(f, (s,), (s,))
    assert isinstance(value, np.ndarray) and close(value, [3.0, 6.0]) and close(t, [3.0, 12.0])
    assert close(dt.vjp(f, s)[1](np.array([1.0, 10.0]))[0], [30.0, 21.0])
    assert close(dt.linearize(f, s)[1](s), [3.0, 12.0])
    assert close(dt.grad(lambda s: np.sum(f(s)))(s), [3.0, 3.0])
    assert close(dt.grad(lambda s: np.array(s[0] * s[1]))(s), [3.0, 2.0])
    assert close(dt.hessian(lambda s: np.sum(f(s)))(s), [[0.0, 1.0], [1.0, 0.0]])
    assert close(dt.grad(lambda p: np.sum(np.array(p) ** 2))([1.0, 2.0])[1], 4.0)


# ------------------------------------------------------------------ errors
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "grad of a vector": (
        lambda: dt.grad(np.sin)(X),
        ValueError,
        r"grad needs a scalar result, but sin returned shape \(3,\): use jacobian .*, vjp .*, or sum the result",
    ),
    "value_and_grad of a vector": (lambda: dt.value_and_grad(np.sin)(X), ValueError, "value_and_grad needs a scalar"),
    "hvp of a vector": (lambda: dt.hvp(np.sin, X, X), ValueError, r"needs a scalar result.*\(3,\)"),
    "hessian of a vector": (lambda: dt.hessian(np.sin)(X), ValueError, "needs a scalar result"),
    "grad of a pair": (lambda: dt.grad(lambda x: (x, x))(1.0), TypeError, "got a tuple.*has_aux=True"),
    "grad of a list": (lambda: dt.grad(lambda x: [x])(1.0), TypeError, "scalar result, got a list"),
    "grad of None": (lambda: dt.grad(lambda x: None)(1.0), TypeError, "scalar result, got None"),
    "grad of a complex result": (
        lambda: dt.grad(lambda z: z * z)(1j),
        TypeError,
        r"grad needs a real result, .* complex: differentiate its real part, np\.real\(f\(x\)\), or use vjp",
    ),
    "grad of an integer result": (lambda: dt.grad(lambda x: np.argmax(x))(X), TypeError, "real result.*int64"),
    "no aux": (lambda: dt.grad(lambda x: x, has_aux=True)(1.0), TypeError, r"returns a pair \(value, aux\)"),
    "an array of booleans": (
        lambda: dt.jvp(np.sin, (X > 0,), (X,)),
        TypeError,
        r"jvp: argument 0 is of dtype bool: .* convert with astype\(float\)",
    ),
    "a Tensor of integers": (lambda: dt.vjp(np.sin, dt.constant([1, 2])), TypeError, "vjp.*argument 0.*int64"),
    "a boolean in a structure": (lambda: dt.grad(lambda p: p["a"])({"a": 1.0, "b": True}), TypeError, r"0 \(leaf 1\)"),
    "a string": (lambda: dt.grad(lambda x: x)("text"), TypeError, "argument 0 is a str"),
    "an object": (lambda: dt.jacfwd(lambda x: x)(object()), TypeError, "argument 0 is a object"),
    "argnums out of range": (
        lambda: dt.grad(lambda x: x, 1)(1.0),
        TypeError,
        r"argnums=1, but the function was called with 1 argument",
    ),
    "one argnum out of range": (lambda: dt.grad(lambda x: x, (0, 3))(1.0), TypeError, r"argnums=\(0, 3\)"),
    "jvp: the tangent's shape": (
        lambda: dt.jvp(np.sin, (X,), (np.ones(2),)),
        ValueError,
        r"tangent of argument 0 of jvp has shape \(2,\), but argument 0 of jvp has shape \(3,\)",
    ),
    "jvp: too few tangents": (lambda: dt.jvp(np.multiply, (1.0, 2.0), (1.0,)), ValueError, "2 primals and 1 tangents"),
    "jvp: no tuple": (lambda: dt.jvp(np.sin, X, X), TypeError, r"jvp: primals is a tuple.*got ndarray"),
    "jvp: no tuple of tangents": (lambda: dt.jvp(np.sin, (X,), X), TypeError, r"jvp: tangents is a tuple.*got ndarray"),
    "jvp: a complex tangent": (lambda: dt.jvp(np.sin, (X,), (1j * X,)), ValueError, "complex.*real"),
    "jvp: the tangent's structure": (
        lambda: dt.jvp(lambda p: p["a"], ({"a": 1.0, "b": 2.0},), ({"a": 1.0},)),
        ValueError,
        "argument 0 of jvp: .* the same nested structure: keys",
    ),
    "vjp: the cotangent's shape": (
        lambda: dt.vjp(np.sin, X)[1](np.ones(2)),
        ValueError,
        r"vjp: the cotangent has shape \(2,\), but the result has shape \(3,\)",
    ),
    "vjp: the cotangent's structure": (lambda: dt.vjp(lambda x: (x, x), 1.0)[1](1.0), ValueError, "."),
    "linearize: the tangent's shape": (lambda: dt.linearize(np.sin, X)[1](np.ones(2)), ValueError, r"push.*\(2,\)"),
    "linearize: too many tangents": (lambda: dt.linearize(np.sin, X)[1](X, X), ValueError, "1 arguments and 2 tan"),
    "hvp: an unknown order": (
        lambda: dt.hvp(np.sum, X, X, order="forward"),
        ValueError,
        r'order is "fr", "rf", "rr" or "ff" \(outer mode first\), not \'forward\'',
    ),
    "hvp: the direction's shape": (lambda: dt.hvp(np.sum, X, X[:2]), ValueError, r"\(2,\).*\(3,\)"),
    "hvp: no tuple": (lambda: dt.hvp(lambda x, y: x * y, (1.0, 2.0), 1.0), TypeError, "tangents is a tuple"),
    "jacobian: an unknown mode": (
        lambda: dt.jacobian(np.sin, mode="backward"),
        ValueError,
        'mode is "auto", "forward" or "reverse"',
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong_and_what_to_do(name: str) -> None:
    call, error, says = ERRORS[name]
    with pytest.raises(error, match=says):
        call()
    assert float(dt.grad(np.sin)(0.0)) == 1.0  # nothing is left half done


@pytest.mark.parametrize(
    "transform", [dt.grad, dt.value_and_grad, dt.jacfwd, dt.jacrev, dt.jacobian, dt.hessian, dt.vjp, dt.linearize]
)
def test_what_is_not_a_function_is_refused(transform: Any) -> None:
    with pytest.raises(TypeError, match=rf"{transform.__name__}\(f, \.\.\.\) takes a function first, got int"):
        transform(3)


def test_the_other_two_refuse_it_too() -> None:
    with pytest.raises(TypeError, match=r"jvp\(f, \.\.\.\) takes a function first"):
        dt.jvp(3, (1.0,), (1.0,))
    with pytest.raises(TypeError, match=r"hvp\(f, \.\.\.\) takes a function first"):
        dt.hvp(3, 1.0, 1.0)


def test_an_exception_in_the_function_passes_through() -> None:
    def fails(x: Any) -> Any:
        raise ZeroDivisionError(float(np.shape(x) == ()))

    for call in (
        lambda: dt.grad(fails)(1.0),
        lambda: dt.jvp(fails, (1.0,), (1.0,)),
        lambda: dt.vjp(fails, 1.0),
        lambda: dt.linearize(fails, 1.0),
        lambda: dt.hvp(fails, 1.0, 1.0),
        lambda: dt.jacobian(fails)(1.0),
    ):
        with pytest.raises(ZeroDivisionError):
            call()
    with dt.GradientTape() as tape:
        x = dt.constant(1.0)
        tape.watch(x)
        with pytest.raises(ZeroDivisionError):
            dt.grad(fails)(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 2.0


def test_a_zero_beats_an_infinite_slope_in_every_transform() -> None:
    """What ``jvp`` says of a zero tangent, the linear map and all Jacobians say as well."""
    x = np.array([0.0, 4.0])
    assert float(dt.linearize(np.sqrt, 0.0)[1](0.0)) == 0.0
    for jacobian in (dt.jacfwd, dt.jacrev):
        assert np.array_equal(np.asarray(jacobian(np.sqrt)(x)), [[np.inf, 0.0], [0.0, 0.25]])
    assert np.array_equal(np.asarray(dt.hessian(lambda x: np.sum(x**1.5))(x)), [[np.inf, 0.0], [0.0, 0.375]])
