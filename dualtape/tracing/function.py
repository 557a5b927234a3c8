"""function: a Python function that is traced once for each kind of arguments, and then runs as a program of NumPy calls."""

from __future__ import annotations

import functools
import inspect
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import INSIDE, STACK, Recorder
from dualtape.core.standin import OPEN, Standin
from dualtape.core.tensor import Node, Operand, Tensor, operand, tensor, wrap
from dualtape.modes.accumulator import ForwardAccumulator
from dualtape.modes.structure import flatten, is_leaf
from dualtape.modes.tape import GradientTape
from dualtape.modes.variable import Variable
from dualtape.tracing.emit import UNKNOWN, Program
from dualtape.tracing.graph import Graph, Output, Place, described
from dualtape.tracing.passes import improved
from dualtape.tracing.symbol import Diverged, Symbol, Tracer, method
from dualtape.transforms.arguments import holds_tensor, ndarray_of, result
from dualtape.transforms.calls import connect

__all__ = ["function"]

ndarray = np.ndarray


class Reads(Recorder):
    """Gives Variables a Symbol for their value while a function is traced, and their own back afterwards."""

    def __init__(self, trace: Trace, tracer: Tracer) -> None:
        super().__init__(None)
        self.trace, self.tracer = trace, tracer
        self.before: dict[int, tuple[Variable, Node]] = {}
        self.start: dict[int, Any] = {}

    def tracks(self, node: Any) -> bool:
        return False

    def see(self, *told: Any) -> None:
        """It follows nothing."""

    def access(self, variable: Any) -> None:
        if id(variable) in self.before:
            return
        node = variable._node
        k = self.trace.place_of(variable)
        self.before[id(variable)] = variable, node
        symbol = Symbol(self.tracer, Place(-1 - k), node.value)
        self.start[id(variable)] = symbol
        variable._node = Node(symbol, node.id)

    def restore(self) -> dict[int, Any]:
        """Give the Variables their values back; those that were assigned, by their place among the inputs."""
        assigned = {}
        for i, (variable, node) in self.before.items():
            value = variable._node.value
            if value is not self.start[i]:
                assigned[self.trace.place_of(variable)] = value
            variable._node = node
        return assigned


class Trace:
    """What a function does with arguments of one kind."""

    def __init__(self, owner: Function, likes: list[Any]) -> None:
        self.owner, self.likes, self.count = owner, likes, len(likes)
        self.graph = Graph()
        self.variables: list[Variable] = []
        self.places: dict[int, int] = {}
        self.outputs: list[Output] = []
        self.program: Program | None = None
        self.run: Callable[..., Any] = lambda *values: UNKNOWN

    def place_of(self, variable: Variable) -> int:
        """The place of a Variable among the inputs, a new one if it was not met before."""
        k = self.places.get(id(variable))
        if k is None:
            k = self.places[id(variable)] = self.count + len(self.variables)
            self.variables.append(variable)
        return k

    def follow(self, call: Callable[..., Any], values: list[Any]) -> tuple[Output, list[Any], dict[int, Any]]:
        """Run the function itself on Symbols, noting what is new; what came out, and the new values of Variables."""
        tracer = Tracer(self.graph)
        reads = Reads(self, tracer)
        OPEN[0] += 1
        try:
            with recorders.under((reads,)):
                out = call([tensor(Symbol(tracer, Place(-1 - k), v)) for k, v in enumerate(values)])
                leaves, rebuild = flatten(out)
                found = [given(tracer, leaf) for leaf in leaves]
        finally:
            OPEN[0] -= 1
            reads.live = False
            assigned = reads.restore()
            tracer.open = False
        output = Output(
            len(self.outputs),
            [leaf.place if leaf.__class__ is Symbol else leaf for leaf in found],
            rebuild,
            {k: v.place if v.__class__ is Symbol else v for k, v in assigned.items()},
        )
        if tracer.position < len(tracer.block.steps) or tracer.block.end is not None:
            raise Diverged
        tracer.block.end = output
        self.outputs.append(output)
        self.emit()
        return output, [plain(leaf) for leaf in found], {k: plain(v) for k, v in assigned.items()}

    def emit(self) -> None:
        """Make the program of the graph as it is now."""
        names = [f"x{k}" for k in range(self.count)] + [f"v{k}" for k in range(len(self.variables))]
        likes = [*self.likes, *map(described, self.variables)]
        self.program = Program(self.owner.name, names, improved(self.graph.root, likes))
        self.run = self.program.compiled()


def plain(value: Any) -> Any:
    return value.value if value.__class__ is Symbol else value


def given(tracer: Tracer, leaf: Any) -> Any:
    """A result as a program gives it: memory of its own; what is no array stays as it is."""
    if not isinstance(leaf, (Operand, ndarray, Standin, np.generic)):
        return leaf
    x = result(leaf)._node.value
    if isinstance(x, Standin) and x.__class__ is not Symbol:
        raise TypeError("a traced function returned a value of a batch that ended in it")
    value = plain(x)
    if value.__class__ is ndarray and (x.__class__ is not Symbol or not value.flags.owndata or x.place.step < 0):
        return tracer.step(method, (x, "copy"), {})
    return x


class Function:
    """A function made by ``function``."""

    def __init__(self, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f)
        self.f = f
        name = getattr(f, "__name__", "function")
        self.name = name if name.isidentifier() else "function"
        self.signature = inspect.signature(f)
        self.traces: dict[Any, Trace] = {}
        self.kept: list[Any] = []
        self.trace_count = 0
        self.hot: Any = None

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hot = self.hot
        if hot is not None and not kwargs and len(args) == hot[0] and not (STACK.get() or INSIDE.get()):
            for a, shape, dtype in zip(args, hot[1], hot[2]):
                if a.__class__ is not ndarray or a.shape != shape or a.dtype is not dtype:
                    break
            else:
                out = hot[3].run(*args)
                if out is not UNKNOWN:
                    if hot[3].program.single:
                        return out
                    return hot[3].outputs[out[0]].rebuild(iter(out[1:]))
        return self.call(args, kwargs)

    def call(self, args: Any, kwargs: Any) -> Any:
        """The function on any arguments."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        every = (bound.args, bound.kwargs)
        leaves, rebuild = flatten(every)
        slots = [k for k, leaf in enumerate(leaves) if isinstance(leaf, (ndarray, np.generic, Tensor, Standin))]
        xs = [operand(leaves[k]) for k in slots]
        if any([x.__class__ is Tensor and isinstance(x._node.value, Standin) for x in xs]):
            return self.f(*args, **kwargs)
        outermost = recorders.outermost() and not holds_tensor(every)
        nodes = [x._node if x.__class__ is Tensor else Node(np.asarray(x)[()]) for x in xs]
        values = [n.value for n in nodes]
        others = [None if k in set(slots) else leaf for k, leaf in enumerate(leaves)]
        key = (structure_of(every), tuple([described(v) for v in values]), tuple(map(static, others)))

        def call(tensors: list[Tensor]) -> Any:
            filled = list(others)
            for k, x in zip(slots, tensors, strict=True):
                filled[k] = x
            args, kwargs = rebuild(iter(filled))
            return self.f(*args, **kwargs)

        trace = self.traces.get(key)
        if trace is None:
            trace = self.traces[key] = Trace(self, [described(v) for v in values])
            self.kept.append(others)
            self.trace_count += 1
        reads = [v.value() if recorders.live() else v for v in trace.variables]
        out = trace.run(*values, *[v._value() for v in reads])
        assigned: Any
        if out is UNKNOWN:
            try:
                output, found, assigned = trace.follow(call, values)
            except Diverged:
                trace = self.traces[key] = Trace(self, [described(v) for v in values])
                self.trace_count += 1
                output, found, assigned = trace.follow(call, values)
            reads = [v.value() if recorders.live() else v for v in trace.variables]
            if outermost and not trace.variables and len(slots) == len(leaves) and not kwargs:
                if all([a.__class__ is ndarray for a in args]):
                    self.hot = (len(args), [v.shape for v in values], [v.dtype for v in values], trace)
        elif trace.program.single:
            output, found, assigned = trace.outputs[0], [out], {}
        else:
            output = trace.outputs[out[0]]
            n = len(output.leaves)
            found, assigned = list(out[1 : 1 + n]), dict(zip(output.assigned, out[1 + n :], strict=True))
        live = recorders.live()
        if live:
            operands = [*nodes, *[r._node for r in reads]]
            found = self.connected(trace, call, output, operands, found)
        for k, value in assigned.items():
            trace.variables[k - trace.count].assign(value)
        if not outermost:
            found = [tensor(y) if isinstance(y, (ndarray, np.generic)) else y for y in found]
        return output.rebuild(iter(found))

    def connected(self, trace: Trace, call: Any, output: Output, operands: list[Node], found: list[Any]) -> list[Any]:
        """Results that recorders outside know by one operation."""
        arrays = [k for k, y in enumerate(found) if isinstance(y, (ndarray, np.generic))]
        floating = [k for k, n in enumerate(operands) if n.value.dtype.kind in "fc"]
        followed = [k for k in floating if recorders.is_tracked(operands[k])]
        if not followed:
            return found
        count, variables = trace.count, trace.variables
        inputs = [k for k in followed if k < count]
        read = [variables[k - count] for k in followed if k >= count]
        carried = [k for k in arrays if found[k].dtype.kind in "fc"]

        def outs_of(tensors: Any) -> list[Any]:
            return [flatten(call(tensors))[0][k] for k in carried] if False else pick(flatten(call(tensors))[0], carried)

        def pulled(tensors: list[Any], gs: list[Any]) -> Any:
            with GradientTape() as tape:
                tape.watch([tensors[k] for k in inputs])
                ys = outs_of(tensors)
            sources = [*[tensors[k] for k in inputs], *read]
            return tape.gradient(ys, sources, output_gradients=gs, unconnected_gradients="zero")

        def pushed(tensors: list[Any], ts: list[Any]) -> Any:
            with ForwardAccumulator([*[tensors[k] for k in inputs], *read], ts) as acc:
                ys = outs_of(tensors)
            return [acc.jvp(y, unconnected_gradients="zero") for y in ys]

        key = (output.number, tuple(followed))
        if key not in self.derived:
            self.derived[key] = Function(pulled), Function(pushed)
        pull, push = self.derived[key]

        def primals_of(primals: list[Tensor]) -> list[Any]:
            every: list[Any] = [wrap(n) for n in operands[:count]]
            for k, x in zip(followed, primals, strict=True):
                if k < count:
                    every[k] = x
            return every

        outs = connect(
            self.name,
            [operands[k] for k in followed],
            [tensor(found[k]) for k in arrays],
            lambda primals, gs, raw: pull(primals_of(primals), gs),
            lambda primals, ts, raw: push(primals_of(primals), ts),
        )
        found = list(found)
        for k, y in zip(arrays, outs, strict=True):
            found[k] = y
        return found

    @functools.cached_property
    def derived(self) -> dict[Any, Any]:
        """The functions of derivatives that were needed."""
        return {}

    def source(self) -> str:
        """The programs, as source."""
        return "\n".join([t.program.body() for t in self.traces.values() if t.program])


def pick(leaves: list[Any], places: list[int]) -> list[Any]:
    return [leaves[k] for k in places]


def structure_of(value: Any) -> Any:
    """What is the same for structures of the same form."""
    if value is None or is_leaf(value):
        return value is None
    if isinstance(value, dict):
        return dict, tuple([(k, structure_of(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(structure_of, value))
    return type(value), tuple([(n, structure_of(getattr(value, n))) for n in value.__dataclass_fields__])


def static(leaf: Any) -> Any:
    """What a program depends on of an argument that is no array: type and value, floats by their bits; else identity."""
    if leaf.__class__ is float:
        return float, struct.pack("d", leaf)
    if leaf is None or leaf.__class__ in (int, bool, str, bytes):
        return leaf.__class__, leaf
    if leaf.__class__ is complex:
        return complex, struct.pack("dd", leaf.real, leaf.imag)
    return type(leaf), id(leaf)


def function(f: Callable[..., Any]) -> Function:
    """Trace."""
    return Function(f)
