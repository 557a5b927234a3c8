"""E18: reverse mode is forward mode transposed - the linearised program and its transpose multiply equally often.

Both are recorded once and applied again; what an application performs is counted call by call, and it may not evaluate
anything nonlinear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import dualtape as dt
from dualtape.inspect import performed

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared.programs import Program, programs

SPEC = Spec(
    id="E18",
    name="linearise_transpose",
    title="a linearised program and its transpose",
    claims=(
        Claim(
            "decomposition",
            "Reverse mode is forward mode, unzipped into a nonlinear and a linear part, and the latter transposed; "
            "cost is conserved.",
            "Radul et al., You only linearize once, POPL 2023, abstract",
            "R",
        ),
        Claim(
            "multiplications",
            "A linear program and its transpose multiply equally often: each product with a constant becomes one.",
            "transposition of a product, counted call by call",
            "D",
        ),
        Claim(
            "no-work-again",
            "A linearisation that is applied again evaluates no nonlinear function.",
            "counted call by call",
            "D",
        ),
    ),
)
COLUMNS = (
    Column("name", "the program"),
    Column("inputs", "numbers it takes"),
    Column("linear_mults", "multiplications of one application of the linearised program, performed"),
    Column("transpose_mults", "of its transpose"),
    Column("linear_adds", "additions of the linearised program"),
    Column("transpose_adds", "of its transpose"),
    Column("linear_nonlinear", "nonlinear functions in it (must be 0)"),
    Column("transpose_nonlinear", "in its transpose"),
    Column("fresh_flops", "flops of a new tangent sweep, evaluation included"),
    Column("linear_flops", "flops of applying the linearised program again"),
    Column("dot_test", "largest relative gap of <u, J v> and <J' u, v> over five pairs"),
)


def run(config: Config) -> Result:
    found = list(programs(config, SPEC.name))
    rows = [row for program in config.track(found, SPEC.name) for row in rows_of(program, config)]
    return Result(COLUMNS, rows, bars({}))


def rows_of(program: Program, config: Config) -> Iterator[Row]:
    """One program, linearised and transposed."""
    f, x = program.f, program.x
    _, push = dt.linearize(f, x)
    _, pull = dt.vjp(f, x)
    direction = np.full(x.shape, 0.5)
    linear = performed(lambda t: push(t), direction).work
    transpose = performed(lambda g: pull(g)[0], np.float64(0.7)).work
    fresh = performed(lambda y, t: dt.jvp(f, (y,), (t,))[1], x, direction).work
    rng = config.rng(f"{SPEC.name}/{program.name}/pairs")
    yield {
        "name": program.name,
        "inputs": x.size,
        "linear_mults": linear.mults,
        "transpose_mults": transpose.mults,
        "linear_adds": linear.adds,
        "transpose_adds": transpose.adds,
        "linear_nonlinear": linear.nonlinear,
        "transpose_nonlinear": transpose.nonlinear,
        "fresh_flops": fresh.weigh("flops"),
        "linear_flops": linear.weigh("flops"),
        "dot_test": max(gap(push, pull, rng.normal(), rng.normal(size=x.shape)) for _ in range(5)),
    }


def gap(push: Any, pull: Any, u: float, v: Any) -> float:
    """The relative distance of <u, J v> and <J' u, v>, over the terms of the second."""
    terms = np.asarray(pull(u)[0]) * v
    return abs(u * float(push(v)) - float(np.sum(terms))) / float(np.sum(np.abs(terms)))


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """Equal multiplications, nothing nonlinear, the same map."""
    return [
        Bar("same-multiplications", "max(abs(transpose_mults - linear_mults))", "==", 0),
        Bar("some-multiplications", "min(linear_mults)", ">=", 7),
        Bar("linear-is-linear", "max(linear_nonlinear)", "==", 0),
        Bar("transpose-is-linear", "max(transpose_nonlinear)", "==", 0),
        Bar("dot-test", "max(dot_test)", "<=", 1e-13),
        Bar("applied-again-is-cheaper", "max(linear_flops / fresh_flops)", "<=", 1),
        Bar("applied-again-costs", "min(linear_flops / fresh_flops)", ">=", 0.1),
    ]
