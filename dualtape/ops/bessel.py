"""Rows of the Bessel functions of ``scipy.special``: derivatives by the argument, from the recurrences of DLMF ch. 10.

Differences of neighbouring orders are used throughout: they hold at 0 as well, where quotients by x do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sc

from dualtape.core.costs import elementwise as cost
from dualtape.core.families import elementwise
from dualtape.core.tensor import raw


def bessel(kernel: Any, partial: Any, **options: Any) -> Any:
    """A function of the argument alone."""
    return elementwise(kernel, partial, work=cost(1, nonlinear=2), **options)


def ordered(kernel: Any, partial: Any, **options: Any) -> Any:
    """A function of an order, by which no derivative is known, and an argument."""
    name = kernel.__name__

    def by_order(x: Any) -> Any:
        raise TypeError(f"{name}: the derivative by its argument 'v', the order, is not known; keep it constant")

    return elementwise(kernel, by_order, partial, work=cost(2, nonlinear=2), **options)


def sign(x: Any) -> Any:
    return np.sign(raw(x))


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

jv = ordered(sc.jv, lambda x, y: 0.5 * (sc.jv(x - 1, y) - sc.jv(x + 1, y)), singular=True)
yv = ordered(sc.yv, lambda x, y: 0.5 * (sc.yv(x - 1, y) - sc.yv(x + 1, y)), singular=True)
iv = ordered(sc.iv, lambda x, y: 0.5 * (sc.iv(x - 1, y) + sc.iv(x + 1, y)), singular=True)
kv = ordered(sc.kv, lambda x, y: -0.5 * (sc.kv(x - 1, y) + sc.kv(x + 1, y)), singular=True)
ive = ordered(sc.ive, lambda x, y, out: 0.5 * (sc.ive(x - 1, y) + sc.ive(x + 1, y)) - sign(y) * out, singular=True)
kve = ordered(sc.kve, lambda x, y, out: out - 0.5 * (sc.kve(x - 1, y) + sc.kve(x + 1, y)), singular=True)
