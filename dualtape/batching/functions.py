"""The rules of NumPy's functions for Batches, by family: axes shift by one, elements align.

Kernels and rules call these functions, and so have their ``batch`` column from them. A rule works on all examples at
once, in plain NumPy on an array (or Tensor) with the batch as its first axis. What has no rule here runs once for each.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, astype
from dualtape.batching.calls import Rule, enter, performed, rule_of
from dualtape.batching.level import Level
from dualtape.batching.operators import BINARY, COMPARISONS, UNARY
from dualtape.batching.physical import aligned, is_batched, physical, rank, repeated, shifted
from dualtape.batching.ufuncs import ufunc_call
from dualtape.core.standin import Refused


# ------------------------------------------------------------------ facts of one example
def dtype_of(x: Any) -> Any:
    return x.dtype if isinstance(x, Batch) else x


enter(lambda level, x: x.shape, np.shape)
enter(lambda level, x: x.ndim, np.ndim)
enter(lambda level, x, axis=None: x.size if axis is None else x.shape[axis], np.size)
enter(lambda level, *xs: np.result_type(*map(dtype_of, xs)), np.result_type, many=True)
enter(lambda level, x, *rest, **kw: np.can_cast(x.dtype, *rest, **kw), np.can_cast)
enter(lambda level, x: x.dtype.kind == "c", np.iscomplexobj)
enter(lambda level, x: x.dtype.kind != "c", np.isrealobj)
enter(lambda level, *xs, **kw: False, np.may_share_memory, np.shares_memory, many=True)


def filled(fill: Callable[..., Any]) -> Rule:
    """zeros_like and its like: the same for all examples."""

    def rule(level: Level, x: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None) -> Any:
        return fill(x.shape if shape is None else shape, dtype or x.dtype)

    return rule


enter(filled(np.zeros), np.zeros_like)
enter(filled(np.ones), np.ones_like)
enter(filled(np.empty), np.empty_like)


@rule_of(np.full_like)
def full_like(level: Level, x: Any, fill_value: Any, dtype: Any = None, **kw: Any) -> Any:
    if isinstance(fill_value, Batch) or kw:
        raise Refused("full_like: a fill value for each example")
    return np.full(x.shape, fill_value, dtype or x.dtype)


# ------------------------------------------------------------------ element by element
def elements(function: Any) -> Rule:
    """A function of one array's elements, with other arguments that are the same for all."""

    def rule(level: Level, x: Any, *rest: Any, **kw: Any) -> Any:
        return Batch(level, function(x.physical, *rest, **kw))

    return rule


_f: Any
for _f in (
    *(np.real, np.imag, np.angle, np.sinc, np.round, np.around, np.fix, np.isreal, np.iscomplex, np.nan_to_num, np.i0),
    np.copy,
):
    enter(elements(_f), _f)


@rule_of(np.where, many=True)
def where(level: Level, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise Refused("where: the number of indices may differ")
    return Batch(level, np.where(*aligned(level, (condition, x, y))))


@rule_of(np.clip, many=True)
def clip(level: Level, x: Any, a_min: Any = None, a_max: Any = None, **kw: Any) -> Any:
    low, high = kw.pop("min", a_min), kw.pop("max", a_max)
    given = [b for b in (low, high) if b is not None and b is not np._NoValue]
    x, *bounds = aligned(level, (x, *given))
    low, high = (bounds.pop(0) if b is not None and b is not np._NoValue else None for b in (low, high))
    return Batch(level, np.clip(x, low, high, **kw))


@rule_of(np.isclose, many=True)
def isclose(level: Level, x: Any, y: Any, *rest: Any, **kw: Any) -> Any:
    return Batch(level, np.isclose(*aligned(level, (x, y)), *rest, **kw))


@rule_of(np.allclose, many=True)
def allclose(level: Level, x: Any, y: Any, *rest: Any, **kw: Any) -> Any:
    return np.all(np.isclose(x, y, *rest, **kw))


@rule_of(np.array_equal, many=True)
def array_equal(level: Level, x: Any, y: Any, equal_nan: bool = False) -> Any:
    if equal_nan:
        raise Refused("array_equal: no rule for NaN")
    return np.all(x == y) if np.shape(x) == np.shape(y) else False


@rule_of(np.searchsorted, many=True)
def searchsorted(level: Level, a: Any, v: Any, *rest: Any, **kw: Any) -> Any:
    if is_batched(level, a) or not is_batched(level, v):
        raise Refused("searchsorted: each example has its own bins")
    return Batch(level, np.searchsorted(physical(level, a), v.physical, *rest, **kw))


enter(elements(np.digitize), np.digitize)
enter(elements(astype), astype)


def elementwise(function: Any) -> Rule:
    """An operator of Python's."""
    return lambda level, *xs: ufunc_call(level, function, *xs)


for _f in (*BINARY, *COMPARISONS, *UNARY):
    enter(elementwise(_f), _f, many=True)


# ------------------------------------------------------------------ reductions: the axes shift by one
def reduction(function: Any) -> Rule:
    def rule(level: Level, x: Any, axis: Any = None, **kw: Any) -> Any:
        if kw.get("out") is not None or isinstance(kw.get("where"), (Batch, np.ndarray)):
            raise Refused("no rule for a batch with these keywords")
        return Batch(level, function(x.physical, axis=shifted(axis, x.ndim), **kw))

    return rule


for _f in (
    *(np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.any, np.all, np.count_nonzero, np.median),
    *(np.nansum, np.nanmax, np.nanmin),
):
    enter(reduction(_f), _f)


def along(function: Any, axis: Any) -> Rule:
    """A function along one axis, of the flat array if it is None; ``axis`` is its default."""

    default = axis

    def rule(level: Level, x: Any, axis: Any = default, **kw: Any) -> Any:
        p = x.physical
        if axis is None or not x.ndim:
            p, axis = p.reshape((p.shape[0], -1)), 0
            keep = kw.pop("keepdims", False)
            y = function(p, axis=1, **kw)
            return Batch(level, y.reshape((p.shape[0], *(1,) * x.ndim)) if keep is True else y)
        return Batch(level, function(p, axis=shifted(axis, x.ndim), **kw))

    return rule


for _f, _axis in (
    *((f, None) for f in (np.cumsum, np.cumprod, np.argmax, np.argmin, np.nanargmax, np.nanargmin)),
    *((f, -1) for f in (np.sort, np.argsort)),
):
    enter(along(_f, _axis), _f)


def shifting(row: Callable[[], Any]) -> Rule:
    """The batch column of a reduction whose kernel is composed of several functions: the row itself, one axis on."""

    def batch(level: Level, x: Any, axis: Any, **params: Any) -> Any:
        return Batch(level, performed(row(), repeated(level, x), axis=shifted(axis, x.ndim), **params))

    return batch


# ------------------------------------------------------------------ rearranging
@rule_of(np.reshape)
def reshape(level: Level, x: Any, /, shape: Any = None, order: str = "C", **kw: Any) -> Any:
    p = x.physical
    shape = kw.pop("newshape", shape)
    to = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if order not in ("C", "F"):
        raise Refused("reshape: this order depends on the layout")
    if -1 in to:
        known = prod(n for n in to if n != -1)
        to = tuple(x.size // known if n == -1 and known else n for n in to)
    if order == "C":
        return Batch(level, p.reshape((p.shape[0], *to)))
    # Columns first: the batch as the last axis, which such an order leaves where it is.
    return Batch(level, np.moveaxis(np.reshape(np.moveaxis(p, 0, -1), (*to, p.shape[0]), order="F"), -1, 0))


enter(lambda level, x, order="C": reshape(level, x, (x.size,), order), np.ravel)


@rule_of(np.transpose)
def transpose(level: Level, x: Any, axes: Any = None) -> Any:
    n = x.ndim
    order = range(n, 0, -1) if axes is None else shifted(tuple(axes), n)
    return Batch(level, np.transpose(x.physical, (0, *order)))


enter(lambda level, x, a, b: Batch(level, np.swapaxes(x.physical, *shifted((a, b), x.ndim))), np.swapaxes)
enter(lambda level, x: Batch(level, np.swapaxes(x.physical, -1, -2)), np.matrix_transpose)


@rule_of(np.moveaxis)
def moveaxis(level: Level, x: Any, source: Any, destination: Any) -> Any:
    return Batch(level, np.moveaxis(x.physical, shifted(source, x.ndim), shifted(destination, x.ndim)))


@rule_of(np.expand_dims)
def expand_dims(level: Level, x: Any, axis: Any) -> Any:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return Batch(level, np.expand_dims(x.physical, shifted(axes, x.ndim + len(axes))))


@rule_of(np.squeeze)
def squeeze(level: Level, x: Any, axis: Any = None) -> Any:
    axes = tuple(k for k, n in enumerate(x.shape) if n == 1) if axis is None else axis
    return Batch(level, np.squeeze(x.physical, shifted(axes, x.ndim)))


@rule_of(np.broadcast_to)
def broadcast_to(level: Level, x: Any, shape: Any, subok: bool = False) -> Any:
    to = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    p = x.physical
    if len(to) < x.ndim:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {to}")
    p = p.reshape((p.shape[0], *(1,) * (len(to) - x.ndim), *p.shape[1:]))
    return Batch(level, np.broadcast_to(p, (p.shape[0], *to)))


@rule_of(np.concatenate, many=True)
def concatenate(level: Level, xs: Any, axis: Any = 0, **kw: Any) -> Any:
    if axis is None:
        raise Refused("concatenate: no rule for the flat arrays")
    return Batch(level, np.concatenate([repeated(level, x) for x in xs], shifted(axis, rank(xs[0])), **kw))


@rule_of(np.stack, many=True)
def stack(level: Level, xs: Any, axis: int = 0, **kw: Any) -> Any:
    return Batch(level, np.stack([repeated(level, x) for x in xs], shifted(axis, rank(xs[0]) + 1), **kw))


enter(lambda level, x, axis=None: Batch(level, np.flip(x.physical, shifted(axis, x.ndim))), np.flip)


@rule_of(np.roll)
def roll(level: Level, x: Any, shift: Any, axis: Any = None) -> Any:
    p = x.physical
    if axis is not None:
        return Batch(level, np.roll(p, shift, shifted(axis, x.ndim)))
    shift = sum(shift) if isinstance(shift, tuple) else shift
    return Batch(level, np.roll(p.reshape((p.shape[0], -1)), shift, 1).reshape(p.shape))


@rule_of(np.tile)
def tile(level: Level, x: Any, reps: Any) -> Any:
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    p = x.physical
    n = max(x.ndim, len(times))
    p = p.reshape((p.shape[0], *(1,) * (n - x.ndim), *p.shape[1:]))
    return Batch(level, np.tile(p, (1, *(1,) * (n - len(times)), *times)))


@rule_of(np.repeat)
def repeat(level: Level, x: Any, repeats: Any, axis: Any = None) -> Any:
    p = x.physical
    if axis is None:
        return Batch(level, np.repeat(p.reshape((p.shape[0], -1)), repeats, 1))
    return Batch(level, np.repeat(p, repeats, shifted(axis, x.ndim)))


@rule_of(np.pad)
def pad(level: Level, x: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    if any(np.ndim(v) for v in kw.values()):
        raise Refused("pad: different values for different borders")
    pairs = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2))
    return Batch(level, np.pad(x.physical, [(0, 0), *((int(a), int(b)) for a, b in pairs)], mode, **kw))
