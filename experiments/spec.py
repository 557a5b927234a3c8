"""The vocabulary of an experiment: what it claims, how it is configured, what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from .user_function import UserFunction

T = TypeVar("T")
Row = dict[str, Any]

MARKS = {
    "R": "read in the named source",
    "R2": "read in a secondary summary of the source",
    "D": "derived here by algebra and confirmed by an independent pilot",
    "P": "measured in a pilot",
    "M": "recalled, not verified: never judged",
}


@dataclass(frozen=True)
class Claim:
    """One statement, where it was found, and how far that can be trusted (a key of MARKS)."""

    id: str
    statement: str
    source: str
    mark: str


@dataclass(frozen=True)
class Spec:
    """What an experiment is, known before it runs."""

    id: str
    name: str
    title: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Column:
    """A column of the result; deterministic ones are the same, byte for byte, for the same seed and version."""

    name: str
    meaning: str
    unit: str = ""
    deterministic: bool = True


@dataclass(frozen=True)
class Bar:
    """A condition on the rows: ``expr op rhs``, with ``expr`` in the language of `bars`.

    A bar that is not deterministic (wall clock) is judged only under ``--assert-time``.
    """

    id: str
    expr: str
    op: str
    rhs: float
    deterministic: bool = True


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
    function: UserFunction | None = None  # for the experiment that takes one; it says so in its settings
    track: Tracker = field(default=silent, compare=False, repr=False)

    def stored(self) -> dict[str, Any]:
        """The part that belongs in a result file."""
        kept = ("quick", "seed", "assert_time", "threads")
        return {name: getattr(self, name) for name in kept}

    def rng(self, name: str) -> Any:
        """A generator of its own for experiment `name`: experiments share no stream of random numbers."""
        from zlib import crc32

        import numpy as np

        return np.random.default_rng([self.seed, crc32(name.encode())])


@dataclass
class Result:
    """What `run` hands back; the runner judges the bars, writes the files and adds the environment."""

    columns: tuple[Column, ...]
    rows: list[Row]
    bars: list[Bar]
    settings: dict[str, Any] = field(default_factory=dict)  # sizes and the like, stored under "config"
    files: dict[str, str] = field(default_factory=dict)  # further text files: name -> content
    draw: Callable[[], Any] | None = None  # makes the matplotlib figure from the rows
    svg: Callable[[], str] | None = None  # an SVG that needs no matplotlib, preferred to the figure's


def as_dicts(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclasses as plain dictionaries, for JSON."""
    return [asdict(item) for item in items]
