"""inspect.eliminate: the Jacobian of every order is the Jacobian, and products are counted as by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from caseform import Case, Special
from cases import CASES

import dualtape as dt
from dualtape.inspect import Elimination, eliminate
from dualtape.transforms import elimination

ORDERS = ("forward", "reverse", "markowitz", "optimal")
X = np.array([0.3, 0.7, 1.1])
M = np.array([[0.5, -1.0, 2.0], [0.25, 1.5, -0.75]])


# ------------------------------------------------------------------ counts
def speelpenning(n: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = x[0]
        for k in range(1, n):
            y = y * x[k]
        return y

    return f


def counts(f: Any, *args: Any) -> dict[str, int]:
    return {order: eliminate(f, *args, order=order).mults for order in ORDERS}


@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_a_product_of_many(n: int) -> None:
    """Left to right: k + 2 partials into the k-th product, 1 out of it. Right to left: 2 and 1 each time."""
    forward, reverse = n * (n - 1) // 2 - 1, 2 * (n - 2)
    expected = {"forward": forward, "reverse": reverse, "markowitz": reverse, "optimal": reverse}
    assert counts(speelpenning(n), np.linspace(1.0, 2.0, n)) == expected


def curve(x: Any) -> Any:
    """One input, a chain of two, four results."""
    v = np.sin(np.cos(x))
    return [v * c for c in (2.0, 3.0, 4.0, 5.0)]


def waist(x: Any) -> Any:
    """Three inputs through one vertex to three results, with a vertex between on both sides."""
    a = np.exp(np.sin(x[0] * x[1] * x[2]))
    return [np.sin(a), np.cos(a), np.tan(a)]


def ahead(x: Any, y: Any) -> Any:
    """a by x and y; b by a alone, c by b and a: a is read twice."""
    a = x * y
    b = np.sin(a)
    return np.exp(b), b * a


# What each order multiplies and adds, by hand: edges in times edges out of each vertex when its turn comes.
BY_HAND: dict[str, Any] = {
    # cos: 1 x 1, sin: 1 x 4; or sin: 1 x 4, cos: 1 x 4.
    "curve": (curve, (0.5,), {"forward": (5, 0), "reverse": (8, 0), "markowitz": (5, 0), "optimal": (5, 0)}),
    # Two products, sin, exp: 2, 3, 3, 9; or exp, sin, two products: 3, 3, 6, 6. Best is the waist last, what is before
    # it from its end: sin 1, products 2 and 2, exp 9.
    "waist": (waist, (X,), {"forward": (17, 0), "reverse": (18, 0), "markowitz": (14, 0), "optimal": (14, 0)}),
    # a: 2 into it, to b and c: 4; b: x and y into it, two out: 4 with sums into c twice. b first: 1 x 2, its second
    # path to c is a sum; a: 2 x 2.
    "ahead": (ahead, (0.5, 0.7), {"forward": (8, 2), "reverse": (6, 1), "markowitz": (6, 1), "optimal": (6, 1)}),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", BY_HAND)
def test_counts_are_those_by_hand(name: str, order: str) -> None:
    f, args, expected = BY_HAND[name]
    found = eliminate(f, *args, order=order)
    assert (found.mults, found.adds) == expected[order]


def test_the_vertices_and_the_order_are_named() -> None:
    found = eliminate(ahead, 0.5, 0.7, order="reverse")
    assert found.vertices == ("multiply", "sin") and found.order == (1, 0)
    assert eliminate(lambda x: np.sin(2.0 * x), X).vertices == ("multiply[0]", "multiply[1]", "multiply[2]")
    again = eliminate(ahead, 0.5, 0.7, order=found.order)
    np.testing.assert_array_equal(again.jacobian, found.jacobian)
    assert again[1:] == found[1:]


class Counted(float):
    """A number that counts its products and sums."""

    mults = adds = 0

    def __mul__(self, other: float) -> Counted:
        Counted.mults += 1
        return Counted(float(self) * other)

    def __add__(self, other: float) -> Counted:
        Counted.adds += 1
        return Counted(float(self) + other)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_counted_is_what_the_numbers_are_asked_for(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    link = elimination.Graph.link
    monkeypatch.setattr(elimination.Graph, "link", lambda graph, i, j, partial: link(graph, i, j, Counted(partial)))
    Counted.mults = Counted.adds = 0
    found = eliminate(waist, X, order=order), eliminate(ahead, 0.5, 0.7, order=order)
    assert (Counted.mults, Counted.adds) == (sum(e.mults for e in found), sum(e.adds for e in found))


def test_a_layer_eliminated_is_a_product_of_matrices() -> None:
    a, b, c = (np.ones(s) for s in ((2, 3), (4, 2), (5, 4)))
    found = eliminate(lambda x: c @ (b @ (a @ x)), np.ones(3), order="forward")
    assert (found.mults, found.adds) == (4 * 2 * 3 + 5 * 4 * 3, 4 * 1 * 3 + 5 * 3 * 3)
    found = eliminate(lambda x: c @ (b @ (a @ x)), np.ones(3), order="reverse")
    assert found.mults == 5 * 4 * 2 + 5 * 2 * 3


# ------------------------------------------------------------------ the Jacobian
PROGRAMS: dict[str, Any] = {
    "an array": (lambda x: np.sin(x) * np.roll(x, 1), (X,)),
    "a matrix": (lambda x: np.exp(M @ x), (X,)),
    "twice the same": (lambda x: x * x + x[[0, 0, 2]], (X,)),
    "two arguments": (lambda x, y: np.outer(x, y) @ np.tanh(y), (X, X[:2])),
    "a reduction": (lambda x: dt.special.logsumexp(x * M, axis=1), (X,)),
    "a maximum": (lambda x: np.max(x * M, axis=0), (X,)),
    "a choice": (lambda x: np.where(x > 0.5, np.log(x), x), (X,)),
    "an assignment": (lambda x: assigned(x), (X,)),
    "results joined": (lambda x: np.concatenate([x[:1] * 2.0, x, np.zeros(2)]), (X,)),
    "an eigenvalue": (lambda x: np.linalg.eigvalsh(np.outer(x, x) + np.diag(x)), (X,)),
    "several results of one operation": (lambda x: np.prod(np.linalg.slogdet(np.diag(x) + 0.1)[1]) * x, (X,)),
    "a sum along": (lambda x: np.cumsum(np.sin(x)) / np.cumprod(x), (X,)),
    "a gradient": (lambda x: dt.grad(lambda y: np.sum(np.sin(y) * y[0]))(x), (X[:2],)),
    "a custom rule": (lambda x: own(x) * x, (X,)),
    "nothing between": (lambda x: x[::-1], (X,)),
    "a constant": (lambda x: np.ones(2), (X,)),
    "an infinite slope": (lambda x: np.sqrt(x)[1:] * 2.0, (np.array([0.0, 1.0, 2.0]),)),
}


def assigned(x: Any) -> Any:
    y = dt.zeros(4)
    y[1:] = np.sin(x)
    y[0] = x[0] * x[2]
    return y * y


@dt.custom_gradient
def own(x: Any) -> Any:
    return np.sin(x), lambda g: g * np.cos(x)


def ensure_equal(found: Elimination, f: Any, args: Any) -> None:
    blocks = dt.jacobian(f, argnums=tuple(range(len(args))))(*args)
    rows = len(found.jacobian)
    full = np.concatenate([np.reshape(b, (rows, np.size(x))) for b, x in zip(blocks, args, strict=True)], axis=1)
    assert found.jacobian.shape == full.shape
    np.testing.assert_allclose(found.jacobian, full, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("order", ["forward", "reverse", "markowitz"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_jacobian_of_arrays_is_the_jacobian(name: str, order: str) -> None:
    f, args = PROGRAMS[name]
    ensure_equal(eliminate(f, *args, order=order), f, args)


BINARY: list[Any] = [np.multiply, np.add, np.subtract, np.hypot, np.logaddexp, np.arctan2]
UNARY: list[Any] = [np.sin, np.exp, np.tanh, np.square, lambda x: 0.5 * x]


def random_program(seed: int, length: int) -> Callable[[Any], Any]:
    """Operations on what was computed before, of which some is read never and some several times."""
    rng = np.random.default_rng(seed)
    steps = [(rng.integers(2), rng.integers(5), *rng.integers(0, 3 + k, 2)) for k in range(length)]
    ends = rng.integers(0, 3 + length, 4)

    def f(x: Any) -> Any:
        values = list(x)
        for two, which, a, b in steps:
            values.append(BINARY[which](values[a], values[b]) if two else UNARY[which](values[a]))
        return dt.stack([values[k] for k in ends])

    return f


@pytest.mark.parametrize("seed", range(20))
def test_the_jacobian_of_every_order_is_the_jacobian(seed: int) -> None:
    f = random_program(seed, 10)
    best = eliminate(f, X, order="optimal")
    n = len(best.vertices)
    for order in (*ORDERS, tuple(np.random.default_rng(seed).permutation(n).tolist())):
        found = eliminate(f, X, order=order)
        ensure_equal(found, f, (X,))
        assert found.mults >= best.mults and sorted(found.order) == list(range(n))


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_the_best_of_all_orders(seed: int) -> None:
    f = random_program(100 + seed, 7)
    best = eliminate(f, X, order="optimal")
    orders = list(permutations(range(len(best.vertices))))
    stride = 1 + len(orders) // 120  # among hundreds of orders, every so many
    least = min(eliminate(f, X, order=order).mults for order in [*orders[::stride], best.order])
    assert best.mults == least
    if stride == 1:
        assert least == min(eliminate(f, X, order=order).mults for order in orders)


REAL = [c for c in CASES if isinstance(c, Case | Special) and all(x.dtype.kind != "c" for x in map(np.asarray, c.args))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", sorted({c.row for c in REAL}))
def test_every_row_gives_its_partials(row: str) -> None:
    """At ordinary points and at special ones, where what is not taken is not reached."""
    for case in [c for c in REAL if c.row == row]:
        moving = [k for k, x in enumerate(case.args) if np.asarray(x).dtype.kind == "f"]

        def f(*xs: Any, case: Any = case, moving: list[int] = moving) -> Any:
            given = dict(zip(moving, xs, strict=True))
            y = case.f(*[given.get(k, x) for k, x in enumerate(case.args)])
            return dt.concat([np.ravel(part) for part in y]) if isinstance(y, tuple) else np.ravel(y)

        args = [case.args[k] for k in moving]
        try:
            found = eliminate(f, *args, order="reverse")
        except TypeError as refused:
            assert "complex numbers" in str(refused)
            continue
        ensure_equal(found, f, args)


# ------------------------------------------------------------------ refusals
def test_too_many_vertices_are_refused_for_the_optimum_alone() -> None:
    x = np.ones(19)
    with pytest.raises(ValueError, match=r"there are 17 \(at most 16\); use \"markowitz\""):
        eliminate(speelpenning(19), x, order="optimal")
    assert eliminate(speelpenning(19), x).mults == 34


@pytest.mark.parametrize(
    ("f", "x", "order", "error", "said"),
    [
        (np.sin, 1.0, "best", ValueError, "forward, reverse, markowitz, optimal or a sequence of vertices, not 'best'"),
        (curve, 1.0, (0, 0), ValueError, "order has to name each of the 2 vertices once, 0 to 1"),
        (curve, 1.0, (0,), ValueError, "each of the 2 vertices once"),
        (np.sin, 1j, "forward", TypeError, "an argument is of complex numbers"),
        (lambda x: np.real(x * 1j), 1.0, "forward", TypeError, "multiply is of complex numbers"),
    ],
)
def test_what_cannot_be_is_refused(f: Any, x: Any, order: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        eliminate(f, x, order=order)
    assert dt.grad(lambda y: y * y)(3.0) == 6.0  # nothing is left on the stack


def test_numbers_are_needed_and_examples_have_them() -> None:
    with pytest.raises(TypeError, match="an argument has no numbers while a function is traced; call it outside"):
        dt.inspect.performed(lambda x: np.sin(x) * eliminate(np.sin, x).jacobian, X)
    found = dt.vmap(lambda x: eliminate(np.sin, x).jacobian[0, 0])(X)
    np.testing.assert_allclose(found, np.cos(X), rtol=1e-15)
