"""Special functions: what the table's cases cannot say - reference values, orders, tails, names, refusals."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sc

import dualtape as dt

mpmath.mp.dps = 50


def derivative(f: Any, x: float, order: int = 1) -> float:
    """The derivative by repeated reverse mode."""
    for _ in range(order):
        f = dt.grad(f)
    return float(f(np.float64(x)))


def reference(f: Any, x: float, order: int = 1) -> float:
    return float(mpmath.diff(f, mpmath.mpf(x), order))


def close(got: float, expected: float, rtol: float) -> None:
    assert got == pytest.approx(expected, rel=rtol, abs=0.0)


def test_scipys_names() -> None:
    for name in dt.special.__all__:
        assert hasattr(sc, name) or name in ("sinc", "softplus"), name  # (the latter is not in SciPy 1.13)
        assert callable(getattr(dt.special, name)), name


# Points where a formula as found in books cancels, overflows or divides by zero.
HARD: list[tuple[Any, Any, float, float]] = [
    (sc.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 11.9, 1e-12),
    (sc.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 12.1, 1e-14),
    (sc.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), -50.0, 1e-14),
    (sc.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), -19.9, 1e-13),
    (sc.expit, lambda x: 1 / (1 + mpmath.exp(-x)), 40.0, 1e-14),
    (sc.exprel, lambda x: mpmath.expm1(x) / x, 1e-5, 1e-14),
    (sc.exprel, lambda x: mpmath.expm1(x) / x, 1.01, 1e-13),
    (sc.rgamma, mpmath.rgamma, -2.0001, 1e-12),
    (sc.gammaln, lambda x: mpmath.log(abs(mpmath.gamma(x))), -2.3, 1e-13),
    (sc.psi, mpmath.psi0 if hasattr(mpmath, "psi0") else mpmath.digamma, 0.3, 1e-14),
    (sc.spence, lambda x: mpmath.polylog(2, 1 - x), 1.001, 1e-13),
    (sc.j1, lambda x: mpmath.besselj(1, x), 1e-3, 1e-13),
    (sc.i1e, lambda x: mpmath.exp(-x) * mpmath.besseli(1, x), 30.0, 1e-12),
]


@pytest.mark.parametrize(("f", "exact", "x", "rtol"), HARD)
def test_hard_points(f: Any, exact: Any, x: float, rtol: float) -> None:
    close(derivative(f, x), reference(exact, x), rtol)
    close(derivative(f, x, 2), reference(exact, x, 2), rtol * 1e3)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_recursions_are_exact_at_every_order(order: int) -> None:
    close(derivative(sc.gammaln, 2.5, order), float(mpmath.psi(order - 1, 2.5)), 1e-12)
    close(derivative(sc.erf, 0.4, order), reference(mpmath.erf, 0.4, order), 1e-12)
    close(derivative(sc.j0, 1.3, order), reference(lambda x: mpmath.besselj(0, x), 1.3, order), 1e-11)


@pytest.mark.parametrize(
    ("a", "x"), [(0.5, 0.2), (3.0, 4.0), (20.0, 18.0), (2.0, 30.0), (50.0, 99.0), (0.01, 1e-3), (1000.0, 1100.0)]
)
def test_incomplete_gamma_by_its_parameter(a: float, x: float) -> None:
    exact = reference(lambda s: mpmath.gammainc(s, 0, x, regularized=True), a)
    close(derivative(lambda s: sc.gammainc(s, x), a), exact, 1e-11)
    close(derivative(lambda s: sc.gammaincc(s, x), a), -exact, 1e-11)


@pytest.mark.parametrize(("a", "b", "x"), [(0.5, 0.5, 0.9), (2.0, 3.0, 0.1), (20.0, 3.0, 0.99), (50.0, 60.0, 0.1)])
def test_incomplete_beta_by_its_parameters(a: float, b: float, x: float) -> None:
    by_a = reference(lambda s: mpmath.betainc(s, b, 0, x, regularized=True), a)
    by_b = reference(lambda s: mpmath.betainc(a, s, 0, x, regularized=True), b)
    close(derivative(lambda s: sc.betainc(s, b, x), a), by_a, 1e-11)
    close(derivative(lambda s: sc.betainc(a, s, x), b), by_b, 1e-11)


@pytest.mark.parametrize(("v", "x"), [(0.0, 1.0), (1.0, 0.1), (2.5, 7.0), (-0.5, 8.0), (20.0, 3.0), (3.0, 50.0)])
def test_bessel_functions_by_their_order(v: float, x: float) -> None:
    for ours, exact in ((sc.jv, mpmath.besselj), (sc.iv, mpmath.besseli), (sc.kv, mpmath.besselk)):
        expected = reference(lambda s, exact=exact: exact(s, x), v)
        got = derivative(lambda s, ours=ours: ours(s, x), v)
        assert got == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_scipys_own_zeta_and_lambertw_take_tensors() -> None:
    close(derivative(lambda q: sc.zeta(3.0, q), 0.7), -3 * float(sc.zeta(4.0, 0.7)), 1e-14)
    w = float(np.real(sc.lambertw(0.7)))
    close(derivative(lambda z: np.real(sc.lambertw(z)), 0.7), w / (0.7 * (1 + w)), 1e-13)


# ------------------------------------------------------------------ no silent zeros
REFUSED: list[tuple[Any, str]] = [
    (lambda v: sc.yv(v, 1.0), "yv.*'v'"),
    (lambda v: dt.special.zeta(v, 2.0), "zeta.*'x'"),
    (lambda v: dt.special.polygamma(v, 2.0), "polygamma.*'n'"),
    (lambda v: sc.hyp1f1(v, 2.0, 0.5), "hyp1f1.*'a'"),
    (lambda v: sc.hyp0f1(v, 0.5), "hyp0f1.*'v'"),
    (lambda v: sc.hyp2f1(0.5, v, 2.0, 0.5), "hyp2f1.*'b'"),
]


@pytest.mark.parametrize(("f", "match"), REFUSED)
def test_derivatives_that_are_not_known_raise(f: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        dt.grad(f)(np.float64(1.5))
    with pytest.raises(TypeError, match=match):
        dt.jvp(f, (np.float64(1.5),), (np.float64(1.0),))


def test_bad_dimension_of_multigammaln() -> None:
    with pytest.raises(ValueError, match=r"multigammaln.*d must"):
        dt.special.multigammaln(3.0, 0)
    with pytest.raises(ValueError, match=r"multigammaln.*1\.0"):
        dt.special.multigammaln(0.5, 3)


# ------------------------------------------------------------------ functions of whole arrays
def test_logsumexp_with_weights() -> None:
    x, b = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 700.0]]), np.array([[1.0, 0.5, 2.0], [3.0, 0.0, 0.1]])
    np.testing.assert_allclose(dt.special.logsumexp(x, axis=1, b=b).numpy(), sc.logsumexp(x, axis=1, b=b))
    share = b * np.exp(x - sc.logsumexp(x, axis=1, b=b)[:, None])
    np.testing.assert_allclose(dt.grad(lambda t: np.sum(dt.special.logsumexp(t, axis=1, b=b)))(x), share)
    value, sign = dt.special.logsumexp(x[0], b=np.array([1.0, 1.0, -1.0]), return_sign=True)
    expected = sc.logsumexp(x[0], b=np.array([1.0, 1.0, -1.0]), return_sign=True)
    np.testing.assert_allclose([value.numpy(), sign.numpy()], expected)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_softmax(axis: Any) -> None:
    x = np.array([[1.0, 2.0, 1000.0], [-1.0, 0.0, 7.0]])
    np.testing.assert_allclose(dt.special.softmax(x, axis).numpy(), sc.softmax(x, axis))
    np.testing.assert_allclose(dt.special.log_softmax(x, axis).numpy(), sc.log_softmax(x, axis))
    total = dt.grad(lambda t: np.sum(dt.special.softmax(t, axis)))(x)
    np.testing.assert_allclose(total, 0.0, atol=1e-12)
