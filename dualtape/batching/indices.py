"""The rules of indices for Batches: of what is read, and where something is put."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.calls import enter
from dualtape.batching.level import Level
from dualtape.batching.physical import is_batched, lines, padded, rank, repeated, shifted
from dualtape.core.standin import Refused
from dualtape.core.tensor import raw


@enter(np.take)
def take(level: Level, x: Any, indices: Any, axis: Any = None, **kw: Any) -> Any:
    if isinstance(indices, Batch):
        raise Refused("take: indices for each example")
    p, axis = lines(x.physical, axis)
    return Batch(level, np.take(p, indices, axis, **kw))


@enter(np.take_along_axis, many=True)
def take_along_axis(level: Level, x: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        raise Refused("take_along_axis: no rule for the flat array")
    return Batch(level, np.take_along_axis(repeated(level, x), repeated(level, indices), shifted(axis, rank(x))))


def spelled(index: Any, ndim: int) -> tuple[list[Any], bool]:
    """An index as a list with the ellipsis written out, if it stands for an axis, and whether it has arrays in it."""
    key = list(index) if isinstance(index, tuple) else [index]
    key = [np.asarray(i) if isinstance(i, list) else i for i in key]
    if any([isinstance(i, (bool, np.bool_)) or (hasattr(i, "ndim") and not i.ndim and i.dtype == bool) for i in key]):
        raise Refused("indexing by one truth value")
    dots = [k for k, i in enumerate(key) if i is Ellipsis]
    if dots:
        rest = [i for i in key if i is not None and i is not Ellipsis]
        used = sum([i.ndim if hasattr(i, "ndim") and i.dtype == bool else 1 for i in rest])
        if ndim > used:
            key[dots[0] : dots[0] + 1] = [slice(None)] * (ndim - used)
    return key, any([not (passes(i) or isinstance(i, (int, np.integer))) for i in key])


def passes(i: Any) -> bool:
    """Whether a part of an index stands for axes of the array as they are, or for a new one."""
    return i is None or i is Ellipsis or isinstance(i, slice)


def separated(key: list[Any]) -> bool:
    """Whether arrays and integers of an index stand apart, so that NumPy puts their axes first."""
    places = [k for k, i in enumerate(key) if not passes(i)]
    return bool(places) and places[-1] - places[0] + 1 != len(places)


def array_axes(key: list[Any]) -> int:
    """The number of axes that the arrays of an index make together."""
    return max([1 if hasattr(i, "dtype") and i.dtype == bool else rank(i) for i in key if not passes(i)])


def physical_index(level: Level, index: Any, ndim: int) -> tuple[tuple[Any, ...], Any]:
    """An index of an example as one of the physical array, and from and to where axes of the result must be moved.

    Without an index for each example, NumPy may put the axes of the arrays before the batch; with one, it puts them
    directly behind the batch though they belong further back.
    """
    key, arrays = spelled(index, ndim)
    if not any([isinstance(i, Batch) for i in key]):
        return (slice(None), *key), ((array_axes(key), 0) if arrays and separated(key) else None)
    if any(i.dtype == bool for i in key if isinstance(i, Batch)):
        raise Refused("a mask for each example")
    n = array_axes(key)
    found: list[Any] = [np.arange(level.size).reshape((-1, *(1,) * n))]
    for i in key:
        if is_batched(level, i):
            i = padded(np.asarray(raw(i.physical)), n)
        found.append(i)
    axes = [i for i in key if i is not Ellipsis]
    first = 0 if separated(key) else next(k for k, i in enumerate(axes) if not passes(i))
    moves = tuple(range(1, n + 1)), tuple(range(1 + first, n + 1 + first))
    return tuple(found), (moves if first else None)


@enter(operator.getitem, many=True)
def getitem(level: Level, x: Any, index: Any) -> Any:
    key, moves = physical_index(level, index, rank(x))
    y = repeated(level, x)[key]
    return Batch(level, np.moveaxis(y, *moves) if moves else y)


def placed(level: Level, g: Any, index: Any, ndim: int) -> tuple[tuple[Any, ...], Any]:
    """The index of the physical array, and what is put there with its axes as that index wants them."""
    key, moves = physical_index(level, index, ndim)
    return key, np.moveaxis(g, moves[1], moves[0]) if moves else g
