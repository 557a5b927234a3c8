"""A graph as a program: straight lines of NumPy in a Python function, with an ``if`` where its way divides."""

from __future__ import annotations

import operator
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.tracing.buffers import reused
from dualtape.tracing.graph import Block, Guard, Like, Output, Place, Step, blocks, described
from dualtape.tracing.passes import frozen, scattered, uses_in
from dualtape.tracing.symbol import method

OPERATORS = {
    np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.matmul: "@", np.floor_divide: "//",
    np.remainder: "%", np.less: "<", np.less_equal: "<=", np.greater: ">", np.greater_equal: ">=", np.equal: "==",
    np.not_equal: "!=", np.bitwise_and: "&", np.bitwise_or: "|",
}  # fmt: skip
CONSTANTS = (float, int, bool, str, type(None), type(Ellipsis))
INDENT = "    "


class Unknown:
    """What a program returns where it met an answer that it does not know."""


UNKNOWN = Unknown()


class Program:
    """The source of a graph, and what its names stand for."""

    def __init__(self, name: str, inputs: Sequence[str], likes: Sequence[Like], root: Block) -> None:
        self.name, self.inputs, self.likes = name, list(inputs), list(likes)
        # Whether one array is all that comes out, whichever way it goes.
        ends = [block.end for block in blocks(root) if block.end.__class__ is Output]
        self.single = all([len(end.leaves) == 1 and end.rebuild is next and not end.assigned for end in ends])
        # Names of functions and constants, in the order of their first use.
        self.names: dict[str, Any] = {}
        self.known: dict[Any, str] = {}
        self.uses = uses_in(root)
        self.reused = reused(root, self.uses)
        self.opaque: dict[str, Any] = {}
        self.variables: dict[int, str] = {-1 - k: n for k, n in enumerate(self.inputs)}
        self.steps: dict[int, Step] = {}
        self.counts = Counter[str]()
        self.lines: list[str] = []
        self.block(root, 1)

    # ---- statements
    def block(self, block: Block | None, depth: int) -> None:
        """The statements of a block and of what follows it."""
        while block is not None:
            block = self.one_block(block, depth)

    def one_block(self, block: Block, depth: int) -> Block | None:
        """The statements of a block, and the block that goes on at the same depth."""
        errors = None
        for step in block.steps:
            if self.uses[step.number]:
                if step.errors != errors:
                    errors = step.errors
                    if errors is not None:
                        now = dict(np.geterr())
                        named = ", ".join([f"{k}={v!r}" for k, v in errors.items() if now[k] != v])
                        self.lines.append(f"{INDENT * depth}with {self.function(np.errstate)}({named}):")
                indent = INDENT * (depth + (errors is not None))
                name = self.variables[step.number] = self.free("t")
                self.steps[step.number] = step
                if step.function is scattered:
                    self.lines += [indent + line for line in self.scatter(name, *step.args)]
                else:
                    self.lines.append(f"{indent}{name} = {self.call(step)}")
        indent = INDENT * depth
        end = block.end
        if isinstance(end, Guard):
            return self.guard(end, depth)
        self.lines.append(f"{indent}return {'UNKNOWN' if end is None else self.outputs(end)}")
        return None

    def scatter(self, name: str, shape: Any, dtype: Any, parts: Any) -> list[str]:
        """Zeros, and what is added into them."""
        kind = "" if dtype == np.float64 else f", {self.argument(dtype)}"
        lines = [f"{name} = {self.function(np.zeros)}({self.argument(shape)}{kind})"]
        for k, (value, index, basic) in enumerate(parts):
            if basic:
                lines.append(f"{name}[{self.index(index)}] {'+=' if k else '='} {self.argument(value)}")
            else:
                lines.append(f"{self.function(np.add.at)}({name}, {self.argument(index)}, {self.argument(value)})")
        return lines

    def guard(self, guard: Guard, depth: int) -> Block | None:
        """A question and what follows each answer; if only one is known, what follows is left to go on with."""
        indent = INDENT * depth
        asked = self.question(guard)
        answers = list(guard.branches)
        if len(answers) == 1:
            answer = answers[0]
            if guard.question == "position":
                self.lines.append(f"{indent}if {asked} != {answer}:")
            else:
                self.lines.append(f"{indent}if {'not ' if answer else ''}{asked}:")
            self.lines.append(f"{indent}{INDENT}return UNKNOWN")
            return guard.branches[answer]
        if guard.question != "position":
            self.lines.append(f"{indent}if {asked}:")
            self.block(guard.branches[True], depth + 1)
            self.lines.append(f"{indent}else:")
            self.block(guard.branches[False], depth + 1)
            return None
        for k, answer in enumerate(answers):
            self.lines.append(f"{indent}{'elif' if k else 'if'} {asked} == {answer}:")
            self.block(guard.branches[answer], depth + 1)
        self.lines.append(f"{indent}return UNKNOWN")
        return None

    def question(self, guard: Guard) -> str:
        """A question as an expression."""
        of = self.place(guard.of)
        if guard.question == "full":
            return f"({self.function(np.count_nonzero)}({of}) == {of}.size)"
        if guard.question == "finite":
            return f"{self.function(np.isfinite)}({of}).all()"
        return {"truth": of, "position": of, "some": f"{of}.any()", "every": f"{of}.all()"}[guard.question]

    def outputs(self, end: Output) -> str:
        """Results and new values, as one tuple."""
        items, seen = [], set()
        for leaf in (*end.leaves, *end.assigned.values()):
            text = self.argument(leaf)
            if leaf.__class__ is Place:
                step = self.steps.get(leaf.step)
                like: Any = self.likes[-1 - leaf.step] if step is None else step.results
                like = like if leaf.item is None else like[leaf.item]
                if like.shape and (step is None or not step.fresh or leaf in seen):
                    text += ".copy()"  # what is given out shares no memory
                seen.add(leaf)
            elif isinstance(leaf, np.ndarray):
                text += ".copy()"
            items.append(text)
        return items[0] if self.single else ", ".join([str(end.number), *items]) + "," * (not items)

    # ---- expressions
    def call(self, step: Step) -> str:
        """A step as an expression."""
        function, args, kwargs = step.function, step.args, step.kwargs
        if step.number in self.reused:
            into = self.place(self.reused[step.number])
            return f"{self.function(function)}({self.arguments(args, kwargs)}, out={into})"
        if function is operator.getitem:
            return f"{self.place(args[0])}[{self.index(args[1])}]"
        if function is getattr:
            return f"{self.place(args[0])}.{args[1]}"
        if function is method:
            return f"{self.argument(args[0])}.{args[1]}({self.arguments(args[2:], kwargs)})"
        if function.__class__ is np.ufunc and not kwargs and len(args) == 2 and function in OPERATORS:
            return f"{self.argument(args[0])} {OPERATORS[function]} {self.argument(args[1])}"
        if function is np.negative and not kwargs:
            return f"-{self.argument(args[0])}"
        return f"{self.function(function, step.row)}({self.arguments(args, kwargs)})"

    def arguments(self, args: Any, kwargs: Any) -> str:
        """Arguments between brackets."""
        named = [f"{k}={self.argument(v)}" for k, v in kwargs.items()]
        return ", ".join([*map(self.argument, args), *named])

    def argument(self, a: Any) -> str:
        """An argument: a name, a literal, or a constant under a name."""
        if a.__class__ is Place:
            return self.place(a)
        if a.__class__ is tuple:
            return f"({', '.join(map(self.argument, a))}{',' * (len(a) == 1)})"
        if a.__class__ is list:
            return f"[{', '.join(map(self.argument, a))}]"
        if a.__class__ is dict:
            return "{" + ", ".join([f"{k!r}: {self.argument(v)}" for k, v in a.items()]) + "}"
        if a.__class__ is slice:
            return f"slice({', '.join(map(self.argument, (a.start, a.stop, a.step)))})"
        if a is Ellipsis:
            return "..."
        if a.__class__ in CONSTANTS and a == a and a not in (float("inf"), -float("inf")):
            return repr(a) if not (a.__class__ in (float, int) and a < 0) else f"({a!r})"
        if isinstance(a, np.dtype) and a.type in np.sctypeDict.values():
            return self.function(a.type)
        return self.function(a) if callable(a) else self.constant(a)

    def index(self, index: Any) -> str:
        """What stands between square brackets."""
        if index.__class__ is tuple and index:
            return ", ".join(map(self.index, index)) + "," * (len(index) == 1)
        if index.__class__ is slice:
            parts = ["" if a is None else self.index(a) for a in (index.start, index.stop, index.step)]
            return ":".join(parts[: 3 if parts[2] else 2])
        return repr(index) if index.__class__ is int else self.argument(index)

    def place(self, place: Place) -> str:
        """The name of a value."""
        name = self.variables[place.step]
        return name if place.item is None else f"{name}[{place.item}]"

    def constant(self, value: Any) -> str:
        """A name for a constant."""
        key = frozen(value)
        if key not in self.known:
            self.known[key] = name = self.free("c")
            self.names[name] = value
        return self.known[key]

    def free(self, letter: str) -> str:
        """A new name, which no input has."""
        while (name := f"{letter}{self.counts[letter]}") in self.inputs:
            self.counts[letter] += 1
        self.counts[letter] += 1
        return name

    def function(self, function: Any, row: Any = None) -> str:
        """A name for a function: NumPy's own, or the kernel of a row."""
        if function in self.known:
            return self.known[function]
        owner = getattr(function, "__self__", None)
        if isinstance(owner, np.ufunc):
            name = f"{self.function(owner)}.{function.__name__}"
            self.known[function] = name
            return name
        wanted = row.name if row is not None else getattr(function, "__name__", "function").strip("<>")
        name, k = wanted if wanted.isidentifier() else "function", 1
        while name in self.names or name in self.inputs:
            k += 1
            name = f"{wanted}_{k}"
        self.known[function] = name
        self.names[name] = function
        if row is not None:
            self.opaque[name] = row
        return name

    # ---- the whole
    def body(self) -> str:
        """The function as source."""
        return f"def {self.name}({', '.join(self.inputs)}):\n" + "\n".join(self.lines) + "\n"

    def listing(self) -> str:
        """The program as a module of its own: what it takes from NumPy and SciPy, its constants, the function."""
        imports: dict[str, list[str]] = {}
        constants: list[str] = []
        for name, value in self.names.items():
            if (home := home_of(value)) is not None:
                own = value.__name__
                imports.setdefault(home, []).append(name if name == own else f"{own} as {name}")
            elif name in self.opaque:
                constants.append(f"{name} = ...  # the kernel of dualtape's row {self.opaque[name].name!r}")
            else:
                constants.append(f"{name} = {written(value)}")
                if isinstance(value, np.ndarray):
                    imports.setdefault("numpy", []).append("array")
        if any(["UNKNOWN" in line for line in self.lines]):
            constants.append("UNKNOWN = None  # what it does here was not traced")
        head = [f"from {home} import {', '.join(sorted(set(found)))}" for home, found in sorted(imports.items())]
        parts = ["\n".join(head), "\n".join(constants), self.body()]
        return "\n\n".join([part for part in parts if part])

    def compiled(self, names: dict[str, Any] | None = None) -> Callable[..., Any]:
        """The function, with its names or others."""
        space: dict[str, Any] = {"UNKNOWN": UNKNOWN, **(self.names if names is None else names)}
        exec(compile(self.body(), f"<{self.name}>", "exec"), space)
        return space[self.name]  # type: ignore[no-any-return]


def home_of(value: Any) -> str | None:
    """The public module that a function or a type is found in under its own name."""
    name = getattr(value, "__name__", None)
    for home in ("numpy", "numpy.linalg", "numpy.fft", "scipy.special"):
        module = sys.modules.get(home)
        if isinstance(name, str) and module is not None and getattr(module, name, None) is value:
            return home
    return None


def written(value: Any) -> str:
    """A constant as source, if it is short."""
    if isinstance(value, np.ndarray):
        return f"array({value.tolist()!r}, {value.dtype.str!r})" if value.size <= 16 else f"...  # {described(value)}"
    return repr(value) if isinstance(value, (complex, float, np.generic)) else f"...  # a {type(value).__name__}"
