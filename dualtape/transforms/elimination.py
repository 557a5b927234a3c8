"""A Jacobian by elimination: the graph of the local partials of a program, its vertices taken out one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dualtape.core import recorders
from dualtape.core.reached import pushed
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.standin import Standin
from dualtape.core.table import Row
from dualtape.core.tensor import Node
from dualtape.facts import patterns
from dualtape.facts.costs import Performed
from dualtape.facts.patterns import reached
from dualtape.transforms.arguments import ensure_callable, results, sources

# Orders are tried by subsets of the vertices, 2^16 of them in a second or two.
MOST = 16
# The place of an element that depends on no input.
CONSTANT = -1


class Elimination(NamedTuple):
    """A Jacobian, and what it took to eliminate the intermediate vertices in an order.

    ``jacobian`` has a row for each element of the results and a column for each element of the arguments. ``vertices``
    are the operations of the intermediate vertices, in the order they ran; ``order`` are their places in it.
    """

    jacobian: Any
    order: tuple[int, ...]
    mults: int
    adds: int
    vertices: tuple[str, ...]


class Graph:
    """The local partials: of ``after[i][j]`` and ``before[j][i]``, that of vertex j by vertex i. Inputs come first."""

    def __init__(self, inputs: int) -> None:
        self.after: list[dict[int, Any]] = [{} for _ in range(inputs)]
        self.before: list[dict[int, Any]] = [{} for _ in range(inputs)]
        self.names = [""] * inputs

    def vertex(self, name: str) -> int:
        """A new one."""
        self.after.append({})
        self.before.append({})
        self.names.append(name)
        return len(self.names) - 1

    def link(self, i: int, j: int, partial: Any) -> None:
        """The partial of j by i."""
        self.after[i][j] = self.before[j][i] = partial

    def eliminate(self, v: int) -> tuple[int, int]:
        """Take out a vertex: each path through it becomes a product. How many products, how many sums."""
        mults = adds = 0
        into, out = self.before[v], self.after[v]
        for i, a in into.items():
            row = self.after[i]
            del row[v]
            for j, b in out.items():
                partial = b * a
                mults += 1
                if j in row:
                    partial = row[j] + partial
                    adds += 1
                row[j] = self.before[j][i] = partial
        for j in out:
            del self.before[j][v]
        self.before[v], self.after[v] = {}, {}
        return mults, adds

    def prune(self, inputs: int, ends: set[int]) -> None:
        """Take out what no input leads to, and what leads to none of the ``ends``."""
        for v in range(inputs, len(self.names)):
            if not self.before[v]:
                for j in self.after[v]:
                    del self.before[j][v]
                self.after[v] = {}
        for v in reversed(range(len(self.names))):
            if v not in ends and not self.after[v]:
                for i in self.before[v]:
                    del self.after[i][v]
                self.before[v] = {}


class Partials(Recorder):
    """Makes the graph while a program runs: a vertex for each element, its partials by the rules of the operation's own
    edges. What only moves elements makes no vertex."""

    def __init__(self, leaves: Sequence[Node]) -> None:
        super().__init__(None)
        sizes = [leaf.value.size for leaf in leaves]
        self.graph = Graph(sum(sizes))
        places = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        # The vertex of each element of a value.
        self.known: dict[int, Any] = {leaf.id: p for leaf, p in zip(leaves, places, strict=True)}

    def tracks(self, node: Any) -> bool:
        return self.live and node.id in self.known

    def see(self, row: Row, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Stack) -> None:
        entry = entry and entry[0].restrict(entry, self.known)
        if not entry:
            return
        values = tuple([a.value if a.__class__ is Node else a for a in operands])
        ensure_real(row.name, [*values, *[out.value for out in outs]])
        active = tuple([a.__class__ is Node and a.id in self.known for a in operands])
        shapes = tuple([np.shape(v) for v in values]), tuple([out.value.shape for out in outs])
        op = Performed(*shapes, active, params, values)
        followed = {operands[k].id: operands[k].value for k, on in enumerate(active) if on}
        for j, out in enumerate(outs):
            pairs = [self.pairs(row, op, operands[k], k, j) for k, on in enumerate(active) if on]
            found = self.moved(out.value.size, pairs) if moves(row) else None
            self.known[out.id] = self.made(row, entry, followed, pairs, out, j) if found is None else found

    def pairs(self, row: Row, op: Performed, operand: Node, k: int, j: int) -> tuple[int, Any, Any]:
        """The operand, and which elements of result j depend on which elements of it; constants are left out."""
        into, of = reached(row, op, k, j)
        variable = self.known[operand.id][of] != CONSTANT
        return operand.id, into[variable], of[variable]

    def moved(self, size: int, pairs: Iterable[tuple[int, Any, Any]]) -> Any:
        """The vertices of elements that are those of operands, or constants; None if one comes from several."""
        places = np.full(size, CONSTANT)
        for i, into, of in pairs:
            if len(set(into)) < len(into) or np.any(places[into] != CONSTANT):
                return None
            places[into] = self.known[i][of]
        return places

    def made(self, row: Row, entry: Any, followed: dict[int, Any], pairs: Any, out: Node, j: int) -> Any:
        """New vertices for the elements of result j, with their partials by those of the operands."""
        graph, places = self.graph, np.full(out.value.size, CONSTANT)
        wanted: dict[int, dict[int, set[int]]] = {}  # operand, its element, elements of the result
        for i, into, of in pairs:
            for a, b in zip(into.tolist(), of.tolist(), strict=True):
                wanted.setdefault(i, {}).setdefault(b, set()).add(a)
                if places[a] == CONSTANT:
                    places[a] = 0
        label = row.name + ("[{}]" if out.value.shape else "")
        for a in np.flatnonzero(places != CONSTANT):
            where = ", ".join(map(str, np.unravel_index(a, out.value.shape)))
            places[a] = graph.vertex(label.format(where))
        ids = entry[0].inputs(entry)
        # Where another element is taken, or a mask is False, nothing is reached: 0 there beats an infinity.
        parts = () if not row.edges else entry[1:] if entry[0] is row else (entry,)
        chosen = any([part[0].partly(part[3]) or getattr(part[0], "selects", False) for part in parts])
        for i, elements in wanted.items():
            value = followed[i]
            for b, into in elements.items():
                unit = np.zeros(value.shape, value.dtype)
                unit.flat[b] = 1
                moved = pushed(entry, [unit[()] if k == i else None for k in ids], True)
                column = np.ravel(moved[j] if row.outputs > 1 else moved)
                for a in into:
                    start, end, partial = int(self.known[i][b]), int(places[a]), float(column[a])
                    if partial or not chosen:  # (an element that stands twice in an operand adds up)
                        graph.link(start, end, graph.after[start].get(end, 0.0) + partial)
        return places


def moves(row: Row) -> bool:
    """Whether results are elements of operands as they are."""
    return row.pattern is patterns.moved or (len(row.edges) == 1 and getattr(row.edges[0], "factor", None) == 1)


def ensure_real(name: str, values: Iterable[Any]) -> None:
    """Refuse complex numbers, and what stands for numbers that are not there."""
    for value in values:
        if isinstance(value, Standin):
            raise TypeError(f"eliminate: {name} has no numbers while a function is traced; call it outside")
        dtype = np.asarray(value).dtype
        if dtype.kind == "c":
            raise TypeError(f"eliminate: {name} is of complex numbers ({dtype}); write f in real and imaginary parts")


def eliminate(f: Callable[..., Any], *args: Any, order: str | Sequence[int] = "markowitz") -> Elimination:
    """The Jacobian of ``f`` by elimination of vertices, in an order that decides how many multiplications it takes.

    While ``f`` runs, the graph of its local partials is made: a vertex for each element of a value, an edge where an
    element depends on another, with the partial that the operation's own rules give. What moves elements (slices,
    reshapes, stacks) makes no vertex. To eliminate vertex v is to put, for each edge i -> v and each edge v -> j, the
    product of both on the edge i -> j, added to what is there. When all vertices between are gone, the edges left are
    the Jacobian. Eliminated in the order of the program they give forward mode's products, in the opposite order those
    of reverse mode. The rule of Markowitz takes at each step the vertex with the smallest number of edges in times
    edges out (Griewank & Reese, On the calculation of Jacobian matrices by the Markowitz rule, 1991). To find the best
    order is NP-complete (Naumann, Math. Program. 112, 2008; where partials are independent of each other, too, and
    under the exponential time hypothesis little is better than to look at all sets of vertices: Bentert et al.,
    arXiv:2506.17521, 2025).

    Every product is counted as it is performed, those with a partial of 1 too. A result that is also an argument, is
    read on or is returned twice has a vertex of its own, whose partial by it is 1.

    Args:
        f: a function of real arrays or nested structures of them.
        *args: its arguments.
        order: ``"forward"``, ``"reverse"``, ``"markowitz"`` (of equal vertices the last), ``"optimal"`` (the fewest
            multiplications there can be, by dynamic programming over the subsets of at most 16 vertices), or the
            places of all vertices in ``Elimination.vertices``, in the order to eliminate them.

    Returns:
        An ``Elimination``: the Jacobian of shape (elements of results, elements of arguments), the order, the number of
        multiplications and additions performed, the vertices.

    Raises:
        ValueError: for an order that is none, or ``"optimal"`` with more than 16 vertices.
        TypeError: for complex numbers.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> product = lambda x: x[0] * x[1] * x[2] * x[3]
        >>> for order in ("forward", "reverse"):
        ...     print(dt.inspect.eliminate(product, np.array([1.0, 2.0, 3.0, 4.0]), order=order).mults)
        5
        4
    """
    ensure_callable("eliminate", f)
    given = sources("eliminate", args, range(len(args)))
    leaves = [x._node for x in given.leaves]
    ensure_real("an argument", [leaf.value for leaf in leaves])
    partials = Partials(leaves)
    recorders.enter(partials)
    try:
        found = results(f(*given.args))[0]
    finally:
        recorders.leave(partials)
    graph, inputs = partials.graph, sum(leaf.value.size for leaf in leaves)
    constants = [np.full(y.size, CONSTANT) for y in found]
    ends = [int(v) for y, c in zip(found, constants, strict=True) for v in partials.known.get(y._node.id, c)]
    times = Counter(ends)
    for k, v in enumerate(ends):
        if v != CONSTANT and (v < inputs or graph.after[v] or times[v] > 1):
            ends[k] = graph.vertex("result")
            graph.link(v, ends[k], 1.0)
    graph.prune(inputs, set(ends))
    middle = [v for v in range(inputs, len(graph.names)) if graph.before[v] and graph.after[v]]
    mults = adds = 0
    taken = []
    for v in ordered(graph, middle, order):
        products, sums = graph.eliminate(v)
        mults, adds = mults + products, adds + sums
        taken.append(middle.index(v))
    jacobian = np.zeros((len(ends), inputs))
    for k, end in enumerate(ends):
        for i, partial in graph.before[end].items() if end != CONSTANT else ():
            jacobian[k, i] = partial
    return Elimination(jacobian, tuple(taken), mults, adds, tuple([graph.names[v] for v in middle]))


def ordered(graph: Graph, middle: list[int], order: str | Sequence[int]) -> Iterable[int]:
    """The vertices between inputs and results in an order; the rule of Markowitz looks at the graph as it is then."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise ValueError(f"eliminate: order is one of {', '.join(ORDERS)} or a sequence of vertices, not {order!r}")
        return ORDERS[order](graph, middle)
    if sorted(order) != list(range(len(middle))):
        raise ValueError(
            f"eliminate: order has to name each of the {len(middle)} vertices once, 0 to {len(middle) - 1}: {order!r}"
        )
    return [middle[k] for k in order]


def markowitz(graph: Graph, middle: list[int]) -> Iterable[int]:
    """At each step the last vertex of those that take the fewest products then.

    (Of x1 x2 ... xn all vertices are equal at first. The last ones first, it takes 2n - 4 products to eliminate them.)
    """
    left = list(reversed(middle))
    while left:
        v = min(left, key=lambda v: len(graph.before[v]) * len(graph.after[v]))
        left.remove(v)
        yield v


def optimal(graph: Graph, middle: list[int]) -> Iterable[int]:
    """An order with the fewest products.

    What is left when some vertices are gone does not depend on the order in which they went. So the best order for
    a set of vertices is the best one for all but its last, for each that can be last. Neighbours are bits of a number.
    """
    if len(middle) > MOST:
        raise ValueError(
            f'eliminate: order="optimal" looks at all sets of vertices, and there are {len(middle)} (at most {MOST}); '
            'use "markowitz", or a smaller program'
        )
    place = {v: k for k, v in enumerate([*middle, *(v for v in range(len(graph.names)) if v not in middle)])}
    bits = [[sum([1 << place[w] for w in near[v]]) for v in middle] for near in (graph.before, graph.after)]
    # Of each set that is gone: the products it took, and the neighbours of the vertices that are left.
    layer = {0: (0, bits[0], bits[1])}
    last: dict[int, int] = {}
    for _ in middle:
        larger: dict[int, tuple[int, list[int], list[int]]] = {}
        for gone, (cost, into, out) in layer.items():
            for k in range(len(middle)):
                if gone >> k & 1:
                    continue
                more, total = gone | 1 << k, cost + into[k].bit_count() * out[k].bit_count()
                known = larger.get(more)
                if known is None or total < known[0]:
                    left = known[1:] if known else (without(into, k), without(out, k))
                    larger[more] = total, *left
                    last[more] = k
        layer = larger
    gone, back = (1 << len(middle)) - 1, []
    while gone:
        back.append(middle[last[gone]])
        gone ^= 1 << last[gone]
    return reversed(back)


def without(sets: list[int], k: int) -> list[int]:
    """The neighbours in one direction when vertex k is gone: its own in its place."""
    bit, own = 1 << k, sets[k]
    return [s & ~bit | own if s & bit else s for s in sets]


ORDERS: dict[str, Callable[[Graph, list[int]], Iterable[int]]] = {
    "forward": lambda graph, middle: middle,
    "reverse": lambda graph, middle: reversed(middle),
    "markowitz": markowitz,
    "optimal": optimal,
}
