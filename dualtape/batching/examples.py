"""One example at a time: what has no rule for all examples at once runs on each, and is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, Shared
from dualtape.batching.physical import is_batched
from dualtape.core.standin import Refused
from dualtape.core.tensor import Node, Tensor, raw, tensor

# What changes its argument would change it once for each example.
WRITING = {np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis}


def each(level: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of one example, for each of them."""
    if function in WRITING or kwargs.get("out") is not None:
        raise Refused(f"{function.__name__} writes into an array, which cannot hold a batch")
    return stacked(level, one_by_one(level, getattr(function, "__name__", str(function)), function, args, kwargs))


def one_by_one(level: Any, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """The results of a function for each example, in a list."""
    level.note(name)
    return [function(*sliced(level, args, k), **sliced(level, kwargs, k)) for k in range(level.size)]


def sliced(level: Any, value: Any, k: int) -> Any:
    """Example ``k`` of everything in a structure that is a Batch of ``level``."""
    kind = value.__class__
    if kind is Batch:
        return value.physical[k] if value.level is level else value
    if kind is Shared:
        return value.physical if value.level is level else value
    if kind is Node or kind is Tensor:
        inner = value.value if kind is Node else value._node.value
        if not is_batched(level, inner):
            return value
        part = inner.physical[k]
        if kind is Tensor:
            return part if part.__class__ is Tensor else tensor(part)
        if part.__class__ is Tensor:
            raise Refused("an example of what an outer recorder follows has no identity of its own")
        return Node(part, value.id)
    if kind is tuple or kind is list:
        return kind([sliced(level, a, k) for a in value])
    if kind is dict:
        return {name: sliced(level, a, k) for name, a in value.items()}
    return value


def stacked(level: Any, found: list[Any]) -> Any:
    """The results of all examples as Batches, in the structure of the first."""
    if not found:
        raise Refused("a batch of no examples cannot be run one by one")
    first = found[0]
    if isinstance(first, (tuple, list)):
        if any([len(y) != len(first) for y in found]):
            raise Refused("the examples have results of different lengths")
        return tuple([stacked(level, [y[m] for y in found]) for m in range(len(first))])
    shapes = {np.shape(y) for y in found if y is not None}
    if len(shapes) > 1:
        raise Refused(f"the examples have results of different shapes: {sorted(shapes)[:3]}")
    physical = layered(found)
    return None if physical is None else Batch(level, physical)


def layered(found: list[Any]) -> Any:
    """Arrays of one shape as one array; None among them stands for zeros, and None alone for itself."""
    like = next((y for y in found if y is not None), None)
    if like is None:
        return None
    arrays: list[Any] = [np.zeros_like(raw(like)) if y is None else y for y in found]
    return np.stack([y if hasattr(y, "dtype") else np.asarray(y) for y in arrays])
