"""Families of rows: one formula in, both rules and the other columns out. (``elementwise`` has a file of its own.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from dualtape.core import costs
from dualtape.core.calls import (
    absent,
    call_of_list,
    call_of_many,
    call_of_one,
    call_of_two,
    closed,
    fresh,
    noded,
    stack_now,
)
from dualtape.core.cotangents import cast_back
from dualtape.core.elementwise import elementwise as elementwise
from dualtape.core.table import OPERANDS, OUT, PARAMS, Columns, Edge, Row, Rule, publish, reads
from dualtape.core.tensor import Node, Tensor, opened, operand


# ------------------------------------------------------------------ linear
class Linear(Edge):
    """The operand of a linear operation: its own forward rule; the reverse rule is its transpose.

    ``transpose(g, shape, **params)`` maps a cotangent back to an operand of that shape.
    """

    __slots__ = ("selects", "transpose")

    def __init__(self, transpose: Rule, selects: bool = False) -> None:
        super().__init__(PARAMS)
        self.transpose = transpose
        self.selects = selects

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, (shape, dtype), params = entry
        if self.selects:
            cotangents.masked = True
        c = self.transpose(g, shape, **params)
        if c.dtype is not dtype:
            c = cast_back(c, dtype)
        if i in cotangents:
            cotangents.add(i, c)
        else:
            cotangents[i] = c

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        row = self.row
        return (row.call if t.__class__ is Tensor else row.kernel)(t, **kept)


def linear(
    kernel: Any,
    transpose: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    selects: bool = False,
    internal: bool = False,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter a linear operation of one array operand; axes and shapes are keywords.

    Args:
        kernel: ``kernel(x, **params)`` on plain arrays.
        transpose: ``transpose(g, shape, **params)``, of operations that have rows themselves.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        internal: an adjoint helper: plain arrays in, plain arrays out, so that rules stay plain NumPy.
        doc: the docstring.
        **columns: facts, where the family's default does not hold.

    Returns:
        The operation.
    """
    facts: Columns = {"work": costs.moves}
    row = Row(name or kernel.__name__, kernel, [Linear(transpose, selects)], kind="linear", **(facts | columns))
    return publish(row, call_of_one(row, internal=internal), functions, doc)


# ------------------------------------------------------------------ bilinear
class Factor(Edge):
    """One of two operands of an operation that is linear in each; the other one comes conjugated.

    ``transpose(g, other, shape, **params)`` is linear in the first two.
    """

    __slots__ = ("transpose",)

    def __init__(self, transpose: Rule, other: int) -> None:
        super().__init__((other, PARAMS))
        self.transpose = transpose

    def back(self, g: Any, like: Any, kept: Any) -> Any:
        other, params = kept
        return self.transpose(g, other.conjugate(), like[0], **params)

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        other, params = opened(kept, raw)
        x, y = (other, t) if self.position else (t, other)
        row = self.row
        return (row.call if x.__class__ is Tensor or y.__class__ is Tensor else row.kernel)(x, y, **params)


def bilinear(
    kernel: Any,
    transpose_x: Rule,
    transpose_y: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter a bilinear operation.

    Args:
        kernel: ``kernel(x, y, **params)`` on plain arrays.
        transpose_x: ``(g, y, shape_of_x, **params)``, linear in g and y.
        transpose_y: ``(g, x, shape_of_y, **params)``.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        doc: the docstring.
        **columns: facts, where the family's default (the cost of a contraction) does not hold.

    Returns:
        The operation.
    """
    facts: Columns = {"work": costs.bilinear(costs.contraction)}
    edges = Factor(transpose_x, 1), Factor(transpose_y, 0)
    row = Row(name or kernel.__name__, kernel, edges, kind="bilinear", **(facts | columns))
    return publish(row, call_of_two(row), functions, doc)


# ------------------------------------------------------------------ rules for all operands at once
class Share(Edge):
    """An operand of a row whose rules are for all operands at once. It keeps its place, and what they keep together."""

    __slots__ = ()

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        raise AssertionError("the row has the rule")


SHARE = Share()


class Together(Row):
    """A row whose rules are for all operands at once: its entry is the row and a share for each operand followed."""

    __slots__ = ()

    def shared(self, operands: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
        """What the rules read, for all operands."""
        raise NotImplementedError

    def nodes(self, operands: Sequence[Any]) -> list[Node]:
        return [x for x in operands if x.__class__ is Node]

    def parts(self, operands: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
        shared = self.shared(operands, out, params)
        return [
            (SHARE, x.id, (x.value.shape, x.value.dtype), (k, shared))
            for k, x in enumerate(operands)
            if x.__class__ is Node
        ]

    def whole(self, parts: list[Any]) -> Any:
        return (self, *parts) if parts else None

    def kept(self, entry: Any) -> Any:
        yield from SHARE.kept(entry[1])


class Joint(Together):
    """A linear operation of a list of operands: concatenate, stack.

    ``split(g, shapes, **params)`` gives the cotangents of all operands.
    """

    __slots__ = ("split",)

    split: Rule

    def shared(self, operands: Sequence[Any], out: Any, params: dict[str, Any]) -> Any:
        values = [a.value if a.__class__ is Node else a for a in operands]
        return tuple([v.shape for v in values]), tuple([v.dtype for v in values]), params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        shapes, dtypes, params = entry[1][3][1]
        cs = tuple(self.split(g, shapes, **params))
        for _, i, _, (k, _) in entry[1:]:
            c = cs[k]
            if c.dtype is not dtypes[k]:
                c = cast_back(c, dtypes[k])
            if i in cotangents:
                cotangents.add(i, c)
            else:
                cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        shapes, dtypes, params = entry[1][3][1]
        given = {part[3][0]: t for part, t in zip(entry[1:], tangents, strict=True)}
        filled = [
            np.zeros(shape, dtype) if (t := given.get(k)) is None else t
            for k, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        return (self.call if any([t.__class__ is Tensor for t in filled]) else self.kernel)(filled, **params)


def joint(
    kernel: Any,
    split: Rule,
    *,
    name: str,
    functions: Sequence[Any] = (),
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter a linear operation of a list of operands.

    Args:
        kernel: ``kernel(list_of_arrays, **params)``.
        split: ``split(g, shapes, **params)``, the cotangents of the operands, one after the other.
        name: the row's name.
        functions: other names and functions that this row answers for.
        doc: the docstring.
        **columns: facts, where the family's default does not hold.

    Returns:
        The operation, a function of a list.
    """
    facts: Columns = {"work": costs.moves}
    row = Joint(name, kernel, kind="joint", **(facts | columns))
    row.split = split
    return publish(row, call_of_list(row), functions, doc)


# ------------------------------------------------------------------ anything else
class Ruled(Edge):
    """An operand with both rules written out: a forward rule ``jvp(t, ...)``, a reverse rule ``vjp(g, ...)``.

    What follows in the signature is what the rule reads: ``x``, ``y``, ``z`` operands; ``out`` the result (a
    tuple, if several); ``shape`` and ``dtype`` of the operand, ``out_shape`` and ``out_dtype`` of the (first) result,
    ``results`` of them all; or a keyword by its name. Of several results, ``g`` is a tuple with None for those without
    a cotangent, and ``jvp`` returns a tuple. Names are turned into positions in what an entry keeps.
    """

    __slots__ = ("facts", "jvp", "jvp_reads", "selects", "vjp", "vjp_reads")

    def __init__(
        self, jvp: Rule, jvp_reads: Sequence[str], vjp: Rule, vjp_reads: Sequence[str], selects: bool = False
    ) -> None:
        names = list(dict.fromkeys((*jvp_reads, *vjp_reads)))
        kept = [n for n in names if n not in OF_OPERAND]
        super().__init__(tuple([OPERANDS.index(n) if n in OPERANDS else OUT if n == "out" else n for n in kept]))
        # Whether it keeps facts about the results, which are no keywords.
        self.facts = not OF_RESULTS.keys().isdisjoint(kept)
        places = {n: k for k, n in enumerate(kept)} | OF_OPERAND
        self.jvp, self.jvp_reads = jvp, [places[n] for n in jvp_reads]
        self.vjp, self.vjp_reads = vjp, [places[n] for n in vjp_reads]
        self.selects = selects

    def keep(self, nodes: Any, params: dict[str, Any]) -> Any:
        if self.facts:
            outs = nodes[OUT] if nodes[OUT].__class__ is tuple else nodes[OUT:]
            params = params | {name: fact([out.value for out in outs]) for name, fact in OF_RESULTS.items()}
        return super().keep(nodes, params)

    def read(self, places: list[int], like: Any, kept: Any, raw: bool) -> list[Any]:
        """The values that a rule names."""
        return [opened(kept[k], raw) if k >= 0 else like[k] for k in places]

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if self.selects:
            cotangents.masked = True
        if g.__class__ is list:
            g = tuple(g)
        cotangents.add(i, cast_back(self.vjp(g, *self.read(self.vjp_reads, like, kept, raw)), like[1]))

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        return self.jvp(t, *self.read(self.jvp_reads, like, kept, raw))


# Names in rules that are read from shapes and dtypes: places from the end of an operand's likeness, and of all results.
OF_OPERAND = {"shape": -2, "dtype": -1}
OF_RESULTS: dict[str, Rule] = {
    "out_shape": lambda values: values[0].shape,
    "out_dtype": lambda values: values[0].dtype,
    "results": lambda values: tuple([(v.shape, v.dtype) for v in values]),
}


def general(
    kernel: Any,
    *,
    jvp: Rule | Sequence[Rule | None],
    vjp: Rule | Sequence[Rule | None],
    name: str | None = None,
    functions: Sequence[Any] = (),
    outputs: int = 1,
    selects: bool = False,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter an operation with both rules written out (see ``Ruled`` for their form).

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays; a tuple of arrays if there are several results.
        jvp: the forward rule, or one for each operand; None for an operand without derivative.
        vjp: the reverse rule, or one for each operand.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        doc: the docstring.
        **columns: facts, where the family's default does not hold.

    Returns:
        The operation.
    """
    label = name or kernel.__name__
    row = Row(label, kernel, ruled(label, jvp, vjp, selects), kind="general", outputs=outputs, **(COMPOSITE | columns))
    return publish(row, general_call(row), functions, doc)


COMPOSITE: Columns = {
    "work": costs.composite(costs.Work(nonlinear=2), costs.Work(nonlinear=2), costs.Work(mults=1)),
}


def general_call(row: Row) -> Any:
    """The shortest way for a row's number of operands and results."""
    if row.outputs == 1 and all(row.edges):
        return {1: call_of_one, 2: call_of_two}.get(len(row.edges), call_of_many)(row)
    return call_of_many(row)


def ruled(name: str, jvp: Any, vjp: Any, selects: bool = False) -> list[Any]:
    """The edges of pairs of rules; each operand needs both, or neither."""
    jvps, vjps = ([rule] if callable(rule) else list(rule) for rule in (jvp, vjp))
    if len(jvps) != len(vjps) or any((a is None) != (b is None) for a, b in zip(jvps, vjps, strict=True)):
        raise ValueError(f"{name}: {len(jvps)} forward and {len(vjps)} reverse rules; each operand needs both")
    return [
        None if j is None else Ruled(j, reads(j)[1:], v, reads(v)[1:], selects) for j, v in zip(jvps, vjps, strict=True)
    ]


# ------------------------------------------------------------------ no derivative
def nondifferentiable(
    kernel: Any,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    outputs: int = 1,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter an operation whose results carry no derivative: None in both modes, and ``tape.why`` says so.

    Rounding, casts to integer, comparisons, argmax.

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        doc: the docstring.
        **columns: facts.

    Returns:
        The operation.
    """
    row = Row(name or kernel.__name__, kernel, kind="absent", outputs=outputs, **columns)

    def call(*args: Any, **params: Any) -> Any:
        operands = [a._node if a.__class__ is Tensor else a for a in map(operand, args)]
        told = {name: noded(a) for name, a in params.items()} if params else params
        params = {name: closed(a) for name, a in params.items()} if params else params
        result = row.kernel(*[a.value if a.__class__ is Node else a for a in operands], **params)
        if outputs == 1:
            out = fresh(result)
            if stack_now():
                absent(row, operands, (out._node,), params, told)
            return out
        outs = tuple([fresh(v) for v in result])
        absent(row, operands, [out._node for out in outs], params, told)
        return outs

    return publish(row, call, functions, doc)
