"""Zeros that nothing can change: which elements a seed reaches, to tell "not taken" from "comes out as 0".

Where a zero meets an infinite partial, the product is 0 if the element is not reached at all (it was not seeded, not
selected, masked out), and NaN else: ``exp(sum(log(p)))`` is smooth at p = 0, and 0 would be a wrong slope. To find out,
the program is gone through once more with **marks** in the place of cotangents or tangents: 1 where an element is
reached, 0 where not. An entry for marks is the **outline** of the entry: the same edge if its rules move numbers about,
else one that spreads marks as its row's pattern says. Nobody pays for it before a zero meets an infinity.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

import numpy as np

from dualtape.core.cotangents import fitted, unbroadcast
from dualtape.core.recorders import STACK, is_tracked, paused
from dualtape.core.standin import OPEN, Standin, every
from dualtape.core.table import Edge, Row
from dualtape.core.tensor import Tensor, among, raw, tensor
from dualtape.facts import patterns
from dualtape.facts.costs import Performed

# Larger cotangents are let go of with what their entries keep, when a sweep has passed them.
SMALL = 2**12


def marked(x: Any) -> Any:
    """1 where an array is not 0, else 0; None for None, and one for each of several."""
    if x is None:
        return None
    if x.__class__ in (list, tuple):
        return [marked(a) for a in x]
    return np.where(x != 0, 1.0, 0.0)[()]


def ones(shape: Any) -> Any:
    """Marks where all is reached."""
    return [ones(s) for s in shape] if shape.__class__ is list else np.ones(shape)[()]


def shape_of(g: Any) -> Any:
    """The shape of a cotangent or tangent, or a list of the shapes of several."""
    return [() if c is None else c.shape for c in g] if g.__class__ in (list, tuple) else g.shape


def unreached(marks: Any, product: Any) -> Any:
    """``product`` with 0 where nothing is reached."""
    if product.__class__ is Tensor and isinstance(marks, Standin):
        marks = tensor(marks)  # those who follow what carries no derivative follow marks as well
    return np.where(marks != 0, product, np.zeros((), product.dtype))[()]


def unrecorded() -> Any:
    """A block in which only those are told of what is done who follow what carries no derivative."""
    return nullcontext() if any([r.for_facts for r in STACK.get()]) else paused()


# ------------------------------------------------------------------ outlines
class Spread(Edge):
    """An operand of an elementwise operation, for marks. It keeps where it is taken: None for everywhere, a factor that
    is 0 where not, or a function that finds it."""

    __slots__ = ()

    exact = False
    moves = True

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        c = self.along(g, like, kept, raw)
        cotangents.add(i, c if like is None else fitted(c, like))

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        taken = kept() if callable(kept) else kept
        return t if taken is None else t * taken


class Patterned(Edge):
    """Any operand, for marks, as the pattern of the row says. It keeps the edge, the keywords, the result's shape."""

    __slots__ = ()

    moves = True

    def back(self, g: Any, like: Any, kept: Any) -> Any:
        (edge, params, out), shape = kept, like[0]
        if g.__class__ is list:
            return np.broadcast_to(sum([np.sum(c) for c in g if c is not None]), shape)
        pattern = edge.row.pattern
        if pattern is patterns.elementwise:
            return unbroadcast(g, shape)
        if pattern is patterns.reduced and "axis" in params:
            axis = params["axis"]
            axes = range(len(shape)) if axis is None else axis if axis.__class__ is tuple else (axis,)
            left = [1 if k in axes or k - len(shape) in axes else n for k, n in enumerate(shape)]
            return np.broadcast_to(np.reshape(g, left), shape)
        if (pairs := self.pairs(g, shape, out, edge, params)) is not None:
            return np.bincount(pairs[1], np.ravel(g)[pairs[0]], prod(shape)).reshape(shape)
        return np.broadcast_to(np.sum(g), shape)

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        (edge, params, out), shape = kept, like[0]
        if out.__class__ is list:
            return tuple([np.broadcast_to(np.sum(t), s) for s in out])
        pattern = edge.row.pattern
        if pattern is patterns.elementwise:
            return np.broadcast_to(t, out)
        if pattern is patterns.reduced and "axis" in params:
            return np.reshape(np.add.reduce(t, axis=params["axis"]), out)
        if (pairs := self.pairs(t, shape, out, edge, params)) is not None:
            return np.bincount(pairs[0], np.ravel(t)[pairs[1]], prod(out)).reshape(out)
        return np.broadcast_to(np.sum(t), out)

    def pairs(self, marks: Any, shape: Any, out: Any, edge: Edge, params: Any) -> Any:
        """Which elements belong together, if the shapes of operand and result are enough to say so."""
        if edge.row.pattern not in ALONE or isinstance(marks, Standin) or marks.__class__ is Tensor:
            return None
        k = edge.position
        return edge.row.pattern(edge.row, Performed((shape,) * (k + 1), (out,), (True,) * (k + 1), params), k, 0)


ALONE = (patterns.cumulative, patterns.crossed, patterns.traced)


class Everything(Row):
    """Operands of which nothing is known, for marks. Its entry has the operands' likenesses and the results'."""

    __slots__ = ()

    moves = True

    def inputs(self, entry: Any) -> tuple[int, ...]:
        return entry[1]  # type: ignore[no-any-return]

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, ins, _ = entry
        total = sum([np.sum(c) for c in (g if g.__class__ is list else [g]) if c is not None])
        for i, like in zip(ids, ins, strict=True):
            if i:
                cotangents.add(i, np.broadcast_to(total, like.shape))

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        total = sum([np.sum(t) for t in tangents if t is not None])
        found = tuple([np.broadcast_to(total, like.shape) for like in entry[3]])
        return found if len(found) > 1 else found[0]


SPREAD, PATTERNED = Spread(), Patterned()
BOTH = Row("both", len, [SPREAD, SPREAD], kind="general")
EVERYTHING = Everything("everything", len, kind="general")
Row("pattern", len, [PATTERNED], kind="general")


def outline(e: Any, out: Any, raw: bool) -> Any:
    """An entry for marks; ``out`` is the shape of the result, or a list of shapes."""
    edge = e[0]
    if isinstance(edge, Row):
        if edge.moves:
            return e
        if edge.edges:
            return (BOTH, *[outline(part, out, raw) for part in e[1:]])
        return EVERYTHING, e[1], *edge.likes()
    _, i, like, kept = e
    if edge.moves:
        return edge, i, like, edge.outline(kept, raw)
    if edge.spreads:
        return SPREAD, i, like, edge.outline(kept, raw)
    return PATTERNED, i, like, (edge, edge.keywords(kept), out)


# ------------------------------------------------------------------ reverse mode
class Reach:
    """What a sweep has passed since elements were selected, to find on demand which cotangents are reached.

    ``full`` are the shapes of the cotangents there were then: all their elements are reached.
    """

    __slots__ = ("asked", "first", "found", "full", "marks", "passed", "raw")

    def __init__(self, marks: Any, raw: bool) -> None:
        self.marks = marks
        self.raw = raw
        self.full: dict[int, Any] = {}
        self.passed: dict[int, Any] = {}
        # Of what recorders may ask again later.
        self.asked: set[int] = set()
        self.found: dict[int, Any] = {}
        # Whether the operation that selected is still to be passed.
        self.first = True

    @classmethod
    def told(cls, i: int, marks: Any) -> Reach:
        """One that knows the marks of the cotangent of ``i``."""
        reach = cls({}, True)
        reach.found[i] = marks
        reach.first = False
        return reach

    def begin(self, i: int, e: Any, g: Any) -> None:
        """The sweep has passed the entry that leaves elements out of ``i`` first."""
        self.full[i] = shape_of(g)
        self.passed[i] = e
        self.first = False

    def of(self, i: int) -> Any:
        """Marks of the cotangent of ``i``; None if all of it is reached."""
        if self.first or i in self.full:
            return None
        marks, passed = self.marks, self.passed
        with unrecorded():
            while passed:
                k = next(iter(passed))
                g = ones(self.full[k]) if k in self.full else marked(marks.get(k))
                if g is not None:
                    e = outline(passed[k], shape_of(g), self.raw)
                    standin = among((g, *e)) if OPEN[0] else None
                    (e[0] if standin is None else standin).pull(e, g, marks, self.raw)
                if k in self.asked:
                    self.found[k] = g
                marks.pop(k, None)
                del passed[k]
        found = self.found[i] if i in self.found else marks.get(i)
        return 0.0 if found is None else found

    def later(self, i: int) -> Any:
        """A function that gives the marks of the cotangent of ``i`` at any time."""
        if self.first or i in self.full:
            return lambda: None
        self.asked.add(i)
        return lambda: self.of(i)


# ------------------------------------------------------------------ forward mode
def gaps(x: Any) -> Any:
    """Marks of a tangent or cotangent that a computation starts with; None if it has no zeros."""
    if x.__class__ is np.ndarray:
        return None if np.count_nonzero(x) == x.size else (x != 0).astype(float)
    if not isinstance(x, (np.ndarray, np.generic)):
        if x.__class__ is Tensor and is_tracked(x._node):
            return None  # it only happens to be zero: it depends on something
        x = raw(x)
        return None if every(x != 0) else marked(x)
    return None if np.count_nonzero(x) == x.size else marked(x)


class Later:
    """Marks of the tangent of a result, found when somebody asks.

    They are held as the entry and the marks of its operands: None for no tangent, a shape where all is reached.
    """

    __slots__ = ("depth", "e", "found", "given", "out")

    def __init__(self, e: Any, given: list[Any], out: tuple[int, ...]) -> None:
        self.e, self.given, self.out = e, given, out
        self.found: Any = None
        depth = 1
        for m in given:
            if m.__class__ is Later and m.depth >= depth:
                depth = m.depth + 1
        self.depth: int = depth
        if depth > DEEPEST:
            self()

    def __call__(self) -> Any:
        """The marks; None if all is reached."""
        if self.e is not None:
            facts = any([r.facts or r.for_facts for r in STACK.get()])
            with unrecorded():
                given = [known(m) for m in self.given]
                also = list(given)  # (so that nobody thinks he holds them alone, and writes into them)
                found = pushed(outline(self.e, self.out, not facts), given, not facts)
                del also
                found = np.broadcast_to(found, self.out)
                self.found = marked(found) if facts else gaps(found)
            self.e, self.given, self.depth = None, [], 0
        return self.found


# How long a chain of marks may become before it is gone through.
DEEPEST = 50


def known(m: Any) -> Any:
    """The marks of an operand: None for no tangent."""
    if m.__class__ is Later:
        found = m()
        return ones(m.out) if found is None else found
    return ones(m) if m.__class__ is tuple else m


def pushed(e: Any, tangents: Sequence[Any], raw: bool) -> Any:
    """One step along."""
    try:
        return e[0].push(e, tangents, raw)
    except Exception:
        standin = among(tangents)
        if standin is None:
            raise
        return standin.push(e, tangents, raw)


def marks_along(e: Any, shapes: Sequence[Any], marks: Sequence[Any], out: tuple[int, ...]) -> Any:
    """Marks of a result from those of its operands, which have ``shapes`` (None: no tangent); None: all is reached."""
    edge = e[0]
    given = [shape if m is None else m for shape, m in zip(shapes, marks, strict=True)]
    several, full = isinstance(edge, Row), all([m is None for m in marks])
    if edge.moves:
        if full and not (edge.places and (not several or None in shapes)):
            return None
        if several and prod(out) >= SMALL:
            return None  # a loop that writes single elements would become quadratic
        return Later(e, given, out)
    parts = (e,) if not several else e[1:] if edge.edges else ()
    partly, alike = False, bool(parts)
    for part in parts:
        if part[0].partly(part[3]):
            partly = True
        if part[2] is not None or not part[0].spreads:
            alike = False
    if full and not partly:
        return None
    if alike and not partly:
        return united([m for shape, m in zip(shapes, marks, strict=True) if shape is not None], out)
    return Later(e if prod(out) < SMALL else outline(e, out, True), given, out)


def united(marks: Sequence[Any], out: tuple[int, ...]) -> Any:
    """Marks of a result that is reached wherever an operand is, element by element; None where all is reached."""
    if any([m is None for m in marks]):
        return None
    if all([m is marks[0] for m in marks]):
        return marks[0]
    return Later((BOTH, *[(SPREAD, 0, None, None)] * len(marks)), [*marks], out)
