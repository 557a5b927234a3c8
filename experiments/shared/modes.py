"""What the mode-cost experiments share: methods, their rows and columns, and the bars both are judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Bar, Column, Row
from . import measure
from .problems import Instance, Problem

SAMPLE = 32  # entries checked where there are many, and sweeps timed: the others cost the same
TIMED_OPERATIONS = 10_000  # at most so many operations are swept inside the clock, in as many sweeps as that makes
CHECKED_OPERATIONS = 50_000  # likewise for the sweeps that check the derivative, but two at least
OPERATION_FLOPS = 1_000  # arithmetic that lasts about as long as Python needs for one operation
DIFFERENCED = 4_096  # more entries than this are not differenced one by one, but a sample of them
MEMORY_OPERATIONS = 3_000  # tracing the memory of longer programs takes too long
COUNTED_OPERATIONS = 600  # and so does counting what they perform
WEIGHTINGS = ("flops", "gw", "mults")

COLUMNS = (
    Column("problem", "name of the problem"),
    Column("n", "number of inputs (many_to_one) or outputs (one_to_many)"),
    Column("method", "how the derivative was made"),
    Column("sweeps", "sweeps, or pairs or single evaluations of differences, for the whole derivative"),
    Column("evaluations", "calls of f the method made, counted"),
    Column("operations", "operations recorded by one evaluation of f"),
    Column("work", "arithmetic for the whole derivative", "flops"),
    *(Column(f"{w}_ratio", f"declared Work(derivative) / Work(f), weighting {w}") for w in WEIGHTINGS),
    *(Column(f"performed_{w}_ratio", f"the same counted call by call, one sweep, weighting {w}") for w in WEIGHTINGS),
    Column("flops_per_op", "flops of f per recorded operation", "flops"),
    Column("tape_bytes", "arrays held by all tapes alive once f is evaluated", "B"),
    Column("entries_checked", "entries of the derivative compared with the closed form"),
    Column("error", "Frobenius norm of the error relative to the closed form's"),
    Column("error_to_value", "largest error relative to the larger of |f| and the largest entry"),
    Column("scaled_error", "largest error over what eps in every intermediate value makes of it"),
    Column("timed_sweeps", "sweeps inside the clock; the time is scaled to all"),
    Column("memory", "everything Python holds more than before, once f is evaluated", "B", deterministic=False),
    Column("f_seconds", "wall time of f", "s", deterministic=False),
    Column("seconds", "wall time of the whole derivative", "s", deterministic=False),
    Column("wall_ratio", "time of the derivative over time of f", deterministic=False),
    Column("over_cheap", "time of the derivative over that of the mode that needs one sweep", deterministic=False),
)


@dataclass(frozen=True)
class Method:
    """One way to the derivative, as the experiment that uses it sees it.

    `sweeps` is for the whole derivative; `timed` performs `timed_sweeps` of them, after what `once` does once.
    `derivative` has the entries `entries` (all if None), and `work` is a Work for the whole derivative.
    """

    name: str
    sweeps: int
    evaluations: int
    work: Any
    derivative: Any
    timed: Callable[[], object]
    timed_sweeps: int
    once: Callable[[], object] | None = None
    recording: Callable[[Any], object] | None = None  # f -> one sweep of it, to see what is held for it
    program: Any = None  # one sweep as a function, and its arguments: what it performs is counted
    entries: Any = None


@dataclass(frozen=True)
class Theory:
    """A formula for the ratio, drawn dashed beside the rows."""

    formula: Callable[[float], float]
    label: str
    dashes: Any = None

    def series(self, ns: Iterable[int]) -> dict[str, Any]:
        """Its points, as a figure takes them."""
        known = list(ns)
        return {"x": known, "y": [self.formula(n) for n in known], "label": self.label, "dashes": self.dashes}


def sizes(first: int, config: Config) -> list[int]:
    """2^first, doubled up to 2^12, then fourfold up to 2^20, where Python is not the cost."""
    return config.grid([2**k for k in (*range(first, 13), 14, 16, 18, 20)], [2**k for k in range(first, 9)])


def last_five(sizes: Sequence[int]) -> int:
    """Where the last five of them begin, on which growth is judged."""
    return sizes[-5:][0] if sizes else 0


def rows_of(
    problem: Problem, n: int, instance: Instance, cost: Any, methods: list[Method], config: Config, full: float = 0.3
) -> list[Row]:
    """Time all methods of one instance against f, in turns, and make their rows; the first method is the cheap one.

    `full` is how many seconds of timing a full run may spend.
    """
    calls: dict[str, Callable[[], object]] = {"f": lambda: instance.f(instance.x)}
    calls |= {method.name: method.timed for method in methods}
    calls |= {f"{method.name} once": method.once for method in methods if method.once is not None}
    times = clock.interleaved(calls, config.effort(quick=0.05, full=full), about=f"{problem.name}, n = {n}")
    f_seconds, value = times["f"].least, instance.f(instance.x)
    rows = []
    for method in methods:
        picked = ... if method.entries is None else method.entries
        reference, scale = instance.derivative[picked], instance.scale[picked]
        seconds = times[method.name].least * method.sweeps / method.timed_sweeps
        if method.once is not None:
            seconds += times[f"{method.name} once"].least
        row: Row = {
            "problem": problem.name,
            "n": n,
            "method": method.name,
            "sweeps": method.sweeps,
            "evaluations": method.evaluations,
            "operations": cost.nodes,
            "work": method.work.weigh("flops"),
            "flops_per_op": cost.evaluation.weigh("flops") / cost.nodes,
            "entries_checked": reference.size,
            "error": measure.relative_error(method.derivative, reference),
            "error_to_value": measure.error_to_value(method.derivative, reference, value),
            "scaled_error": measure.scaled_error(method.derivative, reference, scale),
            "timed_sweeps": method.timed_sweeps,
            "f_seconds": f_seconds,
            "seconds": seconds,
            "wall_ratio": seconds / f_seconds,
            "over_cheap": seconds / times[methods[0].name].least,
        }
        if method.recording is not None:
            row["tape_bytes"] = measure.live_tape_bytes(method.recording, instance.f)
            if cost.nodes <= MEMORY_OPERATIONS:
                row["memory"] = measure.memory(method.recording, instance.f)
        for w in WEIGHTINGS:
            row[f"{w}_ratio"] = ratio(method.work, cost.evaluation, w)
        if method.program is not None and cost.nodes <= COUNTED_OPERATIONS:
            sweep, base = performed(*method.program), performed(instance.f, instance.x)
            row |= {f"performed_{w}_ratio": ratio(sweep, base, w) for w in WEIGHTINGS}
        rows.append(row)
    return rows


def performed(program: Any, *args: Any) -> Any:
    """The Work that a program performs, all of it known to the counter."""
    count = dt.inspect.performed(program, *args)
    if count.uncounted:
        raise ValueError(f"the counter does not know {', '.join(count.uncounted)}")
    return count.work


def ratio(work: Any, base: Any, weighting: str) -> float | None:
    """Work over Work; None where the base has none at all (a weighting that does not see its operations)."""
    under = base.weigh(weighting)
    return float(work.weigh(weighting) / under) if under else None


def unit(n: int, i: int) -> Any:
    """The i-th direction of n."""
    direction = np.zeros(n)
    direction[i] = 1.0
    return direction


def _operations(cost: Any) -> int:
    """How long a sweep lasts, in operations on few elements."""
    return int(cost.nodes + cost.evaluation.weigh("flops") / OPERATION_FLOPS)


def sampled(n: int, cost: Any) -> Any:
    """Which of n entries are checked: all, or a sample that includes both ends."""
    return np.unique(np.linspace(0, n - 1, min(n, SAMPLE, max(2, CHECKED_OPERATIONS // _operations(cost)))).astype(int))


def timed(n: int, cost: Any, quick: bool) -> Any:
    """Which of n entries have their sweeps timed."""
    return np.arange(max(1, min(n, 4 if quick else SAMPLE, TIMED_OPERATIONS // _operations(cost))))


def difference_methods(instance: Instance, cost: Any, timed_sweeps: int) -> list[Method]:
    """Forward and central differences with their evaluations counted, not assumed.

    The work is that of the evaluations; the quotients' own two operations an entry are left out. Of very many entries
    a sample is taken, and its evaluations scaled.
    """
    n = max(instance.x.size, 1)
    timed = min(n, timed_sweeps)
    entries = sampled(n, cost) if n > DIFFERENCED else None
    methods = []
    for name, difference, shared in (
        ("fd_forward", measure.forward_difference, 1),
        ("fd_central", measure.central_difference, 0),
    ):
        counted = measure.Counted(instance.f)
        derivative = difference(counted, instance.x, entries=entries)
        calls = shared + (counted.calls - shared) * n // (n if entries is None else entries.size)
        methods.append(
            Method(
                name,
                sweeps=calls,
                evaluations=calls,
                work=cost.evaluation * calls,
                derivative=derivative,
                entries=entries,
                timed=lambda: [instance.f(instance.x) for _ in range(timed)],
                timed_sweeps=timed,
            )
        )
    return methods


def forward_entries(f: Any, x: Any, indices: Any) -> Any:
    """Entries of the gradient, one forward sweep each."""
    return np.array([float(dt.jvp(f, (x,), (unit(x.size, i),))[1]) for i in indices])


def pushed_entries(push: Any, n: int, indices: Any) -> Any:
    """The same from a linearisation, which did the nonlinear work once for all of them."""
    return np.array([float(push(unit(n, i))) for i in indices])


def gradient_methods(instance: Instance, cost: Any, quick: bool) -> list[Method]:
    """All ways to a gradient: reverse mode, forward mode sweep by sweep and linearised once, differences."""
    f, x = instance.f, instance.x
    n = x.size
    clocked, checked = timed(n, cost, quick), sampled(n, cost)
    once = cost.evaluation + cost.partials

    calls = {name: measure.Counted(f) for name in ("reverse", "forward", "forward_linearised")}
    gradient = np.asarray(dt.grad(calls["reverse"])(x))
    by_sweeps = forward_entries(calls["forward"], x, checked)
    _, push = dt.linearize(calls["forward_linearised"], x)
    return [
        Method(
            "reverse",
            sweeps=1,
            evaluations=calls["reverse"].calls,
            work=once + cost.adjoint,
            derivative=gradient,
            timed=lambda: dt.grad(f)(x),
            timed_sweeps=1,
            recording=lambda g: measure.record(g, x),
            program=(lambda x, g: dt.vjp(f, x)[1](g), x, np.float64(1.0)),
        ),
        Method(
            "forward",
            sweeps=n,
            evaluations=calls["forward"].calls * n // checked.size,
            work=(once + cost.tangent) * n,
            derivative=by_sweeps,
            entries=checked,
            timed=lambda: forward_entries(f, x, clocked),
            timed_sweeps=clocked.size,
            recording=lambda g: dt.jvp(g, (x,), (unit(n, 0),)),
        ),
        Method(
            "forward_linearised",
            sweeps=n,
            evaluations=calls["forward_linearised"].calls,
            work=once + cost.tangent * n,
            derivative=pushed_entries(push, n, checked),
            entries=checked,
            timed=lambda: pushed_entries(push, n, clocked),
            timed_sweeps=clocked.size,
            once=lambda: dt.linearize(f, x),
        ),
        *difference_methods(instance, cost, timed_sweeps=clocked.size),
    ]


# ---------------------------------------------------------------------------------------------------------------------
# Bars. `cheap` is the mode that needs one sweep, `costly` the one that needs as many as there are entries.


def bars(
    problems: Iterable[Problem],
    sizes: list[int],
    cheap: str,
    costly: str,
    limits: dict[str, float],
    evaluations: dict[str, str],
    roundings: float,
) -> list[Bar]:
    """Bars of a mode-cost experiment, a set a problem where the statement is about growth.

    `roundings` bounds the scaled error: recurrences round at every step.
    """
    found = [Bar(f"{cheap}-{w}", f'max({w}_ratio, method == "{cheap}")', "<=", limit) for w, limit in limits.items()]
    # What is performed keeps the same bounds in arithmetic (moves are counted with all temporaries there, which the
    # model keeps in registers); and what is declared is about as much, and not half as much again.
    counted = f'method == "{cheap}" and operations <= {COUNTED_OPERATIONS} and n >= 16'
    found += [
        Bar(f"{cheap}-performed-{w}", f"max(performed_{w}_ratio, {counted})", "<=", limit)
        for w, limit in limits.items()
        if w != "gw"
    ]
    declared = "flops_ratio / performed_flops_ratio"
    found += [
        Bar(f"{cheap}-performed-least", f"min(performed_flops_ratio, {counted})", ">=", 1.25),
        Bar(f"{cheap}-declared-least", f"min({declared}, {counted})", ">=", 0.9),
        Bar(f"{cheap}-declared-most", f"max({declared}, {counted})", "<=", 1.5),
    ]
    for problem in problems:
        name = problem.name
        mine = f'problem == "{name}" and method =='
        growth = f'slope(n, flops_ratio, {mine} "{costly}" and n >= {last_five(problem.among(sizes))})'
        found += [
            Bar(f"{cheap}-constant-{name}", f'spread(flops_ratio, {mine} "{cheap}" and n >= 16)', "<=", 1.25),
            Bar(f"{costly}-slope-least-{name}", growth, ">=", 0.9),
            Bar(f"{costly}-slope-most-{name}", growth, "<=", 1.1),
        ]
    for method, formula in evaluations.items():
        found.append(
            Bar(f"{method}-evaluations", f'max(abs(evaluations - ({formula})), method == "{method}")', "==", 0)
        )
    exact = 'method != "fd_forward" and method != "fd_central"'
    found += [
        Bar("error", f"max(error, {exact})", "<=", 1e-12),
        Bar("scaled-error", f"max(scaled_error, {exact})", "<=", roundings),
        # A quotient of step h rounds at eps |f| / h, however small the entries of the gradient are.
        Bar("fd-central-error", 'max(error_to_value, method == "fd_central")', "<=", 1e-8),
        Bar("fd-forward-error", 'max(error_to_value, method == "fd_forward")', "<=", 1e-6),
    ]
    return found
