"""The cases of linear algebra: diagonals, solves, determinants, factorisations, norms, chains."""

from __future__ import annotations

from typing import Any

import numpy as np
from caseform import AnyCase, absent, case, special

import dualtape
import dualtape.linalg
from dualtape.core.lookup import ROWS
from dualtape.ops import factorisations

L = np.linalg
A = np.array
inf, nan = np.inf, np.nan
random = np.random.default_rng(7)


def draw(*shape: int) -> Any:
    return random.standard_normal(shape)


def complexes(*shape: int) -> Any:
    return draw(*shape) + 1j * draw(*shape)


def regular(x: Any) -> Any:
    """Well-conditioned square matrices."""
    return x + 3 * np.eye(x.shape[-1])


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian(x: Any) -> Any:
    return (x + adjoint(x)) / 2


def positive(x: Any) -> Any:
    return x @ adjoint(x) + 3 * np.eye(x.shape[-1])


def spread_out(x: Any) -> Any:
    """Matrices whose eigenvalues are apart."""
    return 0.3 * x + np.diag(np.arange(1.0, 1.0 + x.shape[-1]))


def on_tensors(*xs: Any) -> bool:
    return any(isinstance(x, dualtape.Tensor) for x in xs)


def planted(x: Any) -> Any:
    """An operation that stands for no NumPy function, beside what it computes."""
    return (
        ROWS["plant_diagonal"].call(x + 0.0, to=(4, 3), offset=-1, axes=(0, 1))
        if on_tensors(x)
        else np.diag(x, -1)[:, :3]
    )


def triangular(lower: bool, unit: bool) -> Any:
    def f(a: Any, b: Any) -> Any:
        if on_tensors(a, b):
            return factorisations.solve_triangular(a, b, lower=lower, unit=unit)
        t = (np.tril if lower else np.triu)(a)
        return L.solve(np.where(np.eye(a.shape[-1], dtype=bool), np.ones((), a.dtype), t) if unit else t, b)

    return f


def joined(parts: Any) -> Any:
    """Several results of any shapes as one vector."""
    return np.concatenate([np.ravel(part) for part in parts])


def of_svd(x: Any) -> Any:
    """All that a singular value decomposition determines."""
    u, s, vh = L.svd(x, full_matrices=False)
    return joined([np.abs(u), s, np.abs(vh), (u * np.sin(s)[..., None, :]) @ vh])


def of_eigh(x: Any) -> Any:
    w, v = L.eigh(hermitian(x))
    return joined([w, np.abs(v), (v * np.sin(w)[..., None, :]) @ adjoint(v)])


def of_eig(x: Any) -> Any:
    w, v = L.eig(x)
    return joined([np.real(w), np.imag(w), np.abs(v)])


def filled(x: Any) -> Any:
    y = x.copy()
    np.fill_diagonal(y, x[0])
    return y * x


SINGULAR = A([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
# Symmetric and circulant: equal eigenvalues, which LAPACK returns 2.2 n eps apart.
CIRCULANT = A([0.07, -0.14, 0.33, 0.33, -0.14])[(np.arange(5)[:, None] - np.arange(5)) % 5]
RANK_ONE = np.outer([1.0, 2.0, -1.0], [1.0, 1.0, 2.0])
# The determinant is linear in one row: these move both, so that its second derivatives do not vanish at rank 1.
LIFT = lambda x: x @ A([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0]])  # noqa: E731

CASES: list[AnyCase] = [
    # ---- diagonals and triangles
    case("diagonal", np.diagonal, draw(3, 4), analytic=True),
    case("diagonal", lambda x: np.diagonal(x, 1, 2, 0), draw(3, 2, 4), analytic=True, label="other axes"),
    case("diagonal", lambda x: np.diag(x, -1), draw(3, 4), analytic=True, label="diag of a matrix"),
    case("diagonal", lambda x: L.diagonal(x, offset=1), complexes(2, 3, 3), label="of a stack"),
    case("diagonal", lambda x: x.diagonal(), draw(3, 3), label="method"),
    case("plant_diagonal", np.diag, draw(3), analytic=True),
    case("plant_diagonal", lambda x: np.diag(x, 2), complexes(3), label="above"),
    case("plant_diagonal", lambda x: np.diagflat(x, -1), draw(2, 2), label="diagflat"),
    case("plant_diagonal", planted, draw(3), label="not square"),
    case("trace", np.trace, draw(3, 4), analytic=True),
    case("trace", lambda x: np.trace(x, -1, 2, 0), draw(3, 2, 4), label="other axes"),
    case("trace", L.trace, complexes(2, 3, 3), label="of a stack"),
    case("trace", lambda x: np.trace(x, 7), draw(3, 4), label="beyond the corner"),
    case("tril", lambda x: np.tril(x, 1), draw(2, 3, 4), analytic=True),
    case("tril", np.tril, draw(3), label="of a vector"),
    case("triu", lambda x: np.triu(x, -1), complexes(3, 3)),
    case("setitem", filled, draw(4, 3), label="fill_diagonal"),
    # ---- solve and inv
    case("solve", L.solve, regular(draw(3, 3)), draw(3, 2), analytic=True),
    case("solve", L.solve, regular(draw(3, 3)), draw(3), analytic=True, label="vector"),
    case("solve", L.solve, regular(draw(2, 3, 3)), draw(3), label="stack with one vector"),
    case("solve", L.solve, regular(draw(2, 3, 3)), draw(3, 1), label="stack with one matrix"),
    case("solve", L.solve, regular(draw(3, 3)), draw(2, 1, 3, 2), label="matrix with a stack"),
    case("solve", L.solve, regular(complexes(3, 3)), complexes(3, 2), label="complex"),
    case("solve", L.solve, regular(draw(3, 3)), complexes(3), label="real with complex"),
    case("solve", L.solve, regular(draw(1, 1)), draw(1, 1), label="one equation"),
    case("solve", lambda a: L.solve(a, a[0]), regular(draw(3, 3)), label="one operand twice"),
    case("solve", L.tensorsolve, draw(4, 2, 2), draw(4), label="tensorsolve"),
    case("inv", L.inv, regular(draw(3, 3)), analytic=True),
    case("inv", L.inv, regular(complexes(2, 3, 3)), label="complex stack"),
    case("inv", lambda x: L.matrix_power(x, -2), regular(draw(3, 3)), label="negative power"),
    case("inv", lambda x: L.tensorinv(x.reshape(4, 2, 2), ind=1), regular(draw(4, 4)), label="tensorinv"),
    case("inv", lambda x: L.cond(x, 1), regular(draw(3, 3)), label="cond"),
    # ---- determinants
    case("det", L.det, draw(3, 3), analytic=True),
    case("det", L.det, complexes(2, 3, 3), label="complex stack"),
    case("det", L.det, SINGULAR, label="singular"),
    case("det", L.det, draw(4, 3) @ draw(3, 4) @ draw(4, 4), label="singular, no zeros"),
    case("det", L.det, complexes(3, 2) @ complexes(2, 3), single=False, label="singular, complex"),
    case("det", lambda x: L.det(x) + L.det(x[:2, :2]), RANK_ONE, single=False, label="rank one"),
    case("det", lambda x: L.det(LIFT(x)[:2, :2]), np.zeros((3, 3)), single=False, order=1, label="zero"),
    case("det", L.det, np.stack([draw(3, 3), SINGULAR]), label="stack with a singular one"),
    case("det", L.det, draw(1, 1), label="of one number"),
    case("slogdet", lambda x: joined(L.slogdet(x)), complexes(3, 3)),
    case("slogdet", lambda x: L.slogdet(x)[1], draw(2, 3, 3), label="real stack"),
    case("slogdet", lambda x: L.slogdet(x).logabsdet, A([[0.0, 1.0], [2.0, 0.0]]), label="negative determinant"),
    # ---- symmetric factorisations, of the symmetric part
    case("cholesky", lambda x: L.cholesky(hermitian(x)), positive(draw(3, 3))),
    case("cholesky", lambda x: L.cholesky(hermitian(x)), positive(draw(2, 3, 3)), label="stack"),
    case("cholesky", lambda x: L.cholesky(hermitian(x)), positive(complexes(3, 3)), label="complex"),
    case("cholesky", lambda x: L.cholesky(hermitian(x), upper=True), positive(complexes(3, 3)), label="upper"),
    case("eigh", of_eigh, draw(3, 3)),
    case("eigh", of_eigh, spread_out(draw(2, 3, 3)), label="stack"),
    case("eigh", of_eigh, spread_out(complexes(3, 3)), label="complex"),
    case("eigh", lambda x: L.eigvalsh(hermitian(x)), draw(3, 3), label="eigvalsh"),
    case("eigh", lambda x: L.eigh(hermitian(x), UPLO="U").eigenvalues, draw(3, 3), label="upper"),
    case("eigh", lambda x: np.sum(np.exp(L.eigvalsh(hermitian(x)))), 2 * np.eye(3), order=1, label="repeated"),
    case("eig", of_eig, spread_out(draw(3, 3))),
    case("eig", of_eig, spread_out(complexes(2, 3, 3)), label="complex stack"),
    case("eig", lambda x: np.abs(L.eigvals(x)), A([[0.0, 1.0], [-2.0, 0.5]]), label="complex pair"),
    # ---- triangular systems, QR, singular values
    *(
        case(
            "solve_triangular",
            triangular(lower, unit),
            regular(draw(*s, 3, 3)),
            draw(3, 2),
            label=f"{lower} {unit} {s}",
        )
        for lower in (True, False)
        for unit in (True, False)
        for s in ((), (2,))
    ),
    case("solve_triangular", triangular(False, False), regular(complexes(3, 3)), complexes(3, 2), label="complex"),
    case("qr", lambda x: joined(L.qr(x)), draw(4, 3)),
    case("qr", lambda x: joined(L.qr(x)), draw(2, 3, 3), label="square stack"),
    case("qr", lambda x: joined(L.qr(x)), draw(2, 4), label="wide"),
    case("qr", lambda x: joined(L.qr(x)), complexes(4, 3), label="complex"),
    case("qr", lambda x: L.qr(x, "r"), draw(4, 3), label="R alone"),
    case("qr", lambda x: L.qr(x, "complete").Q, draw(3, 3), label="complete"),
    case("svd", of_svd, draw(4, 3)),
    case("svd", of_svd, draw(2, 3, 4), label="wide stack"),
    case("svd", of_svd, complexes(4, 3), label="complex"),
    case("svd", of_svd, complexes(3, 3), label="complex square"),
    case("svd", L.svdvals, draw(3, 4), label="values"),
    case("svd", lambda x: L.svd(x)[1], complexes(3, 3), label="values of full"),
    case("svd", lambda x: np.abs(L.svd(x)[0][:, :2]), draw(3, 2), label="used vectors of full"),
    case("svd", lambda x: L.norm(x, "nuc"), draw(3, 4), label="nuclear norm"),
    case("svd", lambda x: L.norm(x, 2, axis=(2, 0), keepdims=True), draw(3, 2, 4), label="spectral norm"),
    case("svd", lambda x: L.cond(x), regular(draw(2, 3, 3)), label="cond"),
    case("pinv", L.pinv, draw(4, 3)),
    case("pinv", L.pinv, complexes(2, 2, 4), label="complex wide stack"),
    case("pinv", lambda x: L.pinv(x[:, :2] @ x[:2], rcond=1e-6), draw(4, 4), single=False, label="rank two"),
    case("pinv", lambda a, b: L.lstsq(a, b)[0], draw(5, 3), draw(5, 2), label="lstsq"),
    case("pinv", lambda a, b: L.lstsq(a, b)[1], draw(5, 3), draw(5), label="residual of lstsq"),
    case("pinv", lambda a, b: L.lstsq(a, b)[0], draw(3, 5), draw(3), label="shortest of lstsq"),
    # ---- norms
    case("norm", L.norm, draw(4)),
    case("norm", L.norm, complexes(3, 4), label="Frobenius"),
    case("norm", lambda x: L.norm(x, "fro", axis=(0, 2), keepdims=True), draw(2, 3, 4), label="Frobenius, axes"),
    *(
        case("norm", lambda x, p=p: L.norm(x, p, axis=1), complexes(2, 4), label=f"order {p}")
        for p in (1, 3, 1.5, 0.5, -1, -2.5)
    ),
    case("norm", lambda x: L.norm(x, 3), draw(4), label="order 3, real"),
    case("norm", lambda x: L.vector_norm(x, axis=(0, 2), ord=3, keepdims=True), draw(2, 3, 4), label="vector_norm"),
    case("norm", L.matrix_norm, draw(2, 3, 4), label="matrix_norm"),
    case("max", lambda x: L.norm(x, inf, axis=1), draw(2, 4), label="norm of order inf"),
    case("min", lambda x: L.norm(x, -inf), draw(4), label="norm of order -inf"),
    case("max", lambda x: L.norm(x, 1), draw(3, 4), label="largest column sum"),
    case("min", lambda x: L.norm(x, -inf), draw(3, 4), label="smallest row sum"),
    # ---- chains and vector products
    case("matmul", lambda x: L.matrix_power(x, 5), 0.5 * draw(2, 3, 3), analytic=True, label="matrix_power"),
    case("multiply", lambda x: L.matrix_power(x, 0) * x, draw(2, 2), label="zeroth matrix_power"),
    case("matmul", lambda a, b, c: L.multi_dot([a, b, c]), draw(3), draw(3, 4), draw(4, 2), label="multi_dot"),
    case(
        "matmul",
        lambda a, b, c: L.multi_dot([a, b, c]),
        draw(2, 3),
        draw(3, 9),
        draw(9, 2),
        label="multi_dot, right first",
    ),
    case("cross", np.cross, draw(4, 3), draw(4, 3), analytic=True),
    case("cross", np.cross, complexes(2, 3), complexes(3), label="complex, broadcast"),
    case("cross", lambda x, y: L.cross(x, y, axis=0), draw(3, 2), draw(3, 2), label="other axis"),
    # ---- decided values
    special("norm", L.norm, np.zeros(3), np.zeros(3), "zero"),
    special("norm", lambda x: L.norm(x, 3), np.zeros(3), np.zeros(3), "zero, order 3"),
    special("norm", lambda x: L.norm(x, 1), A([0.0, -2.0]), A([0.0, -1.0]), "zero, order 1"),
    special("norm", lambda x: L.norm(x, 1.5), A([0.0, -2.0]), A([0.0, -1.0]), "a zero, order 1.5"),
    special("norm", L.norm, np.zeros((2, 2)), np.zeros((2, 2)), "zero matrix"),
    special("max", lambda x: L.norm(x, inf), A([2.0, -2.0]), A([0.5, -0.5]), "norm of order inf with a tie"),
    special("det", L.det, A([[1.0, 2.0], [2.0, 4.0]]), A([[4.0, -2.0], [-2.0, 1.0]]), "singular"),
    special("det", L.det, np.zeros((2, 2)), np.zeros((2, 2)), "zero"),
    special("det", L.det, np.zeros((1, 1)), np.ones((1, 1)), "zero of size one"),
    special("eigh", lambda x: L.eigh(x)[0], 2 * np.eye(2), np.eye(2), "repeated eigenvalues"),
    special("eigh", lambda x: L.eigh(x)[1][:, 0], np.eye(2), np.full((2, 2), nan), "vector of a repeated eigenvalue"),
    special(
        "eigh", lambda x: L.eigh(x)[1][:, 1], CIRCULANT, np.full((5, 5), nan), "equal, but for more than n roundings"
    ),
    special("slogdet", lambda x: L.slogdet(x)[1], np.zeros((1, 2, 2)), np.full((1, 2, 2), nan), "singular"),
    absent("matrix_rank", L.matrix_rank, draw(3, 4)),
]
