"""E11: the ADBench problems - the time of a derivative over the time of the function, on the benchmark's own data.

A problem is a `Family`: its cases as data, and the function that measures one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import adbench_data, gmm, measure
from ..shared.modes import performed

SPEC = Spec(
    id="E11",
    name="adbench",
    title="ADBench's problems with its data",
    claims=(
        Claim(
            "relative-times",
            "Gradient time over function time of the mixture problem, for tools from 1.9 (by hand) to 107.",
            "Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, LaTeX source",
            "R",
        ),
        Claim(
            "operator-overloading",
            "Operator-overloading reverse tools take 10-35 times the original; Adept typically below 4.",
            "Hogan, ACM TOMS 40(4), 2014, abstract",
            "R",
        ),
        Claim(
            "reference-values",
            "Values and derivatives that the benchmark's unit tests expect.",
            "microsoft/ADBench at commit 38cb793, test/python/modules/common",
            "R",
        ),
        Claim(
            "factor-five",
            "A gradient costs at most 5 times the flops of the function.",
            "counts of the elemental operations",
            "D",
        ),
    ),
)

COLUMNS = (
    Column("problem", "GMM"),
    Column("case", "data file"),
    Column("parameters", "number of parameters P"),
    Column("observations", "number of points N"),
    Column("mode", "reverse, or forward (linearised once, one push a parameter)"),
    Column("sweeps", "sweeps for the whole gradient"),
    Column("operations", "operations recorded by one evaluation of f"),
    Column("flops_per_op", "flops of f per recorded operation", "flops"),
    Column("flops_ratio", "declared Work(gradient) / Work(f), all sweeps counted, weighting flops"),
    Column("performed_ratio", "the same counted call by call (reverse mode)"),
    Column("tape_bytes", "arrays held by all tapes alive once f is evaluated", "B"),
    Column("value_error", "absolute distance from the benchmark's expected value"),
    Column("gradient_error", "largest absolute distance from the benchmark's expected gradient"),
    Column("complex_step_error", "largest relative distance from the complex step over the coordinates compared"),
    Column("coordinates", "random coordinates compared, with the complex step and between the modes"),
    Column("modes_gap", "relative distance of the two modes over those coordinates"),
    Column("timed_sweeps", "sweeps inside the clock; the time is scaled to all"),
    Column("f_seconds", "wall time of f", "s", deterministic=False),
    Column("seconds", "wall time of the whole gradient", "s", deterministic=False),
    Column("relative_time", "time of the gradient over time of f", deterministic=False),
)

SAMPLE = 20  # coordinates compared with the complex step, and forward sweeps timed


@dataclass(frozen=True)
class Case:
    """A scalar objective of one parameter vector, with what is known about it."""

    name: str
    f: Callable[[Any], Any]
    x: Any
    observations: int
    expected: dict[str, Any] | None


@dataclass(frozen=True)
class Family:
    """A problem of the benchmark."""

    name: str
    cases: Callable[[bool], list[Case]]
    rows: Callable[[Case, Config], list[Row]]
    bars: tuple[Bar, ...]


def _gmm_cases(quick: bool) -> list[Case]:
    sizes = ("d2_K5",) if quick else ("d2_K5", "d10_K5", "d10_K25")
    cases = []
    for file in ("gmm/test.txt", *(f"gmm/1k/gmm_{size}.txt.gz" for size in sizes)):
        mixture = gmm.load(file)
        name = file.removeprefix("gmm/").removesuffix(".gz").removesuffix(".txt")
        known = adbench_data.expected(file)
        cases.append(Case(name, gmm.objective(mixture), mixture.parameters, len(mixture.points), known))
    return cases


# The sizes that were published for 10,000 points: gradient over function in the same language, by hand (C++), Tapenade
# (C) and Theano; Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, LaTeX source.
PUBLISHED = {
    "10k, d2 K5": (2, 5, (1.88, 3.74, 3.01)),
    "10k, d10 K5": (10, 5, (2.94, 7.69, 3.82)),
    "10k, d2 K200": (2, 200, (2.18, 4.09, 3.26)),
    "10k, d10 K50": (10, 50, (3.13, 7.93, 4.06)),
}


def _published_cases(config: Config) -> list[Case]:
    """Mixtures of the published sizes, drawn here; in full runs."""
    cases = []
    for name, (d, k, _) in ({} if config.quick else PUBLISHED).items():
        mixture = gmm.drawn(d, k, 10_000, config.rng(f"{SPEC.name}/{name}"))
        cases.append(Case(name, gmm.objective(mixture), mixture.parameters, 10_000, None))
    return cases


def _loop_rows(config: Config) -> list[Row]:
    """The value in three and more dimensions, where the order of a triangle shows, against loops."""
    rows: list[Row] = []
    for d in (3, 5):
        mixture = gmm.drawn(d, 4, 6, config.rng(f"{SPEC.name}/loops/{d}"))
        expected = gmm.by_loops(mixture)
        found = float(gmm.objective(mixture)(mixture.parameters))
        row: Row = {"problem": "GMM", "case": f"loops, D = {d}", "mode": "value", "observations": 6}
        row |= {"parameters": mixture.parameters.size, "value_error": abs(found - expected) / abs(expected)}
        rows.append(row)
    return rows


def _gradient_rows(case: Case, config: Config) -> list[Row]:
    """Both modes on a gradient: reverse in one sweep, forward linearised once and pushed once a parameter.

    Of the P pushes only those of the compared coordinates are performed; work and time are scaled to all P.
    """
    f, x = case.f, case.x
    cost = inspect.cost(f, x)
    count = min(SAMPLE, x.size)
    picked = np.sort(config.rng(f"{SPEC.name}/{case.name}").choice(x.size, count, replace=False))
    directions = np.zeros((count, x.size))
    directions[np.arange(count), picked] = 1.0

    _, push = dt.linearize(f, x)

    def forward() -> Any:
        return np.array([float(push(direction)) for direction in directions])

    value, gradient = (np.asarray(part) for part in dt.value_and_grad(f)(x))
    pushed = forward()
    stepped = np.array([measure.complex_step(f, x, int(i)) for i in picked])
    calls = {"f": lambda: f(x), "reverse": lambda: dt.grad(f)(x), "forward": forward}
    calls["linearize"] = lambda: dt.linearize(f, x)
    times = clock.interleaved(calls, config.effort(quick=0.5, full=3.0), about=f"GMM, {case.name}")
    once = cost.evaluation + cost.partials
    base = cost.evaluation.weigh("flops")
    rows = []
    for mode, sweeps, timed, work, found, sweep in (
        ("reverse", 1, 1, once + cost.adjoint, gradient[picked], lambda g: measure.record(g, x)),
        ("forward", x.size, count, once + cost.tangent * x.size, pushed, lambda g: dt.jvp(g, (x,), (directions[0],))),
    ):
        seconds = times[mode].least * sweeps / timed + (times["linearize"].least if mode == "forward" else 0.0)
        row: Row = {
            "parameters": x.size,
            "observations": case.observations,
            "mode": mode,
            "sweeps": sweeps,
            "operations": cost.nodes,
            "flops_per_op": base / cost.nodes,
            "flops_ratio": work.weigh("flops") / base,
            "tape_bytes": measure.live_tape_bytes(sweep, f),
            "complex_step_error": np.max(np.abs(found - stepped) / np.abs(stepped)),
            "coordinates": count,
            "modes_gap": measure.relative_error(pushed, gradient[picked]),
            "timed_sweeps": timed,
            "f_seconds": times["f"].least,
            "seconds": seconds,
            "relative_time": seconds / times["f"].least,
        }
        if mode == "reverse":
            swept = performed(lambda y, g: dt.vjp(f, y)[1](g), x, np.float64(1.0))
            row["performed_ratio"] = swept.weigh("flops") / performed(f, x).weigh("flops")
        if case.expected:
            row["value_error"] = abs(float(value) - case.expected["objective"])
            row["gradient_error"] = np.max(np.abs(found - np.array(case.expected["gradient"])[picked]))
        rows.append(row)
    return rows


FAMILIES = (
    Family(
        "GMM",
        _gmm_cases,
        _gradient_rows,
        (
            Bar("gmm-value", 'max(value_error, problem == "GMM" and case == "test")', "<=", 1e-12),
            Bar("gmm-gradient", 'max(gradient_error, problem == "GMM" and case == "test")', "<=", 1e-12),
            Bar("gmm-unpacking", 'max(value_error, problem == "GMM" and mode == "value")', "<=", 1e-13),
            Bar("gmm-complex-step", 'max(complex_step_error, problem == "GMM" and mode != "value")', "<=", 1e-10),
            Bar("gmm-modes-agree", 'max(modes_gap, problem == "GMM" and mode != "value")', "<=", 1e-12),
            Bar("gmm-flops", 'max(flops_ratio, problem == "GMM" and mode == "reverse")', "<=", 5),
            Bar("gmm-performed-most", 'max(performed_ratio, problem == "GMM" and mode == "reverse")', "<=", 4),
            Bar("gmm-performed-least", 'min(performed_ratio, problem == "GMM" and mode == "reverse")', ">=", 1.5),
            Bar(
                "gmm-declared-least",
                'min(flops_ratio / performed_ratio, problem == "GMM" and mode == "reverse")',
                ">=",
                0.9,
            ),
            Bar(
                "gmm-declared-most",
                'max(flops_ratio / performed_ratio, problem == "GMM" and mode == "reverse")',
                "<=",
                1.5,
            ),
            Bar(
                "gmm-time",
                'max(relative_time, problem == "GMM" and mode == "reverse" and observations >= 1000)',
                "<=",
                12,
                deterministic=False,
            ),
            Bar(
                "gmm-time-10k",
                'max(relative_time, problem == "GMM" and mode == "reverse" and observations == 10000)',
                "<=",
                4,
                deterministic=False,
            ),
        ),
    ),
)


def run(config: Config) -> Result:
    cases = [(family, case) for family in FAMILIES for case in family.cases(config.quick)]
    rows: list[Row] = []
    for family, case in config.track(cases, SPEC.name):
        rows += [{"problem": family.name, "case": case.name} | row for row in family.rows(case, config)]
    rows += _loop_rows(config)
    for case in config.track(_published_cases(config), f"{SPEC.name}, 10,000 points"):
        rows += [{"problem": "GMM", "case": case.name} | row for row in _gradient_rows(case, config)]
    settings = {"quick": config.quick, "cases": [case.name for _, case in cases], "published": PUBLISHED}
    return Result(COLUMNS, rows, bars(settings), settings=settings, files={"table.md": table(rows)})


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The bars of all families; quick runs have no case of 10,000 points."""
    return [bar for family in FAMILIES for bar in family.bars if not (settings["quick"] and bar.id == "gmm-time-10k")]


def table(rows: list[Row]) -> str:
    """Gradient over function beside what was published."""
    lines = [
        "Time of the gradient over time of the function, 10,000 points; published figures: 2018, other machines.",
        "",
        "| size | here, reverse mode | by hand (C++) | Tapenade (C) | Theano |",
        "| --- | --- | --- | --- | --- |",
    ]
    here = {row["case"]: row["relative_time"] for row in rows if row["mode"] == "reverse"}
    for name, (_, _, published) in PUBLISHED.items():
        ours = f"{here[name]:.2f}" if name in here else "in full runs"
        lines.append(f"| {name} | {ours} | {' | '.join(map(str, published))} |")
    return "\n".join(lines) + "\n"
