"""How an experiment is to run: everything that may change a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from zlib import crc32

import numpy as np

from .clock import Effort
from .user_function import UserFunction

T = TypeVar("T")


class Tracker(Protocol):
    """Iterates while telling the user how far it is."""

    def __call__(self, items: Iterable[T], label: str) -> Iterator[T]: ...


def silent(items: Iterable[T], label: str) -> Iterator[T]:
    """The tracker that says nothing."""
    yield from items


@dataclass(frozen=True)
class Config:
    """How to run: everything that may change a number is here and goes into the result file."""

    quick: bool = False
    seed: int = 0
    plot: bool = True
    assert_time: bool = False
    threads: int | None = 1  # None: as many as the libraries like
    sizes: tuple[int, ...] = ()  # of the user's, in the place of the experiment's grid
    function: UserFunction | None = None  # for the experiment that takes one; it says so in its settings
    track: Tracker = field(default=silent, compare=False, repr=False)

    def stored(self) -> dict[str, Any]:
        """The part that belongs in a result file."""
        kept = ("quick", "seed", "assert_time", "threads")
        # How the inputs are made again.
        drawn = "numpy.random.default_rng([seed, zlib.crc32(name)]), name: the experiment's, or that and its part"
        return {name: getattr(self, name) for name in kept} | {"inputs": drawn, "sizes_asked": list(self.sizes)}

    def grid(self, full: Sequence[int], quick: Sequence[int]) -> list[int]:
        """The sizes to run at: the user's, or those of a quick or a full run."""
        return sorted(self.sizes) if self.sizes else list(quick if self.quick else full)

    def effort(self, quick: float, full: float) -> Effort:
        """How long to time: three samples in quick runs and fifteen in full ones, or fewer in so many seconds."""
        return Effort(1e-3, 2, quick, fewest=0) if self.quick else Effort(1e-2, 14, full, fewest=0)

    def rng(self, name: str) -> Any:
        """A generator of its own for experiment `name`: experiments share no stream of random numbers."""
        return np.random.default_rng([self.seed, crc32(name.encode())])
