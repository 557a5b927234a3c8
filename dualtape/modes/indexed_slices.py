"""IndexedSlices: some slices of an array along its first axis, and zeros elsewhere, without the array."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.tensor import Node, Operand, Tensor, operand, raw, tensor, wrap
from dualtape.modes.constant import constant


class IndexedSlices(Operand):
    """The array with ``values[k]`` added up at ``[indices[k]]`` of zeros, without making the array.

    A tape's gradient by a source that was read with ``gather`` has this form. It is made dense wherever an operation,
    an operator or NumPy meets it, and by ``convert_to_tensor``; ``-slices`` stays as it is.

    Args:
        values: an array of shape (n, ...): the slices.
        indices: integers of shape (n,): where along the first axis they belong. What falls on one place is added up.
        dense_shape: the shape of the array; None if it is not known, and then there is no dense array.

    Raises:
        TypeError: for indices that are not integers.
        ValueError: for shapes that do not fit together.

    Example:
        >>> import dualtape as dt
        >>> slices = dt.IndexedSlices([[1.0, 2.0], [3.0, 4.0]], [2, 2], dense_shape=(4, 2))
        >>> dt.convert_to_tensor(slices)
        Tensor([[0., 0.],
                [0., 0.],
                [4., 6.],
                [0., 0.]])
    """

    __slots__ = ("__weakref__", "_dense_shape", "_indices", "_values")

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        v, k = operand(values), operand(indices)
        v, k = (x if x.__class__ is Tensor else constant(x) for x in (v, k))
        if not k.size and k.dtype.kind == "f":
            k = k.astype(np.intp)  # an empty list
        if k.dtype.kind not in "iu":
            raise TypeError(f"IndexedSlices: indices are integers, not {k.dtype}")
        if k.ndim != 1 or not v.ndim or v.shape[0] != k.shape[0]:
            raise ValueError(
                f"IndexedSlices: values of shape {v.shape} for indices of shape {k.shape}; with n indices, in one "
                "axis, values has shape (n, ...)"
            )
        shape = None if dense_shape is None else tuple(int(n) for n in raw(operand(dense_shape)))
        if shape is not None and shape[1:] != v.shape[1:]:
            raise ValueError(f"IndexedSlices: values of shape {v.shape} are no slices of an array of shape {shape}")
        self._values, self._indices, self._dense_shape = v._node, k._node, shape

    @property
    def values(self) -> Tensor:
        """The slices, of shape (n, ...)."""
        return wrap(self._values)

    @property
    def indices(self) -> Tensor:
        """Where along the first axis they belong, of shape (n,)."""
        return wrap(self._indices)

    @property
    def dense_shape(self) -> tuple[int, ...] | None:
        """The shape of the dense array, None if it is not known."""
        return self._dense_shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense array."""
        if self._dense_shape is None:
            raise ValueError("these IndexedSlices have no dense_shape: give it when making them")
        return self._dense_shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self._values.value.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes of the dense array."""
        return self._values.value.ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The number of elements of the dense array."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def nbytes(self) -> int:
        """The bytes of values and indices: what is there, and not what the dense array would take."""
        return self._values.value.nbytes + self._indices.value.nbytes  # type: ignore[no-any-return]

    # What an Operand that can be followed has. These are only read.
    @property
    def _node(self) -> Node:
        raise TypeError(
            "IndexedSlices have no identity that a tape or accumulator could follow: make a Tensor of them with "
            "dualtape.convert_to_tensor, or use their values"
        )

    def _read(self) -> Tensor:
        shape, index = self.shape, self._indices.value
        if index.size and not (0 <= index.min() and index.max() < shape[0]):
            raise IndexError(f"IndexedSlices: an index is outside the first axis of the dense shape {shape}")
        return scattered(self.values, index, shape)  # type: ignore[no-any-return]

    def _value(self) -> Any:
        return self._read()._node.value

    def __neg__(self) -> IndexedSlices:  # type: ignore[override]
        return IndexedSlices(-self.values, self.indices, self._dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(values={self.values!r}, indices={self.indices!r}, dense_shape={self._dense_shape})"

    def __str__(self) -> str:
        return repr(self)

    def __reduce__(self) -> Any:
        return IndexedSlices, (self.values, self.indices, self._dense_shape)


def scattered(values: Any, index: Any, shape: tuple[int, ...]) -> Any:
    """Slices added up where they belong, in an array; a Tensor, if they are one."""
    dense: Any = np.zeros(shape, values.dtype)
    if values.__class__ is Tensor:
        dense = tensor(dense)
    np.add.at(dense, index, values)
    return dense


class Slices:
    """A cotangent of this form while a sweep is on its way: pieces, each with its indices, of one shape and dtype."""

    __slots__ = ("dtype", "pieces", "shape")

    # NumPy leaves ``array + slices`` to __radd__.
    __array_ufunc__ = None

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype
        self.pieces: list[tuple[Any, Any]] = []

    def join(self) -> tuple[Any, Any]:
        """All values and all indices, the pieces one after the other as they were recorded."""
        slices = (-1, *self.shape[1:])
        found = [(g.reshape(slices), index.reshape(-1)) for g, index in reversed(self.pieces)]
        if len(found) == 1:
            return found[0]
        return np.concatenate([g for g, _ in found]), np.concatenate([index for _, index in found])

    def finish(self) -> IndexedSlices:
        """What the caller of ``gradient`` gets."""
        values, indices = self.join()
        if values.__class__ is not Tensor:
            values = tensor(values if values.flags.owndata else values.copy())
        return IndexedSlices(values, tensor(indices), self.shape)

    def dense(self) -> Any:
        """The array, or the Tensor if the pieces are Tensors."""
        values, indices = self.join()
        return scattered(values, indices, self.shape)

    def __add__(self, other: Any) -> Any:
        return other + self.dense()

    __radd__ = __add__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(raw(self.dense()), dtype)


def followed(target: Any) -> Any:
    """A target as an operand that recorders know: a Variable itself and not a new reading of it, and of IndexedSlices
    the values, which have the derivatives of the array and an identity besides."""
    if target.__class__ is Tensor:
        return target
    if target.__class__ is IndexedSlices:
        return target.values
    return wrap(target._node) if isinstance(target, Operand) else operand(target)
