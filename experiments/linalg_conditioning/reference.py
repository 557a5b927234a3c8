"""Derivatives of linear algebra in 80 digits, at exactly the given doubles, and differences that confirm them.

Tangents and cotangents are formulas (Giles 2008; Walter & Lehmann, arXiv:1001.1654), carried out on mpmath's numbers in
arrays of objects. They do not have to be believed: `confirmed` compares each with a difference of the function itself,
of step 1e-25, which in 80 digits is right to more than 20.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

try:
    import mpmath  # type: ignore[import-untyped]
except ImportError:  # said when the experiment is run
    mpmath = None

DIGITS = 80


class Reference(NamedTuple):
    """A function of a matrix at one point: its results, tangents by a direction, and cotangents by one of each."""

    value: Callable[[Any], list[Any]]
    tangent: Callable[[Any], list[Any]]
    cotangent: Callable[[list[Any]], Any]


def precisely(a: Any) -> Any:
    """An array of doubles as an array of mpmath's numbers."""
    return np.vectorize(mpmath.mpf, otypes=[object])(a)


def matrix(a: Any) -> Any:
    return mpmath.matrix(a.tolist())


def array(m: Any) -> Any:
    return np.array(m.tolist(), dtype=object).reshape(m.rows, m.cols)


def inverse(a: Any) -> Any:
    return array(mpmath.inverse(matrix(a)))


def symmetric(a: Any) -> Any:
    return (a + a.T) / 2


def inner(a: list[Any], b: list[Any]) -> Any:
    return sum(np.sum(x * y) for x, y in zip(a, b, strict=True))


def confirmed(reference: Reference, a: Any, da: Any, us: list[Any]) -> float:
    """The larger distance of <u, tangent> and <cotangent, da> from a difference of <u, value>, relative to it."""
    step = mpmath.mpf(10) ** -25
    up, down = reference.value(a + step * da), reference.value(a - step * da)
    found = (inner(us, up) - inner(us, down)) / (2 * step)
    tangent, cotangent = inner(us, reference.tangent(da)), np.sum(reference.cotangent(us) * da)
    return float(max(abs(tangent - found), abs(cotangent - found)) / abs(found))


# ---------------------------------------------------------------------------------------------------------------------
# Functions of a matrix whose condition is what matters.


def of_inv(a: Any) -> Reference:
    x = inverse(a)
    return Reference(lambda a: [inverse(a)], lambda da: [-x @ da @ x], lambda u: -x.T @ u[0] @ x.T)


def of_solve(a: Any, b: Any) -> Reference:
    inverted = inverse(a)
    x = inverted @ b
    return Reference(
        lambda a: [inverse(a) @ b],
        lambda da: [-inverted @ (da @ x)],
        lambda u: -np.outer(inverted.T @ u[0], x),
    )


def of_logdet(a: Any) -> Reference:
    x = inverse(a)
    return Reference(
        lambda a: [np.array(mpmath.log(abs(mpmath.det(matrix(a)))))],
        lambda da: [np.array(np.trace(x @ da))],
        lambda u: u[0] * x.T,
    )


def of_cholesky(a: Any) -> Reference:
    """dL = L Phi(L^-1 dA L^-T), with Phi the lower triangle, its diagonal halved."""
    factor = array(mpmath.cholesky(matrix(a)))
    inverted = inverse(factor)
    half = np.tril(np.ones(a.shape)) - np.eye(len(a)) / 2
    return Reference(
        lambda a: [array(mpmath.cholesky(matrix(a)))],
        lambda da: [factor @ (half * (inverted @ da @ inverted.T))],
        lambda u: symmetric(inverted.T @ (half * (factor.T @ u[0])) @ inverted),
    )


def of_qr(a: Any, signs: Any) -> Reference:
    """The thin factors, R with the given signs on its diagonal. Cotangent: Walter & Lehmann, section 3."""

    def factors(a: Any) -> list[Any]:
        q, r = map(array, mpmath.qr(matrix(a), mode="skinny"))
        turned = np.array([mpmath.sign(x) for x in np.diagonal(r)]) * signs
        return [q * turned, turned[:, None] * r]

    q, r = factors(a)
    inverted = inverse(r)

    def tangent(da: Any) -> list[Any]:
        lower = np.tril(q.T @ da @ inverted, -1)
        dr = (q.T @ da @ inverted - (lower - lower.T)) @ r
        return [(da - q @ dr) @ inverted, dr]

    def cotangent(u: list[Any]) -> Any:
        m = r @ u[1].T - u[0].T @ q
        return (u[0] + q @ (np.tril(m) + np.tril(m, -1).T)) @ inverted.T

    return Reference(factors, tangent, cotangent)


def of_least_squares(a: Any, b: Any) -> Reference:
    """x = (A^T A)^-1 A^T b; dx = (A^T A)^-1 (dA^T r - A^T dA x) with the residual r."""
    normal = inverse(a.T @ a)
    x = normal @ (a.T @ b)
    r = b - a @ x
    return Reference(
        lambda a: [inverse(a.T @ a) @ (a.T @ b)],
        lambda da: [normal @ (da.T @ r - a.T @ (da @ x))],
        lambda u: np.outer(r, normal @ u[0]) - np.outer(a @ (normal @ u[0]), x),
    )


# ---------------------------------------------------------------------------------------------------------------------
# Functions of eigenvalues and of singular values, where gaps matter. Signs of vectors are those of `like`.


def _turned(vectors: Any, like: Any) -> Any:
    return np.array([1 if s > 0 else -1 for s in np.sum(vectors * like, axis=0)])


def _eigen(a: Any, like: Any) -> tuple[Any, Any]:
    w, v = mpmath.eigsy(matrix(symmetric(a)))
    v = array(v)
    return array(w).ravel(), v * _turned(v, like)


def _over_gaps(w: Any) -> Any:
    """1 / (w_j - w_i), with zeros on the diagonal."""
    gaps = w[None, :] - w[:, None]
    return np.array([[1 / g if i != j else 0 * g for j, g in enumerate(row)] for i, row in enumerate(gaps)])


def of_eigenvectors(a: Any, like: Any) -> Reference:
    w, v = _eigen(a, like)
    over = _over_gaps(w)
    return Reference(
        lambda a: [_eigen(a, like)[1]],
        lambda da: [v @ (over * (v.T @ da @ v))],
        lambda u: symmetric(v @ (over * (v.T @ u[0])) @ v.T),
    )


def of_eigenvalues(a: Any, like: Any) -> Reference:
    _, v = _eigen(a, like)
    return Reference(
        lambda a: [_eigen(a, like)[0]],
        lambda da: [np.diagonal(v.T @ da @ v)],
        lambda u: (v * u[0]) @ v.T,
    )


def of_projector(a: Any, like: Any) -> Reference:
    """V1 V1^T of the two smallest eigenvalues; dP = V1 K V2^T + its transpose, K = (V1^T dA V2) / (w1 - w2)."""

    def projector(a: Any) -> list[Any]:
        v = _eigen(a, like)[1][:, :2]
        return [v @ v.T]

    w, v = _eigen(a, like)
    one, two, over = v[:, :2], v[:, 2:], 1 / (w[:2, None] - w[None, 2:])

    def tangent(da: Any) -> Any:
        half = one @ (over * (one.T @ da @ two)) @ two.T
        return half + half.T

    return Reference(projector, lambda da: [tangent(da)], lambda u: tangent(symmetric(u[0])))


def _singular(a: Any, like: Any) -> tuple[Any, Any, Any]:
    u, s, vt = mpmath.svd_r(matrix(a))
    u, vt = array(u), array(vt)
    turned = _turned(u, like)
    return u * turned, array(s).ravel(), turned[:, None] * vt


def of_singular_vectors(a: Any, like: Any) -> Reference:
    """The left ones of a square matrix: dU = U (F o (dP S + S dP^T)), F_ij = 1 / (s_j^2 - s_i^2), dP = U^T dA V."""
    u, s, vt = _singular(a, like)
    over = _over_gaps(s * s)

    def tangent(da: Any) -> list[Any]:
        turned = (u.T @ da @ vt.T) * s
        return [u @ (over * (turned + turned.T))]

    def cotangent(g: list[Any]) -> Any:
        turned = over * (u.T @ g[0])
        return u @ ((turned + turned.T) * s) @ vt

    return Reference(lambda a: [_singular(a, like)[0]], tangent, cotangent)


def of_singular_values(a: Any, like: Any) -> Reference:
    u, _, vt = _singular(a, like)
    return Reference(
        lambda a: [_singular(a, like)[1]],
        lambda da: [np.diagonal(u.T @ da @ vt.T)],
        lambda g: (u * g[0]) @ vt,
    )
