"""Looking at a program: its trace, node by node, and its cost in counted operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.table import Row
from dualtape.core.tensor import Node, Operand, wrap
from dualtape.facts.costs import Parts, Performed, Work
from dualtape.memory import reserve as memory
from dualtape.modes.structure import flatten
from dualtape.modes.tape import GradientTape
from dualtape.names import missing
from dualtape.tracing.performed import Count, performed
from dualtape.transforms.arguments import results, sources
from dualtape.transforms.elimination import Elimination, eliminate
from dualtape.transforms.products import jvp

__all__ = [
    "Constant", "Cost", "Count", "Elimination", "Trace", "TraceNode", "cost", "eliminate", "performed",
    "release_memory", "trace",
]  # fmt: skip
__dir__ = __all__.copy
if not TYPE_CHECKING:  # or every misspelt name would be one to a type checker
    __getattr__ = missing("inspect")


def release_memory() -> None:
    """Give back the memory of large arrays that is kept in reserve for the next ones (64 MB at most).

    A measurement of memory does so first: what is in reserve is not seen to be taken again.

    Example:
        >>> from dualtape.inspect import release_memory
        >>> release_memory()
    """
    memory.trim(0)


class TraceNode(NamedTuple):
    """One line of a trace: an input, or an operation with what it was applied to.

    ``inputs`` are indices of earlier nodes, or constants; ``tangent`` and ``adjoint`` are None unless asked for.
    """

    index: int  # type: ignore[assignment]  # a trace's nodes are read by name
    name: str
    inputs: tuple[Any, ...]
    value: Any
    tangent: Any
    adjoint: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return np.shape(self.value)


class Trace(NamedTuple):
    """The operations of a program in the order they ran, its inputs first."""

    nodes: list[TraceNode]
    outputs: tuple[int, ...]


class Watcher(Recorder):
    """A third reader of the table: it is told of each operation and keeps what it is asked to.

    ``facts``: whether it follows what carries no derivative as well.
    """

    __slots__ = ("facts", "keep", "known")

    def __init__(self, keep: Callable[[Row, Any, Any, Any, Watcher], None], facts: bool = False) -> None:
        super().__init__(None)
        self.keep = keep
        self.facts = facts
        self.known: dict[int, Any] = {}

    def tracks(self, node: Node) -> bool:
        return self.live and node.id in self.known

    def see(self, row: Row, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Stack) -> None:
        if any([a.id in self.known for a in (*nodes_in(operands), *nodes_in(params))]):
            self.keep(row, operands, outs, params, self)


def nodes_in(a: Any) -> list[Node]:
    """The nodes in operands or parameters, those nested in tuples too."""
    if a.__class__ is Node:
        return [a]
    items = a.values() if a.__class__ is dict else a if isinstance(a, (tuple, list)) else ()
    return [node for b in items for node in nodes_in(b)]


def run(f: Callable[..., Any], args: tuple[Any, ...], watcher: Watcher) -> list[Any]:
    """Run ``f`` with a watcher on the stack; its results."""
    recorders.enter(watcher)
    try:
        return results(f(*args))[0]
    finally:
        recorders.leave(watcher)


def trace(f: Callable[..., Any], *args: Any, tangents: Sequence[Any] | None = None, adjoint: bool = False) -> Trace:
    """The operations that ``f`` performs on its arguments, with their values.

    Args:
        f: a function of arrays or nested structures of them.
        *args: its arguments.
        tangents: a direction, one entry for each argument: fills in the tangents.
        adjoint: whether to fill in the adjoints, the derivatives of the (scalar) result by each node.

    Returns:
        A ``Trace``; its nodes are the argument's leaves, named "input", and then the operations: those without
        derivative as well (comparisons, rounding, positions), which have neither tangent nor adjoint.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> [node.name for node in dt.inspect.trace(lambda x: np.sin(x) * x, 2.0).nodes]
        ['input', 'sin', 'multiply']
    """
    given = sources("trace", args, range(len(args)))
    lines: list[tuple[str, tuple[Any, ...], Node]] = [("input", (), x._node) for x in given.leaves]

    def keep(row: Row, operands: Any, outs: Any, params: Any, watcher: Watcher) -> None:
        known = watcher.known
        ins = tuple([known[a.id] if a.__class__ is Node and a.id in known else Constant(value_of(a)) for a in operands])
        ins += tuple([known[a.id] for a in nodes_in(params) if a.id in known])  # an index
        for out in outs:
            watcher.known[out.id] = len(lines)
            lines.append((row.name, ins, out))

    watcher = Watcher(keep, facts=True)
    watcher.known = {x._node.id: k for k, x in enumerate(given.leaves)}
    tape = GradientTape(persistent=True)
    with tape:
        tape.watch(given.leaves)
        found = run(f, given.args, watcher)
    adjoints: list[Any] = [None] * len(lines)
    if adjoint:
        smooth = [k for k, (_, _, node) in enumerate(lines) if node.value.dtype.kind in "fc"]
        found_adjoints = tape.gradient(found, [wrap(lines[k][2]) for k in smooth], unconnected_gradients="zero")
        for k, adjoint_of in zip(smooth, found_adjoints, strict=True):
            adjoints[k] = adjoint_of
    moved: list[Any] = [None] * len(lines)
    if tangents is not None:
        moved = tangents_of(f, args, tuple(tangents), len(lines))
    for k, (_, _, node) in enumerate(lines):
        if node.value.dtype.kind not in "fc":
            moved[k] = None
    nodes = [
        TraceNode(k, name, ins, node.value, numbers(moved[k]), numbers(adjoints[k]))
        for k, (name, ins, node) in enumerate(lines)
    ]
    return Trace(nodes, tuple(watcher.known.get(y._node.id, -1) for y in found))


class Constant(NamedTuple):
    """An operand of a traced operation that does not depend on the inputs."""

    value: Any


def value_of(a: Any) -> Any:
    """The plain value of an operand."""
    return a.value if a.__class__ is Node else a


def numbers(x: Any) -> Any:
    """The plain value of a derivative, or None."""
    return x.numpy() if isinstance(x, Operand) else x


def tangents_of(f: Callable[..., Any], args: tuple[Any, ...], tangents: tuple[Any, ...], count: int) -> list[Any]:
    """The tangent of every node of a trace: run again under forward mode, with every operation as a result."""

    def all_nodes(*xs: Any) -> list[Any]:
        leaves = flatten(xs)[0]
        found = [x._node for x in leaves]

        def keep(row: Row, operands: Any, outs: Any, params: Any, watcher: Watcher) -> None:
            found.extend(outs)
            watcher.known.update((out.id, None) for out in outs)

        watcher = Watcher(keep, facts=True)
        watcher.known = {node.id: None for node in found}
        run(f, xs, watcher)
        return [wrap(node) for node in found]

    return jvp(all_nodes, args, tangents)[1]  # type: ignore[no-any-return]


class Cost(NamedTuple):
    """What a program costs, in the parts that the ways of differentiating it put together.

    One evaluation costs ``evaluation``; a tangent sweep with its primal ``evaluation + partials + tangent``; n
    tangents of a program linearised once ``evaluation + partials + n * tangent``; a gradient
    ``evaluation + partials + adjoint``.
    """

    evaluation: Work
    partials: Work
    tangent: Work
    adjoint: Work
    nodes: int
    nbytes: int


def cost(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None) -> Cost:
    """The cost of ``f`` and of its derivatives, counted from shapes while ``f`` runs once.

    Args:
        f: a function of arrays or nested structures of them.
        *args: its arguments.
        argnums: the arguments to differentiate by; all if None.

    Returns:
        A ``Cost``: work counts (moves, additions, multiplications, nonlinear functions), the number of recorded
        operations, and the bytes a tape keeps for the reverse sweep.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.inspect.cost(lambda x: np.sum(np.sin(x)), np.ones(10)).evaluation
        Work(moves=31, adds=9, mults=0, nonlinear=10)
    """
    given = sources("cost", args, range(len(args)) if argnums is None else argnums)
    # A loop performs the same few operations over and over: count each kind once, and how often it ran.
    counted: dict[Any, Parts] = {}
    times: dict[Any, int] = {}

    def keep(row: Row, operands: Any, outs: Any, params: Any, watcher: Watcher) -> None:
        if row.work is None:  # without derivative, with no column of work: not counted, and what it gives is constant
            return
        known = watcher.known
        shapes = tuple([np.shape(a.value if a.__class__ is Node else a) for a in operands])
        active = tuple([a.__class__ is Node and a.id in known for a in operands])
        for out in outs:
            known[out.id] = None
        results = tuple([out.value.shape for out in outs])
        by_shape = getattr(row.work, "by_shape", False)
        key = (row, shapes, results, active) if by_shape else object()
        if key in times:
            times[key] += 1
            return
        constants = tuple([None if on else value_of(a) for a, on in zip(operands, active, strict=True)])
        counted[key] = row.work(Performed(shapes, results, active, params, constants))
        times[key] = 1

    watcher = Watcher(keep)
    watcher.known = {x._node.id: None for x in given.leaves}
    with GradientTape(persistent=True, watch_accessed_variables=False) as tape:
        tape.watch(given.leaves)
        run(f, given.args, watcher)
    evaluation, partials, tangent, adjoint = [
        sum((parts[k] * times[key] for key, parts in counted.items()), Work())
        for k in range(4)
    ]
    return Cost(evaluation, partials, tangent, adjoint, len(tape), tape.nbytes)
