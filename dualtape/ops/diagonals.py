"""Rows about diagonals and triangles: diagonal, trace, diag, tril, triu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.physical import repeated, shifted
from dualtape.core.families import linear
from dualtape.core.lookup import register
from dualtape.core.tensor import Operand, Tensor, operand
from dualtape.facts import costs, patterns
from dualtape.ops.indexing import as_tensor, unwritable
from dualtape.ops.views import kind_of, link_if_shared, read_only

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike


__all__ = ["diag", "diagflat", "diagonal", "trace", "tril", "triu"]


def _planted(g: Any, to: tuple[int, ...], offset: int, axes: tuple[int, int]) -> Any:
    full = np.zeros(to, g.dtype)
    place = np.diagonal(full, offset, *axes)
    place.flags.writeable = True
    place[...] = g
    return full


def planted_batch(level: Any, g: Any, to: tuple[int, ...], offset: int, axes: tuple[int, int]) -> Any:
    """A diagonal of zeros."""
    p = repeated(level, g)
    return Batch(level, planted(p, to=(p.shape[0], *to), offset=offset, axes=shifted(axes, len(to))))


# g as a diagonal of zeros in the given shape: the adjoint of taking a diagonal.
planted = linear(
    _planted,
    lambda g, shape, to, offset, axes: np.diagonal(g, offset, *axes),
    name="plant_diagonal",
    places=True,
    internal=True,
    pattern=patterns.moved,
    batch=planted_batch,
)


def plant(g: Any, shape: tuple[int, ...], offset: int, axes: tuple[int, int]) -> Any:
    """``g`` as a diagonal of zeros in the given shape, a Tensor if ``g`` is one."""
    return planted(g, to=shape, offset=offset, axes=axes)


diagonal_row = linear(
    lambda x, offset, axes: np.diagonal(x, offset, *axes),
    plant,
    name="diagonal",
    selects=True,
    pattern=patterns.moved,
)


def trace_back(g: Any, shape: tuple[int, ...], offset: int, axes: tuple[int, int]) -> Any:
    """``g`` in each place of the diagonal it was summed over."""
    rows, columns = (shape[a] for a in axes)
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    return plant(np.broadcast_to(g[..., None], (*g.shape, length)), shape, offset, axes)


trace_row = linear(
    lambda x, offset, axes: np.trace(x, offset, *axes),
    trace_back,
    name="trace",
    work=costs.summation,
    pattern=patterns.traced,
)
tril_row = linear(
    lambda x, k: np.tril(x, k),
    lambda g, shape, k: np.tril(g, k),
    name="tril",
    selects=True,
    places=True,
    pattern=patterns.moved,
)
triu_row = linear(
    lambda x, k: np.triu(x, k),
    lambda g, shape, k: np.triu(g, k),
    name="triu",
    selects=True,
    places=True,
    pattern=patterns.moved,
)


def plane(x: Any, axis1: int, axis2: int, name: str) -> tuple[Any, tuple[int, int]]:
    """``x`` as a Tensor and two distinct axes of it, counted from the front."""
    x = as_tensor(operand(x))
    n = x.ndim
    if n < 2:
        raise ValueError(f"{name}: at least two axes are needed, got shape {x.shape}; use diag to build a matrix")
    for a in (axis1, axis2):
        if not -n <= a < n:
            raise np.exceptions.AxisError(f"{name}: axis {a} is out of bounds for an array of shape {x.shape}")
    axes = (axis1 % n, axis2 % n)
    if axes[0] == axes[1]:
        raise ValueError(f"{name}: axis1 and axis2 must differ, both are {axis1} for shape {x.shape}")
    return x, axes


def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of the matrices in two axes, as the last axis; NumPy's ``diagonal``.

    Args:
        x: an array of at least two axes.
        offset: which diagonal: above the main one if positive, below if negative.
        axis1: the axis of the rows.
        axis2: the axis of the columns.

    Returns:
        A Tensor without the two axes, and with a last one for the diagonal.

    Raises:
        ValueError: fewer than two axes, or twice the same.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> np.diagonal(dt.constant([[1.0, 2.0], [3.0, 4.0]]))
        Tensor([1., 4.])
    """
    x, axes = plane(x, axis1, axis2, "diagonal")
    arg = {"offset": int(offset), "axes": axes}
    return link_if_shared(diagonal_row(x, **arg), x, DIAGONAL, arg)


DIAGONAL = kind_of(diagonal_row, read_only)


def trace(
    x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: None = None
) -> Tensor:
    """The sums of the diagonals of the matrices in two axes; NumPy's ``trace``.

    Args:
        x: an array of at least two axes.
        offset: which diagonal.
        axis1: the axis of the rows.
        axis2: the axis of the columns.
        dtype: the dtype to add in.
        out: not supported (a Tensor never changes).

    Returns:
        A Tensor without the two axes.

    Raises:
        ValueError: fewer than two axes, or twice the same.
    """
    if out is not None:
        raise TypeError("trace: out= is not supported, since a Tensor never changes; use the returned Tensor")
    m, axes = plane(x, axis1, axis2, "trace")
    return trace_row(m if dtype is None else m.astype(dtype), offset=int(offset), axes=axes)


def diag(v: ArrayLike, k: int = 0) -> Tensor:
    """The k-th diagonal of a matrix, or the matrix with a vector as its k-th diagonal; NumPy's ``diag``.

    Args:
        v: an array of one or two axes.
        k: which diagonal: above the main one if positive, below if negative.

    Returns:
        A vector if ``v`` is a matrix; a square matrix if it is a vector.

    Raises:
        ValueError: ``v`` has neither one nor two axes.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> np.diag(dt.constant([1.0, 2.0]))
        Tensor([[1., 0.],
                [0., 2.]])
    """
    v = as_tensor(operand(v))
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        return planted(v, to=(n, n), offset=int(k), axes=(0, 1))
    if v.ndim == 2:
        return diagonal(v, k)
    raise ValueError(f"diag: a vector or a matrix is needed, got shape {v.shape}; use diagonal for stacks of matrices")


def diagflat(v: ArrayLike, k: int = 0) -> Tensor:
    """The matrix with all elements of ``v`` as its k-th diagonal; NumPy's ``diagflat``."""
    return diag(np.ravel(as_tensor(operand(v))), k)


def triangle(row: Any, name: str, keeps: str) -> Any:
    def call(m: ArrayLike, /, k: int = 0) -> Tensor:
        m = as_tensor(operand(m))
        if m.ndim == 1:
            m = np.broadcast_to(m, (m.shape[0], m.shape[0]))
        if m.ndim == 0:
            raise ValueError(f"{name}: an array of at least one axis is needed, got shape ()")
        return row(m, k=int(k))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""The matrices in the last two axes with zeros {keeps} the k-th diagonal; NumPy's ``{name}``.

    Args:
        m: an array; a vector stands for a matrix with that vector as each row.
        k: which diagonal: above the main one if positive, below if negative.

    Returns:
        A Tensor.
    """
    return call


tril = triangle(tril_row, "tril", "above")
triu = triangle(triu_row, "triu", "below")


def fill_diagonal(a: Tensor, val: ArrayLike, wrap: bool = False) -> None:
    """Give a Tensor a new value with ``val`` on its main diagonal; NumPy's ``fill_diagonal``.

    Args:
        a: a Tensor of at least two axes; all of one length if there are more than two.
        val: a number, or values for the diagonal, repeated as needed.
        wrap: whether the diagonal goes on below a square in a tall matrix.

    Raises:
        TypeError: ``a`` is a plain array and ``val`` a Tensor, which would lose its derivative.
        ValueError: ``a`` has one axis, or more than two of different lengths.
    """
    if not isinstance(a, Tensor):
        raise unwritable("fill_diagonal", a)
    shape = a.shape
    if len(shape) < 2:
        raise ValueError(f"fill_diagonal: an array of at least two axes is needed, got shape {shape}")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError(f"fill_diagonal: all axes must have one length, got shape {shape}")
    step = shape[1] + 1 if len(shape) == 2 else 1 + sum(shape[0] ** k for k in range(1, len(shape)))
    end = shape[1] * shape[1] if len(shape) == 2 and not wrap else None
    places = np.unravel_index(np.arange(a.size)[:end:step], shape)
    value = operand(val)
    if not isinstance(value, Operand) and np.size(value) > 1:
        value = np.resize(value, places[0].shape)
    target: Any = a
    target[places] = value


KEYS: dict[Any, list[Any]] = {
    diagonal: [np.diagonal],
    trace: [np.trace],
    diag: [np.diag, "diag"],
    diagflat: [np.diagflat, "diagflat"],
    tril: [np.tril],
    triu: [np.triu],
    lambda x, /, *, offset=0: diagonal(x, offset, -2, -1): [np.linalg.diagonal],
    lambda x, /, *, offset=0, dtype=None: trace(x, offset, -2, -1, dtype): [np.linalg.trace],
    fill_diagonal: [np.fill_diagonal, "fill_diagonal"],
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
