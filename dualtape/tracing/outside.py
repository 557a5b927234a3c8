"""What a function takes from outside: where its Tensors are found again, and whose random numbers it draws."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from dualtape.core.tensor import Tensor

Look = Callable[[], Any]


def names_of(f: Any) -> Iterator[tuple[str, Look]]:
    """The names that a function takes from outside, in its closure or its module, and how to look them up."""
    while isinstance(f, functools.partial):
        f = f.func
    f = getattr(f, "__func__", f)
    if not isinstance(f, FunctionType):
        return
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        yield name, functools.partial(contents, cell)
    for name in f.__code__.co_names:
        if name in f.__globals__:
            yield name, functools.partial(f.__globals__.get, name)


def contents(cell: Any) -> Any:
    """What a cell holds; None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def place_of_node(f: Any, node: Any) -> Look | None:
    """How to look up the Tensor that has a node now, if it goes by a name of its own."""
    for _, look in names_of(f):
        found = look()
        if found.__class__ is Tensor and found._node is node:
            return look
    return None


def draws(f: Any) -> dict[str, Any]:
    """The states of the random generators that a function can draw from besides its arguments."""
    states: dict[str, Any] = {"NumPy's global generator": hash_of(np.random.get_state())}
    states["Python's random"] = hash(random.getstate())
    for name, look in names_of(f):
        found = look()
        if isinstance(found, np.random.Generator):
            states[f"the generator {name!r} from outside"] = str(found.bit_generator.state)
    return states


def hash_of(state: Any) -> int:
    """The state of NumPy's global generator as a number."""
    return hash((state[1].tobytes(), *state[2:]))
