"""Where a zero meets an infinite slope: 0 if nothing reaches the element, else NaN, alike in all modes.

Length: named and random programs, and the marks of every row, by one way to look at them.

The right value is that of the program beside the point, with the decisions (which elements are taken) of the point
itself: by hand for the named programs, by 60-digit dual numbers for the random ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
from caseform import Case
from cases import CASES

import dualtape as dt
from dualtape.core import edges
from dualtape.core.tangents import TangentRecorder

pytestmark = pytest.mark.filterwarnings("ignore")

ROOTS = np.array([0.0, 4.0])


def slopes(f: Any, x: Any) -> dict[str, Any]:
    """The gradient of a function with a scalar result, in each way there is."""
    units = np.eye(x.size).reshape(x.size, *x.shape)
    return {
        "reverse": np.asarray(dt.grad(f)(x)),
        "forward": np.reshape([float(np.asarray(dt.jvp(f, (x,), (e,))[1])) for e in units], x.shape),
        "jacfwd": np.asarray(dt.jacfwd(f)(x)),
        "jacrev": np.asarray(dt.jacrev(f)(x)),
        "vmap": np.asarray(dt.vmap(dt.grad(f))(x[None]))[0],
        "batch of tangents": batch_of_tangents(f, x, units),
    }


def batch_of_tangents(f: Any, x: Any, units: Any) -> Any:
    t = dt.constant(x)
    with dt.ForwardAccumulator(t, units, batch=True) as acc:
        y = f(t)
    return np.reshape(acc.jvp(y, unconnected_gradients="zero").numpy(), x.shape)


# ------------------------------------------------------------------ a zero that comes out as 0
L = np.array([0.1, 0.2, 0.3])
WEIGHTS = np.array([0.0, 0.5, 0.5])
# With the value of the derivative, where there is one: each element is that or NaN, the same in all ways.
UNDECIDED: dict[str, tuple[Any, Any, Any]] = {
    # d/dp_i prod(p) = the product of the others.
    "exp of a sum of logarithms": (lambda p: np.exp(np.sum(np.log(p))), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
    # log(p + 1/2).
    "logaddexp of logarithms": (lambda p: np.logaddexp(np.log(p), np.log(0.5)), 0.0, 2.0),
    # log(sum(w exp(l))): exp(l_i) / sum(w exp(l)).
    "a mixture": (lambda w: dt.special.logsumexp(np.log(w) + L), WEIGHTS, np.exp(L) / (WEIGHTS @ np.exp(L))),
    "the cube of a cube root": (lambda x: np.cbrt(x) ** 3, 0.0, 1.0),
    "the inverse of an inverse": (lambda x: 1 / (1 / x), 0.0, 1.0),
    "the square of a root": (lambda x: np.sqrt(x) ** 2, 0.0, 1.0),
    "the root of a square": (lambda x: np.sqrt(x * x), 0.0, np.nan),  # |x|: no derivative
    "a number times a root": (lambda x: np.sum((x > 0) * 1.0 * np.sqrt(x)), ROOTS, [np.nan, 0.25]),
    "below a checkpoint": (lambda p: np.exp(np.sum(dt.checkpoint(np.log)(p))), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_a_zero_that_comes_out_does_not_hide_an_infinity(name: str) -> None:
    f, x, right = UNDECIDED[name]
    found = slopes(f, np.asarray(x, float))
    for how, got in found.items():
        assert np.all(np.isnan(got) | np.isclose(got, right, rtol=1e-12)), (how, got)
        assert np.array_equal(np.isnan(got), np.isnan(found["reverse"])), (how, got)


# ------------------------------------------------------------------ a zero that nothing can change
def written(a: Any) -> Any:
    y = dt.zeros(3)
    y[1:] = a
    return np.sum(np.sqrt(y))


MASK = np.array([False, True])
STRUCTURAL: dict[str, tuple[Any, Any, Any]] = {
    "times a mask": (lambda a: np.sum((a > 0) * np.sqrt(a)), ROOTS, [0, 0.25]),
    "a mask times": (lambda a: np.sum(np.sqrt(a) * (a > 0)), ROOTS, [0, 0.25]),
    "times a constant mask": (lambda a: np.sum(MASK * np.sqrt(a)), ROOTS, [0, 0.25]),
    "times one boolean": (lambda a: (a > 0) * np.sqrt(a), 0.0, 0.0),
    "the root of a masked number": (lambda a: np.sum(np.sqrt(a * MASK)), [3.0, 4.0], [0, 0.25]),
    "where": (lambda a: np.sum(np.where(a > 0, np.sqrt(a), 0)), ROOTS, [0, 0.25]),
    "where, overflowing": (lambda a: np.sum(np.where(a < 700, np.exp(a), a)), [1000.0, 0.0], [1, 1]),
    "the root of where": (lambda a: np.sum(np.sqrt(np.where(MASK, a, 0.0))), [1.0, 4.0], [0, 0.25]),
    "a slice": (lambda a: np.sum(np.sqrt(a)[1:]), ROOTS, [0, 0.25]),
    "an element": (lambda a: np.sqrt(a)[1] * np.log(a)[1], ROOTS, [0, np.log(4.0) / 4 + 0.5]),
    "elements by number": (lambda a: np.sum(np.sqrt(a)[np.array([1, 1])]), ROOTS, [0, 0.5]),
    "elements by mask": (lambda a: np.sum(np.sqrt(a)[MASK]), ROOTS, [0, 0.25]),
    "the largest": (lambda a: np.max(np.sqrt(a)), ROOTS, [0, 0.25]),
    "the larger": (lambda a: np.sum(np.maximum(np.sqrt(a), 0.1)), ROOTS, [0, 0.25]),
    "the root of the larger": (lambda a: np.sum(np.sqrt(np.maximum(a, 0.0))), [-1.0, 4.0], [0, 0.25]),
    "a clipped number": (lambda a: np.sum(np.sqrt(np.clip(a, 0.0, 9.0))), [-1.0, 4.0], [0, 0.25]),
    "written into zeros": (written, [1.0, 4.0], [0.5, 0.25]),
    "padded": (lambda a: np.sum(np.sqrt(np.pad(a, 1))), [1.0, 4.0], [0.5, 0.25]),
    "joined": (lambda a: np.sum(np.sqrt(np.concatenate([np.zeros(2), a]))), [1.0, 4.0], [0.5, 0.25]),
    "stacked": (lambda a: np.sum(np.sqrt(np.stack([a[0], 0.0, a[1]]))), [1.0, 4.0], [0.5, 0.25]),
    "a triangle": (lambda a: np.sum(np.sqrt(np.tril(np.outer(a, [1.0, 1.0])))), [1.0, 4.0], [0.5, 0.5]),
    "below sums of rows": (
        lambda a: np.sum(np.sum(np.sqrt(a), axis=1)[:1]), [[1.0, 4.0], [0.0, 1.0]], [[0.5, 0.25], [0, 0]],
    ),
    "below a product with a matrix": (
        lambda a: np.sum((np.eye(2) @ np.sqrt(a))[:, 1]), [[0.0, 4.0], [0.0, 1.0]], [[0, 0.25], [0, 0.5]],
    ),
    "below cumulative sums": (lambda a: np.cumsum(np.sqrt(a[::-1]))[0], ROOTS, [0, 0.25]),
    "below a checkpoint": (
        lambda a: np.sum(np.where(a > 0, dt.checkpoint(np.sqrt)(a), 0)), ROOTS, [0, 0.25],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURAL)
def test_what_is_not_taken_stays_zero(name: str) -> None:
    f, x, right = STRUCTURAL[name]
    for how, got in slopes(f, np.asarray(x, float)).items():
        np.testing.assert_allclose(got, right, rtol=1e-12, err_msg=how)


SECOND = {
    "where": (lambda a: np.sum(np.where(a > 0, np.sqrt(a), 0)), -1 / 32),
    "a mask": (lambda a: np.sum((a > 0) * np.sqrt(a)), -1 / 32),
    "a slice": (lambda a: np.sum(np.sqrt(a)[1:]), -1 / 32),
    "a power": (lambda a: np.sum(np.where(a > 0, a**1.5, 0)), 0.375),
    "the largest": (lambda a: np.max(np.sqrt(a)), -1 / 32),
}


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
@pytest.mark.parametrize("name", SECOND)
def test_it_stays_zero_to_second_order(name: str, order: str) -> None:
    """Second derivatives of sqrt(a) and a^1.5 at 4: -4^-1.5 / 4 and 0.75 / 2; the other element is not taken."""
    f, second = SECOND[name]
    for v in ([1.0, 1.0], [1.0, 0.0], [0.0, 1.0]):
        got = np.asarray(dt.hvp(f, ROOTS, np.array(v), order=order))
        np.testing.assert_allclose(got, [0, second * v[1]], rtol=1e-12, err_msg=str(v))
    np.testing.assert_allclose(np.asarray(dt.hessian(f)(ROOTS)), [[0, 0], [0, second]], rtol=1e-12)


def test_what_is_not_seeded_stays_zero() -> None:
    for mode in ("forward", "reverse"):
        found = np.asarray(dt.jacobian(np.sqrt, mode=mode)(ROOTS))
        assert np.array_equal(found, [[np.inf, 0.0], [0.0, 0.25]]), mode
    x = dt.constant(ROOTS)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = np.sqrt(x)
    given = tape.gradient(y, x, output_gradients=np.array([0.0, 1.0]))
    assert np.array_equal(given.numpy(), [0, 0.25])
    _, pull = dt.vjp(np.sqrt, ROOTS)
    assert np.array_equal(np.asarray(pull(np.array([0.0, 1.0]))[0]), [0, 0.25])
    _, push = dt.linearize(np.sqrt, ROOTS)
    assert np.array_equal(np.asarray(push(np.array([0.0, 1.0]))), [0, 0.25])


def test_a_seed_that_is_followed_is_no_structural_zero() -> None:
    """The derivative by a cotangent (a tangent) that happens to be 0 is the slope itself."""
    x = np.array([1.0, 4.0])

    def by_cotangent(c: Any) -> Any:
        return np.sum(dt.vjp(np.sqrt, x)[1](c)[0])

    def by_tangent(t: Any) -> Any:
        return np.sum(dt.jvp(np.sqrt, (x,), (t,))[1])

    for f in (by_cotangent, by_tangent):
        for transform in (dt.grad, dt.jacfwd, dt.jacrev):
            np.testing.assert_allclose(np.asarray(transform(f)(np.zeros(2))), [0.5, 0.25], rtol=1e-12)


def test_an_imaginary_part_is_reached_by_an_imaginary_direction() -> None:
    """sqrt(imag(z)) at imag(z) = 0 along i is infinite; the other element is not seeded."""
    z, along = np.array([2 + 0j, 1 + 1j]), np.array([1j, 0])
    for f in (lambda z: np.sqrt(np.imag(z)), lambda z: np.sqrt(z.imag), lambda z: np.sqrt(np.real(-1j * z))):
        t = dt.jvp(f, (z,), (along,))[1]
        assert not np.isfinite(t[0]) and t[1] == 0, t


def test_marks_cover_each_example_of_a_batch() -> None:
    points = np.array([[0.0, 4.0], [1.0, 0.0], [9.0, 16.0]])
    right = [[0, 0.25], [0.5, 0], [1 / 6, 0.125]]
    found = dt.vmap(dt.grad(lambda a: np.sum(np.where(a > 0, np.sqrt(a), 0))))(points)
    np.testing.assert_allclose(np.asarray(found), right, rtol=1e-12)


def test_large_arrays_and_long_programs() -> None:
    x = np.tile(ROOTS, 60_000)
    found = np.asarray(dt.grad(lambda a: np.sum(np.where(a > 0, np.sqrt(a), 0)))(x))
    assert np.array_equal(found, np.tile([0, 0.25], 60_000))

    def long(a: Any) -> Any:
        y = dt.zeros(3)
        y[1:] = a
        for _ in range(400):
            y = y[::-1] * 1.0
        return np.sum(np.sqrt(y))

    for how, got in slopes(long, np.array([1.0, 4.0])).items():
        np.testing.assert_allclose(got, [0.5, 0.25], rtol=1e-12, err_msg=how)


# ------------------------------------------------------------------ random programs
class Dual:
    """A number and its derivative, of many digits."""

    def __init__(self, v: Any, d: Any = 0) -> None:
        self.v, self.d = mpmath.mpf(v), mpmath.mpf(d)

    def __add__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.v + other.v, self.d + other.d)

    def __mul__(self, other: Any) -> Dual:
        other = other if isinstance(other, Dual) else Dual(other)
        return Dual(self.v * other.v, self.d * other.v + self.v * other.d)


def through(f: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Callable[[Dual], Dual]:
    def call(a: Dual) -> Dual:
        if a.d == 0 and a.v == 0:  # a constant: its slope is not asked for
            return Dual(f(a.v))
        y = f(a.v)
        return Dual(y, a.d * slope(a.v, y))

    return call


UNARY: dict[str, tuple[Any, Callable[[Dual], Dual]]] = {
    "sqrt": (np.sqrt, through(mpmath.sqrt, lambda x, y: 1 / (2 * y))),
    "cbrt": (np.cbrt, through(lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), lambda x, y: 1 / (3 * y * y))),
    "exp": (lambda x: np.exp(x / 4), through(lambda x: mpmath.exp(x / 4), lambda x, y: y / 4)),
    "log1p": (np.log1p, through(mpmath.log1p, lambda x, y: 1 / (1 + x))),
    "square": (lambda x: x**2, through(lambda x: x * x, lambda x, y: 2 * x)),
    "cube": (lambda x: x**3, through(lambda x: x**3, lambda x, y: 3 * x * x)),
    "power": (lambda x: x**1.5, through(lambda x: x * mpmath.sqrt(x), lambda x, y: 1.5 * mpmath.sqrt(x))),
    "sin": (np.sin, through(mpmath.sin, lambda x, y: mpmath.cos(x))),
}
KINDS = ["unary"] * 5 + ["times", "plus", "where", "mask", "constant mask", "index", "join", "write", "larger", "flip"]


def program(choose: random.Random, depth: int) -> tuple[Any, ...]:
    """A random expression of a vector of three."""
    if depth == 0:
        return ("x",)
    kind = choose.choice(KINDS)
    inner = program(choose, depth - 1)
    if kind == "unary":
        return kind, inner, choose.choice(list(UNARY))
    if kind in ("times", "plus", "larger"):
        return kind, inner, program(choose, choose.choice([0, depth - 1])), choose.random()
    if kind == "where":
        return kind, inner, choose.choice([0.0, 0.5, 1.0]), choose.choice([0.0, 1.0])
    if kind == "constant mask":
        return kind, inner, np.array([choose.random() < 0.6 for _ in range(3)])
    if kind == "index":
        return kind, inner, np.array([choose.randrange(3) for _ in range(3)])
    return kind, inner, choose.randrange(1, 3)


def value(p: tuple[Any, ...], x: Any) -> Any:
    """Its value on arrays."""
    kind, *rest = p
    if kind == "x":
        return x
    y = value(rest[0], x)
    if kind == "unary":
        return UNARY[rest[1]][0](y)
    if kind in ("times", "plus", "larger"):
        z = value(rest[1], x)
        return y * z if kind == "times" else y + z if kind == "plus" else np.maximum(y, z + rest[2])
    if kind == "where":
        return np.where(x > rest[1], y, rest[2])
    if kind in ("mask", "constant mask"):
        return (x > 0 if kind == "mask" else rest[1]) * y
    if kind == "index":
        return y[rest[1]]
    if kind == "join":
        return np.concatenate([np.zeros(1), y[:2]])
    if kind == "flip":
        return np.flip(y)
    z = dt.zeros(3) if isinstance(y, dt.Tensor) else np.zeros(3)
    z[rest[1] :] = y[rest[1] :]
    return z


def exact(p: tuple[Any, ...], xs: Sequence[Dual], at: Any) -> list[Dual]:
    """Its value on dual numbers, with the decisions that it makes ``at`` the point."""
    kind, *rest = p
    if kind == "x":
        return list(xs)
    ys, zero = exact(rest[0], xs, at), Dual(0)
    if kind == "unary":
        return [UNARY[rest[1]][1](y) for y in ys]
    if kind in ("times", "plus"):
        return [y * z if kind == "times" else y + z for y, z in zip(ys, exact(rest[1], xs, at), strict=True)]
    if kind == "larger":
        first = value(rest[0], at) > value(rest[1], at) + rest[2]
        return [y if c else z + rest[2] for c, y, z in zip(first, ys, exact(rest[1], xs, at), strict=True)]
    if kind == "where":
        return [y if c else Dual(rest[2]) for c, y in zip(at > rest[1], ys, strict=True)]
    if kind in ("mask", "constant mask"):
        return [y if c else zero for c, y in zip(at > 0 if kind == "mask" else rest[1], ys, strict=True)]
    if kind == "index":
        return [ys[k] for k in rest[1]]
    if kind == "join":
        return [zero, *ys[:2]]
    return ys[::-1] if kind == "flip" else [zero] * rest[1] + ys[rest[1] :]


WEIGHT = (1.0, 2.0, -1.5)


def beside(p: tuple[Any, ...], at: Any, k: int, digits: int) -> Any:
    """The derivative of the weighted sum by element k, a little beside the point."""
    shift = mpmath.mpf(10) ** -digits
    xs = [Dual(float(a) + shift * (1 + mpmath.mpf(j) / 7), j == k) for j, a in enumerate(at)]
    return sum([y.d * w for y, w in zip(exact(p, xs, at), WEIGHT, strict=True)], mpmath.mpf(0))


@pytest.mark.parametrize("block", range(12))
def test_random_programs_at_singular_points(block: int) -> None:
    tried = 0
    with mpmath.workdps(220):
        for seed in range(25 * block, 25 * block + 25):
            choose = random.Random(seed)
            p = program(choose, choose.randrange(2, 6))
            at = np.array([choose.choice([0.0, 0.0, 0.5, 1.0, 2.0]) for _ in range(3)])

            def f(x: Any, p: Any = p) -> Any:
                return np.sum(value(p, x) * np.array(WEIGHT))

            if not np.isfinite(f(at)):
                continue
            tried += 1
            found = slopes(f, at)
            for k in range(3):
                try:
                    near, nearer = beside(p, at, k, 60), beside(p, at, k, 66)
                except TypeError:  # a root of what is negative there
                    continue
                smooth = abs(near - nearer) < 1e-4 * (1 + abs(near))
                for how, got in found.items():
                    if smooth and np.isnan(got[k]):
                        assert np.isnan(found["reverse"][k]) and np.isnan(found["forward"][k]), (seed, k, found)
                    elif np.isnan(got[k]):
                        continue
                    elif smooth:
                        assert abs(got[k] - float(near)) <= 1e-4 * (1 + abs(float(near))), (seed, how, k, got[k], near)
                    else:
                        assert np.isinf(got[k]), (seed, how, k, got[k], near)
    assert tried > 15


def test_the_check_finds_a_zero_that_hides_an_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule by which every zero wins is caught by the random programs."""

    def zeros_win(self: Any, c: Any, kept: Any, raw: bool, cotangents: Any, back: bool) -> Any:
        p = product(self, c, kept, raw, None, back)
        return p if p.__class__ is dt.Tensor else np.where(c == 0, 0.0, p)[()]

    product = edges.Partial.product
    monkeypatch.setattr(edges.Partial, "product", zeros_win)
    with pytest.raises(AssertionError):
        for block in range(12):
            test_random_programs_at_singular_points(block)


# ------------------------------------------------------------------ marks of every row
def root(x: Any) -> Any:
    """A function whose slope can be infinite, of real and complex numbers."""
    return np.sqrt(x) if x.dtype.kind == "c" else np.cbrt(x)


def units(x: Any) -> tuple[complex, ...]:
    """Directions in which an element can move."""
    return (1.0, 1j) if np.asarray(x).dtype.kind == "c" else (1.0,)


SMOOTH = [c for c in CASES if isinstance(c, Case)]


@pytest.mark.parametrize("case", SMOOTH, ids=[c.name for c in SMOOTH])
def test_what_is_not_marked_is_zero(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every row, with one element seeded at a time: wherever the cotangent or tangent is not 0, there is a mark."""
    seen: list[int] = []

    def covered(marks: Any, derivative: Any) -> None:
        if marks is not None:
            seen.append(1)
            assert not np.any((np.asarray(marks) == 0) & (np.asarray(derivative) != 0)), (marks, derivative)

    def product(self: Any, c: Any, kept: Any, raw: bool, cotangents: Any, back: bool) -> Any:
        if cotangents is not None and cotangents.reach is not None and raw:
            covered(cotangents.reach.of(cotangents.at), c)
        return whole(self, c, kept, raw, cotangents, back)

    def settled(self: Any, entry: Any, nodes: Any, out: Any, result: Any) -> Any:
        result = settle(self, entry, nodes, out, result)
        marks = (out.tangents or {}).get(~self.key)
        covered(marks() if callable(marks) else marks, result)
        return result

    whole, settle = edges.Partial.product, TangentRecorder.settled
    monkeypatch.setattr(edges.Partial, "product", product)
    monkeypatch.setattr(TangentRecorder, "settled", settled)
    places = [k for k, x in enumerate(case.args) if np.asarray(x).dtype.kind in "fc"]
    xs = [np.asarray(case.args[k]) for k in places]

    def f(*given: Any) -> Any:
        args = list(case.args)
        for k, x in zip(places, given, strict=True):
            args[k] = root(x)  # its partial is looked at, and finite here
        y = case.f(*args)
        return y[0] if isinstance(y, tuple) else y

    cubes = [np.where(x == 0, x.dtype.type(0.1), x) for x in xs]
    cubes = [np.square(x) if x.dtype.kind == "c" else x**3 for x in cubes]
    y, pull = dt.vjp(f, *cubes)
    if np.asarray(y).dtype.kind not in "fc":
        return
    for k in range(min(np.size(y), 6)):
        for unit in units(y):
            pull(np.reshape(np.eye(1, np.size(y), k, dtype=np.asarray(y).dtype) * unit, np.shape(y)))
    for j, x in enumerate(cubes):
        for k in range(min(x.size, 4)):
            for unit in units(x):
                seeds = [np.zeros_like(c) for c in cubes]
                seeds[j].flat[k] = unit
                dt.jvp(lambda *a: root(f(*a)), tuple(cubes), tuple(seeds))
    assert seen or np.size(y) < 2
