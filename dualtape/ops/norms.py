"""Norms of vectors and matrices, condition numbers, and the tensor forms of solve and inv."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.batching import functions as batches
from dualtape.core.absent import still
from dualtape.core.families import elementwise, general, nondifferentiable
from dualtape.core.lookup import register
from dualtape.core.standin import some
from dualtape.core.tensor import operand, raw
from dualtape.facts import costs, patterns
from dualtape.facts.costs import Work
from dualtape.ops.elementwise import chosen, ratio_or_zero
from dualtape.ops.indexing import as_tensor
from dualtape.ops.linalg import LinAlgError, inv, solve
from dualtape.ops.reductions import kept_shape, normal_axis
from dualtape.ops.spectral import svdvals

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

Axis = tuple[int, ...]


# ------------------------------------------------------------------ p-norms
def p_norm(x: Any, p: float, axis: Axis, keepdims: bool) -> Any:
    total: Any = np.add.reduce
    if p == 2:
        if x.dtype.kind == "c":
            square = x.real * x.real + x.imag * x.imag
        else:
            square = x * x
        return np.sqrt(total(square, axis=axis, keepdims=keepdims))
    with np.errstate(divide="ignore"):
        return total(np.abs(x) ** p, axis=axis, keepdims=keepdims) ** (1 / p)


def slope(x: Any, out: Any, p: float, axis: Axis) -> Any:
    """The direction of steepest ascent: x/|x| (|x| / norm)^(p-1), 0 where x is 0 and where the norm is."""
    norm = out.reshape(kept_shape(raw(x).shape, axis))
    if p == 2:
        return ratio_or_zero(x, norm)
    size = np.abs(x)
    zero = still(norm) == 0
    rests = (still(size) == 0) | zero
    if not some(rests):
        return np.sign(x) * (size / norm) ** (p - 1)
    # Where one element is 0, |x|^p has a second derivative only if p > 2, or p = 1 and x is real.
    singular = size if p < 2 and (p != 1 or raw(x).dtype.kind == "c") else norm
    full = np.where(rests, 1, size) / np.where(zero, 1, norm)
    slope = np.where(rests, 0, np.sign(x)) * full ** (p - 1)
    return chosen(slope, singular)


norm_row: Any = general(
    p_norm,
    name="norm",
    jvp=lambda t, x, out, p, axis, keepdims: np.add.reduce(
        np.real(slope(x, out, p, axis).conjugate() * t), axis=axis, keepdims=keepdims
    ),
    vjp=lambda g, x, out, shape, p, axis: g.reshape(kept_shape(shape, axis)) * slope(x, out, p, axis),
    work=costs.composite(Work(adds=1, mults=1), Work(mults=1), Work(adds=1, mults=1)),
    pattern=patterns.reduced,
    batch=batches.shifting(lambda: norm_row.row),
)


# A norm put together from largest elements and sums of magnitudes has no second derivative where it is 0 either.
bent = elementwise(lambda x: +x, lambda x: chosen(1.0, x), name="bent", work=costs.moves)


def vector_norm(
    x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norms of vectors; NumPy's ``linalg.vector_norm``.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all elements.
        keepdims: whether the axes stay, with length 1.
        ord: any real number, inf or -inf; 0 counts the elements that are not zero (no derivative).

    Returns:
        A Tensor of real numbers.

    Mathematics:
        d norm = sum x/|x| (|x| / norm)^(p-1) dx. At zero the gradient is 0, the subgradient of smallest norm; of the
        elements that attain a largest or smallest magnitude, each has an equal share.

    Example:
        XX(dt.linalg.vector_norm)(np.array([3.0, 4.0]))
        Tensor([0.6, 0.8])
    """
    x = as_tensor(operand(x))
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64)
    axes = normal_axis(axis, x.ndim, "vector_norm")
    axes = tuple(range(x.ndim)) if axes is None else axes
    if not isinstance(ord, (int, float, np.number)):
        raise ValueError(f"vector_norm: ord must be a number, got {ord!r}; matrix_norm takes 'fro' and 'nuc'")
    if ord == np.inf:
        return bent(np.max(np.abs(x), axis=axes, keepdims=keepdims))
    if ord == -np.inf:
        return bent(np.min(np.abs(x), axis=axes, keepdims=keepdims))
    if ord == 0:
        return (x != 0).astype(raw(x).real.dtype).sum(axis=axes, keepdims=keepdims)
    return norm_row(x, p=float(ord), axis=axes, keepdims=bool(keepdims))


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """The norms of matrices in the last two axes; NumPy's ``linalg.matrix_norm`` (see ``norm``)."""
    return norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims)


def norm(
    x: ArrayLike, ord: float | str | None = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Tensor:
    """The norm of a vector or matrix, or norms along axes; NumPy's ``linalg.norm``.

    Args:
        x: an array; of one or two axes if ``axis`` is None, unless ``ord`` is None too.
        ord: for vectors any real number, inf or -inf; for matrices "fro", "nuc", 1, -1, 2, -2, inf, -inf.
            None: the 2-norm of all elements.
        axis: an int for vectors, a pair of ints for matrices.
        keepdims: whether the axes stay, with length 1.

    Returns:
        A Tensor of real numbers. At zero, the gradient of a vector norm is 0.

    Raises:
        ValueError: an ``ord`` that does not exist, or an ``axis`` that does not fit.

    Mathematics:
        See ``vector_norm``; "nuc", 2 and -2 are the sum, the largest and the smallest of the singular values.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> np.linalg.norm(dt.constant([3.0, 4.0]))
        Tensor(5.)
    """
    y: Any = as_tensor(operand(x))
    if y.dtype.kind not in "fc":
        y = y.astype(np.float64)
    axes = tuple(range(y.ndim)) if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    for a in axes:
        if not -y.ndim <= a < y.ndim:
            raise np.exceptions.AxisError(f"norm: axis {axis} is out of bounds for an array of shape {y.shape}")
    axes = tuple(int(a) % y.ndim for a in axes)
    if (ord is None and (axis is None or len(axes) < 3)) or (len(axes) == 2 and ord in ("fro", "f")):
        return vector_norm(y, axis=axes, keepdims=keepdims)
    if len(axes) == 1:
        return vector_norm(y, axis=axes, keepdims=keepdims, ord=ord)  # type: ignore[arg-type]
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ValueError(f"norm: ord={ord!r} needs one axis, or two distinct ones; got axis={axis} for shape {y.shape}")
    rows, columns = axes
    out: Any
    if ord in (1, -1, np.inf, -np.inf):
        along, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = np.sum(np.abs(y), axis=along, keepdims=True)
        out = bent((np.max if ord > 0 else np.min)(sums, axis=over, keepdims=True))
        return out if keepdims else np.squeeze(out, axis=axes)
    if ord not in ("nuc", 2, -2):
        raise ValueError(f"norm: a matrix has the norms 'fro', 'nuc', 1, -1, 2, -2, inf, -inf; got ord={ord!r}")
    s = svdvals(np.moveaxis(y, axes, (-2, -1)))
    out = np.sum(s, axis=-1) if ord == "nuc" else (np.max if ord > 0 else np.min)(s, axis=-1)  # type: ignore[operator]
    return out.reshape(kept_shape(y.shape, tuple(sorted(axes)))) if keepdims else out


def cond(x: ArrayLike, p: float | str | None = None) -> Tensor:
    """The condition number of matrices; NumPy's ``linalg.cond``.

    Args:
        x: matrices, shape (..., m, n); square unless ``p`` is None, 2 or -2.
        p: the norm: None or 2, -2, "fro", 1, -1, inf, -inf.

    Returns:
        A Tensor of shape (...).
    """
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., 0] / s[..., -1] if p != -2 else s[..., -1] / s[..., 0]
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))


# ------------------------------------------------------------------ tensor forms
def tensorinv(a: ArrayLike, ind: int = 2) -> Tensor:
    """The inverse of a tensor as a map from its last axes to its first ``ind``; NumPy's ``linalg.tensorinv``."""
    a = as_tensor(operand(a))
    first, last = a.shape[:ind], a.shape[ind:]
    if ind <= 0 or prod(first) != prod(last):
        raise LinAlgError(f"tensorinv: the first ind={ind} axes and the others of shape {a.shape} must be of one size")
    return inv(a.reshape(prod(first), -1)).reshape(*last, *first)


def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Tensor:
    """The x with a x = b, summed over all axes of x; NumPy's ``linalg.tensorsolve``."""
    a, b = as_tensor(operand(a)), as_tensor(operand(b))
    if axes is not None:
        chosen = [k % a.ndim for k in (axes if isinstance(axes, (tuple, list)) else (axes,))]
        a = np.transpose(a, [k for k in range(a.ndim) if k not in chosen] + chosen)
    shape = a.shape[b.ndim :]
    if prod(shape) != b.size:
        raise LinAlgError(f"tensorsolve: the axes of a {a.shape} beyond those of b {b.shape} must be of the size of b")
    return solve(a.reshape(b.size, -1), b.reshape(-1)).reshape(shape)


matrix_rank = nondifferentiable(
    lambda x, **options: np.linalg.matrix_rank(x, **options), name="matrix_rank", functions=[np.linalg.matrix_rank]
)

KEYS: dict[Any, list[Any]] = {
    norm: [np.linalg.norm],
    vector_norm: [np.linalg.vector_norm, "vector_norm"],
    matrix_norm: [np.linalg.matrix_norm, "matrix_norm"],
    cond: [np.linalg.cond, "cond"],
    tensorinv: [np.linalg.tensorinv, "tensorinv"],
    tensorsolve: [np.linalg.tensorsolve, "tensorsolve"],
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
