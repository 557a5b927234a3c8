"""Faults put into the code, each by itself, turn named bars of an experiment red: the bars would notice them.

(Counts of costs that are wrong are in test_cheap_gradient.py.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import ROWS
from dualtape.transforms import arguments
from experiments import helmholtz
from experiments.accuracy_vs_step import experiment as accuracy_vs_step
from experiments.adbench import experiment as adbench
from experiments.harness import clock
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.hvp import experiment as hvp
from experiments.nesting import experiment as nesting
from experiments.shared import gmm
from experiments.trace_table import experiment as trace_table

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """What is broken, how, and the bars that are to turn red (others may as well)."""

    what: str
    apply: Callable[[Patch], None]
    experiment: Any
    red: set[str]


def partial_of(row: str, formula: Callable[..., Any]) -> Callable[[Patch], None]:
    """Another partial derivative in the table of operations."""
    return lambda patch: patch.setattr(ROWS[row].edges[0], "partial", formula)


def held_fast(x: Any) -> Any:
    """x, a constant to whoever differentiates."""
    return dt.stop_gradient(x) if isinstance(x, dt.Tensor) else x


def doubled_bytes(patch: Patch) -> None:
    nbytes: Any = dt.GradientTape.nbytes
    patch.setattr(dt.GradientTape, "nbytes", property(lambda tape: 2 * nbytes.fget(tape)))


def doubled_for_forward_over_reverse(patch: Patch) -> None:
    """Tangents as many bytes as the tape, whether what is kept has tangents or not: declared, not measured."""
    measured = hvp.tape_bytes
    patch.setattr(hvp, "tape_bytes", lambda case, c: 2 * measured(case, "gradient") if c == "fr" else measured(case, c))


def one_tag(patch: Patch) -> None:
    patch.setattr(arguments, "new_id", lambda: -7)


def triangle_by_rows(patch: Patch) -> None:
    def by_rows(d: int) -> Any:
        index = np.full((d, d), d + d * (d - 1) // 2)
        index[np.diag_indices(d)] = np.arange(d)
        rows, columns = np.tril_indices(d, -1)
        index[rows, columns] = d + np.arange(len(rows))
        return index

    patch.setattr(gmm, "_triangle", by_rows)


def unrefused(patch: Patch) -> None:
    """A result that is a function goes through, as if it depended on nothing."""
    grad = dt.grad

    def lenient(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def gradient(x: Any) -> Any:
            result = f(x)
            return result if callable(result) else grad(f)(x)

        return gradient

    patch.setattr(dt, "grad", lenient)


FAULTS = (
    Fault("tape bytes are doubled", doubled_bytes, hvp, {"tape-gradient", "tape-fr", "tape-rf"}),
    Fault("tape bytes of fr are declared", doubled_for_forward_over_reverse, hvp, {"tape-fr"}),
    Fault("all perturbations have one tag", one_tag, nesting, {"exact", "vector", "shift", "exponential"}),
    Fault("a function-valued result is let through", unrefused, nesting, {"shift-refused"}),
    Fault("the sign of exp", partial_of("exp", lambda out: -out), nesting, {"exponential"}),
    Fault("the sign of sin", partial_of("sin", lambda x: -np.cos(x)), trace_table, {"traces", "tangents", "adjoints"}),
    Fault("the sign of sin, by step", partial_of("sin", lambda x: -np.cos(x)), accuracy_vs_step, {"modes-ulps"}),
    Fault("the sign of log", partial_of("log", lambda x: -1 / x), helmholtz, {"error", "scaled-error"}),
    # The first derivative is right, and half of it is a constant to the second.
    Fault(
        "a factor of 2 in the second derivative of square",
        partial_of("square", lambda x: x + held_fast(x)),
        hvp,
        {"error", "explicit-hessian"},
    ),
    Fault(
        "a factor of 2 in the second derivative of tanh",
        partial_of("tanh", lambda out: 1 - out * held_fast(out)),
        hvp,
        {"error"},
    ),
    Fault("a triangle is read row by row", triangle_by_rows, adbench, {"gmm-unpacking"}),
)
EXPERIMENTS = {fault.experiment.SPEC.name: fault.experiment for fault in FAULTS}


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: Patch) -> None:
    """Times are not judged: everything is called once, and said to take a second."""

    def interleaved(calls: dict[str, Callable[[], object]], *_: Any, **__: Any) -> dict[str, clock.Timing]:
        return {name: clock.Timing(1.0, 1.0, 1, 1) for name in calls if calls[name]() is not interleaved}

    monkeypatch.setattr(clock, "interleaved", interleaved)


def failed(experiment: Any) -> set[str]:
    """The bars of a quick run that do not hold."""
    with clock.set_aside():  # as the runner does
        result = experiment.run(Config(quick=True, seed=0, plot=False))
    return {bar.id for bar in result.bars if bar.deterministic and not judge(bar, result.rows)["passed"]}


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_without_a_fault_all_bars_hold(experiment: Any) -> None:
    assert not failed(experiment)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_a_fault_turns_its_bars_red(fault: Fault, monkeypatch: Patch) -> None:
    fault.apply(monkeypatch)
    assert fault.red <= failed(fault.experiment)
