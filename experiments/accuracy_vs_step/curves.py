"""The functions of E06, their derivatives by hand, and the user's function with a reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt

from ..harness import compare
from ..harness.errors import InputError
from ..harness.user_function import UserFunction
from ..shared.problems import LONG


@dataclass(frozen=True)
class Curve:
    """A function of one number at a point, with the best that is known of its derivative there."""

    name: str
    formula: str
    f: Callable[[Any], Any]
    x: float
    reference: Any  # f'(x) with more than double precision, if there is a way to it
    source: str  # of the reference
    largest: float = 1.0  # step

    def sketch(self) -> dict[str, Any]:
        """What its figure takes: with the coefficients of what Taylor's formula and rounding predict."""
        second = _derivative(_derivative(self.f))
        size = abs(float(self.reference)) or 1.0
        return {
            "name": self.name,
            "formula": self.formula,
            "x": self.x,
            "source": self.source,
            "bend": abs(float(second(self.x))) / size,
            "twist": abs(float(_derivative(second)(self.x))) / size,
            "noise": abs(float(self.f(self.x))) / size,
        }


def _derivative(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: dt.jvp(f, (x,), (1.0,))[1]


# ---------------------------------------------------------------------------------------------------------------------
# The functions.


def closed(x: Any) -> Any:
    """The fourth iterate of the logistic map, multiplied out."""
    return 64 * x * (1 - x) * (1 - 2 * x) ** 2 * (1 - 8 * x + 8 * x * x) ** 2


def iterated(x: Any) -> Any:
    """The same by the recurrence l -> 4 l (1 - l)."""
    for _ in range(3):
        x = 4 * x * (1 - x)
    return x


def waves(x: Any) -> Any:
    return np.exp(x) / np.sqrt(np.sin(x) ** 3 + np.cos(x) ** 3)


def _factors(x: Any) -> tuple[Any, Any, Any]:
    return x * (1 - x), 1 - 2 * x, 1 - 8 * x + 8 * x * x


def closed_derivative(x: Any) -> Any:
    """By hand, in extended precision."""
    x = LONG(1) * x
    p, q, r = _factors(x)
    return 64 * (q * q * q * r * r - 4 * p * q * r * r + 2 * p * q * q * r * (16 * x - 8))


def closed_scale(x: Any) -> Any:
    """By how many eps the rounding of intermediate values can move the derivative of `closed`.

    The absolute values of the products along all paths, added up; and what the rounding of 1 - 8x and 8x^2 does to
    their sum r, of which little is left near its zeros: |d f'/dr| (|1 - 8x| + 8x^2).
    """
    x = np.abs(LONG(1) * x)
    p, q, r = _factors(x)
    by_r = 2 * q**3 * r - 8 * p * q * r + 2 * p * q * q * (16 * x - 8)
    p, q, r = np.abs(p), np.abs(q), np.abs(r)
    paths = (np.abs(1 - x) + x) * q * q * r * r + 4 * p * q * r * r + 2 * p * q * q * r * (8 + 16 * x)
    return 64 * (paths + np.abs(by_r) * (np.abs(1 - 8 * x) + 8 * x * x))


def waves_derivative(x: Any) -> Any:
    x = LONG(1) * x
    s, c = np.sin(x), np.cos(x)
    cubes = s**3 + c**3
    return np.exp(x) / np.sqrt(cubes) * (1 - 3 * s * c * (s - c) / (2 * cubes))


BY_HAND = "closed form in extended precision"
LOGISTIC_AT, WAVES_AT = 0.2, 1.5
CURVES = (
    Curve("A", "64x(1-x)(1-2x)²(1-8x+8x²)²", closed, LOGISTIC_AT, closed_derivative(LOGISTIC_AT), BY_HAND),
    Curve("A'", "4l(1-l), three times", iterated, LOGISTIC_AT, closed_derivative(LOGISTIC_AT), BY_HAND),
    # The domain ends at 2.36, and long before it the series that the slopes rely on do.
    Curve("B", "eˣ / √(sin³x + cos³x)", waves, WAVES_AT, waves_derivative(WAVES_AT), BY_HAND, largest=0.1),
)


def users_curve(user: UserFunction) -> Curve:
    """The user's function, with a true reference: never a derivative by dualtape itself."""
    subject = compare.Subject(user.name, lambda x: user.f(x[0]), np.array([user.x]), 1)
    found, how = compare.reference(subject, [0])
    if found is None:
        raise InputError(
            f"there is nothing to measure the errors of {user.name} against: it takes neither mpmath's nor complex "
            "numbers with the slope that differences see; write it so that it does (np.sin for math.sin, no abs)"
        )
    return Curve(user.name, user.name, user.f, user.x, found[0, 0], how)
