"""Faults put into the code, each by itself, turn a bar of an experiment red: the bars would notice them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import ROWS
from dualtape.transforms import arguments
from experiments.adbench import experiment as adbench
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.hvp import experiment as hvp
from experiments.nesting import experiment as nesting
from experiments.shared import gmm

# (Counts of costs that are wrong are in test_cheap_gradient.py.)


def failed(experiment: Any) -> set[str]:
    """The bars of a quick run that do not hold."""
    result = experiment.run(Config(quick=True, seed=0, plot=False))
    return {bar.id for bar in result.bars if bar.deterministic and not judge(bar, result.rows)["passed"]}


@pytest.mark.parametrize("experiment", [adbench, hvp, nesting])
def test_without_a_fault_all_bars_hold(experiment: Any) -> None:
    assert not failed(experiment)


def test_the_bytes_of_a_tape_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    nbytes = dt.GradientTape.nbytes
    monkeypatch.setattr(dt.GradientTape, "nbytes", property(lambda tape: 2 * nbytes.fget(tape)))
    assert "tape-gradient" in failed(hvp)


def test_one_tag_for_all_perturbations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "new_id", lambda: -7)
    assert failed(nesting) & {"exact", "vector", "shift", "exponential"}


def test_a_sign_in_one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = ROWS["exp"].edges[0]
    monkeypatch.setattr(edge, "partial", lambda out: -out)
    assert "exponential" in failed(nesting)


def test_a_factor_of_two_missing_in_a_second_derivative(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first derivative of the square is right, and half of it a constant to the second."""

    def halved(x: Any) -> Any:
        return x + dt.stop_gradient(x) if isinstance(x, dt.Tensor) else x + x

    monkeypatch.setattr(ROWS["square"].edges[0], "partial", halved)
    found = failed(hvp)
    assert found & {"error", "compositions-agree", "symmetry"}


def test_a_triangle_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_rows(d: int) -> Any:
        index = np.full((d, d), d + d * (d - 1) // 2)
        index[np.diag_indices(d)] = np.arange(d)
        rows, columns = np.tril_indices(d, -1)
        index[rows, columns] = d + np.arange(len(rows))
        return index

    monkeypatch.setattr(gmm, "_triangle", by_rows)
    assert "gmm-unpacking" in failed(adbench)
