"""What a function does with arguments of one kind: its graph, found by running it on Symbols, and the program of it."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import Recorder
from dualtape.core.standin import OPEN, Refused, Standin
from dualtape.core.tensor import Node, Operand, Tensor, new_id, tensor
from dualtape.modes.structure import flatten
from dualtape.modes.variable import Variable
from dualtape.tracing.emit import UNKNOWN, Program
from dualtape.tracing.graph import Graph, Guard, Like, Output, Place, blocks, described
from dualtape.tracing.outside import Look, draws, place_of_node
from dualtape.tracing.passes import improved
from dualtape.tracing.symbol import Diverged, Draws, Symbol, Tracer, is_users
from dualtape.transforms.arguments import result

# How many ways of one function are kept, for arguments of one kind.
MOST_WAYS = 16


Outcome = tuple[Output, list[Any], list[Any]]


class Around(Recorder):
    """What is around a function while it is traced: Variables and Tensors that it takes from outside have Symbols for
    their values, as soon as it is known that they are taken."""

    listens = True
    __slots__ = ("age", "before", "found", "start", "trace", "tracer", "values")

    def __init__(self, trace: Trace, tracer: Tracer, known: Sequence[Any] = ()) -> None:
        super().__init__(None)
        self.trace, self.tracer = trace, tracer
        self.before: dict[int, tuple[Variable, Node]] = {}
        self.start: dict[int, Symbol] = {}
        # What is younger is not from outside.
        self.age = new_id()
        self.values = [(x, x.value) for x in trace.outside if x.__class__ is Node]
        for node, value in self.values:
            k = trace.place_of(node)
            value = known[k - trace.count] if k - trace.count < len(known) else plain(value)
            node.value = Symbol(tracer, Place(-1 - k), value)
        # Tensors from outside that were not known before.
        self.found: dict[int, Node] = {}

    def tracks(self, node: Any) -> bool:
        return False

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Any) -> None:
        self.hear(operands)

    def cut(self, row: Any, operands: Any, outs: Any) -> None:
        self.hear(operands)

    def hear(self, operands: Sequence[Any]) -> None:
        for a in operands:
            if a.__class__ is Node and a.id < self.age and id(a) not in self.trace.places:
                if is_outside(a, self.tracer):
                    self.found[a.id] = a

    def access(self, variable: Any) -> None:
        if id(variable) in self.before:
            return
        node = variable._node
        self.before[id(variable)] = variable, node
        symbol = Symbol(self.tracer, Place(-1 - self.trace.place_of(variable)), plain(node.value))
        self.start[id(variable)] = symbol
        variable._node = Node(symbol, node.id)

    def restore(self) -> dict[int, Any]:
        """Give all from outside its own value back; what Variables were assigned, by their place among the inputs."""
        for node, value in self.values:
            node.value = value
        assigned = {}
        for i, (variable, node) in self.before.items():
            value = variable._node.value
            if value is not self.start[i]:
                assigned[self.trace.place_of(variable)] = value
            variable._node = node
        return assigned


class Trace:
    """A graph and its program; ``names`` and ``likes`` are those of the inputs, ``cause`` says why it was made."""

    def __init__(self, name: str, names: Sequence[str], likes: Sequence[Like], cause: str, f: Any = None) -> None:
        self.name, self.names, self.likes, self.cause, self.f = name, list(names), list(likes), cause, f
        self.count = len(likes)
        self.graph = Graph()
        # What is taken from outside: Variables, and nodes of Tensors.
        self.outside: list[Any] = []
        self.places: dict[int, int] = {}
        self.outputs: list[Output] = []
        # Of Tensors that go by a name outside: how to look them up, since the name may stand for another one later.
        self.looks: dict[int, Look] = {}
        self.program: Program | None = None
        self.run: Callable[..., Any] = unknown

    def place_of(self, x: Any) -> int:
        """The place among the inputs of what is taken from outside, a new one if it was not met before."""
        k = self.places.get(id(x))
        if k is None:
            k = self.places[id(x)] = self.count + len(self.outside)
            self.outside.append(x)
        return k

    @property
    def full(self) -> bool:
        """Whether no more ways are kept."""
        return len(self.outputs) >= MOST_WAYS

    def follow(self, call: Callable[[list[Any]], Any], values: Sequence[Any]) -> Outcome:
        """Run the function itself on Symbols, noting what is new.

        Returns:
            The output, its leaves, and the new values of the inputs that were assigned.
        """
        before = draws(self.f)
        while True:
            outcome, found = self.followed(call, values)
            if outcome is not None:
                drawn = [name for name, state in draws(self.f).items() if before.get(name) != state]
                if drawn:
                    warnings.warn(
                        f"{self.name} draws from {' and '.join(drawn)} while it is traced: its program has these "
                        "numbers for good. Pass a np.random.Generator as an argument, and draw from that",
                        stacklevel=6,
                    )
                return outcome
            # Once more, with what it takes from outside among the inputs.
            for node in found.values():
                k = self.place_of(node) - self.count
                if (look := place_of_node(self.f, node)) is not None:
                    self.looks[k] = look
            self.graph, self.outputs = Graph(), []

    def followed(
        self, call: Callable[[list[Any]], Any], values: Sequence[Any]
    ) -> tuple[Outcome | None, dict[int, Node]]:
        """The same once, and the Tensors from outside that were found to be taken."""
        tracer = Tracer(self.graph)
        around = Around(self, tracer, values[self.count :])
        given = [standing(tracer, Place(-1 - k), value) for k, value in enumerate(values[: self.count])]
        OPEN[0] += 1
        try:
            with recorders.under((around,)):
                leaves, rebuild = flatten(call(given))
                found = list(map(settled, leaves))
                changed = {k: x._node.value for k, x in enumerate(given) if x.__class__ is not Draws}
                changed = {k: v for k, v in changed.items() if v.__class__ is not Symbol or v.place != Place(-1 - k)}
                assigned = changed | around.restore()
        except Refused as error:
            frames = [f for f, _ in traceback.walk_tb(error.__traceback__) if is_users(f)]
            if frames and not getattr(error, "__notes__", ()):
                place = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}"
                error.add_note(f"in the traced function {self.name}, {place}")
            raise
        finally:
            OPEN[0] -= 1
            around.live = False
            around.restore()
            tracer.open = False
        if around.found:
            return None, around.found
        if not tracer.broken and (tracer.position < len(tracer.block.steps) or tracer.block.end is not None):
            raise Diverged
        output = Output(
            len(self.outputs), [placed(x) for x in found], rebuild, {k: placed(v) for k, v in assigned.items()}
        )
        if not tracer.broken:
            tracer.block.end = output
            self.outputs.append(output)
            self.emit()
        return (output, list(map(own, found)), list(map(own, assigned.values()))), {}

    def emit(self) -> None:
        """Make the program of the graph as it is now."""
        names = [*self.names, *[f"outside_{k}" for k in range(len(self.outside))]]
        likes = [*self.likes, *[described(x.value if x.__class__ is Node else x) for x in self.outside]]
        self.program = Program(self.name, names, likes, improved(self.graph.root, likes))
        self.run = self.program.compiled()

    def outcome(self, out: Any) -> Outcome:
        """What a run of the program returned, taken apart."""
        assert self.program is not None
        if self.program.single:
            return self.outputs[0], [out], []
        output = self.outputs[out[0]]
        n = 1 + len(output.leaves)
        return output, list(out[1:n]), list(out[n:])

    def refresh(self) -> bool | None:
        """Take the Tensors that names from outside stand for now; whether some changed, None if so did their kinds."""
        changed = False
        for k, look in self.looks.items():
            x, node = look(), self.outside[k]
            if x.__class__ is not Tensor:
                return None
            new = x._node
            if new is not node:
                if described(new.value) != described(node.value):
                    return None
                self.outside[k], changed = new, True
                del self.places[id(node)]
                self.places[id(new)] = self.count + k
        return changed

    def guards(self) -> Iterator[Guard]:
        """The questions that were asked."""
        for block in blocks(self.graph.root):
            if isinstance(block.end, Guard):
                yield block.end

    @property
    def draws(self) -> bool:
        """Whether a random generator is among the arguments."""
        return any([like.dtype is None for like in self.likes])


def is_outside(node: Node, tracer: Tracer) -> bool:
    """Whether a node is of a Tensor that carries derivatives, and not of this run."""
    value = node.value
    if isinstance(value, Standin) and (value.__class__ is not Symbol or value.tracer is tracer):
        return False
    return value.dtype.kind in "fc"


def unknown(*values: Any) -> Any:
    """The program of an empty graph."""
    return UNKNOWN


def standing(tracer: Tracer, place: Place, value: Any) -> Any:
    """What a function is handed for an input."""
    if isinstance(value, np.random.Generator):
        return Draws(tracer, place, value)
    return tensor(Symbol(tracer, place, value))


def settled(leaf: Any) -> Any:
    """A result of a function: a Symbol or an array; what is no array stays as it is."""
    if not isinstance(leaf, (Operand, np.ndarray, Standin, np.generic)):
        return leaf
    x = result(leaf)._node.value
    if isinstance(x, Standin) and x.__class__ is not Symbol:
        raise TypeError("a traced function returns a value of a batch that ended in it")
    return x


def plain(x: Any) -> Any:
    """The value of this run."""
    return x.value if x.__class__ is Symbol else x


def own(x: Any) -> Any:
    """The same in memory of its own."""
    x = plain(x)
    return x.copy() if x.__class__ is np.ndarray else x


def placed(x: Any) -> Any:
    """What an output has for a leaf."""
    return x.place if x.__class__ is Symbol else x
