"""Measuring: errors, finite differences, the complex step, and the bytes a tape holds."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dualtape as dt

from ..harness.clock import set_aside, traced

EPS = float(np.finfo(np.float64).eps)

Array = NDArray[np.float64]
Function = Callable[..., Any]

# ---------------------------------------------------------------------------------------------------------------------
# Errors.


def ulps(value: float, reference: float) -> float:
    """Distance in units in the last place of the (rounded) reference."""
    return float(abs(value - reference) / np.spacing(abs(float(reference))))


def relative_error(value: Any, reference: Any) -> float:
    """Frobenius norm of the error, relative to that of the reference."""
    reference = np.asarray(reference)
    # In the precision of the reference: rounding it to double first would hide half an ulp.
    difference = np.asarray(value, dtype=reference.dtype) - reference
    return float(np.sqrt(np.sum(np.abs(difference) ** 2)) / np.sqrt(np.sum(np.abs(reference) ** 2)))


def error_to_value(value: Any, reference: Any, f: Any) -> float:
    """Largest error, relative to the larger of |f| and the largest entry: what a difference quotient can be held to."""
    size = max(float(np.max(np.abs(f))), float(np.max(np.abs(reference))))
    return float(np.max(np.abs(np.asarray(value) - reference))) / size


def scaled_error(value: Any, reference: Any, scale: Any) -> float:
    """Largest |value - reference| / (eps scale).

    `scale` is the condition of the program along its paths, in absolute terms: by how many eps the rounding of all its
    intermediate values can move the derivative, however much of them cancels (`problems.py`). Below the normal range
    the unit is the smallest subnormal instead.
    """
    reference = np.asarray(reference)
    unit = np.maximum(EPS * np.asarray(scale, dtype=reference.dtype), np.finfo(np.float64).smallest_subnormal)
    return float(np.max(np.abs(np.asarray(value, dtype=reference.dtype) - reference) / unit))


# ---------------------------------------------------------------------------------------------------------------------
# Derivatives that need no differentiation.


class Counted:
    """A function that counts its calls."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.f(*args)


def _steps(x: Array, relative: float) -> Array:
    """A step an entry; x + h - x is h exactly, or the quotient divides by the wrong h."""
    h = relative * np.maximum(1.0, np.abs(x))
    return (x + h) - x


def forward_difference(f: Function, x: Array, relative: float = EPS ** (1 / 2), entries: Any = None) -> Array:
    """Gradient (or derivative of a curve) from n + 1 evaluations; of some entries of a vector, if they are named."""
    base, h = f(x), _steps(x, relative)
    quotients = [(f(shifted) - base) / step for shifted, step in _shifts(x, h, entries)]
    return np.array(quotients).reshape((x.shape if entries is None else np.shape(entries)) + np.shape(base))


def central_difference(f: Function, x: Array, relative: float = EPS ** (1 / 3), entries: Any = None) -> Array:
    """Gradient (or derivative of a curve) from 2n evaluations; of some entries of a vector, if they are named."""
    h = _steps(x, relative)
    pairs = zip(_shifts(x, h, entries), _shifts(x, -h, entries), strict=True)
    quotients = [(f(up) - f(down)) / (2 * step) for (up, step), (down, _) in pairs]
    return np.array(quotients).reshape((x.shape if entries is None else np.shape(entries)) + np.shape(quotients[0]))


def _shifts(x: Array, h: Array, entries: Any) -> Any:
    """Pairs (x with one entry shifted, the shift); scalars stay scalars."""
    for index in np.ndindex(x.shape) if entries is None else entries:
        shifted = x.copy() if x.ndim else x
        if x.ndim:
            shifted[index] += h[index]
            yield shifted, h[index]
        else:
            yield x + h, h


def complex_step(f: Function, x: Array, index: int, step: float = 1e-200) -> float:
    """df/dx_index = Im f(x + i h e) / h: no difference is taken, so h may be as small as one likes.

    Squire & Trapp, SIAM Review 40(1), 1998. `f` has to be analytic, which rules out abs and conj but not max.
    """
    shifted = x.astype(complex)
    shifted[index] += 1j * step
    return float(f(shifted).imag / step)


# ---------------------------------------------------------------------------------------------------------------------
# Tapes.


def record(f: Function, *xs: Any) -> Any:
    """Record f(*xs) on a tape, ready for the reverse sweep."""
    inputs = [dt.constant(x) for x in xs]
    with dt.GradientTape() as tape:
        tape.watch(inputs)
        f(*inputs)
    return tape


def live_tape_bytes(sweep: Callable[[Function], object], f: Function) -> int:
    """Bytes held by all tapes alive at the moment `f` has been evaluated inside `sweep(f)`: the peak of the run."""
    held: list[int] = []

    def probed(*args: Any) -> Any:
        value = f(*args)
        tapes = [thing for thing in gc.get_objects() if isinstance(thing, dt.GradientTape)]
        held.append(sum(int(tape.nbytes) for tape in tapes))
        return value

    with set_aside():  # what is there already is not searched: it is much, and none of it is a tape of this sweep
        sweep(probed)
    return max(held)


def memory(sweep: Callable[[Function], object], f: Function) -> int:
    """Bytes of everything Python holds more, at the moment `f` has been evaluated inside `sweep(f)`, than before it.

    Unlike the bytes of a tape these include the Python objects, and are a measurement.
    """
    held: list[int] = []

    def probed(*args: Any) -> Any:
        value = f(*args)
        held.append(tracemalloc.get_traced_memory()[0])
        return value

    with traced():
        sweep(probed)
    return max(held)
