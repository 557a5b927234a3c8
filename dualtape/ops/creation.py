"""Tensors made of a shape alone (zeros, ones, ranges, identity matrices), or of other values."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dualtape.core.calls import fresh
from dualtape.core.lookup import register
from dualtape.core.tensor import Operand, Tensor, dtype_of, operand, raw
from dualtape.modes.constant import constant
from dualtape.modes.variable import Variable
from dualtape.ops.shaping import arranged, arranged_like

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

__all__ = [
    "arange", "array", "asarray", "convert_to_tensor", "empty", "empty_like", "eye", "full", "full_like", "linspace",
    "meshgrid", "ones", "ones_like", "tri", "zeros", "zeros_like",
]  # fmt: skip

Called = TypeVar("Called", bound=Callable[..., Tensor])


# How the functions below are called: that of ``zeros``, of ``zeros_like``, and so on.
def shaped(
    shape: int | Sequence[int], dtype: DTypeLike | None = None, order: str = "C", *, device: str | None = None
) -> Tensor: ...


def like(
    x: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Tensor: ...


def ranged(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Tensor: ...


def square(
    N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Tensor: ...


def made(numpy_function: Any, shown: Called, value: Any = lambda x: x.numpy()) -> Called:
    """A creation function of NumPy's that returns a Tensor; ``shown`` says how it is called.

    ``value`` gives that of an argument which is a Tensor.
    """

    def call(*args: Any, **kwargs: Any) -> Tensor:
        kwargs.pop("device", None)
        return fresh(numpy_function(*[value(a) if isinstance(a, Operand) else a for a in args], **kwargs))

    call.__name__ = numpy_function.__name__
    call.__doc__ = f"NumPy's ``{numpy_function.__name__}``, as a Tensor; the result depends on no Tensor."
    call.__signature__ = signature(shown)  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


zeros, ones, empty = made(np.zeros, shaped), made(np.ones, shaped), made(np.empty, shaped)
# (These read shapes and dtypes alone.)
zeros_like, ones_like, empty_like = (
    made(f, like, lambda x: raw(operand(x))) for f in (np.zeros_like, np.ones_like, np.empty_like)
)
arange, eye = made(np.arange, ranged), made(np.eye, square)
tri = made(np.tri, square)


def asarray(
    value: ArrayLike | Sequence[Any],
    /,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A Tensor of ``value``: a Tensor as it is, anything else copied.

    Args:
        value: a number, an array, a Tensor, or nested sequences of them.
        dtype: the dtype of the result.
        device: accepted for the Array API; "cpu" or None.
        copy: whether a Tensor gets a new identity.

    Returns:
        A Tensor.
    """
    if isinstance(value, Tensor) and not copy and (dtype is None or value.dtype == dtype_of(dtype)):
        return value
    return constant(value, dtype)


def convert_to_tensor(
    value: Any, dtype: DTypeLike | None = None, dtype_hint: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """A Tensor of ``value``: a Tensor itself, the value of a Variable, IndexedSlices made dense, else a constant.

    Args:
        value: a Tensor, a Variable, IndexedSlices, a number, an array, or nested sequences of them.
        dtype: the dtype of the result: numbers and arrays are converted, a Tensor or Variable must have it.
        dtype_hint: the dtype of the result where it can be had without loss, and ``value`` has no dtype of its own.
        name: accepted for TensorFlow's sake.

    Returns:
        A Tensor that carries the derivatives of ``value``.

    Raises:
        ValueError: if a Tensor or Variable has another dtype: ``cast`` converts.
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
        x = constant(value, dtype)
        if dtype is None and dtype_hint is not None and not isinstance(value, (np.ndarray, np.generic)):
            hinted = dtype_of(dtype_hint)
            if x.dtype.kind == hinted.kind or np.can_cast(x.dtype, hinted, "safe") or x.dtype.kind in "iu":
                x = x.astype(hinted) if np.array_equal(x._value().astype(hinted), x._value()) else x
    if dtype is not None and x.dtype != dtype_of(dtype):
        raise ValueError(
            f"convert_to_tensor: dtype {dtype_of(dtype)} for a {type(value).__name__} of dtype {x.dtype}; "
            "dualtape.cast converts"
        )
    return x


def array(
    value: ArrayLike | Sequence[Any],
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
) -> Tensor:
    """A new Tensor of ``value``; NumPy's ``array``. Nested sequences may hold Tensors."""
    x = asarray(value, dtype, copy=copy)
    if order not in (None, "K"):
        x = arranged(x, order)
    return x.reshape((1,) * (ndmin - x.ndim) + x.shape) if x.ndim < ndmin else x


def full(
    shape: int | Sequence[int],
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "C",
    *,
    device: str | None = None,
) -> Tensor:
    """An array of one value, which may be a Tensor; NumPy's ``full``."""
    x = constant(fill_value, dtype)
    return np.copy(np.broadcast_to(x, shape), order)  # type: ignore[call-overload]


def full_like(
    x: ArrayLike,
    /,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: str = "K",
    subok: bool = True,
    shape: int | Sequence[int] | None = None,
    *,
    device: str | None = None,
) -> Tensor:
    """An array of one value in the shape and dtype of ``x``; NumPy's ``full_like``."""
    x = operand(x)
    filled = full(np.shape(x) if shape is None else shape, fill_value, dtype or raw(x).dtype)
    return arranged(filled, order) if order in "CF" or filled.shape != np.shape(x) else arranged_like(filled, x)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """``num`` values evenly spaced from ``start`` to ``stop``, which may be Tensors; NumPy's ``linspace``."""
    a, b = operand(start), operand(stop)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        return fresh(np.linspace(a, b, num, endpoint, dtype=dtype, axis=axis))
    steps = np.linspace(0.0, 1.0, num, endpoint, dtype=np.result_type(raw(a), raw(b), 1.0))
    steps = steps.reshape((-1,) + (1,) * max(np.ndim(a), np.ndim(b)))
    found: Tensor = np.moveaxis(a * (1.0 - steps) + b * steps, 0, axis)
    return found if dtype is None else found.astype(dtype)


def meshgrid(*xs: ArrayLike, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Tensor, ...]:
    """Coordinate arrays of a grid, of vectors; NumPy's ``meshgrid``."""
    n = len(xs)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    found = [np.reshape(operand(x), [-1 if k == order[j] else 1 for k in range(n)]) for j, x in enumerate(xs)]
    if not sparse:
        shape = np.broadcast_shapes(*(np.shape(x) for x in found))
        found = [np.broadcast_to(x, shape) for x in found]
    if copy:
        found = [np.copy(x, "C") for x in found]
    return tuple(x if isinstance(x, Tensor) else fresh(x) for x in found)


register(zeros_like, np.zeros_like, "zeros_like")
register(ones_like, np.ones_like, "ones_like")
register(empty_like, np.empty_like, "empty_like")
register(full_like, np.full_like, "full_like")
register(linspace, np.linspace, "linspace")
register(meshgrid, np.meshgrid, "meshgrid")
