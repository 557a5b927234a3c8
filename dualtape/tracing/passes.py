"""Passes over a graph: what is computed twice, or need not be computed, goes; results stay the same to the last bit.

(But for the sign of a zero and of a NaN: x * -1 becomes -x, and zeros that slices are added into are made once.)
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.ops.indexing import scatter_row
from dualtape.ops.reductions import kept_shape, spread_row
from dualtape.tracing.graph import Block, Guard, Like, Output, Place, Step, blocks, exchanged, places_in


def improved(root: Block, inputs: list[Like]) -> Block:
    """The same graph with fewer and cheaper steps."""
    once = Pass(inputs, uses_in(root)).blocks(root)
    if not any([step.function is scattered for block in blocks(once) for step in block.steps]):
        return once
    return Pass(inputs, uses_in(once)).blocks(once)


def gathered(root: Block, inputs: list[Like]) -> Block:
    """The same graph as it is carried out: slices put into zeros are added into one array, as sweeps do it."""
    once = Pass(inputs, uses_in(root), GATHERING).blocks(root)
    return Pass(inputs, uses_in(once), GATHERING).blocks(once)


def uses_in(root: Block) -> Counter[int]:
    """How often each step is used, by steps that are used themselves, by guards and results."""
    uses: Counter[int] = Counter()
    for block in reversed(list(blocks(root))):
        end = block.end
        if isinstance(end, Guard):
            uses[end.of.step] += 1
        elif end is not None:
            uses.update([place.step for place in places_in((end.leaves, end.assigned))])
        for step in reversed(block.steps):
            if step.effect:
                uses[step.number] += 1
            if uses[step.number]:
                uses.update([place.step for place in places_in((step.args, step.kwargs))])
    return uses


def scattered(shape: tuple[int, ...], dtype: Any, parts: Any) -> Any:
    """Zeros with something added at each of several places; a single step, so that there is one array of zeros."""
    out = np.zeros(shape, dtype)
    for k, (value, index, basic) in enumerate(parts):
        if not basic:
            np.add.at(out, index, value)
        elif k:
            out[index] += value
        else:
            out[index] = value
    return out


class Pass:
    """One way through a graph: each step is made simpler, or found to be one that was made before."""

    def __init__(self, inputs: list[Like], uses: Counter[int], rules: Any = None) -> None:
        # With rules of its own, nothing that is computed twice is found, and nothing left out.
        self.rules: dict[Any, tuple[Rule, ...]] = RULES if rules is None else rules
        self.shares = rules is None
        self.described: dict[Place, Any] = {Place(-1 - k): d for k, d in enumerate(inputs)}
        self.uses = uses
        self.moved: dict[int, Any] = {}
        # Steps that became part of others.
        self.merged: set[int] = set()
        self.made: dict[int, Step] = {}

    def blocks(self, root: Block) -> Block:
        """A graph with simpler steps."""
        found = Block()
        ahead: list[tuple[Block, Block, dict[Any, int]]] = [(root, found, {})]
        while ahead:
            block, new, known = ahead.pop()
            ahead += reversed(self.block(block, new, known))
        return found

    def block(self, block: Block, new: Block, known: dict[Any, int]) -> list[tuple[Block, Block, dict[Any, int]]]:
        """A block, made ``new``, and what comes after it; ``known`` are steps before it, by what they compute."""
        for step in block.steps:
            if self.uses[step.number] or not self.shares:
                self.step(step, known, new.steps)
        new.steps = [step for step in new.steps if step.number not in self.merged]
        end = block.end
        if isinstance(end, Guard):
            question, of = end.question, self.new(end.of)
            before = self.source(of)
            if question == "every" and before is not None and before.function is np.not_equal and before.args[1] == 0:
                question, of = "full", before.args[0]  # a mask of what is not zero, for its number alone
            new.end = guard = Guard(question, of, end.line)
            guard.branches = {answer: Block() for answer in end.branches}
            alone = len(end.branches) == 1
            return [
                (after, guard.branches[answer], known if alone else dict(known))
                for answer, after in end.branches.items()
            ]
        if end is not None:
            leaves, assigned = exchanged(end.leaves, self.new), exchanged(end.assigned, self.new)
            new.end = Output(end.number, leaves, end.rebuild, assigned)
        return []

    def new(self, leaf: Any) -> Any:
        """What stands in an argument now."""
        if leaf.__class__ is not Place or leaf.step not in self.moved:
            return leaf
        to = self.moved[leaf.step]
        return to if leaf.item is None else Place(to.step, leaf.item)

    def step(self, step: Step, known: dict[Any, int], steps: list[Step]) -> None:
        """A step, or what stands for it."""
        function, args, kwargs = step.function, exchanged(step.args, self.new), exchanged(step.kwargs, self.new)
        row, fresh, found = step.row, step.fresh, None
        for rule in self.rules.get(row or function, ()):
            found = rule(self, function, args, kwargs, step)
            if found is None:
                continue
            if not isinstance(found, Call):
                self.moved[step.number] = found
                return
            function, args, kwargs, row, fresh = *found, None, found[0] is not np.broadcast_to
        key = (function, frozen(args), frozen(kwargs)) if self.shares and not step.effect else step.number
        before = known.get(key)
        if before is not None:
            self.moved[step.number] = Place(before)
            return
        known[key] = step.number
        made = Step(step.number, function, args, kwargs, step.results, step.line, row, step.errors, step.effect, fresh)
        steps.append(made)
        self.made[step.number] = made
        if step.results.__class__ is Like:
            self.described[Place(step.number)] = step.results
        else:
            self.described.update({Place(step.number, k): like for k, like in enumerate(step.results)})

    def source(self, a: Any) -> Step | None:
        """The step that an argument is the result of."""
        return self.made.get(a.step) if a.__class__ is Place and a.item is None else None

    def like(self, a: Any) -> Any:
        """The shape and dtype of an argument."""
        return self.described[a] if a.__class__ is Place else Like(np.shape(a), getattr(a, "dtype", None))


class Call(tuple[Any, ...]):
    """Another call in the place of a step: function, positional and keyword arguments."""

    def __new__(cls, function: Any, *args: Any, **kwargs: Any) -> Call:
        return super().__new__(cls, (function, args, kwargs))


# ------------------------------------------------------------------ rules: a value, another call, or None
Rule = Callable[[Pass, Any, Any, Any, Step], Any]
BINARY = {np.add, np.subtract, np.multiply, np.divide}


def same_value(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """+x, x * 1, x / 1 and x to its own shape are x; so is what is turned twice."""
    x = args[0] if args else None
    if x.__class__ is not Place:
        if function is np.multiply and len(args) == 2 and args[1].__class__ is Place and is_number(x, 1):
            return args[1] if p.like(args[1]) == step.results else None
        return None
    if p.like(x) == step.results:
        if function is np.positive or (function is np.conjugate and step.results[1].kind != "c"):
            return x
        if function in (np.multiply, np.divide) and is_number(args[1], 1):
            return x
        if function in (np.reshape, np.broadcast_to):
            return x
    before = p.source(x)
    if function is np.negative and before is not None and before.function is np.negative:
        return before.args[0]
    return None


def minus(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """x * -1 is -x, a - (-b) is a + b, a + (-b) is a - b."""
    if kwargs or len(args) != 2 or function not in BINARY:
        return None
    x, y = args
    if function is np.multiply:
        for a, b in ((x, y), (y, x)):
            if b.__class__ is not Place and is_number(b, -1) and p.like(a) == step.results:
                return Call(np.negative, a)
    before = p.source(y)
    if before is not None and before.function is np.negative:
        if function is np.subtract:
            return Call(np.add, x, before.args[0])
        if function is np.add:
            return Call(np.subtract, x, before.args[0])
    return None


def uniform(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """A constant array of one number is that number, beside an array that has the shape and dtype of the result."""
    if kwargs or len(args) != 2 or function not in BINARY or step.results[1] != np.float64:
        return None
    for k in (0, 1):
        c, other = args[k], args[1 - k]
        if isinstance(c, np.ndarray) and c.size and c.dtype == np.float64 and other.__class__ is Place:
            if p.like(other) == step.results and np.all(c.view(np.int64) == c.ravel()[:1].view(np.int64)):
                number = float(c.flat[0])
                return Call(function, *((number, other) if k == 0 else (other, number)))
    return None


def unspread(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """What was reduced is spread by NumPy itself, and not at all beside an array that has the shape of the result."""
    if step.row is spread_row.row:
        g, (shape, _) = args[0], step.results
        axis = kwargs["axis"]
        if axis is None:
            return Call(np.broadcast_to, g, shape)
        kept = kept_shape(shape, axis)
        return Call(np.broadcast_to, g, shape) if p.like(g)[0] == kept else None
    if not kwargs and len(args) == 2 and function in BINARY:
        for k in (0, 1):
            before, other = p.source(args[k]), args[1 - k]
            if before is not None and before.function is np.broadcast_to and other.__class__ is Place:
                if p.like(other)[0] == step.results[0] and p.source(other) is not before:
                    inner = before.args[0]
                    if inner.__class__ is Place and p.like(inner)[1] == p.like(args[k])[1]:
                        return Call(function, *((inner, other) if k == 0 else (other, inner)))
    return None


def one_buffer(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """Slices put into zeros, and sums of such, are added into one array of zeros."""
    if step.row is scatter_row:
        shape, dtype = step.results
        return Call(scattered, shape, dtype, ((args[0], kwargs["index"], kwargs["basic"]),))
    if function is np.add and not kwargs and len(args) == 2:
        x, y = p.source(args[0]), p.source(args[1])
        if x is not None and y is not None and x is not y and x.function is y.function is scattered:
            if x.args[:2] == y.args[:2] and p.uses[x.number] == 1 == p.uses[y.number]:
                p.merged |= {x.number, y.number}
                return Call(scattered, *x.args[:2], x.args[2] + y.args[2])
    return None


def defaults(p: Pass, function: Any, args: Any, kwargs: Any, step: Step) -> Any:
    """Keywords that say what is so anyway."""
    if kwargs.get("keepdims") is False:
        return Call(function, *args, **{k: v for k, v in kwargs.items() if k != "keepdims"})
    return None


RULES: dict[Any, tuple[Rule, ...]] = {
    scatter_row: (one_buffer,),
    spread_row.row: (unspread,),
    np.add: (unspread, uniform, minus, one_buffer),
    np.subtract: (unspread, uniform, minus),
    np.multiply: (unspread, uniform, same_value, minus),
    np.divide: (unspread, uniform, same_value),
    np.add.reduce: (defaults,),
    **dict.fromkeys((np.positive, np.negative, np.conjugate, np.reshape, np.broadcast_to), (same_value,)),
}


GATHERING: dict[Any, tuple[Rule, ...]] = {scatter_row: (one_buffer,), np.add: (one_buffer,)}


def is_number(a: Any, value: int) -> bool:
    """Whether a constant is this number."""
    return a.__class__ in (int, float, np.float64) and a == value


def frozen(a: Any) -> Any:
    """Arguments as a key: alike only if they are the same to the last bit."""
    if isinstance(a, (tuple, list)) and a.__class__ is not Place:
        return a.__class__, tuple(map(frozen, a))
    if isinstance(a, dict):
        return tuple([(k, frozen(v)) for k, v in a.items()])
    if isinstance(a, slice):
        return slice, frozen((a.start, a.stop, a.step))
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype.str, a.shape, a.tobytes()
    if a.__class__ is float:
        return float, struct.pack("d", a)
    try:
        hash(a)
    except TypeError:
        return id(a)
    return a.__class__, a
