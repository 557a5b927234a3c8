"""E04: the constants of the cheap gradient, per operation and per program, by a model and counted call by call.

The column of work says from shapes what an operation costs by the textbook's model; the counter (`inspect.performed`)
sees the NumPy calls that kernels and rules make and knows nothing of that column. Where they differ, a reason stands
beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import dualtape as dt
from dualtape.inspect import cost, performed

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared.programs import Program, programs
from .operations import Operation, operations

SPEC = Spec(
    id="E04",
    name="cheap_gradient",
    title="the cheap gradient, declared and performed",
    claims=(
        Claim(
            "bounds",
            "With memory counted a tangent costs at most 2.5 evaluations and an adjoint 4; without it, 4 and 5.",
            "Griewank & Walther, Evaluating Derivatives, 2nd ed., SIAM 2008 (after a public summary); counted",
            "R2",
        ),
        Claim(
            "baur-strassen",
            "The multiplications and divisions of a function and all its partial derivatives are at most three times "
            "those of the function.",
            "Baur & Strassen, Theoretical Computer Science 22, 1983, abstract",
            "R",
        ),
        Claim(
            "declared",
            "What the table declares is what kernels and rules perform, but for differences that are listed.",
            "counted, NumPy call by NumPy call",
            "D",
        ),
    ),
)
WEIGHTINGS = ("flops", "gw", "mults")
PARTS = ("evaluation", "tangent", "adjoint")
COLUMNS = (
    Column("kind", "operation or program"),
    Column("name", "which one"),
    Column("size", "elements of each argument"),
    Column("part", "evaluation; tangent, adjoint: what they take beyond it (for programs: with it)"),
    *(Column(f"declared_{w}", f"declared, weighting {w}") for w in WEIGHTINGS),
    *(Column(f"performed_{w}", f"performed, weighting {w}; empty if a call has no formula") for w in WEIGHTINGS),
    *(Column(f"declared_{w}_ratio", f"with the evaluation, over the evaluation, weighting {w}") for w in WEIGHTINGS),
    *(Column(f"performed_{w}_ratio", "the same, performed") for w in WEIGHTINGS),
    Column("rational", "1 for programs of additions, multiplications and divisions alone"),
    Column("difference", "performed less declared, in flops"),
    Column("reason", "why they differ; empty if they do not"),
)

Count = tuple[int, int, int, int]


def run(config: Config) -> Result:
    sizes = (16, 64, 256)
    rows: list[Row] = []
    for op in config.track(list(operations()), SPEC.name):
        for size in sizes:
            rows += operation_rows(op, size, config.rng(f"{SPEC.name}/{op.name}/{size}"))
    for program in config.track(list(programs(config, SPEC.name)), f"{SPEC.name}, programs"):
        rows += program_rows(program)
    files = {"table.md": table(rows, sizes[1])}
    settings = {"sizes": sizes}
    return Result(COLUMNS, rows, bars(settings), settings=settings, files=files, drawn=(sizes[1],))


# ------------------------------------------------------------------ counts
def operation_rows(op: Operation, size: int, rng: np.random.Generator) -> Iterator[Row]:
    """One operation: what its evaluation, its tangent and its adjoint take, by both counts."""
    args = op.arguments(size, rng)
    n = len(args)
    declared = cost(op.f, *args)
    with np.errstate(all="ignore"):
        y = np.asarray(op.f(*args))
        evaluation = performed(op.f, *args)
        tangent = performed(
            lambda *given: dt.jvp(op.f, given[:n], given[n:])[1], *args, *[np.full(a.shape, 0.5) for a in args]
        )
        adjoint = performed(lambda *given: dt.vjp(op.f, *given[:n])[1](given[n]), *args, np.full(y.shape, 0.7)[()])
    # A direction is looked through for zeros once a sweep; the cotangent of an operand has nothing to be added to here.
    elements = sum(a.size for a in args)
    more = {"evaluation": declared.evaluation, "tangent": declared.partials + declared.tangent}
    more["adjoint"] = declared.partials + declared.adjoint
    once = tuple(declared.evaluation)
    for part, count in zip(PARTS, (evaluation, tangent, adjoint), strict=True):
        found = less(count.work, evaluation.work) if part != "evaluation" else tuple(count.work)
        expected = tuple(more[part])
        if part == "tangent":
            found = less(found, (0, elements, 0, 0))
        if part == "adjoint" and expected[1]:
            expected = less(expected, (0, min(elements, expected[1]), 0, 0))
        known = not (count.uncounted or evaluation.uncounted)
        row: Row = {"kind": "operation", "name": op.name, "size": size, "part": part}
        row |= {f"declared_{w}": weigh(expected, w) for w in WEIGHTINGS}
        row |= {f"performed_{w}": weigh(found, w) if known else None for w in WEIGHTINGS}
        with_it = expected if part == "evaluation" else plus(tuple(more[part]), once)
        for w in WEIGHTINGS:
            row[f"declared_{w}_ratio"] = ratio(weigh(with_it, w), weigh(once, w))
            both = found if part == "evaluation" else plus(found, tuple(evaluation.work))
            row[f"performed_{w}_ratio"] = ratio(weigh(both, w), weigh(tuple(evaluation.work), w)) if known else None
        row["difference"] = weigh(found, "flops") - weigh(expected, "flops") if known else None
        row["reason"] = reason(expected, found, count.uncounted | evaluation.uncounted)
        yield row


def program_rows(program: Program) -> Iterator[Row]:
    """One program: its evaluation, a tangent and a gradient, each with the evaluation."""
    f, x = program.f, program.x
    declared = cost(f, x)
    evaluation = performed(f, x)
    tangent = performed(lambda y, t: dt.jvp(f, (y,), (t,))[1], x, np.full(x.shape, 0.5))
    adjoint = performed(lambda y, g: dt.vjp(f, y)[1](g), x, np.float64(0.7))
    once = declared.evaluation
    totals = {"evaluation": once, "tangent": once + declared.partials + declared.tangent}
    totals["adjoint"] = once + declared.partials + declared.adjoint
    for part, count in zip(PARTS, (evaluation, tangent, adjoint), strict=True):
        found = less(count.work, (0, x.size, 0, 0)) if part == "tangent" else tuple(count.work)
        row: Row = {"kind": "program", "name": program.name, "size": x.size, "part": part, "reason": ""}
        row["rational"] = int(program.rational)
        row |= {f"declared_{w}": weigh(tuple(totals[part]), w) for w in WEIGHTINGS}
        row |= {f"performed_{w}": weigh(found, w) if not count.uncounted else None for w in WEIGHTINGS}
        for w in WEIGHTINGS:
            row[f"declared_{w}_ratio"] = ratio(weigh(tuple(totals[part]), w), weigh(tuple(once), w))
            row[f"performed_{w}_ratio"] = ratio(weigh(found, w), weigh(tuple(evaluation.work), w))
        row["difference"] = weigh(found, "flops") - weigh(tuple(totals[part]), "flops")
        yield row


def less(a: Any, b: Any) -> Count:
    """The difference of two counts."""
    return tuple(x - y for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def plus(a: Any, b: Any) -> Count:
    """The sum of two counts."""
    return tuple(x + y for x, y in zip(a, b, strict=True))  # type: ignore[return-value]


def weigh(count: Any, weighting: str) -> int:
    """A count as a number."""
    weights = {"flops": (0, 1, 1, 2), "gw": (1, 1, 1, 2), "mults": (0, 0, 1, 1)}[weighting]
    return sum(a * b for a, b in zip(count, weights, strict=True))


def ratio(a: int, b: int) -> float | None:
    """A ratio; None over nothing."""
    return a / b if b else None


def reason(declared: Count, found: Count, uncounted: dict[str, int]) -> str:
    """Why arithmetic that is performed is not what is declared."""
    if uncounted:
        return f"no formula for {', '.join(sorted(uncounted))}"
    adds, mults, nonlinear = (b - a for a, b in zip(declared[1:], found[1:], strict=True))
    if not (adds or mults or nonlinear):
        return ""
    parts = []
    if nonlinear < 0:
        parts.append("the partial is made of the result or of products: fewer nonlinear functions")
    if nonlinear > 0:
        parts.append("the model has no nonlinear function here")
    if adds > 0 or mults > 0:
        parts.append("signs, masks and the formula of the partial: more arithmetic")
    if (adds < 0 or mults < 0) and nonlinear >= 0:
        parts.append("a rule avoids work: products by the result, a number for many, one accumulation fewer")
    return "; ".join(parts)


# ------------------------------------------------------------------ bars
def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """What is declared is the model's; what is performed keeps its bounds; both are about as much."""
    found = []
    # Of operations the model is exact: (flops of a tangent with its evaluation, of an adjoint) over the evaluation.
    for name, tangent, adjoint in (("add", 2, 3), ("multiply", 4, 5), ("sin", 2.5, 3), ("matmul", 3, 3)):
        at = f'kind == "operation" and name == "{name}" and size == 256 and part =='
        slack = 0.1 if name == "matmul" else 1e-9
        for part, value in (("tangent", tangent), ("adjoint", adjoint)):
            column = f'only(declared_flops_ratio, {at} "{part}")'
            found += [
                Bar(f"declared-{name}-{part}-least", column, ">=", value - slack),
                Bar(f"declared-{name}-{part}-most", column, "<=", value + slack),
            ]
    of_sum = 'kind == "operation" and name == "sum" and size == 256 and part == "adjoint"'
    found += [
        Bar("declared-sum-adjoint-least", f"only(declared_flops_ratio, {of_sum})", ">=", 1.99),
        Bar("declared-sum-adjoint-most", f"only(declared_flops_ratio, {of_sum})", "<=", 2.01),
    ]
    # Operations that the textbook counts as elementals are performed as declared, to the last addition.
    exact = " or ".join(f'name == "{n}"' for n in ("add", "multiply", "sin", "sinh", "matmul", "sum", "outer"))
    parts = 'kind == "operation" and (part == "evaluation" or part == "adjoint")'
    found.append(Bar("performed-exactly", f"max(abs(difference), {parts} and ({exact}))", "==", 0))
    found.append(
        Bar("evaluations-exactly", 'count(part == "evaluation" and kind == "operation" and reason == "")', ">=", 150)
    )
    programs = 'kind == "program" and part =='
    # In what is performed, formulas of partials may take more than the model's one evaluation: a quotient finds 1 / y
    # and -out / y for itself, four multiplications and divisions where the theorem's program shares and takes three.
    for count, most_tangent, most_mults in (("declared", 4, 3), ("performed", 5, 4)):
        of_all, of_rational = f"{count}_flops_ratio, {programs}", f"{count}_mults_ratio, {programs}"
        found += [
            Bar(f"{count}-flops-tangent", f'max({of_all} "tangent")', "<=", most_tangent),
            Bar(f"{count}-flops-adjoint", f'max({of_all} "adjoint")', "<=", 5),
            Bar(f"{count}-adjoint-least", f'min({of_all} "adjoint")', ">=", 1.5),
            Bar(f"{count}-mults-adjoint", f'max({of_rational} "adjoint" and rational == 1)', "<=", most_mults),
        ]
    between = f'declared_flops / performed_flops, {programs} "adjoint"'
    found += [
        Bar("declared-gw-adjoint", f'max(declared_gw_ratio, {programs} "adjoint")', "<=", 4),
        Bar("declared-gw-tangent", f'max(declared_gw_ratio, {programs} "tangent")', "<=", 2.5),
        Bar("declared-over-performed-least", f"min({between})", ">=", 0.8),
        Bar("declared-over-performed-most", f"max({between})", "<=", 2),
    ]
    return found


def table(rows: list[Row], size: int) -> str:
    """Operations at one size and programs, as Markdown."""
    lines = [
        f"Operations on {size} elements, and programs: flops by the model and as performed; ratios are with the",
        "evaluation, over the evaluation. Asymptotically: a product of matrices 3 with both operands active, 2 with",
        "one; a sum 2.",
        "",
        "| name | part | declared | performed | ratio declared | ratio performed | why they differ |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        if row["kind"] == "operation" and row["size"] != size:
            continue
        shown = ["" if row[k] is None else f"{row[k]:g}" for k in (
            "declared_flops", "performed_flops", "declared_flops_ratio", "performed_flops_ratio"
        )]  # fmt: skip
        lines.append(f"| {row['name']} | {row['part']} | {' | '.join(shown)} | {row['reason']} |")
    return "\n".join(lines) + "\n"
