"""TensorSpec: the shape and dtype that a Tensor has or is to have, without a value."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.tensor import Operand, operand


class TensorSpec:
    """A shape, in which axes may be open, with a dtype and a name.

    Args:
        shape: a tuple of ints and None for axes of any length; None if the number of axes is open as well.
        dtype: a dtype or its name.
        name: a name for people.

    Raises:
        ValueError: for a negative length.

    Example:
        >>> import dualtape as dt
        >>> spec = dt.TensorSpec((None, 3), "float32")
        >>> spec.is_compatible_with(dt.zeros((5, 3), "float32")), spec.is_compatible_with(dt.zeros((5, 3)))
        (True, False)
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = np.float64, name: str | None = None) -> None:
        self._shape: tuple[int | None, ...] | None = None
        if shape is not None:
            axes = (shape,) if isinstance(shape, (int, np.integer)) else shape
            self._shape = tuple([None if n is None else int(n) for n in axes])
            if any([n is not None and n < 0 for n in self._shape]):
                raise ValueError(f"TensorSpec: a length in {self._shape} is negative; None leaves an axis open")
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec of a Tensor, a Variable or an array: its shape and dtype."""
        value = tensor if isinstance(tensor, Operand) else np.asarray(operand(tensor))
        return cls(value.shape, value.dtype, name if name is not None else getattr(tensor, "name", None))

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The shape: None in it stands for any length, None for it for any number of axes."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name, or None."""
        return self._name

    def is_compatible_with(self, other: Any) -> bool:
        """Whether ``other``, a Tensor, an array or a spec, has this dtype and a shape that fits."""
        spec = other if isinstance(other, TensorSpec) else TensorSpec.from_tensor(other)
        if self._dtype != spec._dtype:
            return False
        if self._shape is None or spec._shape is None:
            return True
        return len(self._shape) == len(spec._shape) and all(
            [n is None or m is None or n == m for n, m in zip(self._shape, spec._shape, strict=True)]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._name

    def __reduce__(self) -> Any:
        return TensorSpec, (self._shape, self._dtype, self._name)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype}, name={self._name!r})"
