"""Families of rows: one formula in, both derivative rules and the other columns out.

Length: the families and the general form are read together; that is what makes it plain that the two modes cannot
drift apart. The elementwise family has a file of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtape.core import costs
from dualtape.batching.level import retried
from dualtape.core.cotangents import cast_back
from dualtape.core.elementwise import elementwise as elementwise
from dualtape.core.recording import (
    OPERANDS,
    Rule,
    fresh,
    name_of,
    ndarray,
    opened,
    publish,
    reads,
    several_call,
    stack_now,
)
from dualtape.core.table import Row
from dualtape.core.tensor import Node, Tensor, operand, wrap


# ------------------------------------------------------------------ linear
class Linear(Row):
    """A linear operation of one operand: its own forward rule; the reverse rule is its transpose.

    ``transpose(g, shape, **params)`` maps a cotangent back to an operand of that shape.
    Entry: row, identity, shape, dtype, params.
    """

    __slots__ = ("selects", "transpose")

    def __init__(self, name: str, kernel: Any, transpose: Rule, selects: bool) -> None:
        super().__init__(name, kernel, kind="linear")
        self.transpose = transpose
        self.selects = selects

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        value = operands[0].value
        return self, ids[0], value.shape, value.dtype, params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, shape, dtype, params = entry
        if self.selects:
            cotangents.masked = True
        c = self.transpose(g, shape, **params)
        if c.dtype is not dtype:
            c = cast_back(c, dtype)
        if i in cotangents:
            cotangents.add(i, c)
        else:
            cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        return self.advance((), (), entry[4], tangents, raw)

    def advance(self, operands: Any, outs: Any, params: Any, tangents: Any, raw: bool) -> Any:
        t = tangents[0]
        if t.__class__ is Tensor:
            return self.call(t, **params)
        try:
            return self.kernel(t, **params)
        except Exception as error:
            return retried(self, self.kernel, (t,), params, error)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return (entry[1],)

    def restrict(self, entry: Any, needed: Any) -> Any:
        return entry

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return tuple(a for a in entry[4].values() if isinstance(a, ndarray))


def linear(
    kernel: Any,
    transpose: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    selects: bool = False,
    internal: bool = False,
    work: Any = costs.moves,
    doc: str | None = None,
) -> Any:
    """Enter a linear operation of one array operand; axes and shapes are keywords.

    Args:
        kernel: ``kernel(x, **params)`` on plain arrays.
        transpose: ``transpose(g, shape, **params)``, of operations that have rows themselves.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        internal: an adjoint helper: plain arrays in, plain arrays out, so that rules stay plain NumPy.
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Linear(name_of(kernel, name), kernel, transpose, selects)
    row.work = work

    def call(x: Any, **params: Any) -> Any:
        if x.__class__ is not Tensor:
            if internal:
                try:
                    return kernel(x, **params)
                except Exception as error:
                    return retried(row, kernel, (x,), params, error)
            x = operand(x)
            if x.__class__ is not Tensor:
                return fresh(kernel(x, **params))
        n = x._node
        value = n.value
        try:
            out = Node(kernel(value, **params))
        except Exception as error:
            out = Node(retried(row, kernel, (value,), params, error))
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                r.see(row, (n,), (out,), params, stack)
            elif n.id in known:
                known[out.id] = (row, n.id, value.shape, value.dtype, params)
        return wrap(out)

    return publish(row, call, functions, doc)


# ------------------------------------------------------------------ bilinear
class Bilinear(Row):
    """An operation linear in each of two operands.

    ``transposes`` are ``(g, y, shape_of_x, **params)`` and ``(g, x, shape_of_y, **params)``; the operand comes
    conjugated. Entry: row, identity of x, y, shape and dtype of x; likewise for y; params.
    """

    __slots__ = ("transposes",)

    def __init__(self, name: str, kernel: Any, transposes: tuple[Rule, Rule]) -> None:
        super().__init__(name, kernel, kind="bilinear")
        self.transposes = transposes

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        i, j = ids
        x, y = operands
        return (
            self,
            i,
            y if i else None,
            (x.value.shape, x.value.dtype) if i else None,
            j,
            x if j else None,
            (y.value.shape, y.value.dtype) if j else None,
            params,
        )

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, y, like_x, j, x, like_y, params = entry
        for id_, other, like, transpose in ((i, y, like_x, self.transposes[0]), (j, x, like_y, self.transposes[1])):
            if id_:
                c = cast_back(transpose(g, opened(other, raw).conjugate(), like[0], **params), like[1])
                if id_ in cotangents:
                    cotangents.add(id_, c)
                else:
                    cotangents[id_] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, i, y, _, j, x, _, params = entry
        s, t = tangents
        if not j:
            return self.product(s, opened(y, raw), params)
        second = self.product(opened(x, raw), t, params)
        return self.product(s, opened(y, raw), params) + second if i else second

    def product(self, x: Any, y: Any, params: Any) -> Any:
        """The operation itself, on arrays or on Tensors."""
        if x.__class__ is Tensor or y.__class__ is Tensor:
            return self.call(x, y, **params)
        return self.kernel(x, y, **params)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1], entry[4]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, i, y, like_x, j, x, like_y, params = entry
        if i not in needed:
            i, y = 0, None
        if j not in needed:
            j, x = 0, None
        return row, i, y, like_x, j, x, like_y, params

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return entry[2], entry[5]


def bilinear(
    kernel: Any,
    transpose_x: Rule,
    transpose_y: Rule,
    *,
    name: str | None = None,
    functions: Sequence[Any] = (),
    work: Any = None,
    doc: str | None = None,
) -> Any:
    """Enter a bilinear operation.

    Args:
        kernel: ``kernel(x, y, **params)`` on plain arrays.
        transpose_x: ``(g, y, shape_of_x, **params)``, linear in g and y.
        transpose_y: ``(g, x, shape_of_y, **params)``.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        work: the cost column; by default that of a contraction.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Bilinear(name_of(kernel, name), kernel, (transpose_x, transpose_y))
    row.work = work or costs.bilinear(costs.contraction)
    return publish(row, several_call(row, kernel), functions, doc)


# ------------------------------------------------------------------ joining many operands
class Joint(Row):
    """A linear operation of a list of operands: concatenate, stack.

    ``parts(g, shapes, **params)`` gives the cotangents of all operands.
    Entry: row, identities, (shapes, dtypes), params.
    """

    __slots__ = ("parts",)

    def __init__(self, name: str, kernel: Any, parts: Rule) -> None:
        super().__init__(name, kernel, kind="joint")
        self.parts = parts

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        values = [a.value if a.__class__ is Node else a for a in operands]
        return self, ids, tuple([v.shape for v in values]), tuple([v.dtype for v in values]), params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, shapes, dtypes, params = entry
        for i, c, dtype in zip(ids, self.parts(g, shapes, **params), dtypes, strict=True):
            if i:
                if c.dtype is not dtype:
                    c = cast_back(c, dtype)
                if i in cotangents:
                    cotangents.add(i, c)
                else:
                    cotangents[i] = c

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, _, shapes, dtypes, params = entry
        filled = [np.zeros(s, d) if t is None else t for t, s, d in zip(tangents, shapes, dtypes, strict=True)]
        if any([t.__class__ is Tensor for t in filled]):
            return self.call(filled, **params)
        try:
            return self.kernel(filled, **params)
        except Exception as error:
            return retried(self, self.kernel, (filled,), params, error)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, ids, *rest = entry
        return (row, tuple([i if i in needed else 0 for i in ids]), *rest)

    def kept(self, entry: Any) -> tuple[Any, ...]:
        return ()


def joint(
    kernel: Any,
    parts: Rule,
    *,
    name: str,
    functions: Sequence[Any] = (),
    work: Any = costs.moves,
    doc: str | None = None,
) -> Any:
    """Enter a linear operation of a list of operands.

    Args:
        kernel: ``kernel(list_of_arrays, **params)``.
        parts: ``parts(g, shapes, **params)``, the cotangents of the operands, one after the other.
        name: the row's name.
        functions: other names and functions that this row answers for.
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation, a function of a list.
    """
    row = Joint(name, kernel, parts)
    row.work = work

    def call(items: Any, **params: Any) -> Any:
        nodes = tuple([a._node if a.__class__ is Tensor else node_or_array(a) for a in items])
        values = [n.value if n.__class__ is Node else n for n in nodes]
        try:
            value = kernel(values, **params)
        except Exception as error:
            value = retried(row, kernel, (values,), params, error)
        if not any([n.__class__ is Node for n in nodes]):
            return fresh(value)
        out = Node(value)
        stack = stack_now()
        for r in stack:
            known = r.entries
            if known is None:
                r.see(row, nodes, (out,), params, stack)
                continue
            ids = tuple([n.id if n.__class__ is Node and n.id in known else 0 for n in nodes])
            if any(ids):
                known[out.id] = row.entry(ids, nodes, (out,), params)
        return wrap(out)

    return publish(row, call, functions, doc)


def node_or_array(a: Any) -> Any:
    """The node of an operand if it has one, else its array."""
    x = operand(a)
    return x._node if x.__class__ is Tensor else np.asarray(x)


# ------------------------------------------------------------------ anything else
class General(Row):
    """An operation with both rules written out, one function per operand in each.

    A reverse rule is ``vjp(g, ...)``, a forward rule ``jvp(t, ...)``; the forward contributions are summed.
    What follows in the signature is what the rule reads: ``x``, ``y``, ``z`` operands; ``out`` the result (a
    tuple, if several); ``shape`` and ``dtype`` of the operand the rule belongs to, ``out_shape`` and ``out_dtype``
    of the (first) result; or a keyword by its name.
    Of several results, ``g`` is a tuple with None for those without a cotangent, and ``jvp`` returns a tuple.

    Entry: row, identities, identities of all results (if several), kept nodes, (shape, dtype) per operand, params.
    """

    __slots__ = ("jvps", "needs", "reads_result_type", "selects", "vjps")

    def __init__(
        self, name: str, kernel: Any, jvps: Sequence[Rule], vjps: Sequence[Rule], outputs: int, selects: bool
    ) -> None:
        super().__init__(name, kernel, kind="general", outputs=outputs)
        if len(jvps) != len(vjps):
            raise ValueError(f"{name}: {len(jvps)} forward and {len(vjps)} reverse rules; each operand needs both")
        self.jvps = [(rule, reads(rule)[1:]) for rule in jvps]
        self.vjps = [(rule, reads(rule)[1:]) for rule in vjps]
        self.selects = selects
        named = {name for _, names in (*self.jvps, *self.vjps) for name in names}
        self.reads_result_type = not named.isdisjoint(("out_shape", "out_dtype"))
        # For each operand, the slots its two rules read: operands by position, -1 for the result.
        self.needs = [
            {OPERANDS.index(n) if n != "out" else -1 for n in (*fwd[1], *rev[1]) if n in (*OPERANDS, "out")}
            for fwd, rev in zip(self.jvps, self.vjps, strict=True)
        ]

    def entry(self, ids: Any, operands: Any, outs: Any, params: Any) -> Any:
        needed = set().union(*(need for i, need in zip(ids, self.needs, strict=True) if i))
        kept = tuple([a if k in needed else None for k, a in enumerate(operands)])
        kept += (outs if self.outputs > 1 else outs[0],) if -1 in needed else (None,)
        likes = tuple(
            [(a.value.shape, a.value.dtype) if i else None for i, a in zip(ids, operands, strict=True)]
        )
        if self.reads_result_type:
            params = {**params, "out_shape": outs[0].value.shape, "out_dtype": outs[0].value.dtype}
        out_ids = tuple([out.id for out in outs]) if self.outputs > 1 else None
        return self, ids, out_ids, kept, likes, params

    def arguments(self, names: tuple[str, ...], k: int, entry: Any, raw: bool) -> list[Any]:
        """The values a rule of operand ``k`` names."""
        _, _, _, kept, likes, params = entry
        found: list[Any] = []
        for name in names:
            if name in OPERANDS:
                found.append(opened(kept[OPERANDS.index(name)], raw))
            elif name == "out":
                found.append(opened(kept[-1], raw))
            elif name == "shape":
                found.append(likes[k][0])
            elif name == "dtype":
                found.append(likes[k][1])
            else:
                found.append(params[name])
        return found

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, out_ids, _, likes, _ = entry
        if self.selects:
            cotangents.masked = True
        if out_ids is not None:
            g = (g, *(cotangents.pop(i, None) for i in out_ids[1:]))
            if all(c is None for c in g):
                return
        for k, i in enumerate(ids):
            if i:
                rule, names = self.vjps[k]
                c = cast_back(rule(g, *self.arguments(names, k, entry, raw)), likes[k][1])
                cotangents.add(i, c)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        total: Any = None
        for k, t in enumerate(tangents):
            if t is None or not entry[1][k]:
                continue
            rule, names = self.jvps[k]
            part = rule(t, *self.arguments(names, k, entry, raw))
            if total is None:
                total = part
            elif self.outputs > 1:
                total = tuple([a + b for a, b in zip(total, part, strict=True)])
            else:
                total = total + part
        return total

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def restrict(self, entry: Any, needed: Any) -> Any:
        row, ids, *rest = entry
        return (row, tuple([i if i in needed else 0 for i in ids]), *rest)

    def kept(self, entry: Any) -> tuple[Any, ...]:
        kept = entry[3]
        outs = kept[-1] if isinstance(kept[-1], tuple) else (kept[-1],)
        return (*kept[:-1], *outs, *(a for a in entry[5].values() if isinstance(a, ndarray)))


def general(
    kernel: Any,
    *,
    jvp: Rule | Sequence[Rule],
    vjp: Rule | Sequence[Rule],
    name: str | None = None,
    functions: Sequence[Any] = (),
    outputs: int = 1,
    selects: bool = False,
    work: Any = None,
    doc: str | None = None,
) -> Any:
    """Enter an operation with both rules written out (see ``General`` for their form).

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays; a tuple of arrays if there are several results.
        jvp: the forward rule, or one for each operand.
        vjp: the reverse rule, or one for each operand.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        selects: it leaves elements out, so zeros in its cotangent mean "not taken".
        work: the cost column.
        doc: the docstring.

    Returns:
        The operation.
    """
    jvps, vjps = ([rule] if callable(rule) else list(rule) for rule in (jvp, vjp))
    row = General(name_of(kernel, name), kernel, jvps, vjps, outputs, selects)
    row.work = work or costs.composite(costs.Work(nonlinear=2), costs.Work(nonlinear=2), costs.Work(mults=1))
    return publish(row, several_call(row, kernel), functions, doc)


# ------------------------------------------------------------------ no derivative
class Absent(Row):
    """An operation whose results carry no derivative: rounding, casts to integer, comparisons, argmax."""

    __slots__ = ()


def nondifferentiable(
    kernel: Any, *, name: str | None = None, functions: Sequence[Any] = (), outputs: int = 1, doc: str | None = None
) -> Any:
    """Enter an operation whose results carry no derivative: None in both modes, and ``tape.why`` says so.

    Args:
        kernel: ``kernel(*operands, **params)`` on plain arrays.
        name: the row's name; the kernel's if None.
        functions: other names and functions that this row answers for.
        outputs: the number of results.
        doc: the docstring.

    Returns:
        The operation.
    """
    row = Absent(name_of(kernel, name), kernel, kind="absent", outputs=outputs)

    def call(*args: Any, **params: Any) -> Any:
        operands = [operand(a) for a in args]
        nodes = [a._node if a.__class__ is Tensor else a for a in operands]
        values = tuple([n.value if n.__class__ is Node else n for n in nodes])
        try:
            result = kernel(*values, **params)
        except Exception as error:
            result = retried(row, kernel, values, params, error)
        results = result if outputs > 1 else (result,)
        outs = tuple([fresh(v) for v in results])
        for r in stack_now():
            r.cut(row, nodes, [out._node for out in outs])
        return outs if outputs > 1 else outs[0]

    return publish(row, call, functions, doc)
