"""Scalar differentiation that drops nothing and counts everything: each zero is multiplied and added like a number.

The textbook composes both modes without asking which derivatives are absent; `hvp` counts here what that costs, to
compare dualtape with. Dual numbers and traced numbers are built from one another, so modes nest in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]  # of scalars, by + - * and numbers


@dataclass
class Tally:
    """Additions and multiplications of numbers."""

    adds: int = 0
    mults: int = 0

    @property
    def flops(self) -> int:
        return self.adds + self.mults


class Ring:
    """Arithmetic from `plus`, `minus`, `times` and `constant`, which each kind of number defines."""

    def plus(self, other: Any) -> Any:
        raise NotImplementedError

    def minus(self, other: Any) -> Any:
        raise NotImplementedError

    def times(self, other: Any) -> Any:
        raise NotImplementedError

    def constant(self, number: float) -> Any:
        """A number of this kind that depends on nothing; its derivatives are zeros like any others."""
        raise NotImplementedError

    def _lifted(self, other: Any) -> Any:
        return other if isinstance(other, type(self)) else self.constant(other)

    def __add__(self, other: Any) -> Any:
        return self.plus(self._lifted(other))

    def __sub__(self, other: Any) -> Any:
        return self.minus(self._lifted(other))

    def __mul__(self, other: Any) -> Any:
        return self.times(self._lifted(other))

    def __radd__(self, other: Any) -> Any:
        return self._lifted(other).plus(self)

    def __rsub__(self, other: Any) -> Any:
        return self._lifted(other).minus(self)

    def __rmul__(self, other: Any) -> Any:
        return self._lifted(other).times(self)


@dataclass(frozen=True)
class Number(Ring):
    """A float that tells its tally of each operation."""

    value: float
    tally: Tally

    def plus(self, other: Number) -> Number:
        self.tally.adds += 1
        return Number(self.value + other.value, self.tally)

    def minus(self, other: Number) -> Number:
        self.tally.adds += 1
        return Number(self.value - other.value, self.tally)

    def times(self, other: Number) -> Number:
        self.tally.mults += 1
        return Number(self.value * other.value, self.tally)

    def constant(self, number: float) -> Number:
        return Number(number, self.tally)


@dataclass(frozen=True)
class Dual(Ring):
    """A value with its tangent, of whatever kind of number."""

    value: Any
    tangent: Any

    def plus(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def minus(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def times(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def constant(self, number: float) -> Dual:
        return Dual(self.value.constant(number), self.value.constant(0.0))


@dataclass(eq=False)
class Traced(Ring):
    """A value on a tape, of whatever kind of number; `pull` adds to the adjoints of what it was made from."""

    value: Any
    tape: list[Traced]
    pull: Callable[[Any], None] | None = None
    adjoint: Any = field(init=False)

    def __post_init__(self) -> None:
        self.adjoint = self.value.constant(0.0)
        self.tape.append(self)

    def plus(self, other: Traced) -> Traced:
        def pull(adjoint: Any) -> None:
            self.adjoint = self.adjoint + adjoint
            other.adjoint = other.adjoint + adjoint

        return Traced(self.value + other.value, self.tape, pull)

    def minus(self, other: Traced) -> Traced:
        def pull(adjoint: Any) -> None:
            self.adjoint = self.adjoint + adjoint
            other.adjoint = other.adjoint - adjoint

        return Traced(self.value - other.value, self.tape, pull)

    def times(self, other: Traced) -> Traced:
        def pull(adjoint: Any) -> None:
            self.adjoint = self.adjoint + adjoint * other.value
            other.adjoint = other.adjoint + self.value * adjoint

        return Traced(self.value * other.value, self.tape, pull)

    def constant(self, number: float) -> Traced:
        return Traced(self.value.constant(number), self.tape)


def tangent(f: Function, xs: Sequence[Any], vs: Sequence[Any]) -> Any:
    """The derivative of f in a direction, by one forward sweep."""
    return f(*[Dual(x, v) for x, v in zip(xs, vs, strict=True)]).tangent


def gradient(f: Function, xs: Sequence[Any]) -> list[Any]:
    """The gradient of f, by one reverse sweep."""
    tape: list[Traced] = []
    inputs = [Traced(x, tape) for x in xs]
    output = f(*inputs)
    output.adjoint = output.value.constant(1.0)
    for node in reversed(tape):
        if node.pull is not None:
            node.pull(node.adjoint)
    return [x.adjoint for x in inputs]


def _forward_over_reverse(f: Function, xs: Sequence[Number], vs: Sequence[Number]) -> list[Any]:
    return [g.tangent for g in gradient(f, [Dual(x, v) for x, v in zip(xs, vs, strict=True)])]


def _reverse_over_forward(f: Function, xs: Sequence[Number], vs: Sequence[Number]) -> list[Any]:
    def slope(*ys: Any) -> Any:
        return tangent(f, ys, [ys[0].constant(v.value) for v in vs])

    return gradient(slope, xs)


def _reverse_over_reverse(f: Function, xs: Sequence[Number], vs: Sequence[Number]) -> list[Any]:
    def slope(*ys: Any) -> Any:
        products = [g * v.value for g, v in zip(gradient(f, ys), vs, strict=True)]
        return sum(products[1:], start=products[0])

    return gradient(slope, xs)


COMPOSITIONS = {"fr": _forward_over_reverse, "rf": _reverse_over_forward, "rr": _reverse_over_reverse}


def counted(composition: str, f: Function, x: Sequence[float], v: Sequence[float]) -> tuple[list[float], Tally]:
    """What `composition` makes of f, and what it took: "f", "gradient", "fr", "rf" or "rr" (outer mode first)."""
    tally = Tally()
    xs, vs = ([Number(float(number), tally) for number in numbers] for numbers in (x, v))
    if composition == "f":
        found = [f(*xs)]
    elif composition == "gradient":
        found = gradient(f, xs)
    else:
        found = COMPOSITIONS[composition](f, xs, vs)
    return [number.value for number in found], tally
