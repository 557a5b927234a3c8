"""Python's operators and the array methods for Batches: at once where the operands line up, else by their rules."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dualtape.core.standin import Standin
from dualtape.core.tensor import Operand, among
from dualtape.memory.reserve import SMALLEST, room

ndarray = np.ndarray

# Python's operators that work element by element.
BINARY: list[Any] = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
BINARY += [operator.pow, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
COMPARISONS: list[Any] = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
UNARY: list[Any] = [operator.neg, operator.pos, operator.abs, operator.invert]
OPERATORS = {*BINARY, *COMPARISONS, *UNARY}
# Array methods that NumPy has as functions too.
METHODS = ["sum", "prod", "mean", "max", "min", "var", "std", "all", "any", "argmax", "argmin", "argsort", "cumsum"]
METHODS += ["cumprod", "squeeze", "swapaxes", "repeat", "take", "trace", "diagonal", "clip", "round", "copy", "dot"]

# Functions whose result has the dtype of their operands.
ARITHMETIC: dict[Any, Any] = {np.add: np.add, np.subtract: np.subtract, np.multiply: np.multiply}
ARITHMETIC |= {operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply}
NUMBERS = {float, int, complex, bool, np.float64, np.float32, np.complex128, np.complex64, np.int64, np.bool_}


class Operators(Standin):
    """What has examples along the first axis of ``physical``, and the operators and methods of an array."""

    __slots__ = ("level", "physical")
    __array_priority__ = 1000.0

    def __init__(self, level: Any, physical: Any) -> None:
        self.level = level
        self.physical = physical


def called(function: Any, args: Any, kwargs: Any) -> Any:
    """A function of Batches; the innermost of their levels knows its rule."""
    return among((args, kwargs)).level.call(function, args, kwargs)


def computed(function: Any, x: Any, y: Any) -> Any:
    """A function of two arrays; where they are large, in memory that was used before."""
    if x.__class__ is ndarray and x.nbytes >= SMALLEST and y.__class__ is ndarray and x.dtype is y.dtype:
        ufunc = ARITHMETIC.get(function)
        if ufunc is not None:
            shape = x.shape if x.shape == y.shape else np.broadcast_shapes(x.shape, y.shape)
            return ufunc(x, y, out=room(shape, x.dtype))
    return function(x, y)


def lined_up(batch: Operators, x: Any, y: Any) -> tuple[Any, Any] | None:
    """The physical operands, if their axes line up as they are and nobody records around the batch; the common case.

    ``batch`` is one of the operands.
    """
    level, p = batch.level, batch.physical
    if level.marker is not None or not level.live or p.__class__ is not ndarray:
        return None
    other = y if x is batch else x
    kind = other.__class__
    if kind is batch.__class__:
        if other.level is not level or (other := other.physical).__class__ is not ndarray or other.ndim != p.ndim:
            return None
    elif kind is ndarray:
        if other.ndim >= p.ndim:
            return None
    elif kind not in NUMBERS:
        return None
    return (p, other) if batch is x else (other, p)


def method_of(function: Any, reflected: bool = False) -> Any:
    """An operator of two operands as a method of the first, or of the second."""
    elementwise = function is not operator.matmul

    def method(batch: Any, other: Any) -> Any:
        x, y = (other, batch) if reflected else (batch, other)
        if elementwise and (pair := lined_up(batch, x, y)) is not None:
            return batch.__class__(batch.level, computed(function, *pair))
        return NotImplemented if isinstance(other, Operand) else called(function, (x, y), {})

    return method


for _f in (*BINARY, operator.matmul, *COMPARISONS):
    setattr(Operators, f"__{_f.__name__.strip('_')}__", method_of(_f))
for _f in (*BINARY, operator.matmul):
    setattr(Operators, f"__r{_f.__name__.strip('_')}__", method_of(_f, reflected=True))
for _f in UNARY:
    setattr(Operators, f"__{_f.__name__}__", lambda x, _f=_f: called(_f, (x,), {}))
for _name in METHODS:
    setattr(Operators, _name, lambda *args, _f=getattr(np, _name), **kwargs: _f(*args, **kwargs))  # noqa: B008
