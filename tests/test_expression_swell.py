"""E07: the formulas of expression swell hold, and a rule that is wrong turns a bar red."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.expression_swell import experiment
from experiments.expression_swell.expressions import Algebra, Expression, iterate, shared_size, tree_size, value
from experiments.harness.bars import judge
from experiments.harness.config import Config


def failed() -> set[str]:
    result = experiment.run(Config(quick=True, plot=False))
    return {bar.id for bar in result.bars if not judge(bar, result.rows)["passed"]}


def test_all_bars_hold() -> None:
    assert not failed()


def test_sizes_of_small_expressions_by_hand() -> None:
    algebra = Algebra()
    square = algebra.make("*", algebra.make("x"), algebra.make("x"))
    assert (tree_size(square), shared_size(square)) == (3, 2)
    slope = algebra.derivative(square)  # 1 * x + x * 1
    assert (tree_size(slope), shared_size(slope)) == (7, 5)
    assert value(slope, 3.0) == 6.0


@pytest.mark.parametrize("n", range(1, 8))
def test_an_expression_is_the_program(n: int) -> None:
    algebra = Algebra()
    found = iterate(algebra, n)
    x, h = 0.3, 1e-6
    f = experiment.logistic(n)
    assert value(found, x) == f(x)
    np.testing.assert_allclose(value(algebra.derivative(found), x), (f(x + h) - f(x - h)) / (2 * h), rtol=1e-6)


def test_a_product_rule_without_its_second_term_turns_bars_red(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Algebra.derivative

    def wrong(self: Any, e: Expression) -> Expression:
        if e.head == "*":
            return self.make("*", self.derivative(e.parts[0]), e.parts[1])
        return right(self, e)

    monkeypatch.setattr(Algebra, "derivative", wrong)
    assert failed() >= {"derivative-tree", "derivative-shared", "expression-ulps"}
