"""Jacobians by vertex elimination: what lies between the modes, on the graph that a tape recorded of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualtape.transforms.arguments import ensure_callable, recorded, results, sources

# Of so many vertices all sets are looked at, one bit a vertex.
MOST = 16
ORDERS = "forward", "reverse", "markowitz", "optimal"


class Elimination(NamedTuple):
    """A Jacobian, and what it took to accumulate it.

    ``jacobian`` has a row for each result and a column for each argument; ``order`` names the vertices, numbered as
    they were computed, in the order of their elimination; ``mults`` and ``adds`` were counted as they were performed.
    """

    jacobian: Any
    order: tuple[int, ...]
    mults: int
    adds: int


def eliminate(f: Callable[..., Any], *args: Any, order: str | Sequence[int] = "markowitz") -> Elimination:
    """The Jacobian of a program of numbers, accumulated by eliminating the vertices of its graph one after the other.

    A vertex is an operation, an edge a partial derivative. To eliminate a vertex, each edge that enters it is
    multiplied by each that leaves it, and the product added to the edge that joins the two ends; what is left in the
    end is the Jacobian. Eliminating from the arguments on is forward mode, from the results back reverse mode (on
    sparse vectors); other orders may multiply less often than both. (Griewank & Reese, On the calculation of Jacobian
    matrices by the Markowitz rule, 1991. To find the best order is NP-complete: Naumann, Math. Program. 112, 2008.)

    Args:
        f: a function of numbers, or nested structures of them, that returns a number or a structure of numbers.
        *args: its arguments, real.
        order: "forward", "reverse"; "markowitz", the vertex with the fewest products next; "optimal", the best of all
            orders, for up to 16 vertices; or the numbers of all vertices in the order they are to be eliminated.

    Returns:
        An ``Elimination``. Products with partials of 1 and -1 are counted as any.

    Raises:
        TypeError: for arrays of numbers, and complex ones.
        ValueError: for an unknown order, one that does not name each vertex once, or too many vertices for "optimal".

    Example:
        >>> import numpy as np, dualtape as dt
        >>> def f(a, b):
        ...     waist = np.exp(np.sin(a * b))
        ...     return waist * 2.0, waist * 3.0
        >>> [dt.inspect.eliminate(f, 0.5, 1.0, order=order).mults for order in ("forward", "reverse", "markowitz")]
        [8, 8, 7]
    """
    graph = graph_of(f, args)
    chosen = graph.ordered(order)
    return graph.eliminated(chosen)


class Graph:
    """A linearised program: inputs, vertices between, results; ``after[u][v]`` is the partial of v by u.

    Vertices are numbered as they were computed, inputs before them and results behind.
    """

    def __init__(self, inputs: int, vertices: int, outputs: int) -> None:
        self.inputs, self.vertices, self.outputs = inputs, vertices, outputs
        count = inputs + vertices + outputs
        self.after: list[dict[int, Any]] = [{} for _ in range(count)]
        self.before: list[set[int]] = [set() for _ in range(count)]

    def join(self, u: int, v: int, partial: Any) -> None:
        """An edge."""
        self.after[u][v] = partial
        self.before[v].add(u)

    def ordered(self, order: str | Sequence[int]) -> tuple[int, ...]:
        """The vertices in the order that is meant, as numbers from 0."""
        n = self.vertices
        if not isinstance(order, str):
            found = tuple(order)
            if sorted(found) != list(range(n)):
                raise ValueError(f"eliminate: order has to name each of the {n} vertices once, 0 to {n - 1}: {found}")
            return found
        if order == "forward":
            return tuple(range(n))
        if order == "reverse":
            return tuple(reversed(range(n)))
        if order == "markowitz":
            return self.by_markowitz()
        if order == "optimal":
            if n > MOST:
                raise ValueError(
                    f'eliminate: order="optimal" looks at all sets of vertices, and there are {n} (at most {MOST}); '
                    'use "markowitz", or a smaller program'
                )
            return self.optimal()
        raise ValueError(f"eliminate: order is one of {', '.join(ORDERS)} or a sequence of vertices, not {order!r}")

    def by_markowitz(self) -> tuple[int, ...]:
        """At each time the vertex with the fewest products; of several the one that was computed first."""
        before, after = [set(s) for s in self.before], [set(s) for s in self.after]
        left, found = list(range(self.inputs, self.inputs + self.vertices)), []
        while left:
            v = min(left, key=lambda u: len(before[u]) * len(after[u]))
            left.remove(v)
            found.append(v - self.inputs)
            for u in before[v]:
                after[u] |= after[v]
                after[u].discard(v)
            for w in after[v]:
                before[w] |= before[v]
                before[w].discard(v)
        return tuple(found)

    def optimal(self) -> tuple[int, ...]:
        """Dynamic programme over sets of vertices: what is left depends on which are gone, not on their order."""
        n, first = self.vertices, self.inputs
        count = len(self.after)
        ins = [bits(s) for s in self.before]
        outs = [bits(s) for s in self.after]
        # Edges of the graph from which a set is gone: a set is reached from the same without its highest vertex.
        graphs: dict[int, tuple[list[int], list[int]]] = {0: (ins, outs)}
        cost = {0: 0}
        choice: dict[int, int] = {}
        for gone in range(1, 1 << n):
            v = gone.bit_length() - 1
            ins, outs = graphs[gone ^ (1 << v)]
            ins, outs = list(ins), list(outs)
            here, entering, leaving = 1 << (first + v), ins[first + v], outs[first + v]
            for u in range(count):
                if entering >> u & 1:
                    outs[u] = (outs[u] | leaving) & ~here
                if leaving >> u & 1:
                    ins[u] = (ins[u] | entering) & ~here
            graphs[gone] = ins, outs
        for gone in range(1, 1 << n):
            best = None
            for v in range(n):
                if gone >> v & 1:
                    ins, outs = graphs[gone ^ (1 << v)]
                    total = cost[gone ^ (1 << v)] + ins[first + v].bit_count() * outs[first + v].bit_count()
                    if best is None or total < best:
                        best, choice[gone] = total, v
            cost[gone] = best or 0
        found, gone = [], (1 << n) - 1
        while gone:
            found.append(choice[gone])
            gone ^= 1 << choice[gone]
        return tuple(reversed(found))

    def eliminated(self, order: tuple[int, ...]) -> Elimination:
        """Eliminate all vertices, counting what is performed."""
        after, before = [dict(edges) for edges in self.after], [set(s) for s in self.before]
        mults = adds = 0
        for k in order:
            v = self.inputs + k
            for u in before[v]:
                entering = after[u].pop(v)
                for w, leaving in after[v].items():
                    product = leaving * entering
                    mults += 1
                    if w in after[u]:
                        after[u][w] = after[u][w] + product
                        adds += 1
                    else:
                        after[u][w] = product
                        before[w].add(u)
            for w in after[v]:
                before[w].discard(v)
            after[v], before[v] = {}, set()
        jacobian = np.zeros((self.outputs, self.inputs))
        for u in range(self.inputs):
            for w, partial in after[u].items():
                jacobian[w - self.inputs - self.vertices, u] = partial
        return Elimination(jacobian, order, mults, adds)


def bits(numbers: Iterable[int]) -> int:
    """A set of numbers as the bits of one."""
    return sum(1 << k for k in numbers)


def graph_of(f: Callable[..., Any], args: tuple[Any, ...]) -> Graph:
    """The graph of a program: what a tape recorded of it, with the partials that its rows give."""
    ensure_callable("eliminate", f)
    given = sources("eliminate", args, range(len(args)))
    for x in given.leaves:
        ensure_number(x, "an argument")
    found, recording = recorded(lambda *args: results(f(*args))[0], given.args, {}, given.leaves)
    for y in found:
        ensure_number(y, "a result")
    starts, ends = [x._node.id for x in given.leaves], [y._node.id for y in found]
    entries = {i: entry for i, entry in recording.items() if entry and i not in starts}
    needed = reached_from(entries, ends)
    inner = [i for i in entries if i in needed]
    read = {j for i in inner for j in entries[i][0].inputs(entries[i])}
    # A result that is nobody's operand is a vertex at the end; of one that is read again there is a copy.
    last = {i for i in ends if i in entries and i not in read and ends.count(i) == 1}
    between = [i for i in inner if i not in last]
    graph = Graph(len(starts), len(between), len(ends))
    place = {i: k for k, i in enumerate([*starts, *between])}
    for k, i in enumerate(ends):
        at = len(place) + k
        if i in last:
            partials(graph, place, entries[i], at)
        elif i in place:
            graph.join(place[i], at, 1.0)
    for i in between:
        partials(graph, place, entries[i], place[i])
    return graph


def partials(graph: Graph, place: dict[int, int], entry: Any, at: int) -> None:
    """The edges that enter a vertex."""
    for i in dict.fromkeys(entry[0].inputs(entry)):
        if i in place:
            part = entry[0].restrict(entry, {i})
            one = np.float64(1.0)
            partial = part[0].push(part, [one if j == i else None for j in part[0].inputs(part)], True)
            ensure_number(partial, "an intermediate value")
            graph.join(place[i], at, partial)


def reached_from(entries: dict[int, Any], ends: Iterable[int]) -> set[int]:
    """The recorded values that results depend on."""
    found, ahead = set(), list(ends)
    while ahead:
        i = ahead.pop()
        if i in entries and i not in found:
            found.add(i)
            ahead += entries[i][0].inputs(entries[i])
    return found


def ensure_number(x: Any, what: str) -> None:
    """Refuse arrays and complex numbers."""
    dtype = getattr(x, "dtype", None)  # (several results together have none)
    if np.shape(x) or dtype is None or dtype.kind != "f":
        raise TypeError(
            f"eliminate: {what} has shape {np.shape(x)} and dtype {dtype}, and vertices are real numbers: write the "
            "program with one number each, f(a, b) in the place of f(x) with x[0] and x[1]"
        )
