"""What a problem is: one NumPy text, its arguments, and its derivative written by hand where that is sensible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# What is computed: the value and the gradient of a scalar; for a result of shape (m, ...) the m sweeps with one row of
# ones each; a dense Jacobian or Hessian; or the Hessian times the first entry of `data`.
Derivative = Literal["gradient", "rows", "jacobian", "hessian", "hvp"]


@dataclass(frozen=True)
class Problem:
    """A function and what is asked of it.

    `f(xp, data, *args)` is the one text for all libraries: `xp` is NumPy or a namespace that looks like it, `data` what
    stays constant. `hand(data, *args)` returns the derivative as arrays, in the order of `args` (rows first).
    """

    f: Callable[..., Any]
    args: tuple[Array, ...]
    data: tuple[Any, ...] = ()
    hand: Callable[..., tuple[Any, ...]] | None = None
    derivative: Derivative = "gradient"
    order: str = "fr"  # of the two modes of an HVP, outer first; the mode of a Jacobian, "f" or "r"
    spelling: Literal["np", "dt"] = "np"  # the namespace dualtape is given
    casadi: bool = False  # whether the text is one that CasADi's symbols can run through
    versions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # another text for one library

    def text(self, library: str) -> Callable[..., Any]:
        """The function as `library` runs it."""
        return self.versions.get(library, self.f)

    def value(self, *args: Array) -> Any:
        """The function itself, in plain NumPy."""
        return self.f(np, self.data, *(args or self.args))


@dataclass(frozen=True)
class Entry:
    """A problem by name: how to make it, at the measured size and at one for tests."""

    name: str
    title: str
    make: Callable[..., Problem]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    heavy: bool = False  # left out of quick runs

    def problem(self, small: bool = False) -> Problem:
        """The problem with its arrays."""
        return self.make(**{**self.sizes, **(self.small if small else {})})
