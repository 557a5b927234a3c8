"""What comes from a user's kernel and rules, checked where it comes back: kinds, shapes, dtypes, and who may write.

Rows of ``dualtape.ops``, which the tests check, do not pay for that.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.edges import OF_OPERAND, OF_RESULTS, Partial, Ruled
from dualtape.core.families import elementwise_row
from dualtape.core.table import OPERANDS, reads
from dualtape.core.tensor import Operand, Tensor, hold, read_only
from dualtape.transforms.handles import lent, taken

# What rules read that is no keyword of the kernel.
RESERVED = (*OPERANDS, "out", *OF_OPERAND, *OF_RESULTS)


# ------------------------------------------------------------------ the kernel
class Parameters:
    """The parameters of a kernel: operands, one for each rule, and keywords."""

    def __init__(self, name: str, kernel: Any, count: int) -> None:
        self.name = name
        self.count = count
        self.labels = [f"operand {k}" for k in range(count)]
        self.signature: inspect.Signature | None = None
        self.keywords: list[str] = []
        self.defaults: dict[str, Any] = {}
        self.rest: str | None = None  # the name of **params
        self.open = True  # to keywords of any name
        try:
            signature = None if isinstance(kernel, np.ufunc) else inspect.signature(kernel)
        except (TypeError, ValueError):  # some functions written in C do not tell
            signature = None
        if signature is None:
            return
        each = list(signature.parameters.values())
        self.open = any([p.kind is p.VAR_KEYWORD for p in each])
        if any([p.kind is p.VAR_POSITIONAL for p in each]):
            self.keywords = [p.name for p in each if p.kind is p.KEYWORD_ONLY]
            self.defaults = {p.name: p.default for p in each if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
            return
        self.signature = signature
        positional = [p for p in each if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if len(positional) < count:
            raise ValueError(f"operation {name!r}: rules for {count} operands, but its kernel takes {len(positional)}")
        self.operands = [p.name for p in positional[:count]]
        self.labels = [f"operand {k} ({n!r})" for k, n in enumerate(self.operands)]
        others = [*positional[count:], *[p for p in each if p.kind is p.KEYWORD_ONLY]]
        for p in others:
            if p.kind is p.POSITIONAL_ONLY:
                raise ValueError(f"operation {name!r}: there is no rule for the positional-only parameter {p.name!r}")
        self.keywords = [p.name for p in others]
        self.rest = next((p.name for p in each if p.kind is p.VAR_KEYWORD), None)

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """Operands and keywords of a call, defaults filled in."""
        if self.signature is None:
            if len(args) != self.count:
                raise TypeError(f"{self.name}: {self.count} operand(s) expected, got {len(args)}")
            params = {**self.defaults, **kwargs}
            operands: Sequence[Any] = args
        else:
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}: {error}") from None
            bound.apply_defaults()
            given = bound.arguments
            operands = [given[n] for n in self.operands]
            params = {n: given[n] for n in self.keywords} | (given[self.rest] if self.rest else {})
        for n, value in params.items():
            if isinstance(value, Operand):
                value = plain(value, f"{self.name}: the keyword {n!r}")
            params[n] = hold(value)
        return operands, params

    def ensure_known(self, rule: Any, what: str) -> None:
        """Refuse a rule that reads what there is not."""
        names = reads(rule)
        if not names or rule.__code__.co_kwonlyargcount:
            raise ValueError(f"operation {self.name!r}: the {what} takes a tangent or cotangent, then what it reads")
        there = [*OPERANDS[: self.count], *RESERVED[len(OPERANDS) :]]
        for n in names[1:]:
            if n in RESERVED and n in self.keywords:
                raise ValueError(
                    f"operation {self.name!r}: the {what} reads {n!r}, which is a keyword of the kernel and has "
                    "a meaning of its own in rules: rename the keyword"
                )
            if n not in there and n not in self.keywords and (n in RESERVED or not self.open):
                raise ValueError(
                    f"operation {self.name!r}: the {what} reads {n!r}, which is neither of "
                    f"{', '.join(there)} nor a keyword of the kernel"
                )


def plain(x: Operand, what: str) -> Any:
    """The value of a Tensor that stands where nothing is differentiated."""
    if recorders.is_tracked(x._read()._node):
        raise TypeError(
            f"{what} is a Tensor that a recorder follows, and its derivative would be lost: give it a rule as an "
            "operand, or pass it through dualtape.stop_gradient"
        )
    return x.numpy()


class Kernel:
    """A kernel that cannot write into its operands, and whose results are what the table expects."""

    def __init__(self, name: str, kernel: Any, outputs: int, elementwise: bool = False) -> None:
        self.name = name
        self.kernel = kernel
        self.outputs = outputs
        self.elementwise = elementwise

    def __call__(self, *operands: Any, **params: Any) -> Any:
        values = [read_only(v) for v in operands]
        try:
            found = self.kernel(*values, **params)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            raise ValueError(
                f"{self.name}: the kernel writes into an operand, which others still use: let it copy first ({error})"
            ) from error
        if self.outputs == 1:
            return self.result(found, values, getrefcount(found) <= ALONE)
        if not isinstance(found, (tuple, list)) or len(found) != self.outputs:
            count = f"{len(found)} results" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            raise ValueError(f"{self.name}: the kernel returned {count}, but is registered with outputs={self.outputs}")
        return tuple([self.result(v, values, False) for v in found])

    def result(self, v: Any, values: list[Any], alone: bool) -> Any:
        """One result, as an array or scalar of NumPy's with memory of its own; ``alone``: nobody else holds it."""
        if isinstance(v, Operand):
            v = plain(v, f"{self.name}: the result of the kernel")
        if isinstance(v, (bool, int)):
            v = np.asarray(v)[()]
        elif isinstance(v, (float, complex)) and not isinstance(v, np.generic):
            v = np.asarray(v, np.result_type(v, *values))[()]  # single precision stays
        if not isinstance(v, (np.ndarray, np.generic)) or v.dtype.kind not in "biufc":
            got = f"an array of dtype {v.dtype}" if hasattr(v, "dtype") else f"a {type(v).__name__}"
            several = f"; for several results say outputs={len(v)}" if isinstance(v, (tuple, list)) else ""
            raise TypeError(f"{self.name}: the kernel returned {got}, an array of numbers was expected{several}")
        if isinstance(v, np.ndarray):
            v = np.asarray(v if alone and v.base is None else v.copy()) if v.ndim else v[()]
        if self.elementwise and v.shape != (shape := np.broadcast_shapes(*[np.shape(x) for x in values])):
            raise ValueError(
                f"{self.name}: the kernel returned shape {v.shape}, but with partials it is elementwise: {shape}"
            )
        return v


def references() -> int:
    """The references to what a function has just returned, as they are seen from where it was called."""
    found = np.empty(0)
    return getrefcount(found)


ALONE = references()


# ------------------------------------------------------------------ the rules
def called(name: str, rule: Any, *given: Any, **params: Any) -> Any:
    """What a rule returns; if it writes into what it is given and cannot, an error that says so."""
    try:
        return rule(*map(lent, given), **params)
    except ValueError as error:
        if "read-only" not in str(error):
            raise
        raise ValueError(
            f"{name} writes into what it is given, which others still use: let it copy first ({error})"
        ) from error


def array_of(found: Any, rule: str) -> Any:
    """What a rule returned, as an array or a Tensor."""
    if found is None:
        raise TypeError(f"{rule} returned None: where there is no derivative, return zeros of the right shape")
    try:
        c = taken(found)
        c = c if isinstance(c, (Tensor, np.ndarray, np.generic)) else np.asarray(c)[()]
    except (TypeError, ValueError):
        raise TypeError(f"{rule} returned a {type(found).__name__}, an array was expected") from None
    if c.dtype.kind not in "biufc":
        raise TypeError(f"{rule} returned an array of dtype {c.dtype}, numbers were expected")
    return c


def cotangent(found: Any, shape: tuple[int, ...], rule: str) -> Any:
    """What a reverse rule returned, if it has the shape of the operand."""
    c = array_of(found, rule)
    if c.shape != shape:
        raise ValueError(
            f"{rule} returned shape {c.shape}, but the operand has shape {shape}, which a cotangent must have"
            + ("; sum over the axes along which the operand was broadcast" if len(c.shape) > len(shape) else "")
        )
    return c


def tangent(found: Any, like: tuple[Any, Any], given: tuple[int, ...], rule: str) -> Any:
    """What a forward rule returned, if it fits the result; in the shape of the operand it is broadcast as that is."""
    t = array_of(found, rule)
    shape, dtype = like
    if t.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError(f"{rule} returned a complex tangent, but the result is real ({dtype})")
    if t.shape == shape:
        return t
    try:
        if t.shape == given:
            return np.broadcast_to(t, shape)
    except ValueError:
        pass
    raise ValueError(f"{rule} returned shape {t.shape}, but the result has shape {shape}, which a tangent must have")


def checked(form: Parameters, k: int, outputs: int, jvp: Any, vjp: Any) -> Ruled:
    """The edge of operand ``k``, with rules that cannot write into what they are given, and are checked."""
    of_operand = f"of {form.labels[k]}"

    def back(g: Any, shape: tuple[int, ...], *read: Any) -> Any:
        name = f"{form.name}: the vjp {of_operand}"
        return cotangent(called(name, vjp, g, *read), shape, name)

    def forward(t: Any, results: Any, *read: Any) -> Any:
        name = f"{form.name}: the jvp {of_operand}"
        found = called(name, jvp, t, *read)
        if outputs == 1:
            found = (array_of(found, name),)
        elif not isinstance(found, (tuple, list)) or len(found) != outputs:
            got = f"{len(found)} tangents" if isinstance(found, (tuple, list)) else f"a {type(found).__name__}"
            raise ValueError(f"{name} returned {got}; expected is a tuple, one for each of {outputs} results")
        total: list[Any] = [None] * outputs
        for j, (part, like) in enumerate(zip(found, results, strict=True)):
            if part is not None and like[1].kind in "fc":
                total[j] = tangent(part, like, t.shape, name if outputs == 1 else f"{name} (result {j})")
        return tuple(total) if outputs > 1 else total[0]

    return Ruled(forward, ("results", *reads(jvp)[1:]), back, ("shape", *reads(vjp)[1:]))


def checked_transpose(form: Parameters, transpose: Any) -> Any:
    """A transpose that takes the keywords it names, and whose result is checked."""
    name = f"{form.name}: the transpose"
    parameters = list(inspect.signature(transpose).parameters.values())
    takes_all = any([p.kind is p.VAR_KEYWORD for p in parameters])
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]
    if len(takes) < 2 or any([p.kind is p.KEYWORD_ONLY for p in takes[:2]]):
        raise ValueError(f"{name} takes a cotangent and the shape of the operand first: transpose(g, shape, **params)")
    named = {p.name for p in takes[2:]}
    for p in takes[2:]:
        if p.name not in form.keywords and p.default is p.empty and not form.open:
            raise ValueError(f"{name} reads {p.name!r}, which is no keyword of the kernel")

    def checked(g: Any, shape: tuple[int, ...], **params: Any) -> Any:
        passed = params if takes_all else {n: value for n, value in params.items() if n in named}
        return cotangent(called(name, transpose, g, shape, **passed), shape, name)

    return checked


def elementwise(form: Parameters, kernel: Kernel, partials: list[Any], singular: bool) -> Any:
    """An elementwise row whose partials are checked."""
    name = form.name
    for partial in partials:
        if not callable(partial) and not isinstance(partial, (int, float, complex, np.generic)):
            raise TypeError(f"operation {name!r}: a partial is a number or a function, not a {type(partial).__name__}")
    if len(partials) not in (1, 2):
        raise ValueError(f"operation {name!r}: one or two partials, got {len(partials)}; for others give jvp and vjp")
    row = elementwise_row(name, kernel, partials, singular, False)
    for k, edge in enumerate(row.edges):
        if isinstance(edge, Partial):
            edge.partial = checked_partial(edge.partial, f"{name}: the partial by {form.labels[k]}")
            edge.whole = True  # it may hold arrays of its own, or look at the whole
    return row


def checked_partial(partial: Any, name: str) -> Any:
    """A partial whose shape is that of what it reads, or broadcasts to it."""

    def checked(*read: Any) -> Any:
        d = array_of(called(name, partial, *read), name)
        shape = np.broadcast_shapes(*[np.shape(v) for v in read])
        if d.shape != shape and np.broadcast_shapes(d.shape, shape) != shape:
            raise ValueError(f"{name} returned shape {d.shape}, but what it reads has shape {shape}")
        return d

    return checked
