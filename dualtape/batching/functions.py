"""The rules of NumPy's functions for Batches, by family: axes shift by one, leading axes are free, elements align.

Kernels and rules call these functions, and so have their ``batch`` column from them. A rule works on all examples at
once, in plain NumPy on an array (or Tensor) with the batch as its first axis. What has no rule here runs once for each.

Length: one line for most of NumPy's functions, and the products and indices that need more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from dualtape.batching.level import (
    FUNCTIONS,
    MANY,
    Batch,
    Level,
    NotBatched,
    aligned,
    is_batched,
    performed,
    plain,
    shifted,
    ufunc_call,
)
from dualtape.core.tensor import raw
from dualtape.memory.reserve import SMALLEST, room

Rule = Callable[..., Any]


def enter(rule: Rule, *functions: Any, many: bool = False) -> Rule:
    """Let a rule answer for functions; ``many``: it takes Batches for more than its first operand."""
    for f in functions:
        FUNCTIONS[f] = rule
    if many:
        MANY.add(rule)
    return rule


def rule_of(*functions: Any, many: bool = False) -> Callable[[Rule], Rule]:
    """Enter the rule that is defined below for some functions."""
    return lambda rule: enter(rule, *functions, many=many)


def only(level: Level, x: Any) -> Any:
    """The physical array of the operand of a unary function."""
    if not is_batched(level, x):
        raise NotBatched("the batch is not the operand")
    return x.physical


def held(level: Level, x: Any) -> Any:
    """The physical array of a Batch of this level; anything else as it stands."""
    return x.physical if is_batched(level, x) else plain(x)


def whole(level: Level, x: Any) -> Any:
    """A physical array with the batch as its first axis, also of an operand without batch."""
    if is_batched(level, x):
        return x.physical
    x = plain(x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return np.broadcast_to(x, (level.size, *x.shape))


def rank(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


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
        raise NotBatched("full_like: a fill value for each example")
    return np.full(x.shape, fill_value, dtype or x.dtype)


# ------------------------------------------------------------------ element by element
def elements(function: Any) -> Rule:
    """A function of one array's elements, with other arguments that are the same for all."""

    def rule(level: Level, x: Any, *rest: Any, **kw: Any) -> Any:
        return Batch(level, function(only(level, x), *rest, **kw))

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
        raise NotBatched("where: the number of indices may differ")
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
        raise NotBatched("array_equal: no rule for NaN")
    return np.all(x == y) if np.shape(x) == np.shape(y) else False


@rule_of(np.searchsorted, many=True)
def searchsorted(level: Level, a: Any, v: Any, *rest: Any, **kw: Any) -> Any:
    if is_batched(level, a):
        raise NotBatched("searchsorted: each example has its own bins")
    return Batch(level, np.searchsorted(plain(a), only(level, v), *rest, **kw))


enter(elements(np.digitize), np.digitize)


# ------------------------------------------------------------------ reductions: the axes shift by one
def reduction(function: Any) -> Rule:
    def rule(level: Level, x: Any, axis: Any = None, **kw: Any) -> Any:
        if kw.get("out") is not None or isinstance(kw.get("where"), (Batch, np.ndarray)):
            raise NotBatched("no rule for a batch with these keywords")
        return Batch(level, function(only(level, x), axis=shifted(axis, x.ndim), **kw))

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
        p = only(level, x)
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


# ------------------------------------------------------------------ rearranging
@rule_of(np.reshape)
def reshape(level: Level, x: Any, /, shape: Any = None, order: str = "C", **kw: Any) -> Any:
    p = only(level, x)
    shape = kw.pop("newshape", shape)
    to = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if order not in ("C", "F"):
        raise NotBatched("reshape: this order depends on the layout")
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
    return Batch(level, np.transpose(only(level, x), (0, *order)))


enter(lambda level, x, a, b: Batch(level, np.swapaxes(only(level, x), *shifted((a, b), x.ndim))), np.swapaxes)
enter(lambda level, x: Batch(level, np.swapaxes(only(level, x), -1, -2)), np.matrix_transpose)


@rule_of(np.moveaxis)
def moveaxis(level: Level, x: Any, source: Any, destination: Any) -> Any:
    return Batch(level, np.moveaxis(only(level, x), shifted(source, x.ndim), shifted(destination, x.ndim)))


@rule_of(np.expand_dims)
def expand_dims(level: Level, x: Any, axis: Any) -> Any:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return Batch(level, np.expand_dims(only(level, x), shifted(axes, x.ndim + len(axes))))


@rule_of(np.squeeze)
def squeeze(level: Level, x: Any, axis: Any = None) -> Any:
    axes = tuple(k for k, n in enumerate(x.shape) if n == 1) if axis is None else axis
    return Batch(level, np.squeeze(only(level, x), shifted(axes, x.ndim)))


@rule_of(np.broadcast_to)
def broadcast_to(level: Level, x: Any, shape: Any, subok: bool = False) -> Any:
    to = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    p = only(level, x)
    if len(to) < x.ndim:
        raise ValueError(f"an array of shape {x.shape} does not broadcast to {to}")
    p = p.reshape((p.shape[0], *(1,) * (len(to) - x.ndim), *p.shape[1:]))
    return Batch(level, np.broadcast_to(p, (p.shape[0], *to)))


@rule_of(np.concatenate, many=True)
def concatenate(level: Level, xs: Any, axis: Any = 0, **kw: Any) -> Any:
    if axis is None:
        raise NotBatched("concatenate: no rule for the flat arrays")
    return Batch(level, np.concatenate([whole(level, x) for x in xs], shifted(axis, rank(xs[0])), **kw))


@rule_of(np.stack, many=True)
def stack(level: Level, xs: Any, axis: int = 0, **kw: Any) -> Any:
    return Batch(level, np.stack([whole(level, x) for x in xs], shifted(axis, rank(xs[0]) + 1), **kw))


enter(lambda level, x, axis=None: Batch(level, np.flip(only(level, x), shifted(axis, x.ndim))), np.flip)


@rule_of(np.roll)
def roll(level: Level, x: Any, shift: Any, axis: Any = None) -> Any:
    p = only(level, x)
    if axis is not None:
        return Batch(level, np.roll(p, shift, shifted(axis, x.ndim)))
    shift = sum(shift) if isinstance(shift, tuple) else shift
    return Batch(level, np.roll(p.reshape((p.shape[0], -1)), shift, 1).reshape(p.shape))


@rule_of(np.tile)
def tile(level: Level, x: Any, reps: Any) -> Any:
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    p = only(level, x)
    n = max(x.ndim, len(times))
    p = p.reshape((p.shape[0], *(1,) * (n - x.ndim), *p.shape[1:]))
    return Batch(level, np.tile(p, (1, *(1,) * (n - len(times)), *times)))


@rule_of(np.repeat)
def repeat(level: Level, x: Any, repeats: Any, axis: Any = None) -> Any:
    p = only(level, x)
    if axis is None:
        return Batch(level, np.repeat(p.reshape((p.shape[0], -1)), repeats, 1))
    return Batch(level, np.repeat(p, repeats, shifted(axis, x.ndim)))


@rule_of(np.pad)
def pad(level: Level, x: Any, pad_width: Any, mode: Any = "constant", **kw: Any) -> Any:
    if any(np.ndim(v) for v in kw.values()):
        raise NotBatched("pad: different values for different borders")
    pairs = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2))
    return Batch(level, np.pad(only(level, x), [(0, 0), *((int(a), int(b)) for a, b in pairs)], mode, **kw))


@rule_of(np.take)
def take(level: Level, x: Any, indices: Any, axis: Any = None, **kw: Any) -> Any:
    p = only(level, x)
    if isinstance(indices, Batch):
        raise NotBatched("take: indices for each example")
    if axis is None:
        p, axis = p.reshape((p.shape[0], -1)), 0
    return Batch(level, np.take(p, indices, shifted(axis, len(p.shape) - 1), **kw))


@rule_of(np.take_along_axis, many=True)
def take_along_axis(level: Level, x: Any, indices: Any, axis: Any = -1) -> Any:
    if axis is None:
        raise NotBatched("take_along_axis: no rule for the flat array")
    return Batch(level, np.take_along_axis(whole(level, x), whole(level, indices), shifted(axis, rank(x))))


# ------------------------------------------------------------------ indices
def advanced(i: Any) -> bool:
    return isinstance(i, (np.ndarray, list, Batch, bool, np.bool_)) or (
        not isinstance(i, (slice, type(Ellipsis), type(None))) and not isinstance(i, (int, np.integer))
    )


def spelled(index: Any, ndim: int) -> tuple[list[Any], bool]:
    """An index as a list with the ellipsis written out, and whether it has arrays in it."""
    key = list(index) if isinstance(index, tuple) else [index]
    key = [np.asarray(i) if isinstance(i, list) else i for i in key]
    if any(isinstance(i, (bool, np.bool_)) or (hasattr(i, "ndim") and not i.ndim and i.dtype == bool) for i in key):
        raise NotBatched("indexing by one truth value")
    used = sum(
        (i.ndim if hasattr(i, "ndim") and i.dtype == bool else 1) for i in key if i is not None and i is not Ellipsis
    )
    dots = [k for k, i in enumerate(key) if i is Ellipsis]
    if dots:
        key[dots[0] : dots[0] + 1] = [slice(None)] * (ndim - used)
    return key, any(advanced(i) for i in key)


def separated(key: list[Any]) -> bool:
    """Whether arrays and integers of an index stand apart, so that NumPy puts their axes first."""
    places = [k for k, i in enumerate(key) if not (isinstance(i, slice) or i is None)]
    return bool(places) and places[-1] - places[0] + 1 != len(places)


def array_axes(key: list[Any]) -> int:
    """The number of axes that the arrays of an index make together."""
    return max([1 if hasattr(i, "dtype") and i.dtype == bool else rank(i) for i in key if not isinstance(i, slice)])


def physical_index(level: Level, index: Any, ndim: int) -> tuple[tuple[Any, ...], int, int]:
    """An index of an example as one of the whole; from and to where the axes of its arrays must be moved after it.

    (-1, -1): nowhere. Else the result has the batch at the first place named, after the axes of the arrays, or, with an
    index for each example, the axes of the arrays directly behind the batch though they belong further back.
    """
    key, arrays = spelled(index, ndim)
    if not arrays:
        return (slice(None), *key), -1, -1
    if not any(isinstance(i, Batch) for i in key):
        return (slice(None), *key), (array_axes(key) if separated(key) else -1), 0
    if any(i.dtype == bool for i in key if isinstance(i, Batch)):
        raise NotBatched("a mask for each example")
    n = array_axes(key)
    lead = np.arange(level.size).reshape((-1, *(1,) * n))
    found: list[Any] = [lead]
    for i in key:
        if is_batched(level, i):
            p = np.asarray(raw(i.physical))
            i = p.reshape((p.shape[0], *(1,) * (n - i.ndim), *p.shape[1:]))
        found.append(i)
    first = next(k for k, i in enumerate(key) if not (isinstance(i, slice) or i is None))
    front = 0 if separated(key) else first
    return tuple(found), n, -1 - front


@rule_of("getitem", many=True)
def getitem(level: Level, x: Any, index: Any) -> Any:
    ndim = rank(x)
    key, a, b = physical_index(level, index, ndim)
    p = whole(level, x)
    y = p[key]
    if a >= 0 and b == 0:
        y = np.moveaxis(y, a, 0)
    elif a >= 0 and b < -1:  # the axes of the arrays, behind the batch, go behind the sliced axes before them
        front = -1 - b
        y = np.moveaxis(y, tuple(range(1, a + 1)), tuple(range(1 + front, a + 1 + front)))
    return Batch(level, y)


def placed(level: Level, g: Any, index: Any, ndim: int) -> tuple[tuple[Any, ...], Any]:
    """The index of the whole, and what is put there with its axes as that index wants them."""
    key, a, b = physical_index(level, index, ndim)
    p = g
    if a >= 0 and b == 0:
        p = np.moveaxis(p, 0, a)
    elif a >= 0 and b < -1:
        front = -1 - b
        p = np.moveaxis(p, tuple(range(1 + front, a + 1 + front)), tuple(range(1, a + 1)))
    return key, p


# ------------------------------------------------------------------ matrices in the last axes: leading axes are free
def leading(function: Any, axes: int = 2) -> Rule:
    def rule(level: Level, x: Any, *rest: Any, **kw: Any) -> Any:
        p = only(level, x)
        if x.ndim < axes or any(isinstance(a, Batch) for a in (*rest, *kw.values())):
            raise NotBatched("no rule for a batch of these")
        found = function(p, *rest, **kw)
        return tuple([Batch(level, y) for y in found]) if isinstance(found, tuple) else Batch(level, found)

    return rule


for _f in (
    *(np.tril, np.triu, np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky, np.linalg.eigh),
    *(np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.pinv, np.linalg.eigvalsh, np.linalg.eigvals),
    *(np.linalg.matrix_power, np.linalg.matrix_rank),
):
    enter(leading(_f), _f)


def planes(function: Any) -> Rule:
    """A function of the plane of two axes."""

    def rule(level: Level, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return Batch(level, function(only(level, x), offset, *shifted((axis1, axis2), x.ndim)))

    return rule


enter(planes(np.trace), np.trace)
enter(planes(np.diagonal), np.diagonal)


@rule_of(np.linalg.solve, many=True)
def solve(level: Level, a: Any, b: Any) -> Any:
    vector = rank(b) == 1
    p, q = aligned(level, (a, b[..., None] if vector else b))
    y = np.linalg.solve(p, q)
    return Batch(level, y[..., 0] if vector else y)


@rule_of(np.cross, many=True)
def cross(level: Level, x: Any, y: Any, **kw: Any) -> Any:
    if kw:
        raise NotBatched("cross: no rule for other axes")
    return Batch(level, np.cross(*aligned(level, (x, y))))


def times(p: Any, q: Any) -> Any:
    """A product of matrices; where they are large, in memory that was used before."""
    if p.__class__ is q.__class__ is np.ndarray and p.dtype is q.dtype and p.ndim == q.ndim == 2:
        if p.shape[0] * q.shape[1] * p.itemsize >= SMALLEST:
            return np.matmul(p, q, out=room((p.shape[0], q.shape[1]), p.dtype))
    return p @ q


@rule_of(np.matmul, many=True)
def matmul(level: Level, x: Any, y: Any, **kw: Any) -> Any:
    n, m = rank(x), rank(y)
    if not n or not m or kw:
        raise NotBatched("matmul: operands need an axis")
    one, other = is_batched(level, x), is_batched(level, y)
    p, q = held(level, x), held(level, y)
    if one and not other and m <= 2:
        if n == 1 or m == 1:
            return Batch(level, times(p, q))
        # One product of a tall matrix, and not one for each example.
        size = p.shape[:-1]
        return Batch(level, times(p.reshape((prod(size), p.shape[-1])), q).reshape((*size, q.shape[-1])))
    if other and not one and m == 1 and n <= 2:
        return Batch(level, times(q, p if n == 1 else p.T))
    if n == 1:
        p = p[..., None, :]
    if m == 1:
        q = q[..., :, None]
    left, right = aligned(level, (Batch(level, p) if one else p, Batch(level, q) if other else q))
    out = left @ right
    if n == 1:
        out = out[..., 0, :]
    if m == 1:
        out = out[..., 0]
    return Batch(level, out)


@rule_of(np.einsum, many=True)
def einsum(level: Level, subscripts: Any, *xs: Any, **kw: Any) -> Any:
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        raise NotBatched("einsum: only with all indices spelled out")
    sources, target = subscripts.replace(" ", "").split("->")
    free = next(c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in subscripts)
    terms = [free + t if is_batched(level, x) else t for t, x in zip(sources.split(","), xs, strict=True)]
    arrays = [held(level, x) for x in xs]
    return Batch(level, np.einsum(f"{','.join(terms)}->{free}{target}", *arrays, **kw))


@rule_of(np.vdot, many=True)
def vdot(level: Level, x: Any, y: Any) -> Any:
    p, q = aligned(level, (np.reshape(x, (-1,)), np.reshape(y, (-1,))))
    return Batch(level, np.add.reduce(p.conjugate() * q, axis=-1))


@rule_of(np.dot, many=True)
def dot(level: Level, x: Any, y: Any, out: Any = None) -> Any:
    if not rank(x) or not rank(y):
        return ufunc_call(level, np.multiply, x, y)
    if rank(y) > 2:
        raise NotBatched("dot: no rule for more than two axes")
    return matmul(level, x, y)


def shifting(row: Callable[[], Any]) -> Rule:
    """The batch column of a reduction whose kernel is composed of several functions: the row itself, one axis on."""

    def batch(level: Level, x: Any, axis: Any, **params: Any) -> Any:
        return Batch(level, performed(row(), only(level, x), axis=shifted(axis, x.ndim), **params))

    return batch


enter(lambda level, x, index: getitem(level, x, index), operator.getitem, many=True)
