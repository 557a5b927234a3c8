"""Dual numbers done wrong on purpose: nothing tells the perturbations of nested derivatives apart.

This is what perturbation confusion looks like; `nesting` runs it beside dualtape. Never use it for anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Dual:
    """A value and a tangent - of whose input, it does not say, and that is the mistake."""

    value: float
    tangent: float

    def __add__(self, other: Any) -> Dual:
        other = _lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other: Any) -> Dual:
        other = _lift(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    __radd__ = __add__
    __rmul__ = __mul__

    def exp(self) -> Dual:
        """What np.exp calls on an object it does not know."""
        return Dual(np.exp(self.value), np.exp(self.value) * self.tangent)


def _lift(number: Any) -> Dual:
    return number if isinstance(number, Dual) else Dual(float(number), 0.0)


def derivative(f: Callable[[Any], Any], x: Any) -> float:
    """df/dx by the textbook recipe, which is right until f differentiates something itself."""
    value = _lift(x).value
    return _lift(f(Dual(value, 1.0))).tangent
