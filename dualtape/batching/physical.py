"""From operands to their physical arrays: what a rule needs to work on all examples at once."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, Shared
from dualtape.core.tensor import Tensor, among


def is_batched(level: Any, value: Any) -> bool:
    """Whether a value has one example each for ``level``."""
    return value.__class__ is Batch and value.level is level


def holds(level: Any, value: Any) -> bool:
    """Whether a value is a Batch of ``level`` or a sequence of which one is."""
    if value.__class__ is tuple or value.__class__ is list:
        return any([holds(level, a) for a in value])
    return value.__class__ is Batch and value.level is level


def top(values: Any) -> Any:
    """The innermost level among the Batches in nested sequences, dicts, nodes and Tensors; None without any."""
    batch = among(values)
    return None if batch is None else batch.level


def physical(level: Any, x: Any) -> Any:
    """The array of all examples of a Batch, and what stands behind a value that they share, also inside a sequence."""
    kind = x.__class__
    if kind is Shared or (kind is Batch and x.level is level):
        return x.physical
    return kind([physical(level, a) for a in x]) if kind is tuple or kind is list else x


def repeated(level: Any, x: Any) -> Any:
    """An array (of a Tensor: a Tensor) with the examples along its first axis, also of what they share."""
    value = x._node.value if x.__class__ is Tensor else x
    if is_batched(level, value):
        return value.physical
    x = physical(level, x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return np.broadcast_to(x, (level.size, *x.shape))


def rank(x: Any) -> int:
    """The number of axes of one example."""
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


def aligned(level: Any, xs: Any) -> list[Any]:
    """Operands of an elementwise function, with axes put in behind the batch so that the examples' axes line up."""
    most = max([rank(a) for a in xs])
    return [padded(a.physical, most) if is_batched(level, a) else physical(level, a) for a in xs]


def padded(p: Any, ndim: int) -> Any:
    """A physical array with axes put in behind the batch so that each example has as many."""
    missing = ndim + 1 - len(p.shape)
    return p.reshape((p.shape[0], *(1,) * missing, *p.shape[1:])) if missing else p


def shifted(axis: Any, ndim: int) -> Any:
    """Axes of an example as axes of the physical array; None stands for all."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if isinstance(axis, (tuple, list)):
        return tuple([shifted(a, ndim) for a in axis])
    a = operator.index(axis)
    if not -ndim <= a < ndim:
        raise np.exceptions.AxisError(a, ndim)
    return a % ndim + 1


def lines(p: Any, axis: Any) -> tuple[Any, Any]:
    """A physical array and that axis of it which is ``axis`` of an example; for None, of the examples made flat."""
    return (p.reshape((p.shape[0], -1)), 1) if axis is None else (p, shifted(axis, len(p.shape) - 1))
