"""E04 and the bars on cost: what is declared is held to what is performed, and a wrong count turns a bar red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dualtape.core.lookup import ROWS
from dualtape.facts import costs
from dualtape.facts.costs import Parts, Work
from experiments.cheap_gradient import experiment as cheap_gradient
from experiments.cheap_gradient.operations import operations
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.mode_cost import many_to_one


def failed(experiment: Any) -> set[str]:
    """The bars of a quick run that do not hold."""
    result = experiment.run(Config(quick=True, seed=0, plot=False))
    return {bar.id for bar in result.bars if bar.deterministic and not judge(bar, result.rows)["passed"]}


def without_adjoint(work: Callable[..., Parts]) -> Callable[..., Parts]:
    return lambda op: work(op)._replace(adjoint=Work())


def adjoint_once(work: Callable[..., Parts]) -> Callable[..., Parts]:
    """Of two cotangents one alone."""

    def halved(op: Any) -> Parts:
        parts = work(op)
        a, b, c, d = parts.adjoint
        return parts._replace(adjoint=Work(a, b, c // 2, d))

    return halved


def free_adjoint(work: Callable[..., Parts]) -> Callable[..., Parts]:
    def free(op: Any) -> Parts:
        parts = work(op)
        return parts._replace(adjoint=Work(moves=parts.adjoint.moves))

    return free


MUTATIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "adjoints cost nothing": (without_adjoint, tuple(name for name, row in ROWS.items() if row.work is not None)),
    "of a bilinear adjoint one half": (adjoint_once, ("multiply", "matmul")),
    "the adjoint of a sum is free": (free_adjoint, ("sum",)),
}


def test_the_bars_hold() -> None:
    assert not failed(cheap_gradient)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_count_turns_a_bar_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, rows = MUTATIONS[name]
    for row in rows:
        monkeypatch.setattr(ROWS[row], "work", change(ROWS[row].work))
    assert failed(cheap_gradient)


@pytest.mark.parametrize("name", ["adjoints cost nothing", "of a bilinear adjoint one half"])
def test_it_turns_bars_of_other_experiments_red_as_well(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, rows = MUTATIONS[name]
    for row in rows:
        monkeypatch.setattr(ROWS[row], "work", change(ROWS[row].work))
    assert any("declared" in bar for bar in failed(many_to_one))


def test_elementwise_operations_are_covered() -> None:
    import numpy as np

    known = {op.name for op in operations()}
    elementwise = [name for name, row in ROWS.items() if row.kind == "elementwise"]
    numpys = {name for name in elementwise if isinstance(getattr(np, name, None), np.ufunc)}
    left = {"fabs", "positive", "float_power", "fmod", "remainder", "floor_divide", "conjugate", "degrees", "radians"}
    assert numpys - known - left <= {"ldexp", "heaviside", "nextafter", "modf", "spacing", "sign"}


def test_reading_moves_what_is_read() -> None:
    import numpy as np

    from dualtape import inspect

    assert inspect.cost(lambda x: x[0], np.ones(1000)).evaluation == costs.Work(moves=2)
