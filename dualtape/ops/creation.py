"""Tensors made of a shape alone (zeros, ones, ranges, identity matrices), or of other values."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.calls import fresh
from dualtape.core.lookup import register
from dualtape.core.tensor import Operand, Tensor, constant, operand, raw
from dualtape.modes.variable import Variable


def made(numpy_function: Any, value: Any = lambda x: x.numpy()) -> Any:
    """A creation function of NumPy's that returns a Tensor. ``value`` gives that of an argument which is a Tensor."""

    def call(*args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("device", None)
        return fresh(numpy_function(*[value(a) if isinstance(a, Operand) else a for a in args], **kwargs))

    call.__name__ = numpy_function.__name__
    call.__doc__ = f"NumPy's ``{numpy_function.__name__}``, as a Tensor; the result depends on no Tensor."
    return call


zeros, ones, empty = made(np.zeros), made(np.ones), made(np.empty)
# (These read shapes and dtypes alone.)
zeros_like, ones_like, empty_like = (
    made(f, lambda x: raw(operand(x))) for f in (np.zeros_like, np.ones_like, np.empty_like)
)
arange, eye = made(np.arange), made(np.eye)
tri = made(np.tri)


def asarray(value: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A Tensor of ``value``: a Tensor as it is, anything else copied.

    Args:
        value: a number, an array, a Tensor, or nested sequences of them.
        dtype: the dtype of the result.
        device: accepted for the Array API; "cpu" or None.
        copy: whether a Tensor gets a new identity.

    Returns:
        A Tensor.
    """
    if isinstance(value, Tensor) and not copy and (dtype is None or value.dtype == np.dtype(dtype)):
        return value
    return constant(value, dtype)


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: Any = None) -> Tensor:
    """A Tensor of ``value``: a Tensor itself, the value of a Variable, IndexedSlices made dense, else a constant.

    Args:
        value: a Tensor, a Variable, IndexedSlices, a number, an array, or nested sequences of them.
        dtype: the dtype that the result must have.
        dtype_hint: the dtype of the result where it can be had without loss, and ``value`` has no dtype of its own.
        name: accepted for TensorFlow's sake.

    Returns:
        A Tensor that carries the derivatives of ``value``.

    Raises:
        ValueError: if ``value`` has another dtype: ``cast`` converts. (Python's numbers have none yet.)
        TypeError: if no Tensor can be made of it.

    Example:
        >>> import dualtape as dt
        >>> x = dt.constant([1.0, 2.0])
        >>> dt.convert_to_tensor(x) is x, dt.convert_to_tensor([1, 2], dtype="float32")
        (True, Tensor([1., 2.], dtype=float32))
    """
    if isinstance(value, Operand):
        x = value.value() if isinstance(value, Variable) else value._read()
    else:
        x = constant(value, dtype if not isinstance(value, (np.ndarray, np.generic)) else None)
        if dtype is None and dtype_hint is not None and not isinstance(value, (np.ndarray, np.generic)):
            hinted = np.dtype(dtype_hint)
            if x.dtype.kind == hinted.kind or np.can_cast(x.dtype, hinted, "safe") or x.dtype.kind in "iu":
                x = x.astype(hinted) if np.array_equal(x._value().astype(hinted), x._value()) else x
    if dtype is not None and x.dtype != np.dtype(dtype):
        raise ValueError(
            f"convert_to_tensor: dtype {np.dtype(dtype)} for a value of dtype {x.dtype}; dualtape.cast converts"
        )
    return x


def array(value: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, **kwargs: Any) -> Tensor:
    """A new Tensor of ``value``; NumPy's ``array``. Nested sequences may hold Tensors."""
    x = constant(value, dtype)
    return x.reshape((1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


def full(shape: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """An array of one value, which may be a Tensor; NumPy's ``full``."""
    x = constant(fill_value, dtype)
    return np.broadcast_to(x, shape)  # type: ignore[return-value]


def full_like(x: Any, fill_value: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """An array of one value in the shape and dtype of ``x``; NumPy's ``full_like``."""
    return full(np.shape(x), fill_value, dtype or raw(operand(x)).dtype)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, *, dtype: Any = None, axis: int = 0
) -> Tensor:
    """``num`` values evenly spaced from ``start`` to ``stop``, which may be Tensors; NumPy's ``linspace``."""
    a, b = operand(start), operand(stop)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return fresh(np.linspace(a, b, num, endpoint, dtype=dtype, axis=axis))
    steps = np.linspace(0.0, 1.0, num, endpoint, dtype=np.result_type(raw(a), raw(b), 1.0))
    steps = steps.reshape((-1,) + (1,) * max(np.ndim(a), np.ndim(b)))
    found: Tensor = np.moveaxis(a * (1.0 - steps) + b * steps, 0, axis)
    return found if dtype is None else found.astype(dtype)


def meshgrid(*xs: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Any, ...]:
    """Coordinate arrays of a grid, of vectors; NumPy's ``meshgrid``."""
    n = len(xs)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    found = [np.reshape(operand(x), [-1 if k == order[j] else 1 for k in range(n)]) for j, x in enumerate(xs)]
    if not sparse:
        shape = np.broadcast_shapes(*(np.shape(x) for x in found))
        found = [np.broadcast_to(x, shape) for x in found]
    return tuple(x if isinstance(x, Tensor) else fresh(x) for x in found)


register(zeros_like, np.zeros_like, "zeros_like")
register(ones_like, np.ones_like, "ones_like")
register(empty_like, np.empty_like, "empty_like")
register(full_like, np.full_like, "full_like")
register(linspace, np.linspace, "linspace")
register(meshgrid, np.meshgrid, "meshgrid")
