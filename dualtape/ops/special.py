"""Rows of ``scipy.special``, under SciPy's names: error functions, logistic functions, entropies, gamma functions.

Derivatives are those of the NIST Digital Library of Mathematical Functions; each is written so that it is accurate in
the tails and exact at every order, as a formula in functions that have rows themselves. A derivative by an argument
for which no formula is known raises a TypeError when it is asked for, and is never a silent zero.

Length: one line for most functions; the table is read as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special as sc

from dualtape.core.absent import still
from dualtape.core.families import elementwise, general
from dualtape.core.lookup import register
from dualtape.core.standin import every, some
from dualtape.core.tensor import Operand, Tensor, operand, raw
from dualtape.facts import patterns
from dualtape.facts.costs import Work
from dualtape.facts.costs import elementwise as cost
from dualtape.ops import elementwise as elementary
from dualtape.ops import reductions
from dualtape.ops.bessel import (
    hankel1,
    hankel2,
    i0,
    i0e,
    i1,
    i1e,
    iv,
    ive,
    j0,
    j1,
    jv,
    k0,
    k0e,
    k1,
    k1e,
    kv,
    kve,
    y0,
    y1,
    yv,
)
from dualtape.ops.elementwise import chosen
from dualtape.ops.incomplete import (
    airy,
    betainc,
    betaincc,
    betaincinv,
    chdtr,
    chdtrc,
    ellipe,
    ellipk,
    fresnel,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    hyp0f1,
    hyp1f1,
    hyp2f1,
    sici,
    stdtr,
)
from dualtape.ops.indexing import as_tensor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "airy", "beta", "betainc", "betaincc", "betaincinv", "betaln", "binom", "boxcox", "boxcox1p", "cbrt", "chdtr",
    "chdtrc", "cosdg", "cosm1", "dawsn", "digamma", "ellipe", "ellipk", "entr", "erf", "erfc", "erfcinv", "erfcx",
    "erfi", "erfinv", "exp1", "exp2", "exp10", "expi", "expit", "expm1", "exprel", "fresnel", "gamma", "gammainc",
    "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "hankel1", "hankel2", "huber", "hyp0f1",
    "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "inv_boxcox", "iv", "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1",
    "k1e", "kl_div", "kv", "kve", "lambertw", "log1p", "log_expit", "log_ndtr", "log_softmax", "loggamma", "logit",
    "logsumexp", "multigammaln", "ndtr", "ndtri", "ndtri_exp", "owens_t", "poch", "polygamma", "pseudo_huber", "psi",
    "rel_entr", "rgamma", "sici", "sinc", "sindg", "softmax", "softplus", "spence", "stdtr", "tandg", "wofz",
    "wrightomega", "xlog1py", "xlogy", "y0", "y1", "yv", "zeta",
]  # fmt: skip
__dir__ = __all__.copy

SQRT_PI = math.sqrt(math.pi)
SQRT_2 = math.sqrt(2.0)
SQRT_2PI = math.sqrt(2.0 * math.pi)


def smooth(kernel: Any, *partials: Any, singular: bool = False, **options: Any) -> Any:
    """A row of a gamma-type function: two nonlinear evaluations for the value, and for a partial."""
    options.setdefault("work", cost(len(partials), nonlinear=2))
    return elementwise(kernel, *partials, singular=singular, **options)


def unknown(name: str, argument: str, remedy: str = "keep it constant") -> Callable[[Any], Any]:
    """The partial by an argument for which no formula is known."""

    def partial(x: Any) -> Any:
        raise TypeError(f"{name}: the derivative by its argument {argument!r} is not known; {remedy}")

    return partial


def alike(x: Any, y: Any) -> Any:
    """A Python number in the dtype of ``y``, so that it does not turn single precision into double."""
    return np.asarray(x, y.dtype)[()] if x.__class__ in (float, int) and hasattr(y, "dtype") else x


def log(x: Any) -> Any:
    """The logarithm, of a Python number as a Python number."""
    return float(np.log(x)) if x.__class__ in (float, int) else np.log(x)


def log_of_next(x: Any) -> Any:
    """log1p, of a Python number as a Python number."""
    return float(np.log1p(x)) if x.__class__ in (float, int) else np.log1p(x)


def pieces(
    condition: Any, x: Any, near: Callable[[Any], Any], far: Callable[[Any], Any], inside: float, outside: float
) -> Any:
    """near(x) where the condition holds, else far(x); neither sees an argument that is not its own."""
    if not some(condition):
        return far(x)
    if every(condition):
        return near(x)
    return np.where(condition, near(np.where(condition, x, inside)), far(np.where(condition, outside, x)))


def polynomial(z: Any, coefficients: list[float]) -> Any:
    """The polynomial with these coefficients, the constant first, by Horner's rule."""
    total: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * z + c
    return total


# ------------------------------------------------------------------ error functions
# exp(-x^2), whose derivatives of every order are 0 at infinity.
bell = smooth(
    lambda x: np.exp(-x * x),
    lambda x, out: -2 * np.where(still(out) == 0, 0, x) * out,
    name="bell",
    work=cost(1, nonlinear=1, mults=1),
)


def gauss(x: Any) -> Any:
    """exp(-x^2), a plain array of a plain array."""
    return bell(x) if x.__class__ is Tensor else np.exp(-x * x)


# 1 / (2 x^2) asymptotic series: (2n-1)!! (2n+1) for the slope of x^-1 sum (2n-1)!! (+-1)^n (2x^2)^-n.
TAIL = [math.prod(range(1, 2 * n, 2)) * (2 * n + 1) / 2.0**n for n in range(14)]


def erfcx_slope(x: Any, out: Any) -> Any:
    """2 x erfcx(x) - 2/sqrt(pi), which cancels for large x: there the asymptotic series (DLMF 7.12.1)."""
    far = np.real(still(x)) > 12
    if not some(far):
        return 2 * x * out - 2 / SQRT_PI
    z = 1 / np.where(far, x, 12.0)
    z = z * z
    series = polynomial(-z, TAIL) * z * (-1 / SQRT_PI)
    near = np.where(far, 0.0, x)
    return np.where(far, series, 2 * near * np.where(far, 0.0, out) - 2 / SQRT_PI)


def dawsn_slope(x: Any, out: Any) -> Any:
    """1 - 2 x dawsn(x), which cancels for large x: there its asymptotic series (DLMF 7.12.2)."""
    value = still(x)
    far = np.real(value * value) > 144  # of complex x where exp(-x^2), which the series lacks, is nothing
    if not some(far):
        return 1 - 2 * x * out
    z = 1 / np.where(far, x, 12.0)
    z = z * z
    near = np.where(far, 0.0, x)
    return np.where(far, polynomial(z, TAIL) * z * -0.5, 1 - 2 * near * np.where(far, 0.0, out))


erf = smooth(sc.erf, lambda x: (2 / SQRT_PI) * gauss(x))
erfc = smooth(sc.erfc, lambda x: (-2 / SQRT_PI) * gauss(x))
erfcx = smooth(sc.erfcx, erfcx_slope)
erfi = smooth(sc.erfi, lambda x: (2 / SQRT_PI) * np.exp(x * x))
dawsn = smooth(sc.dawsn, dawsn_slope)
erfinv = smooth(sc.erfinv, lambda out: (0.5 * SQRT_PI) * np.exp(out * out), singular=True)
erfcinv = smooth(sc.erfcinv, lambda out: (-0.5 * SQRT_PI) * np.exp(out * out), singular=True)

# ------------------------------------------------------------------ the normal distribution
# The series of 1 - u m(u), m Mills' ratio, in 1/u^2 (DLMF 7.12.1).
MILLS = [(-1.0) ** n * math.prod(range(1, 2 * n + 2, 2)) for n in range(14)]


def hazard_slope(x: Any, out: Any) -> Any:
    """The slope -h (x + h) of h = phi / Phi; where x + h cancels, far to the left, by the series of (x + h) / h."""
    none = still(out) == 0
    if some(none):
        out, x = np.where(none, 0, out), np.where(none, 0, x)
    far = np.real(still(x)) < -20
    if not some(far):
        return -out * (x + out)
    z = 1 / np.where(far, x, -20.0)
    z = z * z
    near = -out * (np.where(far, 0.0, x) + np.where(far, 0.0, out))
    return np.where(far, -out * out * (polynomial(z, MILLS) * z), near)


# phi(x) / Phi(x), the derivative of log_ndtr.
hazard = smooth(
    lambda x: (2 / SQRT_2PI) / sc.erfcx(x * (-1 / SQRT_2)), hazard_slope, name="normal_hazard", changes_dtype=True
)


def hazard_of(x: Any) -> Any:
    """phi(x) / Phi(x), a plain array of a plain array."""
    return hazard(x) if x.__class__ is Tensor else hazard.row.kernel(x)


ndtr = smooth(sc.ndtr, lambda x: (1 / SQRT_2PI) * gauss(x * (1 / SQRT_2)))
log_ndtr = smooth(sc.log_ndtr, lambda x: hazard_of(x))
ndtri = smooth(sc.ndtri, lambda out: SQRT_2PI * np.exp(0.5 * (out * out)), singular=True)
ndtri_exp = smooth(sc.ndtri_exp, lambda x, out: SQRT_2PI * np.exp(x + 0.5 * (out * out)), singular=True)

# ------------------------------------------------------------------ logistic functions
expit = smooth(sc.expit, lambda x, out: out * sc.expit(-x))
logit = smooth(sc.logit, lambda x: 1 / (x * (1 - x)), singular=True)
log_expit = smooth(sc.log_expit, lambda x: sc.expit(-x))


def softplus(x: ArrayLike, /) -> Tensor:
    """log(1 + exp(x)), without overflow; SciPy's ``softplus``."""
    v: Any = as_tensor(operand(x))
    return -log_expit(-v)


# ------------------------------------------------------------------ x log y and entropies
def quotient(x: Any, y: Any) -> Any:
    """x / y, 0 where both are 0: by choice, if x may be another."""
    both = (still(x) == 0) & (still(y) == 0)
    if not some(both):
        return x / y
    ratio = x / np.where(both, 1, y)
    return chosen(ratio, np.where(both, x, 1)) if x.__class__ is Tensor else ratio


def log_quotient(x: Any, y: Any) -> Any:
    """log(x / y), -inf by choice where both are 0."""
    found = np.log(quotient(x, y))
    both = (still(x) == 0) & (still(y) == 0)
    return chosen(found, np.where(both, y, 1)) if y.__class__ is Tensor and some(both) else found


# A Python number beside single precision gives double here, as in SciPy: reading x as well has its cotangent cast back.
xlogy = smooth(sc.xlogy, lambda x, y: log(y), lambda x, y: quotient(x, y), singular=True)
xlog1py = smooth(sc.xlog1py, lambda x, y: log_of_next(y), lambda x, y: quotient(x, 1 + y), singular=True)
entr = smooth(sc.entr, lambda x: -np.log(x) - 1, singular=True)
rel_entr = smooth(sc.rel_entr, lambda x, y: log_quotient(x, y) + 1, lambda x, y: -quotient(x, y), singular=True)
kl_div = smooth(sc.kl_div, lambda x, y: log_quotient(x, y), lambda x, y: 1 - quotient(x, y), singular=True)


# ------------------------------------------------------------------ gamma functions
def hurwitz(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function, a plain array of plain arrays."""
    return zeta_row(s, q) if s.__class__ is Tensor or q.__class__ is Tensor else sc.zeta(s, q)


zeta_row = smooth(
    lambda x, y: sc.zeta(x, y),
    unknown("zeta", "x"),
    lambda x, y: -x * hurwitz(x + 1, y),
    name="zeta",
    singular=True,
    changes_dtype=True,
)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Tensor:
    """The zeta functions of Riemann and (with ``q``) Hurwitz; SciPy's ``zeta``.

    Args:
        x: the exponent; no derivative by it is known.
        q: the shift of Hurwitz's function; 1 if None.

    Returns:
        A Tensor.

    Mathematics:
        The derivative by q is -x zeta(x + 1, q) (DLMF 25.11.17).
    """
    return zeta_row(x, 1.0 if q is None else q)


def rgamma_slope(x: Any) -> Any:
    """-psi(x) / gamma(x), which is finite at the poles: there by reflection (DLMF 5.5.3)."""
    return pieces(
        np.real(still(x)) < 0.5,
        x,
        lambda v: (np.cos(math.pi * v) - sc.psi(1 - v) * (np.sin(math.pi * v) * (1 / math.pi))) * sc.gamma(1 - v),
        lambda v: -sc.psi(v) * sc.rgamma(v),
        0.0,
        1.0,
    )


def slope_of_psi(x: Any) -> Any:
    """The trigamma function."""
    if np.iscomplexobj(raw(x)):
        raise TypeError("digamma: its derivative, the trigamma function, is not known for complex arguments")
    return hurwitz(2.0, x)


psi = smooth(sc.psi, slope_of_psi, functions=[sc.digamma, "digamma"])
digamma = psi
gamma = smooth(sc.gamma, lambda x, out: out * sc.psi(x))
gammaln = smooth(sc.gammaln, lambda x: sc.psi(x))
loggamma = smooth(sc.loggamma, lambda x: sc.psi(x))
rgamma = smooth(sc.rgamma, rgamma_slope)
gammasgn = elementwise(sc.gammasgn, 0, work=cost(1, adds=1))
beta = smooth(
    sc.beta, lambda x, y, out: out * (sc.psi(x) - sc.psi(x + y)), lambda x, y, out: out * (sc.psi(y) - sc.psi(x + y))
)
betaln = smooth(sc.betaln, lambda x, y: sc.psi(x) - sc.psi(x + y), lambda x, y: sc.psi(y) - sc.psi(x + y))
poch = smooth(sc.poch, lambda x, y, out: out * (sc.psi(x + y) - sc.psi(x)), lambda x, y, out: out * sc.psi(x + y))
binom = smooth(
    sc.binom,
    lambda x, y, out: out * (sc.psi(x + 1) - sc.psi(x - y + 1)),
    lambda x, y, out: out * (sc.psi(x - y + 1) - sc.psi(y + 1)),
)


def polygamma(n: ArrayLike, x: ArrayLike) -> Tensor:
    """The n-th derivative of the digamma function; SciPy's ``polygamma``.

    Args:
        n: integers from 0 on; no derivative by the order exists.
        x: real numbers, broadcast with ``n``.

    Returns:
        A Tensor.

    Raises:
        TypeError: ``n`` is a Tensor of floats.

    Mathematics:
        psi_n(x) = (-1)^(n+1) n! zeta(n + 1, x), and its derivative is psi_(n+1)(x) (DLMF 25.11.12).
    """
    if isinstance(n, Operand):
        if n.dtype.kind == "f":
            raise TypeError("polygamma: no derivative by its argument 'n' is known; give the order as plain integers")
        n = n.numpy()
    n = np.asarray(n)
    x = as_tensor(operand(x))
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    if not np.any(n):
        return psi(x) if not n.ndim else psi(np.broadcast_to(x, np.broadcast_shapes(x.shape, n.shape)))
    factor = ((-1.0) ** (n + 1) * sc.gamma(n + 1.0)).astype(x.dtype)[()]
    value = factor * zeta_row((n + 1).astype(x.dtype)[()], x)
    return value if np.all(n) else np.where(n == 0, psi(x), value)


def multigammaln(a: ArrayLike, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function; SciPy's ``multigammaln``.

    Args:
        a: numbers above (d - 1) / 2.
        d: the dimension, an int from 1 on.

    Returns:
        A Tensor of the shape of ``a``.

    Raises:
        ValueError: ``d`` is no positive int, or an element of ``a`` is too small.
    """
    if not isinstance(d, (int, np.integer)) or d < 1:
        raise ValueError(f"multigammaln: d must be a positive int, got {d!r}")
    d = int(d)
    a = as_tensor(operand(a))
    if np.any(still(a) <= 0.5 * (d - 1)):
        raise ValueError(f"multigammaln: all elements of a must be above (d - 1) / 2 = {0.5 * (d - 1)}")
    total = gammaln(a)
    for j in range(1, d):
        total = total + gammaln(a - 0.5 * j)
    return total + 0.25 * d * (d - 1) * math.log(math.pi)


# ------------------------------------------------------------------ exponentials and transformations
EXPREL = [(k + 1) / math.factorial(k + 2) for k in range(20)]


def exprel_slope(x: Any) -> Any:
    """((x - 1) exp(x) + 1) / x^2; its series near 0."""
    return pieces(
        np.abs(still(x)) < 1.0,
        x,
        lambda v: polynomial(v, EXPREL),
        lambda v: (np.exp(v) - sc.exprel(v)) / v,
        0.0,
        2.0,
    )


# log(x) / (1 - x) about 1, in powers of 1 - x.
SPENCE = [-1.0 / (k + 1) for k in range(30)]


def spence_slope(x: Any) -> Any:
    """log(x) / (1 - x); its series near 1."""
    return pieces(
        np.abs(still(x) - 1) < 0.25, x, lambda v: polynomial(1 - v, SPENCE), lambda v: np.log(v) / (1 - v), 1.0, 2.0
    )


def log_power(x: Any, y: Any) -> Any:
    """d/dy of (x^y - 1) / y = (x^y log x - boxcox) / y, whose limit at y = 0 is log(x)^2 / 2."""
    t = np.log(alike(x, y))
    return t * t * exprel_slope(t * y)


exprel = smooth(sc.exprel, exprel_slope)
expi = smooth(sc.expi, lambda x: np.exp(x) / x, singular=True)
exp1 = smooth(sc.exp1, lambda x: -np.exp(-x) / x, singular=True)
spence = smooth(sc.spence, spence_slope, singular=True)
cosm1 = smooth(sc.cosm1, lambda x: -np.sin(x))
exp10 = elementwise(sc.exp10, lambda out: out * math.log(10.0))
sindg = elementwise(sc.sindg, lambda x: (math.pi / 180) * sc.cosdg(x))
cosdg = elementwise(sc.cosdg, lambda x: (-math.pi / 180) * sc.sindg(x))
tandg = elementwise(sc.tandg, lambda out: (math.pi / 180) * (1 + out * out))
boxcox = smooth(sc.boxcox, lambda x, y: x ** (y - 1), log_power, singular=True)
boxcox1p = smooth(sc.boxcox1p, lambda x, y: (1 + x) ** (y - 1), lambda x, y: log_power(1 + x, y), singular=True)


def inv_boxcox_by_lambda(x: Any, y: Any, out: Any) -> Any:
    """d/dy (1 + x y)^(1/y) = out (x / (1 + x y) - log(1 + x y) / y) / y, finite at y = 0."""
    z = x * y
    small = np.abs(still(z)) < 0.125
    # (z / (1 + z) - log(1 + z)) / z^2 = sum of (-1)^(k+1) (k + 1) / (k + 2) z^k
    series = [(-1.0) ** (k + 1) * (k + 1) / (k + 2) for k in range(20)]
    ratio = pieces(small, z, lambda v: polynomial(v, series), lambda v: (v / (1 + v) - np.log1p(v)) / (v * v), 0.0, 1.0)
    return out * x * x * ratio


inv_boxcox = smooth(sc.inv_boxcox, lambda x, y, out: out / (1 + x * y), inv_boxcox_by_lambda, singular=True)
huber = smooth(
    sc.huber,
    lambda x, y: np.where(np.abs(still(y)) <= still(x), 0, np.abs(alike(y, x)) - x),
    lambda x, y: np.where(np.abs(still(y)) <= still(x), y, np.sign(still(y)) * alike(x, y)),
    work=cost(2, adds=2, mults=2, partial=Work(adds=1)),
)


def pseudo_huber_root(x: Any, y: Any) -> Any:
    """hypot(1, y / x)."""
    return np.hypot(1.0, y / x)


pseudo_huber = smooth(
    sc.pseudo_huber,
    lambda x, y, out: (out + out) / x - (y * y) / (x * pseudo_huber_root(x, y)),
    lambda x, y: y / pseudo_huber_root(x, y),
)


owens_t = smooth(
    sc.owens_t,
    lambda x, y: (-0.5 / SQRT_2PI) * gauss(x * (1 / SQRT_2)) * sc.erf(x * y * (1 / SQRT_2)),
    lambda x, y: (0.5 / math.pi) * np.exp(-0.5 * (x * x) * (1 + y * y)) / (1 + y * y),
)
wrightomega = smooth(sc.wrightomega, lambda out: out / (1 + out))
wofz = smooth(sc.wofz, lambda x, out: -2 * x * out + 2j / SQRT_PI)
lambertw_row = general(
    lambda x, k: sc.lambertw(x, k),
    name="lambertw",
    jvp=lambda t, out: t * lambert_slope(out),
    vjp=lambda g, out: g * np.conj(lambert_slope(out)),
    work=cost(1, nonlinear=2),
    pattern=patterns.elementwise,
)


def lambert_slope(w: Any) -> Any:
    """exp(-w) / (1 + w), from w exp(w) = z."""
    return np.exp(-w) / (1 + w)


def lambertw(z: ArrayLike, k: int = 0, tol: float = 1e-8) -> Tensor:
    """The k-th branch of Lambert's function, w exp(w) = z, complex; SciPy's ``lambertw``.

    Args:
        z: real or complex numbers.
        k: the branch, an int.
        tol: accepted.

    Returns:
        A complex Tensor.
    """
    return lambertw_row(as_tensor(operand(z)), k=int(k))


for _name, _call in (("_zeta", zeta_row), ("_riemann_zeta", zeta), ("_lambertw", lambertw)):
    # The ufuncs behind SciPy's Python functions of these names, where there are such.
    if hasattr(sc._ufuncs, _name):
        register(_call, getattr(sc._ufuncs, _name))


def same(row: Any, *functions: Any) -> Any:
    """SciPy's name for an operation that NumPy has."""
    return register(row, *functions)


jn = jv
cbrt = same(elementary.cbrt, sc.cbrt)
exp2 = same(elementary.exp2, sc.exp2)
expm1 = same(elementary.expm1, sc.expm1)
log1p = same(elementary.log1p, sc.log1p)
sinc = elementary.sinc


# ------------------------------------------------------------------ log-sum-exp and softmax
def logsumexp(
    a: ArrayLike,
    axis: int | tuple[int, ...] | None = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Any:
    """log(sum(b exp(a))) without overflow; SciPy's ``logsumexp``.

    Args:
        a: an array.
        axis: an int, a tuple of ints, or None for all.
        b: weights that broadcast with ``a``, of any sign.
        keepdims: whether the axes stay, with length 1.
        return_sign: whether to return the sign of the sum as well; without it a negative sum gives NaN.

    Returns:
        A Tensor; with ``return_sign`` a pair of Tensors.

    Mathematics:
        The derivative by a is the share b exp(a) / sum(b exp(a)) of each term, that by b is exp(a) / sum(b exp(a)).
    """
    a = as_tensor(operand(a))
    a = a if a.dtype.kind in "fc" else a.astype(np.float64)
    if b is None and not return_sign:
        return reductions.logsumexp(a, axis=axis, keepdims=keepdims)
    b = as_tensor(operand(1.0 if b is None else b))
    # A weight of 0 takes its term out. The slope by it is exp(a - result) even so; NaN, if that is too large.
    none, value = still(b) == 0, still(a)
    top = np.max(np.where(none, -np.inf, np.real(value)), axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0).astype(top.dtype)
    huge = none & ~(np.real(value) - top < np.log(np.finfo(top.dtype).max) - 1)
    if some(huge):
        terms = chosen(b * np.exp(np.where(huge, -np.inf, a - top)), np.where(huge, b, 1))
    else:
        terms = b * np.exp(a - top)
    total = np.sum(terms, axis=axis, keepdims=keepdims)
    sign = np.sign(total)
    shift = top if keepdims or (axis is None and not top.ndim) else np.squeeze(top, axis=axis)
    if return_sign:
        return np.log(np.abs(total)) + shift, sign
    return np.log(total) + shift


def softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis (over all elements if None), without overflow; SciPy's ``softmax``."""
    return np.exp(log_softmax(x, axis))  # type: ignore[return-value]


def log_softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x - logsumexp(x) along an axis (over all elements if None); SciPy's ``log_softmax``."""
    x = as_tensor(operand(x))
    x = x if x.dtype.kind in "fc" else x.astype(np.float64)
    return x - reductions.logsumexp(x, axis=axis, keepdims=True)
