"""Symbol: a stand-in for an array that notes the NumPy calls it goes through, carrying them out on this run's values.

What a Symbol cannot go through is one opaque step, the kernel of its row. What Python asks of it becomes a guard. What
would make it a constant without a word - ``float``, an array of it, a size that depends on its elements - is refused.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from dualtape.core.recorders import STACK
from dualtape.core.standin import Refused, Standin, every, finite, some
from dualtape.core.tensor import Operand, among
from dualtape.tracing.graph import Block, Graph, Guard, Place, Step, described, exchanged

# NumPy's questions about shapes and dtypes: their answers are the same whenever a program runs.
FACTS = {np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.broadcast_shapes}
WRITING = {np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis}
# The sizes of their results depend on elements.
SIZED = {
    np.nonzero, np.flatnonzero, np.argwhere, np.unique, np.unique_values, np.unique_all, np.unique_counts,
    np.unique_inverse, np.extract, np.compress, np.trim_zeros, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d,
    np.delete,
}  # fmt: skip
SIZED_ROWS = {function.__name__ for function in SIZED}
ATTRIBUTES = {"T", "mT", "real", "imag"}
QUESTIONS = {"truth": bool, "position": operator.index, "some": some, "every": every, "finite": finite}
LIBRARIES = {"dualtape", "numpy", "contextlib", "functools"}


class Sized(Refused):
    """What was asked of a Symbol has a size that depends on its elements."""


class Again(Exception):
    """A step takes more from outside than was known: it is to be carried out again, with that among its operands."""


class Diverged(Exception):
    """A function that is traced again did something else, though all it was asked was answered alike."""


class Tracer:
    """One run of a function under Symbols: follows the way that its graph knows, and notes where it goes on."""

    # Loops and choices as single steps: control.py, which knows traces, puts them here.
    repeated: Callable[..., Any] | None = None
    chosen: Callable[..., Any] | None = None

    def __init__(self, graph: Graph) -> None:
        self.graph, self.block = graph, graph.root
        self.errors = np.geterr()
        # How far this run has come in the block.
        self.position = 0
        self.open = True
        # Whether a step failed. The function may know what to do then; its program does not, and notes no more of it.
        self.broken = False

    def step(self, function: Any, args: Any, kwargs: Any, row: Any = None, effect: bool = False) -> Any:
        """One call: carried out, and noted, or found to be the one that is noted."""
        if not self.open:
            raise Refused("a value of a traced function was kept and used after it: return it instead")
        operands = opened(args)
        try:
            found = function(*operands, **opened(kwargs))
        except Again:
            raise
        except Exception:
            self.broken = True
            raise
        if not isinstance(found, (tuple, list)) and not hasattr(found, "dtype"):
            found = np.asarray(found)[()]
        args, kwargs = exchanged(args, placed), exchanged(kwargs, placed)
        steps = self.block.steps
        if self.broken:
            number = 0
        elif self.position < len(steps):
            known = steps[self.position]
            if not known.same(function, args, kwargs) or known.results != described(found):
                raise Diverged
            number = known.number
        elif self.block.end is not None:
            raise Diverged
        else:
            number = self.graph.number()
            errors = np.geterr()
            steps.append(
                Step(
                    number,
                    function,
                    args,
                    kwargs,
                    described(found),
                    line_of(sys._getframe(1)),
                    row,
                    errors if errors != self.errors else None,
                    effect,
                    owned(found) and not any([a is found for a in operands]),
                )
            )
        self.position += 1
        if isinstance(found, (tuple, list)):
            return tuple([Symbol(self, Place(number, k), v) for k, v in enumerate(found)])
        return Symbol(self, Place(number), found)

    def ask(self, question: str, of: Symbol) -> Any:
        """The answer to a question, from which on the way is the one for this answer."""
        answer = QUESTIONS[question](of.value)
        if self.broken:
            return answer
        block = self.block
        if self.position < len(block.steps):
            raise Diverged
        if block.end is None:
            block.end = Guard(question, of.place, line_of(sys._getframe(1)))
        guard = block.end
        if not isinstance(guard, Guard) or guard.question != question or guard.of != of.place:
            raise Diverged
        self.block = guard.branches.setdefault(answer, Block())
        self.position = 0
        return answer

    def attempted(self, made: Callable[..., Any] | None, *args: Any) -> Any:
        """A loop or a choice as one step, or None if it is not of the kind that can be one: Python goes on then."""
        broken = self.broken
        try:
            return None if made is None else made(*args)
        except Exception:  # what is wrong, Python finds again
            self.broken = broken
            return None


class Symbol(NDArrayOperatorsMixin, Standin):
    """An array of this run, and its place in the graph."""

    __slots__ = ("place", "tracer", "value")

    single = True

    def __init__(self, tracer: Tracer, place: Place, value: Any) -> None:
        self.tracer, self.place, self.value = tracer, place, value

    def __repr__(self) -> str:
        return f"<a value that is traced: shape {self.value.shape}, dtype {self.value.dtype}>"

    # ---- what comes out is traced as well
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any([isinstance(x, Operand) for x in inputs]) or among(inputs).__class__ is not Symbol:
            return NotImplemented  # a batch knows of traces, and not the other way round
        if method == "at" or kwargs.get("out") is not None:
            raise Refused(f"{ufunc.__name__} writes into an array, which a value that is traced is not")
        return self.tracer.step(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any([issubclass(t, Operand) for t in types]) or among((args, kwargs)).__class__ is not Symbol:
            return NotImplemented
        if function in WRITING or kwargs.get("out") is not None:
            raise Refused(f"{function.__name__} writes into an array, which a value that is traced is not")
        if function is np.may_share_memory or function is np.shares_memory:
            return False
        if function in FACTS:
            return function(*opened(args), **opened(kwargs))
        one = function is np.where and len(args) + len(kwargs) == 1
        counted = function is np.repeat and isinstance(kwargs.get("repeats", args[-1]), Symbol)
        if function in SIZED or one or counted or function is np.bincount:
            refuse_size(f"np.{function.__name__}")
        return self.tracer.step(function, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        for part in index if isinstance(index, tuple) else (index,):
            if getattr(part, "dtype", None) == np.bool_ and part.shape and isinstance(part, Symbol):
                refuse_size("x[mask]")
        return self.tracer.step(operator.getitem, (self, index), {})

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
            return getattr(self.value, name)
        if name in ATTRIBUTES:
            if name != "T" and name != "mT" and self.value.dtype.kind != "c":
                return self if name == "real" else np.zeros_like(self.value)
            return self.tracer.step(getattr, (self, name), {})
        if name in ("item", "tolist"):
            return lambda *args: refuse(f"{name}()", "operations on Tensors")
        if name[0] == "_" or name in ("fill", "sort") or not callable(getattr(self.value, name)):
            raise AttributeError(name)
        if name in ("conjugate", "conj") and self.value.dtype.kind != "c":
            return lambda: self
        return lambda *args, **kwargs: self.tracer.step(method, (self, name, *args), kwargs)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self.value)))

    def through(self, row: Any, operands: Any, params: dict[str, Any]) -> Any:
        if row.name in SIZED_ROWS:
            refuse_size(f"np.{row.name}")
        if isinstance(error := sys.exception(), Sized):  # why the kernel could not be gone through
            raise error
        return self.tracer.step(row.function, operands, params, row)

    # ---- what it is asked
    def __bool__(self) -> bool:
        return bool(self.tracer.ask("truth", self))

    def __index__(self) -> int:
        return int(self.tracer.ask("position", self))

    def __int__(self) -> int:
        if self.value.dtype.kind not in "iub":
            refuse("int()", "a rounded Tensor, np.rint(x)")
        return int(self.tracer.ask("position", self))

    # ---- what becomes one step
    def repeat(self, goes_on: Any, body: Any, init: Any, most: int | None, first: Any) -> Any:
        return self.tracer.attempted(Tracer.repeated, goes_on, body, init, most, first)

    def choose(self, index: Any, branches: Any) -> Any:
        return self.tracer.attempted(Tracer.chosen, index, branches)

    def some(self) -> bool:
        return bool(self.tracer.ask("some", self))

    def every(self) -> bool:
        return bool(self.tracer.ask("every", self))

    def finite(self) -> bool:
        return bool(self.tracer.ask("finite", self))

    # ---- what would make a constant of it
    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse("an array", "NumPy's functions on it")

    def __float__(self) -> NoReturn:
        refuse("float()", "operations on Tensors (NumPy's functions, dualtape.special) in the place of Python's math")

    def __complex__(self) -> NoReturn:
        refuse("complex()", "operations on Tensors")

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise Refused("a value that is traced cannot be written into: write into a Tensor, dualtape.asarray(x)")


class Draws(np.random.Generator):
    """A random generator of the caller's: each draw is a step, carried out with his whenever a program runs."""

    def __init__(self, tracer: Tracer, place: Place, generator: np.random.Generator) -> None:
        super().__init__(generator.bit_generator)
        self.tracer, self.place, self.value = tracer, place, generator

    def __getattribute__(self, name: str) -> Any:
        get = super().__getattribute__
        if name[0] == "_" or name in ("tracer", "place", "value"):
            return get(name)
        if name in ("bit_generator", "shuffle", "spawn", "permuted"):
            raise Refused(f"a random generator's {name} in a traced function: draw with its other methods")
        tracer = get("tracer")
        innermost = next((r.tracer for r in STACK.get() if hasattr(r, "tracer")), tracer)
        if innermost is not tracer:
            raise Refused("random numbers in the body of a loop: draw those of all steps before it, and go along them")
        return lambda *args, **kwargs: tracer.step(method, (self, name, *args), kwargs, effect=True)


def refuse(what: str, remedy: str) -> NoReturn:
    """Say that a program cannot depend on what a value is now."""
    raise Refused(f"{what} of a value that is traced would become a constant of the program: use {remedy}")


def refuse_size(what: str) -> NoReturn:
    """Say that a size depends on elements."""
    raise Sized(
        f"{what} has a size that depends on the elements of a value that is traced, and a program has sizes of its "
        "own: use np.where(mask, x, 0) or a product with the mask"
    )


def method(x: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """A method of an array."""
    return getattr(x, name)(*args, **kwargs)


def opened(a: Any) -> Any:
    """Nested arguments with the arrays of this run for Symbols."""
    return exchanged(a, lambda leaf: leaf.value if leaf.__class__ in STANDING else leaf)


def placed(leaf: Any) -> Any:
    """An argument as a step keeps it: a place for a Symbol, and a copy of an array that somebody may write into."""
    if leaf.__class__ in STANDING:
        return leaf.place
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


STANDING = (Symbol, Draws)


def owned(found: Any) -> bool:
    """Whether results have memory of their own."""
    if isinstance(found, (tuple, list)):
        return all(map(owned, found))
    return found.__class__ is not np.ndarray or found.flags.owndata


def line_of(frame: FrameType | None) -> tuple[str, int] | None:
    """The file and line of the user's program that runs."""
    while frame is not None:
        if is_users(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def is_users(frame: FrameType) -> bool:
    """Whether a frame is of the user's program, and not of a library that is gone through."""
    return frame.f_globals.get("__name__", "").partition(".")[0] not in LIBRARIES
