"""Where experiments and their figures are: modules by name, imported when they are asked for and not before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from .errors import InputError

_ID = re.compile(r"e\d+")


class UnknownExperimentError(InputError):
    """The name of no experiment."""


@dataclass(frozen=True)
class Entry:
    """An experiment: a module with `SPEC` and `run(config)`, and one with `figure(rows, *result.drawn)`."""

    measures: str
    draws: str
    takes_function: bool = False  # whether `run` has a use for a function of the user's


@dataclass(frozen=True)
class Together:
    """A picture of experiments that ran together: a module with `figure`, which takes the rows of each."""

    name: str
    of: tuple[str, ...]
    draws: str


@dataclass(frozen=True)
class Catalogue:
    """All experiments, in the order of `list` and of `run all`."""

    entries: Mapping[str, Entry]
    together: tuple[Together, ...] = ()

    def resolve(self, names: Sequence[str]) -> list[str]:
        """Names or ids (E01) in any case, `all` spelled out, each once; an unknown one is an error with the nearest."""
        chosen: list[str] = []
        for name in names:
            found = list(self.entries) if name.lower() == "all" else [self._named(name)]
            chosen += [n for n in found if n not in chosen]
        return chosen

    def _named(self, asked: str) -> str:
        name = asked.lower()
        if name in self.entries:
            return name
        if _ID.fullmatch(name):  # only now: to know the ids, every experiment is imported
            ids = {self.load(entry).SPEC.id.lower(): entry for entry in self.entries}
            if name in ids:
                return ids[name]
            raise UnknownExperimentError(f"no experiment has the id {asked!r}; there are {', '.join(ids).upper()}")
        near = difflib.get_close_matches(name, self.entries, n=1)
        hint = f"the nearest name is {near[0]!r}" if near else f"there are {', '.join(self.entries)}"
        raise UnknownExperimentError(f"no experiment is called {asked!r}; {hint}")

    def load(self, name: str) -> ModuleType:
        """The module that measures."""
        return import_module(self.entries[name].measures)
