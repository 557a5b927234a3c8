"""The form of a row's test case: a function, a point, and what its derivative must be there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A function in which one row takes part, at a point where it is smooth.

    ``f`` is plain NumPy: given arrays it computes the reference, given Tensors it is what is tested. Every floating
    or complex argument is differentiated, all others are constants. The test derives variants from it: single
    precision, other memory layouts, absent tangents, and broadcasting for rows with two elementwise operands.
    """

    row: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    analytic: bool = False
    order: int = 2
    rtol: float | None = None
    single: bool = True
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.row}-{self.label}" if self.label else self.row


@dataclass(frozen=True)
class Special:
    """A point where differences cannot tell the derivative: a kink, a tie, an edge, an infinity.

    ``expected`` is the decided gradient of ``sum(real(f))`` by each argument.
    """

    row: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    expected: tuple[Any, ...]
    label: str = ""
    forward: bool = True

    @property
    def name(self) -> str:
        return f"{self.row}-at {self.label}" if self.label else f"{self.row}-at a special point"


@dataclass(frozen=True)
class Absent:
    """A call of a row that carries no derivative: NumPy's value, and None in both modes."""

    row: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    label: str = ""

    @property
    def name(self) -> str:
        return f"{self.row}-{self.label}" if self.label else self.row


AnyCase = Case | Special | Absent


def case(
    row: str,
    f: Callable[..., Any],
    *args: Any,
    analytic: bool = False,
    order: int = 2,
    rtol: float | None = None,
    single: bool = True,
    label: str = "",
) -> Case:
    """A case at a smooth point.

    Args:
        row: the name of the row; the test asserts that ``f`` records it.
        f: a function of ``args`` that works on arrays and on Tensors; the result is an array or a tuple of arrays.
        *args: arrays and numbers; the floating and complex ones are differentiated.
        analytic: ``f`` is analytic and takes complex arrays, so that a complex step gives the reference to rounding.
        order: 1 or 2, the highest order that is checked against differences.
        rtol: tolerance against differences, if the default is too strict for a badly conditioned function.
        single: whether a variant in single precision is derived.
        label: tells apart the cases of one row.

    Returns:
        The case.
    """
    return Case(row, f, tuple(map(point, args)), analytic, order, rtol, single, label)


def special(
    row: str, f: Callable[..., Any], args: Any, expected: Any, label: str = "", *, forward: bool = True
) -> Special:
    """A case at a point whose derivative is a decision.

    Args:
        row: the name of the row.
        f: a function of ``args``, as in ``case``.
        args: the arguments: a tuple, or a single array.
        expected: the gradient of ``sum(real(f(*args)))`` by each argument: a tuple, or a single array. Forward mode
            is checked against it along each unit vector.
        label: tells apart the cases of one row.
        forward: False where only reverse mode can know that an infinite slope is not asked for.

    Returns:
        The case.
    """
    points = args if isinstance(args, tuple) else (args,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    if len(points) != len(wanted):
        raise ValueError(f"{row}: {len(points)} arguments, but {len(wanted)} expected gradients")
    return Special(row, f, tuple(map(point, points)), tuple(map(np.asarray, wanted)), label, forward)


def absent(row: str, f: Callable[..., Any], *args: Any, label: str = "") -> Absent:
    """A case of a row that carries no derivative.

    Args:
        row: the name of the row.
        f: a function of ``args``, as in ``case``.
        *args: arrays and numbers.
        label: tells apart the cases of one row.

    Returns:
        The case.
    """
    return Absent(row, f, tuple(map(point, args)), label)


def point(value: Any) -> Any:
    """An argument as an array; integers and booleans stay what they are."""
    return np.asarray(value)
