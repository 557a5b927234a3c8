"""E06: the error of differences and of the complex step against the step, beside modes that have no step at all.

Differences have a best step and lose half or a third of the digits even there. The complex step is automatic
differentiation to within h^2: with h small enough it is as accurate, as long as the function is analytic and all it
calls takes complex numbers. It fails for abs, conj and comparisons of real parts, of which abs is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import dualtape as dt

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import adbench_data, gmm, measure
from ..shared.measure import EPS
from ..shared.problems import LONG
from .curves import CURVES, Curve, closed, closed_derivative, closed_scale, users_curve

SPEC = Spec(
    id="E06",
    name="accuracy_vs_step",
    title="differences, complex step and dualtape",
    claims=(
        Claim(
            "differences",
            "Forward and central differences err by h and h^2 for large steps and by eps/h for small ones: at best by "
            "about eps^(1/2) and eps^(2/3).",
            "Taylor's formula and rounding, counted",
            "D",
        ),
        Claim(
            "complex-step",
            "Im f(x + ih)/h takes no difference, and so loses no digits however small h is.",
            "Squire & Trapp, SIAM Review 40(1), 1998, abstract",
            "R",
        ),
        Claim(
            "logistic-map",
            "The iterated logistic map, differentiated in closed form and through its recurrence.",
            "Baydin et al., JMLR 18(153), 2018, table of l_n (after lecture notes that restate it)",
            "R",
        ),
    ),
)

COLUMNS = (
    Column(
        "kind",
        "step: one step; best: one method, where its envelope is lowest; points: many points; bin: of a histogram; "
        "gradient; failure",
    ),
    Column("function", "A, A' (by recurrence), B, C (mixture gradient), abs, or the user's"),
    Column("method", "forward, central, complex, ad_forward, ad_reverse"),
    Column("h", "the step; of the best one where there are several"),
    Column("derivative", "what the method says"),
    Column("error", "distance from the reference, relative to it"),
    Column("envelope", "median error of the steps within a quarter of a decade: no single step that is lucky"),
    Column("ulps", "distance from the reference in units in its last place"),
    Column("disagreement", "distance of the two modes, relative to the reference"),
    Column("gap", "largest distance from the benchmark's expected gradient (C)"),
    Column("scaled_median", "over the points: error over what eps in every intermediate value makes of it"),
    Column("scaled_p95", "95th percentile of it"),
    Column("scaled_max", "largest of it"),
    Column("scaled_modes", "largest distance of the two modes, in the same unit"),
    Column("bin", "lower edge of the bin, of the scaled error"),
    Column("count", "points, all or in the bin"),
)

SMALLEST, LARGEST = -20, 0  # decimal logarithms of the steps
TINY_STEPS = (1e-100, 1e-200, 1e-300)  # for the complex step only
TINY = 1e-200
BIN, BINS = 0.05, 24
REAL_STEPS = ("forward", "central")
MODES = ("ad_forward", "ad_reverse")


# ---------------------------------------------------------------------------------------------------------------------
# Quotients and modes.


def _quotient(f: Callable[[Any], Any], x: float, h: float, method: str) -> float:
    """The derivative by a step, as textbooks have it; NaN where f fails or leaves the real numbers."""
    at = np.float64(x)
    try:
        with np.errstate(all="ignore"):
            if method == "forward":
                found = (f(at + h) - f(at)) / h
            elif method == "central":
                found = (f(at + h) - f(at - h)) / (2 * h)
            else:
                found = np.imag(f(np.complex128(complex(x, h)))) / h
        return float(found)
    except Exception:  # outside its domain, or not made for complex numbers
        return float("nan")


NEAR = 10**0.25 * (1 + 1e-9)  # within this factor of a step, steps form its envelope
NOTICED = 1e-11  # of x: the smallest step of a difference that may be called its best


def by_mode(f: Callable[[Any], Any], x: Any, mode: str) -> Any:
    """The derivative of an elementwise f at one or many points."""
    if mode == "ad_forward":
        return np.asarray(dt.jvp(f, (x,), (np.ones_like(x),))[1])[()]
    return np.asarray(dt.grad(lambda y: np.sum(f(y)))(x))[()]


def _relative(value: float, reference: Any) -> float:
    """Distance relative to the reference; absolute if that is zero."""
    return float(abs(LONG(value) - reference) / (abs(reference) or LONG(1)))


def _judged(curve: Curve, derivative: float) -> Row:
    """A derivative and its distances from the reference."""
    error, ulps = _relative(derivative, curve.reference), measure.ulps(derivative, curve.reference)
    return {"derivative": derivative, "error": error, "ulps": ulps}


def _curve_rows(curve: Curve, per_decade: int) -> Iterator[Row]:
    """All steps of all methods, then one row a method: the modes, and the others at the step that does best."""
    logs = np.arange(SMALLEST * per_decade, LARGEST * per_decade + 1) / per_decade
    steps = [float(h) for h in 10.0**logs if h <= curve.largest * (1 + EPS)]
    best = []
    for method in (*REAL_STEPS, "complex"):
        rows: list[Row] = []
        for h in (*TINY_STEPS, *steps) if method == "complex" else steps:
            derivative = _quotient(curve.f, curve.x, h, method)
            if np.isfinite(derivative):
                rows.append({"kind": "step", "method": method, "h": h} | _judged(curve, derivative))
        for row in rows:
            near = [other["error"] for other in rows if row["h"] / NEAR <= other["h"] <= row["h"] * NEAR]
            row["envelope"] = float(np.median(near))
        yield from rows
        # A step that x + h hardly notices gives zero or noise: it happens to be right where the truth is zero.
        seen = [row for row in rows if method == "complex" or row["h"] >= NOTICED * max(1.0, abs(curve.x))]
        if rows:
            best.append(min(seen or rows, key=lambda row: row["envelope"]))
    derivatives = {mode: float(by_mode(curve.f, np.float64(curve.x), mode)) for mode in MODES}
    gap = _relative(derivatives["ad_forward"], LONG(derivatives["ad_reverse"]))
    for mode, derivative in derivatives.items():
        best.append({"method": mode, "disagreement": gap} | _judged(curve, derivative))
    yield from (row | {"kind": "best"} for row in best)


# ---------------------------------------------------------------------------------------------------------------------
# Many points, a whole gradient, and a failure.


def points_rows(count: int, rng: Any) -> Iterator[Row]:
    """Scaled errors at random points: percentiles and a histogram."""
    xs = rng.uniform(size=count)
    reference, unit = closed_derivative(xs), EPS * closed_scale(xs)
    found = {mode: by_mode(closed, xs, mode) for mode in MODES}
    found["complex"] = closed(xs + 1j * TINY).imag / TINY
    between = float(np.max(np.abs(found["ad_forward"] - found["ad_reverse"]) / unit))
    for method, derivatives in found.items():
        scaled = np.asarray(np.abs(derivatives - reference) / unit, dtype=np.float64)
        yield {
            "kind": "points",
            "method": method,
            "scaled_median": np.median(scaled),
            "scaled_p95": np.quantile(scaled, 0.95),
            "scaled_max": np.max(scaled),
            "scaled_modes": between,
            "count": count,
        }
        counts, edges = np.histogram(np.minimum(scaled, BIN * (BINS - 0.5)), bins=BINS, range=(0, BIN * BINS))
        for edge, inside in zip(edges, counts, strict=False):
            yield {"kind": "bin", "method": method, "bin": edge, "count": int(inside)}


def _gradient_rows() -> Iterator[Row]:
    """The gradient of the benchmark's smallest mixture, against what the benchmark expects."""
    mixture = gmm.load("gmm/test.txt")
    f, x, known = gmm.objective(mixture), mixture.parameters, adbench_data.expected("gmm/test.txt")
    assert known is not None
    _, push = dt.linearize(f, x)
    gradients = {
        "ad_forward": [float(push(direction)) for direction in np.eye(x.size)],
        "ad_reverse": np.asarray(dt.grad(f)(x)),
        "complex": [measure.complex_step(f, x, i, TINY) for i in range(x.size)],
    }
    for method, gradient in gradients.items():
        gap = np.max(np.abs(np.asarray(gradient) - np.array(known["gradient"])))
        yield {"kind": "gradient", "method": method, "gap": gap, "count": x.size}


def _failure_rows() -> Iterator[Row]:
    """|x| at -1: the modulus is not analytic, and the complex step says 0."""
    for method in ("complex", *MODES):
        if method == "complex":
            derivative = _quotient(np.abs, -1.0, TINY, method)
        else:
            derivative = float(by_mode(np.abs, np.float64(-1.0), method))
        yield {"kind": "failure", "method": method, "derivative": derivative, "error": abs(derivative + 1)}


# ---------------------------------------------------------------------------------------------------------------------
# Bars.


def _step_bars(name: str, prefix: str) -> list[Bar]:
    """Slopes of the error in h where it is truncation and where it is rounding, and the best that can be had."""

    def of(method: str, least: float, most: float) -> str:
        inside = f"h >= {least} and h <= {most}"
        return f'slope(h, error, kind == "step" and function == "{name}" and method == "{method}" and {inside})'

    found = []
    for method, order, least, most in (
        ("forward", 1, 0.99e-5, 1.01e-2),
        ("central", 2, 0.99e-4, 0.032),
        ("complex", 2, 0.99e-4, 0.032),
    ):
        found.append(Bar(f"{prefix}-order-{method}-least", of(method, least, most), ">=", order - 0.05))
        found.append(Bar(f"{prefix}-order-{method}-most", of(method, least, most), "<=", order + 0.05))
    for method, least, most in (("forward", 1e-10, 1e-7), ("central", 1e-12, 1e-9)):
        best = f'min(envelope, kind == "step" and function == "{name}" and method == "{method}")'
        found += [
            Bar(f"{prefix}-rounding-{method}-least", of(method, 0.99e-14, 1.01e-10), ">=", -1.25),
            Bar(f"{prefix}-rounding-{method}-most", of(method, 0.99e-14, 1.01e-10), "<=", -0.75),
            Bar(f"{prefix}-best-{method}-least", best, ">=", least),
            Bar(f"{prefix}-best-{method}-most", best, "<=", most),
        ]
    return found


def _bars() -> list[Bar]:
    best = 'kind == "best" and (method == "ad_forward" or method == "ad_reverse")'
    points = 'kind == "points" and method != "complex"'
    tiny = 'max(ulps, kind == "step" and method == "complex" and h <= 1e-12)'  # h^2 is far below eps, down to 1e-300
    return [
        *_step_bars("A", "a"),
        *_step_bars("B", "b"),
        Bar("modes-ulps", f"max(ulps, {best})", "<=", 8),
        Bar("complex-step-ulps", tiny, "<=", 8),
        Bar("scaled-p95", f"max(scaled_p95, {points})", "<=", 1),
        Bar("scaled-modes", f"max(scaled_modes, {points})", "<=", 4),
        Bar("mixture-gradient", 'max(gap, kind == "gradient")', "<=", 1e-14),
        Bar("abs-by-modes", 'max(error, kind == "failure" and method != "complex")', "==", 0),
        Bar("abs-by-complex-step", 'only(derivative, kind == "failure" and method == "complex")', "==", 0),
    ]


def _users_bars() -> list[Bar]:
    """What may be asked of any function: the modes agree, and both with the reference; differences come near it."""
    modes = 'kind == "best" and (method == "ad_forward" or method == "ad_reverse")'
    return [
        Bar("modes-agree", f"max(disagreement, {modes})", "<=", 1e-12),
        Bar("differences-confirm", 'only(error, kind == "best" and method == "central")', "<=", 1e-5),
        Bar("reference-confirms", f"max(error, {modes})", "<=", 1e-10),
    ]


# ---------------------------------------------------------------------------------------------------------------------


def _report(curves: tuple[Curve, ...], rows: list[Row]) -> str:
    """The methods side by side, each where its envelope is lowest, as a Markdown table a function."""
    lines = []
    for curve in curves:
        called = curve.name if curve.formula == curve.name else f"{curve.name} = {curve.formula}"
        lines += [f"{called} at x = {curve.x!r}", "", f"Reference: {float(curve.reference)!r} ({curve.source}).", ""]
        lines += ["| method | step | derivative | relative error, median nearby |", "| --- | --- | --- | --- |"]
        mine = {row["method"]: row for row in rows if row["kind"] == "best" and row["function"] == curve.name}
        for method in (*REAL_STEPS, "complex", *MODES):
            if method not in mine:
                lines.append(f"| {method} | | not available: the function does not take it | |")
                continue
            row = mine[method]
            step = f"{row['h']:.1e}" if "h" in row else ""
            lines.append(f"| {method} | {step} | {row['derivative']!r} | {row.get('envelope', row['error']):.1e} |")
        lines.append("")
    return "\n".join(lines)


def run(config: Config) -> Result:
    curves = CURVES if config.function is None else (users_curve(config.function),)
    rows: list[Row] = []
    for curve in config.track(curves, SPEC.name):
        rows += [{"function": curve.name} | row for row in _curve_rows(curve, 4 if config.quick else 8)]
    settings: dict[str, Any] = {"references": {curve.name: curve.source for curve in curves}}
    if config.function is not None:
        settings |= {"function": curves[0].name, "at": curves[0].x}
    else:
        rows += [{"function": "A"} | row for row in points_rows(200 if config.quick else 1000, config.rng(SPEC.name))]
        rows += [{"function": "C"} | row for row in _gradient_rows()]
        rows += [{"function": "abs"} | row for row in _failure_rows()]
    files = {"table.md": _report(curves, rows)}
    drawn = ([curve.sketch() for curve in curves if curve.name != "A'"],)
    return Result(COLUMNS, rows, bars(settings), settings=settings, files=files, drawn=drawn)


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The bars of E06, or of a function of the user's."""
    return _users_bars() if "function" in settings else _bars()
