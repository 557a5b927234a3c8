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
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
BINARY += [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
UNARY = [operator.neg, operator.pos, operator.abs, operator.invert]
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


def binary(function: Any, name: str, reflects: bool) -> None:
    """Give Batches an operator of two operands."""
    elementwise = function is not operator.matmul

    def method(x: Any, y: Any) -> Any:
        if elementwise and (pair := lined_up(x, x, y)) is not None:
            return x.__class__(x.level, computed(function, *pair))
        return NotImplemented if isinstance(y, Operand) else called(function, (x, y), {})

    def reflected(y: Any, x: Any) -> Any:
        if elementwise and (pair := lined_up(y, x, y)) is not None:
            return y.__class__(y.level, computed(function, *pair))
        return NotImplemented if isinstance(x, Operand) else called(function, (x, y), {})

    setattr(Operators, f"__{name}__", method)
    if reflects:
        setattr(Operators, f"__r{name}__", reflected)


def unary(function: Any, name: str) -> None:
    """Give Batches an operator of one operand."""
    setattr(Operators, f"__{name}__", lambda x: called(function, (x,), {}))


def array_method(function: Any, name: str) -> None:
    """Give Batches the method that NumPy has as a function."""
    setattr(Operators, name, lambda x, *args, **kwargs: function(x, *args, **kwargs))


_f: Any
for _f in (*BINARY, operator.matmul, *COMPARISONS):
    binary(_f, _f.__name__.strip("_"), _f not in COMPARISONS)
for _f in UNARY:
    unary(_f, _f.__name__)
for _name in METHODS:
    array_method(getattr(np, _name), _name)
