"""What a function takes from outside: where its Tensors are found again, and whose random numbers it draws."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from dualtape.core.tensor import Tensor

Look = Callable[[], Any]


def names_of(f: Any) -> Iterator[tuple[str, Look]]:
    """The names that the text of a function takes from outside, its closure or its module, and how to look them up.

    So do the functions that it names, as far as they are users' own.
    """
    todo, seen = [*f] if isinstance(f, tuple) else [f], set()
    while todo:
        x = todo.pop()
        f = function_of(x)
        if f is not x and getattr(type(x), "__module__", "").startswith("dualtape.transforms"):
            todo += [rule for rule in vars(x).values() if callable(rule)]  # rules of one's own
        if f is None or f.__code__ in seen or f.__module__.partition(".")[0] in ("dualtape", "numpy", "scipy"):
            continue
        seen.add(f.__code__)
        looks = [
            (name, functools.partial(contents, cell))
            for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        ]
        for name in dict.fromkeys(globals_in(f.__code__)):
            if name in f.__globals__:
                looks.append((name, functools.partial(f.__globals__.get, name)))
        for name, look in looks:
            yield name, look
            todo.append(look())


def function_of(x: Any) -> FunctionType | None:
    """The Python function that is called by way of another object: a method, a partial, one with rules of its own."""
    for _ in range(8):
        if isinstance(x, FunctionType):
            return x
        x = getattr(x, "__wrapped__", None) or getattr(x, "__func__", None) or getattr(x, "func", None)
    return None


def globals_in(code: CodeType) -> Iterator[str]:
    """The names that code looks up, and so do functions that are defined in it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from globals_in(inner)


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


def tensors_of(f: Any) -> list[Tensor]:
    """The Tensors that go by names outside."""
    found = [look() for _, look in names_of(f)]
    return [x for x in found if x.__class__ is Tensor]


def draws(f: Any) -> dict[str, Any]:
    """The states of the random generators that a function can draw from besides its arguments."""
    states: dict[str, Any] = {"NumPy's global generator": hash_of(np.random.get_state())}
    states["Python's random"] = hash(random.getstate())
    for name, look in names_of(f):
        found = look()
        if isinstance(found, np.random.Generator) and not hasattr(found, "tracer"):  # (whose draws are steps)
            states[f"the generator {name!r} from outside"] = str(found.bit_generator.state)
    return states


def hash_of(state: Any) -> int:
    """The state of NumPy's global generator as a number."""
    return hash((state[1].tobytes(), *state[2:]))
