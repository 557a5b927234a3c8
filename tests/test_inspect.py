"""trace and cost: what a program does, and the work it takes, counted exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.facts.costs import Work

X = np.array([0.2, 0.4, 0.6])


def example(x: Any, y: Any) -> Any:
    """The function of the two evaluation traces in Baydin et al., JMLR 18(153), 2018."""
    return np.log(x) + x * y - np.sin(y)


# ------------------------------------------------------------------ trace
def test_the_evaluation_trace() -> None:
    t = dt.inspect.trace(example, 2.0, 5.0, tangents=(1.0, 0.0), adjoint=True)
    assert [node.name for node in t.nodes] == ["input", "input", "log", "multiply", "add", "sin", "subtract"]
    assert [node.inputs for node in t.nodes] == [(), (), (0,), (0, 1), (2, 3), (1,), (4, 5)]
    assert [node.index for node in t.nodes] == list(range(7))
    assert t.outputs == (6,)
    values = [2, 5, math.log(2), 10, math.log(2) + 10, math.sin(5), math.log(2) + 10 - math.sin(5)]
    assert [float(node.value) for node in t.nodes] == pytest.approx(values, rel=1e-15)
    assert [float(node.tangent) for node in t.nodes] == [1.0, 0.0, 0.5, 5.0, 5.5, 0.0, 5.5]
    adjoints = [5.5, 2 - math.cos(5), 1, 1, 1, -1, 1]
    assert [float(node.adjoint) for node in t.nodes] == pytest.approx(adjoints, rel=1e-15)
    assert dt.inspect.cost(example, 2.0, 5.0).nodes == 5


def test_a_trace_without_derivatives() -> None:
    t = dt.inspect.trace(lambda x: np.sum(x * 2.0), X)
    assert [node.shape for node in t.nodes] == [(3,), (3,), ()]
    assert all(node.tangent is None and node.adjoint is None for node in t.nodes)
    assert t.nodes[1].inputs[1].value == 2.0  # a constant shows its value
    assert not isinstance(t.nodes[1].value, dt.Tensor)


def test_a_trace_shows_comparisons_and_positions() -> None:
    t = dt.inspect.trace(lambda x: np.where(x > 0.3, x, 0), X, tangents=(np.ones(3),), adjoint=False)
    assert [node.name for node in t.nodes] == ["input", "greater", "select"]
    assert t.nodes[1].inputs[0] == 0 and t.nodes[2].inputs[:2] == (1, 0)
    assert t.nodes[1].tangent is None and t.nodes[1].value.dtype == bool
    np.testing.assert_array_equal(t.nodes[2].tangent, [0.0, 1.0, 1.0])
    t = dt.inspect.trace(lambda x: x[np.argmax(x)] ** 2, X, adjoint=True)
    assert [node.name for node in t.nodes] == ["input", "argmax", "getitem", "square"]
    assert t.nodes[2].inputs == (0, 1)
    assert t.nodes[1].adjoint is None and float(t.nodes[2].adjoint) == pytest.approx(1.2)


def test_comparisons_cost_nothing() -> None:
    plain = dt.inspect.cost(lambda x: np.where(X > 0.3, x, 0.0), X)
    assert dt.inspect.cost(lambda x: np.where(x > 0.3, x, 0.0), X) == plain
    assert plain.evaluation == Work(moves=7, adds=3)


def test_a_trace_of_structures_and_several_results() -> None:
    t = dt.inspect.trace(lambda p: {"a": p["x"] * p["y"], "same": p["x"]}, {"x": X, "y": 2.0})
    assert [node.name for node in t.nodes] == ["input", "input", "multiply"]
    assert t.outputs == (2, 0)
    t = dt.inspect.trace(lambda x: (np.exp(x), 3.0), 1.0)
    assert t.outputs == (1, -1)  # the second does not depend on the input


def test_a_trace_leaves_out_what_is_constant_and_sees_through_levels() -> None:
    c = dt.constant(2.0)
    t = dt.inspect.trace(lambda x: np.exp(c) * x, 1.0)
    assert [node.name for node in t.nodes] == ["input", "multiply"]
    t = dt.inspect.trace(lambda x: dt.jvp(np.sin, (x,), (1.0,))[1], 1.0)
    assert "cos" in [node.name for node in t.nodes]
    with dt.GradientTape() as tape:  # and disturbs nobody
        tape.watch(c)
        dt.inspect.trace(lambda x: x * x, 1.0)
        y = c * c
    assert float(tape.gradient(y, c)) == 4.0
    with pytest.raises(ZeroDivisionError):
        dt.inspect.trace(lambda x: 1 / 0, 1.0)
    assert dt.grad(lambda x: x * x)(1.0) is not None


# ------------------------------------------------------------------ cost
SUM = ((3, 1, 0, 0), (6, 2, 0, 0), (9, 3, 0, 0))
PRODUCT = ((3, 0, 1, 0), (6, 1, 3, 0), (11, 2, 3, 0))
NONLINEAR = ((2, 0, 0, 1), (4, 0, 1, 2), (7, 1, 1, 2))
TWICE = ((2, 0, 0, 2), (4, 0, 1, 4), (7, 1, 1, 4))
WORK: dict[str, tuple[Callable[..., Any], int, Any]] = {
    "add": (np.add, 2, SUM),
    "subtract": (np.subtract, 2, SUM),
    "multiply": (np.multiply, 2, PRODUCT),
    "divide": (np.divide, 2, PRODUCT),
    **{f.__name__: (f, 1, NONLINEAR) for f in (np.exp, np.log, np.sin, np.cos, np.tan, np.tanh, np.sqrt, np.sinh)},
    **{f.__name__: (f, 1, TWICE) for f in (np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arctanh)},
}
WAYS = ("evaluation", "tangent", "adjoint")


def works(cost: Any) -> dict[str, Work]:
    """Evaluation; evaluation with one tangent; evaluation with the adjoint."""
    value = cost.evaluation + cost.partials
    return {"evaluation": cost.evaluation, "tangent": value + cost.tangent, "adjoint": value + cost.adjoint}


@pytest.mark.parametrize("size", [(), (1,), (7,), (2, 5)])
@pytest.mark.parametrize("name", WORK)
def test_the_work_of_elementals(name: str, size: tuple[int, ...]) -> None:
    f, operands, expected = WORK[name]
    found = works(dt.inspect.cost(f, *[np.full(size, 0.5)] * operands))
    n = math.prod(size)
    assert [found[way] for way in WAYS] == [tuple(n * count for count in counts) for counts in expected]


RATIOS = {
    "gw": {"add": (2, 3), "multiply": (Fraction(5, 2), 4), "sin": (Fraction(9, 4), Fraction(13, 4))},
    "flops": {"add": (2, 3), "multiply": (4, 5), "sin": (Fraction(5, 2), 3)},
    "mults": {"multiply": (3, 3), "sin": (3, 3)},
}


@pytest.mark.parametrize("weighting", RATIOS)
def test_the_ratios_that_follow(weighting: str) -> None:
    for name, expected in RATIOS[weighting].items():
        f, operands, _ = WORK[name]
        w = {way: work.weigh(weighting) for way, work in works(dt.inspect.cost(f, *[X] * operands)).items()}
        assert (Fraction(w["tangent"], w["evaluation"]), Fraction(w["adjoint"], w["evaluation"])) == expected


def test_sums_matrices_and_moves() -> None:
    def evaluation(f: Callable[..., Any], *args: Any) -> Work:
        return dt.inspect.cost(f, *args).evaluation

    assert evaluation(np.sum, np.ones(10)) == (11, 9, 0, 0)
    assert evaluation(lambda x: np.sum(x, axis=0), np.ones((4, 3))) == (15, 9, 0, 0)
    assert evaluation(np.matmul, np.ones((2, 3)), np.ones((3, 4))) == (6 + 12 + 8, 2 * 2 * 4, 24, 0)
    for move in (lambda x: np.reshape(x, (3, 2)), np.transpose, lambda x: x[:], lambda x: np.concatenate([x, x])):
        w = evaluation(move, np.ones((2, 3)))
        assert w[1:] == (0, 0, 0) and w.moves > 0


def test_the_matrix_product_with_one_operand_fixed() -> None:
    """With both operands active a gradient is three products, with one it is two."""
    a, b = np.ones((20, 20)), np.ones((20, 20))
    both = works(dt.inspect.cost(np.matmul, a, b))
    one = works(dt.inspect.cost(np.matmul, a, b, argnums=0))
    assert both["adjoint"].mults == 3 * both["evaluation"].mults
    assert one["adjoint"].mults == 2 * one["evaluation"].mults


def test_a_fixed_operand_costs_less() -> None:
    both, one = (works(dt.inspect.cost(np.multiply, X, X, argnums=k)) for k in ((0, 1), 0))
    assert one["adjoint"].mults == 2 * 3 and both["adjoint"].mults == 3 * 3
    assert dt.inspect.cost(lambda x: x * 2.0, X).evaluation.mults == 3


@pytest.mark.parametrize("n", [2, 8, 64])
def test_a_product_of_many(n: int) -> None:
    """Left to right, n - 1 products; a gradient needs no more than three times as many multiplications."""

    def speelpenning(x: Any) -> Any:
        y = x[0]
        for k in range(1, n):
            y = y * x[k]
        return y

    w = works(dt.inspect.cost(speelpenning, np.full(n, 1.01)))
    assert w["evaluation"].mults == n - 1
    assert w["adjoint"].mults == 3 * (n - 1)
    assert w["adjoint"].weigh("gw") <= 4 * w["evaluation"].weigh("gw")
    assert w["adjoint"].weigh("flops") <= 5 * w["evaluation"].weigh("flops")


def test_work_adds_up_over_a_program() -> None:
    parts = [dt.inspect.cost(f, X) for f in (np.sin, np.exp)]
    whole = dt.inspect.cost(lambda x: np.exp(np.sin(x)), X)
    for field in ("evaluation", "partials", "tangent", "adjoint"):
        assert getattr(whole, field) == getattr(parts[0], field) + getattr(parts[1], field)
    assert (whole.nodes, whole.nbytes) == (2, 2 * X.nbytes)  # sin keeps its operand, exp its result


def test_cost_counts_what_depends_on_the_arguments_alone() -> None:
    assert dt.inspect.cost(lambda x: 3.0, 1.0) == (Work(), Work(), Work(), Work(), 0, 0)
    c = dt.constant(X)
    assert dt.inspect.cost(lambda x: np.sin(c) + x, X).evaluation == Work(9, 3, 0, 0)


def test_weightings() -> None:
    w = Work(1, 10, 100, 1000)
    assert (w.weigh("flops"), w.weigh("gw"), w.weigh("mults")) == (2110, 2111, 1100)
    assert w + w == 2 * w == w * 2 == Work(2, 20, 200, 2000)
    assert sum([w, w], Work()) == 2 * w
