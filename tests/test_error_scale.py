"""The scale that errors are divided by: worked out by hand in the experiments, and here from the programs themselves.

Each operation of the program *of the derivative* rounds its result v by at most eps |v|, and moves the derivative by
the adjoint of v times that. S = sum |v| |adjoint of v| over all operations is therefore what eps in every operation
makes of the derivative, to first order, however much cancels where (Bauer's error analysis of a computational graph).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape import inspect
from experiments import helmholtz
from experiments.accuracy_vs_step import experiment as accuracy
from experiments.harness.config import Config
from experiments.hvp import problems as hvp_problems
from experiments.shared import counting
from experiments.shared.measure import scaled_error
from experiments.shared.problems import LONG, MANY_TO_ONE, Problem

PROBLEMS = (*MANY_TO_ONE, helmholtz.PROBLEM)
COPIES = {"input", "identity", "negative", "getitem", "setitem", "spread", "cast", "still", "select", "max"}


def rounds(node: Any) -> bool:
    """Whether a node of a trace rounds: copies, signs, doubling and products with powers of two do not."""
    if node.adjoint is None or node.name in COPIES:
        return False
    if node.name == "add":
        return node.inputs[0] != node.inputs[1]
    factors = [a.value for a in node.inputs if isinstance(a, inspect.Constant)]
    return node.name != "multiply" or not any(np.all(np.abs(np.frexp(factor)[0]) == 0.5) for factor in factors)


def moved(derivative: Callable[[Any], Any], x: Any) -> list[Any]:
    """|v| |adjoint of v| of each operation that rounds, in the program of a derivative.

    A matrix product rounds within: its terms take the place of its value.
    """
    nodes = inspect.trace(derivative, x, adjoint=True).nodes

    def size(node: Any) -> Any:
        if node.name != "matmul":
            return np.abs(node.value)
        a, b = (nodes[i].value if isinstance(i, int) else i.value for i in node.inputs)
        return np.abs(a) @ np.abs(b)

    return [size(node) * np.abs(node.adjoint) for node in nodes if rounds(node)]


def entry(f: Callable[[Any], Any], x: Any, index: int) -> Any:
    """An entry of the gradient."""
    return dt.grad(f)(x)[index]


def roundings(problem: Problem, n: int) -> int:
    """How often the longest path rounds: n factors in a row round n times, the others a few times whatever n is."""
    return n if problem.name == "speelpenning" else 1


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("n", [2, 7, 16])
def test_the_scale_by_hand_is_what_the_operations_of_the_gradient_can_round(problem: Problem, n: int) -> None:
    for seed in range(3):
        case = problem.make(n, np.random.default_rng(seed))
        gradient, by_hand = np.asarray(dt.grad(case.f)(case.x)), np.broadcast_to(case.scale, case.x.shape)
        for index in {0, n // 2, n - 1}:
            scale = sum(float(np.sum(v)) for v in moved(partial(entry, case.f, index=index), case.x))
            assert scaled_error(gradient[index], case.derivative[index], scale) <= 0.5, "operations round to nearest"
            assert 0.1 <= by_hand[index] * roundings(problem, n) / scale <= 2


def test_the_scale_of_the_logistic_map_by_hand_is_what_the_operations_of_its_derivative_can_round() -> None:
    xs = np.random.default_rng(11).uniform(size=1000)

    def derivative(x: Any) -> Any:
        return np.sum(dt.grad(lambda y: np.sum(accuracy.closed(y)))(x))

    scale = sum(v for v in moved(derivative, xs) if v.shape == xs.shape)  # a program of elements: a scale each
    found = accuracy.by_mode(accuracy.closed, xs, "ad_reverse")
    assert scaled_error(found, accuracy.closed_derivative(xs), scale) <= 0.5
    ratio = accuracy.closed_scale(xs) / scale
    assert 0.1 <= np.min(ratio) <= np.max(ratio) <= 2


@pytest.mark.parametrize("make", [hvp_problems.product_case, hvp_problems.valley_case])
def test_the_roundings_of_a_gradient_are_the_same_without_dualtape(make: Callable[..., Any]) -> None:
    """Textbook reverse mode over textbook reverse mode; it drops no zeros, so what is added to one is counted again."""
    case, tally = make(7, np.random.default_rng(7)), counting.Tally()
    tape: list[counting.Traced] = []
    inputs = [counting.Traced(counting.Number(float(x), tally), tape) for x in case.xs]
    output = counting.gradient(case.f, inputs)[3]
    output.adjoint = output.value.constant(1.0)
    for node in reversed(tape):
        if node.pull is not None:
            node.pull(node.adjoint)
    alone = sum(abs(node.value.value * node.adjoint.value) for node in tape if node.pull is not None)

    def slope(x: Any) -> Any:
        return dt.grad(lambda *xs: case.f(*xs), 3)(*[x[i] for i in range(7)])

    assert 1 / 3 <= sum(float(np.sum(v)) for v in moved(slope, np.array(case.xs))) / alone <= 1


def test_the_last_line_alone_is_no_scale_where_something_has_cancelled_before_it() -> None:
    """Rosenbrock's second partial is 200 (x2 - x1^2): near the valley the square's rounding is all that is left."""
    x = np.array([0.7, 0.49 * (1 + 1e-13)])
    valley = 200 * (LONG(x[1]) - LONG(x[0]) ** 2)
    found = dt.grad(MANY_TO_ONE[1].make(2, np.random.default_rng(0)).f)(x)[1]
    assert scaled_error(found, valley, abs(valley)) > 64
    assert scaled_error(found, valley, abs(valley) + 200 * LONG(x[0]) ** 2) <= 1


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_scaled_errors_stay_small_on_200_seeds(problem: Problem) -> None:
    largest = 0.0
    for seed in range(200):
        case = problem.make(16, Config(seed=seed).rng(problem.name))
        largest = max(largest, scaled_error(dt.grad(case.f)(case.x), case.derivative, case.scale))
    assert largest <= 4


def test_scaled_errors_of_the_logistic_map_stay_small_on_200_seeds() -> None:
    rows = [
        row
        for seed in range(200)
        for row in accuracy.points_rows(100, Config(seed=seed).rng("logistic"))
        if row["kind"] == "points"
    ]
    assert max(row["scaled_max"] for row in rows) <= 1
