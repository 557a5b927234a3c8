"""The rules of ufuncs and of their methods, for Batches: elements align, axes shift by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.operators import computed
from dualtape.batching.physical import aligned, is_batched, rank, shifted
from dualtape.core.standin import Refused


def ufunc_call(level: Any, ufunc: Any, *xs: Any, **kwargs: Any) -> Any:
    """A ufunc, or an operator of Python's."""
    if kwargs.get("out") is not None or "where" in kwargs or getattr(ufunc, "signature", None):
        raise Refused(f"{ufunc.__name__}: no rule for a batch with these keywords")
    arrays = aligned(level, xs)
    found = computed(ufunc, *arrays) if len(arrays) == 2 and not kwargs else ufunc(*arrays, **kwargs)
    return tuple([Batch(level, y) for y in found]) if isinstance(found, tuple) else Batch(level, found)


def ufunc_reduce(level: Any, ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kw: Any) -> Any:
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


def ufunc_accumulate(level: Any, ufunc: Any, x: Any, axis: int = 0, dtype: Any = None, **kw: Any) -> Any:
    return Batch(level, ufunc.accumulate(x.physical, axis=shifted(axis, x.ndim), dtype=dtype, **kw))


def ufunc_outer(level: Any, ufunc: Any, x: Any, y: Any, **kw: Any) -> Any:
    x = x if hasattr(x, "reshape") else np.asarray(x)
    return ufunc(x.reshape((*x.shape, *(1,) * rank(y))), y, **kw)


def no_method(level: Any, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
    raise Refused(f"{ufunc.__name__}: this method has no rule for a batch")


# Rules by the name of the method: rule(level, ufunc, *args, **kwargs).
UFUNCS: dict[str, Callable[..., Any]] = {
    "reduce": ufunc_reduce,
    "accumulate": ufunc_accumulate,
    "outer": ufunc_outer,
    "reduceat": no_method,
    "at": no_method,
}
