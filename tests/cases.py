"""The test table: for each row the points where it is smooth, those where its derivative is a decision, and calls.

Length: it is data, one line a case, and is read by searching for a row's name.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

import numpy as np
from caseform import AnyCase, absent, case, special

import dualtape
from dualtape.core.lookup import ROWS

RNG = np.random.default_rng(20)
inf, nan = np.inf, np.nan
A = np.array


def row(name: str) -> Any:
    """The callable of an internal row, which no NumPy function reaches with these parameters alone."""
    return ROWS[name].call


def draw(*shape: int, low: float = -2.0, high: float = 2.0) -> Any:
    """An array of distinct numbers, none of them round."""
    return RNG.uniform(low, high, shape)


def positive(*shape: int) -> Any:
    return draw(*shape, low=0.3, high=2.5)


def complexes(*shape: int) -> Any:
    return draw(*shape) + 1j * draw(*shape)


def apart(*shape: int) -> Any:
    """Distinct numbers no two of which a step could exchange, none near 0 or an integer."""
    n = int(np.prod(shape))
    return (RNG.permutation(n).reshape(shape) - n / 2) * 0.37 + 0.11


def assign(index: Any) -> Any:
    """A function that writes into a copy of its first argument."""

    def f(x: Any, v: Any) -> Any:
        plain = isinstance(x, np.ndarray) and isinstance(v, np.ndarray)
        y = x.copy() if plain else dualtape.constant(x)
        y[index] = v
        return y

    return f


def with_part(name: str) -> Any:
    """A function that writes its second argument into the real or the imaginary part of a copy of its first."""

    def f(z: Any, v: Any) -> Any:
        plain = isinstance(z, np.ndarray) and isinstance(v, np.ndarray)
        w = z.copy() if plain else dualtape.constant(z)
        getattr(w, name)[...] = v
        return w

    return f


def gathered(index: Any) -> Any:
    """A function that gathers from its first axis, and on arrays does what that means."""
    return lambda x: x[index] if isinstance(x, np.ndarray) else dualtape.gather(x, index)


def into_zeros(index: Any, *shape: int) -> Any:
    """A function that writes into zeros: a place that was nobody's."""

    def f(v: Any) -> Any:
        y = np.zeros_like(v, shape=shape) if isinstance(v, np.ndarray) else dualtape.zeros(shape, dtype=v.dtype)
        y[index] = v
        return y

    return f


ELEMENTWISE: list[AnyCase] = [
    case("add", np.add, draw(4), draw(4), analytic=True),
    case("add", lambda x, y: x + y, complexes(3), draw(3), label="complex with real"),
    case("subtract", np.subtract, draw(4), draw(4), analytic=True),
    case("subtract", lambda x, y: x - y, draw(3), complexes(3), label="real with complex"),
    case("multiply", np.multiply, draw(4), draw(4), analytic=True),
    case("multiply", lambda x, y: x * y, complexes(3), draw(3), label="complex with real"),
    case("multiply", lambda x: x * x, draw(4), analytic=True, label="one operand twice"),
    case("product_apart", lambda x, y: row("product_apart")(x, y, zeros=()), draw(3), draw(3)),
    case("divide", np.divide, draw(4), positive(4), analytic=True),
    case("divide", lambda x, y: x / y, complexes(3), complexes(3), label="complex"),
    case("divide", lambda x, y: x / y, draw(3), complexes(3), label="real by complex"),
    case("divide", np.true_divide, positive(4), positive(4), label="true_divide"),
    case("negative", np.negative, draw(4), analytic=True),
    case("negative", lambda x: -x, complexes(4), label="complex"),
    case("positive", np.positive, draw(4), analytic=True),
    case("positive", lambda x: +x, complexes(4), label="complex"),
    case("reciprocal", np.reciprocal, positive(4), analytic=True),
    case("reciprocal", np.reciprocal, complexes(4), label="complex"),
    case("square", np.square, draw(4), analytic=True),
    case("square", np.square, complexes(4), label="complex"),
    case("power", np.power, positive(4), draw(4), analytic=True),
    case("square", lambda x: x**2, draw(4), analytic=True, label="operator"),
    case("power", lambda x: x**3, draw(4), analytic=True, label="cube"),
    case("power", lambda x: x**-1.5, positive(4), analytic=True, label="fraction"),
    case("power", lambda x: x**0, draw(4), label="zeroth"),
    case("power", lambda x: x ** A([0, 1, 2, 3]), draw(4), analytic=True, label="integer array"),
    case("power", lambda y: 2.0**y, draw(4), analytic=True, label="exponent alone"),
    case("power", lambda x, y: x**y, complexes(3), complexes(3), label="complex"),
    case("power", lambda x: x**3, complexes(3), label="complex cube"),
    case("exp", np.exp, draw(4), analytic=True),
    case("exp", np.exp, complexes(4), label="complex"),
    case("exp2", np.exp2, draw(4), analytic=True),
    case("expm1", np.expm1, draw(4), analytic=True),
    case("expm1", np.expm1, complexes(3), label="complex"),
    case("log", np.log, positive(4), analytic=True),
    case("log", np.log, complexes(4), label="complex"),
    case("log2", np.log2, positive(4), analytic=True),
    case("log10", np.log10, positive(4), analytic=True),
    case("log10", np.log10, complexes(3), label="complex"),
    case("log1p", np.log1p, positive(4), analytic=True),
    case("log1p", np.log1p, complexes(3), label="complex"),
    case("sqrt", np.sqrt, positive(4), analytic=True),
    case("sqrt", np.sqrt, complexes(4), label="complex"),
    case("cbrt", np.cbrt, apart(4)),
    case("logaddexp", np.logaddexp, draw(4), draw(4)),
    case("logaddexp", np.logaddexp, A([800.0, -800.0]), A([801.0, -801.0]), label="large"),
    case("logaddexp2", np.logaddexp2, draw(4), draw(4)),
    case("sin", np.sin, draw(4), analytic=True),
    case("sin", np.sin, complexes(4), label="complex"),
    case("cos", np.cos, draw(4), analytic=True),
    case("cos", np.cos, complexes(4), label="complex"),
    case("tan", np.tan, draw(4, low=-1.2, high=1.2), analytic=True),
    case("tan", np.tan, complexes(4), label="complex"),
    case("arcsin", np.arcsin, draw(4, low=-0.9, high=0.9), analytic=True),
    case("arcsin", np.arcsin, complexes(4), label="complex"),
    case("arccos", np.arccos, draw(4, low=-0.9, high=0.9), analytic=True),
    case("arccos", np.arccos, complexes(4), label="complex"),
    case("arctan", np.arctan, draw(4), analytic=True),
    case("arctan", np.arctan, complexes(4), label="complex"),
    case("sinh", np.sinh, draw(4), analytic=True),
    case("sinh", np.sinh, complexes(4), label="complex"),
    case("cosh", np.cosh, draw(4), analytic=True),
    case("cosh", np.cosh, complexes(4), label="complex"),
    case("tanh", np.tanh, draw(4), analytic=True),
    case("tanh", np.tanh, complexes(4), label="complex"),
    case("arcsinh", np.arcsinh, draw(4), analytic=True),
    case("arcsinh", np.arcsinh, complexes(4), label="complex"),
    case("arccosh", np.arccosh, draw(4, low=1.2, high=3.0), analytic=True),
    case("arccosh", np.arccosh, complexes(4), label="complex"),
    case("arctanh", np.arctanh, draw(4, low=-0.9, high=0.9), analytic=True),
    case("arctanh", np.arctanh, complexes(4), label="complex"),
    case("deg2rad", np.deg2rad, draw(4)),
    case("deg2rad", np.radians, draw(4), label="radians"),
    case("rad2deg", np.rad2deg, draw(4)),
    case("rad2deg", np.degrees, draw(4), label="degrees"),
    case("sinc", np.sinc, draw(4)),
    case("sinc", np.sinc, A([0.0, 0.01, -0.02, 0.029, 0.031, 1.0]), label="near zero"),
    case("arctan2", np.arctan2, positive(4), draw(4)),
    case("arctan2", np.arctan2, A([0.0, 1.0, -2.0]), A([1.0, 0.0, 0.0]), label="on the axes"),
    case("hypot", np.hypot, positive(4), draw(4)),
    case("absolute", np.absolute, apart(4)),
    case("absolute", abs, complexes(4), label="complex"),
    case("fabs", np.fabs, apart(4)),
    case("sign", np.sign, apart(4)),
    case("complex_sign", np.sign, A([0.3 - 1.2j, -0.8 + 0.5j, 2.1 + 0.7j])),
    case("chosen", lambda x, y: row("chosen")(x, y), A([0.3, -1.1, 2.3]), A([0.7, 1.9, 0.4])),
    case("deviation", lambda x: row("deviation")(x), A([0.7, 1.9, 0.4])),
    case("bent", lambda x: row("bent")(x), A([0.7, 1.9, 0.4])),
    case("copysign", np.copysign, apart(4), apart(4)[::-1] - 0.05),
    case("maximum", np.maximum, apart(4), apart(4) + 0.21),
    case("minimum", np.minimum, apart(4), apart(4) + 0.21),
    case("fmax", np.fmax, apart(4), apart(4) + 0.21),
    case("fmin", np.fmin, apart(4), apart(4) + 0.21),
    case("remainder", np.remainder, A([5.3, -7.1, 4.4, 9.7]), A([2.1, 3.3, -1.7, 2.9])),
    case("remainder", np.mod, A([5.3, -7.1]), A([-2.1, 3.3]), label="mod"),
    case("remainder", lambda x: x % 1.7, A([5.3, -7.1]), label="operator"),
    case("fmod", np.fmod, A([5.3, -7.1, 4.4, 9.7]), A([2.1, 3.3, -1.7, 2.9])),
    case("real", np.real, complexes(4)),
    case("real", lambda x: np.real(x * 1j + 2.0 * x), draw(4), label="real operand"),
    case("real", lambda z: z.real, complexes(2, 2), label="attribute"),
    case("imag", np.imag, complexes(4)),
    case("imag", np.imag, draw(4), label="real operand"),
    case("imag", lambda z: z.imag, complexes(2, 2), label="attribute"),
    case("complex_of", with_part("real"), A([1.2 - 0.7j, 0.4 + 1.9j]), A([0.3, -1.1]), label="real part"),
    case("complex_of", with_part("imag"), A([1.2 - 0.7j, 0.4 + 1.9j]), A([0.3, -1.1]), label="imaginary part"),
    case("conjugate", np.conjugate, complexes(4)),
    case("conjugate", np.conjugate, draw(4), label="real operand"),
    case("angle", np.angle, complexes(4)),
    case("select", lambda x, y: np.where(A([True, False, True]), x, y), draw(3), draw(3)),
    case("select", lambda x, y: np.where(A([[True], [False]]), x, y), draw(3), draw(), label="broadcast"),
    case("select", lambda x: np.where(A([True, False, True]), x, 0.0), draw(3), label="one constant"),
    case(
        "select", lambda z, y: np.where(A([True, False, True]), z, y), complexes(3), draw(3), label="complex with real"
    ),
    case("select", lambda x: np.clip(x, -0.5, 0.5), apart(6), label="clip"),
    case(
        "select",
        lambda x, a, b: np.clip(x, a, b),
        A([-1.3, 0.2, 1.4]),
        A(-1.0),
        A([0.9, 1.0, 1.1]),
        label="clip to arrays",
    ),
    case("select", lambda x: np.clip(x, None, 0.5), apart(4), label="clip above"),
    # ---- decided values
    special("absolute", np.abs, A([-2.0, 0.0, 3.0]), A([-1.0, 0.0, 1.0])),
    special("absolute", np.abs, A([0j, 3 + 4j]), A([0j, 0.6 + 0.8j]), label="complex zero"),
    special("fabs", np.fabs, A([-2.0, 0.0, 3.0]), A([-1.0, 0.0, 1.0])),
    special("sign", np.sign, A([-2.0, 0.0, 3.0]), np.zeros(3)),
    special(
        "maximum",
        np.maximum,
        (A([1.0, 2.0, 3.0]), A([1.0, 5.0, 0.0])),
        (A([0.5, 0.0, 1.0]), A([0.5, 1.0, 0.0])),
        label="tie",
    ),
    special(
        "minimum",
        np.minimum,
        (A([1.0, 2.0, 3.0]), A([1.0, 5.0, 0.0])),
        (A([0.5, 1.0, 0.0]), A([0.5, 0.0, 1.0])),
        label="tie",
    ),
    special("maximum", lambda x: np.maximum(x, 0.0), A([-1.0, 0.0, 2.0]), A([0.0, 0.5, 1.0]), label="with zero"),
    special(
        "maximum", lambda x: np.sqrt(np.maximum(x, 0.0)), A([-1.0, 4.0]), A([0.0, 0.25]), label="infinite slope above"
    ),
    special(
        "minimum", lambda x: np.sqrt(-np.minimum(x, 0.0)), A([1.0, -4.0]), A([0.0, -0.25]), label="infinite slope above"
    ),
    special("fmax", lambda x: np.sqrt(np.fmax(x, 0.0)), A([-1.0, 4.0]), A([0.0, 0.25]), label="infinite slope above"),
    special("fmin", lambda x: np.sqrt(-np.fmin(x, 0.0)), A([1.0, -4.0]), A([0.0, -0.25]), label="infinite slope above"),
    special(
        "fmax", np.fmax, (A([1.0, nan, 3.0]), A([1.0, 5.0, nan])), (A([0.5, 0.0, 1.0]), A([0.5, 1.0, 0.0])), label="NaN"
    ),
    special(
        "fmin", np.fmin, (A([1.0, nan, 3.0]), A([1.0, 5.0, nan])), (A([0.5, 0.0, 1.0]), A([0.5, 1.0, 0.0])), label="NaN"
    ),
    special("maximum", np.maximum, (A([nan, 2.0]), A([1.0, nan])), (A([1.0, 0.0]), A([0.0, 1.0])), label="NaN"),
    special("minimum", np.minimum, (A([nan, 2.0]), A([1.0, nan])), (A([1.0, 0.0]), A([0.0, 1.0])), label="NaN"),
    special("power", lambda x: x ** A([0.0, 1.0, 2.0, 3.0]), np.zeros(4), A([0.0, 1.0, 0.0, 0.0]), label="base zero"),
    special("power", lambda x: x**0, A([0.0, -1.0]), np.zeros(2), label="zeroth at zero"),
    special("power", lambda x: x**0.0, A([0.0, inf]), np.zeros(2), label="zeroth at infinity"),
    special("power", lambda x: x**1, A([0.0]), A([1.0]), label="first at zero"),
    special("square", lambda x: x**2, A([0.0]), A([0.0]), label="zero"),
    special("power", lambda x: x**0.5, A([0.0, 4.0]), A([inf, 0.25]), label="half at zero"),
    special("power", lambda y: 0.0**y, A([1.0, 2.0, 0.5]), np.zeros(3), label="zero to a positive power"),
    special("power", lambda x: x**3 + x**-2, A([-2.0, -1.0]), A([12.25, 5.0]), label="negative base"),
    special("power", lambda x, y: x**y, (A([-2.0]), A([2.0])), (A([-4.0]), A([nan])), label="negative base, both"),
    special("sqrt", np.sqrt, A([0.0, 4.0]), A([inf, 0.25])),
    # A number that is 0 may come from anywhere and does not hide an infinite slope; a mask selects.
    special("sqrt", lambda x: np.sqrt(x) * A([0.0, 1.0]), A([0.0, 4.0]), A([np.nan, 0.25]), label="times zero"),
    special("log", lambda x: np.log(x) * A([0.0, 1.0]), A([1e-320, 4.0]), A([np.nan, 0.25]), label="zero, near"),
    special("sqrt", lambda x: np.sqrt(x) * A([False, True]), A([0.0, 4.0]), A([0.0, 0.25]), label="masked at zero"),
    special("log", lambda x: np.log(x) * A([False, True]), A([1e-320, 4.0]), A([0.0, 0.25]), label="masked near zero"),
    special(
        "log",
        lambda x: np.where(x > 0, np.log(x), x),
        A([0.0, -1.0, 4.0]),
        A([1.0, 1.0, 0.25]),
        label="not taken at zero",
    ),
    special("cbrt", np.cbrt, A([0.0, 8.0]), A([inf, 1 / 12])),
    special("reciprocal", np.reciprocal, A([inf, 2.0]), A([0.0, -0.25]), label="at infinity"),
    special("divide", lambda x, y: x / y, (A([0.0]), A([inf])), (A([0.0]), A([0.0])), label="by infinity"),
    special(
        "select",
        lambda x: np.where(x > 0, np.sqrt(x), 0.0 * x),
        A([-1.0, 4.0]),
        A([0.0, 0.25]),
        label="NaN in the branch not taken",
    ),
    special(
        "select",
        lambda x: np.where(x > 0, 1 / x, 0.0),
        A([0.0, 2.0]),
        A([0.0, -0.25]),
        label="infinity in the branch not taken",
    ),
    special(
        "select",
        lambda x: np.where(x > 0, x**0.5, 2 * x),
        A([0.0, 4.0]),
        A([2.0, 0.25]),
        label="infinite slope in the branch not taken",
    ),
    special(
        "select",
        lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0 * x),
        A([-1.0, 0.0, 4.0]),
        A([0.0, 0.0, 0.25]),
        label="guarded twice",
    ),
    special(
        "select",
        lambda x: np.clip(x, 0.0, 1.0),
        A([-1.0, 0.0, 0.5, 1.0, 2.0]),
        A([0.0, 1.0, 1.0, 1.0, 0.0]),
        label="clip bounds",
    ),
    special("arctan2", np.arctan2, (A([0.0]), A([0.0])), (A([0.0]), A([0.0])), label="origin"),
    special("hypot", np.hypot, (A([0.0, 3.0]), A([0.0, 4.0])), (A([0.0, 0.6]), A([0.0, 0.8])), label="origin"),
    special(
        "logaddexp",
        np.logaddexp,
        (A([-inf, -inf, 0.0]), A([-inf, 1.0, -inf])),
        (A([0.0, 0.0, 1.0]), A([0.0, 1.0, 0.0])),
        label="-inf",
    ),
    special("logaddexp", lambda x: np.logaddexp(x, 0.0), A([-800.0, 0.0, 800.0]), A([0.0, 0.5, 1.0]), label="far"),
    special("logaddexp", lambda x: np.logaddexp(x, 0.0), A([inf]), A([1.0]), label="inf"),
    *[
        special(f.__name__, f, (A([-inf, inf]), A([-inf, inf])), (A([0.0, 0.5]), A([0.0, 0.5])), label="both infinite")
        for f in (np.logaddexp, np.logaddexp2)
    ],
    special("sinc", np.sinc, A([0.0]), A([0.0])),
    special("arccos", np.arccos, A([1.0, 0.0]), A([-inf, -1.0]), label="edge"),
    special("arcsin", np.arcsin, A([-1.0, 0.0]), A([inf, 1.0]), label="edge"),
    special("arctanh", lambda x: np.arctanh(x) * A([0.0, 1.0]), A([0.5, 0.0]), A([0.0, 1.0]), label="nothing asked"),
    special("tanh", np.tanh, A([400.0, -400.0]), A([0.0, 0.0]), label="saturated"),
    special("arctan", np.arctan, A([1e200, -inf]), A([0.0, 0.0]), label="far"),
    special("angle", np.angle, A([0j]), A([0j]), label="origin"),
    special("angle", np.angle, A([-2.0, 3.0]), A([0.0, 0.0]), label="real operand"),
    special(
        "remainder",
        np.remainder,
        (A([-19.0, 19.0, 7.5]), A([3.0, -4.0, 2.0])),
        (A([1.0, 1.0, 1.0]), A([7.0, 5.0, -3.0])),
        label="signs",
    ),
    special("copysign", np.copysign, (A([-2.0, 3.0, 0.0]), A([1.0, -1.0, 1.0])), (A([-1.0, -1.0, 0.0]), np.zeros(3))),
]

M = draw(3, 4)
T = draw(2, 3, 4)

REDUCTIONS: list[AnyCase] = [
    case("sum", np.sum, draw(3, 4), analytic=True),
    case("sum", lambda x: np.sum(x, axis=1), draw(3, 4), label="axis"),
    case("sum", lambda x: np.sum(x, axis=(0, -1), keepdims=True), draw(2, 3, 4), label="axes kept"),
    case("sum", np.sum, complexes(4), label="complex"),
    case("sum", np.sum, draw(), label="0-d"),
    case("sum", np.sum, np.zeros((0, 3)), label="empty"),
    case("sum", lambda x: np.sum(x, where=A([True, False, True]), initial=2.0), draw(3), label="where and initial"),
    case("sum", lambda x: np.sum(x, axis=()), draw(3), label="no axes"),
    case("sum", lambda x: x.sum(0), draw(3, 2), label="method"),
    case("mean", np.mean, draw(3, 4), analytic=True),
    case("mean", lambda x: np.mean(x, axis=(-1, 0), keepdims=True), draw(2, 3, 4), label="axes kept"),
    case("mean", lambda x: np.mean(x, axis=0), complexes(3, 2), label="complex"),
    case("prod", np.prod, apart(4), analytic=True),
    case("prod", lambda x: np.prod(x, axis=0), apart(3, 2), label="axis"),
    case("prod", lambda x: np.prod(x, axis=(0, 2), keepdims=True), apart(2, 3, 2), label="axes kept"),
    case("prod", np.prod, complexes(3), label="complex"),
    case("prod", np.prod, A([2.0, 0.0, 3.0]), label="one zero"),
    case("prod", lambda x: np.prod(x) + np.sum(x), A([2.0, 0.0, 0.0]), label="two zeros"),
    case("prod", lambda x: np.prod(x, axis=1), A([[2.0, 0.0, 3.0], [1.0, 4.0, 5.0]]), label="a zero in one line"),
    case("max", np.max, apart(3, 4)),
    case("max", lambda x: np.max(x, axis=1, keepdims=True), apart(3, 4), label="axis kept"),
    case("max", lambda x: np.max(x, axis=(0, 2)), apart(2, 3, 2), label="axes"),
    case("max", np.amax, apart(4), label="amax"),
    case("min", np.min, apart(3, 4)),
    case("min", lambda x: np.min(x, axis=0), apart(3, 4), label="axis"),
    case("min", np.amin, apart(4), label="amin"),
    case("max", np.ptp, apart(4), label="ptp"),
    case("var", np.var, draw(3, 4)),
    case("var", lambda x: np.var(x, axis=1, ddof=1, keepdims=True), draw(3, 4), label="axis, ddof"),
    case("var", lambda x: np.var(x, axis=0), complexes(3, 2), label="complex"),
    case("std", np.std, draw(3, 4)),
    case("std", lambda x: np.std(x, axis=(0, 2), ddof=1), draw(2, 3, 2), label="axes, ddof"),
    case("std", np.std, complexes(4), label="complex"),
    case("logsumexp", dualtape.logsumexp, draw(3, 4)),
    case("logsumexp", lambda x: dualtape.logsumexp(x, axis=1, keepdims=True), draw(3, 4), label="axis kept"),
    case("logsumexp", dualtape.logsumexp, A([1000.0, 1001.0, -1000.0]), label="large"),
    case("cumsum", np.cumsum, draw(4), analytic=True),
    case("cumsum", lambda x: np.cumsum(x, axis=1), draw(2, 3), label="axis"),
    case("cumsum", np.cumsum, draw(2, 3), label="flattened"),
    case("cumprod", np.cumprod, apart(4), analytic=True),
    case("cumprod", lambda x: np.cumprod(x, axis=0), apart(3, 2), label="axis"),
    case("cumprod", np.cumprod, A([2.0, 0.0, 3.0, 4.0]), label="one zero"),
    case("cumprod", np.cumprod, A([2.0, 0.0, 3.0, 0.0]), label="two zeros"),
    case("cumprod", np.cumprod, complexes(3), label="complex"),
    case("spread", lambda g: row("spread")(g, to=(2, 3), axis=(1,)), draw(2)),
    case("spread", lambda g: row("spread")(g, to=(2, 3), axis=None), draw(), label="all axes"),
    case("spread", lambda g: row("spread")(g, to=(2, 3, 2), axis=(0, 2)), draw(1, 3, 1), label="axes kept"),
    case("sum", lambda x, w: np.average(x, axis=1, weights=w), draw(2, 3), positive(3), label="average"),
    # ---- decided values
    special(
        "max",
        lambda x: np.max(x, axis=1),
        A([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]),
        A([[0, 0.5, 0.5], [1 / 3] * 3]),
        label="ties",
    ),
    special("min", np.min, A([[1.0, 2.0], [1.0, 1.0]]), A([[1 / 3, 0], [1 / 3, 1 / 3]]), label="ties"),
    special("max", lambda x: np.max(np.abs(x)), A([2.0, -2.0, 1.0]), A([0.5, -0.5, 0.0]), label="tie of magnitudes"),
    special("max", np.max, A([nan, 1.0, 2.0]), A([1.0, 0.0, 0.0]), label="NaN"),
    special("max", np.max, A([-inf, -inf]), A([0.5, 0.5]), label="-inf"),
    special("max", lambda x: np.max(np.sqrt(x)), A([0.0, 4.0]), A([0.0, 0.25]), label="infinite slope not taken"),
    special(
        "max", lambda x: np.sqrt(np.max(x)), A([0.0, -1.0]), A([inf, 0.0]), label="infinite slope above", forward=False
    ),
    special("std", np.std, A([2.0, 2.0, 2.0]), np.zeros(3), label="constant"),
    special("var", np.var, A([2.0, 2.0, 2.0]), np.zeros(3), label="constant"),
    special(
        "std",
        lambda x: np.std(x, axis=1),
        A([[1.0, 1.0], [0.0, 2.0]]),
        A([[0.0, 0.0], [-0.5, 0.5]]),
        label="constant line",
    ),
    special("prod", np.prod, A([2.0, 0.0, 3.0]), A([0.0, 6.0, 0.0]), label="zero"),
    special("cumprod", np.cumprod, A([2.0, 0.0, 3.0]), A([1.0, 8.0, 0.0]), label="zero"),
    special("logsumexp", dualtape.logsumexp, A([-inf, 0.0, 0.0]), A([0.0, 0.5, 0.5]), label="-inf"),
    special("logsumexp", dualtape.logsumexp, A([inf, 0.0]), A([1.0, 0.0]), label="inf"),
    special("logsumexp", dualtape.logsumexp, A([inf, inf]), A([0.5, 0.5]), label="inf twice"),
    special("logsumexp", dualtape.logsumexp, A([-inf, -inf]), A([0.0, 0.0]), label="-inf alone"),
    special("mean", np.mean, np.zeros((2, 0)), np.zeros((2, 0)), label="empty"),
    special("prod", np.prod, np.zeros(0), np.zeros(0), label="empty"),
    special("cumsum", lambda x: np.cumsum(x, axis=1), np.zeros((2, 0)), np.zeros((2, 0)), label="empty"),
]
if hasattr(np, "cumulative_sum"):  # from NumPy 2.1
    REDUCTIONS += [
        case("cumsum", lambda x: np.cumulative_sum(x, axis=0, include_initial=True), draw(2, 3), label="with initial"),
        case("cumprod", lambda x: np.cumulative_prod(x, axis=1), apart(2, 3), label="cumulative_prod"),
    ]

SHAPING: list[AnyCase] = [
    case("identity", np.copy, draw(3)),
    case("identity", lambda x: x.copy(), complexes(2, 2), label="method"),
    case("cast", lambda x: x.astype(np.float32), draw(3), single=False),
    case("cast", lambda x: x.astype(np.complex128), draw(3), label="to complex", single=False),
    case("cast", lambda x: x.astype(np.float64), draw(3).astype(np.float32), label="to double"),
    case("cast", lambda z: np.real(z).astype(np.float32), complexes(3), label="of a real part", single=False),
    case("copy", lambda x: x.T.copy(), A([[0.3, -1.2, 0.7], [1.9, -0.4, 1.1]])),
    case("copy", lambda x: np.copy(x, "F"), A([[0.3, -1.2, 0.7], [1.9, -0.4, 1.1]]), label="Fortran"),
    case("reshape", lambda x: np.reshape(x, (3, 2)), draw(2, 3)),
    case("reshape", lambda x: np.reshape(x, (3, 2), order="F"), draw(2, 3), label="Fortran"),
    case("reshape", lambda x: x.reshape(-1), draw(2, 3), label="method"),
    case("reshape", np.ravel, draw(2, 3), label="ravel"),
    case("reshape", lambda x: x.flatten(), draw(2, 3), label="flatten"),
    case("reshape", lambda x: np.expand_dims(x, (0, 2)), draw(2, 3), label="expand_dims"),
    case("reshape", np.squeeze, draw(1, 3, 1), label="squeeze"),
    case("reshape", lambda x: np.squeeze(x, axis=0), draw(1, 3, 1), label="squeeze one"),
    case("reshape", np.atleast_1d, draw(), label="atleast_1d"),
    case("reshape", np.atleast_2d, draw(3), label="atleast_2d"),
    case("reshape", np.atleast_3d, draw(3), label="atleast_3d"),
    case("transpose", np.transpose, draw(2, 3, 2)),
    case("transpose", lambda x: np.transpose(x, (1, -1, 0)), draw(2, 3, 2), label="axes"),
    case("transpose", lambda x: x.T, complexes(2, 3), label="attribute"),
    case("transpose", lambda x: np.swapaxes(x, 0, -1), draw(2, 3, 2), label="swapaxes"),
    case("transpose", lambda x: np.moveaxis(x, 0, -1), draw(2, 3, 2), label="moveaxis"),
    case("transpose", lambda x: np.moveaxis(x, (0, 1), (2, 0)), draw(2, 3, 2), label="moveaxis of two"),
    case("transpose", np.matrix_transpose, draw(2, 3, 2), label="matrix_transpose"),
    case("broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), draw(3)),
    case("broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), draw(2, 1), label="unit axis"),
    case("broadcast_to", lambda x: np.broadcast_to(x, (2, 3)), draw(), label="0-d"),
    case(
        "broadcast_to",
        lambda x, y: np.broadcast_arrays(x, y)[0] * np.broadcast_arrays(x, y)[1],
        draw(3),
        draw(2, 1),
        label="broadcast_arrays",
    ),
    case("broadcast_to", lambda x: np.broadcast_to(x, (0, 3)), draw(3), label="to nothing"),
    case("concatenate", lambda x, y: np.concatenate([x, y]), draw(2), draw(3)),
    case("concatenate", lambda x, y: np.concatenate([x, y], axis=-1), draw(2, 1), draw(2, 3), label="axis"),
    case("concatenate", lambda x, y: np.concatenate([x, y], axis=None), draw(2, 1), draw(3), label="flattened"),
    case("concatenate", lambda x, z: np.concatenate([x, z]), draw(2), complexes(2), label="real with complex"),
    case("concatenate", lambda x: np.concatenate([x, np.ones(2), x]), draw(2), label="one operand twice"),
    case("concatenate", lambda x, y: np.vstack([x, y]), draw(3), draw(2, 3), label="vstack"),
    case("concatenate", lambda x, y: np.hstack([x, y]), draw(2, 1), draw(2, 3), label="hstack"),
    case("concatenate", lambda x, y: np.dstack([x, y]), draw(2, 3), draw(2, 3), label="dstack"),
    case("concatenate", lambda x, y: np.column_stack([x, y]), draw(2), draw(2, 3), label="column_stack"),
    case("concatenate", lambda x, y: np.append(x, y), draw(2), draw(2), label="append"),
    case("stack", lambda x, y: np.stack([x, y]), draw(3), draw(3)),
    case("stack", lambda x, y: np.stack([x, y], axis=-1), draw(2, 3), draw(2, 3), label="axis"),
    case("stack", lambda x, y: np.stack([x, y, x * y]), draw(), draw(), label="0-d"),
    case("flip", np.flip, draw(2, 3)),
    case("flip", lambda x: np.flip(x, axis=1), draw(2, 3), label="axis"),
    case("flip", np.fliplr, draw(2, 3), label="fliplr"),
    case("flip", np.flipud, draw(2, 3), label="flipud"),
    case("flip", np.rot90, draw(2, 3), label="rot90"),
    case("flip", lambda x: np.rot90(x, -1), draw(2, 3), label="rot90 back"),
    case("flip", lambda x: np.rot90(x, 2, axes=(1, 2)), draw(2, 3, 2), label="rot90 twice"),
    case("roll", lambda x: np.roll(x, 1), draw(2, 3)),
    case("roll", lambda x: np.roll(x, (1, -2), axis=(0, 1)), draw(2, 3), label="axes"),
    case("tile", lambda x: np.tile(x, 2), draw(3)),
    case("tile", lambda x: np.tile(x, (2, 1, 2)), draw(2, 3), label="more axes"),
    case("tile", lambda x: np.tile(x, (2,)), draw(2, 3), label="fewer axes"),
    case("pad_zeros", lambda x: np.pad(x, 1), draw(2, 3)),
    case("pad_zeros", lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=3.0), draw(2, 3), label="constant"),
    case("gather", gathered(A([2, 0, 2])), draw(3, 2)),
    case("gather", gathered(A([[1, 1], [0, 3]])), draw(4), label="indices with axes"),
    case("gather", gathered(A(1)), draw(3, 2), label="one"),
    case("gather", gathered(A([], int)), draw(3, 2), label="none"),
    case("gather", gathered(A([1, 0])), complexes(3), label="complex"),
    case("getitem", lambda x: np.pad(x, (2, 1), mode="reflect"), draw(4), label="pad by reflection"),
    case("getitem", lambda x: np.pad(x, (2, 1), mode="edge"), draw(4), label="pad by the edge"),
    case("getitem", lambda x: np.pad(x, 2, mode="wrap"), draw(4), label="pad by wrapping"),
    case("getitem", lambda x: np.pad(x, 2, mode="symmetric"), draw(4), label="pad by symmetry"),
    case("getitem", lambda x: np.repeat(x, 2), draw(2, 2), label="repeat"),
    case("getitem", lambda x: np.repeat(x, [2, 0, 3], axis=1), draw(2, 3), label="repeat by counts"),
    case("getitem", lambda x: np.split(x, 2)[1] * np.split(x, 2)[0], draw(4), label="split"),
    case("getitem", lambda x: np.array_split(x, 3)[0], draw(4), label="array_split"),
    case("getitem", lambda x: np.hsplit(x, [1])[1], draw(2, 3), label="hsplit"),
    case("getitem", lambda x: np.vsplit(x, 2)[1], draw(2, 3), label="vsplit"),
    case("getitem", lambda x: np.dsplit(x, [1])[1], draw(2, 2, 3), label="dsplit"),
    case("transpose", lambda x: np.permute_dims(x, (1, 0)), draw(2, 3), label="permute_dims"),
    case("reshape", lambda x, y: np.meshgrid(x, y)[0] * np.meshgrid(x, y)[1], draw(3), draw(2), label="meshgrid"),
    case(
        "reshape",
        lambda x, y: np.multiply(*np.meshgrid(x, y, indexing="ij")),
        draw(3),
        draw(2),
        label="meshgrid by index",
    ),
    case("multiply", lambda a, b: np.linspace(a, b, 4), draw(), draw(), label="linspace"),
    special("pad_zeros", lambda x: np.pad(x, 0), A([1.0, 2.0]), A([1.0, 1.0]), label="no width"),
    special("concatenate", lambda x: np.concatenate([x, x]), np.zeros((0, 3)), np.zeros((0, 3)), label="empty"),
    special("reshape", lambda x: np.reshape(x, (3, 0)), np.zeros((0, 3)), np.zeros((0, 3)), label="empty"),
    special("getitem", lambda x: np.sum((x[1:] - x[:-1]) ** 2), A([0.7]), A([0.0]), label="differences of one"),
]

MASK = A([[True, False, True], [False, True, True]])

INDEXING: list[AnyCase] = [
    case("getitem", lambda x: x[1], draw(3)),
    case("getitem", lambda x: x[-2:], draw(2, 3), label="slice"),
    case("getitem", lambda x: x[::-2, None, ..., 1:], draw(3, 2, 2), label="steps, newaxis, ellipsis"),
    case("getitem", lambda x: x[[0, 0, 2, 0]], draw(3), label="repeated"),
    case("getitem", lambda x: x[[0, -1, 2], [1, 1, -1]], draw(3, 2), label="pairs"),
    case("getitem", lambda x: x[MASK], draw(2, 3), label="mask"),
    case("getitem", lambda x: x[A([True, False, True])], draw(3, 2), label="mask of the first axis"),
    case("getitem", lambda x: x[:, [2, 0]], draw(2, 3), label="mixed"),
    case("getitem", lambda x: x[0, :, [0, 1, 1]], draw(2, 3, 2), label="mixed, axes moved"),
    case("getitem", lambda x: x[()], draw(), label="0-d"),
    case("getitem", lambda x: x[A([], dtype=int)], draw(3), label="nothing"),
    case("getitem", lambda z: z[[0, 0, 1]], complexes(3), label="complex"),
    case("getitem", lambda x: np.take(x, [[2, 0], [2, 2]], axis=1), draw(2, 3), label="take"),
    case("getitem", lambda x: np.take(x, [5, -7], mode="wrap"), draw(2, 2), label="take wrapped"),
    case("getitem", lambda x: np.take_along_axis(x, A([[2, 0], [1, 1]]), axis=1), draw(2, 3), label="take_along_axis"),
    case("getitem", lambda x: np.sort(x, axis=0), apart(3, 2), label="sort"),
    case("getitem", lambda x: np.sort(x, axis=None), apart(3, 2), label="sort all"),
    case("scatter", lambda g: row("scatter")(g, index=slice(1, 3), basic=True, to=(4,)), draw(2)),
    case("scatter", lambda g: row("scatter")(g, index=A([0, 2, 0]), basic=False, to=(4,)), draw(3), label="repeated"),
    case("scatter", lambda g: row("scatter")(g, index=MASK, basic=False, to=(2, 3)), complexes(4), label="mask"),
    case("setitem", assign(1), draw(3), draw()),
    case("setitem", assign(slice(1, None)), draw(3), draw(2), label="slice"),
    case("setitem", assign((slice(None), [0, 2])), draw(2, 3), draw(2, 1), label="integers, broadcast"),
    case("setitem", assign(MASK), draw(2, 3), draw(4), label="mask"),
    case("setitem", assign([0, 0, 1]), draw(3), draw(3), label="repeated, the last stays"),
    case("setitem", assign((Ellipsis, None, 0)), draw(2, 3), draw(1, 1), label="newaxis"),
    case("setitem", assign(slice(1, None)), complexes(3), draw(2), label="real into complex", single=False),
    case("setitem", into_zeros(slice(0, 2), 3), draw(2), label="into zeros"),
    special("getitem", lambda x: np.sqrt(x)[1:], A([0.0, 4.0]), A([0.0, 0.25]), label="infinite slope not taken"),
    special(
        "getitem",
        lambda x: np.sqrt(x)[[1, 1]],
        A([0.0, 4.0]),
        A([0.0, 0.5]),
        label="infinite slope not taken, integers",
    ),
    special(
        "getitem", lambda x: np.log(x)[x > 0], A([0.0, 4.0]), A([0.0, 0.25]), label="infinite slope not taken, mask"
    ),
    special(
        "getitem",
        lambda x: np.sort(x) * A([1.0, 10.0, 100.0, 1000.0]),
        A([2.0, 1.0, 2.0, 0.0]),
        A([100.0, 10.0, 1000.0, 1.0]),
        label="sort with ties",
    ),
    special(
        "setitem",
        lambda x: assign(0)(np.sqrt(x), 1.0),
        A([0.0, 4.0]),
        A([0.0, 0.25]),
        label="infinite slope overwritten",
    ),
]

PRODUCTS: list[AnyCase] = [
    case("matmul", np.matmul, draw(2, 3), draw(3, 4), analytic=True),
    case("matmul", lambda x, y: x @ y, draw(3), draw(3), label="vector, vector"),
    case("matmul", lambda x, y: x @ y, draw(2, 3), draw(3), label="matrix, vector"),
    case("matmul", lambda x, y: x @ y, draw(3), draw(3, 2), label="vector, matrix"),
    case("matmul", lambda x, y: x @ y, draw(2, 2, 3), draw(3, 2), label="stack, matrix"),
    case("matmul", lambda x, y: x @ y, draw(2, 3), draw(2, 3, 2), label="matrix, stack"),
    case("matmul", lambda x, y: x @ y, draw(2, 1, 2, 3), draw(3, 3, 2), label="stacks, broadcast"),
    case("matmul", lambda x, y: x @ y, draw(1, 2, 2, 3), draw(3, 2, 3, 1), label="stack of one, stacks of columns"),
    case("matmul", lambda x, y: x @ y, complexes(2, 1, 2, 3), draw(2, 1, 3, 2), label="stacks, broadcast, complex"),
    case("matmul", lambda x, y: x @ y, draw(2, 2, 3), draw(3), label="stack, vector"),
    case("matmul", lambda x, y: x @ y, draw(3), draw(2, 3, 2), label="vector, stack"),
    case("matmul", lambda x, y: x @ y, complexes(2, 3), draw(3, 2), label="complex with real"),
    case("matmul", lambda x, y: x @ y, complexes(2, 2), complexes(2), label="complex"),
    case("matmul", lambda x, y: x @ y, np.zeros((2, 0)), np.zeros((0, 3)), label="empty inside"),
    case("matmul", np.dot, draw(2, 3), draw(3), label="dot"),
    case("matmul", np.dot, draw(2, 3), draw(2, 3, 2), label="dot with a stack"),
    case("multiply", np.dot, draw(), draw(3), label="dot with a number"),
    case("matmul", np.inner, draw(2, 3), draw(4, 3), label="inner"),
    case("matmul", np.vdot, complexes(3), complexes(3), label="vdot"),
    case("multiply", np.outer, draw(2), draw(3), label="outer"),
    case("multiply", np.kron, draw(2, 2), draw(1, 3), label="kron"),
    case("multiply", np.kron, draw(2), draw(2, 2), label="kron of a vector"),
    case("matmul", lambda x, y: np.tensordot(x, y, 1), draw(2, 3), draw(3, 2), label="tensordot"),
    case(
        "matmul",
        lambda x, y: np.tensordot(x, y, ([0, -1], [1, 0])),
        draw(2, 2, 3),
        draw(3, 2, 2),
        label="tensordot of axes",
    ),
    case("matmul", lambda x, y: np.tensordot(x, y, 0), draw(2), draw(3), label="tensordot of none"),
    case("einsum_1", lambda x: np.einsum("ij->ji", x), draw(2, 3)),
    case("einsum_1", lambda x: np.einsum("ii", x), draw(3, 3), label="trace"),
    case("einsum_1", lambda x: np.einsum("iij->ij", x), draw(2, 2, 3), label="diagonal"),
    case("einsum_1", lambda x: np.einsum("...j->...", x), complexes(2, 3), label="ellipsis"),
    case("einsum_2", lambda x, y: np.einsum("ij,jk->ik", x, y), draw(2, 3), draw(3, 2), analytic=True),
    case("einsum_2", lambda x, y: np.einsum("ij,kl->ki", x, y), draw(2, 3), draw(2, 2), label="summed away"),
    case("einsum_2", lambda x, y: np.einsum("ii,i->", x, y), draw(3, 3), draw(3), label="diagonal"),
    case(
        "einsum_2",
        lambda x, y: np.einsum("bij,bj->bi", x, y),
        complexes(2, 2, 3),
        draw(2, 3),
        label="complex with real",
    ),
    case("einsum_2", lambda x, y: np.einsum("...i,...i", x, y), draw(2, 3), draw(3), label="ellipsis"),
    case(
        "einsum_2",
        lambda x, y, z: np.einsum("ij,jk,kl->il", x, y, z),
        draw(2, 3),
        draw(3, 2),
        draw(2, 2),
        label="three",
    ),
    case("einsum_2", lambda x: np.einsum("i,j", x, x), draw(3), label="one operand twice"),
    case("einsum_2", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), draw(2, 3), draw(3, 2), label="index lists"),
    case("sum", np.vecdot, complexes(2, 3), complexes(2, 3), label="vecdot"),
]

X = apart(2, 3)
INT = A([3, 0, 5])

ABSENT: list[AnyCase] = [
    absent("floor", np.floor, X),
    absent("ceil", np.ceil, X),
    absent("trunc", np.trunc, X),
    absent("rint", np.rint, X),
    absent("round", lambda x: np.round(x, 1), X),
    absent("fix", np.fix, X),
    absent("floor_divide", lambda x, y: x // y, X, positive(3)),
    absent("equal", lambda x, y: x == y, X, X.copy()),
    absent("not_equal", lambda x: x != 0.11, X),
    absent("less", lambda x: x < 0, X),
    absent("less_equal", np.less_equal, X, X[0]),
    absent("greater", lambda x: x > 0, X),
    absent("greater_equal", np.greater_equal, X, X[0]),
    absent("logical_and", np.logical_and, X, X[0]),
    absent("logical_or", np.logical_or, X, X[0]),
    absent("logical_xor", np.logical_xor, X, X[0]),
    absent("logical_not", np.logical_not, X),
    absent("bitwise_and", lambda k: k & 1, INT),
    absent("bitwise_or", lambda k: 1 | k, INT),
    absent("bitwise_xor", lambda k: k ^ 1, INT),
    absent("bitwise_invert", lambda k: ~k, INT),
    absent("bitwise_left_shift", lambda k: k << 2, INT),
    absent("bitwise_right_shift", lambda k: k >> 1, INT),
    absent("isfinite", np.isfinite, A([1.0, inf, nan])),
    absent("isinf", np.isinf, A([1.0, inf, nan])),
    absent("isnan", np.isnan, A([1.0, inf, nan])),
    absent("signbit", np.signbit, X),
    absent("isclose", np.isclose, X, X + 1e-12),
    absent("allclose", np.allclose, X, X + 1e-12),
    absent("array_equal", np.array_equal, X, X.copy()),
    absent("array_equiv", np.array_equiv, X, X.copy()),
    absent("iscomplex", np.iscomplex, A([1 + 0j, 1j])),
    absent("isreal", np.isreal, A([1 + 0j, 1j])),
    absent("all", lambda x: np.all(x, axis=1), X),
    absent("any", lambda x: np.any(x > 0), X),
    absent("argmax", lambda x: np.argmax(x, axis=1), X),
    absent("argmin", np.argmin, X),
    absent("nanargmax", np.nanargmax, A([nan, 1.0, 2.0])),
    absent("nanargmin", np.nanargmin, A([nan, 1.0, 2.0])),
    absent("argsort", lambda x: np.argsort(x, axis=0), X),
    absent("searchsorted", np.searchsorted, A([0.0, 1.0, 2.0]), A([0.5, 1.0])),
    absent("digitize", np.digitize, A([0.5, 1.0]), A([0.0, 1.0, 2.0])),
    absent("count_nonzero", np.count_nonzero, X),
    absent("argwhere", np.argwhere, A([0.0, 1.0, 2.0])),
    absent("flatnonzero", np.flatnonzero, A([0.0, 1.0, 2.0])),
    absent("to_integer", lambda x: x.astype(np.int64), X),
    absent("to_integer", lambda x: x.astype(bool), X, label="to boolean"),
    absent("stop_gradient", lambda x: x + 0 if isinstance(x, np.ndarray) else dualtape.stop_gradient(x), X),
]


def of(module: str) -> list[AnyCase]:
    """The cases of a family that has a file of its own, if it is there."""
    if importlib.util.find_spec(module) is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's own, while it is imported
        return list(importlib.import_module(module).CASES)


CASES: list[AnyCase] = [
    *ELEMENTWISE,
    *REDUCTIONS,
    *SHAPING,
    *INDEXING,
    *PRODUCTS,
    *ABSENT,
    *of("cases_linalg"),
    *of("cases_special"),
]
