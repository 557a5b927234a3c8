"""Rows that rearrange elements: reshape, transpose, broadcast, join, pad, flip, and casts between dtypes.

Length: NumPy has many names for moving elements about, and each takes a few lines over the same few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.batching import functions as batches
from dualtape.core.cotangents import unbroadcast
from dualtape.core.families import joint, linear, nondifferentiable
from dualtape.core.lookup import newer, register
from dualtape.core.standin import Standin, in_order, widest_first
from dualtape.core.tensor import Operand, Tensor, dtype_of, has_tensor, operand, raw
from dualtape.facts import patterns
from dualtape.modes.constant import constant
from dualtape.ops.elementwise import real, where
from dualtape.ops.instead import ensure_known
from dualtape.ops.views import UNDECIDED, base_of, give, kind_of, link, link_if_shared, read_only

if TYPE_CHECKING:
    from typing import Never, Protocol, overload

    from numpy.typing import ArrayLike, DTypeLike

    class AtLeast(Protocol):
        """One array for one array, a tuple for several."""

        @overload
        def __call__(self, x: ArrayLike, /) -> Tensor: ...
        @overload
        def __call__(self, x: ArrayLike, y: ArrayLike, /, *others: ArrayLike) -> tuple[Tensor, ...]: ...

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "cast", "column_stack",
    "concat", "copy", "dsplit", "dstack", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "identity",
    "matrix_transpose", "moveaxis", "pad", "permute_dims", "ravel", "repeat", "reshape", "roll", "rot90", "split",
    "squeeze", "stack", "swapaxes", "tile", "transpose", "unstack", "vsplit", "vstack",
]  # fmt: skip


# ------------------------------------------------------------------ the same elements
def same(x: Any) -> Any:
    return np.positive(x) if isinstance(x, Standin) else x


identity = linear(
    same,
    lambda g, shape: g,
    name="identity",
    pattern=patterns.elementwise,
    functions=["identity"],
    doc="""A Tensor of the value of ``x`` with an identity of its own, through which derivatives pass.

    Args:
        x: an array.

    Returns:
        A Tensor.

    Example:
        >>> import dualtape as dt
        >>> x = dt.constant(2.0)
        >>> y = dt.identity(x)
        >>> y is x, y
        (False, Tensor(2.))
    """,
)


def converted(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else np.asarray(x).astype(dtype)[()]


cast_row = linear(converted, lambda g, shape, dtype: g, name="cast", pattern=patterns.elementwise)
# A cast to an integer or boolean dtype.
to_integer = nondifferentiable(converted, name="to_integer")


def cast(x: ArrayLike, dtype: DTypeLike) -> Tensor:
    """``x`` in another dtype; a cast to an integer or boolean dtype carries no derivative.

    Args:
        x: an array.
        dtype: a NumPy dtype or its name.

    Returns:
        A Tensor.

    Example:
        >>> import dualtape as dt
        >>> dt.cast(dt.constant(2.7), "int32")
        Tensor(2, dtype=int32)
    """
    dtype = dtype_of(dtype)
    x = operand(x)
    if dtype.kind not in "fc":
        return to_integer(x, dtype=dtype)
    if isinstance(x, Tensor) and x.dtype.kind == "c" and dtype.kind == "f":
        x = real(x)
    return cast_row(x, dtype=dtype)


def astype(
    x: ArrayLike,
    dtype: DTypeLike,
    /,
    order: str = "K",
    casting: str = "unsafe",
    subok: bool = True,
    copy: bool = True,
    *,
    device: str | None = None,
) -> Tensor:
    """``x`` in another dtype (the Array API's name of ``cast``); without ``copy``, x itself if it has the dtype."""
    x = operand(x)
    if not copy and isinstance(x, Tensor) and x.dtype == dtype_of(dtype) and is_laid(x, order):
        return x
    if not np.can_cast(raw(x).dtype, dtype_of(dtype), casting):  # type: ignore[arg-type]
        raise TypeError(f"astype: {raw(x).dtype} does not go into {dtype_of(dtype)} by the rule {casting!r}")
    return arranged(cast(x, dtype), order)


# ------------------------------------------------------------------ order in memory
# The same elements with the axes in another order in memory, by which NumPy decides whether a reshape is a view.
copy_row = linear(
    lambda x, axes: x.ordered(axes) if isinstance(x, Standin) else in_order(x, axes) if axes else same(x),
    lambda g, shape, axes: g,
    name="copy",
    pattern=patterns.elementwise,
)


def layout(x: Any) -> Any:
    """An array that lies in memory as the value of ``x`` does (of a batch: one example), to ask about its order; None
    if that is not known."""
    value = raw(x)
    if not isinstance(value, Standin):
        return np.asarray(value)
    whole, n = value.memory(), len(value.shape)
    if whole is None or not whole.size:
        return np.empty(value.shape)
    batch = whole.ndim - n
    one = whole[(0,) * batch + (...,)]
    extent = max([0, *[abs(s) * (m - 1) for s, m in zip(one.strides, one.shape, strict=True)]])
    # Examples that lie between each other may have been spread by that alone: one by itself might lie otherwise.
    between = [s for s, m in zip(whole.strides[:batch], whole.shape, strict=False) if m > 1 and 0 < abs(s) <= extent]
    return None if between else one


def is_laid(x: Any, order: str) -> bool:
    """Whether the elements of ``x`` lie side by side in an order."""
    a = layout(x)
    if a is None:
        return False
    flags = a.flags
    if order == "K":
        return bool(flags.forc or a.transpose(widest_first(a.strides)).flags.c_contiguous)
    return bool(flags.c_contiguous if order == "C" else flags.f_contiguous if order == "F" else flags.forc)


def axes_of(x: Any, order: str) -> tuple[int, ...]:
    """The axes of ``x``, the widest in memory first, as an order has them."""
    a = layout(x)
    axes = list(range(np.ndim(x)))
    if a is not None and (order == "K" or (order == "A" and a.flags.fnc)):
        axes = widest_first(a.strides)
    return tuple(axes[::-1] if order == "F" else axes)


def arranged(x: Any, order: str) -> Any:
    """``x``, copied if its elements do not lie side by side in an order."""
    return x if is_laid(x, order) else copy_row(x, axes=axes_of(x, order))


def arranged_like(x: Any, other: Any) -> Any:
    """``x`` with its axes in the order in memory that those of ``other`` have, as NumPy's results are."""
    axes = axes_of(other, "K")
    return x if axes_of(x, "K") == axes else copy_row(x, axes=axes)


def order_of(x: Any, order: str) -> str:
    """An order with "A" decided: "F" for what lies in that order and in no other."""
    if order != "A":
        return order
    a = layout(x)
    return "F" if a is not None and a.flags.fnc else "C"


def copy(x: ArrayLike, order: str = "K", subok: bool = False) -> Tensor:
    """A Tensor of the same value with an identity of its own; writing into one does not change the other.

    Args:
        x: an array.
        order: how the elements lie in memory: "C", "F", "K" for as they do in ``x``, "A" for "F" if they do, else "C".
        subok: accepted as NumPy does.

    Returns:
        A Tensor.
    """
    return duplicate(x, order)


def duplicate(x: Any, order: str) -> Any:
    """A copy in an order; of a Tensor that lies so already, the same value, which nobody writes into while two have
    it."""
    x = x if isinstance(x, Operand) else constant(x)
    return identity(x) if is_laid(x, order) else copy_row(x, axes=axes_of(x, order))


def as_tensor(x: Any) -> Tensor:
    """A Tensor on what may be a plain array."""
    return x if x.__class__ is Tensor else constant(x)


# ------------------------------------------------------------------ shape
reshape_row = linear(
    lambda x, to, order: np.reshape(x, to, order=order),
    lambda g, shape, to, order: np.reshape(g, shape, order=order),
    name="reshape",
    pattern=patterns.moved,
)


def reshape(
    x: ArrayLike,
    /,
    shape: int | Sequence[int] | None = None,
    order: str = "C",
    *,
    newshape: int | Sequence[int] | None = None,
    copy: bool | None = None,
) -> Tensor:
    """The elements of ``x`` in another shape; NumPy's ``reshape``.

    Args:
        x: an array.
        shape: an int or a tuple of ints; one of them may be -1.
        order: "C", "F", or "A" for "F" if the elements of ``x`` lie so in memory.
        newshape: an older name of ``shape``.
        copy: True for a copy; False for an error where NumPy cannot make a view; None for a view if it can.

    Returns:
        A Tensor.

    Raises:
        ValueError: if the number of elements differs, or a view is wanted that cannot be made.
    """
    wanted: Any = newshape if shape is None else shape
    to = tuple(int(n) for n in wanted) if isinstance(wanted, (tuple, list)) else (int(wanted),)
    if order == "A":
        order = order_of(x, order)
    if copy:
        return reshape_row(duplicate(x, order), to=to, order=order)
    y = reshaped(x, to, order)
    base = base_of(y)
    if copy is False and x.__class__ is Tensor and (base is None or base[1] is UNDECIDED):
        raise ValueError(
            f"reshape: elements of shape {np.shape(x)} lie so that no view of shape {to} can be made; let copy be None"
        )
    return y


def reshaped(x: Any, to: tuple[int, ...], order: str) -> Any:
    """A reshape, which is a view where NumPy makes one."""
    arg = {"to": to, "order": order}
    y = reshape_row(x, **arg)
    if isinstance(y._node.value, Standin) and x.__class__ is Tensor and layout(x) is None:
        if not only_units(x.shape, to):
            link(y, x, UNDECIDED, None)
            return y
    return link_if_shared(y, x, RESHAPE, arg)


def only_units(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether two shapes differ in axes of length 1 alone."""
    return [n for n in shape if n != 1] == [n for n in to if n != 1]


RESHAPE = kind_of(
    reshape_row,
    lambda owner, arg, view: give(owner, reshape_row(view, to=owner.shape, order=arg["order"]), by=view),
)


def ravel(x: ArrayLike, order: str = "C") -> Tensor:
    """The elements of ``x`` as one axis; NumPy's ``ravel``: a view if they lie side by side in that order."""
    y = operand(x)
    if order != "C":
        y, order = read_in_order(y, order)
    value = raw(y)
    if y.__class__ is not Tensor or (value.flags.c_contiguous if value.__class__ is np.ndarray else layout(y) is None):
        return reshaped(y, (-1,), order)
    if is_laid(y, order):
        return reshaped(y, (-1,), order)
    return reshape_row(arranged(y, order), to=(-1,), order=order)


def flatten(x: ArrayLike, order: str = "C") -> Tensor:
    """The elements of ``x`` as one axis, copied; the array method ``flatten``."""
    y, order = read_in_order(operand(x), order)
    return reshape_row(duplicate(y, order), to=(-1,), order=order)


def read_in_order(x: Any, order: str) -> tuple[Any, str]:
    """``x``, with its axes exchanged if need be, and "C" or "F" as the order in which its elements are read."""
    if order != "K":
        return x, order_of(x, order)
    a = layout(x)
    if a is None:
        raise ValueError("ravel: the order in memory is not known under this batch; use order='C'")
    if any([s == 0 and m > 1 for s, m in zip(a.strides, a.shape, strict=True)]):
        raise ValueError("ravel: order='K' has no meaning for what was stretched by broadcasting; copy it first")
    return transpose(x, widest_first(a.strides)), "C"


transpose_row = linear(
    lambda x, axes: np.transpose(x, axes),
    lambda g, shape, axes: np.transpose(g, inverse(axes)),
    name="transpose",
    pattern=patterns.moved,
)


def inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation."""
    back = [0] * len(axes)
    for k, a in enumerate(axes):
        back[a] = k
    return tuple(back)


def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None, **unknown: Never) -> Tensor:
    """``x`` with its axes permuted, reversed if ``axes`` is None; NumPy's ``transpose``."""
    if unknown:
        ensure_known("transpose", unknown)
    n = np.ndim(x)
    order = tuple(range(n))[::-1] if axes is None else tuple(int(a) % n if -n <= a < n else int(a) for a in axes)
    if sorted(order) != list(range(n)):
        raise ValueError(f"transpose: axes {axes} are not a permutation of the {n} axes of shape {np.shape(x)}")
    return link_if_shared(transpose_row(x, axes=order), x, TRANSPOSE, {"axes": order})


TRANSPOSE = kind_of(
    transpose_row,
    lambda owner, arg, view: give(owner, transpose_row(view, axes=inverse(arg["axes"])), by=view),
)


def permute_dims(x: ArrayLike, /, axes: Sequence[int], **unknown: Never) -> Tensor:
    """The Array API's name of ``transpose``."""
    return transpose(x, axes, **unknown)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """``x`` with its last two axes exchanged."""
    return swapaxes(x, -1, -2)


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Tensor:
    """``x`` with two axes exchanged; NumPy's ``swapaxes``."""
    order = list(range(np.ndim(x)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order)


def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """``x`` with axes moved to other positions; NumPy's ``moveaxis``."""
    n = np.ndim(x)
    from_, to = ([a % n for a in (v if isinstance(v, (tuple, list)) else (v,))] for v in (source, destination))
    order = [k for k in range(n) if k not in from_]
    for d, s in sorted(zip(to, from_, strict=True)):
        order.insert(d, s)
    return transpose(x, order)


def expand_dims(x: ArrayLike, /, axis: int | Sequence[int] = 0, **unknown: Never) -> Tensor:
    """``x`` with axes of length 1 inserted; NumPy's ``expand_dims``."""
    if unknown:
        ensure_known("expand_dims", unknown)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shape = np.shape(x)
    n = len(shape) + len(axes)
    for a in axes:
        if not -n <= a < n:
            raise np.exceptions.AxisError(f"expand_dims: axis {a} is out of bounds for a result of {n} axes")
    new = {a % n for a in axes}
    it = iter(shape)
    return reshaped(x, tuple(1 if k in new else next(it) for k in range(n)), "C")


def squeeze(x: ArrayLike, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """``x`` without axes of length 1; NumPy's ``squeeze``."""
    shape = np.shape(x)
    n = len(shape)
    axes = range(n) if axis is None else [a % n for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if axis is not None and any(shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {shape} is not of length 1")
    return reshaped(x, tuple(m for k, m in enumerate(shape) if k not in axes or m != 1), "C")


broadcast_row = linear(
    lambda x, to: np.broadcast_to(x, to),
    lambda g, shape, to: unbroadcast(g, shape),
    name="broadcast_to",
    pattern=patterns.moved,
)


def broadcast_to(x: ArrayLike, /, shape: int | Sequence[int], subok: bool = False) -> Tensor:
    """``x`` repeated along new and unit axes to ``shape``; NumPy's ``broadcast_to``."""
    to = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
    return link_if_shared(broadcast_row(x, to=to), x, BROADCAST, {"to": to})


BROADCAST = kind_of(broadcast_row, read_only)


def broadcast_arrays(*xs: ArrayLike, subok: bool = False) -> tuple[Tensor, ...]:
    """The arrays, each broadcast to their common shape."""
    shapes = {np.shape(x) for x in xs}
    if len(shapes) == 1:  # NumPy returns the arrays themselves
        return tuple(x if isinstance(x, Tensor) else duplicate(x, "K") for x in map(operand, xs))
    shape = np.broadcast_shapes(*shapes)
    return tuple(broadcast_to(x, shape) for x in xs)


def atleast(n: int) -> AtLeast:
    def call(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
        found = []
        for x in xs:
            x = operand(x)
            shape = np.shape(x)
            if len(shape) < n:
                # NumPy puts a vector in the middle of a 3-d array: (1, n, 1).
                front = (1, *shape) if len(shape) == 1 else shape
                x = reshape(x, (*front, *(1,) * (n - len(front))))
            found.append(x if isinstance(x, Tensor) else copy(x))
        return found[0] if len(found) == 1 else tuple(found)

    call.__name__ = f"atleast_{n}d"
    call.__doc__ = f"The arguments with at least {n} axes; NumPy's ``atleast_{n}d``."
    return call  # type: ignore[return-value]


atleast_1d, atleast_2d, atleast_3d = atleast(1), atleast(2), atleast(3)

# ------------------------------------------------------------------ joining and splitting


def pieces(g: Any, shapes: Any, axis: int) -> Any:
    """The parts of a cotangent that belong to each of the joined arrays."""
    front = (slice(None),) * axis
    stop = 0
    for shape in shapes:
        start, stop = stop, stop + shape[axis]
        yield g[(*front, slice(start, stop))]


def layers(g: Any, shapes: Any, axis: int) -> Any:
    """The slices of a cotangent along a new axis."""
    front = (slice(None),) * axis
    return (g[(*front, k)] for k in range(len(shapes)))


def stacked(xs: list[Any], axis: int) -> Any:
    """NumPy's ``stack``, quicker for numbers."""
    return np.array(xs) if not xs[0].shape else np.stack(xs, axis)


concatenate_row = joint(lambda xs, axis: np.concatenate(xs, axis), pieces, name="concatenate", pattern=patterns.moved)
stack_row = joint(stacked, layers, name="stack", batch=batches.stack, pattern=patterns.moved)


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a Tensor or array, without NumPy's dispatch."""
    return x._node.value.shape if x.__class__ is Tensor else np.shape(x)


def concat(
    arrays: Iterable[ArrayLike],
    /,
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    **unknown: Never,
) -> Tensor:
    """The arrays joined along an existing axis (flattened first if it is None); NumPy's ``concatenate``.

    Args:
        arrays: a sequence of arrays whose shapes differ along the axis only.
        axis: an int or None.
        out: not supported (a Tensor never changes).
        dtype: the dtype of the result.
        casting: accepted as NumPy does.

    Returns:
        A Tensor.
    """
    if unknown:
        ensure_known("concat", unknown)
    if out is not None:
        raise TypeError("concatenate: out= is not supported, since a Tensor never changes; use the returned Tensor")
    items = [a if a.__class__ is Tensor else operand(a) for a in arrays]
    if axis is None:
        items, axis = [ravel(a) for a in items], 0
    if not items:
        raise ValueError("concatenate: at least one array is needed")
    n = len(shape_of(items[0]))
    if not -n <= axis < n:
        raise np.exceptions.AxisError(f"concatenate: axis {axis} is out of bounds for arrays of {n} axes")
    joined = concatenate_row(items, axis=axis % n)
    return joined if dtype is None else cast(joined, dtype)


def stack(
    arrays: Iterable[ArrayLike],
    /,
    axis: int = 0,
    out: None = None,
    *,
    dtype: DTypeLike | None = None,
    casting: str = "same_kind",
    **unknown: Never,
) -> Tensor:
    """Arrays of one shape joined along a new axis; NumPy's ``stack``."""
    if unknown:
        ensure_known("stack", unknown)
    if out is not None:
        raise TypeError("stack: out= is not supported, since a Tensor never changes; use the returned Tensor")
    items = [operand(a) for a in arrays]
    if not items:
        raise ValueError("stack: at least one array is needed")
    shapes = {shape_of(a) for a in items}
    if len(shapes) > 1:
        raise ValueError(f"stack: all arrays must have one shape, got {sorted(shapes)}")
    n = len(shape_of(items[0])) + 1
    if not -n <= axis < n:
        raise np.exceptions.AxisError(f"stack: axis {axis} is out of bounds for a result of {n} axes")
    joined = stack_row(items, axis=axis % n)
    return joined if dtype is None else cast(joined, dtype)


def stack_items(value: Any) -> Any:
    """Nested sequences that hold Tensors, as one Tensor."""
    if isinstance(value, (list, tuple)):
        return stack([stack_items(v) for v in value]) if has_tensor(value) else np.asarray(value)
    return operand(value)


def vstack(arrays: Iterable[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Arrays joined as rows; NumPy's ``vstack``."""
    return concat([atleast_2d(a) for a in arrays], 0, dtype=dtype)


def hstack(arrays: Iterable[ArrayLike], *, dtype: DTypeLike | None = None, casting: str = "same_kind") -> Tensor:
    """Arrays joined along the second axis (the first of vectors); NumPy's ``hstack``."""
    items = [atleast_1d(a) for a in arrays]
    return concat(items, 0 if items[0].ndim == 1 else 1, dtype=dtype)


def dstack(arrays: Iterable[ArrayLike]) -> Tensor:
    """Arrays joined along the third axis; NumPy's ``dstack``."""
    return concat([atleast_3d(a) for a in arrays], 2)


def column_stack(arrays: Iterable[ArrayLike]) -> Tensor:
    """Vectors as the columns of a matrix; NumPy's ``column_stack``."""
    items = [operand(a) for a in arrays]
    return concat([reshape(a, (-1, 1)) if np.ndim(a) < 2 else a for a in items], 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Tensor:
    """``values`` at the end of ``arr``; NumPy's ``append``."""
    return concat([arr, values], axis)


def array_split(x: ArrayLike, indices_or_sections: int | Iterable[int], axis: int = 0) -> list[Tensor]:
    """``x`` cut along an axis, into parts as equal as can be or at the given indices; NumPy's ``array_split``."""
    n = np.shape(x)[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        k = int(indices_or_sections)
        sizes = [n // k + (1 if j < n % k else 0) for j in range(k)]
        cuts = list(np.cumsum(sizes)[:-1])
    else:
        cuts = list(indices_or_sections)
    y = operand(x)
    y = as_tensor(y)
    front = (slice(None),) * (axis % np.ndim(y))
    return [y[(*front, slice(a, b))] for a, b in zip([0, *cuts], [*cuts, n], strict=True)]


def split(
    x: ArrayLike, indices_or_sections: int | Iterable[int], axis: int = 0, **unknown: Never
) -> list[Tensor]:
    """``x`` cut along an axis into equal parts, or at the given indices; NumPy's ``split``."""
    if unknown:
        ensure_known("split", unknown)
    if isinstance(indices_or_sections, (int, np.integer)) and np.shape(x)[axis] % indices_or_sections:
        raise ValueError(f"split: {np.shape(x)[axis]} elements do not make {indices_or_sections} equal parts")
    return array_split(x, indices_or_sections, axis)


def hsplit(x: ArrayLike, indices_or_sections: int | Iterable[int]) -> list[Tensor]:
    """``x`` cut along the second axis (the first of a vector); NumPy's ``hsplit``."""
    return split(x, indices_or_sections, 0 if np.ndim(x) == 1 else 1)


def vsplit(x: ArrayLike, indices_or_sections: int | Iterable[int]) -> list[Tensor]:
    """``x`` cut along the first axis; NumPy's ``vsplit``."""
    return split(x, indices_or_sections, 0)


def dsplit(x: ArrayLike, indices_or_sections: int | Iterable[int]) -> list[Tensor]:
    """``x`` cut along the third axis; NumPy's ``dsplit``."""
    return split(x, indices_or_sections, 2)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of ``x`` along an axis, as a tuple."""
    y = operand(x)
    y = as_tensor(y)
    front = (slice(None),) * (axis % np.ndim(y))
    return tuple(y[(*front, k)] for k in range(np.shape(y)[axis]))


# ------------------------------------------------------------------ reordering
flip_row = linear(
    lambda x, axis: np.flip(x, axis),
    lambda g, shape, axis: np.flip(g, axis),
    name="flip",
    pattern=patterns.moved,
)


def flip(x: ArrayLike, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """``x`` with the order of its elements reversed along axes (all if None); NumPy's ``flip``."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    return link_if_shared(flip_row(x, axis=axis), x, FLIP, {"axis": axis})


FLIP = kind_of(flip_row, lambda owner, arg, view: give(owner, flip_row(view, **arg), by=view))


def fliplr(x: ArrayLike) -> Tensor:
    """``x`` reversed along the second axis."""
    return flip(x, 1)


def flipud(x: ArrayLike) -> Tensor:
    """``x`` reversed along the first axis."""
    return flip(x, 0)


def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """``x`` turned by 90 degrees k times in the plane of two axes; NumPy's ``rot90``."""
    a, b = axes
    k %= 4
    if k == 0:
        return reshaped(x, np.shape(x), "C")
    if k == 2:
        return flip(flip(x, a), b)
    return swapaxes(flip(x, b), a, b) if k == 1 else flip(swapaxes(x, a, b), b)


roll_row = linear(
    lambda x, shift, axis: np.roll(x, shift, axis),
    lambda g, shape, shift, axis: np.roll(g, tuple(-s for s in shift) if isinstance(shift, tuple) else -shift, axis),
    name="roll",
    pattern=patterns.moved,
)


def roll(x: ArrayLike, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """``x`` with its elements rolled along axes (as one axis if None); NumPy's ``roll``."""
    return roll_row(x, shift=tuple(shift) if isinstance(shift, (list, np.ndarray)) else shift, axis=axis)


def _tile_back(g: Any, shape: tuple[int, ...], reps: tuple[int, ...]) -> Any:
    n = max(len(shape), len(reps))
    sizes = (1,) * (n - len(shape)) + shape
    times = (1,) * (n - len(reps)) + reps
    folded = np.reshape(g, tuple(m for pair in zip(times, sizes, strict=True) for m in pair))
    return np.reshape(np.sum(folded, axis=tuple(range(0, 2 * n, 2))), shape)


tile_row = linear(lambda x, reps: np.tile(x, reps), _tile_back, name="tile", pattern=patterns.moved)


def tile(x: ArrayLike, /, reps: int | Sequence[int], **unknown: Never) -> Tensor:
    """``x`` repeated as a whole along axes; NumPy's ``tile``."""
    if unknown:
        ensure_known("tile", unknown)
    times: Any = reps
    return tile_row(
        x, reps=tuple(int(r) for r in (times if isinstance(times, (tuple, list, np.ndarray)) else (times,)))
    )


def repeat(x: ArrayLike, /, repeats: ArrayLike, axis: int | None = None) -> Tensor:
    """``x`` with each element repeated along an axis (of the flat array if None); NumPy's ``repeat``."""
    x = operand(x)
    if axis is None:
        x, axis = ravel(x), 0
    n = np.shape(x)[axis]
    index = np.repeat(np.arange(n), np.asarray(repeats))
    return arranged(as_tensor(x)[(slice(None),) * (axis % np.ndim(x)) + (index,)], "C")


def _pad_back(g: Any, shape: tuple[int, ...], widths: Any, value: Any) -> Any:
    return g[tuple(slice(a, a + n) for (a, _), n in zip(widths, shape, strict=True))]


pad_row = linear(
    lambda x, widths, value: np.pad(x, widths, constant_values=value) if widths else same(x),
    _pad_back,
    name="pad_zeros",
    places=True,
    pattern=patterns.moved,
)


def pad(x: ArrayLike, pad_width: ArrayLike, mode: str = "constant", **kwargs: Any) -> Tensor:
    """``x`` with a border; NumPy's ``pad`` for all modes that copy elements or put constants.

    Args:
        x: an array.
        pad_width: an int, a pair, or a pair for each axis.
        mode: "constant", "edge", "reflect", "symmetric", "wrap" or "empty".
        **kwargs: ``constant_values`` and ``reflect_type`` as NumPy has them.

    Returns:
        A Tensor.
    """
    x = operand(x)
    n = np.ndim(x)
    pairs = np.broadcast_to(np.asarray(pad_width, int), (n, 2))
    widths = tuple((int(a), int(b)) for a, b in pairs)
    if mode == "constant":
        y = pad_row(x, widths=widths, value=0)
        values = kwargs.get("constant_values", 0)
        if isinstance(values, Operand) or np.any(np.asarray(values)):
            inside = np.pad(np.ones(np.shape(x), bool), widths)
            if isinstance(values, Operand):
                border = operand(values)
            else:
                border = np.pad(np.zeros(np.shape(x), raw(x).dtype), widths, **kwargs)
            y = where(inside, y, border)
        return arranged(y, order_of(x, "A"))
    if mode not in ("edge", "reflect", "symmetric", "wrap", "empty"):
        raise TypeError(f"pad: mode {mode!r} has no row; use 'constant', 'edge', 'reflect', 'symmetric' or 'wrap'")
    if kwargs.get("reflect_type", "even") != "even":
        raise TypeError("pad: reflect_type='odd' has no row; build the border from slices with concatenate")
    # Every other mode copies elements: where each one comes from is what NumPy's own pad says of their numbers.
    place = np.pad(np.arange(prod(np.shape(x))).reshape(np.shape(x)), widths, mode=mode, **kwargs)  # type: ignore[call-overload]
    return arranged(ravel(x)[place] if mode != "empty" else pad_row(x, widths=widths, value=0), order_of(x, "A"))


KEYS: dict[Any, list[Any]] = {
    cast: ["cast"],
    reshape: [np.reshape],
    ravel: [np.ravel, "ravel"],
    transpose: [np.transpose],
    permute_dims: ["permute_dims"],
    matrix_transpose: [np.matrix_transpose, np.linalg.matrix_transpose, "matrix_transpose"],
    swapaxes: [np.swapaxes, "swapaxes"],
    moveaxis: [np.moveaxis, "moveaxis"],
    expand_dims: [np.expand_dims, "expand_dims"],
    squeeze: [np.squeeze, "squeeze"],
    broadcast_to: [np.broadcast_to, "broadcast_to"],
    broadcast_arrays: [np.broadcast_arrays, "broadcast_arrays"],
    atleast_1d: [np.atleast_1d, "atleast_1d"],
    atleast_2d: [np.atleast_2d, "atleast_2d"],
    atleast_3d: [np.atleast_3d, "atleast_3d"],
    concat: [np.concatenate, "concat"],
    stack: [np.stack],
    stack_items: ["stack_items"],
    vstack: [np.vstack, "vstack"],
    hstack: [np.hstack, "hstack"],
    dstack: [np.dstack, "dstack"],
    column_stack: [np.column_stack, "column_stack"],
    append: [np.append, "append"],
    array_split: [np.array_split, "array_split"],
    split: [np.split, "split"],
    hsplit: [np.hsplit, "hsplit"],
    vsplit: [np.vsplit, "vsplit"],
    dsplit: [np.dsplit, "dsplit"],
    unstack: newer("unstack"),
    flip: [np.flip],
    fliplr: [np.fliplr, "fliplr"],
    flipud: [np.flipud, "flipud"],
    rot90: [np.rot90, "rot90"],
    roll: [np.roll],
    tile: [np.tile],
    repeat: [np.repeat, "repeat"],
    pad: [np.pad, "pad"],
    copy: [np.copy, "copy"],
    astype: [np.astype, "astype"],
}
for _call, _keys in KEYS.items():
    register(_call, *_keys)
