"""Values that are decisions, or that were wrong once: at kinks in second order, of complex arguments, at infinities."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special as sc

import dualtape as dt

A = np.array
Z = A([0.3 - 1.2j, -0.8 + 0.5j])


def along(f: Callable[..., Any], x: Any, t: Any) -> Any:
    """The tangent of f at x along t, as an array."""
    return np.asarray(dt.jvp(f, (x,), (t,))[1])


def second_orders(f: Callable[..., Any], x: Any) -> dict[str, Any]:
    """The Hessian of f at x times ones, in the four nestings of the modes; forward twice gives its sum."""
    ones = np.ones_like(x)
    slope = dt.grad(f)
    return {
        "forward over reverse": dt.jvp(slope, (x,), (ones,))[1],
        "reverse over reverse": dt.vjp(slope, x)[1](ones)[0],
        "reverse over forward": dt.grad(lambda y: dt.jvp(f, (y,), (ones,))[1])(x),
        "forward over forward": dt.jvp(lambda y: dt.jvp(f, (y,), (ones,))[1], (x,), (ones,))[1],
    }


# ------------------------------------------------------------------ the derivative of a chosen subgradient
# The true Hessian of each is that of a smooth function (2I for a squared norm), but the rule of the product meets that
# of the norm itself, (I - x x^T / |x|^2) / |x|, which has no limit at 0. So NaN, and never 0.
SQUARES: dict[str, tuple[Callable[..., Any], Any]] = {
    "norm": (lambda w: np.linalg.norm(w) ** 2, np.zeros(2)),
    "norm of complex numbers": (lambda w: np.linalg.norm(w) ** 2, np.zeros(2, complex)),
    "norm of all axes": (lambda w: np.linalg.norm(w) ** 2, np.zeros((2, 2))),
    "norm fro": (lambda w: np.linalg.norm(w, "fro") ** 2, np.zeros((2, 2))),
    "norm nuc": (lambda w: np.linalg.norm(w, "nuc") ** 2, np.zeros((2, 2))),
    "matrix norm 1": (lambda w: np.linalg.norm(w, 1) ** 2, np.zeros((2, 2))),
    "matrix norm 2": (lambda w: np.linalg.norm(w, 2) ** 2, np.zeros((2, 2))),
    **{f"norm {p}": (lambda w, p=p: np.linalg.norm(w, p) ** 2, np.zeros(2)) for p in (1, 1.5, 3, np.inf, -np.inf)},
    "vector_norm": (lambda w: np.sum(np.linalg.vector_norm(w, axis=0, keepdims=True) ** 2), np.zeros((2, 2))),
    "hypot": (lambda w: np.hypot(w[0], w[1]) ** 2, np.zeros(2)),
    "std": (lambda w: np.std(w) ** 2, np.full(3, 2.0)),
    "std of complex numbers": (lambda w: np.std(w) ** 2, np.full(3, 2j)),
    "abs of complex numbers": (lambda w: np.sum(np.abs(w) ** 2), np.zeros(2, complex)),
    "arctan2": (lambda w: (w[0] * w[0] + w[1] * w[1]) * np.arctan2(w[0], w[1]), np.zeros(2)),
}


@pytest.mark.parametrize("name", SQUARES)
def test_a_chosen_subgradient_has_no_derivative(name: str) -> None:
    f, x = SQUARES[name]
    assert not np.any(dt.grad(f)(x))
    with np.errstate(invalid="ignore"):
        for nesting, found in second_orders(f, x).items():
            assert np.all(np.isnan(np.asarray(found))), nesting


def test_other_elements_keep_their_second_derivative() -> None:
    """sum of |row|^2: 2I, by hand. |x|^1.5 has an infinite second derivative at 0, |x|^3 has 0."""
    W = A([[0.0, 0.0], [3.0, 4.0]])
    for nesting, found in second_orders(lambda w: np.sum(np.linalg.norm(w, axis=1) ** 2), W).items():
        if "forward over forward" != nesting:
            np.testing.assert_allclose(found, [[np.nan, np.nan], [2.0, 2.0]], err_msg=nesting)
    x = A([0.0, 1.0])
    for nesting, found in second_orders(lambda w: np.linalg.norm(w, 3) ** 3, x).items():
        np.testing.assert_allclose(np.sum(np.asarray(found)), 6.0, err_msg=nesting)
    assert np.isnan(second_orders(lambda w: np.linalg.norm(w, 1.5) ** 1.5, x)["forward over reverse"][0])


def test_nearly_equal_elements_have_the_hessian_of_the_variance() -> None:
    """2/n (I - 1/n), times ones 0, along (1, 0, -1) that times 2/3. The mean of three times 0.1 is rounded."""
    x, v = np.full(3, 0.1), A([1.0, 0.0, -1.0])
    np.testing.assert_array_equal(dt.grad(np.std)(x), np.zeros(3))
    found = dt.jvp(dt.grad(lambda w: np.std(w) ** 2), (x,), (v,))[1]
    if np.std(x):  # as NumPy rounds it
        np.testing.assert_allclose(found, v * 2 / 3, atol=1e-12)


def test_the_kink_of_real_numbers_is_flat() -> None:
    """|x| is linear on either side of 0; a Hessian of an L1 penalty is 0 at 0 too, and that of |x|^2 the price."""
    x = A([0.0, 3.0])
    for f, hessian in ((lambda w: np.sum(np.abs(w)), np.zeros(2)), (lambda w: np.sum(np.abs(w) ** 2), A([0.0, 2.0]))):
        for nesting, found in second_orders(f, x).items():
            np.testing.assert_array_equal(np.sum(np.asarray(found)), hessian.sum(), err_msg=nesting)


def test_batched_second_orders_agree() -> None:
    hessian = dt.hessian(lambda w: np.linalg.norm(w) ** 2)(np.zeros(2))
    assert np.all(np.isnan(hessian))
    hessians = dt.vmap(dt.hessian(lambda w: np.linalg.norm(w) ** 2))(A([[0.0, 0.0], [3.0, 4.0]]))
    assert np.all(np.isnan(hessians[0]))
    np.testing.assert_allclose(hessians[1], 2 * np.eye(2), atol=1e-12)


EDGES: dict[str, tuple[Callable[..., Any], tuple[float, float], Any]] = {
    # f, the point, its Hessian by hand.
    "power": (np.power, (0.0, 1.0), [[0.0, -np.inf], [-np.inf, 0.0]]),  # d2/dxdy = log x + 1
    "square": (np.power, (0.0, 2.0), [[2.0, 0.0], [0.0, 0.0]]),
    "xlogy": (sc.xlogy, (0.0, 0.0), [[0.0, np.inf], [np.inf, 0.0]]),  # d2/dxdy = 1/y; 0 along x = 0
    "rel_entr": (sc.rel_entr, (0.0, 0.0), [[np.inf, -np.inf], [-np.inf, 0.0]]),  # d2/dxdy = -1/y; 0 along x = 0
    "gammainc": (sc.gammainc, (1.0, 0.0), [[0.0, -np.inf], [-np.inf, -1.0]]),  # P = 1 - exp(-x); x^a log x by a
    "betainc": (lambda a, x: sc.betainc(a, 2.0, x), (1.0, 0.0), [[0.0, -np.inf], [-np.inf, -2.0]]),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_limit_that_was_chosen_has_no_derivative_or_the_right_one(name: str) -> None:
    """Where x log x begins, a first derivative has a limit, and its own derivative is infinite: no finite number."""
    f, point, hessian = EDGES[name]
    slopes = dt.grad(lambda w: f(w[0], w[1]))
    with np.errstate(all="ignore"):
        for found in (dt.jacfwd(slopes)(A(point)), dt.jacrev(slopes)(A(point))):
            assert np.all(np.isnan(found) | np.isclose(found, hessian, rtol=1e-12)), found


def test_distribution_of_student_about_its_middle() -> None:
    """d2F/dv dt is d/dv of the density, at t = 0 too: mpmath, of gamma((v+1)/2) / gamma(v/2) / sqrt(v pi)."""
    with mpmath.workdps(30):
        density = lambda v: mpmath.gamma((v + 1) / 2) / mpmath.gamma(v / 2) / mpmath.sqrt(v * mpmath.pi)  # noqa: E731
        right = float(mpmath.diff(density, 3))
    slopes = dt.grad(lambda w: sc.stdtr(w[0], w[1]))
    for jacobian in (dt.jacfwd, dt.jacrev):
        np.testing.assert_allclose(jacobian(slopes)(A([3.0, 0.0])), [[0.0, right], [right, 0.0]], rtol=1e-12)


# ------------------------------------------------------------------ complex arguments
def test_sign_of_a_complex_number_turns() -> None:
    """d(z/|z|) = i s Im(conj(s) t)/|z|: at 3+4j along 1, s = 0.6+0.8j, Im(conj s) = -0.8: -0.16 i s = 0.128-0.096j."""
    z = A(3 + 4j)
    np.testing.assert_allclose(along(np.sign, z, A(1 + 0j)), 0.128 - 0.096j, rtol=1e-14)
    np.testing.assert_allclose(along(np.sign, z, A(3 + 4j)), 0, atol=1e-16)
    assert np.isnan(along(np.sign, A(0j), A(1 + 0j)))
    np.testing.assert_array_equal(along(np.sign, A([-2.0, 0.0]), np.ones(2)), np.zeros(2))


def test_scaled_bessel_function_of_a_complex_number() -> None:
    """exp(-|Re z|) I(1.5, z) is no analytic function: differences of mpmath's besseli in the directions 1 and i."""

    def scaled(z: Any) -> Any:
        return mpmath.besseli(1.5, z) * mpmath.exp(-abs(mpmath.re(z)))

    with mpmath.workdps(30):
        for z, t in itertools.product((0.7 + 0.4j, -1.1 + 2j), (1.0, 1j)):
            right = complex(mpmath.diff(lambda s, z=z, t=t: scaled(z + s * t), 0))
            np.testing.assert_allclose(along(lambda u: sc.ive(1.5, u), A(z), A(t + 0j)), right, rtol=1e-10)


def test_far_dawson_of_a_complex_number() -> None:
    """D' = 1 - 2 z D: where exp(-z^2) is large, the asymptotic series of D lacks it; mpmath's erfi."""
    z = -26.5 + 30j
    with mpmath.workdps(60):
        right = 1 - mpmath.sqrt(mpmath.pi) * z * mpmath.exp(-(mpmath.mpc(z) ** 2)) * mpmath.erfi(z)
        np.testing.assert_allclose(along(sc.dawsn, A(z), A(1 + 0j)), complex(right), rtol=1e-10)


COMPLEX: dict[str, Callable[..., Any]] = {
    "hyp0f1": lambda z: sc.hyp0f1(1.5, z),
    "hyp1f1": lambda z: sc.hyp1f1(1.0, 2.0, z),
    "hyp2f1": lambda z: sc.hyp2f1(0.3, 1.2, 2.1, 0.4 * z),
    **{
        n: (lambda z, n=n: getattr(sc, n)(1.5, z))
        for n in ("jv", "yv", "iv", "kv", "ive", "kve", "hankel1", "hankel2")
    },
    **{
        n: getattr(sc, n)
        for n in (
            "erf", "erfc", "erfcx", "erfi", "dawsn", "wofz", "ndtr", "log_ndtr", "gamma", "loggamma", "rgamma", "exp1",
            "expi", "spence", "lambertw", "wrightomega", "log1p", "expm1",
        )
    },
    "xlogy": lambda z: sc.xlogy(z, 1.3 + z),
    "xlog1py": lambda z: sc.xlog1py(z, 1.3 + z),
    "airy": lambda z: np.stack(sc.airy(z)),
    "sici": lambda z: np.stack(sc.sici(z)),
    "fresnel": lambda z: np.stack(sc.fresnel(z)),
    **{
        f.__name__: f
        for f in (np.sign, np.abs, np.sqrt, np.log, np.exp, np.tan, np.tanh, np.arcsin, np.arccos, np.arctan, np.sinc)
    },
    **{f.__name__: f for f in (np.arcsinh, np.arccosh, np.arctanh, np.reciprocal, np.square, np.angle, np.std, np.var)},
    "power": lambda z: z**1.7,
    "norm": np.linalg.norm,
    "norm 3": lambda z: np.linalg.norm(z, 3),
    "prod": np.prod,
    "cumprod": np.cumprod,
    "logsumexp": dt.logsumexp,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_in_both_modes(name: str) -> None:
    """Along 1 and i by differences of the plain function; back by Re <g, f' t> = Re <f'^* g, t> for a complex g."""
    f, rng = COMPLEX[name], np.random.default_rng(1)
    value = np.asarray(f(Z))
    g = rng.normal(size=value.shape) + (1j * rng.normal(size=value.shape) if np.iscomplexobj(value) else 0)
    (back,) = dt.vjp(f, Z)[1](g)
    for t in (np.ones(2) + 0j, A([1j, 1j]), A([1j, 0.0])):
        step = {s: np.asarray(f(Z + s * 1e-3 * t)) for s in (-3, -2, -1, 1, 2, 3)}
        right = (45 * (step[1] - step[-1]) - 9 * (step[2] - step[-2]) + step[3] - step[-3]) / 0.06
        push = along(f, Z, t)
        np.testing.assert_allclose(push, right, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(np.vdot(g, push).real, np.vdot(back, t).real, rtol=1e-11)


def test_a_derivative_that_is_not_known_names_the_function() -> None:
    with pytest.raises(TypeError, match="digamma"):
        dt.grad(lambda z: np.real(sc.digamma(z)))(1 + 1j)
    with pytest.raises(TypeError, match=r"zeta.*'x'"):
        dt.grad(sc.zeta)(2.5)


def test_angle_in_degrees() -> None:
    """angle = atan2(y, x): gradient (-y + i x)/|z|^2, times 180/pi."""
    z = 1 + 2j
    assert np.angle(dt.constant(z), deg=True).numpy() == np.angle(z, deg=True)
    np.testing.assert_allclose(dt.grad(lambda z: np.angle(z, True))(z), (-2 + 1j) / 5 * 180 / np.pi, rtol=1e-14)


# ------------------------------------------------------------------ logarithms of sums
def test_logsumexp_of_nothing() -> None:
    """exp(-inf) has no share of a sum that is 0."""
    x = np.full(3, -np.inf)
    np.testing.assert_array_equal(dt.grad(dt.logsumexp)(x), np.zeros(3))
    np.testing.assert_array_equal([along(dt.logsumexp, x, t) for t in np.eye(3)], np.zeros(3))
    np.testing.assert_array_equal(dt.grad(np.logaddexp)(-np.inf, -np.inf), 0.0)


def test_logsumexp_by_its_weights() -> None:
    """d log(sum b exp a) / db = exp(a) / sum(b exp a): at a = 0, b = (2, 0, 5) each 1/7; at a = (1, 2, 3) by hand."""
    b = A([2.0, 0.0, 5.0])

    def f(a: Any, b: Any) -> Any:
        return dt.special.logsumexp(a, b=b)

    np.testing.assert_allclose(dt.grad(f, 1)(np.zeros(3), b), np.full(3, 1 / 7), rtol=1e-14)
    np.testing.assert_allclose(along(lambda b: f(np.zeros(3), b), b, A([0.0, 1.0, 0.0])), 1 / 7, rtol=1e-14)
    e = np.exp(A([1.0, 2.0, 3.0]))
    by_a, by_b = dt.grad(f, (0, 1))(A([1.0, 2.0, 3.0]), b)
    np.testing.assert_allclose(by_a, b * e / (b @ e), rtol=1e-14)
    np.testing.assert_allclose(by_b, e / (b @ e), rtol=1e-14)
    # exp(2000) is no number: its term is out, and the slope by its weight is not known.
    by_a, by_b = dt.grad(f, (0, 1))(A([1.0, 2000.0, 3.0]), b)
    assert by_a[1] == 0 and np.isnan(by_b[1])


# ------------------------------------------------------------------ reductions
def test_average_over_axes_in_another_order() -> None:
    """Its weights come in the order of the axes: NumPy's average, and differences of it (exact: it is linear)."""
    x, w = np.arange(8.0).reshape(2, 2, 2) ** 2, A([[1.0, 2.0], [3.0, 5.0]])
    for axis in ((2, 0), (0, 2), (-1, 1), (1, 0)):

        def f(x: Any, axis: Any = axis) -> Any:
            return np.average(x, axis=axis, weights=w)[1]

        np.testing.assert_allclose(f(dt.constant(x)), f(x), rtol=1e-14)
        units = np.eye(8).reshape(8, 2, 2, 2)
        np.testing.assert_allclose(dt.grad(f)(x).ravel(), [f(u) for u in units], rtol=1e-14)
    slope = dt.grad(lambda x: np.average(x, axis=0, weights=A([1.0, 3.0]))[0, 1])(x)
    np.testing.assert_allclose(slope[:, 0, 1], [0.25, 0.75])


def test_deviation_of_some_elements_of_a_constant() -> None:
    """A minimum: 0 is its subgradient of smallest norm, though the mean of three times 0.1 is rounded."""

    def f(x: Any) -> Any:
        return np.std(x, where=A([True, True, True, False]))

    for x in (A([1.0, 1.0, 1.0, 5.0]), A([0.1, 0.1, 0.1, 5.0])):
        np.testing.assert_array_equal(dt.grad(f)(x), np.zeros(4))
        np.testing.assert_array_equal([along(f, x, t) for t in np.eye(4)], np.zeros(4))


@pytest.mark.parametrize("modes", list(itertools.product("fr", repeat=3)), ids="".join)
def test_third_order_past_a_choice(modes: Any) -> None:
    """x^2 is taken at 0: its third derivative is 0, whatever the other branch has there."""

    def derivative(q: Callable[..., Any], mode: str) -> Callable[..., Any]:
        if mode == "f":
            return lambda x: np.sum(dt.jvp(q, (x,), (np.ones(1),))[1])
        return lambda x: np.sum(dt.grad(q)(x))

    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0, np.exp(np.sqrt(x)), x * x))

    q: Callable[..., Any] = f
    for mode in modes:
        q = derivative(q, mode)
    with np.errstate(invalid="ignore"):
        assert q(np.zeros(1)) == 0


# ------------------------------------------------------------------ NumPy's forms of a call
def test_extremes_of_nothing() -> None:
    """The bound is all there is, and has the whole slope."""
    empty = np.zeros((2, 0))
    np.testing.assert_array_equal(np.max(dt.constant(empty), axis=1, initial=3.0), np.max(empty, axis=1, initial=3.0))
    assert dt.grad(lambda b: np.min(dt.constant(empty), initial=b))(3.0) == 1.0
    assert dt.grad(lambda x: np.sum(np.max(x, axis=1, initial=3.0)))(empty).shape == (2, 0)


def test_vecdot_along_an_axis() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for f in (np.vecdot, np.linalg.vecdot):
        np.testing.assert_array_equal(f(dt.constant(x), x, axis=0), f(x, x, axis=0))
        np.testing.assert_array_equal(dt.grad(lambda x, f=f: np.sum(f(x, x, axis=0)))(x), 2 * x)


def test_quotient_and_rest() -> None:
    """7.5 = 3 * 2 + 1.5: the rest has slope 1 by the first and -3 by the second, the quotient has none."""
    for found in (divmod(dt.constant(7.5), 2.0), divmod(7.5, dt.constant(2.0)), np.divmod(dt.constant(7.5), 2.0)):
        assert tuple(found) == (3.0, 1.5)
    assert tuple(dt.grad(lambda x, y: divmod(x, y)[1], (0, 1))(7.5, 2.0)) == (1.0, -3.0)


def test_a_result_is_broadcast_into_out() -> None:
    def f(x: Any) -> Any:
        y = dt.zeros((3, 2))
        np.multiply(x, 2.0, out=y)
        return np.sum(y)

    np.testing.assert_array_equal(dt.grad(f)(np.ones(2)), [6.0, 6.0])


@pytest.mark.parametrize("f", [np.dot, np.inner, lambda x, y: x.dot(y), lambda x, y: np.einsum("i,->i", x, y)])
def test_a_number_decides_the_dtype_of_a_dot_product_as_in_numpy(f: Callable[..., Any]) -> None:
    x = np.ones(2, np.float32)
    for y in (2.0, 2, np.float32(2), 2j):
        assert f(dt.constant(x), y).dtype == f(x, y).dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    "f",
    [
        sc.erf, sc.gammaln, sc.expit, sc.log_ndtr, sc.ellipk, sc.j0, lambda x: sc.stdtr(3.0, x),
        lambda x: sc.stdtr(x, 0.4), lambda x: sc.gammainc(x, 0.4), lambda x: sc.gammainc(1.5, x),
        lambda x: sc.betainc(1.5, 2.0, x), lambda x: sc.ive(1.5, x), lambda x: sc.hyp1f1(1.0, 2.0, x),
        lambda x: sc.sici(x)[0], lambda x: sc.fresnel(x)[0], lambda x: sc.zeta(3.0, x), lambda x: sc.xlogy(x, x),
    ],
)  # fmt: skip
def test_special_functions_in_lower_precision(f: Callable[..., Any], dtype: Any) -> None:
    """The result in SciPy's dtype, a tangent in that of the result, a cotangent in that of the operand."""
    x = A([0.5], dtype)
    value, tangent = dt.jvp(f, (x,), (np.ones(1, dtype),))
    assert value.dtype == tangent.dtype == f(x).dtype
    (back,) = dt.vjp(f, x)[1](np.ones(1, f(x).dtype))
    assert back.dtype == dtype
    np.testing.assert_allclose(back, tangent, rtol=2e-3)
