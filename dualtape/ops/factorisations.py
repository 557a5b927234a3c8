"""Rows of matrix factorisations without eigenvalues: triangular solves, Cholesky, QR.

The rules are derived from the defining equations of each factorisation, on stacks of real or complex matrices; the
sources are named with each. Cholesky factors are those of the Hermitian part: one triangle is read, and the gradient
is Hermitian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.examples import each
from dualtape.batching.level import Level
from dualtape.batching.physical import is_batched, physical
from dualtape.core.cotangents import unbroadcast
from dualtape.core.families import general
from dualtape.core.lookup import register
from dualtape.core.tensor import Tensor, raw
from dualtape.facts import costs, patterns
from dualtape.ops.linalg import count, inverse_or_nan, matrices, mH

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class QRResult(NamedTuple):
    """A matrix with orthonormal columns and an upper triangular one."""

    Q: Any
    R: Any


def hermitian(x: Any) -> Any:
    """The Hermitian part."""
    return 0.5 * (x + mH(x))


def unit(x: Any) -> Any:
    """The real unit matrix of the size and precision of ``x``."""
    return np.eye(x.shape[-1], dtype=raw(x).real.dtype)


def works(*counts: float) -> Any:
    """Cost of a factorisation of square matrices: for value, tangent and adjoint, the coefficient of m n min(m, n)."""
    return costs.factorisation(*(count(lambda m, n, k, c=c: c * m * n * min(m, n)) for c in counts))


# ------------------------------------------------------------------ triangular systems
def trtrs(x: Any, y: Any, lower: bool, unit: bool) -> Any:
    """The solution of a triangular system; inf or NaN for a zero on the diagonal."""
    if x.ndim == 2 and y.ndim == 2 and x.shape[0] > 0 and y.shape[1] > 0:
        from scipy.linalg.lapack import get_lapack_funcs

        (solver,) = get_lapack_funcs(("trtrs",), (x, y))
        # LAPACK reads columns first: a row-first matrix is the transpose of one, with the other triangle.
        if x.flags.c_contiguous:
            out, info = solver(x.T, y, lower=not lower, trans=1, unitdiag=unit)
        else:
            out, info = solver(x, y, lower=lower, unitdiag=unit)
        return out if info == 0 else np.full_like(out, np.nan)
    a = np.tril(x) if lower else np.triu(x)
    if unit:
        a = np.where(np.eye(x.shape[-1], dtype=bool), np.ones((), x.dtype), a)
    return inverse_or_nan(a) @ y if not np.all(np.diagonal(a, axis1=-2, axis2=-1)) else np.linalg.solve(a, y)


def triangle(x: Any, lower: bool, unit: bool) -> Any:
    """The part of a matrix that a triangular solve reads."""
    return np.tril(x, -1 if unit else 0) if lower else np.triu(x, 1 if unit else 0)


def triangular(x: Any, y: Any, lower: bool = True, unit: bool = False) -> Any:
    """x^-1 y for triangular x: a plain array of plain arrays, else a Tensor."""
    if x.__class__ is Tensor or y.__class__ is Tensor:
        return solve_triangular(x, y, lower=lower, unit=unit)
    return solve_triangular.row.kernel(x, y, lower=lower, unit=unit)


def many_right_sides(level: Level, x: Any, y: Any, lower: bool, unit: bool) -> Any:
    """The right sides of all examples beside each other, if one matrix is that of all; else one by one."""
    if is_batched(level, y) and not is_batched(level, x) and x.ndim == y.ndim == 2:
        p = np.moveaxis(y.physical, 0, 1)
        columns = np.reshape(p, (p.shape[0], -1))
        out = np.reshape(triangular(physical(level, x), columns, lower, unit), p.shape)
        return Batch(level, np.moveaxis(out, 1, 0))
    return each(level, triangular, x, y, lower=lower, unit=unit)


TRIANGLE_SOLVE = count(lambda m, n, k: n * n * k)
TRIANGLE_TANGENT = count(lambda m, n, k: 3 * n * n * k)
solve_triangular = general(
    trtrs,
    name="solve_triangular",
    jvp=[
        lambda t, x, out, lower, unit: -triangular(x, triangle(t, lower, unit) @ out, lower, unit),
        lambda t, x, lower, unit: triangular(x, t, lower, unit),
    ],
    vjp=[
        lambda g, x, out, shape, lower, unit: unbroadcast(
            triangle(-triangular(mH(x), g, not lower, unit) @ mH(out), lower, unit), shape
        ),
        lambda g, x, shape, lower, unit: unbroadcast(triangular(mH(x), g, not lower, unit), shape),
    ],
    work=costs.factorisation(TRIANGLE_SOLVE, TRIANGLE_TANGENT, TRIANGLE_TANGENT),
    pattern=patterns.stacked,
    batch=many_right_sides,
    doc="x^-1 y for triangular matrices x and matrices y; the other triangle is not read.",
)


# ------------------------------------------------------------------ Cholesky
def lower_half(x: Any) -> Any:
    """The lower triangle with half the diagonal."""
    return np.tril(x) * half(x)


def half(x: Any) -> Any:
    """1 below the diagonal, 1/2 on it, 0 above."""
    return np.tri(x.shape[-1], dtype=raw(x).real.dtype) - 0.5 * unit(x)


def cholesky_push(t: Any, out: Any) -> Any:
    inner = triangular(out, hermitian(t))
    inner = mH(triangular(out, mH(inner)))
    return out @ lower_half(inner)


def cholesky_pull(g: Any, out: Any) -> Any:
    inner = lower_half(mH(out) @ np.tril(g))
    upper = mH(out)
    return hermitian(mH(triangular(upper, mH(triangular(upper, inner, False)), False)))


cholesky_row = general(
    lambda x: np.linalg.cholesky(x),
    name="cholesky",
    jvp=cholesky_push,
    vjp=cholesky_pull,
    work=works(1 / 3, 4, 4),
    pattern=patterns.stacked,
)


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Tensor:
    """The Cholesky factors of Hermitian positive-definite matrices; NumPy's ``linalg.cholesky``.

    Args:
        a: matrices, shape (..., n, n); one triangle is read, and the derivative is that of the Hermitian part.
        upper: whether the factor is upper triangular (and the upper triangle is read).

    Returns:
        A Tensor of that shape: L with a = L L^H, or U with a = U^H U.

    Raises:
        LinAlgError: a matrix is not positive definite, or not square.

    Mathematics:
        dL = L Phi(L^-1 da L^-H), where Phi takes the lower triangle and half the diagonal; the gradient is the
        Hermitian part of L^-H Phi(L^H g) L^-1 (I. Murray, *Differentiation of the Cholesky decomposition*, 2016,
        arXiv:1602.07527).

    Example:
        >>> import dualtape as dt
        >>> dt.linalg.cholesky([[4.0, 0.0], [0.0, 9.0]])
        Tensor([[2., 0.],
                [0., 3.]])
    """
    a = matrices(a, "cholesky")
    return mH(cholesky_row(mH(a))) if upper else cholesky_row(a)


# ------------------------------------------------------------------ QR
def skew_part(x: Any) -> Any:
    """The skew-Hermitian matrix with the strictly lower triangle of x and the imaginary part of its diagonal."""
    low = np.tril(x, -1)
    s = low - mH(low)
    return s + 1j * np.imag(x) * unit(x) if raw(x).dtype.kind == "c" else s


def over(y: Any, r: Any) -> Any:
    """y r^-1 for upper triangular r."""
    return mH(triangular(mH(r), mH(y), True))


def qr_push(t: Any, out: Any) -> Any:
    q, r = out
    y = over(t, r)
    x = mH(q) @ y
    s = skew_part(x)
    return q @ (s - x) + y, (x - s) @ r


def qr_pull(g: Any, out: Any) -> Any:
    q, r = out
    by_q, by_r = g
    w: Any = 0.0 if by_r is None else np.triu(by_r) @ mH(r)
    if by_q is not None:
        w = w - mH(q) @ by_q
    high = np.triu(w, 1)
    core = high + mH(high) + np.real(w) * unit(r)
    y = q @ core if by_q is None else by_q + q @ core
    return mH(triangular(r, mH(y), False))


qr_row = general(
    lambda x: tuple(np.linalg.qr(x)),
    name="qr",
    jvp=qr_push,
    vjp=qr_pull,
    outputs=2,
    work=costs.factorisation(
        *(count(lambda m, n, k, c=c: c[0] * m * n * n + c[1] * n**3) for c in ((2, -2 / 3), (6, 4), (6, 4)))
    ),
    pattern=patterns.stacked,
)


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> Tensor: ...
def qr(a: ArrayLike, mode: str = "reduced") -> QRResult | Tensor:
    """The QR factorisation; NumPy's ``linalg.qr``.

    Args:
        a: matrices, shape (..., m, n), whose first min(m, n) columns are independent.
        mode: "reduced", "r" (R alone), or "complete" if m <= n, where it is the same as reduced.

    Returns:
        A named tuple of Tensors ``Q`` (..., m, k) and ``R`` (..., k, n), with k = min(m, n); or R alone. The derivative
        is NaN if the diagonal of R has a zero; where the first k columns are dependent and rounding leaves no zero,
        it is as large as 1 / eps and means nothing.

    Raises:
        TypeError: mode "raw", or "complete" for tall matrices, whose last columns of Q are arbitrary.

    Mathematics:
        S. F. Walter and L. Lehmann, *Algorithmic differentiation of linear algebra functions with application in
        optimum experimental design* (2010), arXiv:1001.1654; wide matrices are split into a square part and the rest.
    """
    x = matrices(a, "qr", square=False)
    m, n = x.shape[-2:]
    if mode not in ("reduced", "r") and not (mode == "complete" and m <= n):
        raise TypeError(f"qr: mode {mode!r} of matrices {x.shape} has no derivative; use mode='reduced' or 'r'")
    if m >= n:
        q, r = qr_row(x)
    else:
        q, r = qr_row(x[..., :m])
        r = np.concatenate([r, mH(q) @ x[..., m:]], axis=-1)
    return r if mode == "r" else QRResult(q, r)


KEYS: dict[Any, list[Any]] = {cholesky: [np.linalg.cholesky], qr: [np.linalg.qr]}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
