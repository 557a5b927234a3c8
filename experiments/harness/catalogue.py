"""Where experiments and their figures are: modules by name, imported when they are asked for and not before."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from .errors import InputError


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
        """Names as given, `all` spelled out, each once; an unknown one is an error that names the nearest."""
        chosen: list[str] = []
        for name in names:
            if name != "all" and name not in self.entries:
                near = difflib.get_close_matches(name, self.entries, n=1)
                hint = f"the nearest name is {near[0]!r}" if near else f"there are {', '.join(self.entries)}"
                raise UnknownExperimentError(f"no experiment is called {name!r}; {hint}")
            chosen += [n for n in (self.entries if name == "all" else (name,)) if n not in chosen]
        return chosen

    def load(self, name: str) -> ModuleType:
        """The module that measures."""
        return import_module(self.entries[name].measures)
