"""E01: the cost of a gradient as the number of inputs grows - constant in reverse mode, linear in all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dualtape import inspect

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Result, Row, Spec
from ..shared import modes
from ..shared.problems import MANY_TO_ONE

SPEC = Spec(
    id="E01",
    name="many_to_one",
    title="gradient cost as n_in grows",
    claims=(
        Claim(
            "constant-multiple",
            "A reverse-mode gradient costs at most 4 times the function, whatever the number of inputs.",
            "Griewank & Walther, Evaluating Derivatives, 2nd ed., SIAM 2008 (after a public summary)",
            "R2",
        ),
        Claim(
            "factor-five",
            "The gradient costs no more than a factor of 5 of the function.",
            "Kakade & Lee, NeurIPS 2018, abstract",
            "R",
        ),
        Claim(
            "three-times",
            "A JVP or a VJP costs about three times the flops of the function.",
            "JAX documentation, Forward- and reverse-mode autodiff in JAX",
            "R",
        ),
        Claim(
            "linear-growth",
            "Forward mode with one direction a sweep, and differences, cost a multiple of n functions.",
            "chain rule, counted",
            "D",
        ),
        Claim(
            "bounds-by-weighting",
            "Adjoint over evaluation is at most 5 in flops, 4 with memory traffic, 3 in multiplications.",
            "counts of the elemental operations",
            "D",
        ),
    ),
)


THEORIES = (
    modes.Theory(lambda n: 5, "5  (bound, reverse)"),
    modes.Theory(lambda n: n + 1, "n + 1  (forward differences)", (2, 1.5)),
    modes.Theory(lambda n: 2 * n, "2n  (central differences)", (6, 1.5, 1, 1.5)),
    modes.Theory(lambda n: 1 + 3 * n, "1 + 3n  (speelpenning, linearised)", (1, 1)),
)


def run(config: Config) -> Result:
    sizes = modes.sizes(1, config)
    rows: list[Row] = []
    for problem, n in config.track([(p, n) for p in MANY_TO_ONE for n in p.among(sizes)], SPEC.name):
        instance = problem.make(n, config.rng(f"{SPEC.name}/{problem.name}/{n}"))
        cost = inspect.cost(instance.f, instance.x)
        rows += modes.rows_of(problem, n, instance, cost, modes.gradient_methods(instance, cost, config.quick), config)
    settings = {"sizes": sizes}
    drawn = "inputs n", [theory.series(sizes) for theory in THEORIES]
    return Result(modes.COLUMNS, rows, bars(settings), settings=settings, drawn=drawn)


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The bars at the sizes of a run."""
    sizes = settings["sizes"]
    largest = f'method == "reverse" and n == {sizes[-1]} and problem != "speelpenning"'  # which has no vectors at all
    speelpenning = 'problem == "speelpenning" and method == "forward_linearised"'
    return [
        *modes.bars(
            MANY_TO_ONE,
            sizes,
            cheap="reverse",
            costly="forward",
            limits={"flops": 5, "gw": 4, "mults": 3},
            evaluations={"reverse": "1", "forward_linearised": "1", "fd_forward": "n + 1", "fd_central": "2 * n"},
            roundings=16,
        ),
        Bar("speelpenning-exact", f"max(abs(flops_ratio - (1 + 3 * n)), {speelpenning})", "<=", 1e-9),
        Bar("time-reverse", f"max(wall_ratio, {largest})", "<=", 12, deterministic=False),
        Bar("time-modes", 'min(over_cheap, method == "forward" and n >= 32)', ">", 1, deterministic=False),
    ]
