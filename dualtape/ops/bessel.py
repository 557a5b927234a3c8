"""Rows of the Bessel functions of ``scipy.special``: by the argument, from recurrences; by the order, from series.

By the argument, differences of neighbouring orders are used throughout (DLMF 10.6 and 10.29): they hold at 0 as well,
where quotients by x do not. By the order there is no closed form: the power series or an integral representation is
differentiated, in functions that have rows, so that every order of derivative exists.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special as sc

from dualtape.core.absent import still
from dualtape.core.cotangents import unbroadcast
from dualtape.core.families import elementwise, general
from dualtape.core.lookup import register
from dualtape.core.tensor import operand, raw
from dualtape.facts import patterns
from dualtape.facts.costs import elementwise as cost

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

LEGENDRE = np.polynomial.legendre.leggauss(64)


def bessel(kernel: Any, partial: Any, **options: Any) -> Any:
    """A function of the argument alone."""
    return elementwise(kernel, partial, work=cost(1, nonlinear=2), **options)


def ordered(kernel: Any, by_order: Any, partial: Any) -> Any:
    """A function of an order and an argument."""
    return elementwise(kernel, by_order, partial, work=cost(2, nonlinear=2), singular=True)


def sign(x: Any) -> Any:
    """The sign, a constant."""
    return np.sign(still(x))


# ------------------------------------------------------------------ by the order
def prepared(v: Any, x: Any) -> tuple[Any, Any, Any]:
    """Order and argument in double precision and in one shape, and the dtype of their function."""
    dtype = np.result_type(raw(v), raw(x))
    if dtype.kind == "c":
        raise TypeError("the derivative of a Bessel function by its order is known for real arguments alone")
    shape = np.broadcast_shapes(np.shape(raw(v)), np.shape(raw(x)))
    v, x = (np.broadcast_to(u.astype(np.float64) if hasattr(u, "dtype") else float(u), shape) for u in (v, x))
    return v, x, dtype if dtype.kind == "f" else np.dtype(np.float64)


def power_series(v: Any, x: Any, alternate: bool, scale: Any = None) -> Any:
    """d/dv of sum (+-1)^k (x/2)^(2k+v) / (k! gamma(k+v+1)) exp(-scale), DLMF 10.2.2 and 10.25.2."""
    top = np.max(np.abs(still(x)), initial=0.0)
    k = np.arange(int(np.ceil(0.5 * top + 9 * np.sqrt(top) + 30)))
    t = np.log(0.5 * x)[..., None]
    b = v[..., None] + (k + 1.0)
    size = np.exp(
        t * (b + (k - 1)) - sc.gammaln(k + 1.0) - sc.gammaln(b) - (scale[..., None] if scale is not None else 0.0)
    )
    signs = sc.gammasgn(still(b)) * ((-1.0) ** k if alternate else 1.0)
    return np.sum(signs * size * (t - sc.psi(b)), axis=-1)


def k_integral(v: Any, x: Any, scaled: bool) -> Any:
    """d/dv of K_v(x) = integral of exp(-x cosh t) cosh(v t) (DLMF 10.32.9), by the trapezoidal rule."""
    inside = still(x) > 0
    x = x if np.all(inside) else np.where(inside, x, np.nan)
    order, size = np.abs(still(v)), still(x)
    end = np.arcsinh((50 + 20 * order) / np.where(size > 0, size, 1.0)) + 1
    count = 64 * int(np.ceil(np.max(end, initial=1.0) / 4 + 1))
    t = end[..., None] * (np.arange(count) / count)
    x, v = x[..., None], v[..., None]
    fall = 2 * np.sinh(0.5 * t) ** 2 if scaled else np.cosh(t)
    return np.sum(0.5 * t * (np.exp(v * t - x * fall) - np.exp(-v * t - x * fall)), axis=-1) * (end / count)


def k_by_order(v: Any, x: Any) -> Any:
    """d/dv of K_v(x)."""
    v, x, dtype = prepared(v, x)
    return k_integral(v, x, False).astype(dtype)


def ke_by_order(v: Any, x: Any) -> Any:
    """d/dv of exp(x) K_v(x)."""
    v, x, dtype = prepared(v, x)
    return k_integral(v, x, True).astype(dtype)


def schlaefli(v: Any, x: Any, modified: bool, scaled: bool) -> Any:
    """d/dv of the integrals of Schlaefli for J_v(x) and I_v(x) (DLMF 10.9.6 and 10.32.4), by Gauss and Legendre."""
    order, size = np.abs(still(v)), still(x)
    nodes, weights = np.polynomial.legendre.leggauss(40 + int(np.ceil(np.max(order + size, initial=1.0))))
    s = 0.5 * math.pi * (nodes + 1)
    v_, x_ = v[..., None], x[..., None]
    if modified:
        swing = np.exp(x_ * (np.cos(s) - 1 if scaled else np.cos(s))) * np.sin(v_ * s)
    else:
        swing = np.sin(v_ * s - x_ * np.sin(s))
    nodes, far_weights = LEGENDRE
    end = np.arcsinh((50 + 5 * order) / np.where(size > 0, size, 1.0))
    t = (0.5 * end)[..., None] * (nodes + 1)
    fall = np.cosh(t) + (1 if scaled else 0) if modified else np.sinh(t)
    tail = (0.5 * end)[..., None] * far_weights * np.exp(-x_ * fall - v_ * t)
    angle = math.pi * v
    return (
        -0.5 * np.sum(weights * s * swing, axis=-1)
        - np.cos(angle) * np.sum(tail, axis=-1)
        + np.sin(angle) * (1 / math.pi) * np.sum(t * tail, axis=-1)
    )


def by_order(v: Any, x: Any, modified: bool, scaled: bool = False) -> Any:
    """d/dv of J_v(x), I_v(x) or exp(-x) I_v(x): the series where it does not cancel, integrals elsewhere.

    For x < 0 these functions are real at whole orders alone: there is no derivative, and NaN says so.
    """
    v, x, dtype = prepared(v, x)
    size, order = still(x), still(v)
    inside = size > 0
    if not np.all(inside):
        fill = np.where((size == 0) & (order > 0), 0.0, np.nan)
        v, x = np.where(inside, v, 0.0), np.where(inside, x, 1.0)
        size, order = np.where(inside, size, 1.0), np.where(inside, order, 0.0)
    order = np.abs(order)
    near = (size < 6) | (order * order > 2 * size if modified else size * size < 4 * (order + 1))
    if np.all(near):
        out = power_series(v, x, not modified, x if scaled else None)
    elif not np.any(near):
        out = schlaefli(v, x, modified, scaled)
    else:
        a, b = np.where(near, v, 0.0), np.where(near, x, 1.0)
        low = power_series(a, b, not modified, b if scaled else None)
        out = np.where(near, low, schlaefli(np.where(near, 0.0, v), np.where(near, 10.0, x), modified, scaled))
    return (out if np.all(inside) else np.where(inside, out, fill)).astype(dtype)


def refused(name: str) -> Any:
    """The partial by an order for which no formula is known."""

    def partial(x: Any) -> Any:
        raise TypeError(f"{name}: the derivative by its argument 'v', the order, is not known; keep it constant")

    return partial


def slope_of_ive(v: Any, x: Any) -> Any:
    """I_v'(x) exp(-|Re x|): of a complex x all but the factor, which is no analytic function of it."""
    return 0.5 * (sc.ive(v - 1, x) + sc.ive(v + 1, x))


# ------------------------------------------------------------------ rows
j0 = bessel(sc.j0, lambda x: -sc.j1(x))
j1 = bessel(sc.j1, lambda x: 0.5 * (sc.j0(x) - sc.jv(2.0, x)))
y0 = bessel(sc.y0, lambda x: -sc.y1(x), singular=True)
y1 = bessel(sc.y1, lambda x: 0.5 * (sc.y0(x) - sc.yv(2.0, x)), singular=True)
i0 = bessel(sc.i0, lambda x: sc.i1(x))
i1 = bessel(sc.i1, lambda x: 0.5 * (sc.i0(x) + sc.iv(2.0, x)))
k0 = bessel(sc.k0, lambda x: -sc.k1(x), singular=True)
k1 = bessel(sc.k1, lambda x: -0.5 * (sc.k0(x) + sc.kv(2.0, x)), singular=True)

# Scaled by exp(-|x|) or exp(x).
i0e = bessel(sc.i0e, lambda x, out: sc.i1e(x) - sign(x) * out)
i1e = bessel(sc.i1e, lambda x, out: 0.5 * (sc.i0e(x) + sc.ive(2.0, x)) - sign(x) * out)
k0e = bessel(sc.k0e, lambda x, out: out - sc.k1e(x), singular=True)
k1e = bessel(sc.k1e, lambda x, out: out - 0.5 * (sc.k0e(x) + sc.kve(2.0, x)), singular=True)

jv = ordered(sc.jv, lambda x, y: by_order(x, y, False), lambda x, y: 0.5 * (sc.jv(x - 1, y) - sc.jv(x + 1, y)))
yv = ordered(sc.yv, refused("yv"), lambda x, y: 0.5 * (sc.yv(x - 1, y) - sc.yv(x + 1, y)))
hankel1 = ordered(
    sc.hankel1,
    refused("hankel1"),
    lambda x, y: 0.5 * (sc.hankel1(x - 1, y) - sc.hankel1(x + 1, y)),
)
hankel2 = ordered(
    sc.hankel2,
    refused("hankel2"),
    lambda x, y: 0.5 * (sc.hankel2(x - 1, y) - sc.hankel2(x + 1, y)),
)
iv = ordered(sc.iv, lambda x, y: by_order(x, y, True), lambda x, y: 0.5 * (sc.iv(x - 1, y) + sc.iv(x + 1, y)))
kv = ordered(sc.kv, lambda x, y: k_by_order(x, y), lambda x, y: -0.5 * (sc.kv(x - 1, y) + sc.kv(x + 1, y)))
real_ive = elementwise(
    lambda x, y: sc.ive(x, y),
    lambda x, y: by_order(x, y, True, True),
    lambda x, y, out: slope_of_ive(x, y) - sign(y) * out,
    name="ive",
    work=cost(2, nonlinear=2),
    singular=True,
    changes_dtype=True,
)
complex_ive = general(
    lambda x, y: sc.ive(x, y),
    name="complex_ive",
    jvp=[
        lambda t, x, y: t * by_order(x, y, True, True),
        lambda t, x, y, out: t * slope_of_ive(x, y) - sign(np.real(y)) * out * np.real(t),
    ],
    vjp=[
        lambda g, x, y: g * by_order(x, y, True, True),
        lambda g, x, y, out, shape: unbroadcast(
            g * slope_of_ive(x, y).conjugate() - sign(np.real(y)) * np.real(g * out.conjugate()), shape
        ),
    ],
    pattern=patterns.elementwise,
    work=cost(2, nonlinear=2),
)


def ive(v: ArrayLike, z: ArrayLike) -> Tensor:
    """I_v(z) exp(-|Re z|), which is no analytic function of a complex z; SciPy's ``ive``."""
    v, z = operand(v), operand(z)
    return (complex_ive if np.iscomplexobj(raw(z)) else real_ive)(v, z)


register(ive, sc.ive)
kve = ordered(
    sc.kve, lambda x, y: ke_by_order(x, y), lambda x, y, out: out - 0.5 * (sc.kve(x - 1, y) + sc.kve(x + 1, y))
)
