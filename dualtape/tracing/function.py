"""function: a Python function that is traced once for each kind of arguments, and runs as a program of NumPy calls."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import INSIDE, STACK
from dualtape.core.standin import OPEN
from dualtape.core.tensor import Node, Operand, Tensor, tensor, wrap
from dualtape.modes.constant import constant
from dualtape.modes.spec import TensorSpec
from dualtape.modes.structure import flatten
from dualtape.tracing import control  # noqa: F401  (loops and choices as steps)
from dualtape.tracing.derivative import connected
from dualtape.tracing.emit import UNKNOWN
from dualtape.tracing.keys import Arguments, difference
from dualtape.tracing.symbol import Diverged
from dualtape.tracing.trace import Trace
from dualtape.transforms.arguments import besides, ensure_callable, holds_tensor

__all__ = ["function", "run_functions_eagerly"]

ndarray = np.ndarray
EAGERLY = [False]
# The retrace that is worth a warning.
MANY = 5


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Let functions made by ``function`` run as they stand, untraced, or no longer.

    Args:
        run_eagerly: whether they do.

    Example:
        >>> import dualtape as dt
        >>> dt.run_functions_eagerly(True)
        >>> dt.run_functions_eagerly(False)
    """
    EAGERLY[0] = bool(run_eagerly)


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[TensorSpec] | None = None,
    reduce_retracing: bool = False,
) -> Any:
    """A function that is traced into a graph of NumPy calls, and runs as a program; a decorator, for methods as well.

    The first call with arguments of a kind (structure, shapes, dtypes, Python values) runs ``func`` itself and notes
    what it computes. Later calls run the program that was noted: straight lines of NumPy, which ``source`` shows.
    Derivatives that ``func`` takes are part of its program. What Python asked of a value (``if``, ``while``, an index)
    is asked again by the program; at an answer that is new, ``func`` is traced on along another way.

    Args:
        func: a function of arrays, nested structures of them, and Python values. Python values are part of the program;
            so are arrays that it finds outside (as copies). Tensors from outside are inputs, Variables are read and
            assigned when a program runs, random numbers are drawn from generators among the arguments.
        input_signature: a TensorSpec for each positional argument, to which they are converted and held.
        reduce_retracing: no warning where many kinds of arguments are traced.

    Returns:
        A function with the arguments of ``func``. Results are arrays where all arguments are, outside of recorders;
        else Tensors. It is differentiable in both modes, to any order.

    Raises:
        TypeError: where a value would become a constant of the program (``float``, a size that depends on elements).

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.function
        ... def f(x):
        ...     return np.sum(np.sin(x) * x)
        >>> f(np.array([1.0, 2.0])), dt.grad(f)(np.array([0.0, 1.0]))
        (np.float64(2.6600658384592597), array([0.        , 1.38177329]))
        >>> print(f.source())
        from numpy import add, sin
        <BLANKLINE>
        def f(x):
            t0 = sin(x)
            t1 = t0 * x
            t2 = add.reduce(t1, axis=None)
            return t2
        <BLANKLINE>
    """
    if func is None:
        return lambda f: Function(f, input_signature, reduce_retracing)
    return Function(func, input_signature, reduce_retracing)


class Function:
    """A function made by ``function``."""

    def __init__(
        self,
        f: Callable[..., Any],
        input_signature: Sequence[TensorSpec] | None = None,
        reduce_retracing: bool = False,
        effects: bool = True,
    ) -> None:
        ensure_callable("function", f)
        functools.update_wrapper(self, f)
        self.f = f
        name = getattr(f, "__name__", "function")
        self.name = name if name.isidentifier() else "function"
        self.signature = inspect.signature(f)
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self.quiet = reduce_retracing
        # Whether Variables are assigned: not by the derivatives of a function.
        self.effects = effects
        self.traces: dict[Any, Trace] = {}
        self.derived: dict[Any, Any] = {}
        self.trace_count = 0
        self.lock = RLock()
        # Of the last kind of arguments that were arrays alone: shapes, dtypes, trace.
        self.hot: tuple[Any, Any, Trace, list[Any]] | None = None
        # Objects that keys speak of by their identity.
        self.held: list[Any] = []

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<function {self.name}, traced>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hot = self.hot
        if hot is not None and not kwargs and not (STACK.get() or INSIDE.get() or EAGERLY[0]):
            shapes, dtypes, trace, outside = hot
            if len(args) == len(shapes):
                for a, shape, dtype in zip(args, shapes, dtypes, strict=True):
                    if a.__class__ is not ndarray or a.shape != shape or a.dtype is not dtype:
                        break
                else:
                    try:
                        out = trace.run(*args, *outside)
                    except Exception:  # what the function makes of it, it shows itself
                        out = UNKNOWN
                    if out is not UNKNOWN:
                        if trace.program.single:  # type: ignore[union-attr]
                            return out
                        return trace.outputs[out[0]].rebuild(iter(out[1:]))
        return self.called(args, kwargs)

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function on any arguments."""
        if EAGERLY[0] or OPEN[0]:  # where values stand for others, in a batch or a trace, it is part of what goes on
            return self.untraced(args, kwargs)
        given = self.arguments(args, kwargs)
        outermost = recorders.outermost() and not holds_tensor(given.every)
        trace = self.traces.get(given.key) or self.retraced(given)
        if trace.looks and (changed := trace.refresh()) is not False:
            self.derived.clear()  # they know the Tensors that there were
            if changed is None:
                trace = self.traces[given.key] = self.new_trace(given, "a Tensor of another kind from outside")
        found = self.run(trace, given)
        if found is None:
            return self.untraced(args, kwargs)
        trace, (output, leaves, assigned), reads = found
        if recorders.live():
            operands = [*given.nodes, *[x._node for x in reads]]
            leaves = connected(self, trace, given.caller(self.f), output, operands, leaves)
        if self.effects:
            for k, value in zip(output.assigned, assigned, strict=True):
                if k < trace.count:
                    write(given.leaves[given.slots[k]], value)
                else:
                    trace.outside[k - trace.count].assign(value)
        if not outermost:
            leaves = [tensor(y) if isinstance(y, (ndarray, np.generic)) else y for y in leaves]
        return output.rebuild(iter(leaves))

    def untraced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself, on Tensors as when it is traced, with results as it gives them then."""
        outermost = recorders.outermost() and not holds_tensor((args, kwargs)) and not OPEN[0]
        leaves, rebuild = flatten((args, kwargs))
        arrays = [leaf.__class__ is ndarray and leaf.dtype != object for leaf in leaves]
        wrapped = [tensor(leaf.copy()) if array else leaf for leaf, array in zip(leaves, arrays, strict=True)]
        before = [x._node if x.__class__ is Tensor else None for x in wrapped]
        given, named = rebuild(iter(wrapped))
        out = self.f(*given, **named)
        for leaf, x, node in zip(leaves, wrapped, before, strict=True):
            if leaf is not x and x._node is not node:
                write(leaf, x._node.value)
        return besides(out, outermost)

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        """The arguments of a call, with defaults filled in, and converted to the input signature."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        bound.apply_defaults()
        args, kwargs = bound.args, bound.kwargs
        if self.input_signature is not None:
            args = conformed(self.name, args, kwargs, self.input_signature)
        return Arguments(args, kwargs)

    def retraced(self, given: Arguments) -> Trace:
        """A trace for arguments of a new kind."""
        with self.lock:
            last = next(reversed(self.traces), None)
            cause = "the first call" if last is None else difference(given.key, last)
            trace = self.traces[given.key] = self.new_trace(given, cause)
        return trace

    def new_trace(self, given: Arguments, cause: str) -> Trace:
        """An empty trace."""
        self.trace_count += 1
        if self.trace_count == MANY + 1 and not self.quiet:
            warnings.warn(
                f"{self.name} is traced for the {self.trace_count}th time, because of {cause}. Tracing costs more than "
                "running untraced: see its trace_report()",
                stacklevel=4,
            )
        self.held.append(given.leaves)
        return Trace(self.name, given.names(self.signature), given.likes(), cause, self.f)

    def run(self, trace: Trace, given: Arguments) -> Any:
        """The trace, what came out of it, and what is read from outside; None if it is to run untraced."""
        reads = read(trace)
        before = states(given) if trace.draws else None
        try:
            out = trace.run(*given.values, *[x._node.value for x in reads])
        except Exception:  # what the function makes of it, it shows itself
            out = UNKNOWN
        if out is not UNKNOWN:
            return trace, trace.outcome(out), reads
        if before is not None:
            restore(given, before)
        with self.lock:
            if trace.full:
                self.warn_of_ways(trace)
                return None
            call = given.caller(self.f)
            try:
                found = trace.follow(call, given.values)
            except Diverged:
                if before is not None:
                    restore(given, before)
                trace = self.new_trace(given, "what it does: it depends on more than its arguments and Variables")
                self.traces[given.key] = trace
                found = trace.follow(call, given.values)
            self.heat(trace, given)
        reads = read(trace)
        return trace, found, reads

    def heat(self, trace: Trace, given: Arguments) -> None:
        """Let calls with arrays like these take the short way, if nothing but arrays goes in and comes out."""
        args, kwargs = given.every
        arrays = not kwargs and all([a.__class__ is ndarray for a in args]) and self.input_signature is None
        inner = any([output.assigned for output in trace.outputs])
        self.hot = None
        # (Tensors never change, but the names that they go by may come to stand for others.)
        fixed = all([x.__class__ is Node for x in trace.outside]) and not trace.looks
        if arrays and fixed and not inner and len(args) == len(given.leaves):
            self.hot = [a.shape for a in args], [a.dtype for a in args], trace, [x.value for x in trace.outside]

    def warn_of_ways(self, trace: Trace) -> None:
        """Say once that a function divides too often, and where."""
        if trace.cause is not None and not getattr(trace, "warned", False):
            lines = Counter([guard.line for guard in trace.guards()])
            (place, _), *_ = lines.most_common(1) or [((None), 0)]
            where = f"{place[0]}:{place[1]}" if place else "a question"
            trace.warned = True  # type: ignore[attr-defined]
            warnings.warn(
                f"{self.name} goes more than {len(trace.outputs)} different ways, most of them by {where}, and runs "
                "untraced from now on: use dualtape.where, cond or while_loop there",
                stacklevel=5,
            )

    # ---- to look at
    def source(self, *args: Any, **kwargs: Any) -> str:
        """The program as Python source, for arguments like these; of all kinds that were traced, if none are given."""
        if args or kwargs:
            given = self.arguments(args, kwargs)
            if given.key not in self.traces:
                self.run(self.retraced(given), given)
            return program_of(self.traces[given.key])
        return "\n".join(map(program_of, self.traces.values()))

    def trace_report(self) -> str:
        """What was traced: kinds of arguments and why, the ways of each and what divides them, what was baked in."""
        lines = []
        for k, trace in enumerate(self.traces.values()):
            shapes = ", ".join([f"{n} {described_as(like)}" for n, like in zip(trace.names, trace.likes, strict=True)])
            lines.append(f"trace {k} of {self.name}({shapes}): {trace.cause}")
            steps = 0 if trace.program is None else len(trace.program.steps)
            lines.append(f"    {len(trace.outputs)} way(s), {steps} steps")
            for guard in trace.guards():
                place = f"{guard.line[0]}:{guard.line[1]}" if guard.line else "inside"
                lines.append(f"    {guard.question} of a value at {place}: {', '.join(map(str, guard.branches))}")
            for x in trace.outside:
                known = f"a Tensor {x.value.shape}" if x.__class__ is Node else f"Variable {x.name} {x.shape}"
                lines.append(f"    from outside: {known}")
            if trace.program is not None:
                for name, value in trace.program.names.items():
                    if isinstance(value, (ndarray, np.generic)):
                        lines.append(f"    {name}: a copy of an array of shape {value.shape}, dtype {value.dtype}")
        return "\n".join(lines)


def program_of(trace: Trace) -> str:
    """The source of a trace."""
    return "" if trace.program is None else trace.program.listing()


def described_as(like: Any) -> str:
    """The shape and dtype of an input, in words."""
    return "a random generator" if like.dtype is None else f"{like.shape} {like.dtype}"


def read(trace: Trace) -> list[Tensor]:
    """What a trace takes from outside, as it is now."""
    return [
        wrap(x) if x.__class__ is Node else x.value() if STACK.get() else tensor(x._value()) for x in trace.outside
    ]


def states(given: Arguments) -> list[Any]:
    """The states of the random generators among the arguments."""
    return [v.bit_generator.state if isinstance(v, np.random.Generator) else None for v in given.values]


def restore(given: Arguments, before: list[Any]) -> None:
    """Give random generators the states they had."""
    for v, state in zip(given.values, before, strict=True):
        if state is not None:
            v.bit_generator.state = state


def write(leaf: Any, value: Any) -> None:
    """Write into an argument what the function wrote into it."""
    leaf[...] = value


def conformed(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], specs: tuple[TensorSpec, ...]
) -> tuple[Any, ...]:
    """Arguments converted to the dtypes of a signature, and held to its shapes."""
    if len(args) != len(specs) or kwargs:
        raise TypeError(f"{name} has {len(specs)} arguments by its input_signature, and was called with {len(args)}")
    found = []
    for k, (arg, spec) in enumerate(zip(args, specs, strict=True)):
        x = arg if isinstance(arg, Operand) and arg.dtype == spec.dtype else constant(arg, spec.dtype)
        if not spec.is_compatible_with(x):
            raise ValueError(f"{name}: argument {k} has shape {x.shape}, and its input_signature says {spec.shape}")
        found.append(x if isinstance(arg, Operand) else x.numpy())
    return tuple(found)
