"""Rows of spectral decompositions: eigenvalues, singular values, pseudo-inverse, least squares.

The rules are derived from the defining equations of each decomposition, on stacks of real or complex matrices; the
sources are named with each. Where eigenvalues or singular values coincide up to rounding, derivatives of the vectors
that belong to them are NaN, unless a cotangent leaves those vectors alone.

Length: all of them share the treatment of coinciding values, and their rules read like one chapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from dualtape.core.absent import still
from dualtape.core.families import general
from dualtape.core.lookup import register
from dualtape.core.tensor import Tensor, operand, raw
from dualtape.facts import patterns
from dualtape.ops.factorisations import hermitian, unit, works
from dualtape.ops.indexing import as_tensor
from dualtape.ops.linalg import LinAlgError, matrices, mH

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor


class EighResult(NamedTuple):
    """Real eigenvalues, and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values, right singular vectors in conjugated rows."""

    U: Any
    S: Any
    Vh: Any


def zero_columns(v: Any) -> Any:
    """Which columns of a cotangent are exactly zero."""
    return np.all(still(v) == 0, axis=-2)


def gaps(values: Any, forgiven: Any = None) -> Any:
    """1 / (w_j - w_i), 0 on the diagonal, NaN where rounding cannot tell w_i and w_j apart.

    That is up to 4 n eps of the largest: equal eigenvalues of circulant matrices come out up to 2.3 n eps apart.
    ``forgiven`` says for which indices the vectors are not used: pairs of those get 0 instead of NaN.
    """
    w = still(values)
    n = w.shape[-1]
    difference = values[..., None, :] - values[..., :, None]
    scale = np.max(np.abs(w), axis=-1, initial=0.0)[..., None, None]
    close = np.abs(still(difference)) <= 4 * n * float(np.finfo(w.dtype).eps) * scale
    eye = np.eye(n, dtype=bool)
    fill = np.where(eye, 0.0, np.nan)
    if forgiven is not None:
        fill = np.where(forgiven[..., None, :] & forgiven[..., :, None], 0.0, fill)
    fill = np.broadcast_to(fill, close.shape).astype(w.dtype)
    return np.where(close, fill, 1 / np.where(close, 1, difference))


def check_phase(turn: Any, name: str) -> None:
    """Refuse a cotangent that depends on the phase of complex vectors, which is arbitrary."""
    value = still(turn)
    if value.dtype.kind != "c":
        return
    phase = np.abs(np.imag(np.diagonal(value, axis1=-2, axis2=-1))).max(initial=0.0)
    if phase > 1e-3 * np.abs(value).max(initial=0.0) and phase > float(np.finfo(value.dtype).eps) ** 0.5:
        raise ValueError(
            f"{name}: the result depends on the phase of complex vectors, which is arbitrary, and has no derivative; "
            "use quantities that do not, such as v v^H or abs(v)"
        )


# ------------------------------------------------------------------ eigenvalues of Hermitian matrices
def eigh_push(t: Any, out: Any) -> Any:
    w, v = out
    m = mH(v) @ hermitian(t) @ v
    return np.real(np.diagonal(m, axis1=-2, axis2=-1)), v @ (gaps(w) * m)


def eigh_pull(g: Any, out: Any) -> Any:
    w, v = out
    by_w, by_v = g
    if by_v is None:
        return (v * by_w[..., None, :]) @ mH(v)
    turn = mH(v) @ by_v
    check_phase(turn, "eigh")
    core = hermitian(gaps(w, zero_columns(by_v)) * turn)
    if by_w is not None:
        core = core + by_w[..., None, :] * unit(v)
    return v @ core @ mH(v)


eigh_row = general(
    lambda x, uplo: tuple(np.linalg.eigh(x, uplo)),
    name="eigh",
    jvp=eigh_push,
    vjp=eigh_pull,
    outputs=2,
    work=works(9, 6, 6),
    pattern=patterns.stacked,
)


def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices; NumPy's ``linalg.eigh``.

    Args:
        a: matrices, shape (..., n, n); one triangle is read, and the derivative is that of the Hermitian part.
        UPLO: "L" to read the lower triangle, "U" for the upper.

    Returns:
        A named tuple of Tensors: ``eigenvalues`` (..., n), real and ascending, and ``eigenvectors`` (..., n, n), in
        columns. Where eigenvalues coincide up to rounding, their sum and functions of it have derivatives, and the
        derivatives of their eigenvectors, which are arbitrary there, are NaN (in reverse mode, of vectors whose
        cotangent is not exactly 0: one that is 0 counts as that of a vector not used).

    Raises:
        LinAlgError: ``a`` is not square, or the iteration does not converge.
        ValueError: another ``UPLO``; or, in reverse mode, a result that depends on the phase of complex eigenvectors.

    Mathematics:
        With m = v^H da v: dw = diag(m), dv = v (F * m), F_ij = 1 / (w_j - w_i) off the diagonal (Giles 2008, 3.1).
        Complex eigenvectors are followed without turning their phase.
    """
    if UPLO.upper() not in ("L", "U"):
        raise ValueError(f"eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    return EighResult(*eigh_row(matrices(a, "eigh"), uplo=UPLO.upper()))


def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Tensor:
    """The eigenvalues of Hermitian matrices, ascending; NumPy's ``linalg.eigvalsh`` (see ``eigh``)."""
    return eigh(a, UPLO).eigenvalues


# ------------------------------------------------------------------ eigenvalues of any matrices
def unturned(v: Any, dv: Any) -> Any:
    """``dv`` without what changes the length or the phase of the columns of ``v``, which are of length 1."""
    return dv - v * np.add.reduce(v.conjugate() * dv, axis=-2, keepdims=True)


def eig_push(t: Any, out: Any) -> Any:
    w, v = out
    m = np.linalg.solve(v, t @ v)
    return np.diagonal(m, axis1=-2, axis2=-1), unturned(v, v @ (gaps(w) * m))


def eig_pull(g: Any, out: Any) -> Any:
    w, v = out
    by_w, by_v = g
    core: Any = 0.0
    if by_v is not None:
        check_phase(mH(v) @ by_v, "eig")
        free = by_v - v * np.add.reduce(v.conjugate() * by_v, axis=-2, keepdims=True)
        core = gaps(w, zero_columns(by_v)).conjugate() * (mH(v) @ free)
    if by_w is not None:
        core = core + by_w[..., None, :] * unit(v)
    return np.linalg.solve(mH(v), core @ mH(v))


eig_row = general(
    lambda x: tuple(np.linalg.eig(x)),
    name="eig",
    jvp=eig_push,
    vjp=eig_pull,
    outputs=2,
    work=works(25, 8, 8),
    pattern=patterns.stacked,
)


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices; NumPy's ``linalg.eig``.

    Args:
        a: matrices, shape (..., n, n), that have a full set of eigenvectors.

    Returns:
        A named tuple of Tensors: ``eigenvalues`` (..., n) and ``eigenvectors`` (..., n, n), in columns of length 1;
        complex unless all eigenvalues are real. Where eigenvalues coincide up to rounding, the derivatives of their
        eigenvectors are NaN.

    Raises:
        LinAlgError: ``a`` is not square, or (when differentiated) has no full set of eigenvectors.
        ValueError: in reverse mode, a result that depends on the phase of complex eigenvectors.

    Mathematics:
        With m = v^-1 da v: dw = diag(m), dv = v (F * m), F_ij = 1 / (w_j - w_i), less its part along v (Giles 2008,
        3.1; the normalisation is that of C. Boeddeker et al. 2017, arXiv:1701.00392).
    """
    return EigResult(*eig_row(matrices(a, "eig")))


def eigvals(a: ArrayLike) -> Tensor:
    """The eigenvalues of square matrices; NumPy's ``linalg.eigvals`` (see ``eig``)."""
    return eig(a).eigenvalues


# ------------------------------------------------------------------ singular values
def svd_core(s: Any, forgiven: Any = None) -> Any:
    """1 / (s_j^2 - s_i^2), as ``gaps`` has it, from differences of s alone."""
    return gaps(s, forgiven) / (s[..., None, :] + s[..., :, None])


def phases(m: Any, s: Any) -> Any:
    """The diagonal of i Im(m) / (2 s): how the product of the phases of u and v turns."""
    return unit(m) * (0.5j * np.imag(m) / s[..., None, :])


def svd_push(t: Any, out: Any, full: bool) -> Any:
    u, s, vh = out
    k = s.shape[-1]
    rest_u, rest_v = u[..., k:], vh[..., k:, :]
    u, vh = u[..., :k], vh[..., :k, :]
    v = mH(vh)
    m = mH(u) @ t @ v
    f = svd_core(s)
    column_s, row_s = s[..., None, :], s[..., :, None]
    turn_u = f * (m * column_s + row_s * mH(m))
    turn_v = f * (row_s * m + mH(m) * column_s)
    if raw(m).dtype.kind == "c":
        p = phases(m, s)
        turn_u, turn_v = turn_u + p, turn_v - p
    du, dv = u @ turn_u, v @ turn_v
    if u.shape[-2] > k:
        tv = t @ v
        du = du + (tv - u @ (mH(u) @ tv)) / column_s
    if v.shape[-2] > k:
        tu = mH(t) @ u
        dv = dv + (tu - v @ (mH(v) @ tu)) / column_s
    dvh = mH(dv)
    if full:
        du = np.concatenate([du, raw(rest_u) * np.nan], axis=-1)
        dvh = np.concatenate([dvh, raw(rest_v) * np.nan], axis=-2)
    return du, np.real(np.diagonal(m, axis1=-2, axis2=-1)), dvh


def svd_pull(g: Any, out: Any, full: bool) -> Any:
    u, s, vh = out
    by_u, by_s, by_vh = g
    k = s.shape[-1]
    if full:
        for name, c, rest in (
            ("U", by_u, None if by_u is None else by_u[..., k:]),
            ("Vh", by_vh, None if by_vh is None else by_vh[..., k:, :]),
        ):
            if c is not None and np.any(still(rest) != 0):
                raise ValueError(
                    f"svd: the result depends on the vectors of {name} beyond the first {k}, which are arbitrary, and "
                    "has no derivative; use full_matrices=False"
                )
        u, vh = u[..., :k], vh[..., :k, :]
        by_u = None if by_u is None else by_u[..., :k]
        by_vh = None if by_vh is None else by_vh[..., :k, :]
    v = mH(vh)
    if by_u is None and by_vh is None:
        return (u * by_s[..., None, :]) @ vh
    column_s, row_s = s[..., None, :], s[..., :, None]
    unused = np.ones(raw(s).shape, bool)
    by_v = None if by_vh is None else mH(by_vh)
    for c in (by_u, by_v):
        if c is not None:
            unused = unused & zero_columns(c)
    f = svd_core(s, unused)
    core: Any = 0.0 if by_s is None else by_s[..., None, :] * np.eye(k, dtype=s.dtype)
    both: Any = 0.0
    left: Any = None
    right: Any = None
    if by_u is not None:
        turn = mH(u) @ by_u
        both = both + turn
        core = core + 2 * hermitian(f * turn) * column_s
        if u.shape[-2] > k:
            left = (by_u - u @ turn) / column_s
    if by_v is not None:
        turn = mH(v) @ by_v
        both = both + turn
        core = core + row_s * (2 * hermitian(f * turn))
        if v.shape[-2] > k:
            right = mH((by_v - v @ turn) / column_s)
    if raw(u).dtype.kind == "c":
        check_phase(both, "svd")
        difference: Any = 0.0 if by_u is None else mH(u) @ by_u
        difference = difference if by_v is None else difference - mH(v) @ by_v
        core = core + phases(difference, s)
    c = u @ core @ vh
    c = c if left is None else c + left @ vh
    return c if right is None else c + u @ right


svd_row = general(
    lambda x, full: tuple(np.linalg.svd(x, full_matrices=full)),
    name="svd",
    jvp=svd_push,
    vjp=svd_pull,
    outputs=3,
    work=works(22, 10, 10),
    pattern=patterns.stacked,
)


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> SVDResult: ...
@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False) -> Tensor: ...
@overload
def svd(a: ArrayLike, full_matrices: bool, compute_uv: Literal[False], hermitian: bool = False) -> Tensor: ...
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Tensor:
    """The singular value decomposition; NumPy's ``linalg.svd``.

    Args:
        a: matrices, shape (..., m, n).
        full_matrices: whether U and Vh are square; their vectors beyond the first min(m, n) carry no derivative, and
            using them raises in reverse mode and gives NaN in forward mode.
        compute_uv: whether to return U and Vh as well.
        hermitian: accepted; the general algorithm is used for Hermitian matrices as well.

    Returns:
        A named tuple of Tensors ``U``, ``S`` (..., k), descending, ``Vh``; or S alone. Where singular values coincide
        up to rounding, the derivatives of their vectors are NaN, as are those of vectors beside a zero singular value
        that are not determined.

    Raises:
        LinAlgError: the iteration does not converge.
        ValueError: in reverse mode, a result that depends on arbitrary vectors or phases.

    Mathematics:
        With m = u^H da v: ds = Re diag(m), du = u (F * (m s + s m^H)) + (1 - u u^H) da v / s and likewise for v, with
        F_ij = 1 / (s_j^2 - s_i^2) (Giles 2008, 3.2, for the singular values; the rest follows from a v = u s).
    """
    x = matrices(a, "svd", square=False)
    full = bool(full_matrices and compute_uv and x.shape[-1] != x.shape[-2])
    u, s, vh = svd_row(x, full=full)
    return SVDResult(u, s, vh) if compute_uv else s


def svdvals(x: ArrayLike, /) -> Tensor:
    """The singular values, descending; NumPy's ``linalg.svdvals`` (see ``svd``)."""
    return svd(x, compute_uv=False)


# ------------------------------------------------------------------ least squares
def pinv_push(t: Any, x: Any, out: Any) -> Any:
    th, ph = mH(t), mH(out)
    along = out @ (ph @ th)
    return -(out @ t @ out) + along - (along @ x) @ out + (th - out @ (x @ th)) @ ph @ out


def pinv_pull(g: Any, x: Any, out: Any) -> Any:
    gh, ph = mH(g), mH(out)
    c = -(ph @ g @ ph)
    left = gh @ out @ ph
    right = ph @ out @ gh
    return c + left - x @ (out @ left) + right - (right @ out) @ x


pinv_row = general(
    lambda x, rcond: np.linalg.pinv(x, rcond),
    name="pinv",
    jvp=pinv_push,
    vjp=pinv_pull,
    work=works(24, 12, 12),
    pattern=patterns.stacked,
)


def pinv(a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Tensor:
    """The Moore-Penrose pseudo-inverse; NumPy's ``linalg.pinv``.

    Args:
        a: matrices, shape (..., m, n).
        rcond: singular values below this times the largest count as zero.
        hermitian: accepted; the general algorithm is used.
        rtol: the Array API's name for ``rcond``; None for the rounding error of the larger side.

    Returns:
        A Tensor (..., n, m). Its derivative is that at constant rank.

    Mathematics:
        G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413-432.
    """
    x = matrices(a, "pinv", square=False)
    given = rcond if rcond is not None else rtol
    if given is None:
        given = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    cut: Any = 1e-15 if given is np._NoValue else operand(given)
    if cut.__class__ is Tensor:
        cut = cut.numpy()
    return pinv_row(x, rcond=cut)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Tensor, Tensor, int, Tensor]:
    """The least-squares solution of a x = b of smallest norm; NumPy's ``linalg.lstsq``.

    Args:
        a: a matrix (m, n).
        b: a vector (m,) or a matrix (m, k).
        rcond: singular values below this times the largest count as zero.

    Returns:
        x, the sums of squared residuals (empty unless m > n and the rank is n), the rank, the singular values. The
        derivative of x is that at constant rank.

    Raises:
        LinAlgError: shapes that do not fit.
    """
    matrix, right = matrices(a, "lstsq", square=False), as_tensor(operand(b))
    if matrix.ndim != 2 or right.ndim not in (1, 2) or matrix.shape[0] != right.shape[0]:
        shapes = f"{matrix.shape} and {right.shape}"
        raise LinAlgError(f"lstsq: a (m, n) and b (m,) or (m, k) are needed, got shapes {shapes}")
    m, n = matrix.shape
    cut = float(np.finfo(matrix.dtype).eps) * max(m, n) if rcond is None else rcond
    x = pinv(matrix, cut) @ right
    s = svdvals(matrix)
    rank = int(np.sum(still(s) > cut * np.max(still(s), initial=0.0)))
    if m > n and rank == n:
        rest = matrix @ x - right
        residuals: Any = np.sum(np.real(rest * np.conj(rest)), axis=0)
        residuals = residuals if right.ndim == 2 else residuals[None]
    else:
        residuals = as_tensor(np.zeros(0, raw(s).dtype))
    return x, residuals, rank, s


KEYS: dict[Any, list[Any]] = {
    eigh: [np.linalg.eigh],
    eigvalsh: [np.linalg.eigvalsh, "eigvalsh"],
    eig: [np.linalg.eig],
    eigvals: [np.linalg.eigvals, "eigvals"],
    svd: [np.linalg.svd],
    svdvals: [np.linalg.svdvals, "svdvals"],
    pinv: [np.linalg.pinv],
    lstsq: [np.linalg.lstsq, "lstsq"],
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
