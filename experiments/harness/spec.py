"""The vocabulary of an experiment: what it claims, what it is judged by, what it hands back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

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


@dataclass
class Result:
    """What `run` hands back; the runner judges the bars, writes the files and adds the environment."""

    columns: tuple[Column, ...]
    rows: list[Row]
    bars: list[Bar]
    settings: dict[str, Any] = field(default_factory=dict)  # sizes and the like, stored under "config"
    files: dict[str, str] = field(default_factory=dict)  # further text files: name -> content
    drawn: tuple[Any, ...] = ()  # what the experiment's `figure` takes beside the rows: what JSON has words for


def as_dicts(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Dataclasses as plain dictionaries, for JSON."""
    return [asdict(item) for item in items]
