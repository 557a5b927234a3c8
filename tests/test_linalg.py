"""Linear algebra: what the table's cases cannot say - errors, coinciding values, arbitrary phases, names, imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads

L = np.linalg
random = np.random.default_rng(3)


def draw(*shape: int) -> Any:
    return random.standard_normal(shape)


def complexes(*shape: int) -> Any:
    return draw(*shape) + 1j * draw(*shape)


def gradient(f: Any, x: Any) -> Any:
    return dt.grad(f)(x)


# ------------------------------------------------------------------ names
def test_the_module_has_numpys_names() -> None:
    missing = {name for name in L.__all__ if not hasattr(dt.linalg, name)}
    assert missing == set()
    assert set(dt.linalg.__all__) >= {"solve", "svd", "norm"}


def test_functions_of_the_module_take_plain_arrays() -> None:
    a, b = draw(3, 3), draw(3)
    x = dt.linalg.solve(a, b)
    assert isinstance(x, dt.Tensor)
    np.testing.assert_allclose(x.numpy(), L.solve(a, b))
    np.testing.assert_allclose(dt.linalg.trace(draw(2, 3, 3) * 0 + 1).numpy(), [3.0, 3.0])


def test_results_have_numpys_field_names() -> None:
    a = dt.constant(draw(3, 3) + 3 * np.eye(3))
    assert L.eigh(a)._fields == ("eigenvalues", "eigenvectors")
    assert L.svd(a)._fields == ("U", "S", "Vh")
    assert L.qr(a)._fields == ("Q", "R")
    assert L.slogdet(a)._fields == ("sign", "logabsdet")


def test_integer_matrices_are_converted() -> None:
    a = dt.constant([[2, 1], [1, 3]])
    np.testing.assert_allclose(L.solve(a, dt.constant([1, 0])).numpy(), L.solve(a.numpy(), [1, 0]))
    assert L.det(a).dtype == np.float64


def test_importing_the_rows_does_not_import_scipy() -> None:
    code = "import sys, dualtape, dualtape.linalg; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ------------------------------------------------------------------ values at any order
@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
def test_hessian_products_of_the_log_determinant(order: str) -> None:
    a, v = draw(3, 3) + 4 * np.eye(3), draw(3, 3)
    got = dt.hvp(lambda x: L.slogdet(x)[1], a, v, order)
    inverse = L.inv(a)
    np.testing.assert_allclose(got, -(inverse @ v @ inverse).T, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_derivative_of_a_determinant_of_any_rank(rank: int) -> None:
    """The determinant is a polynomial: its Taylor expansion of third order is exact for three rows."""
    a, v = draw(3, rank) @ draw(rank, 3), draw(3, 3)

    def slope(g: Any) -> Any:
        return lambda t: dt.jvp(g, (t,), (np.float64(1.0),))[1]

    f = lambda t: L.det(a + t * v)  # noqa: E731
    zero = np.float64(0.0)
    taylor = [f(dt.constant(zero)), slope(f)(zero), slope(slope(f))(zero) / 2, slope(slope(slope(f)))(zero) / 6]
    for t in (-0.7, 1.3):
        expected = L.det(a + t * v)
        total = sum(float(c) * t**k for k, c in enumerate(taylor))
        np.testing.assert_allclose(total, expected, rtol=1e-10, atol=1e-12)


def test_gradient_of_a_nearly_singular_determinant_keeps_its_digits() -> None:
    u, v = (L.qr(draw(4, 4))[0] for _ in range(2))
    s = np.array([1.0, 0.5, 1e-9, 1e-14])
    a = (u * s) @ v
    cofactors = L.det(u) * L.det(v) * (u * np.array([np.prod(np.delete(s, k)) for k in range(4)])) @ v
    np.testing.assert_allclose(gradient(L.det, a), cofactors, rtol=1e-5, atol=1e-5 * np.abs(cofactors).max())


def test_a_stack_is_differentiated_matrix_by_matrix() -> None:
    a = draw(4, 3, 3)
    for f in (L.inv, L.det, lambda x: L.slogdet(x)[1], lambda x: L.svd(x, compute_uv=False)):
        whole = gradient(lambda x, f=f: np.sum(f(x)), a)
        for k in range(4):
            one = gradient(lambda x, f=f: np.sum(f(x)), a[k])
            np.testing.assert_allclose(whole[k], one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [L.inv, L.det, L.cholesky, L.eigvalsh, lambda x: L.svd(x)[1]], ids=lambda f: f.__name__)
def test_empty_stacks(f: Any) -> None:
    assert gradient(lambda x: np.sum(f(x)), np.zeros((0, 3, 3))).shape == (0, 3, 3)


# ------------------------------------------------------------------ coinciding values, arbitrary vectors
def test_eigenvalues_that_coincide_up_to_rounding() -> None:
    q = L.qr(draw(4, 4))[0]
    a = (q * np.array([1.0, 1.0, 1.0, 2.0])) @ q.T
    a = (a + a.T) / 2
    w_only = gradient(lambda x: np.sum(np.exp(L.eigh(x)[0])), a)
    np.testing.assert_allclose(w_only, (q * np.exp([1.0, 1.0, 1.0, 2.0])) @ q.T, rtol=1e-10, atol=1e-12)
    weights = draw(4, 4)
    assert np.isnan(gradient(lambda x: np.sum(weights * L.eigh(x)[1]), a)).all()


def test_the_vector_of_a_single_eigenvalue_beside_repeated_ones() -> None:
    q = L.qr(draw(4, 4))[0]
    a, c = (q * np.array([1.0, 1.0, 1.0, 2.0])) @ q.T, draw(4)

    def f(x: Any) -> Any:
        return np.abs(c @ L.eigh((x + x.T) / 2)[1][:, 3])

    check_grads(f, ((a + a.T) / 2,), 1)


def test_singular_values_that_coincide() -> None:
    np.testing.assert_allclose(gradient(lambda x: np.sum(L.svd(x)[1]), np.eye(3)), np.eye(3), atol=1e-12)
    assert np.isnan(gradient(lambda x: np.sum(L.svd(x)[0] ** 3), np.eye(3))).any()


@pytest.mark.parametrize(("f", "name"), [(L.eigh, "eigh"), (L.eig, "eig"), (L.svd, "svd")])
def test_the_phase_of_complex_vectors_has_no_derivative(f: Any, name: str) -> None:
    a = complexes(3, 3)
    a = a + a.conj().T if name == "eigh" else a
    which = 0 if name == "svd" else 1
    with pytest.raises(ValueError, match=rf"{name}.*phase"):
        dt.grad(lambda x: np.sum(np.imag(f(x)[which] ** 2)))(a)


def test_the_arbitrary_vectors_of_a_full_decomposition_have_no_derivative() -> None:
    a = draw(4, 2)
    with pytest.raises(ValueError, match=r"svd.*beyond the first 2.*full_matrices=False"):
        dt.grad(lambda x: np.sum(L.svd(x)[0] ** 3))(a)
    tangent = dt.jvp(lambda x: L.svd(x)[0], (a,), (draw(4, 2),))[1]
    assert np.isfinite(tangent[:, :2]).all() and np.isnan(tangent[:, 2:]).all()


def test_symmetric_factorisations_have_symmetric_gradients() -> None:
    a = draw(3, 3)
    a = a @ a.T + 3 * np.eye(3)
    for f in (L.cholesky, L.eigvalsh):
        g = gradient(lambda x, f=f: np.sum(np.sin(f(x))), a)
        np.testing.assert_allclose(g, g.T, atol=1e-12)


# ------------------------------------------------------------------ bad input
BAD: list[tuple[Any, Any, str]] = [
    (lambda: L.solve(dt.constant(draw(3, 2)), draw(3)), L.LinAlgError, r"solve.*\(3, 2\).*lstsq"),
    (lambda: L.solve(dt.constant(draw(3, 3)), draw(2)), L.LinAlgError, r"solve.*\(3, 3\).*\(3,\).*got \(2,\)"),
    (lambda: L.solve(dt.constant(draw(2, 3, 3)), draw(2, 3)), L.LinAlgError, r"b\[\.\.\., None\]"),
    (lambda: L.inv(dt.constant(np.zeros((2, 2)))), L.LinAlgError, "Singular"),
    (lambda: L.det(dt.constant(draw(3))), L.LinAlgError, r"det.*\(3,\)"),
    (lambda: L.cholesky(dt.constant(-np.eye(2))), L.LinAlgError, "positive definite"),
    (lambda: L.eigh(dt.constant(np.eye(2)), "X"), ValueError, "eigh.*UPLO"),
    (lambda: L.qr(dt.constant(draw(3, 2)), "complete"), TypeError, "qr.*complete.*reduced"),
    (lambda: L.norm(dt.constant(draw(3)), "nuc"), ValueError, "ord"),
    (lambda: L.norm(dt.constant(draw(3, 3)), 3), ValueError, "norm.*3"),
    (lambda: L.norm(dt.constant(draw(3, 3)), axis=2), np.exceptions.AxisError, "norm.*axis 2"),
    (lambda: L.multi_dot([dt.constant(draw(3, 2)), draw(3, 2)]), ValueError, r"multi_dot.*\(3, 2\)"),
    (lambda: L.matrix_power(dt.constant(np.eye(2)), 0.5), TypeError, "matrix_power.*float"),
    (lambda: np.cross(dt.constant(draw(4)), draw(4)), ValueError, r"cross.*\(4,\)"),
    (lambda: np.diagonal(dt.constant(draw(3))), ValueError, r"diagonal.*\(3,\).*diag"),
    (lambda: np.diagonal(dt.constant(draw(3, 3)), 0, 1, 1), ValueError, "axis1"),
    (lambda: np.diag(dt.constant(draw(2, 2, 2))), ValueError, r"diag.*\(2, 2, 2\).*diagonal"),
    (lambda: np.trace(dt.constant(draw(3, 3)), out=np.zeros(())), TypeError, "trace.*out"),
    (lambda: dt.linalg.tensorsolve(draw(4, 2), draw(4)), L.LinAlgError, "tensorsolve"),
]


@pytest.mark.parametrize(("call", "error", "match"), BAD)
def test_bad_input(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call()
    with dt.GradientTape() as tape:
        x = dt.constant(2.0)
        tape.watch(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 4.0


def test_a_tracked_tensor_is_not_written_into_a_plain_array() -> None:
    v = dt.constant(np.ones(2))
    with dt.GradientTape() as tape:
        tape.watch(v)
        with pytest.raises(TypeError, match="lose its derivative"):
            np.fill_diagonal(np.zeros((2, 2)), v)
