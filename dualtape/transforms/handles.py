"""Handles and arrays on both sides of a user's function: what it is handed, what it returns, what is kept for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.tensor import Node, Tensor, frozen, operand, read_only, wrap


def lent(value: Any) -> Any:
    """What a rule is handed: a handle of its own, into which it may write, or an array into which it cannot."""
    if value.__class__ is Node:
        return wrap(value)
    if value.__class__ is Tensor:
        return wrap(value._node)
    if value.__class__ is tuple:
        return tuple([lent(v) for v in value])
    return read_only(value) if isinstance(value, np.ndarray) else value


def own(value: Any) -> Any:
    """A handle or an array that nobody else has, for a function that may write into it."""
    if value.__class__ is Tensor:
        return wrap(value._node)
    return value.copy("K") if isinstance(value, np.ndarray) else value


def taken(found: Any) -> Any:
    """What a user's function returned, as it is now: he may keep it, and write into it later."""
    return None if found is None else own(operand(found))


def settled(value: Any) -> Any:
    """What is kept until a rule is handed it (``lent``): of a Tensor its node, an array that nobody can write to."""
    return value._node if value.__class__ is Tensor else frozen(value) if isinstance(value, np.ndarray) else value
