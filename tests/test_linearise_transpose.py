"""E18: transposition conserves multiplications, and what breaks it turns a bar red."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import ROWS
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.linearise_transpose import experiment


def failed() -> set[str]:
    result = experiment.run(Config(quick=True, plot=False))
    return {bar.id for bar in result.bars if not judge(bar, result.rows)["passed"]}


def test_all_bars_hold() -> None:
    assert not failed()


def test_a_rule_that_is_no_transpose_turns_bars_red(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = ROWS["sum"].edges[0]
    right = edge.transpose
    monkeypatch.setattr(edge, "transpose", lambda g, shape, **params: right(g * 1.5, shape, **params))
    assert failed() >= {"same-multiplications", "dot-test"}


def test_a_linearisation_that_evaluates_again_turns_a_bar_red(monkeypatch: pytest.MonkeyPatch) -> None:
    linearize = dt.linearize

    def evaluating(f: Any, x: Any) -> Any:
        y, push = linearize(f, x)
        return y, lambda t: push(t) * np.cos(0 * np.sum(t))

    monkeypatch.setattr(experiment.dt, "linearize", evaluating)
    assert "linear-is-linear" in failed()
