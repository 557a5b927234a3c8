"""Rows of linear algebra without factorised results: solve, inv, determinants.

Rules are those of M. B. Giles, *Collected matrix derivative results for forward and reverse mode algorithmic
differentiation* (2008), written for stacks of real or complex matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualtape.core.absent import still
from dualtape.core.calls import call_of_many
from dualtape.core.cotangents import cast_back, unbroadcast
from dualtape.core.families import general, ruled
from dualtape.core.lookup import register
from dualtape.core.table import Row, publish
from dualtape.core.tensor import opened, operand, raw
from dualtape.facts import costs, patterns
from dualtape.ops.indexing import as_tensor
from dualtape.ops.instead import ensure_known
from dualtape.ops.products import mT

if TYPE_CHECKING:
    from typing import Never

    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

LinAlgError = np.linalg.LinAlgError


# ------------------------------------------------------------------ what the rules share
def mH(x: Any) -> Any:
    """The conjugate transpose."""
    return mT(x).conjugate()


def column(x: Any) -> Any:
    """Vectors as matrices of one column."""
    return x[..., None]


def count(times: Callable[..., float]) -> Callable[[costs.Performed], int]:
    """A count of operations for each matrix, ``times(m, n, right_sides)``, over the stack."""

    def total(op: costs.Performed) -> int:
        shape = op.shapes[0]
        m, n = shape[-2:]
        out = op.outs[0]
        sides = prod(out) // max(prod(out[: len(shape) - 2]) * n, 1)
        return int(max(prod(shape[:-2]), prod(out[: len(out) - 2])) * times(m, n, sides))

    return total


def matrices(x: Any, name: str, square: bool = True) -> Any:
    """``x`` as a Tensor, checked to be a matrix or a stack of them."""
    x = as_tensor(operand(x))
    shape = x.shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "square matrices" if square else "matrices"
        hint = "; for a least-squares solution use lstsq" if name in ("solve", "inv") and len(shape) > 1 else ""
        raise LinAlgError(f"{name}: the last two axes must hold {kind}, got shape {shape}{hint}")
    if x.dtype.kind in "biu":
        x = x.astype(np.float64)
    return x


# ------------------------------------------------------------------ solve and inv
def solved(a: Any, b: Any, vector: bool) -> Any:
    """a^-1 b for stacks of matrices, or of vectors."""
    return np.linalg.solve(a, column(b))[..., 0] if vector else np.linalg.solve(a, b)


def product(t: Any, x: Any, vector: bool) -> Any:
    """t x for stacks of matrices, or of vectors."""
    return (t @ column(x))[..., 0] if vector else t @ x


def back_to(c: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of broadcasting a stack."""
    return c if c.shape == shape else unbroadcast(c, shape)


class Solve(Row):
    """A solve shares its right side between the operands: one more solve for a tangent, and one for a cotangent."""

    __slots__ = ()

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        da, db = tangents
        if da is None or db is None:
            return super().push(entry, tangents, raw)
        a, out = opened(entry[1][3], raw)
        vector = out.ndim < a.ndim
        return solved(a, db - product(da, out, vector), vector)

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, (_, i, like_a, kept), (_, j, like_b, _) = entry
        a, out = opened(kept, raw)
        w = weights(g, a)
        cotangents.add(j, cast_back(back_to(w, like_b[0]), like_b[1]))
        cotangents.add(i, cast_back(back_to(-outer_of(w, out, a), like_a[0]), like_a[1]))


def weights(g: Any, a: Any) -> Any:
    """The cotangent of the right side: a^-H g."""
    return solved(mH(a), g, g.ndim < a.ndim)


def outer_of(w: Any, out: Any, a: Any) -> Any:
    """w out^H, for matrices or vectors."""
    return column(w) @ mH(column(out)) if w.ndim < a.ndim else w @ mH(out)


def solve_forward(t: Any, x: Any, out: Any) -> Any:
    """The tangent by a: -a^-1 t out."""
    vector = out.ndim < x.ndim
    return solved(x, -product(t, out, vector), vector)


SOLVE_FACTOR = count(lambda m, n, k: 2 * n**3 / 3 + 2 * n * n * k)


def solve_again(op: costs.Performed) -> int:
    """A product with the tangent or for the cotangent of a, and one more solve; the factorisation is done again."""
    return SOLVE_FACTOR(op) + (count(lambda m, n, k: 2 * n * n * k)(op) if op.active[0] else 0)


solve_row = Solve(
    "solve",
    lambda x, y: np.linalg.solve(x, y),
    ruled(
        "solve",
        [solve_forward, lambda t, x: np.linalg.solve(x, t)],
        [
            lambda g, x, out, shape: back_to(-outer_of(weights(g, x), out, x), shape),
            lambda g, x, shape: back_to(weights(g, x), shape),
        ],
    ),
    kind="general",
    work=costs.factorisation(SOLVE_FACTOR, solve_again, solve_again),
    pattern=patterns.stacked,
)
solve_call = publish(solve_row, call_of_many(solve_row))


def solve(a: ArrayLike, b: ArrayLike, **unknown: Never) -> Tensor:
    r"""The solution x of a x = b; NumPy's ``linalg.solve``.

    Args:
        a: square matrices, shape (..., n, n), float or complex.
        b: a vector (n,), or matrices (..., n, k) whose leading axes broadcast with those of ``a``.

    Returns:
        A Tensor: (..., n) if ``b`` is a vector, else (..., n, k).

    Raises:
        LinAlgError: ``a`` is singular, or not square, or does not fit ``b``.

    Mathematics:
        dx = a^-1 (db - da x); in reverse the cotangent of b is w = a^-H g, that of a is -w x^H (Giles 2008, 2.3).

    Example:
        >>> import dualtape as dt
        >>> dt.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
        Tensor([1. , 0.5])
    """
    if unknown:
        ensure_known("solve", unknown)
    x = matrices(a, "solve")
    y = as_tensor(operand(b))
    n = x.shape[-1]
    rows = y.shape[0] if y.ndim == 1 else y.shape[-2] if y.ndim > 1 else None
    if rows != n:
        raise LinAlgError(
            f"solve: a of shape {x.shape} takes b of shape ({n},) or (..., {n}, k), got {y.shape}"
            + ("; give stacks of vectors a last axis: b[..., None]" if y.ndim and y.shape[-1] == n else "")
        )
    return solve_call(x, y if y.dtype.kind in "fc" else y.astype(np.float64))


inv_row = general(
    lambda x: np.linalg.inv(x),
    name="inv",
    jvp=lambda t, out: -(out @ t @ out),
    vjp=lambda g, out: -(mH(out) @ g @ mH(out)),
    work=costs.factorisation(*(count(lambda m, n, k, c=c: c * n**3) for c in (2, 4, 4))),
    pattern=patterns.stacked,
)


def inv(a: ArrayLike, **unknown: Never) -> Tensor:
    """The inverses of square matrices; NumPy's ``linalg.inv``.

    Args:
        a: square matrices, shape (..., n, n), float or complex.

    Returns:
        A Tensor of that shape.

    Raises:
        LinAlgError: a matrix is singular, or not square.

    Mathematics:
        d(a^-1) = -a^-1 da a^-1 (Giles 2008, 2.2.3).
    """
    if unknown:
        ensure_known("inv", unknown)
    return inv_row(matrices(a, "inv"))


# ------------------------------------------------------------------ determinants
def polynomial_adjugate(s: Any) -> Any:
    """The adjugate by the recursion of Faddeev and Le Verrier, which divides by 1, 2, 3... alone.

    Used on the small block of a matrix that is singular or nearly so: the rest of the method needs no inverse of it.
    """
    n = s.shape[-1]
    eye = np.eye(n, dtype=s.dtype)
    m: Any = np.broadcast_to(eye, s.shape)
    for k in range(1, n):
        product = s @ m
        m = product - (np.trace(product, axis1=-2, axis2=-1) / k)[..., None, None] * eye
    return m if n % 2 else -m


def adjugate(x: Any) -> Any:
    """The transposed cofactors, d det(x) = tr(adjugate(x) dx), for singular matrices too and at every order.

    Of a well-conditioned matrix it is det(x) x^-1. Otherwise x is rotated by its singular vectors (constants), so that
    the part P of large singular values can be inverted and what is left is a small Schur complement S:
    det x = det P det S up to the rotations, and the adjugate of S is a polynomial.
    """
    value = still(x)
    n = value.shape[-1]
    if n == 0 or value.size == 0:
        return x
    least = float(np.finfo(value.dtype).eps) ** 0.25
    try:
        inverse = np.linalg.inv(x)
    except LinAlgError:
        pass
    else:
        with np.errstate(all="ignore"):
            size = np.abs(value).sum(-2).max(-1) * np.abs(still(inverse)).sum(-2).max(-1)
        if np.all(size < 1 / least):
            return np.linalg.det(x)[..., None, None] * inverse
    u, s, vh = np.linalg.svd(value)
    r = int(np.max(np.sum(s <= least * s[..., :1], axis=-1)))
    b = mH(u) @ x @ mH(vh)
    turn = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    k = n - r
    if k == 0:
        core = polynomial_adjugate(b)
    else:
        p, q, w = b[..., :k, :k], b[..., :k, k:], b[..., k:, :k]
        inverse = np.linalg.inv(p)
        left, right = inverse @ q, w @ inverse
        schur = b[..., k:, k:] - w @ left
        small = polynomial_adjugate(schur)
        det_p = np.linalg.det(p)[..., None, None]
        # det S = (S adj S)[0, 0], without another factorisation.
        det_s = (schur[..., :1, :] @ small[..., :, :1]) if r else np.ones((), value.dtype)
        top = np.concatenate([det_s * inverse + left @ small @ right, -(left @ small)], axis=-1)
        low = np.concatenate([-(small @ right), small], axis=-1)
        core = det_p * np.concatenate([top, low], axis=-2)
    return turn * (mH(vh) @ core @ mH(u))


det_row = general(
    lambda x: np.linalg.det(x),
    name="det",
    jvp=lambda t, x: np.add.reduce(mT(adjugate(x)) * t, axis=(-2, -1)),
    vjp=lambda g, x: g[..., None, None] * mH(adjugate(x)),
    work=costs.factorisation(
        *(count(lambda m, n, k, c=c, d=d: c * n**3 + d * n * n) for c, d in ((2 / 3, 0), (8 / 3, 2), (8 / 3, 2)))
    ),
    pattern=patterns.stacked,
)


def det(a: ArrayLike) -> Tensor:
    """The determinants of square matrices; NumPy's ``linalg.det``.

    Args:
        a: square matrices, shape (..., n, n), float or complex.

    Returns:
        A Tensor of shape (...).

    Raises:
        LinAlgError: ``a`` is not square.

    Mathematics:
        d det(a) = tr(adj(a) da). The adjugate exists for singular matrices as well, and so do all its derivatives:
        the determinant is a polynomial. Where a is well-conditioned, adj(a) = det(a) a^-1 (Giles 2008, 2.2.4).

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.grad(dt.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]]))
        array([[ 4., -2.],
               [-2.,  1.]])
    """
    return det_row(matrices(a, "det"))


class SlogdetResult(NamedTuple):
    """The sign (or phase) of determinants, and the logarithm of their absolute value."""

    sign: Any
    logabsdet: Any


def inverse_or_nan(x: Any) -> Any:
    """The inverses; NaN in the place of those that do not exist."""
    try:
        return np.linalg.inv(x)
    except LinAlgError:
        bad = (np.linalg.slogdet(still(x))[0] == 0)[..., None, None]
        eye = np.eye(x.shape[-1], dtype=x.dtype)
        return np.where(bad, still(x) * np.nan, np.linalg.inv(np.where(bad, eye, x)))


def slogdet_push(t: Any, x: Any, out: Any) -> Any:
    trace = np.add.reduce(mT(inverse_or_nan(x)) * t, axis=(-2, -1))
    sign = out[0]
    if sign.dtype.kind != "c":
        return np.zeros_like(raw(sign)), trace
    return sign * np.imag(trace) * 1j, np.real(trace)


def slogdet_pull(g: Any, x: Any, out: Any) -> Any:
    by_sign, by_log = g
    sign = out[0]
    c: Any = 0 * still(out[1]) if by_log is None else by_log
    if by_sign is not None and sign.dtype.kind == "c":
        c = c + 1j * np.imag(by_sign * np.conj(sign))
    return c[..., None, None] * mH(inverse_or_nan(x))


slogdet_row = general(
    lambda x: tuple(np.linalg.slogdet(x)),
    name="slogdet",
    jvp=slogdet_push,
    vjp=slogdet_pull,
    outputs=2,
    work=costs.factorisation(
        *(count(lambda m, n, k, c=c, d=d: c * n**3 + d * n * n) for c, d in ((2 / 3, 0), (2, 2), (2, 1)))
    ),
    pattern=patterns.stacked,
)


def slogdet(a: ArrayLike) -> SlogdetResult:
    """The sign of determinants and the logarithm of their absolute value; NumPy's ``linalg.slogdet``.

    Args:
        a: square matrices, shape (..., n, n), float or complex.

    Returns:
        A named tuple of two Tensors of shape (...): ``sign`` (a complex phase for complex ``a``) and ``logabsdet``.
        The gradient at a singular matrix, where the logarithm is -inf, is NaN.

    Raises:
        LinAlgError: ``a`` is not square.

    Mathematics:
        d log det(a) = tr(a^-1 da): its real part moves the logarithm, its imaginary part the phase.
    """
    return SlogdetResult(*slogdet_row(matrices(a, "slogdet")))


KEYS: dict[Any, list[Any]] = {
    solve: [np.linalg.solve],
    inv: [np.linalg.inv],
    det: [np.linalg.det],
    slogdet: [np.linalg.slogdet],
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
