"""Powers and chains of matrices, and products of vectors with vectors and matrices."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core.cotangents import unbroadcast
from dualtape.core.families import bilinear
from dualtape.core.lookup import newer, register
from dualtape.core.tensor import operand
from dualtape.facts import costs, patterns
from dualtape.facts.costs import Work
from dualtape.ops.indexing import as_tensor
from dualtape.ops.linalg import column, inv, matrices
from dualtape.ops.products import matmul_row as matmul

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor


def matrix_power(a: ArrayLike, n: int) -> Tensor:
    """Square matrices to an integer power; NumPy's ``linalg.matrix_power``.

    Args:
        a: square matrices, shape (..., m, m).
        n: an int; negative powers are those of the inverse.

    Returns:
        A Tensor of that shape.

    Raises:
        LinAlgError: ``a`` is not square, or singular and ``n`` negative.
        TypeError: ``n`` is no int.
    """
    if not isinstance(n, (int, np.integer)):
        raise TypeError(f"matrix_power: the exponent must be an int, got {type(n).__name__}")
    x: Any = as_tensor(operand(a))
    x = matrices(x, "matrix_power") if n < 0 or x.dtype.kind in "fc" else x
    n = int(n)
    if n == 0:
        return 0 * x + np.eye(x.shape[-1], dtype=x.dtype)
    if n < 0:
        x, n = inv(x), -n
    out: Any = None
    while True:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        if not n:
            return out
        x = matmul(x, x)


def multi_dot(arrays: Iterable[ArrayLike], *, out: None = None) -> Tensor:
    """The product of several matrices, in the cheapest order; NumPy's ``linalg.multi_dot``.

    Args:
        arrays: matrices whose shapes fit one another; the first and the last may be vectors.
        out: not supported (a Tensor never changes).

    Returns:
        A Tensor: a matrix, or a vector or number if there are vectors at the ends.

    Raises:
        ValueError: fewer than two arrays, or shapes that do not fit.
    """
    if out is not None:
        raise TypeError("multi_dot: out= is not supported, since a Tensor never changes; use the returned Tensor")
    items: list[Any] = [as_tensor(operand(a)) for a in arrays]
    if len(items) < 2:
        raise ValueError(f"multi_dot: at least two arrays are needed, got {len(items)}")
    shapes = [x.shape for x in items]
    first, last = items[0].ndim == 1, items[-1].ndim == 1
    if first:
        items[0] = items[0][None, :]
    if last:
        items[-1] = items[-1][:, None]
    if any(x.ndim != 2 for x in items) or any(x.shape[1] != y.shape[0] for x, y in pairwise(items)):
        raise ValueError(f"multi_dot: shapes {shapes} do not fit as a chain of matrix products")
    size = [x.shape[0] for x in items] + [items[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(items))}
    for length in range(1, len(items)):
        for i in range(len(items) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + size[i] * size[k + 1] * size[j + 1], k) for k in range(i, j)
            )

    def chain(i: int, j: int) -> Any:
        if i == j:
            return items[i]
        k = best[i, j][1]
        return matmul(chain(i, k), chain(k + 1, j))

    result = chain(0, len(items) - 1)
    if first and last:
        return result[0, 0]
    return result[0] if first else result[:, 0] if last else result


# ------------------------------------------------------------------ vector products
def cross_kernel(x: Any, y: Any) -> Any:
    return np.cross(x, y)


cross_row = bilinear(
    cross_kernel,
    lambda g, y, shape: unbroadcast(np.cross(y, g), shape),
    lambda g, x, shape: unbroadcast(np.cross(g, x), shape),
    name="cross",
    work=costs.bilinear(lambda op: Work(adds=op.writes, mults=2 * op.writes)),
    pattern=patterns.crossed,
)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The cross products of vectors of three (or two) components; NumPy's ``cross``.

    Args:
        a: vectors along ``axisa``.
        b: vectors along ``axisb``; the other axes broadcast.
        axisa: an axis of ``a``.
        axisb: an axis of ``b``.
        axisc: the axis of the result that holds the vectors.
        axis: one axis for all three.

    Returns:
        A Tensor; of two vectors in the plane, the third component alone.

    Raises:
        ValueError: vectors of other lengths.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    vectors: list[Any] = [as_tensor(operand(a)), as_tensor(operand(b))]
    x: Any = np.moveaxis(vectors[0], axisa, -1)
    y: Any = np.moveaxis(vectors[1], axisb, -1)
    sizes = (x.shape[-1], y.shape[-1])
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"cross: vectors of 2 or 3 components are needed, got shapes {x.shape} and {y.shape}")
    if sizes == (2, 2):
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    x, y = (np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, 1)]) if v.shape[-1] == 2 else v for v in (x, y))
    return np.moveaxis(cross_row(x, y), -1, axisc)


def matvec(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The products of matrices (..., m, n) with vectors (..., n); NumPy's ``matvec``."""
    return matmul(operand(x), column(as_tensor(operand(y))))[..., 0]


def vecmat(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The products of conjugated vectors (..., m) with matrices (..., m, n); NumPy's ``vecmat``."""
    return matmul(np.conj(as_tensor(operand(x)))[..., None, :], operand(y))[..., 0, :]


KEYS: dict[Any, list[Any]] = {
    matrix_power: [np.linalg.matrix_power, "matrix_power"],
    multi_dot: [np.linalg.multi_dot, "multi_dot"],
    cross: [np.cross],
    lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis=axis): [np.linalg.cross],
    matvec: newer("matvec"),
    vecmat: newer("vecmat"),
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
