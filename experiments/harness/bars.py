"""Bars that anybody can re-evaluate: a tiny expression language over the rows of a result, and its judge.

An expression has Python's syntax and these words only:

    max(ratio, mode == "reverse")          largest `ratio` of the rows where the condition holds
    min, sum, mean, median, spread         likewise (spread = max / min)
    count(condition)                       number of rows where it holds
    slope(n, work, n >= 16)                least-squares slope of log(work) against log(n)
    only(value, case == "exp")             the value of the one row selected

joined by arithmetic and comparisons. Column names stand for the row's entry, and `abs` is available inside rows.
No row selected, or a missing entry in one that is, makes the expression undefined, and an undefined bar fails.
Nothing here needs NumPy: a result file is judged by what it says, not by the installation that reads it.
"""

from __future__ import annotations

import ast
import math
import operator
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from .spec import Bar, Row

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda a, b: math.pow(a, b),  # of floats: whole numbers of a file could grow without bound
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class BarError(ValueError):
    """The expression is not in the language, or has no value on these rows."""


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Least-squares slope of log(y) against log(x)."""
    if len(xs) < 2:
        raise BarError("a slope needs two rows")
    lx, ly = [math.log(x) for x in xs], [math.log(y) for y in ys]
    mx, my = math.fsum(lx) / len(lx), math.fsum(ly) / len(ly)
    spread_x = math.fsum((x - mx) ** 2 for x in lx)
    if spread_x == 0:
        raise BarError("a slope needs two different sizes")
    return math.fsum((x - mx) * (y - my) for x, y in zip(lx, ly, strict=True)) / spread_x


def _only(values: Sequence[Any]) -> Any:
    if len(values) != 1:
        raise BarError(f"`only` selected {len(values)} rows")
    return values[0]


_REDUCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "max": max,
    "min": min,
    "sum": math.fsum,
    "mean": statistics.fmean,
    "median": statistics.median,
    "spread": lambda values: max(values) / min(values),
    "only": _only,
}


def _combine(node: ast.AST, visit: Callable[[ast.AST], Any]) -> Any:
    """What both levels share: constants, arithmetic, comparisons and logic."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](visit(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](visit(left), visit(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](visit(left), visit(right))
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(visit(part) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(visit(part) for part in parts)
    raise BarError(f"not in the language of bars: {ast.unparse(node)}")


def _in_row(node: ast.AST, row: Row) -> Any:
    match node:
        case ast.Name(id=name):
            if name not in row:
                raise BarError(f"no column {name!r}")
            return row[name]
        case ast.Call(func=ast.Name(id="abs"), args=[argument], keywords=[]):
            return abs(_in_row(argument, row))
    return _combine(node, lambda part: _in_row(part, row))


def _select(rows: Sequence[Row], condition: Sequence[ast.AST]) -> list[Row]:
    """The rows where the condition, if there is one, holds."""
    chosen = [row for row in rows if all(_in_row(part, row) for part in condition)]
    if not chosen:
        raise BarError("no row selected")
    return chosen


def _over_rows(node: ast.AST, rows: Sequence[Row]) -> Any:
    match node:
        case ast.Call(func=ast.Name(id="count"), args=[condition], keywords=[]):
            return sum(bool(_in_row(condition, row)) for row in rows)
        case ast.Call(func=ast.Name(id="slope"), args=[x, y, *condition], keywords=[]) if len(condition) < 2:
            chosen = _select(rows, condition)
            return slope([_in_row(x, row) for row in chosen], [_in_row(y, row) for row in chosen])
        case ast.Call(func=ast.Name(id=name), args=[value, *condition], keywords=[]) if name in _REDUCTIONS:
            if len(condition) > 1:
                raise BarError(f"{name} takes one condition")
            values = [_in_row(value, row) for row in _select(rows, condition)]
            if any(v is None or v != v for v in values):  # a NaN must not slip through max()
                raise BarError("missing entry")
            return _REDUCTIONS[name](values)
    return _combine(node, lambda part: _over_rows(part, rows))


def evaluate(expr: str, rows: Sequence[Row]) -> Any:
    """The value of `expr` on `rows`; BarError if it has none."""
    try:
        tree = ast.parse(expr, mode="eval").body
    except SyntaxError as error:
        raise BarError(f"cannot read {expr!r}: {error.msg}") from error
    try:
        return _over_rows(tree, rows)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise BarError(f"{expr}: {error}") from error


def judge(bar: Bar, rows: Sequence[Row]) -> dict[str, Any]:
    """The check a result file stores: the bar, the value found and whether it is met."""
    try:
        lhs = evaluate(bar.expr, rows)
        if isinstance(lhs, float) and not math.isfinite(lhs):
            lhs = None
    except BarError:
        lhs = None
    passed = lhs is not None and bool(OPERATORS[bar.op](lhs, bar.rhs))
    return {
        "id": bar.id,
        "expr": bar.expr,
        "lhs": lhs,
        "op": bar.op,
        "rhs": bar.rhs,
        "passed": passed,
        "deterministic": bar.deterministic,
    }


def verdict(checks: Sequence[dict[str, Any]], assert_time: bool) -> bool:
    """True if every judged check passed; timing is judged on request only."""
    return all(check["passed"] for check in checks if check["deterministic"] or assert_time)


def failed(checks: Sequence[dict[str, Any]], assert_time: bool) -> list[str]:
    """The judged checks that do not hold, in words."""
    judged = [check for check in checks if check["deterministic"] or assert_time]
    return [
        f"{c['id']}: {c['lhs']} {c['op']} {c['rhs']} does not hold ({c['expr']})" for c in judged if not c["passed"]
    ]


def differences(theirs: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]) -> list[str]:
    """Where the bars of a file are not those of the code, in words."""
    lines = []
    files = {check["id"]: check for check in theirs}
    for check in ours:
        other = files.pop(check["id"], None)
        if other is None:
            lines.append(f"{check['id']}: a bar of the code that the file does not have")
            continue
        for key in ("expr", "op", "rhs", "deterministic"):
            if other[key] != check[key]:
                lines.append(f"{check['id']}: {key} is {other[key]} in the file, and {check[key]} in the code")
    return lines + [f"{name}: a bar of the file that the code does not have" for name in files]


def recheck(document: dict[str, Any]) -> list[str]:
    """Re-evaluate a result document from itself alone; the list of what is wrong with it, empty if nothing is."""
    wrong = [] if document["checks"] else ["there are no bars in this file, so it shows nothing"]
    for check in document["checks"]:
        if check["op"] not in OPERATORS:
            wrong.append(f"{check['id']}: unknown comparison {check['op']!r}")
            continue
        bar = Bar(check["id"], check["expr"], check["op"], check["rhs"], check["deterministic"])
        again = judge(bar, document["rows"])
        if again["lhs"] != check["lhs"]:
            wrong.append(f"{bar.id}: the file says {check['lhs']}, its rows say {again['lhs']} ({bar.expr})")
        if again["passed"] != check["passed"]:
            wrong.append(f"{bar.id}: the file says passed = {check['passed']}, its rows say {again['passed']}")
    wrong += failed(document["checks"], document["config"].get("assert_time", False))
    again_passed = verdict(document["checks"], document["config"].get("assert_time", False))
    if document["passed"] != again_passed:
        wrong.append(f"the file says passed = {document['passed']}, its checks say {again_passed}")
    return wrong
