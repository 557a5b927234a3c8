"""The rules of NumPy's functions for Batches, by family: facts, reductions, rearranging; axes shift by one.

Kernels and rules call these functions, and so have their ``batch`` column from them. A rule works on all examples at
once, in plain NumPy on an array (or Tensor) with the batch as its first axis. What has no rule here runs once for each.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.calls import Rule, enter, performed
from dualtape.batching.level import Level
from dualtape.batching.physical import lines, padded, rank, repeated, shifted
from dualtape.core.standin import Refused, laid

# ------------------------------------------------------------------ facts of one example
enter(np.shape)(lambda level, x: x.shape)
enter(np.ndim)(lambda level, x: x.ndim)
enter(np.size)(lambda level, x, axis=None: x.size if axis is None else x.shape[axis])
enter(np.result_type, many=True)(lambda level, *a: np.result_type(*[x.dtype if isinstance(x, Batch) else x for x in a]))
enter(np.can_cast)(lambda level, x, *rest, **kw: np.can_cast(x.dtype, *rest, **kw))
enter(np.iscomplexobj)(lambda level, x: x.dtype.kind == "c")
enter(np.isrealobj)(lambda level, x: x.dtype.kind != "c")
enter(np.shares_memory, np.may_share_memory, many=True)(lambda level, *xs, **kw: False)


def filled(fill: Callable[..., Any]) -> Rule:
    """zeros_like and its like: the same for all examples."""

    def rule(level: Level, x: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None) -> Any:
        found = fill(x.shape if shape is None else shape, dtype or x.dtype, "F" if order == "F" else "C")
        whole = x.memory()
        as_they_lie = order == "K" and shape is None and whole is not None
        return laid(found, whole.strides[whole.ndim - x.ndim :]) if as_they_lie else found

    return rule


enter(np.zeros_like)(filled(np.zeros))
enter(np.ones_like)(filled(np.ones))
enter(np.empty_like)(filled(np.empty))


@enter(np.full_like)
def full_like(level: Level, x: Any, fill_value: Any, dtype: Any = None, **kw: Any) -> Any:
    if isinstance(fill_value, Batch) or kw:
        raise Refused("full_like: a fill value for each example")
    return np.full(x.shape, fill_value, dtype or x.dtype)


# ------------------------------------------------------------------ reductions: the axes shift by one
def reduction(function: Any) -> Rule:
    def rule(level: Level, x: Any, axis: Any = None, **kw: Any) -> Any:
        if kw.get("out") is not None or isinstance(kw.get("where"), (Batch, np.ndarray)):
            raise Refused("no rule for a batch with these keywords")
        return Batch(level, function(x.physical, axis=shifted(axis, x.ndim), **kw))

    return rule


_f: Any
for _f in (
    *(np.sum, np.prod, np.mean, np.var, np.std, np.max, np.min, np.any, np.all, np.count_nonzero, np.median),
    *(np.nansum, np.nanmax, np.nanmin),
):
    enter(_f)(reduction(_f))


def along(function: Any, default: Any) -> Rule:
    """A function along one axis, of the flat array if it is None; ``default`` is its default."""

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
    enter(_f)(along(_f, _axis))


def shifting(row: Callable[[], Any]) -> Rule:
    """The batch column of a reduction whose kernel is composed of several functions: the row itself, one axis on."""

    def batch(level: Level, x: Any, axis: Any, **params: Any) -> Any:
        return Batch(level, performed(row(), repeated(level, x), axis=shifted(axis, x.ndim), **params))

    return batch


# ------------------------------------------------------------------ rearranging
@enter(np.reshape)
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


enter(np.ravel)(lambda level, x, order="C": reshape(level, x, (x.size,), order))


@enter(np.copy)
def copy(level: Level, x: Any, order: str = "K") -> Any:
    n = x.ndim
    if order == "K":
        whole = x.memory()
        return Batch(level, np.copy(x.physical)) if whole is None else laid(x, whole.strides[whole.ndim - n :])
    if order not in ("C", "F"):
        raise Refused("copy: this order depends on the layout")
    return x.ordered(range(n) if order == "C" else range(n)[::-1])


@enter(np.transpose)
def transpose(level: Level, x: Any, axes: Any = None) -> Any:
    n = x.ndim
    order = range(n, 0, -1) if axes is None else shifted(tuple(axes), n)
    return Batch(level, np.transpose(x.physical, (0, *order)))


enter(np.swapaxes)(lambda level, x, a, b: Batch(level, np.swapaxes(x.physical, *shifted((a, b), x.ndim))))
enter(np.matrix_transpose)(lambda level, x: Batch(level, np.swapaxes(x.physical, -1, -2)))


@enter(np.moveaxis)
def moveaxis(level: Level, x: Any, source: Any, destination: Any) -> Any:
    return Batch(level, np.moveaxis(x.physical, shifted(source, x.ndim), shifted(destination, x.ndim)))


@enter(np.expand_dims)
def expand_dims(level: Level, x: Any, axis: Any) -> Any:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return Batch(level, np.expand_dims(x.physical, shifted(axes, x.ndim + len(axes))))


@enter(np.squeeze)
def squeeze(level: Level, x: Any, axis: Any = None) -> Any:
    axes = tuple(k for k, n in enumerate(x.shape) if n == 1) if axis is None else axis
    return Batch(level, np.squeeze(x.physical, shifted(axes, x.ndim)))


@enter(np.broadcast_to)
def broadcast_to(level: Level, x: Any, shape: Any, subok: bool = False) -> Any:
    to = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(to) < x.ndim:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {to}")
    return Batch(level, np.broadcast_to(padded(x.physical, len(to)), (level.size, *to)))


@enter(np.concatenate, many=True)
def concatenate(level: Level, xs: Any, axis: Any = 0, **kw: Any) -> Any:
    if axis is None:
        raise Refused("concatenate: no rule for the flat arrays")
    return Batch(level, np.concatenate([repeated(level, x) for x in xs], shifted(axis, rank(xs[0])), **kw))


@enter(np.stack, many=True)
def stack(level: Level, xs: Any, axis: int = 0, **kw: Any) -> Any:
    return Batch(level, np.stack([repeated(level, x) for x in xs], shifted(axis, rank(xs[0]) + 1), **kw))


enter(np.flip)(lambda level, x, axis=None: Batch(level, np.flip(x.physical, shifted(axis, x.ndim))))


@enter(np.roll)
def roll(level: Level, x: Any, shift: Any, axis: Any = None) -> Any:
    p, axis = lines(x.physical, axis)
    return Batch(level, np.roll(p, shift, axis).reshape(x.physical.shape))


@enter(np.tile)
def tile(level: Level, x: Any, reps: Any) -> Any:
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    n = max(x.ndim, len(times))
    return Batch(level, np.tile(padded(x.physical, n), (1, *(1,) * (n - len(times)), *times)))


@enter(np.repeat)
def repeat(level: Level, x: Any, repeats: Any, axis: Any = None) -> Any:
    p, axis = lines(x.physical, axis)
    return Batch(level, np.repeat(p, repeats, axis))


@enter(np.pad)
def pad(level: Level, x: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    if any(np.ndim(v) for v in kw.values()):
        raise Refused("pad: different values for different borders")
    pairs = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2))
    return Batch(level, np.pad(x.physical, [(0, 0), *((int(a), int(b)) for a, b in pairs)], mode, **kw))
