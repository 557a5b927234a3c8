"""Rows of functions of several parameters: incomplete gamma and beta functions, hypergeometric ones, distributions.

By their arguments these have closed derivatives (NIST DLMF ch. 8 and 15). By their parameters they have none: there the
defining series, or an integral, is differentiated term by term, in functions that have rows, so every order exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special as sc

from dualtape.core.absent import still
from dualtape.core.calls import call_of_many
from dualtape.core.cotangents import unbroadcast
from dualtape.core.edges import Partial
from dualtape.core.families import general
from dualtape.core.lookup import register
from dualtape.core.recorders import has_derivative
from dualtape.core.standin import every, some
from dualtape.core.table import Columns, Row, publish
from dualtape.core.tensor import Operand, Tensor, operand, raw
from dualtape.facts import costs, patterns
from dualtape.facts.costs import Work
from dualtape.ops.indexing import as_tensor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

# A series or quadrature of this many evaluations stands behind a derivative by a parameter.
FACTS: Columns = {
    "work": costs.composite(Work(0, 0, 0, 2), Work(0, 0, 0, 4), Work(0, 0, 1, 0)),
    "pattern": patterns.elementwise,
}

Function = Callable[..., Any]


def series(kernel: Any, partials: Sequence[Function]) -> Any:
    """A row of an elementwise function of two or three operands, whose partials are series."""
    name = kernel.__name__
    edges = [Partial(p, tuple(range(len(partials))), True, False) for p in partials]
    row = Row(name, kernel, edges, kind="elementwise", **FACTS)
    return publish(row, call_of_many(row))


def unknown(name: str, argument: str) -> Any:
    """Refuse a derivative by a parameter for which no formula is known."""
    raise TypeError(f"{name}: the derivative by its argument {argument!r} is not known; keep it constant")


def double(*xs: Any) -> tuple[list[Any], Any]:
    """Operands in double precision, and the dtype their function has."""
    dtype = np.result_type(*(raw(x) for x in xs))
    dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    return [x.astype(np.float64) if hasattr(x, "dtype") else np.float64(x) for x in xs], dtype


def branches(
    condition: Any, xs: list[Any], yes: Function, no: Function, for_yes: list[float], for_no: list[float]
) -> Any:
    """yes(*xs) where the condition holds, else no(*xs); each sees harmless numbers where it is not asked."""
    if every(condition):
        return yes(*xs)
    if not some(condition):
        return no(*xs)
    first = yes(*(np.where(condition, x, c) for x, c in zip(xs, for_yes, strict=True)))
    return np.where(condition, first, no(*(np.where(condition, c, x) for x, c in zip(xs, for_no, strict=True))))


# ------------------------------------------------------------------ incomplete gamma functions
NODES, WEIGHTS = np.polynomial.laguerre.laggauss(64)


def gamma_density(a: Any, x: Any) -> Any:
    """x^(a-1) exp(-x) / gamma(a)."""
    return np.exp(sc.xlogy(a - 1, x) - x - sc.gammaln(a))


def lower_series(a: Any, x: Any) -> Any:
    """d/da of P(a, x) = sum of x^(a+k) exp(-x) / gamma(a+k+1)  (DLMF 8.7.1), from the first term that matters."""
    av, xv = still(a), still(x)
    root = np.sqrt(xv)
    first = np.floor(np.maximum(0, xv - av - 9 * root - 20))
    terms = int(np.ceil(np.max(xv + 9 * root + 40 - av - first, initial=60)))
    b = (a + first)[..., None] + np.arange(terms)
    t = np.log(np.where(xv > 0, x, 1.0))[..., None]
    each = np.exp(b * t - x[..., None] - sc.gammaln(b + 1))
    return np.where(xv > 0, np.sum(each * (t - sc.psi(b + 1)), axis=-1), 0.0)


def upper_quadrature(a: Any, x: Any) -> Any:
    """-d/da of Q(a, x) = integral from x of t^(a-1) exp(-t) / gamma(a), for x well above a, by Gauss and Laguerre."""
    scale = 1 / (1 - (still(a) - 1) / still(x))
    step = scale[..., None] * NODES
    ratio = np.log1p(step / x[..., None])
    log_density = (a - 1)[..., None] * ratio - step + NODES
    slope = ratio + (np.log(x) - sc.psi(a))[..., None]
    return -gamma_density(a, x) * scale * np.sum(WEIGHTS * np.exp(log_density) * slope, axis=-1)


def lower_by_a(a: Any, x: Any) -> Any:
    """d/da P(a, x)."""
    (a, x), dtype = double(a, x)
    a, x = spread(a, x)
    least = still(a)
    far = still(x) >= np.maximum(10, least + 2 * np.sqrt(np.abs(least)))
    return branches(far, [a, x], upper_quadrature, lower_series, [1.0, 40.0], [1.0, 1.0]).astype(dtype)


def spread(*xs: Any) -> list[Any]:
    """Operands broadcast to one shape."""
    shape = np.broadcast_shapes(*(np.shape(raw(x)) for x in xs))
    return [np.broadcast_to(x, shape) for x in xs]


gammainc = series(sc.gammainc, [lower_by_a, gamma_density])
gammaincc = series(sc.gammaincc, [lambda x, y: -lower_by_a(x, y), lambda x, y: -gamma_density(x, y)])


def by_inverse(function: Function, density: Function, sign: float) -> list[Function]:
    """The partials of an inverse x(a, p) from those of p(a, x)."""

    def by_a(a: Any, p: Any) -> Any:
        x = function(a, p)
        return -lower_by_a(a, x) / density(a, x)

    return [by_a, lambda a, p: sign / density(a, function(a, p))]


gammaincinv = series(sc.gammaincinv, by_inverse(sc.gammaincinv, gamma_density, 1.0))
gammainccinv = series(sc.gammainccinv, by_inverse(sc.gammainccinv, gamma_density, -1.0))


# ------------------------------------------------------------------ incomplete beta functions
def beta_density(a: Any, b: Any, x: Any) -> Any:
    """x^(a-1) (1-x)^(b-1) / B(a, b)."""
    return np.exp(sc.xlogy(a - 1, x) + sc.xlog1py(b - 1, -x) - sc.betaln(a, b))


def beta_terms(a: Any, b: Any, x: Any, count: int) -> tuple[Any, Any]:
    """a + k, and the terms x^(a+k) (1-x)^b gamma(a+b+k) / (gamma(b) gamma(a+k+1)) of I_x(a, b) (DLMF 8.17.8)."""
    k = np.arange(float(count))
    c = a[..., None] + k
    b, x = b[..., None], x[..., None]
    return np.exp(c * np.log(x) + b * np.log1p(-x) + sc.gammaln(c + b) - sc.gammaln(b) - sc.gammaln(c + 1)), c


def beta_series(a: Any, b: Any, x: Any, by_first: bool) -> Any:
    """d/da or d/db of that series; as many terms as it takes."""
    count = 64
    while count < 1 << 16:
        last, _ = beta_terms(still(a), still(b), still(x), count)
        if np.all(last[..., -1] <= 1e-18 * np.max(last, axis=-1, initial=0.0)):
            break
        count *= 2
    inside = still(x) > 0
    x = np.where(inside, x, 0.5)
    each, c = beta_terms(a, b, x, count)
    b, x = b[..., None], x[..., None]
    slope = sc.psi(c + b) + (np.log(x) - sc.psi(c + 1) if by_first else np.log1p(-x) - sc.psi(b))
    return np.where(inside, np.sum(each * slope, axis=-1), 0.0)


def beta_by(by_first: bool) -> Function:
    """d/da or d/db of I_x(a, b); beyond the mean through I_x(a, b) = 1 - I_(1-x)(b, a)."""

    def partial(a: Any, b: Any, x: Any) -> Any:
        (a, b, x), dtype = double(a, b, x)
        a, b, x = spread(a, b, x)
        low = still(x) * (still(a) + still(b) + 2) <= still(a) + 1
        return branches(
            low,
            [a, b, x],
            lambda a, b, x: beta_series(a, b, x, by_first),
            lambda a, b, x: -beta_series(b, a, 1 - x, not by_first),
            [1.0, 1.0, 0.25],
            [1.0, 1.0, 0.75],
        ).astype(dtype)

    return partial


def minus(partial: Function) -> Function:
    return lambda x, y, z: -partial(x, y, z)


BETA = [beta_by(True), beta_by(False), beta_density]
betainc = series(sc.betainc, BETA)
betaincc = series(sc.betaincc, [minus(p) for p in BETA]) if hasattr(sc, "betaincc") else None
betaincinv = series(
    sc.betaincinv,
    [
        lambda a, b, p: -BETA[0](a, b, sc.betaincinv(a, b, p)) / beta_density(a, b, sc.betaincinv(a, b, p)),
        lambda a, b, p: -BETA[1](a, b, sc.betaincinv(a, b, p)) / beta_density(a, b, sc.betaincinv(a, b, p)),
        lambda a, b, p: 1 / beta_density(a, b, sc.betaincinv(a, b, p)),
    ],
)


# ------------------------------------------------------------------ distribution functions made of them
def chdtr(v: ArrayLike, x: ArrayLike) -> Tensor:
    """The distribution function of chi squared with v degrees of freedom; SciPy's ``chdtr``."""
    halves: list[Any] = [as_tensor(operand(v)), as_tensor(operand(x))]
    return gammainc(*(0.5 * h for h in halves))


def chdtrc(v: ArrayLike, x: ArrayLike) -> Tensor:
    """One minus the distribution function of chi squared; SciPy's ``chdtrc``."""
    halves: list[Any] = [as_tensor(operand(v)), as_tensor(operand(x))]
    return gammaincc(*(0.5 * h for h in halves))


def t_density(v: Any, t: Any) -> Any:
    """The density of Student's t."""
    return np.exp(-0.5 * (v + 1) * np.log1p(t * t / v) - sc.betaln(0.5 * v, 0.5)) / np.sqrt(v)


def t_by_freedom(v: Any, t: Any) -> Any:
    """d/dv of 1 - I_z(v/2, 1/2)/2 for t > 0, z = v / (v + t^2); odd in t."""
    s = v + t * t
    z = v / s
    half = 0.5 * v
    one = np.asarray(0.5, raw(half).dtype)
    slope = 0.5 * BETA[0](half, one, z) + beta_density(half, one, z) * (t * t / (s * s))
    return -0.5 * np.sign(still(t)) * np.where(still(t) == 0, 0, slope)


stdtr = series(sc.stdtr, [t_by_freedom, t_density])


# ------------------------------------------------------------------ hypergeometric functions
hyp0f1 = series(sc.hyp0f1, [lambda x, y: unknown("hyp0f1", "v"), lambda x, y: sc.hyp0f1(x + 1, y) / x])
hyp1f1 = series(
    sc.hyp1f1,
    [
        lambda x, y, z: unknown("hyp1f1", "a"),
        lambda x, y, z: unknown("hyp1f1", "b"),
        lambda x, y, z: (x / y) * sc.hyp1f1(x + 1, y + 1, z),
    ],
)


def gauss(a: Any, b: Any, c: Any, z: Any) -> Any:
    """2F1, a plain array of plain arrays."""
    return hyp2f1_row(z, a=a, b=b, c=c) if z.__class__ is Tensor else sc.hyp2f1(a, b, c, z)


hyp2f1_row = general(
    lambda x, a, b, c: sc.hyp2f1(a, b, c, x),
    name="hyp2f1",
    jvp=lambda t, x, a, b, c: t * (a * b / c) * gauss(a + 1, b + 1, c + 1, x),
    vjp=lambda g, x, shape, a, b, c: unbroadcast(g * ((a * b / c) * gauss(a + 1, b + 1, c + 1, x)).conjugate(), shape),
    **FACTS,
)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, z: ArrayLike) -> Tensor:
    """Gauss's hypergeometric function 2F1(a, b; c; z); SciPy's ``hyp2f1``.

    Args:
        a: a number or array; no derivative by it is known.
        b: likewise.
        c: likewise.
        z: numbers, by which it is differentiated.

    Returns:
        A Tensor.

    Raises:
        TypeError: a tape or accumulator follows one of the parameters.
    """
    for name, v in (("a", a), ("b", b), ("c", c)):
        if isinstance(v, Operand) and has_derivative(operand(v)._node):
            unknown("hyp2f1", name)
    a, b, c = (v.numpy() if isinstance(v, Operand) else operand(v) for v in (a, b, c))
    return hyp2f1_row(as_tensor(operand(z)), a=a, b=b, c=c)


def elliptic(kernel: Any, a: float, factor: float) -> Any:
    """A complete elliptic integral, by its derivative factor 2F1(a, 3/2; 2; m)  (DLMF 19.5.1, 19.5.2, 15.5.1)."""

    def slope(m: Any) -> Any:
        return factor * gauss(a, 1.5, 2.0, m).astype(raw(m).dtype)

    return general(kernel, jvp=lambda t, x: t * slope(x), vjp=lambda g, x: g * slope(x), **FACTS)


ellipk = elliptic(sc.ellipk, 1.5, math.pi / 8)
ellipe = elliptic(sc.ellipe, 0.5, -math.pi / 8)


# ------------------------------------------------------------------ several results
def system(kernel: Any, outputs: int, slopes: Callable[[Any, Any], tuple[Any, ...]]) -> Any:
    """A row of a function of one argument with several results."""

    def push(t: Any, x: Any, out: Any) -> Any:
        return tuple([t * d for d in slopes(x, out)])

    def pull(g: Any, x: Any, out: Any) -> Any:
        total: Any = 0.0
        for c, d in zip(g, slopes(x, out), strict=True):
            if c is not None:
                total = total + c * d.conjugate()
        return total

    return general(kernel, jvp=push, vjp=pull, outputs=outputs, **FACTS)


airy = system(sc.airy, 4, lambda x, out: (out[1], x * out[0], out[3], x * out[2]))
sici = system(sc.sici, 2, lambda x, out: (np.sinc(x * (1 / math.pi)), np.cos(x) / x))
fresnel = system(sc.fresnel, 2, lambda x, out: (np.sin((math.pi / 2) * (x * x)), np.cos((math.pi / 2) * (x * x))))

register(chdtr, sc.chdtr, "chdtr")
register(chdtrc, sc.chdtrc, "chdtrc")
register(hyp2f1, sc.hyp2f1)
