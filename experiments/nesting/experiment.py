"""E13: derivatives inside derivatives - no perturbation confusion, in any combination of the two modes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from . import particle, untagged

SPEC = Spec(
    id="E13",
    name="nesting",
    title="perturbation confusion and nested optimisation",
    claims=(
        Claim(
            "no-confusion",
            "D_x [x D_y (x + y)] at 1 is 1, and 2 if perturbations are confused; D_x [x D_y (x y)] at 1, y = 2, is 2.",
            "Siskind & Pearlmutter, Nesting forward-mode AD in a functional framework, HOSC 21, 2008; "
            "tests of ForwardDiff and DiffSharp",
            "R",
        ),
        Claim(
            "confused-product",
            "Confused perturbations make D_x [x D_y (x y)] at 1, y = 2, a 3.",
            "dual numbers without tags, by hand",
            "D",
        ),
        Claim(
            "shift",
            "The derivative of a shift operator, whose result is a function, is refused aloud; eta-expanded, which is "
            "one of the paper's two remedies, and applied twice it gives the second derivative.",
            "Manzyuk et al., arXiv:1211.4892; value h''(1) derived",
            "D",
        ),
        Claim(
            "particle-reported",
            "Newton's method on the charged particle reaches w = -0.266521 (tolerance 0.01) in 4 iterations.",
            "DiffSharp test suite",
            "R",
        ),
        Claim(
            "particle-exact",
            "After 4 Newton steps w = -0.266523434156999.",
            "the same program in high precision",
            "D",
        ),
    ),
)

COLUMNS = (
    Column("case", "name of the case"),
    Column("order", "how many derivatives are nested"),
    Column("outer", "mode of the outer derivative (alternating inwards where there are more than two)"),
    Column("inner", "mode of the inner derivative"),
    Column("value", "what dualtape gives"),
    Column("reference", "what is right"),
    Column("error", "relative distance of the two"),
    Column("untagged", "what dual numbers without tags give, where they can run the case"),
    Column("leaked_derivatives", "derivatives found for a value that outlived its recorder (must be 0)"),
    Column("explained", "1 if the tape says why there is none"),
    Column("refused", "1 if a result that is a function is refused"),
)

Derivative = Callable[[Callable[[Any], Any], Any], Any]

PARTICLE_4_STEPS = -0.266523434156999
PARTICLE_REPORTED = -0.266521


def forward(f: Callable[[Any], Any], x: Any) -> Any:
    """f'(x) by a tangent sweep."""
    return dt.jvp(f, (x,), (1.0,))[1]


def reverse(f: Callable[[Any], Any], x: Any) -> Any:
    """f'(x) by an adjoint sweep."""
    return dt.grad(f)(x)


def both(derivative: Derivative, f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """f(x) and f'(x) from one sweep in the mode of `derivative`."""
    value, slope = dt.jvp(f, (x,), (1.0,)) if derivative is forward else dt.value_and_grad(f)(x)
    return value, slope


MODES = {"forward": forward, "reverse": reverse}
PAIRS = [(outer, inner) for outer in MODES for inner in MODES]


@dataclass(frozen=True)
class Case:
    """A nested derivative as a function of the outer and the inner derivative."""

    name: str
    text: str
    compute: Callable[[Derivative, Derivative], Any]
    reference: float
    order: int = 2
    duals: bool = True  # whether untagged duals know the operations


def _gradient(derivative: Derivative) -> Callable[..., Any]:
    """The gradient of a function of a vector in the mode of `derivative`."""
    transform: Callable[..., Any] = dt.jacfwd if derivative is forward else dt.jacrev
    return transform


def _vector(outer: Derivative, inner: Derivative) -> Any:
    v = np.array([0.3, -0.7, 1.1])

    def along(x: Any) -> Any:
        return np.sum(_gradient(inner)(lambda v: x * np.sum(v) * np.sqrt(np.sum(v * v)))(v))

    return outer(along, 1.5)


def _vector_reference() -> float:
    """sum_i d/dv_i (s r) = n r + s^2 / r with s = sum v, r = |v|; x is a factor."""
    v = np.array([0.3, -0.7, 1.1], np.longdouble)
    s, r = np.sum(v), np.sqrt(np.sum(v * v))
    return float(v.size * r + s * s / r)


def _shift(outer: Derivative, inner: Derivative) -> Any:
    """D_u of the shift operator s(u)(f)(x) = f(x + u) at u = 0 is differentiation; twice on exp, at 1.

    Eta-expanded: x is an argument of what is differentiated, whose result is a number and no function.
    """

    def shifted(derivative: Derivative, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: derivative(lambda u: f(x + u), 0.0)

    return shifted(outer, shifted(inner, np.exp))(1.0)


def _refused_rows() -> Iterator[Row]:
    """The operator as it stands: the derivative of a function whose result is a function is refused."""
    for outer, derivative in MODES.items():
        try:
            derivative(lambda u: lambda f: lambda x: f(x + u), 0.0)
            refused = 0
        except TypeError as error:
            refused = int("function" in str(error))  # and says of what
        yield {"case": "shift, as it stands", "order": 1, "outer": outer, "inner": outer, "refused": refused}


CASES = (
    Case("sum", "D_x [x D_y (x + y) | y = 1] at 1", lambda o, i: o(lambda x: x * i(lambda y: x + y, 1.0), 1.0), 1.0),
    Case("product", "D_x [x D_y (x y) | y = 2] at 1", lambda o, i: o(lambda x: x * i(lambda y: x * y, 2.0), 1.0), 2.0),
    Case("square", "D_x [x D_y (y^2) | y = 1] at 1", lambda o, i: o(lambda x: x * i(lambda y: y * y, 1.0), 1.0), 2.0),
    Case("vector", "D_x [sum grad_v (x sum(v) |v|)]", _vector, _vector_reference(), duals=False),
    Case("shift", "D_u f(x + u) at 0 (eta-expanded), twice, f = exp, x = 1", _shift, float(np.exp(1.0))),
)
EXACT = ("sum", "product", "square")


def _error(value: float, reference: float) -> float:
    return abs(value - reference) / abs(reference)


def _case_rows() -> Iterator[Row]:
    for case in CASES:
        confused = float(case.compute(untagged.derivative, untagged.derivative)) if case.duals else None
        for outer, inner in PAIRS:
            value = float(case.compute(MODES[outer], MODES[inner]))
            yield _row(case.name, case.order, outer, inner, value, case.reference) | {"untagged": confused}


def _row(case: str, order: int, outer: str, inner: str, value: float, reference: float) -> Row:
    return {
        "case": case,
        "order": order,
        "outer": outer,
        "inner": inner,
        "value": value,
        "reference": reference,
        "error": _error(value, reference),
    }


def _leaked_rows() -> Iterator[Row]:
    """A value made inside a recording is kept by a closure and used again after the recorder has closed.

    Its number must be right, its derivative absent: None, never a wrong one. d/dz (z leaked) is then leaked.
    """
    x = dt.constant(3.0)
    for outer, inner in PAIRS:
        if inner == "forward":
            with dt.ForwardAccumulator(x, dt.constant(1.0)) as accumulator:
                leaked = x * x
            found, explained = accumulator.jvp(2.0 * leaked), None
        else:
            with dt.GradientTape() as tape:
                tape.watch(x)
                leaked = x * x
            late = 2.0 * leaked
            explained = int(bool(str(tape.why(late, x))))
            found = tape.gradient(late, x)
        value = float(MODES[outer](functools.partial(operator.mul, leaked), 2.0))
        row = _row("leaked", 2, outer, inner, value, 9.0)
        yield row | {"leaked_derivatives": int(found is not None), "explained": explained}


def _exponential_rows() -> Iterator[Row]:
    """The k-th derivative of exp at 0.3 by k nested derivatives, the modes alternating from the outside in."""
    for order in range(1, 7):
        for outer, inner in PAIRS:
            f: Callable[[Any], Any] = np.exp
            for level in range(order):
                f = functools.partial(MODES[outer if (order - level) % 2 else inner], f)
            yield _row("exponential", order, outer, inner, float(f(0.3)), float(np.exp(0.3)))


def _fly(outer: Derivative, inner: Derivative) -> list[float]:
    """Newton's iterates for the particle; the force inside is a reverse-mode gradient in any case."""
    return particle.newton(lambda w: both(outer, lambda w: inner(particle.landing, w), w))


def run(config: Config) -> Result:
    rows = [*_case_rows(), *_leaked_rows(), *_exponential_rows()]
    flights = {}
    pairs = PAIRS[:1] if config.quick else PAIRS  # forward over forward is what was reported
    for outer, inner in config.track(pairs, SPEC.name):
        flights[outer, inner] = _fly(MODES[outer], MODES[inner])
        rows.append(_row("particle", 3, outer, inner, flights[outer, inner][-1], PARTICLE_4_STEPS))
    rows += _refused_rows()
    settings = {"pairs": len(pairs)}
    drawn = (flights["forward", "forward"],)
    return Result(COLUMNS, rows, bars(settings), settings=settings, files={"table.md": markdown(rows)}, drawn=drawn)


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """Right in every combination; and that duals without tags are not."""
    return [
        Bar("exact", f"max(error, {' or '.join(f'case == {name!r}' for name in EXACT)})", "==", 0),
        Bar("vector", 'max(error, case == "vector")', "<=", 1e-13),
        Bar("shift", 'max(error, case == "shift")', "<=", 1e-13),
        Bar("shift-refused", 'sum(refused, case == "shift, as it stands")', "==", 2),
        Bar("leaked-value", 'max(error, case == "leaked")', "==", 0),
        Bar("leaked-derivative", 'sum(leaked_derivatives, case == "leaked")', "==", 0),
        Bar("leaked-explained", 'min(explained, case == "leaked" and inner == "reverse")', "==", 1),
        Bar("exponential", 'max(error, case == "exponential")', "<=", 1e-13),
        Bar("particle", f'max(abs(value - ({PARTICLE_4_STEPS})), case == "particle")', "<=", 1e-9),
        Bar("particle-reported", f'max(abs(value - ({PARTICLE_REPORTED})), case == "particle")', "<=", 0.01),
        Bar("bug-shown-sum", 'max(abs(untagged - 2), case == "sum")', "==", 0),
        Bar("bug-shown-product", 'max(abs(untagged - 3), case == "product")', "==", 0),
        # The inner derivative hands on a number and no perturbation: nothing is left for the outer one.
        Bar("bug-shown-shift", 'max(abs(untagged), case == "shift")', "==", 0),
        Bar(
            "combinations",
            'count(case != "shift, as it stands" and error >= 0)',
            "==",
            4 * (len(CASES) + 1 + 6) + settings["pairs"],
        ),
    ]


def markdown(rows: list[Row]) -> str:
    """Case, the four mode pairs (outer over inner), and what untagged duals say."""
    heads = [f"{outer} over {inner}" for outer, inner in PAIRS]
    lines = [
        "| case | derivative | " + " | ".join(heads) + " | right | untagged duals |",
        "| --- | --- |" + " ---: |" * (len(PAIRS) + 2),
    ]
    texts = {case.name: case.text for case in CASES} | {
        "leaked": "D_z [z leaked] at 2, leaked = x^2 from a closed recorder, x = 3",
        "exponential": "D^k exp at 0.3",
        "particle": "Newton's w after 4 steps; the force inside is a reverse-mode gradient",
    }
    rows = [row for row in rows if "value" in row]
    for case, order in dict.fromkeys((row["case"], row["order"]) for row in rows):
        mine = [row for row in rows if (row["case"], row["order"]) == (case, order)]
        text = texts[case].replace("D^k", f"D^{order}").replace("|", "\\|")
        found = {(row["outer"], row["inner"]): row["value"] for row in mine}
        numbers = [*map(found.get, PAIRS), mine[0]["reference"], mine[0].get("untagged")]
        cells = ["" if number is None else f"{number:.15g}" for number in numbers]
        lines.append(f"| {case} | {text} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
