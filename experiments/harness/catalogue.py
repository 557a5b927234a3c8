"""Where experiments and their figures are: modules by name, imported when they are asked for and not before."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
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
    takes_sizes: bool = False  # whether it runs on a grid of sizes that the user may choose


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

    def find(self, name: str) -> ModuleType | None:
        """The same, or None if there is no such experiment."""
        return self.load(name) if name in self.entries else None

    def draws(self, name: str) -> str:
        """The name of the module that draws; empty if there is none."""
        return self.entries[name].draws

    def with_file(self, path: Path) -> tuple[Catalogue, str]:
        """The same with an experiment from a file, and its name: a module with `SPEC`, `run` and perhaps `figure`."""
        name = path.stem
        if not path.is_file():
            raise InputError(f"there is no file {path}")
        module = f"experiment_of_{name}"
        spec = spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None  # it ends in .py
        made = module_from_spec(spec)
        sys.modules[module] = made
        try:
            spec.loader.exec_module(made)
        except Exception as error:
            raise InputError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
        for needed in ("SPEC", "run"):
            if not hasattr(made, needed):
                raise InputError(f"{path} has no {needed}: an experiment is a module with SPEC and run(config)")
        if name in self.entries:
            raise InputError(f"{path}: there is an experiment {name!r} already; give the file another name")
        entry = Entry(module, module if hasattr(made, "figure") else "", takes_sizes=True)
        return replace(self, entries={**self.entries, name: entry}), name
