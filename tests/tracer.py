"""A stand-in for arrays, in some hundred lines: a value that knows the NumPy calls it came from, and can replay them.

It shows what a stand-in has to answer (``dualtape/core/standin.py``), and proves that kernels and rules read nothing in
secret: what goes through them comes out at another point as it would have been computed there.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dualtape.core.standin import Refused, Standin
from dualtape.core.tensor import Operand

# NumPy's questions about shapes and dtypes: their answers are no arrays, and the same wherever a trace is replayed.
FACTS = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj}
WRITING = {np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis}


class Traced(NDArrayOperatorsMixin, Standin):
    """An array of the first run, all steps so far, and the place of this array among their results."""

    __slots__ = ("place", "steps", "value")

    def __init__(self, value: Any, steps: list[Any], place: Any) -> None:
        self.value, self.steps, self.place = value, steps, place

    def __repr__(self) -> str:
        return f"<a traced array of shape {self.value.shape}>"

    # ---- what comes out is traced as well
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Operand) for x in inputs):
            return NotImplemented
        if method == "at" or kwargs.get("out") is not None:
            raise Refused(f"{ufunc.__name__} writes into an array")
        return step(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(issubclass(t, Operand) for t in types):
            return NotImplemented
        if function in WRITING or kwargs.get("out") is not None:
            raise Refused(f"{function.__name__} writes into an array")
        if function in (np.may_share_memory, np.shares_memory):
            return False
        return function(*opened(args), **opened(kwargs)) if function in FACTS else step(function, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return step(operator.getitem, (self, index), {})

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
            return getattr(self.value, name)
        if name in ("T", "mT", "real", "imag"):
            return step(getattr, (self, name), {})
        if name[0] == "_" or name in ("item", "tolist", "fill", "sort") or not callable(getattr(self.value, name)):
            raise AttributeError(name)
        return lambda *args, **kwargs: step(method, (self, name, *args), kwargs)

    def __len__(self) -> int:
        return len(self.value)

    def through(self, row: Any, operands: Any, params: dict[str, Any]) -> Any:
        return step(row.function, operands, params)  # one opaque step

    # ---- it has no numbers that may decide anything
    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise Refused("a traced array has no number that may decide anything")

    __array__ = __float__ = __int__ = __complex__ = __index__ = __bool__ = __iter__ = __setitem__ = refuse


def method(x: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(x, name)(*args, **kwargs)


def opened(value: Any, results: Any = None) -> Any:
    """Everything traced in nested sequences and dicts, as its array of the first run, or of the results given."""
    if value.__class__ is Traced:
        return value.value if results is None else results[value.place]
    if value.__class__ in (tuple, list):
        return value.__class__([opened(a, results) for a in value])
    if value.__class__ is slice:
        return slice(*opened((value.start, value.stop, value.step), results))
    return {k: opened(a, results) for k, a in value.items()} if value.__class__ is dict else value


def traced(arrays: Any) -> list[Traced]:
    """Arrays to trace a program from."""
    steps: list[Any] = []
    return [Traced(a[()], steps, -1 - k) for k, a in enumerate(arrays)]


def step(function: Any, args: Any, kwargs: Any) -> Any:
    """One call: carried out on the arrays of the first run, and noted."""
    steps = found_in((args, kwargs)).steps
    found = function(*opened(args), **opened(kwargs))
    place = len(steps)
    steps.append((function, args, kwargs))
    if isinstance(found, (tuple, list)):
        return tuple([Traced(v, steps, (place, k)) for k, v in enumerate(found)])
    return Traced(found if hasattr(found, "dtype") else np.asarray(found)[()], steps, place)


def found_in(values: Any) -> Any:
    """The first traced array in nested sequences and dicts, or None."""
    for a in values.values() if values.__class__ is dict else values:
        if a.__class__ is slice:
            a = (a.start, a.stop, a.step)
        a = found_in(a) if a.__class__ in (tuple, list, dict) else a
        if a.__class__ is Traced:
            return a
    return None


def replayed(outputs: Any, arrays: Any) -> Any:
    """What a traced program gives for other arrays: all its steps, carried out again."""
    first = found_in((outputs,))
    results: dict[Any, Any] = {-1 - k: a[()] for k, a in enumerate(arrays)}
    for k, (function, args, kwargs) in enumerate(first.steps if first is not None else ()):
        found = function(*opened(args, results), **opened(kwargs, results))
        results |= {(k, j): v for j, v in enumerate(found)} if isinstance(found, (tuple, list)) else {k: found}
    return opened(outputs, results)
