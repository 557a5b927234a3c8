"""Which operation answers for a NumPy function or a name: the one table, filled by the modules of ``dualtape.ops``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# Every row by its name, and every callable by its name and by the NumPy or SciPy functions it stands for.
ROWS: dict[str, Any] = {}
TABLE: dict[Any, Callable[..., Any]] = {}

# What to write instead of functions that have no row, by their names (``ops/instead.py``).
INSTEAD: dict[str, str] = {}

# Rows of what Python may ask of a value: its truth, its position, the value itself.
ASKED: dict[str, Any] = {}

# Families that wait until SciPy is in use, and the methods of ufuncs.
LATE_FAMILIES: list[Callable[[Any], None]] = []
UFUNC_METHODS: list[Callable[[np.ufunc, str, tuple[Any, ...], dict[str, Any]], Any]] = []


def register(call: Callable[..., Any], *names: Any) -> Callable[..., Any]:
    """Let ``call`` answer for names and NumPy functions; the first registration of a key is the only one."""
    name = getattr(getattr(call, "row", None), "name", None)
    if name in ROWS and ROWS[name].call is not call:
        raise ValueError(f"there is already a row named {name!r}")
    for key in names:
        if key in TABLE and TABLE[key] is not call:
            raise ValueError(f"{getattr(key, '__name__', key)!r} already has an operation in the table")
    for key in names:
        TABLE[key] = call
    return call


def newer(name: str) -> list[Any]:
    """The keys of what not every version of NumPy has that is supported: its function, where there is one; the name."""
    return [getattr(np, name), name] if hasattr(np, name) else [name]


def lookup(function: Any) -> Callable[..., Any]:
    """The operation for a NumPy function or ufunc."""
    call = find(function)
    if call is None:
        raise TypeError(unknown(function))
    return call


def find(function: Any) -> Callable[..., Any] | None:
    """The operation for a NumPy function, after loading the families that are loaded on demand, or None."""
    load_late_families(function)
    return TABLE.get(function)


def load_late_families(function: Any) -> None:
    """Give the families that are not loaded yet the chance to bring a row for ``function``."""
    for load in LATE_FAMILIES:
        load(function)


def unknown(function: Any) -> str:
    """The message for a function without a row, with what to write instead where that is known."""
    name = getattr(function, "__name__", str(function))
    known = "numpy" if getattr(np, name, None) is function else "scipy.special"  # (ufuncs do not always tell)
    module = getattr(function, "__module__", None) or known
    hint = f"; write {INSTEAD[name]}" if name in INSTEAD and module.startswith(("numpy", "scipy")) else ""
    return (
        f"{module}.{name} has no row in dualtape's table and cannot take a Tensor{hint}. "
        "Register it with dualtape.extend.operation, or call it with .numpy() if the derivative is to end here"
    )
