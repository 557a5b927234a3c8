"""The graph of a traced function: steps, each a call of NumPy's, and guards where its way through them divides.

A graph is a tree. Each of its blocks is a list of steps, and ends with the results, or with a guard: a question that
Python asked of a value (is it true? which position is it?), with a block for each answer that was met. A way from the
root to a result is what the function did once; whoever does the same again, up to an answer that is new, is on the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Place(NamedTuple):
    """Where a value comes from: the number of its step, and which of its results (None: the only one)."""

    step: int
    item: int | None = None


class Like(NamedTuple):
    """The shape and dtype of a value."""

    shape: tuple[int, ...]
    dtype: Any


class Step:
    """One call: the function, its arguments with places for values, what comes out, the line of the user's program."""

    __slots__ = ("args", "effect", "errors", "fresh", "function", "kwargs", "line", "number", "results", "row")

    def __init__(
        self,
        number: int,
        function: Any,
        args: Any,
        kwargs: Any,
        results: Any,
        line: Any = None,
        row: Any = None,
        errors: Any = None,
        effect: bool = False,
        fresh: bool = False,
    ) -> None:
        self.number, self.function, self.args, self.kwargs = number, function, args, kwargs
        # A ``Like`` of the result, or a tuple of such.
        self.results = results
        self.line = line
        # Of an opaque step, the row whose kernel it is.
        self.row = row
        # How floating-point errors are handled, where that is not as it was when the function was called.
        self.errors = errors
        # Whether it changes something besides (a random generator): it is carried out once, in its place.
        self.effect = effect
        # Whether its results have memory of their own.
        self.fresh = fresh

    def same(self, function: Any, args: Any, kwargs: Any) -> bool:
        """Whether this is the call of ``function`` with these arguments."""
        return self.function == function and alike(self.args, args) and alike(self.kwargs, kwargs)


class Guard:
    """A question asked of a value, and how the program goes on for each answer that was met."""

    __slots__ = ("branches", "line", "of", "question")

    def __init__(self, question: str, of: Any, line: Any) -> None:
        self.question, self.of, self.line = question, of, line
        self.branches: dict[Any, Block] = {}


class Graph:
    """All ways of a function for arguments of one kind."""

    __slots__ = ("count", "root")

    def __init__(self) -> None:
        self.root = Block()
        self.count = 0

    def number(self) -> int:
        """A number for a new step."""
        self.count += 1
        return self.count - 1


class Block:
    """Steps in a row, and what comes after them: nothing yet, a guard, or the outputs."""

    __slots__ = ("end", "steps")

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.end: Guard | Output | None = None


class Output(NamedTuple):
    """What a way through the graph ends with: results in a structure, and new values of inputs that were assigned."""

    number: int
    leaves: list[Any]
    rebuild: Callable[[Iterator[Any]], Any]
    assigned: dict[int, Any]


def alike(a: Any, b: Any) -> bool:
    """Whether two arguments are the same places and the same constants, to the last bit."""
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all([alike(a[k], b[k]) for k in a])
    if isinstance(a, slice):
        return alike((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, (float, np.generic)):
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return a is b or bool(a == b)


def places_in(a: Any) -> Iterator[Place]:
    """The places in nested arguments."""
    if a.__class__ is Place:
        yield a
    elif isinstance(a, (tuple, list)):
        for b in a:
            yield from places_in(b)
    elif isinstance(a, dict):
        for b in a.values():
            yield from places_in(b)
    elif a.__class__ is slice:
        yield from places_in((a.start, a.stop, a.step))


def exchanged(a: Any, of: Callable[[Any], Any]) -> Any:
    """Nested arguments with ``of(leaf)`` for each leaf."""
    kind = a.__class__
    if kind is tuple or kind is list:
        return kind([exchanged(b, of) if b.__class__ in NESTED else of(b) for b in a])
    if kind is dict:
        return {k: exchanged(b, of) for k, b in a.items()}
    if kind is slice:
        return slice(*[exchanged(b, of) for b in (a.start, a.stop, a.step)])
    return of(a)


NESTED = {tuple, list, dict, slice}


def blocks(block: Block) -> Iterator[Block]:
    """The blocks of a graph, the root first."""
    ahead = [block]
    while ahead:
        block = ahead.pop()
        yield block
        if isinstance(block.end, Guard):
            ahead += reversed(block.end.branches.values())


def described(value: Any) -> Any:
    """The shape and dtype of a result, or of each of several."""
    if isinstance(value, (tuple, list)):
        return tuple([described(v) for v in value])
    return Like(value.shape, value.dtype)

