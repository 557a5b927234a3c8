"""E07: the derivative of the iterated logistic map as an expression, and as operations of automatic differentiation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dualtape as dt
from dualtape.inspect import cost

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import measure
from ..shared.problems import LONG
from .expressions import Algebra, iterate, shared_size, tree_size, value

SPEC = Spec(
    id="E07",
    name="expression_swell",
    title="expression swell",
    claims=(
        Claim(
            "swell",
            "Written out, the derivative of the n-th iterate of the logistic map grows like n 2^n, faster than the "
            "iterate itself.",
            "Baydin et al., JMLR 18(153), 2018, table of l_n (after lecture notes that restate it); counted",
            "R",
        ),
        Claim(
            "same-operations",
            "Symbolic and automatic differentiation perform the same operations where common parts are shared.",
            "Laue, arXiv:1904.02990, abstract",
            "R",
        ),
        Claim(
            "counts",
            "Trees of 6 2^(n-1) - 5 and 9 (n-1) 2^(n-1) + 1 nodes; with sharing 3n and 10n - 7.",
            "counted by a program of the rules of sums and products, and by hand",
            "D",
        ),
    ),
)
COLUMNS = (
    Column("n", "iterate"),
    Column("tree", "nodes of l_n written out, leaves included"),
    Column("derivative_tree", "nodes of its derivative"),
    Column("shared", "different nodes of l_n"),
    Column("derivative_shared", "different nodes of its derivative"),
    Column("tape_operations", "operations recorded by one evaluation"),
    Column("forward_flops", "flops of one tangent with the evaluation, declared"),
    Column("reverse_flops", "flops of the gradient with the evaluation, declared"),
    Column("forward_second", "second difference of forward_flops in n (0: affine)"),
    Column("reverse_second", "second difference of reverse_flops in n"),
    Column("expression_ulps", "distance of the derivative as an expression from the closed form's (n = 4)"),
    Column("forward_ulps", "of forward mode"),
    Column("reverse_ulps", "of reverse mode"),
)
AT = 0.2


def logistic(n: int) -> Any:
    """The n-th iterate as a program."""

    def f(x: Any) -> Any:
        for _ in range(n - 1):
            x = (4.0 * x) * (1.0 - x)
        return x

    return f


def run(config: Config) -> Result:
    ns = range(1, 13 if config.quick else 21)
    rows: list[Row] = []
    for n in config.track(ns, SPEC.name):
        algebra = Algebra()
        l_n = iterate(algebra, n)
        slope = algebra.derivative(l_n)
        row: Row = {"n": n, "tree": tree_size(l_n), "derivative_tree": tree_size(slope)}
        row |= {"shared": shared_size(l_n), "derivative_shared": shared_size(slope)}
        f = logistic(n)
        if n > 1:
            counted = cost(f, AT)
            once = counted.evaluation + counted.partials
            row |= {"tape_operations": counted.nodes, "forward_flops": (once + counted.tangent).weigh("flops")}
            row["reverse_flops"] = (once + counted.adjoint).weigh("flops")
        if n == 4:
            exact = closed_derivative(AT)
            found = {"expression": value(slope, AT), "forward": dt.jvp(f, (AT,), (1.0,))[1], "reverse": dt.grad(f)(AT)}
            row |= {f"{name}_ulps": measure.ulps(float(v), exact) for name, v in found.items()}
        rows.append(row)
    for name in ("forward", "reverse"):
        flops = [row.get(f"{name}_flops") for row in rows]
        for k in range(3, len(rows)):
            rows[k][f"{name}_second"] = flops[k] - 2 * flops[k - 1] + flops[k - 2]
    settings = {"largest": ns[-1]}
    return Result(COLUMNS, rows, bars(settings), settings=settings)


def closed_derivative(x: float) -> Any:
    """The derivative of the fourth iterate, 64 x (1-x) (1-2x)^2 (1-8x+8x^2)^2, by hand in extended precision."""
    y = LONG(1) * x
    p, q, r = y * (1 - y), 1 - 2 * y, 1 - 8 * y + 8 * y * y
    return 64 * (q**3 * r**2 - 4 * p * q * r**2 + 2 * p * q**2 * r * (16 * y - 8))


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The formulas, exactly; the cost of automatic differentiation affine in n; the values."""
    formulas = {
        "tree": ("tree - (6 * 2 ** (n - 1) - 5)", "n >= 1"),
        "derivative-tree": ("derivative_tree - (9 * (n - 1) * 2 ** (n - 1) + 1)", "n >= 1"),
        "shared": ("shared - 3 * n", "n >= 2"),
        "derivative-shared": ("derivative_shared - (10 * n - 7)", "n >= 2"),
        "operations": ("tape_operations - 3 * (n - 1)", "n >= 2"),
        "forward-affine": ("forward_second", "n >= 4"),
        "reverse-affine": ("reverse_second", "n >= 4"),
    }
    found = [Bar(name, f"max(abs({expr}), {where})", "==", 0) for name, (expr, where) in formulas.items()]
    ways = ("expression", "forward", "reverse")
    found += [Bar(f"{name}-ulps", f"only({name}_ulps, n == 4)", "<=", 8) for name in ways]
    # Affine could be constant: each iterate costs something, and reverse mode no more than five times the function's 3.
    found += [
        Bar("reverse-least", "max(reverse_flops / tape_operations, n == 12)", ">=", 2),
        Bar("reverse-most", "max(reverse_flops / tape_operations, n == 12)", "<=", 5),
    ]
    return found
