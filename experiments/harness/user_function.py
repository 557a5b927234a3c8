"""A function of the user's, FILE:NAME, at a point: loaded, tried out, and refused with a reason if it is of no use."""

from __future__ import annotations

import difflib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dualtape as dt

from .errors import InputError


class UserFunctionError(InputError):
    """What is wrong with the function, or with how it was named."""


@dataclass(frozen=True)
class UserFunction:
    """A real function of one number, and where it is to be differentiated."""

    name: str
    f: Callable[[Any], Any]
    x: float


def load(target: str, x: float) -> UserFunction:
    """The function `target` names, having been evaluated and differentiated at x once in each mode."""
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UserFunctionError(f"--function takes FILE:NAME, for example model.py:energy, not {target!r}")
    if not math.isfinite(x):
        raise UserFunctionError(f"--at takes a finite number, not {x}")
    f = attribute(module(Path(file)), name)
    _try_out(f, name, x)
    return UserFunction(f"{Path(file).name}:{name}", f, x)


def module(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserFunctionError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location("user_function_" + path.stem, path)
    if spec is None or spec.loader is None:
        raise UserFunctionError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserFunctionError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def attribute(module: ModuleType, name: str) -> Callable[[Any], Any]:
    found = getattr(module, name, None)
    if found is None:
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = difflib.get_close_matches(name, functions, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(functions) or 'no functions'}"
        raise UserFunctionError(f"{module.__file__} has no function {name!r}{hint}")
    if not callable(found):
        raise UserFunctionError(f"{name} in {module.__file__} is no function but of type {type(found).__name__}")
    function: Callable[[Any], Any] = found
    return function


def _try_out(f: Callable[[Any], Any], name: str, x: float) -> None:
    """Refuse a function that has no finite real value at x, or that dualtape cannot differentiate there."""
    attempts: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("evaluated", lambda: f(np.float64(x))),
        ("differentiated in forward mode", lambda: dt.jvp(f, (x,), (1.0,))[1]),
        ("differentiated in reverse mode", lambda: dt.grad(f)(x)),
    )
    for what, call in attempts:
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused below
                found = call()
        except Exception as error:
            raise UserFunctionError(f"{name}({x}) cannot be {what}: {type(error).__name__}: {error}") from error
        value = np.asarray(found)
        if value.shape != () or value.dtype.kind not in "fiu":
            shown = f"an array of shape {value.shape}" if value.shape else f"{found!r}"
            raise UserFunctionError(f"{name}({x}) {what} is to be one real number, but is {shown}")
        if not np.isfinite(value):
            raise UserFunctionError(f"{name}({x}) {what} is {value}: choose a point where it is finite")
