"""The Jacobians of a tape, from batched sweeps: ``jacobian`` and ``batch_jacobian``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.batching.sweeps import chunk_size, chunks, pull_many, unit_seeds
from dualtape.core.standin import Standin
from dualtape.core.sweep import Entries, finished
from dualtape.core.tensor import Operand, Tensor, operand
from dualtape.modes.constant import constant

# The entries of a tape, the identities of the sources, and whether all that is watched is among them.
Recorded = tuple[Entries, list[int], bool]


def target_of(what: str, target: Any) -> Tensor:
    """A target as a Tensor."""
    if not isinstance(target, Operand):
        raise TypeError(f"the target of {what}() is one Tensor or Variable, not a {type(target).__name__}")
    y: Tensor = operand(target)
    if isinstance(y._node.value, Standin):
        y._node.value.ensure_live()
    return y


def jacobian(recorded: Recorded, y: Tensor, sources: list[Any], one_by_one: bool, chunk: int | None) -> list[Any]:
    """The Jacobian of ``y`` by each source, or None; see ``GradientTape.jacobian``."""
    entries, ids, all_watched = recorded
    node = y._node
    count = node.value.size if node.value.dtype.kind in "fc" else 0
    size = chunk_size(entries, chunk, count, node.value.nbytes + sum([s.nbytes for s in sources]))
    parts = [
        pull_many(entries, node, ids, unit_seeds(node.value, a, b), all_watched, one_by_one=one_by_one)
        for a, b in chunks(count, size)
    ]
    if not parts and node.value.dtype.kind in "fc":  # an empty target: what is connected, a sweep with zeros can tell
        parts = [pull_many(entries, node, ids, np.zeros((1, *y.shape), y.dtype), all_watched, one_by_one=True)]
        parts = [[None if c is None else c[:0] for c in part] for part in parts]
    return [joined([part[k] for part in parts], (*y.shape, *s.shape)) for k, s in enumerate(sources)]


def joined(parts: list[Any], shape: tuple[int, ...]) -> Any:
    """The results of all chunks as one Tensor of a shape; None if there is none."""
    if not parts or parts[0] is None:
        return None
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return finished(np.reshape(whole, shape), None, False)


def batch_jacobian(recorded: Recorded, y: Tensor, source: Any, one_by_one: bool, chunk: int | None) -> Tensor:
    """The Jacobian of each row of ``y``; see ``GradientTape.batch_jacobian``."""
    entries, ids, all_watched = recorded
    shape, inner = y.shape, source.shape
    for what, found in (("target", shape), ("source", inner)):
        if len(found) < 2:
            raise ValueError(
                f"batch_jacobian: the {what} must have rank at least 2, the first axis that of the examples, but has "
                f"shape {found}; without examples, use jacobian"
            )
    if shape[0] != inner[0]:
        raise ValueError(
            f"batch_jacobian: Need first dimension of target shape {shape} and source shape {inner} to match: it is "
            "that of the examples"
        )
    node = y._node
    like = np.empty(shape[1:], y.dtype)
    count = like.size if y.dtype.kind in "fc" else 0
    size = chunk_size(entries, chunk, count, node.value.nbytes + source.nbytes)
    parts = []
    for a, b in chunks(count, size):
        seeds = np.broadcast_to(unit_seeds(like, a, b)[:, None], (b - a, *shape))
        parts.append(pull_many(entries, node, ids, seeds, all_watched, one_by_one=one_by_one)[0])
    if not parts or parts[0] is None:
        return constant(np.zeros((*shape, *inner[1:]), y.dtype))
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    moved = np.moveaxis(whole, 0, 1)
    done: Tensor = finished(np.reshape(moved, (*shape, *inner[1:])), None, False)
    return done
