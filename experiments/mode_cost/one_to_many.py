"""E02: the derivative of a curve - the mirror image, where one forward sweep does what takes m reverse sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Result, Row, Spec
from ..shared import measure, modes
from ..shared.modes import Method, last_five, unit
from ..shared.problems import ONE_TO_MANY, Instance

SPEC = Spec(
    id="E02",
    name="one_to_many",
    title="derivative of a curve",
    claims=(
        Claim(
            "one-sweep",
            "One tangent sweep differentiates a curve at a constant multiple of its cost; reverse mode needs m sweeps.",
            "Griewank & Walther, Evaluating Derivatives, 2nd ed., SIAM 2008 (chapter 3, after a public summary)",
            "R2",
        ),
        Claim(
            "no-cheap-jacobian",
            "The cheap gradient principle does not extend to a cheap Jacobian principle.",
            "Griewank & Walther, Evaluating Derivatives, 2nd ed., SIAM 2008 (rule 17, after a public summary)",
            "R2",
        ),
        Claim(
            "bounds-by-weighting",
            "Tangent over evaluation is at most 4 in flops and 2.5 with memory traffic.",
            "counts of the elemental operations",
            "D",
        ),
        Claim(
            "no-tape",
            "Forward mode keeps no tape; the tape of reverse mode grows with the length of the recurrence.",
            "what the rules of each mode read",
            "D",
        ),
    ),
)


def fresh_entries(f: Any, t: Any, m: int, indices: Any) -> Any:
    """Entries of the derivative, each from a tape of its own."""
    return np.array([float(dt.vjp(f, t)[1](unit(m, i))[0]) for i in indices])


def pulled_entries(pullback: Any, m: int, indices: Any) -> Any:
    """The same from one tape, swept once an entry."""
    return np.array([float(pullback(unit(m, i))[0]) for i in indices])


def _methods(instance: Instance, cost: Any, m: int, quick: bool) -> list[Method]:
    f, t = instance.f, instance.x
    timed, checked = modes.timed(m, cost, quick), modes.sampled(m, cost)
    once = cost.evaluation + cost.partials
    seed = np.float64(1.0)

    calls = {name: measure.Counted(f) for name in ("forward", "reverse", "reverse_recorded")}
    _, derivative = dt.jvp(calls["forward"], (t,), (seed,))
    fresh = fresh_entries(calls["reverse"], t, m, checked)
    _, pullback = dt.vjp(calls["reverse_recorded"], t)
    return [
        Method(
            "forward",
            sweeps=1,
            evaluations=calls["forward"].calls,
            work=once + cost.tangent,
            derivative=np.asarray(derivative),
            timed=lambda: dt.jvp(f, (t,), (seed,)),
            timed_sweeps=1,
            recording=lambda g: dt.jvp(g, (t,), (seed,)),
            program=(lambda t, s: dt.jvp(f, (t,), (s,)), t, seed),
        ),
        Method(
            "reverse",
            sweeps=m,
            evaluations=calls["reverse"].calls * m // checked.size,
            work=(once + cost.adjoint) * m,
            derivative=fresh,
            entries=checked,
            timed=lambda: fresh_entries(f, t, m, timed),
            timed_sweeps=timed.size,
            recording=lambda g: measure.record(g, t),
        ),
        Method(
            "reverse_recorded",
            sweeps=m,
            evaluations=calls["reverse_recorded"].calls,
            work=once + cost.adjoint * m,
            derivative=pulled_entries(pullback, m, checked),
            entries=checked,
            timed=lambda: pulled_entries(pullback, m, timed),
            timed_sweeps=timed.size,
            once=lambda: dt.vjp(f, t),
        ),
        *modes.difference_methods(instance, cost, timed_sweeps=1),
    ]


THEORIES = (
    modes.Theory(lambda m: 4, "4  (bound, forward)"),
    modes.Theory(lambda m: 2, "2  (differences)", (2, 1.5)),
    modes.Theory(lambda m: 5 * m, "5m  (bound, reverse)", (6, 1.5, 1, 1.5)),
)


def run(config: Config) -> Result:
    sizes = modes.sizes(0, config)
    rows: list[Row] = []
    for problem, m in config.track([(p, m) for p in ONE_TO_MANY for m in p.among(sizes)], SPEC.name):
        instance = problem.make(m, config.rng(f"{SPEC.name}/{problem.name}/{m}"))
        cost = inspect.cost(instance.f, instance.x)
        rows += modes.rows_of(problem, m, instance, cost, _methods(instance, cost, m, config.quick), config)
    settings = {"sizes": sizes}
    drawn = "outputs m", [theory.series(sizes) for theory in THEORIES]
    return Result(modes.COLUMNS, rows, bars(settings), settings=settings, drawn=drawn)


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The bars at the sizes of a run."""
    sizes = settings["sizes"]
    largest = f'method == "forward" and n == {sizes[-1]} and problem == "ringing"'
    steps = next(p for p in ONE_TO_MANY if p.name == "ode_path").among(sizes)
    tape = f'slope(n, tape_bytes, problem == "ode_path" and method == "reverse" and n >= {last_five(steps)})'
    return [
        *modes.bars(
            ONE_TO_MANY,
            sizes,
            cheap="forward",
            costly="reverse",
            limits={"flops": 4, "gw": 2.5, "mults": 3},
            evaluations={"forward": "1", "reverse_recorded": "1", "fd_forward": "2", "fd_central": "2"},
            roundings=64,
        ),
        Bar("forward-tape", 'max(tape_bytes, method == "forward")', "==", 0),
        Bar("tape-slope-least", tape, ">=", 0.9),
        Bar("tape-slope-most", tape, "<=", 1.1),
        Bar("time-forward", f"max(wall_ratio, {largest})", "<=", 12, deterministic=False),
        Bar("time-modes", 'min(over_cheap, method == "reverse" and n >= 32)', ">", 1, deterministic=False),
    ]
