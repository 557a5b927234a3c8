"""The column `pattern` of each row: what it predicts covers the Jacobian, and is the Jacobian's where it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from caseform import Absent, Case, Special
from cases import CASES

import dualtape as dt
from dualtape.core import recorders
from dualtape.core.families import general
from dualtape.core.lookup import ROWS
from dualtape.core.recorders import Recorder
from dualtape.core.tensor import Node
from dualtape.facts import patterns
from dualtape.facts.costs import Performed
from dualtape.facts.patterns import reached

pytestmark = pytest.mark.filterwarnings("ignore")

SMOOTH = [c for c in CASES if isinstance(c, Case)]
KINKS = [c for c in CASES if isinstance(c, Special)]
CUTS = [c for c in CASES if isinstance(c, Absent)]


def named(cases: Any) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])


def varies(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def results(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


# ------------------------------------------------------------------ the reader
class Follower(Recorder):
    """Which elements of some inputs reach each element of each value: a boolean matrix for each, one column an input.

    It adds up, over the operands of an operation, its own pattern times what is known of the operand.
    """

    def __init__(self, inputs: list[Any]) -> None:
        super().__init__(None)
        self.count = sum(x.size for x in inputs)
        columns = np.split(np.eye(self.count, dtype=bool), np.cumsum([x.size for x in inputs])[:-1])
        self.reach = {x._node.id: m for x, m in zip(inputs, columns, strict=True)}

    def tracks(self, node: Any) -> bool:
        return node.id in self.reach

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Any) -> None:
        values = tuple(a.value if isinstance(a, Node) else a for a in operands)
        known = [self.reach.get(a.id) if isinstance(a, Node) else None for a in operands]
        active = tuple(m is not None for m in known)
        op = Performed(tuple(map(np.shape, values)), tuple(np.shape(o.value) for o in outs), active, params, values)
        for j, out in enumerate(outs):
            total = np.zeros((np.size(out.value), self.count), bool)
            for k, m in enumerate(known):
                if m is not None:
                    own = np.zeros((len(total), len(m)), bool)
                    own[reached(row, op, k, j)] = True
                    total |= own @ m
            if any(active):
                self.reach[out.id] = total

    def of(self, y: Any) -> Any:
        return self.reach.get(y._node.id, np.zeros((y.size, self.count), bool))


def predicted(f: Any, args: Any) -> Any:
    """The pattern of the Jacobian of a function: of all results by all floating arguments, one after the other."""
    xs = [dt.constant(x) for x in args]
    follower = Follower([x for x in xs if varies(x)])
    recorders.enter(follower)
    try:
        with np.errstate(all="ignore"):
            ys = results(f(*xs))
    finally:
        recorders.leave(follower)
    return np.concatenate([follower.of(y) for y in ys])


# ------------------------------------------------------------------ what it is compared with
def nonzeros(f: Any, args: Any, jacobian: Any) -> Any:
    """Where the Jacobian of a function at a point is not zero; of complex numbers, in one of their parts."""
    split = [k for k, x in enumerate(args) if np.asarray(x).dtype.kind == "c"]
    moving = [k for k, x in enumerate(args) if varies(x)]
    parts = [np.real(args[k]) for k in moving] + [np.imag(args[k]) for k in split]

    def flat(*given: Any) -> Any:
        xs = list(args)
        for k, part in zip(moving, given, strict=False):
            xs[k] = part
        for k, part in zip(split, given[len(moving) :], strict=True):
            xs[k] = xs[k] + 1j * part
        ys = [np.ravel(y) for y in results(f(*xs))]
        return np.concatenate([np.real(y) for y in ys]), np.concatenate([np.imag(y) for y in ys])

    with np.errstate(all="ignore"):
        found = jacobian(flat, argnums=tuple(range(len(parts))))(*parts)
    both = [
        sum(np.reshape(of_part[k] != 0, (len(of_part[k]), x.size)) for of_part in found) > 0
        for k, x in enumerate(parts)
    ]
    for k, more in zip(split, both[len(moving) :], strict=True):
        both[moving.index(k)] = both[moving.index(k)] | more
    return np.concatenate(both[: len(moving)], axis=1)


def nearby(args: Any, step: float) -> Any:
    """Another point, also for elements that are zero or equal."""
    shifts = [step * np.linspace(0.5, 1, x.size).reshape(x.shape) for x in args]
    return [x * (1 + s) + s if varies(x) else x for x, s in zip(args, shifts, strict=True)]


def actual(f: Any, args: Any) -> Any:
    """The nonzeros of the Jacobian near a point: at it and at two others, in both modes."""
    found = nonzeros(f, args, dt.jacfwd)
    for step, mode in ((0.0, dt.jacrev), (1e-3, dt.jacfwd), (-2e-3, dt.jacrev)):
        found = found | nonzeros(f, nearby(args, step), mode)
    return found


# Rows (or single cases) whose pattern is larger than the nonzeros, and why. All others are exact.
CHOSEN = "which operand or element is taken is decided by the values: another point reaches others"
FACTORS = "a triangle is not told from a full matrix"
ZERO = "a constant zero makes the derivative zero"
LOOSE = {
    **dict.fromkeys(("max", "min", "maximum", "minimum", "fmax", "fmin", "huber"), CHOSEN),
    **dict.fromkeys(("cholesky", "qr", "solve_triangular"), FACTORS),
    **dict.fromkeys(("power-zeroth", "power-integer array", "multiply-linspace", "multiply-zeroth matrix_power"), ZERO),
    "imag-real operand": "the imaginary part of real numbers is zero",
    "eig": "the imaginary part of real eigenvalues is zero",
    "logsumexp-large": "a difference of 1000 underflows",
    "chosen": "of its second operand it tells only where there is no derivative, and that by NaN",
}


def is_loose(case: Case) -> bool:
    return bool(np.any(predicted(case.f, case.args) & ~actual(case.f, case.args)))


def ensure_covered(case: Case, exact: bool) -> None:
    there, found = predicted(case.f, case.args), actual(case.f, case.args)
    assert there.shape == found.shape
    assert not np.any(found & ~there), f"nonzeros that were not predicted, at {np.argwhere(found & ~there).tolist()}"
    assert not exact or not np.any(there & ~found), f"predicted, but zero: {np.argwhere(there & ~found).tolist()}"


@named(SMOOTH)
def test_the_predicted_pattern_is_that_of_the_jacobian(case: Case) -> None:
    """It covers the nonzeros always, and has no others except where it is said to be loose."""
    ensure_covered(case, exact=LOOSE.keys().isdisjoint((case.row, case.name)))


@pytest.mark.parametrize("name", LOOSE)
def test_what_is_said_to_be_loose_is(name: str) -> None:
    assert any(is_loose(c) for c in SMOOTH if name in (c.row, c.name))


@named(KINKS)
def test_special_points_are_covered(case: Special) -> None:
    mode = dt.jacfwd if case.forward else dt.jacrev
    assert not np.any(nonzeros(case.f, case.args, mode) & ~predicted(case.f, case.args))


@named([c for c in CUTS if any(varies(x) for x in c.args)])
def test_nothing_reaches_through_an_operation_without_derivative(case: Absent) -> None:
    assert not np.any(predicted(case.f, case.args))


def test_every_row_states_its_pattern() -> None:
    """``dense``, what holds of any row, is never wrong and never of use; a row that needs it is named here."""
    rows = [ROWS[name] for name in {c.row for c in CASES}]
    assert {row.name for row in rows if row.kind != "absent" and row.pattern is patterns.dense} == set()


# ------------------------------------------------------------------ the check itself
MOVING = sorted({c.row for c in SMOOTH} - {"sign", "gammasgn"})


@pytest.mark.parametrize("name", MOVING)
def test_a_pattern_that_is_too_small_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each row, with the last element of the result reached by one element less."""
    whole = ROWS[name].pattern

    def smaller(row: Any, op: Any, k: int, j: int) -> Any:
        into, of = whole(row, op, k, j)
        last = (into == into[-1:]) & (of == of[-1:])
        return into[~last], of[~last]

    monkeypatch.setattr(ROWS[name], "pattern", smaller)
    with pytest.raises(AssertionError, match="not predicted"):
        for case in SMOOTH:
            if case.row == name:
                ensure_covered(case, exact=False)


@pytest.mark.parametrize("name", ["add", "reshape", "sum", "cumsum", "matmul", "getitem", "stack", "inv", "solve"])
def test_a_pattern_that_is_too_large_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROWS[name], "pattern", patterns.dense)
    with pytest.raises(AssertionError, match="but zero"):
        for case in SMOOTH:
            if case.row == name:
                ensure_covered(case, exact=True)


@named(list({c.row: c for c in reversed(SMOOTH) if c.order > 1 and all(x.dtype.kind == "f" for x in c.args)}.values()))
def test_the_program_of_a_gradient_covers_the_hessian(case: Case) -> None:
    """Rules are made of rows, so following a gradient gives the pattern of second derivatives."""

    def total(*xs: Any) -> Any:
        return sum(np.sum(np.sin(np.real(y))) + np.sum(np.imag(y) ** 2) for y in results(case.f(*xs)))

    argnums = tuple(range(len(case.args)))
    found = nonzeros(dt.grad(total, argnums=argnums), case.args, dt.jacfwd)
    assert not np.any(found & ~predicted(dt.grad(total, argnums=argnums), case.args))


def test_a_row_of_a_user_is_covered() -> None:
    """One partial says enough; of rules written out nothing is known, and everything is said to reach everything."""
    x = np.linspace(0.5, 1.5, 4)
    cube = dt.extend.operation(lambda x: x**3, partials=lambda x: 3 * x**2, name="test cube")
    twice = dt.extend.operation(lambda x: x * 2, jvp=lambda t: t * 2, vjp=lambda g: g * 2, name="test twice")
    for name in ("test cube", "test twice"):
        del ROWS[name]
    assert np.array_equal(predicted(cube, [x]), np.eye(4))
    assert np.all(predicted(twice, [x]))


def test_an_operand_without_derivative_reaches_nothing_and_may_say_what_is_reached() -> None:
    def rule(t: Any, x: Any) -> Any:
        return t * x

    pick = general(
        lambda x, y: np.where(x, y, 0), name="test pick", jvp=[None, rule], vjp=[None, rule], pattern=patterns.moved
    )
    del ROWS["test pick"]
    x = np.array([1.0, 0.0, 2.0])
    assert np.array_equal(predicted(pick, [x, x]), np.hstack([np.zeros((3, 3)), np.diag(x > 0)]))


# ------------------------------------------------------------------ programs
def band(n: int, below: int, above: int) -> Any:
    return np.tri(n, k=above, dtype=bool) & ~np.tri(n, k=-below - 1, dtype=bool)


def stencil(x: Any) -> Any:
    return x[:-2] - 2 * x[1:-1] + x[2:] + x[1:-1] ** 2


def written(x: Any) -> Any:
    y = dt.zeros(x.shape[0])
    y[0], y[-1] = x[0], x[-1]
    y[1:-1] = stencil(x)
    return y


def tridiagonal(x: Any) -> Any:
    return x * np.exp(x) + np.concatenate([np.sin(x[1:]), np.zeros(1)]) - np.pad(x[:-1] ** 2, (1, 0))


def matrix_of(x: Any) -> Any:
    """A product with a matrix that holds x on three diagonals: its entries are zero, but nobody knows."""
    return np.diag(x) @ np.cos(x) + np.diag(x[1:], 1).sum(axis=1)


def loop(x: Any) -> Any:
    y = [x[0]]
    for k in range(1, x.shape[0]):
        y.append(x[k] * x[k - 1] + np.tanh(x[k]))
    return np.stack(y)


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def blocks(x: Any) -> Any:
    return np.linalg.solve(np.reshape(x, (2, 2, 2)) + 3 * np.eye(2), np.ones((2, 1)))


PROGRAMS = {
    "stencil": (stencil, band(8, 0, 2)[:6]),
    "stencil written into an array": (written, np.vstack([np.eye(1, 8), band(8, 0, 2)[:6], np.eye(1, 8, 7)]) > 0),
    "tridiagonal": (tridiagonal, band(8, 1, 1)),
    "dense by its operands": (matrix_of, np.ones((8, 8), bool)),
    "loop over elements": (loop, band(8, 1, 0)),
    "moving sum": (lambda x: np.cumsum(x)[3:] - 0.0, band(8, 7, 3)[:5]),
    "Hessian, from the gradient's program": (dt.grad(rosenbrock), band(8, 1, 1)),
    "systems in a stack": (blocks, np.kron(np.eye(2), np.ones((2, 4))) > 0),
    "einsum": (lambda x: np.einsum("ij,ij->i", x.reshape(2, 4), x.reshape(2, 4)), np.kron(np.eye(2), np.ones(4)) > 0),
    "a Variable that is read": (lambda x: dt.Variable(np.ones(8)) * x, band(8, 0, 0)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_pattern_of_a_program(name: str) -> None:
    f, expected = PROGRAMS[name]
    assert np.array_equal(predicted(f, [np.linspace(0.3, 1.9, 8)]), expected)
