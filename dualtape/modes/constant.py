"""constant: a new Tensor from numbers, arrays or nested sequences of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.tensor import Operand, Tensor, dtype_of, has_tensor, operand, tensor


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Tensor:
    """A new Tensor from a number, an array or nested sequences of them; the data are copied.

    Args:
        value: a number, ndarray, Tensor, or nested sequences; Tensors inside sequences keep their derivative.
        dtype: the dtype of the result; NumPy's choice if None.
        shape: if given, ``value`` is filled or reshaped to it, as TensorFlow does.
        name: accepted as TensorFlow does; Tensors have no names here.

    Returns:
        A Tensor.

    Raises:
        TypeError: for values NumPy has no numeric dtype for.

    Example:
        >>> import dualtape as dt
        >>> dt.constant([1, 2], dtype="float32")
        Tensor([1., 2.], dtype=float32)
    """
    if isinstance(value, Operand) or (isinstance(value, (list, tuple, np.ndarray)) and has_tensor(value)):
        x = operand(value)
        if dtype is not None and x.dtype != dtype_of(dtype):
            x = x.astype(dtype)
        elif isinstance(value, Operand):
            x = np.copy(x)
    else:
        array = np.array(value, dtype=dtype)
        if array.dtype == object:
            if has_tensor(array):
                return constant(array.tolist(), dtype, shape)
            raise TypeError(f"no Tensor can be made of {type(value).__name__}: its elements are {kind_of_items(array)}")
        if array.dtype.kind not in "biufc":
            raise TypeError(f"no Tensor can be made of dtype {array.dtype}: numbers and booleans only")
        x = tensor(array if array.shape else array[()])
    if shape is not None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        x = x.reshape(shape) if x.size != 1 else np.broadcast_to(x.reshape(()), shape)
    return x  # type: ignore[no-any-return]


def kind_of_items(array: np.ndarray[Any, Any]) -> str:
    """The type names in an object array, for an error message."""
    return ", ".join(sorted({type(v).__name__ for v in array.flat})[:3]) or "objects"
