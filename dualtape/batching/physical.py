"""From operands to their physical arrays: what a rule needs to work on all examples at once."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, Shared
from dualtape.core.tensor import among


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
    """An array with the examples along its first axis, also of what they share."""
    if is_batched(level, x):
        return x.physical
    x = physical(level, x)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    return np.broadcast_to(x, (level.size, *x.shape))


def rank(x: Any) -> int:
    """The number of axes of one example."""
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


def aligned(level: Any, xs: Any) -> list[Any]:
    """Operands of an elementwise function, with axes put in behind the batch so that the examples' axes line up."""
    most = max([rank(a) for a in xs])
    found = []
    for a in xs:
        p = physical(level, a)
        if is_batched(level, a):
            missing = most + 1 - len(p.shape)
            p = p.reshape((p.shape[0], *(1,) * missing, *p.shape[1:])) if missing else p
        found.append(p)
    return found


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
