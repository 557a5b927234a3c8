"""The rules of ufuncs, of operators and of NumPy's functions of single elements, for Batches: elements align."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, astype
from dualtape.batching.calls import Rule, enter
from dualtape.batching.level import Level
from dualtape.batching.operators import computed
from dualtape.batching.physical import aligned, is_batched, physical, rank, shifted
from dualtape.core.standin import Refused


@enter("__call__", many=True)
def ufunc_call(level: Level, ufunc: Any, *xs: Any, **kwargs: Any) -> Any:
    """A ufunc, or an operator of Python's."""
    if kwargs.get("out") is not None or "where" in kwargs or getattr(ufunc, "signature", None):
        raise Refused(f"{ufunc.__name__}: no rule for a batch with these keywords")
    arrays = aligned(level, xs)
    found = computed(ufunc, *arrays) if len(arrays) == 2 and not kwargs else ufunc(*arrays, **kwargs)
    return tuple([Batch(level, y) for y in found]) if isinstance(found, tuple) else Batch(level, found)


@enter("reduce", many=True)
def ufunc_reduce(level: Level, ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kw: Any) -> Any:
    where = kw.pop("where", True)
    if out is not None and out != (None,):
        raise Refused("no rule for a batch with out=")
    if not is_batched(level, x):
        raise Refused("the batch is not the operand")
    ndim = x.ndim
    if axis == 0 and not ndim:
        axis = None
    if where is not True:
        kw["where"] = aligned(level, (where, x))[0]
    return Batch(level, ufunc.reduce(x.physical, axis=shifted(axis, ndim), dtype=dtype, **kw))


@enter("accumulate")
def ufunc_accumulate(level: Level, ufunc: Any, x: Any, axis: int = 0, dtype: Any = None, **kw: Any) -> Any:
    return Batch(level, ufunc.accumulate(x.physical, axis=shifted(axis, x.ndim), dtype=dtype, **kw))


@enter("outer", many=True)
def ufunc_outer(level: Level, ufunc: Any, x: Any, y: Any, **kw: Any) -> Any:
    x = x if hasattr(x, "reshape") else np.asarray(x)
    return ufunc(x.reshape((*x.shape, *(1,) * rank(y))), y, **kw)


def elements(function: Any) -> Rule:
    """A function of one array's elements, with other arguments that are the same for all."""

    def rule(level: Level, x: Any, *rest: Any, **kw: Any) -> Any:
        return Batch(level, function(x.physical, *rest, **kw))

    return rule


_f: Any
for _f in (
    *(np.real, np.imag, np.angle, np.sinc, np.round, np.around, np.fix, np.isreal, np.iscomplex, np.nan_to_num, np.i0),
    *(np.digitize, astype),
):
    enter(_f)(elements(_f))


@enter(np.where, many=True)
def where(level: Level, condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise Refused("where: the number of indices may differ")
    return Batch(level, np.where(*aligned(level, (condition, x, y))))


@enter(np.clip, many=True)
def clip(level: Level, x: Any, a_min: Any = None, a_max: Any = None, **kw: Any) -> Any:
    bounds = [None if b is np._NoValue else b for b in (kw.pop("min", a_min), kw.pop("max", a_max))]
    return Batch(level, np.clip(*aligned(level, (x, *bounds)), **kw))


@enter(np.isclose, many=True)
def isclose(level: Level, x: Any, y: Any, *rest: Any, **kw: Any) -> Any:
    return Batch(level, np.isclose(*aligned(level, (x, y)), *rest, **kw))


enter(np.allclose, many=True)(lambda level, x, y, *rest, **kw: np.all(np.isclose(x, y, *rest, **kw)))


@enter(np.array_equal, many=True)
def array_equal(level: Level, x: Any, y: Any, equal_nan: bool = False) -> Any:
    if equal_nan:
        raise Refused("array_equal: no rule for NaN")
    return np.all(x == y) if np.shape(x) == np.shape(y) else False


@enter(np.searchsorted, many=True)
def searchsorted(level: Level, a: Any, v: Any, *rest: Any, **kw: Any) -> Any:
    if is_batched(level, a) or not is_batched(level, v):
        raise Refused("searchsorted: each example has its own bins")
    return Batch(level, np.searchsorted(physical(level, a), v.physical, *rest, **kw))
