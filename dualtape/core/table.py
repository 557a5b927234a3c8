"""The row of an operation: a kernel, an edge for each operand, columns of facts. What a tape keeps is laid out here.

An **edge** is the operation seen from one operand: what is kept of it, its way back and its way along. A tape keeps for
an operation one tuple, the entry: ``(edge, identity, likeness, kept)`` where it follows one operand, else the row and
such a tuple for each operand that it follows. Whatever walks over entries asks ``entry[0]``, edge or row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from dualtape.core.cotangents import cast_back, fit, stretched
from dualtape.core.lookup import ROWS, register
from dualtape.core.tensor import Node, among, hold, opened
from dualtape.facts.patterns import dense

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

Rule = Callable[..., Any]
OPERANDS = ("x", "y", "z")
# What an edge picks besides operands by their position: the result, all keywords.
OUT, PARAMS = -1, "**"


class Columns(TypedDict, total=False):
    """Facts about a row; each family has its defaults, and an odd row overrides them. A new column goes here."""

    # What it costs (``costs.py``), as a function of what was performed.
    work: Any
    # Which elements of a result can depend on which of an operand (``patterns.py``).
    pattern: Any
    # The whole of a batch at once, for kernels that do more than call NumPy: ``batch(level, *operands, **params)``.
    batch: Any
    # The way back for a batch, where it adds in place: ``pull_batch(entry, g, cotangents, raw)``, whether it did.
    pull_batch: Any


# What holds of any row.
DEFAULTS: Columns = {"pattern": dense}


class Edge:
    """An operation seen from one operand.

    ``pick`` says what an entry keeps: None, an operand by its position, ``OUT``, a keyword, ``PARAMS``, or a tuple of
    such. A family writes ``along(t, like, kept, raw)``, the tangent of the result, and ``back(g, like, kept)``, the
    cotangent of the operand, or ``pull``. ``raw`` says whether rules see plain arrays (nobody outside is recording) or
    Tensors.
    """

    __slots__ = ("pick", "position", "row")

    row: Row
    position: int
    # Whether the likeness is always that of the operand; else it is there only where the result has another one.
    exact = True
    # Whether an entry of it is an operation for those who count.
    counts = True
    # For marks of what is reached (``reached.py``): whether its own rules carry them, or it goes element by element;
    # and whether its result has zeros of its own in forward mode. Then: whether a partial can be infinite where the
    # value is finite; whether it is 0 where another operand is taken.
    moves = spreads = places = singular = chooses = False

    def __init__(self, pick: Any = None) -> None:
        self.pick = pick

    def enter(self, row: Row, position: int) -> None:
        """It is the edge of a row's operand."""
        self.row, self.position = row, position

    @property
    def name(self) -> str:
        """The name of its row."""
        return self.row.name

    def keep(self, nodes: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """What an entry keeps: of the operands and the result, and of the keywords."""
        pick = self.pick
        if pick.__class__ is int:
            return nodes[pick]
        if pick.__class__ is tuple:
            found = [nodes[k] if k.__class__ is int else params if k is PARAMS else settled(params[k]) for k in pick]
            return tuple(found)
        return None if pick is None else params if pick is PARAMS else settled(params[pick])

    def entry(self, x: Node, nodes: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """What a tape keeps if it follows operand ``x``; ``nodes`` are the operands and the result."""
        value = x.value
        like = (value.shape, value.dtype) if self.exact else fit(value, nodes[OUT].value)
        return self, x.id, like, self.keep(nodes, params)

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        """The way back: add to the cotangent of the operand."""
        _, i, like, kept = entry
        c = cast_back(self.back(g, like, opened(kept, raw)), like[1])
        if i in cotangents:
            cotangents.add(i, c)
        else:
            cotangents[i] = c

    def push(self, entry: Any, tangents: Sequence[Any], raw: bool) -> Any:
        """The way along: the tangent of the result."""
        t = tangents[0]
        s = self.along(t, entry[2], entry[3], raw)
        if self.exact:
            return s
        like = entry[2]
        if like is None:
            return s if s.dtype is t.dtype else stretched(s, t.shape, t.dtype)
        return stretched(s, like[2], like[3])

    def inputs(self, entry: Any) -> tuple[int, ...]:
        """The identities of the operands that are followed."""
        return (entry[1],)

    def restrict(self, entry: Any, needed: Any) -> Any:
        """The entry for the operands whose identity is in ``needed``; None if there is none."""
        return entry if entry[1] in needed else None

    def kept(self, entry: Any) -> Iterable[Any]:
        """The nodes and arrays that the entry keeps alive."""
        kept = entry[3]
        return (kept,) if kept.__class__ is Node else () if kept is None else flat(kept)

    def back(self, g: Any, like: Any, kept: Any) -> Any:
        raise NotImplementedError

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        raise NotImplementedError

    def outline(self, kept: Any, raw: bool) -> Any:
        """What an entry for marks keeps in the place of ``kept``."""
        return kept

    def partly(self, kept: Any) -> bool:
        """Whether the operand is taken in places only, going element by element."""
        return False

    def keywords(self, kept: Any) -> Any:
        """The keywords among what an entry keeps."""
        named = zip(self.pick, kept, strict=True) if self.pick.__class__ is tuple else ()
        return kept if self.pick is PARAMS else {n: a for n, a in named if n.__class__ is str}


def settled(param: Any) -> Any:
    """A parameter as an entry keeps it: the caller may write into an array before the sweep."""
    return param if param.__class__ in SETTLED else hold(param)


SETTLED = {int, float, complex, bool, str, type(None)}


def flat(kept: Any) -> Iterator[Any]:
    """The nodes and arrays in what an entry keeps."""
    for a in kept if kept.__class__ is tuple else kept.values() if kept.__class__ is dict else (kept,):
        if a.__class__ is Node or isinstance(a, np.ndarray):
            yield a
        elif a.__class__ is tuple or a.__class__ is dict:
            yield from flat(a)


class Row:
    """One operation of the table. ``edges`` has None for an operand without derivative (a mask, an index)."""

    __slots__ = (
        "call", "chooses", "edges", "even", "function", "kernel", "kind", "name", "outputs", "singular",
        *Columns.__annotations__,
    )  # fmt: skip

    counts = True
    moves = spreads = places = False
    work: Any
    pattern: Any
    batch: Any
    pull_batch: Any

    def __init__(
        self,
        name: str,
        kernel: Rule,
        edges: Sequence[Any] = (),
        *,
        kind: str,
        outputs: int = 1,
        **columns: Unpack[Columns],
    ) -> None:
        self.name = name
        self.kind = kind
        self.outputs = outputs
        self.edges = tuple(edges)
        for column in Columns.__annotations__:
            setattr(self, column, columns.get(column, DEFAULTS.get(column)))
        for k, edge in enumerate(self.edges):
            if edge is not None:
                edge.enter(self, k)
        self.singular = any([edge is not None and edge.singular for edge in self.edges])
        self.chooses = any([edge is not None and edge.chooses for edge in self.edges])
        # Whether the result is reached wherever an operand is.
        self.even = all([edge is not None and edge.spreads and not edge.partly(None) for edge in self.edges])
        self.function = kernel  # for arrays alone
        self.kernel: Rule = passable(self, kernel)
        self.call: Rule = self.kernel

    @property
    def row(self) -> Row:
        """Itself: the row of an entry is ``entry[0].row``."""
        return self

    def __repr__(self) -> str:
        return f"<Row {self.name} ({self.kind})>"

    def nodes(self, operands: Sequence[Any]) -> list[Node]:
        """The operands that can be followed."""
        return [x for e, x in zip(self.edges, operands, strict=True) if e and x.__class__ is Node]

    def entry(self, operands: Sequence[Any], out: Any, params: dict[str, Any], known: Any = None) -> Any:
        """What a tape keeps: of all operands that are nodes, or of those ``known`` to it; None if there are none."""
        nodes, pairs = (*operands, out), zip(self.edges, operands, strict=True)
        followed = [(e, x) for e, x in pairs if e and x.__class__ is Node and (known is None or x.id in known)]
        return self.whole([e.entry(x, nodes, params) for e, x in followed])

    @property
    def pick(self) -> Any:
        """Whether entries keep anything of operands one by one, as edges say."""
        return self.edges or None

    def whole(self, parts: list[Any]) -> Any:
        """The entry of some operands from the entry of each; None if there are none."""
        return (self, *parts) if len(parts) > 1 else parts[0] if parts else None

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        """The way back: add to the cotangents of the operands."""
        for part in entry[1:]:
            part[0].pull(part, g, cotangents, raw)

    def push(self, entry: Any, tangents: Sequence[Any], raw: bool) -> Any:
        """The way along: the tangent of the result, given those of the operands followed (None: zero)."""
        if len(tangents) == 2 and self.outputs == 1:
            _, e, f = entry
            s, t = tangents
            if t is None:
                return e[0].push(e, (s,), raw)
            if s is None:
                return f[0].push(f, (t,), raw)
            # One expression: NumPy adds large products in place.
            total = e[0].along(s, e[2], e[3], raw) + f[0].along(t, f[2], f[3], raw)
            if e[0].exact:
                return total
            like = e[2] or f[2]
            if like is not None:
                return stretched(total, like[2], like[3])
            return total if total.dtype is s.dtype else stretched(total, s.shape, s.dtype)
        total = None
        for part, t in zip(entry[1:], tangents, strict=True):
            if t is not None:
                s = part[0].push(part, (t,), raw)
                total = s if total is None else added(total, s)
        return total

    def along(self, nodes: tuple[Any, ...], params: Any, s: Any, t: Any, raw: bool, mask: bool) -> Any:
        """The way along of a row of two operands while it runs, of which nothing is kept; one tangent may be None, and
        its operand a ``mask``."""
        e, f = self.edges
        x, y, _ = nodes
        p, q = e.pick, f.pick
        if s is not None:
            kept_x = nodes[p] if p.__class__ is int else e.keep(nodes, params)
            like_x = (x.value.shape, x.value.dtype) if e.exact else None
            if t is None:
                return e.along(s, like_x, (y,) if mask and kept_x is y else kept_x, raw)
        kept_y = nodes[q] if q.__class__ is int else f.keep(nodes, params)
        like_y = (y.value.shape, y.value.dtype) if f.exact else None
        if s is None:
            return f.along(t, like_y, (x,) if mask and kept_y is x else kept_y, raw)
        # One expression: NumPy adds large products in place.
        return e.along(s, like_x, kept_x, raw) + f.along(t, like_y, kept_y, raw)

    def likes(self) -> tuple[Any, Any]:
        """The likenesses of operands and results, of a row that has no edges and no pattern."""
        raise NotImplementedError

    def inputs(self, entry: Any) -> tuple[int, ...]:
        """The identities of the operands that are followed."""
        return tuple([part[1] for part in entry[1:]])

    def restrict(self, entry: Any, needed: Any) -> Any:
        """The entry for the operands whose identity is in ``needed``; None if there is none."""
        parts = [part for part in entry[1:] if part[1] in needed]
        return entry if len(parts) == len(entry) - 1 else self.whole(parts)

    def kept(self, entry: Any) -> Iterable[Any]:
        """The nodes and arrays that the entry keeps alive."""
        return [a for part in entry[1:] for a in part[0].kept(part)]


def added(s: Any, t: Any) -> Any:
    """The sum of two tangents, or of each of two tuples of them."""
    if s.__class__ is tuple:
        return tuple([b if a is None else a if b is None else a + b for a, b in zip(s, t, strict=True)])
    return s + t


def passable(row: Any, function: Any) -> Any:
    """A kernel as the row calls it: where it fails on a stand-in, the stand-in is asked.

    (A ufunc, or an operator of Python's, finds its way through a stand-in by itself.)
    """
    if isinstance(function, np.ufunc) or function.__class__ is type(len):
        return function

    def kernel(*operands: Any, **params: Any) -> Any:
        try:
            return function(*operands, **params)
        except Exception:
            standin = among((operands, params))
            if standin is None:
                raise
            return standin.through(row, operands, params)

    kernel.__name__ = getattr(function, "__name__", row.name)
    kernel.__module__ = getattr(function, "__module__", None) or ""
    kernel.__wrapped__ = function  # type: ignore[attr-defined]
    return kernel


class Pick(Edge):
    """One result of an operation that has several: recorded as an operation on all of them, which have an identity
    together. It keeps the place and the number of the results."""

    __slots__ = ()

    counts = False
    moves = True

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, _, (k, count) = entry
        if i not in cotangents:
            cotangents[i] = [None] * count
        cotangents[i][k] = g

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        return t[kept[0]]


PICK = Row("pick", lambda results, k: results[k], [Pick()], kind="linear").edges[0]


def reads(rule: Rule) -> tuple[str, ...]:
    """The parameter names of a rule: they say what it reads."""
    if not isinstance(rule, FunctionType):
        raise TypeError(f"a rule is a Python function whose parameter names say what it reads, not {rule!r}")
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def unary(x: ArrayLike, /) -> Tensor: ...  # type: ignore[empty-body]
def binary(x: ArrayLike, y: ArrayLike, /) -> Tensor: ...  # type: ignore[empty-body]


def ternary(x: ArrayLike, y: ArrayLike, z: ArrayLike, /) -> Tensor: ...  # type: ignore[empty-body]


SIGNATURES = {1: signature(unary), 2: signature(binary), 3: signature(ternary)}


def arrays_alone(row: Row) -> bool:
    """Whether an operation takes its operands and nothing else; what keywords a ufunc has, no rule knows of."""
    if row.kind == "elementwise" or row.function is row.kernel:
        return True
    code = getattr(getattr(row.function, "_implementation", row.function), "__code__", None)
    # (Neither keyword-only parameters nor **keywords, the flag 8.)
    return code is not None and code.co_argcount == len(row.edges) and not (code.co_kwonlyargcount or code.co_flags & 8)


def publish(row: Row, call: Any, keys: Sequence[Any] = (), doc: str | None = None) -> Any:
    """Give the row its callable and enter both in the table, or neither."""
    call.__name__ = call.__qualname__ = row.name
    kernel = row.kernel
    how = "without derivative" if row.kind == "absent" else f"differentiable in both modes ({row.kind})"
    call.__doc__ = doc or (
        f"``{row.name}``, {how}.\n\n"
        f"Takes arrays and Tensors as NumPy's or SciPy's function of the name does; returns a Tensor.\n"
    )
    if row.edges and row.outputs == 1 and arrays_alone(row):
        call.__signature__ = SIGNATURES.get(len(row.edges))
    call.row = row
    row.call = call
    if isinstance(kernel, np.ufunc) or kernel.__module__.startswith("numpy"):
        keys = (getattr(kernel, "__wrapped__", kernel), *keys)
    register(call, *keys)
    ROWS[row.name] = row
    return call
