"""Loops whose body is traced once: scan, fori_loop, map_fn. A loop is one operation, and its derivatives are loops.

Length: the public functions, with their pages, stand beside the one kernel that they are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.standin import Standin
from dualtape.core.tensor import Node, Operand, Tensor, operand, tensor, wrap
from dualtape.modes.accumulator import ForwardAccumulator
from dualtape.modes.constant import constant
from dualtape.modes.structure import flatten
from dualtape.modes.tape import GradientTape
from dualtape.modes.variable import Variable
from dualtape.tracing.emit import UNKNOWN
from dualtape.tracing.graph import described
from dualtape.tracing.outside import draws, tensors_of
from dualtape.tracing.symbol import Again, Diverged, Symbol
from dualtape.tracing.trace import Trace, plain
from dualtape.transforms.arguments import ensure_callable
from dualtape.transforms.calls import connect

__all__ = ["fori_loop", "map_fn", "scan"]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Go along the first axis of arrays with a state: ``carry, y = f(carry, x)`` for each, all ``y`` stacked.

    The body is traced once and runs as a program (see ``function``); the loop is one operation, also in a traced
    function. Its derivatives are such loops: reverse mode keeps the state of each step, forward mode nothing.

    Args:
        f: a function of the state and a slice that returns the next state, of the same structure, shapes and dtypes,
            and a result, an array, a nested structure of arrays, or None. It may read Tensors and Variables from
            outside, by which it is differentiated too, and may not assign Variables.
        init: the state to start with, an array or a nested structure of arrays.
        xs: arrays with a first axis of one length, in any structure; None for nothing but a number of steps.
        length: the number of steps, if ``xs`` is None.
        reverse: whether to go from the last slice to the first; results stay in the order of the slices.

    Returns:
        The last state, and the results stacked along a new first axis, as Tensors.

    Raises:
        TypeError: if the state changes its structure, a shape or a dtype.
        ValueError: if there is no length, or there are several.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> last, sums = dt.scan(lambda total, x: (total + x, total + x), 0.0, np.array([1.0, 2.0, 3.0]))
        >>> last, sums
        (Tensor(6.), Tensor([1., 3., 6.]))
    """
    return scanned(f, init, xs, length, reverse)


def scanned(f: Any, init: Any, xs: Any, length: int | None, reverse: bool, count: Any = None) -> tuple[Any, Any]:
    """``scan``; of the first ``count`` steps, a Tensor of a number that may be another when the loop runs, if given."""
    ensure_callable("scan", f)
    carry, rebuild_carry = flatten(init)
    slices, rebuild_slice = flatten(xs)
    state, columns = [as_tensor(c) for c in carry], [as_tensor(x) for x in slices]
    n = steps_of(columns, length)

    def step(values: Sequence[Any]) -> tuple[list[Any], list[Any], Any, Any]:
        """The body on leaves: next state, results, and how they are put together."""
        found = f(rebuild_carry(iter(values[: len(state)])), rebuild_slice(iter(values[len(state) :])))
        if not (isinstance(found, (tuple, list)) and len(found) == 2):
            raise TypeError(f"scan: the body returns a pair (carry, result), got {type(found).__name__}")
        (after, _), (ys, rebuild) = flatten(found[0]), flatten(found[1])
        after = [as_tensor(a) for a in after]
        ensure_same(state, after)
        return after, [as_tensor(y) for y in ys], rebuild, found[1]

    if n == 0 or any([is_batch(x) for x in (*state, *columns)]):
        last, ys, rebuild = one_by_one(step, state, columns, n, reverse)
    else:
        try:
            last, ys, rebuild = Loop(step, len(state), n, reverse, count, f).of(state, columns)
        except Batched:
            last, ys, rebuild = one_by_one(step, state, columns, n, reverse)
    return rebuild_carry(iter(last)), rebuild(iter(ys))


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """``state = body(k, state)`` for k from ``lower`` to ``upper`` - 1; see ``scan``.

    Args:
        lower, upper: whole numbers.
        body: a function of a number, an integer Tensor of shape (), and the state; returns the next state.
        init: the state to start with.

    Returns:
        The last state, in its structure, of Tensors.

    Example:
        >>> import dualtape as dt
        >>> dt.fori_loop(0, 5, lambda k, x: x * 2.0, 1.0)
        Tensor(32.)
    """
    ensure_callable("fori_loop", body)
    return scan(lambda state, k: (body(k, state), None), init, np.arange(lower, upper))[0]


def map_fn(fn: Callable[[Any], Any], elems: Any) -> Any:
    """``fn`` of each slice along the first axis of arrays, the results stacked; see ``scan`` (and ``vmap``).

    Args:
        fn: a function of a slice, in the structure of ``elems``.
        elems: arrays with a first axis of one length, in any structure.

    Returns:
        The results, stacked along a new first axis, as Tensors.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.map_fn(lambda x: x**2, np.array([1.0, 2.0, 3.0]))
        Tensor([1., 4., 9.])
    """
    ensure_callable("map_fn", fn)
    return scan(lambda nothing, x: (nothing, fn(x)), (), elems)[1]


# ------------------------------------------------------------------ one operation
class Batched(Exception):
    """A body takes a value of a batch from outside: each step is one for all examples."""


class Loop:
    """The kernel of a loop: its body as a program, carried out on arrays.

    It is called with the leaves of the state, of the slices, and what is taken from outside; it returns the last state,
    the results stacked, and the states that the steps began with, if they are to be kept. With a ``count`` behind
    these, it makes so many steps (of n at most), and leaves zeros in the rows of the others.
    """

    __name__ = "loop"

    def __init__(
        self, step: Callable[..., Any], width: int, n: int, reverse: bool, count: Any = None, f: Any = None
    ) -> None:
        self.step, self.width, self.n, self.reverse = step, width, n, reverse
        self.count, self.f = count, f
        self.keeps = False
        self.trace: Any = None
        self.rebuild: Any = None
        self.results = 0
        self.likes: list[Any] = []
        # Tensors from outside, and their nodes, while the body is traced for the first time.
        self.known: list[tuple[Tensor, Node]] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loop) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash(self.facts()[:-1])

    def facts(self) -> tuple[Any, ...]:
        """What two loops have in common that do the same."""
        program = self.trace.program
        constants = {k: id(v) if callable(v) else str(v) for k, v in program.names.items()}
        return self.n, self.reverse, self.keeps, self.count is None, program.body(), constants

    def body(self, given: list[Any]) -> list[Any]:
        """The step on leaves, all results in one list."""
        after, ys, self.rebuild, _ = self.step(given)
        if any([x._node is not node for x, node in self.known]):
            for x, node in self.known:
                x._node = node
            raise TypeError("scan: the body of a loop writes into a Tensor from outside: make it part of the state")
        if any([is_batch(x) for x in (*after, *ys)]):
            raise Batched
        self.results = len(ys)
        self.likes = [described(plain(y._node.value)) for y in ys]
        return [*after, *ys]

    def prepare(self, first: list[Any]) -> None:
        """Trace the body at its first step; from then on it is known what it takes from outside."""
        names = [f"carry_{k}" if k < self.width else f"x_{k - self.width}" for k in range(len(first))]
        self.trace = Trace("body", names, [described(v) for v in first], "a loop")
        before, self.known = draws(self.f), [(x, x._node) for x in tensors_of(self.f)]
        self.trace.follow(self.body, first)
        self.known = []
        drawn = [name for name, state in draws(self.f).items() if before.get(name) != state]
        if drawn:
            raise TypeError(
                f"scan: the body of a loop is traced once, and draws from {' and '.join(drawn)}: draw the numbers of "
                "all steps before the loop, and go along them"
            )
        if any([output.assigned for output in self.trace.outputs]):
            raise TypeError("scan: the body of a loop cannot assign Variables: make them part of the state")

    def __call__(self, *values: Any) -> Any:
        width, trace, n = self.width, self.trace, self.n
        count, steps, blank = trace.count, n, np.empty
        if self.count is not None:
            steps, blank, values = int(values[-1]), np.zeros, values[:-1]
        state, columns, outside = list(values[:width]), values[width:count], values[count:]
        kept = [blank((n, *c.shape), c.dtype) for c in state] if self.keeps else []
        results: list[Any] = []
        run = trace.run
        for i in range(steps - 1, -1, -1) if self.reverse else range(steps):
            for k, array in enumerate(kept):
                array[i] = state[k]
            given = [*state, *[x[i] for x in columns]]
            out = run(*given, *outside)
            if out is UNKNOWN:
                found = self.traced(given, outside)
                run = trace.run
            else:
                found = trace.outcome(out)[1]
            state = found[:width]
            if not results:
                results = [blank((n, *y.shape), y.dtype) for y in found[width:]]
            for array, y in zip(results, found[width:], strict=True):
                array[i] = y
        if not results:
            results = [np.zeros((n, *like.shape), like.dtype) for like in self.likes]
        return (*state, *results, *kept)

    def traced(self, given: list[Any], outside: Any) -> list[Any]:
        """A step that goes another way than those before."""
        known = len(self.trace.outside)
        try:
            _, found, _ = self.trace.follow(self.body, [*given, *outside])
        except Diverged:
            raise TypeError("scan: the body depends on more than its arguments and Tensors from outside") from None
        if len(self.trace.outside) > known:
            raise Again
        return list(found)

    def of(self, state: list[Tensor], columns: list[Tensor]) -> tuple[list[Any], list[Any], Any]:
        """The loop on Tensors: last state, results, and how the results are put together."""
        values = [plain(x._node.value) for x in (*state, *columns)]
        steps = self.n if self.count is None else int(plain(self.count._node.value))
        at = max(steps - 1, 0) if self.reverse else 0
        with np.errstate() if steps else np.errstate(all="ignore"):  # (none of it may run now)
            self.prepare([*values[: self.width], *[x[at] for x in values[self.width :]]])
        outs, nodes, followed, outside = self.carried_out(state, columns)
        if followed:
            outs = self.connected(outs, nodes, followed, outside)
        return outs[: self.width], outs[self.width : self.width + self.results], self.rebuild

    def carried_out(
        self, state: list[Tensor], columns: list[Tensor]
    ) -> tuple[list[Tensor], list[Node], list[int], list[Any]]:
        """What the kernel returns, its operands, which of them somebody follows, and what is from outside."""
        found = None
        while found is None:
            outside = [x if x.__class__ is Variable else wrap(x) for x in self.trace.outside]
            operands = [*state, *columns, *[x._read() for x in outside]]
            if self.count is not None:
                operands.append(self.count)
            nodes = [x._node for x in operands]
            followed = [k for k, n in enumerate(nodes) if n.value.dtype.kind in "fc" and recorders.is_tracked(n)]
            self.keeps = bool(followed)
            for r in recorders.STACK.get():
                r.hear(nodes)  # what a trace around this takes from outside
            arguments = tuple([n.value for n in nodes])
            tracer = next((v.tracer for v in arguments if v.__class__ is Symbol), None)
            try:
                found = self(*arguments) if tracer is None else tracer.step(self, arguments, {})
            except Again:
                pass  # what it takes from outside is known now
        return [tensor(y) for y in found], nodes, followed, outside

    # ---- derivatives: loops of the body's derivatives
    def connected(self, outs: list[Tensor], nodes: list[Node], followed: list[int], outside: list[Any]) -> list[Tensor]:
        """The results, known to the recorders that follow operands by one operation."""
        width, count = self.width, self.trace.count
        saved: list[Tensor] = []

        def every(primals: Sequence[Any]) -> list[Any]:
            found: list[Any] = [wrap(n) for n in nodes]
            for k, x in zip(followed, primals, strict=True):
                found[k] = x
            return found

        inner = [k for k in followed if k < width]
        sliced = [k for k in followed if width <= k < count]
        taken = [outside[k - count] for k in followed if k >= count]
        floats = [k for k in range(width) if nodes[k].value.dtype.kind in "fc"]
        smooth = [k for k in range(width, width + self.results) if outs[k].dtype.kind in "fc"]

        def back(primals: list[Tensor], gs: list[Any], raw: bool) -> list[Any]:
            # Cotangents of the last state, of the results, and of the states kept.
            last, of_results, of_kept = split(gs, len(floats), len(smooth))
            xs = every(primals)[width:count]
            start = [np.zeros(x.shape, x.dtype) for x in taken]

            def pulled(carry: Any, x: Any) -> Any:
                (g, sums), (state, column, g_results, g_kept) = carry, x
                moving = [*[state[k] for k in floats], *[column[k - width] for k in sliced], *taken]
                with GradientTape() as tape:
                    tape.watch(moving)
                    after, ys, *_ = self.step([*state, *column])
                targets = [*[after[k] for k in floats], *[ys[k - width] for k in smooth]]
                seeds = [*g, *g_results]
                found = tape.gradient(targets, moving, output_gradients=seeds, unconnected_gradients="zero")
                g, of_column, more = split(found, len(floats), len(sliced))
                g = [a + b for a, b in zip(g, g_kept, strict=True)]
                return (g, [a + b for a, b in zip(sums, more, strict=True)]), of_column

            (first, sums), of_slices = scanned(
                pulled, (last, start), (list(saved), xs, of_results, of_kept), self.n, not self.reverse, self.count
            )
            return [*[first[floats.index(k)] for k in inner], *of_slices, *sums]

        def forward(primals: list[Tensor], ts: list[Any], raw: bool) -> list[Any]:
            given = every(primals)
            of_state, of_slices, of_outside = split(ts, len(inner), len(sliced))
            moved = dict(zip(inner, of_state, strict=True))
            start = [moved[k] if k in moved else np.zeros(nodes[k].value.shape, nodes[k].value.dtype) for k in floats]

            def pushed(carry: Any, x: Any) -> Any:
                (state, t, t_outside), (column, t_column) = carry, x
                moving = [*[state[k] for k in floats], *[column[k - width] for k in sliced], *taken]
                with ForwardAccumulator(moving, [*t, *t_column, *t_outside]) as accumulator:
                    after, ys, *_ = self.step([*state, *column])
                tangents = [accumulator.jvp(after[k], unconnected_gradients="zero") for k in floats]
                results = [accumulator.jvp(ys[k - width], unconnected_gradients="zero") for k in smooth]
                return (after, tangents, t_outside), (results, t)

            (_, last, _), (results, kept) = scanned(
                pushed,
                (given[:width], start, of_outside),
                (given[width:count], of_slices),
                self.n,
                self.reverse,
                self.count,
            )
            return [*last, *results, *kept]

        carried = [*floats, *smooth, *[width + self.results + k for k in floats]]
        held = [x._node for x in outs[width + self.results :]]
        known = connect("scan", [nodes[k] for k in followed], [outs[k] for k in carried], back, forward, held)
        outs = list(outs)
        for k, y in zip(carried, known, strict=True):
            outs[k] = y
        saved += outs[width + self.results :]
        return outs


def split(values: Sequence[Any], m: int, n: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The first m, the next n, and the rest."""
    return list(values[:m]), list(values[m : m + n]), list(values[m + n :])


# ------------------------------------------------------------------ helpers
def one_by_one(
    step: Callable[..., Any], state: list[Any], columns: list[Any], n: int, reverse: bool
) -> tuple[list[Any], list[Any], Any]:
    """The loop as it stands: for batches, and where there is no step to trace."""
    results: list[Any] = [None] * n
    rebuild: Any = None
    for i in range(n - 1, -1, -1) if reverse else range(n):
        state, results[i], rebuild, _ = step([*state, *[x[i] for x in columns]])
    if n:
        return state, [np.stack(ys) for ys in zip(*results, strict=True)], rebuild
    blank = [tensor(np.zeros(x.shape[1:], x.dtype)[()]) for x in columns]
    _, ys, rebuild, _ = step([*state, *blank])
    return state, [tensor(np.zeros((0, *y.shape), y.dtype)) for y in ys], rebuild


def as_tensor(x: Any) -> Tensor:
    """A leaf as a Tensor."""
    if isinstance(x, Operand):
        return x._read()
    found = operand(x)
    return found if found.__class__ is Tensor else constant(found)


def is_batch(x: Tensor) -> bool:
    """Whether a Tensor is of a stand-in that a loop cannot go through as one step."""
    value = x._node.value
    return isinstance(value, Standin) and value.__class__ is not Symbol


def steps_of(columns: list[Tensor], length: int | None) -> int:
    """The number of steps."""
    if any([not x.shape for x in columns]):
        raise ValueError("scan goes along the first axis of xs, and one of them has no axis")
    lengths = {x.shape[0] for x in columns} | ({length} if length is not None else set())
    if len(lengths) != 1:
        said = "has no xs and no length" if not lengths else f"has several lengths: {sorted(lengths)}"
        raise ValueError(f"scan {said}")
    return int(lengths.pop())


def ensure_same(before: list[Tensor], after: list[Tensor]) -> None:
    """Refuse a state that changes its form."""
    if len(before) != len(after):
        raise TypeError(f"scan: the state has {len(before)} arrays, and {len(after)} after a step")
    for k, (x, y) in enumerate(zip(before, after, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise TypeError(
                f"scan: array {k} of the state has shape {x.shape} and dtype {x.dtype}, and after a step shape "
                f"{y.shape} and dtype {y.dtype}: start with an array like that"
            )
