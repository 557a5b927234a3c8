"""Families of rows: one formula in, both rules and the other columns out; the row is entered in the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from dualtape.core.absent import absent, closed, noded
from dualtape.core.calls import call_of_list, call_of_many, call_of_one, call_of_two, fresh, stack_now
from dualtape.core.edges import Factor, Joint, Linear, Number, Partial, Ruled
from dualtape.core.standin import Standin
from dualtape.core.table import OPERANDS, OUT, Columns, Edge, Row, Rule, publish, reads
from dualtape.core.tensor import Node, Tensor, operand, tensor
from dualtape.facts import costs, patterns


# ------------------------------------------------------------------ elementwise
def elementwise(
    kernel: Any,
    *partials: Rule | float,
    name: str | None = None,
    functions: Sequence[Any] = (),
    singular: bool = False,
    chooses: bool = False,
    changes_dtype: bool = False,
    nonlinear: int = 1,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter an elementwise operation in the table.

    Args:
        kernel: the NumPy ufunc or function of the operands.
        *partials: for each operand the derivative by it: a number, or a function of ``x``, ``y``, ``out``
            (what it names is what a tape keeps).
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        singular: the partial can be infinite where the value is finite.
        chooses: the partial is 0 where another operand is taken; that zero beats an infinity.
        changes_dtype: the result of a unary operation may have another dtype (``abs`` of complex).
        nonlinear: how many nonlinear evaluations one partial or value counts (see ``costs.py``).
        doc: the docstring; NumPy's summary if None.
        **columns: facts, where the family's default does not hold.

    Returns:
        The operation, a function of Tensors and arrays that returns a Tensor.
    """
    row = elementwise_row(
        name or kernel.__name__, kernel, partials, singular, chooses, nonlinear=nonlinear, **columns
    )
    # A number beside a Tensor changes neither shape nor dtype under Python's operators and NumPy's ufuncs; SciPy's may
    # promote, and so they do half precision.
    ours = not isinstance(kernel, np.ufunc) or getattr(np, kernel.__name__, None) is kernel
    alike = ours and not changes_dtype
    call = call_of_one(row, alike=alike) if len(partials) == 1 else call_of_two(row, alike=alike)
    return publish(row, call, functions, doc)


def elementwise_row(
    name: str,
    kernel: Any,
    partials: Sequence[Rule | float],
    singular: bool,
    chooses: bool,
    nonlinear: int = 1,
    **columns: Unpack[Columns],
) -> Row:
    """The row of an elementwise operation."""
    count = len(partials)
    if count not in (1, 2):
        raise ValueError(f"{name}: an elementwise row has one or two partials, got {count}")
    edges = [edge_of(name, p, count, singular, chooses) for p in partials]
    facts: Columns = {"work": costs.elementwise(count, nonlinear=nonlinear), "pattern": patterns.elementwise}
    return Row(name, kernel, edges, kind="elementwise", **(facts | columns))


def edge_of(name: str, partial: Rule | float, operands: int, singular: bool, chooses: bool) -> Edge:
    """The edge of an operand by its partial."""
    if not callable(partial):
        return Number(partial)
    places = {n: k for k, n in enumerate(OPERANDS[:operands])} | {"out": OUT}
    try:
        picks = [places[n] for n in reads(partial)]
    except KeyError as error:
        raise ValueError(f"{name}: a partial may read {', '.join(places)}, not {error}") from None
    return Partial(partial, picks[0] if len(picks) == 1 else tuple(picks), singular, chooses)


# ------------------------------------------------------------------ linear, and linear in each of two
def linear(
    kernel: Any,
    transpose: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    selects: bool = False,
    places: bool = False,
    internal: bool = False,
    doc: str | None = None,
    **columns: Unpack[Columns],
) -> Any:
    """Enter a linear operation of one array operand; axes and shapes are keywords.

    Args:
        kernel: ``kernel(x, **params)`` on plain arrays.
        transpose: ``transpose(g, shape, **params)``, of operations that have rows themselves.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        places: it puts zeros, so zeros in its tangent mean "not there".
        internal: an adjoint helper: plain arrays in, plain arrays out, so that rules stay plain NumPy.
        name, functions, doc, **columns: as for ``elementwise``.

    Returns:
        The operation.
    """
    facts: Columns = {"work": costs.moves}
    row = Row(name or kernel.__name__, kernel, [Linear(transpose, selects, places)], kind="linear", **(facts | columns))
    return publish(row, call_of_one(row, internal=internal), functions, doc)


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
        name, functions, doc, **columns: as for ``elementwise``.

    Returns:
        The operation.
    """
    facts: Columns = {"work": costs.bilinear(costs.contraction)}
    edges = Factor(transpose_x, 1), Factor(transpose_y, 0)
    row = Row(name or kernel.__name__, kernel, edges, kind="bilinear", **(facts | columns))
    return publish(row, call_of_two(row), functions, doc)


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
        name, functions, doc, **columns: as for ``elementwise``.

    Returns:
        The operation, a function of a list.
    """
    facts: Columns = {"work": costs.moves}
    row = Joint(name, kernel, kind="joint", **(facts | columns))
    row.split = split
    return publish(row, call_of_list(row), functions, doc)


# ------------------------------------------------------------------ anything else
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
        outputs: the number of results.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        name, functions, doc, **columns: as for ``elementwise``.

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
        outputs: the number of results.
        name, functions, doc, **columns: as for ``elementwise``.

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
            stack = stack_now()
            known = isinstance(result, Standin) and result.dtype.kind not in "fc" and any([r.for_facts for r in stack])
            out = tensor(result) if known else fresh(result)  # (as those around it know it, who follow masks)
            if stack:
                absent(row, operands, (out._node,), params, told)
            return out
        outs = tuple([fresh(v) for v in result])
        absent(row, operands, [out._node for out in outs], params, told)
        return outs

    return publish(row, call, functions, doc)
