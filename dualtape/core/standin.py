"""Stand-ins: what may travel through kernels and rules in the place of an array, and what it has to answer.

Kernels and rules are plain NumPy, so whatever answers NumPy's protocols goes through them, inside a Tensor, as an array
does. That is how a batch of examples travels, and how a program can be traced without running it on numbers.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

PLAIN: Any = (np.ndarray, np.generic, bool, int, float, complex)

# How many stand-ins may be about: sweeps look for them only if there are any.
OPEN = [0]


class Refused(TypeError):
    """What was asked of a stand-in needs an array."""


class Standin:
    """A value in the place of an array.

    It has an array's ``shape`` and ``dtype`` (also ``ndim``, ``size``, ``nbytes``, ``itemsize``), its operators and the
    methods that kernels call, and answers ``__array_ufunc__`` and ``__array_function__``. It never becomes an array by
    itself: ``__array__``, ``float`` and their like raise ``Refused``. Besides, it answers what is below.
    """

    __slots__ = ()
    if TYPE_CHECKING:
        shape: Any
        dtype: Any

        def __getattr__(self, name: str) -> Any: ...

    __hash__ = None  # type: ignore[assignment]  # == is elementwise

    # Of several that meet, the one with the highest number is asked: it knows of the others.
    number: int = 0
    # Whether it stands for one array, which a Variable may have for its value.
    single = False

    def through(self, row: Any, operands: Any, params: dict[str, Any]) -> Any:
        """The result of a row whose kernel cannot be gone through, this being (in) one of its operands: found in some
        other way, as one opaque step, or refused."""
        raise Refused(f"{row.name} cannot be carried out on {self!r}")

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        """A step of a sweep that this takes part in."""
        entry[0].pull(entry, g, cotangents, raw)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        """A forward rule that failed with this among its tangents."""
        return entry[0].push(entry, tangents, raw)

    def some(self) -> bool:
        """Whether a mask may hold anywhere; if it is not known, yes."""
        return True

    def every(self) -> bool:
        """Whether a mask is known to hold everywhere."""
        return False

    def finite(self) -> bool:
        """Whether all elements are known to be finite."""
        return False

    def repeat(self, goes_on: Any, body: Any, init: Any, most: int | None, first: Any) -> Any:
        """A loop whose condition this is (``first``), as a whole: its last state; None if Python is to go on."""
        return None

    def choose(self, index: Any, branches: Any) -> Any:
        """What the branch of this number returns, as a whole; None if Python is to go on."""
        return None

    def detached(self) -> Standin:
        """The same value, followed by nobody."""
        return self

    def memory(self) -> Any:
        """The array or object whose memory its elements lie in, to tell views from copies; None if it has none."""
        return None

    def ordered(self, axes: Any) -> Standin:
        """The same value, its elements in memory in the order of the axes."""
        return self

    def ensure_live(self) -> None:
        """Raise if its time is over and its value means nothing any more."""

    def is_inside(self, recorder: Any) -> bool:
        """Whether ``recorder`` follows the whole of which this is a part, and knows nothing of parts."""
        return False


def laid(value: Any, strides: Any) -> Any:
    """The same value with its axes in memory as ``strides`` has them, the widest first."""
    axes = widest_first(strides)
    return value.ordered(axes) if isinstance(value, Standin) else in_order(np.asarray(value), axes)


def widest_first(strides: Any) -> list[int]:
    """The axes in the order in which they lie in memory, as NumPy sorts them."""
    return sorted(range(len(strides)), key=lambda k: -abs(strides[k]))


def in_order(a: Any, axes: Any) -> Any:
    """A copy of an array with its axes in memory in the order given, the widest first."""
    strides, step = [0] * a.ndim, a.itemsize
    for k in reversed(axes):
        strides[k], step = step, step * a.shape[k]
    out: Any = np.ndarray(a.shape, a.dtype, strides=strides)
    out[...] = a
    return out


# (A Tensor is asked where a rule sees one in the place of a mask: somebody follows it then, who goes on elsewhere.)
def some(mask: Any) -> bool:
    """Whether a mask may hold anywhere. For formulas that give the same with and without it."""
    if isinstance(mask, PLAIN):
        return bool(np.any(mask))
    return mask.some() if isinstance(mask, Standin) else bool(mask._asked(some, True))


def every(mask: Any) -> bool:
    """Whether a mask is known to hold everywhere."""
    if isinstance(mask, PLAIN):
        return bool(np.all(mask))
    return mask.every() if isinstance(mask, Standin) else bool(mask._asked(every, False))


def finite(value: Any) -> bool:
    """Whether all elements are known to be finite."""
    if value.__class__ is np.ndarray:
        flat = value.ravel("K")  # no copy, whatever the order of the axes
        # (Of an infinity or a NaN anywhere, this is never finite.)
        return isfinite(flat.dot(flat).real) or bool(np.isfinite(value).all())
    if isinstance(value, np.generic):
        return isfinite(abs(value))  # type: ignore[arg-type]  # a number
    if isinstance(value, PLAIN):
        return bool(np.isfinite(value).all())
    return value.finite() if isinstance(value, Standin) else bool(value._asked(finite, False))
