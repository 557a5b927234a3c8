"""Expressions as trees, differentiated by the rules of sums and products alone, and counted with and without sharing.

Nothing is simplified: that is the point. Trees that are too large to write out are counted part by part.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Expression(NamedTuple):
    """A leaf (a name or a number) or an operation on two expressions."""

    head: Any
    parts: tuple[Expression, ...] = ()


class Algebra:
    """Expressions with structural sharing: what was made before is the same object."""

    def __init__(self) -> None:
        self.known: dict[Any, Expression] = {}
        self.derivatives: dict[int, Expression] = {}

    def make(self, head: Any, *parts: Expression) -> Expression:
        """The one expression of this form."""
        return self.known.setdefault((head, *map(id, parts)), Expression(head, parts))

    def derivative(self, e: Expression) -> Expression:
        """d/dx by the rules of sums and products; of each subexpression once."""
        known = self.derivatives.get(id(e))
        if known is None:
            if not e.parts:
                known = self.make(1 if e.head == "x" else 0)
            else:
                a, b = e.parts
                da, db = self.derivative(a), self.derivative(b)
                if e.head == "*":
                    known = self.make("+", self.make("*", da, b), self.make("*", a, db))
                else:
                    known = self.make(e.head, da, db)
            self.derivatives[id(e)] = known
        return known


def iterate(algebra: Algebra, n: int) -> Expression:
    """The n-th iterate of the logistic map: l_1 = x, l_{n+1} = (4 l_n)(1 - l_n)."""
    make = algebra.make
    found = make("x")
    for _ in range(n - 1):
        found = make("*", make("*", make(4), found), make("-", make(1), found))
    return found


def tree_size(e: Expression, known: dict[int, int] | None = None) -> int:
    """The nodes of an expression written out as a tree, leaves included: each part as often as it stands there."""
    known = {} if known is None else known
    if id(e) not in known:
        known[id(e)] = 1 + sum(tree_size(p, known) for p in e.parts)
    return known[id(e)]


def shared_size(e: Expression) -> int:
    """The different nodes of an expression: what is left if every common part is written once."""
    seen: set[int] = set()
    todo = [e]
    while todo:
        at = todo.pop()
        if id(at) not in seen:
            seen.add(id(at))
            todo += at.parts
    return len(seen)


def value(e: Expression, x: Any, known: dict[int, Any] | None = None) -> Any:
    """What an expression is at a point."""
    known = {} if known is None else known
    if id(e) not in known:
        if not e.parts:
            known[id(e)] = x if e.head == "x" else e.head
        else:
            a, b = (value(p, x, known) for p in e.parts)
            known[id(e)] = a + b if e.head == "+" else a - b if e.head == "-" else a * b
    return known[id(e)]
