"""The cases of ``scipy.special``: smooth points, tails, poles and infinities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special as sc
from caseform import AnyCase, case, special

import dualtape
import dualtape.ops.special as ours

A = np.array
inf = np.inf
random = np.random.default_rng(11)


def between(low: float, high: float, *shape: int) -> Any:
    return random.uniform(low, high, shape or (4,))


def either(name: str) -> Any:
    """SciPy's function on arrays; ours on Tensors, where SciPy's cannot be reached through NumPy's protocols."""

    def f(*args: Any, **options: Any) -> Any:
        tracked = any(isinstance(a, dualtape.Tensor) for a in (*args, *options.values()))
        return getattr(ours if tracked else sc, name)(*args, **options)

    return f


# Each function of one argument, and an interval to test it in.
ONE: dict[str, tuple[float, float]] = {
    "gamma": (-0.7, 3.0),
    "gammaln": (0.2, 4.0),
    "loggamma": (0.2, 4.0),
    "psi": (-0.8, 4.0),
    "rgamma": (-2.2, 2.0),
    "erf": (-2.0, 2.0),
    "erfc": (-2.0, 3.0),
    "erfcx": (-2.0, 3.0),
    "erfi": (-1.0, 1.0),
    "dawsn": (-3.0, 3.0),
    "erfinv": (-0.9, 0.9),
    "erfcinv": (0.2, 1.8),
    "ndtr": (-3.0, 3.0),
    "log_ndtr": (-6.0, 3.0),
    "ndtri": (0.1, 0.9),
    "ndtri_exp": (-3.0, -0.1),
    "expit": (-5.0, 5.0),
    "logit": (0.1, 0.9),
    "log_expit": (-5.0, 5.0),
    "entr": (0.1, 2.0),
    "exprel": (-2.0, 3.0),
    "expi": (0.5, 2.0),
    "exp1": (0.5, 2.0),
    "spence": (0.5, 3.0),
    "cosm1": (-1.0, 1.0),
    "exp10": (-1.0, 1.0),
    "sindg": (-90.0, 90.0),
    "cosdg": (-90.0, 90.0),
    "tandg": (-50.0, 50.0),
    "j0": (0.1, 6.0),
    "j1": (0.1, 6.0),
    "y0": (0.5, 6.0),
    "y1": (0.5, 6.0),
    "i0": (-2.0, 3.0),
    "i1": (-2.0, 3.0),
    "i0e": (0.2, 3.0),
    "i1e": (0.2, 3.0),
    "k0": (0.3, 3.0),
    "k1": (0.3, 3.0),
    "k0e": (0.3, 3.0),
    "k1e": (0.3, 3.0),
}
TWO: dict[str, tuple[float, float]] = {
    "beta": (0.3, 3.0),
    "betaln": (0.3, 3.0),
    "poch": (0.5, 3.0),
    "binom": (1.0, 3.0),
    "xlogy": (0.3, 2.0),
    "xlog1py": (0.3, 2.0),
    "rel_entr": (0.3, 2.0),
    "kl_div": (0.3, 2.0),
    "boxcox": (0.5, 2.0),
    "boxcox1p": (0.5, 2.0),
    "inv_boxcox": (0.2, 1.0),
    "pseudo_huber": (0.4, 2.0),
}


def of_order(name: str) -> Any:
    kernel = getattr(sc, name)
    return lambda x: kernel(A([0.0, 1.0, 2.5, -1.5], x.dtype), x)


CASES: list[AnyCase] = [
    case("complex_ive", lambda z: sc.ive(1.5, z), A([0.7 + 0.4j, -1.1 + 2j]), order=1),
    *(case(name, getattr(sc, name), between(*ends)) for name, ends in ONE.items()),
    *(case(name, getattr(sc, name), between(*ends), between(*ends)) for name, ends in TWO.items()),
    *(case(name, of_order(name), between(0.5, 3.0), label="orders") for name in ("jv", "yv", "iv", "ive", "kv", "kve")),
    case("jv", lambda x: sc.jv(1.5, x), between(0.5, 3.0) + 0.5j * between(-1.0, 1.0), label="complex", single=False),
    case("erfcx", sc.erfcx, A([8.0, 11.0, 14.0, 40.0]), label="tail", single=False),
    case("dawsn", sc.dawsn, A([8.0, 11.0, -14.0, 40.0]), label="tail", single=False),
    case("log_ndtr", sc.log_ndtr, A([-50.0, -21.0, -19.0, 6.0]), label="tail", single=False),
    case("exprel", sc.exprel, A([-1e-3, 1e-9, 0.99, 1.01]), label="about 0"),
    case("spence", sc.spence, A([0.999, 1.001, 1.24, 1.26]), label="about 1"),
    case("rgamma", sc.rgamma, A([-1.0, 0.01, 0.49, 0.51]), label="about a pole of gamma"),
    case("gammaln", sc.gammaln, A([-0.5, -2.3]), label="negative"),
    case("gamma", sc.gamma, between(1.0, 3.0) + 1j * between(-1.0, 1.0), order=1, label="complex", single=False),
    case("erf", sc.erf, 0.5 * between(-1.0, 1.0) + 0.5j * between(-1.0, 1.0), label="complex erf", single=False),
    case("bell", lambda x: ours.bell(x) if isinstance(x, dualtape.Tensor) else np.exp(-x * x), between(-2.0, 2.0)),
    case(
        "normal_hazard",
        lambda x: ours.hazard(x) if isinstance(x, dualtape.Tensor) else ours.hazard.row.kernel(x),
        between(-3.0, 3.0),
    ),
    case("huber", lambda y: sc.huber(A([1.0, 1.0, 2.0, 2.0], y.dtype), y), A([0.5, 1.5, -1.0, -3.0]), label="by r"),
    case("huber", sc.huber, A([1.0, 1.2, 2.0, 2.5]), A([0.5, 1.6, -1.1, -3.0])),
    case(
        "zeta",
        lambda q: either("zeta")(3.0, q) if isinstance(q, dualtape.Tensor) else sc.zeta(3.0, q).astype(q.dtype),
        between(0.5, 3.0),
        label="Hurwitz's",
    ),
    case("zeta", lambda x: either("polygamma")([1, 2, 3, 4], x), between(0.5, 3.0), label="polygamma", single=False),
    case("psi", lambda x: either("polygamma")(0, x), between(0.5, 3.0), label="polygamma of order 0", single=False),
    case("gammaln", lambda x: either("multigammaln")(x, 3), between(2.0, 4.0), label="multigammaln", single=False),
    case(
        "log_expit",
        lambda x: ours.softplus(x) if isinstance(x, dualtape.Tensor) else np.logaddexp(0, x),
        between(-3.0, 3.0),
        label="softplus",
    ),
    case(
        "logsumexp", lambda x: either("logsumexp")(x, axis=1), between(-2.0, 2.0, 3, 4), label="SciPy's", single=False
    ),
    case("logsumexp", lambda x: either("softmax")(x, axis=0), between(-2.0, 2.0, 3, 4), label="softmax"),
    case("logsumexp", lambda x: either("log_softmax")(x, axis=(0, 1)), between(-2.0, 2.0, 3, 4), label="log_softmax"),
    case(
        "log",
        lambda x, b: either("logsumexp")(x, axis=1, b=b),
        between(-2.0, 2.0, 3, 4),
        between(0.2, 2.0),
        label="weighted logsumexp",
        single=False,
    ),
    case(
        "log",
        lambda x, b: either("logsumexp")(x, b=b, return_sign=True)[0],
        between(-2.0, 2.0, 3),
        A([0.5, -2.0, 0.3]),
        label="signed logsumexp",
        single=False,
    ),
    case("cbrt", sc.cbrt, between(0.5, 2.0), label="SciPy's"),
    case("exp2", sc.exp2, between(-1.0, 1.0), label="SciPy's"),
    case("expm1", sc.expm1, between(-1.0, 1.0), label="SciPy's"),
    case("log1p", sc.log1p, between(0.5, 2.0), label="SciPy's"),
    # ---- functions of several parameters, by all of them
    *(
        case(name, getattr(sc, name), between(0.4, 5.0), between(*ends), single=False)
        for name, ends in {
            "gammainc": (0.3, 8.0),
            "gammaincc": (0.3, 8.0),
            "gammaincinv": (0.2, 0.8),
            "gammainccinv": (0.2, 0.8),
            "stdtr": (-2.0, 2.0),
        }.items()
    ),
    *(
        case(name, getattr(sc, name), between(0.5, 5.0), between(0.5, 5.0), between(0.1, 0.9), single=False)
        for name in ("betainc", "betaincc", "betaincinv")
    ),
    case("gammainc", sc.gammainc, between(0.4, 5.0, 3, 1), A([0.5, 11.0, 25.0]), label="broadcast, tail", single=False),
    case("gammaincc", sc.gammaincc, A([100.0, 1000.0]), A([110.0, 1100.0]), label="large", order=1, single=False),
    case("betainc", sc.betainc, between(0.5, 5.0, 3, 1), between(0.5, 5.0), A(0.3), label="broadcast", single=False),
    case("gammainc", sc.chdtr, between(1.0, 9.0), between(0.3, 4.0), label="chdtr", single=False),
    case("gammaincc", sc.chdtrc, between(1.0, 9.0), between(0.3, 4.0), label="chdtrc", single=False),
    *(
        case(name, getattr(sc, name), between(-0.9, 3.0), between(0.3, 12.0), single=False, label="by order")
        for name in ("jv", "iv", "ive", "kv", "kve")
    ),
    case("hyp0f1", lambda x: sc.hyp0f1(A(1.5, x.dtype), x), between(0.2, 2.0)),
    case("hyp1f1", lambda x: sc.hyp1f1(A(1.5, x.dtype), A(2.5, x.dtype), x), between(0.2, 2.0)),
    case("hyp2f1", lambda x: sc.hyp2f1(0.5, 1.5, 2.5, x), between(-0.5, 0.8)),
    case("hankel1", lambda x: sc.hankel1(A([0.0, 1.0, 2.5, -1.5]), x), between(0.5, 3.0), single=False),
    case("hankel2", lambda x: sc.hankel2(A([0.0, 1.0, 2.5, -1.5]), x), between(0.5, 3.0), single=False),
    case("ellipk", sc.ellipk, between(-0.5, 0.9)),
    case("ellipe", sc.ellipe, between(-0.5, 0.9)),
    case("owens_t", sc.owens_t, between(-1.0, 2.0), between(-1.0, 2.0)),
    case("airy", lambda x: np.stack(sc.airy(x)), between(-3.0, 2.0)),
    case("sici", lambda x: np.stack(sc.sici(x)), between(0.5, 3.0)),
    case("fresnel", lambda x: np.stack(sc.fresnel(x)), between(-1.0, 1.5)),
    case("wrightomega", sc.wrightomega, between(-1.0, 2.0)),
    case("wofz", sc.wofz, between(-1.0, 2.0) + 0.5j),
    case("lambertw", either("lambertw"), between(0.2, 2.0), single=False),
    # ---- decided values
    special("gammainc", sc.gammainc, (A([1.0, 2.0]), A([0.0, 0.0])), (A([0.0, 0.0]), A([1.0, 0.0])), "x = 0"),
    special("jv", lambda v: sc.jv(v, A([0.0, -1.0])), A([1.0, 2.0]), A([0.0, np.nan]), "order, x = 0 and below"),
    special("kv", lambda v: sc.kv(v, A([-1.0])), A([2.0]), A([np.nan]), "order, x below 0"),
    special("gammasgn", sc.gammasgn, A([-0.5, 2.0]), A([0.0, 0.0]), "any number"),
    special("erf", sc.erf, A([-inf, 0.0, inf, 30.0]), A([0.0, 2 / math.sqrt(math.pi), 0.0, 0.0]), "infinities"),
    special("ndtr", sc.ndtr, A([-inf, inf, 40.0]), A([0.0, 0.0, 0.0]), "infinities"),
    special("log_ndtr", sc.log_ndtr, A([40.0, inf]), A([0.0, 0.0]), "right tail"),
    special("expit", sc.expit, A([-1000.0, 0.0, 1000.0, inf]), A([0.0, 0.25, 0.0, 0.0]), "far away"),
    special("expit", sc.expit, A([30.0]), A([math.exp(-30) / (1 + math.exp(-30)) ** 2]), "right tail"),
    special("log_expit", sc.log_expit, A([-1000.0, 1000.0]), A([1.0, 0.0]), "far away"),
    special("logit", sc.logit, A([0.0, 1.0, 1e-300]), A([inf, inf, 1e300]), "ends"),
    special("entr", sc.entr, A([0.0]), A([inf]), "0"),
    special(
        "entr", lambda x: np.where(x > 0, sc.entr(x), 0.0), A([0.0, 1.0]), A([0.0, -1.0]), "0, left out", forward=False
    ),
    special("xlogy", sc.xlogy, (A([0.0, 2.0]), A([3.0, 0.5])), (np.log(A([3.0, 0.5])), A([0.0, 4.0])), "x = 0"),
    special("xlogy", lambda y: sc.xlogy(A([0.0]), y), A([0.0]), A([0.0]), "x = y = 0"),
    special("xlog1py", lambda y: sc.xlog1py(A([0.0]), y), A([-1.0]), A([0.0]), "x = 0, y = -1"),
    special("rel_entr", lambda y: sc.rel_entr(A([0.0]), y), A([2.0]), A([0.0]), "x = 0"),
    special("erfinv", sc.erfinv, A([-1.0, 0.0, 1.0]), A([inf, math.sqrt(math.pi) / 2, inf]), "ends"),
    special("rgamma", sc.rgamma, A([0.0, -1.0, -2.0]), A([1.0, -1.0, 2.0]), "poles of gamma"),
    special("jv", lambda x: sc.jv(A([0.0, 1.0, 2.0]), x), np.zeros(3), A([0.0, 0.5, 0.0]), "0"),
    special("i1", sc.i1, A([0.0]), A([0.5]), "0"),
    special("exprel", sc.exprel, A([0.0]), A([0.5]), "0"),
    special("spence", sc.spence, A([1.0]), A([-1.0]), "1"),
    special("i0e", sc.i0e, A([0.0]), A([0.0]), "its cusp"),
]
