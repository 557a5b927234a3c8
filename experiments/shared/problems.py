"""Problems as data: functions written in plain NumPy, with their derivatives by hand in extended precision.

Each instance carries `scale`, which the error bars use: by how many eps the rounding of every intermediate value can
move the derivative. Of a value v that makes partials that is |d derivative / d v| times the rounding of v (where terms
cancel, eps times the terms and not eps |v|); of the products along paths, their absolute values, added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Generator = np.random.Generator
LONG = np.longdouble  # 64 bits of mantissa on x86-64; where it is plain double the bars still hold, with less room


@dataclass(frozen=True)
class Instance:
    """A function at a point."""

    f: Callable[[Any], Any]
    x: Any
    derivative: Any  # by hand, in extended precision at exactly this x
    scale: Any


@dataclass(frozen=True)
class Problem:
    """A family of instances, one a size."""

    name: str
    formula: str
    make: Callable[[int, Generator], Instance]
    smallest: int = 1
    largest: int | None = None  # beyond this size there is nothing new to see

    def among(self, sizes: Iterable[int]) -> list[int]:
        """The sizes this problem is meant for."""
        return [n for n in sizes if n >= self.smallest and (self.largest is None or n <= self.largest)]


# ---------------------------------------------------------------------------------------------------------------------
# R^n -> R


def _uniform(n: int, rng: Generator) -> Any:
    return rng.uniform(0.1, 0.9, n)


def speelpenning(x: Any) -> Any:
    """prod x_i by scalar multiplications, one after the other (Speelpenning's example)."""
    product = x[0]
    for i in range(1, len(x)):
        product = product * x[i]
    return product


def _speelpenning(n: int, rng: Generator) -> Instance:
    x = _uniform(n, rng)
    long = x.astype(LONG)
    left = np.concatenate([[LONG(1)], np.cumprod(long)[:-1]])
    right = np.concatenate([np.cumprod(long[::-1])[-2::-1], [LONG(1)]])
    return Instance(speelpenning, x, left * right, left * right)


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * np.square(x[1:] - np.square(x[:-1])) + np.square(1.0 - x[:-1]))


def _rosenbrock(n: int, rng: Generator) -> Instance:
    x = _uniform(n, rng)
    long = x.astype(LONG)
    valley, slope = 200 * (long[1:] - long[:-1] ** 2), 2 * (long[:-1] - 1)
    gradient, scale = np.zeros(n, LONG), np.zeros(n, LONG)
    gradient[1:] += valley
    gradient[:-1] += slope - 2 * long[:-1] * valley
    # The square rounds before x_{i+1} is taken from it, however little is left.
    rounded = np.abs(valley) + 200 * long[:-1] ** 2
    scale[1:] += rounded
    scale[:-1] += np.abs(slope) + 2 * long[:-1] * rounded
    return Instance(rosenbrock, x, gradient, scale)


def ackley(x: Any) -> Any:
    root = np.sqrt(np.mean(np.square(x)))
    return -20.0 * np.exp(-0.2 * root) - np.exp(np.mean(np.cos(2 * np.pi * x))) + 20.0 + np.e


def _ackley(n: int, rng: Generator) -> Instance:
    x = _uniform(n, rng)
    long = x.astype(LONG)
    turn = LONG(2 * np.pi)  # the double the program multiplies by, not pi
    root = np.sqrt(np.mean(long**2))
    bowl = 20 * np.exp(-LONG(0.2) * root) * LONG(0.2) * long / (n * root)
    angle, height = turn * long, np.exp(np.mean(np.cos(turn * long))) * turn / n
    waves = height * np.sin(angle)
    # Angles round, and so do their cosines before the mean is taken.
    rounded = np.abs(waves) * (1 + np.mean(np.abs(np.cos(angle)) + np.abs(angle * np.sin(angle))))
    rounded += height * np.abs(angle * np.cos(angle))
    return Instance(ackley, x, bowl + waves, np.abs(bowl) + rounded)


def _mlp_loss(n: int, rng: Generator) -> Instance:
    x = _uniform(n, rng)
    w1 = rng.normal(size=(64, n)) / np.sqrt(n)
    w2 = rng.normal(size=(64, 64)) / 8
    w3 = rng.normal(size=(10, 64)) / 8

    def mlp_loss(x: Any) -> Any:
        z = w3 @ np.tanh(w2 @ np.tanh(w1 @ x))
        top = np.max(z)
        return top + np.log(np.sum(np.exp(z - top)))

    l1, l2, l3, long = (a.astype(LONG) for a in (w1, w2, w3, x))
    h1 = np.tanh(l1 @ long)
    h2 = np.tanh(l2 @ h1)
    weights = np.exp(l3 @ h2)
    weights /= np.sum(weights)

    def back(l1: Any, l2: Any, l3: Any) -> Any:
        return ((weights @ l3 * (1 - h2**2)) @ l2 * (1 - h1**2)) @ l1

    return Instance(mlp_loss, x, back(l1, l2, l3), back(np.abs(l1), np.abs(l2), np.abs(l3)))


def xlog(x: Any) -> Any:
    return np.sum(x * np.log(x / 2))


def _xlog(n: int, rng: Generator) -> Instance:
    x = _uniform(n, rng)
    logs = np.log(x.astype(LONG) / 2)
    return Instance(xlog, x, logs + 1, np.abs(logs) + 1)


MANY_TO_ONE = (
    Problem("speelpenning", "prod x_i, scalar operations", _speelpenning, largest=2**8),
    Problem("rosenbrock", "sum 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2", _rosenbrock),
    Problem("ackley", "-20 exp(-0.2 sqrt(mean x^2)) - exp(mean cos 2 pi x) + 20 + e", _ackley),
    Problem("mlp_loss", "logsumexp(W3 tanh(W2 tanh(W1 x)))", _mlp_loss, largest=2**14),  # 64 n weights
    Problem("xlog", "x^T log(x / 2)", _xlog),
)

# ---------------------------------------------------------------------------------------------------------------------
# R -> R^m

TIME = 0.3  # where the curves are differentiated
HORIZON = 5.0  # of the pendulum, whatever the number of steps


def _moments(m: int, rng: Generator) -> Instance:
    def moments(t: Any) -> Any:
        terms = [t]
        for k in range(2, m + 1):
            terms.append(terms[-1] * t / k)
        return np.stack(terms)

    # d/dt t^k / k! = t^(k-1) / (k-1)!, but by the k paths through the recurrence, each of the same size
    t = LONG(TIME)
    derivative = np.concatenate([[LONG(1)], np.cumprod(t / np.arange(1, m, dtype=LONG))])
    return Instance(moments, np.float64(TIME), derivative, derivative)


def _rays(m: int, rng: Generator) -> Instance:
    w1, w2 = rng.normal(size=64), rng.normal(size=(64, 64)) / 8
    w3 = rng.normal(size=(m, 64)) / 8

    def rays(t: Any) -> Any:
        return w3 @ np.tanh(w2 @ np.tanh(w1 * t))

    l1, l2, l3 = (a.astype(LONG) for a in (w1, w2, w3))
    h1 = np.tanh(l1 * LONG(TIME))
    h2 = np.tanh(l2 @ h1)

    def push(l1: Any, l2: Any, l3: Any) -> Any:
        return l3 @ ((1 - h2**2) * (l2 @ ((1 - h1**2) * l1)))

    return Instance(rays, np.float64(TIME), push(l1, l2, l3), push(np.abs(l1), np.abs(l2), np.abs(l3)))


def _ringing(m: int, rng: Generator) -> Instance:
    w, d = rng.uniform(1, 10, m), rng.uniform(0.1, 1, m)

    def ringing(t: Any) -> Any:
        return np.exp(-d * t) * np.sin(w * t)

    t, lw, ld = LONG(TIME), w.astype(LONG), d.astype(LONG)
    decay, sine, cosine = np.exp(-ld * t), np.sin(lw * t), np.cos(lw * t)
    paths = np.abs(lw * cosine) + np.abs(ld * sine)
    turned = np.abs(lw * sine) + np.abs(ld * cosine)  # by how much the angle moves them
    scale = decay * (paths * (1 + ld * t) + turned * lw * t)
    return Instance(ringing, np.float64(TIME), decay * (lw * cosine - ld * sine), scale)


def _runge_kutta(field: Callable[[Any, Any], tuple[Any, Any]], a: Any, b: Any, h: Any, steps: int) -> list[Any]:
    """The classical fourth-order scheme for (a, b)' = field(a, b), by scalars; a after each step."""
    path = []
    for _ in range(steps):
        a1, b1 = field(a, b)
        a2, b2 = field(a + h / 2 * a1, b + h / 2 * b1)
        a3, b3 = field(a + h / 2 * a2, b + h / 2 * b2)
        a4, b4 = field(a + h * a3, b + h * b3)
        a = a + h / 6 * (a1 + 2 * (a2 + a3) + a4)
        b = b + h / 6 * (b1 + 2 * (b2 + b3) + b4)
        path.append(a)
    return path


def _ode_path(m: int, rng: Generator) -> Instance:
    h = HORIZON / m

    def ode_path(t: Any) -> Any:
        """Angles of the pendulum theta'' = -sin(theta) released at rest at theta(0) = t."""
        return np.stack(_runge_kutta(lambda a, b: (b, -np.sin(a)), t, 0.0, h, m))

    # The scheme applied to (value, derivative) pairs is the derivative of the scheme: vectors of two, in extended
    # precision. With |cos| in place of -cos it sums the absolute values of the paths.
    def swing(a: Any, b: Any) -> tuple[Any, Any]:
        return b, np.array([-np.sin(a[0]), -np.cos(a[0]) * a[1], np.abs(np.cos(a[0])) * a[2]], LONG)

    start = np.array([LONG(TIME), 1, 1], LONG), np.zeros(3, LONG)
    path = np.array(_runge_kutta(swing, *start, LONG(h), m))
    return Instance(ode_path, np.float64(TIME), path[:, 1], path[:, 2])


ONE_TO_MANY = (
    # At m = 1 this curve is t itself: it costs nothing, and nothing can be a multiple of that.
    Problem("moments", "t^k / k!, k = 1..m, by recurrence", _moments, smallest=2, largest=2**12),
    Problem("rays", "W3 tanh(W2 tanh(w1 t))", _rays, largest=2**14),  # 64 m weights
    Problem("ode_path", "the angles of m Runge-Kutta steps of the pendulum, theta(0) = t", _ode_path, largest=2**12),
    Problem("ringing", "exp(-d t) sin(w t), m damped tones", _ringing),
)
