"""Batches give what a loop gives: every row of the table, in both modes, inside and outside vmap, at every batch size.

Length: one table test covers each way a batch can meet a row; the nestings that were hard stay as tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caseform import Absent, Case, Special
from cases import CASES
from hypothesis import given
from hypothesis import strategies as st

import dualtape as dt
from dualtape.batching.batch import Batch
from dualtape.batching.calls import FUNCTIONS
from dualtape.batching.level import Level
from dualtape.batching.sweeps import MEMORY, chunk_size, pull_many
from dualtape.core.lookup import ROWS
from dualtape.core.standin import OPEN, Refused
from dualtape.core.tensor import tensor

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Contractions: BLAS adds the same terms in another order for another number of right sides, and so do their users.
REORDERED = {"matmul", "einsum_1", "einsum_2", "pinv", "solve", "det", "cholesky", "qr", "inv", "svd", "eig", "eigh"}
SINGLE = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}
# The rows whose kernel or rules run once for each example at some point of the table, and why.
LOOPED = {
    "getitem": "a mask for each example",
    "array_equiv": "no rule",
    "searchsorted": "bins for each example",
    "digitize": "bins for each example",
    "argwhere": "results of different shapes",
    "flatnonzero": "results of different shapes",
    "det": "the rank decides the formula",
    "cholesky": "LAPACK's triangular solve takes one matrix",
    "solve_triangular": "LAPACK's triangular solve takes one matrix",
    "qr": "LAPACK's triangular solve takes one matrix",
    "pinv": "least squares: the rank decides the result",
    **dict.fromkeys(("gammainc", "gammaincc", "gammaincinv", "gammainccinv", "stdtr"), "a series as long as needed"),
    **dict.fromkeys(("betainc", "betaincc", "betaincinv"), "a series as long as needed"),
    **dict.fromkeys(("jv", "iv", "ive", "kv", "kve"), "a series as long as needed, by the order"),
}

RNG = np.random.default_rng(7)


def varies(x: Any) -> bool:
    return x.dtype.kind in "fc"


def bare(y: Any) -> Any:
    return np.asarray(y.numpy() if hasattr(y, "numpy") else y)


def listed(y: Any) -> list[Any]:
    return list(y) if isinstance(y, (tuple, list)) else [y]


def draw(shape: Any, dtype: Any) -> Any:
    x = RNG.uniform(0.5, 1.5, shape)
    return (x + 1j * RNG.uniform(0.5, 1.5, shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def examples(x: Any, n: int, exact: bool) -> Any:
    """``n`` arrays close to ``x``; every other one is x itself at a point that is decided upon."""
    if not varies(x):
        return np.stack([x] * n)
    moved = [x if exact and k % 2 == 0 else x * (1 + 1e-3 * RNG.uniform(-1, 1, x.shape)) for k in range(n)]
    return np.stack(moved).astype(x.dtype)


def same(got: Any, expected: Any, what: str, ulps: float = 2, floor: float = 0.0) -> None:
    """Equal up to ``ulps`` units in the last place of the largest element, NaN and infinities in the same places."""
    got, expected = listed(got), listed(expected)
    assert len(got) == len(expected), what
    for g, e in zip(got, expected, strict=True):
        if g is None or e is None:
            assert g is e, f"{what}: {g} and {e}"
            continue
        g, e = bare(g), bare(e)
        assert g.shape == e.shape, f"{what}: shape {g.shape}, in a loop {e.shape}"
        assert g.dtype == e.dtype, f"{what}: dtype {g.dtype}, in a loop {e.dtype}"
        if e.dtype.kind not in "fc":
            assert np.array_equal(g, e), what
            continue
        sound = np.isfinite(e)
        assert np.array_equal(g[~sound], e[~sound], equal_nan=True), f"{what}: {g} and {e}"
        scale = max(np.max(np.abs(e[sound]), initial=0.0), floor)
        wrong = np.max(np.abs(g[sound] - e[sound]), initial=0.0)
        assert wrong <= ulps * np.finfo(e.dtype).eps * scale, f"{what}: off by {wrong} of {scale}"


def sizes_of(case: Any) -> list[int]:
    return sorted({1, 3} | {n for a in case.args for n in np.shape(a) if n})


def one_by_one(f: Callable[..., Any], mixed: list[Any], axes: tuple[Any, ...], n: int) -> list[Any]:
    """What vmap is to give."""
    found = [
        listed(f(*[dt.constant(m[i] if a == 0 else m) for m, a in zip(mixed, axes, strict=True)])) for i in range(n)
    ]
    return [np.stack([bare(y[m]) for y in found]) for m in range(len(found[0]))]


def choices(floating: list[int], count: int) -> list[tuple[Any, ...]]:
    """Which operands have an example each: every one alone, and all."""
    some = [[k] for k in floating] + ([floating] if len(floating) > 1 else [])
    return [tuple(0 if k in ks else None for k in range(count)) for ks in some]


def pulling(f: Any, floating: list[int]) -> Callable[..., Any]:
    """The pullback of ``f`` at its arguments, of one cotangent."""

    def g(*xs: Any) -> Any:
        def of(*moving: Any) -> Any:
            return f(*[moving[floating.index(k)] if k in floating else x for k, x in enumerate(xs)])

        ys, pull = dt.vjp(of, *[xs[k] for k in floating])
        cs = [np.full(y.shape, 0.7, y.dtype) if y.dtype.kind in "fc" else None for y in listed(ys)]
        return pull(tuple(cs) if isinstance(ys, (tuple, list)) else cs[0])

    return g


def prepared(case: Any, single: bool) -> tuple[list[Any], list[int], bool, float]:
    args = [np.asarray(a) for a in case.args]
    if single:
        args = [a.astype(SINGLE.get(a.dtype, a.dtype)) for a in args]
    floating = [k for k, a in enumerate(args) if varies(a)]
    return args, floating, isinstance(case, Special), 32 if case.row in REORDERED else 2


def variants(kinds: Any) -> Any:
    cases = [c for c in CASES if isinstance(c, kinds)]
    both = [(c, False) for c in cases] + [(c, True) for c in cases if isinstance(c, Case) and c.single]
    names = [c.name + (" in single precision" if single else "") for c, single in both]
    return pytest.mark.parametrize(("case", "single"), both, ids=names)


# ------------------------------------------------------------------ the table
@variants((Case, Special))
def test_batched_cotangents_give_what_a_sweep_for_each_gives(case: Any, single: bool) -> None:
    args, floating, exact, ulps = prepared(case, single)
    with np.errstate(all="ignore"):
        xs = [dt.constant(a) for a in args]
        with dt.GradientTape(persistent=True) as tape:
            tape.watch([xs[k] for k in floating])
            found = listed(case.f(*xs))
        ids = [xs[k]._node.id for k in floating]
        for n in [3] if single else sizes_of(case):
            for y in found:
                if y.dtype.kind not in "fc":
                    continue
                seeds = draw((n, *y.shape), y.dtype)
                if exact and n > 1:
                    seeds[0] = 0
                looped: dict[str, int] = {}
                loop = pull_many(tape._entries, y._node, ids, seeds, True, one_by_one=True)
                same(pull_many(tape._entries, y._node, ids, seeds, True, looped), loop, f"{n} cotangents", ulps)
                assert not looped or case.row in LOOPED, looped


@variants((Case, Special))
def test_batched_tangents_give_what_an_accumulator_for_each_gives(case: Any, single: bool) -> None:
    args, floating, exact, ulps = prepared(case, single)
    with np.errstate(all="ignore"):
        for n in [3] if single else sizes_of(case):
            xs = [dt.constant(a) for a in args]
            ts = {k: draw((n, *args[k].shape), args[k].dtype) for k in floating}
            if exact and n > 1:
                for t in ts.values():
                    t[0] = 0
            for axes in choices(floating, len(args)):
                ks = [k for k, a in enumerate(axes) if a == 0]
                with dt.ForwardAccumulator([xs[k] for k in ks], [ts[k] for k in ks], batch=True) as acc:
                    ys = listed(case.f(*xs))
                loop = []
                for i in range(n):
                    with dt.ForwardAccumulator([xs[k] for k in ks], [ts[k][i] for k in ks]) as one:
                        loop.append([one.jvp(y) for y in listed(case.f(*xs))])
                expected = [None if ts[0] is None else np.stack(ts) for ts in zip(*loop, strict=True)]
                same([acc.jvp(y) for y in ys], expected, f"{n} tangents of operands {ks}", ulps)
                assert acc._level is None or not acc._level.looped or case.row in LOOPED, acc._level.looped


@variants((Case, Special, Absent))
def test_vmap_of_a_row_and_of_its_pullback_gives_what_a_loop_gives(case: Any, single: bool) -> None:
    args, floating, exact, ulps = prepared(case, single)
    with np.errstate(all="ignore"):
        for n in [3] if single else sizes_of(case):
            batch = [examples(a, n, exact) for a in args]
            for axes in choices(floating, len(args)):
                mixed = [b if a == 0 else x for a, b, x in zip(axes, batch, args, strict=True)]
                for f in [case.f] if isinstance(case, Absent) else [case.f, pulling(case.f, floating)]:
                    try:
                        loop = one_by_one(f, mixed, axes, n)
                    except ValueError:  # results of different shapes
                        continue
                    got, how = dt.vmap(f, axes, explain=True)(*map(dt.constant, mixed))
                    same(got, loop, f"vmap over {axes} of {n} examples", ulps)
                    assert how.startswith("every") or case.row in LOOPED, how


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c, Special)], ids=lambda c: c.name)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_recorders_around_a_batch_see_the_special_points(case: Any, mode: str) -> None:
    around(case, mode)


@pytest.mark.parametrize("case", [c for c in CASES if isinstance(c, Case) and c.order > 1], ids=lambda c: c.name)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_recorders_around_a_batch_see_what_they_see_around_a_loop(case: Any, mode: str) -> None:
    around(case, mode)


def outside(mode: str, values: list[Any], run: Callable[[list[Any]], list[Any]]) -> tuple[list[Any], float]:
    """The derivative, by a recorder around it, of what ``run`` makes of Tensors; and the size of the terms in it."""
    moving = [k for k, a in enumerate(values) if varies(a)]
    xs = [dt.constant(a) for a in values]
    if mode == "forward":
        with dt.ForwardAccumulator([xs[k] for k in moving], [np.ones_like(values[k]) for k in moving]) as acc:
            ys = [y for y in run(xs) if isinstance(y, dt.Tensor)]
        found = [acc.jvp(y) for y in ys]
    else:
        with dt.GradientTape() as tape:
            tape.watch([xs[k] for k in moving])
            ys = [y for y in run(xs) if isinstance(y, dt.Tensor) and y.dtype.kind in "fc"]
            total = [np.sum(0.3 * np.real(y) + np.real(y) ** 2) for y in ys]
        found = tape.gradient(total, [xs[k] for k in moving]) if total else []
    sizes = [np.abs(bare(y)) for y in (*ys, *found) if y is not None]
    return found, max([float(np.max(y[np.isfinite(y)], initial=1.0)) for y in sizes], default=1.0)


def around(case: Any, mode: str) -> None:
    args, floating, exact, _ = prepared(case, False)
    n = 3
    rng = np.random.default_rng(3)
    weights: dict[Any, Any] = {}

    def swept(loop: bool) -> Callable[[list[Any]], list[Any]]:
        def run(xs: list[Any]) -> list[Any]:
            with dt.GradientTape(persistent=True) as tape:
                tape.watch([xs[k] for k in floating])
                ys = [y for y in listed(case.f(*xs)) if y.dtype.kind in "fc"]
            found = []
            for m, y in enumerate(ys):
                seeds = weights.setdefault(m, rng.uniform(0.5, 1.5, (n, *y.shape)).astype(y.dtype))
                ids = [xs[k]._node.id for k in floating]
                found += pull_many(tape._entries, y._node, ids, seeds, True, one_by_one=loop)
            return found

        return run

    with np.errstate(all="ignore"):
        expected, scale = outside(mode, args, swept(True))
        same(outside(mode, args, swept(False))[0], expected, "a batched sweep", 500, scale)
        batch = [examples(a, n, exact) for a in args]
        for axes in choices(floating, len(args)):
            mixed = [b if a == 0 else x for a, b, x in zip(axes, batch, args, strict=True)]

            def mapped(xs: list[Any], axes: Any = axes) -> list[Any]:
                return listed(dt.vmap(case.f, axes)(*xs))

            def loop(xs: list[Any], axes: Any = axes) -> list[Any]:
                paired = list(zip(xs, axes, strict=True))
                one = [listed(case.f(*[x[i] if a == 0 else x for x, a in paired])) for i in range(n)]
                return [np.stack(ys) for ys in zip(*one, strict=True)]

            expected, scale = outside(mode, mixed, loop)
            same(outside(mode, mixed, mapped)[0], expected, f"vmap over {axes}", 500, scale)


def test_the_list_of_rows_that_loop_names_rows() -> None:
    assert LOOPED.keys() <= ROWS.keys()
    assert REORDERED <= ROWS.keys()


# ------------------------------------------------------------------ nesting
A = RNG.normal(size=(3, 3))
X = RNG.normal(size=(3, 3))  # as many examples as elements: no axis can be told from another by its length


@dt.custom_gradient
def tripled(x: Any) -> Any:
    return np.sin(x), lambda g: 3 * g * np.cos(x)


@dt.custom_vjp
def fifth(x: Any) -> Any:
    return x**3


fifth.defvjp(lambda x: (x**3, x), lambda kept, g: (5 * g * kept**2,))


@dt.custom_jvp
def seventh(x: Any) -> Any:
    return x**3


seventh.defjvp(lambda primals, tangents: (seventh(*primals), 7 * primals[0] ** 2 * tangents[0]))
again = dt.checkpoint(lambda x: np.exp(np.sin(x)) @ A)
state = dt.Variable(np.array([1.0, -2.0, 0.5]))


def assigned(x: Any) -> Any:
    y = dt.asarray(x, copy=True)
    y[1] = x[0] * x[2]
    y[1:] *= 2.0
    return y


BODIES: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: np.tanh(A @ x),
    "outside": lambda x: np.cumsum(np.exp(x)[::-1]) * x,
    "matrix": lambda x: np.linalg.solve(A + np.outer(x, x) + 9 * np.eye(3), x),
    "reads": lambda x: np.array([x[0] * x[1], x[2], np.sum(x[1:])]),
    "writes": assigned,
    "sorted": lambda x: np.sort(x)[::-1] * x,
    "choice": lambda x: np.where(x > 0, x**2, np.log(np.where(x > 0, 1.0, -x))),
    "branch": lambda x: x * x if x[0] > 0 else np.exp(x),
    "custom_gradient": tripled,
    "custom_vjp": fifth,
    "custom_jvp": seventh,
    "checkpoint": again,
    "variable": lambda x: x * state * np.sum(state),
    "norms": lambda x: np.array([np.linalg.norm(x), np.std(x), dt.logsumexp(x)]),
}
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: dt.grad(lambda x: np.sum(f(x) ** 2)),
    "jacrev": lambda f: dt.jacrev(f),
    "jacfwd": lambda f: dt.jacfwd(f),
    "hessian": lambda f: dt.hessian(lambda x: np.sum(f(x) ** 2)),
    "jacrev of jacrev": lambda f: dt.jacrev(dt.jacrev(f)),
    "jacfwd of jacfwd": lambda f: dt.jacfwd(dt.jacfwd(f)),
    "jacrev of jacfwd": lambda f: dt.jacrev(dt.jacfwd(f)),
    "jacfwd of jacrev": lambda f: dt.jacfwd(dt.jacrev(f)),
    "hvp": lambda f: lambda x: dt.hvp(lambda y: np.sum(f(y) ** 2), x, x),
    "jvp": lambda f: lambda x: dt.jvp(f, (x,), (x,))[1],
    "vmap": lambda f: lambda x: dt.vmap(lambda a: f(a * x))(X),
    "grad of vmap": lambda f: dt.grad(lambda x: np.sum(dt.vmap(lambda a: f(a * x))(X) ** 2)),
    "third order": lambda f: dt.grad(lambda x: np.sum(dt.hessian(lambda y: np.sum(f(y) ** 2))(x) ** 2)),
}


def close(got: Any, expected: Any) -> None:
    scale = np.max(np.abs(bare(expected)), initial=1.0)
    np.testing.assert_allclose(bare(got), bare(expected), rtol=1e-11, atol=1e-12 * scale)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("body", BODIES)
def test_vmap_of_any_transform_gives_what_a_loop_gives(body: str, transform: str) -> None:
    f = TRANSFORMS[transform](BODIES[body])
    close(dt.vmap(f)(X), np.stack([bare(f(x)) for x in X]))


@pytest.mark.parametrize("body", BODIES)
def test_transforms_of_vmap_give_what_they_give_of_a_loop(body: str) -> None:
    f = BODIES[body]

    def mapped(x: Any) -> Any:
        return np.sum(dt.vmap(f)(x) ** 2)

    def looped(x: Any) -> Any:
        return sum(np.sum(f(x[i]) ** 2) for i in range(3))

    for transform in (dt.grad, dt.jacfwd, dt.hessian):
        close(transform(mapped)(X), transform(looped)(X))
    close(dt.jvp(mapped, (X,), (X,))[1], dt.jvp(looped, (X,), (X,))[1])

    def by_slopes(g: Any) -> Callable[[Any], Any]:
        return lambda x: np.sum(g(x) ** 2)

    slope = dt.grad(lambda y: np.sum(f(y) ** 2))
    one_by_one = by_slopes(lambda x: np.stack([slope(x[i]) for i in range(3)]))
    close(dt.grad(by_slopes(dt.vmap(slope)))(X), dt.grad(one_by_one)(X))


@pytest.mark.parametrize("body", BODIES)
def test_jacobians_have_the_columns_and_rows_that_products_give(body: str) -> None:
    f = BODIES[body]
    by_columns = np.stack([bare(dt.jvp(f, (X[0],), (e,))[1]) for e in np.eye(3)], axis=-1)
    for chunk in (None, 1, 2):
        close(dt.jacfwd(f, chunk=chunk)(X[0]), by_columns)
        close(dt.jacrev(f, chunk=chunk)(X[0]), by_columns)


def test_a_constant_of_the_outer_vmap_is_one_in_the_inner_one() -> None:
    f = dt.vmap(lambda a: dt.vmap(lambda b: a @ b + np.sum(A * a))(X), 1, 1)
    close(f(X), np.array([[a @ b + np.sum(A * a) for b in X] for a in X.T]).T)


def test_gradients_by_a_shared_argument_are_one_for_each_example() -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(w @ x) ** 2)

    close(dt.vmap(dt.grad(loss), (None, 0))(A, X), np.stack([bare(dt.grad(loss)(A, x)) for x in X]))


@pytest.mark.parametrize("body", BODIES)
def test_gradients_by_a_shared_argument_of_any_body(body: str) -> None:
    f = BODIES[body]

    def loss(w: Any, x: Any) -> Any:
        return np.sum(f(w * x) ** 2) + w[0] * w[1:].sum() + np.sum(f(w)) * x[0]

    w = np.array([0.5, -1.5, 1.0])
    for transform in (dt.grad, dt.hessian, lambda g: dt.jacrev(dt.grad(g))):
        close(dt.vmap(transform(loss), (None, 0))(w, X), np.stack([bare(transform(loss)(w, x)) for x in X]))

    def total(w: Any) -> Any:
        return np.sum(dt.vmap(dt.grad(loss), (None, 0))(w, X) ** 2)

    def looped(w: Any) -> Any:
        return sum(np.sum(dt.grad(loss)(w, x) ** 2) for x in X)

    close(dt.grad(total)(w), dt.grad(looped)(w))
    close(dt.jacfwd(total)(w), dt.jacfwd(looped)(w))


def test_indices_may_differ_from_example_to_example() -> None:
    places = np.array([2, 0, 1])
    close(dt.vmap(lambda i, x: x[i])(places, X), X[[0, 1, 2], places])
    close(dt.vmap(lambda i: dt.constant(A)[i])(places), A[places])
    close(dt.vmap(lambda i: A[i])(places), A[places])
    slopes = dt.vmap(lambda i, x: dt.grad(lambda y: y[i] * y[0] * y[i])(x))(places, X)
    close(
        slopes, np.stack([bare(dt.grad(lambda y, i=i: y[i] * y[0] * y[i])(x)) for i, x in zip(places, X, strict=True)])
    )


def test_a_variable_that_is_assigned_to_inside_vmap_has_the_value_of_the_last_example() -> None:
    v = dt.Variable(0.0)

    def f(x: Any) -> Any:
        v.assign(x[0])
        return v * x

    close(dt.vmap(f)(X), X[:, :1] * X)
    assert float(v.numpy()) == X[-1, 0]


def test_operations_on_all_examples_are_counted() -> None:
    once = dt.inspect.cost(BODIES["dense"], X[0]).evaluation
    every = dt.inspect.cost(dt.vmap(BODIES["dense"]), X).evaluation
    assert (every.adds, every.mults, every.nonlinear) == (3 * once.adds, 3 * once.mults, 3 * once.nonlinear)


def test_an_accumulator_with_a_batch_goes_around_vmap_and_inside_it() -> None:
    def f(x: Any) -> Any:
        return np.tanh(A @ x) * np.sum(x)

    directions = RNG.normal(size=(2, 3, 3))
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, directions, batch=True) as acc:
        y = dt.vmap(f)(x)
    close(
        acc.jvp(y), np.stack([[bare(dt.jvp(f, (v,), (t,))[1]) for v, t in zip(X, d, strict=True)] for d in directions])
    )

    def columns(x: Any) -> Any:
        with dt.ForwardAccumulator(x, np.eye(3), batch=True) as acc:
            y = f(x)
        return acc.jvp(y)

    close(dt.vmap(columns)(X), np.stack([bare(dt.jacfwd(f)(x)).T for x in X]))
    c = dt.constant(X[0])
    older = dt.ForwardAccumulator(c, np.eye(3), batch=True)

    def products(x: Any) -> Any:
        with older:
            z = c * x
        return older.jvp(z)

    close(dt.vmap(products)(X), np.stack([np.diag(x) for x in X]))


def test_a_jacobian_that_its_own_tape_records_is_differentiated() -> None:
    def f(x: Any) -> Any:
        return np.tanh(A @ x) * x

    x = dt.constant(X[0])
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
        total = np.sum(tape.jacobian(y, x) ** 2)
    close(tape.gradient(total, x), dt.grad(lambda x: np.sum(dt.jacfwd(f)(x) ** 2))(X[0]))


W = np.array([1.0, -2.0, 3.0])


def test_a_tape_around_vmap_may_be_asked_inside() -> None:
    w = dt.constant(W)
    asked: list[Callable[[Any, Any], Any]] = [
        lambda t, x: t.gradient(np.sum(w * x * w), w),
        lambda t, x: np.sum(t.jacobian(w * x * w, w), axis=0),
        lambda t, x: dt.vmap(lambda z: t.gradient(np.sum(w * z[0] * w), w))(x * np.ones((2, 1, 1)))[1],
        lambda t, x: t.gradient(np.sum((y := w * x) * w), y) * x * 2,
    ]
    for ask in asked:
        with dt.GradientTape(persistent=True) as tape:
            tape.watch(w)
            found = dt.vmap(lambda x, ask=ask, tape=tape: ask(tape, x))(X)
        close(found, 2 * X * W)
    with dt.ForwardAccumulator(w, np.ones(3)) as acc:
        found = dt.vmap(lambda x: acc.jvp(w * x * w))(X)
    close(found, 2 * X * W)


@pytest.mark.parametrize("of_tape", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_a_pause_inside_vmap_pauses_what_is_around_it(of_tape: bool, nested: bool) -> None:
    w = dt.constant(W)
    with dt.GradientTape() as tape:
        tape.watch(w)

        def f(x: Any) -> Any:
            with tape.stop_recording() if of_tape else dt.stop_recording():
                s = np.sum(w * x)
            return s * w

        y = dt.vmap(lambda x: dt.vmap(f)(x * np.ones((2, 1))) if nested else f(x))(X)
    close(tape.gradient(y, w), np.sum(X @ W) * (2 if nested else 1) * np.ones(3))


def test_tapes_and_accumulators_work_inside_vmap() -> None:
    def inside(x: Any) -> Any:
        with dt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            with dt.ForwardAccumulator(x, np.ones(3)) as acc:
                y = np.tanh(A @ x) * x[0]
            t = acc.jvp(y)
            z = np.sum(t * y)
        return tape.gradient(z, x), tape.jacobian(y, x), t

    got = dt.vmap(inside)(X)
    expected = [inside(dt.constant(x)) for x in X]
    for m in range(3):
        close(got[m], np.stack([bare(e[m]) for e in expected]))


def test_variables_read_inside_vmap_are_watched_by_the_tape_around_it() -> None:
    v = dt.Variable(np.array([1.0, 2.0, 3.0]))
    with dt.GradientTape() as tape:
        y = dt.vmap(lambda x: x * np.sum(v * x))(X)
    with dt.GradientTape() as loop:
        z = np.stack([x * np.sum(v * x) for x in X])
    close(tape.gradient(y, v), loop.gradient(z, v))


def test_a_batch_of_tangents_is_followed_by_the_tape_around_it() -> None:
    def f(x: Any) -> Any:
        return np.cumsum(np.exp(x) * x[::-1])

    x = dt.constant(X[0])
    with dt.GradientTape() as tape:
        tape.watch(x)
        with dt.ForwardAccumulator(x, np.eye(3), batch=True) as acc:
            y = f(x)
        jacobian = acc.jvp(y)
    close(tape.gradient(jacobian, x), dt.grad(lambda x: np.sum(dt.jacfwd(f)(x)))(X[0]))


def test_a_row_from_outside_keeps_its_rule_under_a_batch() -> None:
    # The kernel alone would have slope zero; as a composition of NumPy's functions a recorder could see just that.
    step = dt.extend.operation(lambda x: np.floor(4 * x) / 4, jvp=lambda t: t, vjp=lambda g: g, name="test_step")
    total = dt.grad(lambda x: np.sum(dt.vmap(step)(x)))
    assert np.array_equal(bare(total(X)), np.ones((3, 3)))
    assert np.array_equal(bare(dt.vmap(dt.jacrev(step))(X)), np.stack([np.eye(3)] * 3))


# ------------------------------------------------------------------ random programs
STEPS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.T,
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "solve": lambda x: np.linalg.solve(x + 20 * np.eye(3), x),
    "matmul": lambda x: x @ A,
    "left": lambda x: A @ x / 4,
    "tanh": np.tanh,
    "row": lambda x: x[1] * x,
    "column": lambda x: x[:, [0, 2, 2]] + x[:, :1],
    "fancy": lambda x: x[[0, 1, 0], :] * x[0, [1, 2, 0]],
    "sum": lambda x: x - np.sum(x, axis=1),
    "max": lambda x: x + np.max(x, axis=0, keepdims=True),
    "sort": lambda x: np.sort(x, axis=0),
    "where": lambda x: np.where(x > 0, x, 0.1 * x),
    "diagonal": lambda x: x * np.diagonal(x)[:, None],
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x) / 4,
    "reshape": lambda x: np.reshape(np.reshape(x, (9,))[::-1], (3, 3), order="F"),
    "concatenate": lambda x: np.concatenate([x[1:], x[:1] ** 2]),
    "stack": lambda x: np.stack([x[0], x[2], x[:, 1]], axis=1),
    "tril": lambda x: np.tril(x) + np.linalg.inv(x + 20 * np.eye(3)),
    "norm": lambda x: x / np.linalg.norm(x),
    "writes": lambda x: assigned(x.T),
}


@given(st.lists(st.sampled_from(list(STEPS)), min_size=1, max_size=5), st.integers(0, 2**31))
def test_random_programs_give_the_same_in_every_batched_way(names: list[str], seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(3, 3))
    batch = np.random.default_rng(seed + 1).normal(size=(3, 3, 3))

    def f(x: Any) -> Any:
        for name in names:
            x = STEPS[name](x)
        return np.tanh(x)

    _, pull = dt.vjp(f, x)
    by_rows = np.stack([bare(pull(e.reshape(3, 3))[0]) for e in np.eye(9)]).reshape(3, 3, 3, 3)
    close(dt.jacrev(f)(x), by_rows)
    close(dt.jacfwd(f)(x), by_rows)
    close(dt.vmap(f, 1, 2)(batch), np.stack([bare(f(batch[:, k])) for k in range(3)], axis=2))
    slope = dt.grad(lambda x: np.sum(f(x) ** 2))
    close(dt.vmap(slope)(batch), np.stack([bare(slope(b)) for b in batch]))
    total = dt.grad(lambda b: np.sum(dt.vmap(slope)(b) ** 2))
    close(total(batch), dt.grad(lambda b: sum(np.sum(slope(b[k]) ** 2) for k in range(3)))(batch))


# ------------------------------------------------------------------ random nestings
def looped_vmap(f: Any, in_axes: Any = 0) -> Any:
    def call(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        found = [f(*[x if a is None else x[i] for x, a in zip(args, axes, strict=True)]) for i in range(3)]
        return np.stack(found)

    return call


def looped_jacrev(f: Any) -> Any:
    def call(x: Any) -> Any:
        _, pull = dt.vjp(f, x)
        return np.stack([pull(e)[0] for e in np.eye(3)])

    return call


def looped_jacfwd(f: Any) -> Any:
    return lambda x: np.stack([dt.jvp(f, (x,), (e,))[1] for e in np.eye(3)], axis=-1)


def taped_jacobian(f: Any) -> Any:
    def call(x: Any) -> Any:
        x = dt.asarray(x, copy=True)
        with dt.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        found = tape.jacobian(y, x)
        return x * np.zeros((3, 1)) if found is None else found

    return call


def accumulated_jacobian(f: Any) -> Any:
    def call(x: Any) -> Any:
        x = dt.asarray(x, copy=True)
        with dt.ForwardAccumulator(x, np.eye(3), batch=True) as acc:
            y = f(x)
        return np.transpose(acc.jvp(y, unconnected_gradients="zero"))

    return call


# How each transform is done: all at once, and one by one.
AT_ONCE = {
    "vmap": dt.vmap,
    "jacrev": dt.jacrev,
    "jacfwd": dt.jacfwd,
    "tape": taped_jacobian,
    "acc": accumulated_jacobian,
}
IN_TURN = {
    "vmap": looped_vmap,
    "jacrev": looped_jacrev,
    "jacfwd": looped_jacfwd,
    "tape": looped_jacrev,
    "acc": looped_jacfwd,
}
# Functions of a vector and a shared one, each with a trap for batches.
PARTS: list[Callable[[Any, Any], Any]] = [
    lambda x, c: np.sin(x) * c,
    lambda x, c: np.cumsum(x) @ A / 3 + c,
    lambda x, c: x[::-1] * c[:1] - np.std(x),
    lambda x, c: np.linalg.solve(np.outer(x, x) + 5 * np.eye(3), c + x),
    lambda x, c: dt.logsumexp(x) * x + np.max(c),
    lambda x, c: np.sort(x) * c,
    lambda x, c: np.where(x > c, np.sqrt(np.abs(x) + 0.1), c) * x,
    lambda x, c: dt.stop_gradient(x) * c + tripled(x),
    lambda x, c: fifth(x) / 3 + seventh(c) / 7,
    lambda x, c: dt.checkpoint(lambda a, b: np.sin(a * b) @ A / 2)(x, c),
    lambda x, c: assigned(x * c) / 2 + state * x,
    lambda x, c: x * c if x[0] > c[1] else np.exp(-x * x),
    lambda x, c: np.linalg.norm(x - c) * x + dt.special.erf(c),
    lambda x, c: np.linalg.cholesky(np.outer(x, c) @ np.outer(c, x) + 4 * np.eye(3))[:, 0],
    lambda x, c: np.stack([x[0] * c[1], x[2], np.prod(x)]),
]
NESTINGS: dict[str, Callable[[Any, Any], Any]] = {
    "vmap": lambda g, d: lambda x, c: np.sum(d["vmap"](lambda z: g(z * x, c))(X), axis=0) / 3,
    "vmap by shared": lambda g, d: (
        lambda x, c: np.sum(d["vmap"](lambda z, w: g(z + x, w * c), (0, None))(X, c), axis=0) / 3
    ),
    "vmap as result": lambda g, d: lambda x, c: d["vmap"](lambda z, w: np.sum(g(z, x) * w))(np.outer(x, c) + X, X) / 3,
    "jacrev": lambda g, d: lambda x, c: d["jacrev"](lambda z: g(z, c))(x) @ c / 3,
    "jacfwd": lambda g, d: lambda x, c: c @ d["jacfwd"](lambda z: g(x, z * x))(c) / 3,
    "tape": lambda g, d: lambda x, c: d["tape"](lambda z: g(z, c))(x) @ c / 3,
    "acc": lambda g, d: lambda x, c: d["acc"](lambda z: g(z, c * z))(x) @ c / 3,
    "grad": lambda g, d: lambda x, c: dt.grad(lambda z: np.sum(g(z, c) ** 2 * x))(x) / 3,
    "hvp": lambda g, d: lambda x, c: dt.hvp(lambda z: np.sum(g(z, c * z) ** 2), x, c) / 9,
    "checkpoint": lambda g, d: dt.checkpoint(g),
    "linearize": lambda g, d: lambda x, c: dt.linearize(lambda z: g(z, c), x)[1](x * c) / 3,
}
ENDS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda f, d: f(X[0], X[1]),
    "grad": lambda f, d: dt.grad(lambda x: np.sum(f(x, X[1]) ** 2))(X[0]),
    "grad by shared": lambda f, d: dt.grad(lambda c: np.sum(f(X[0], c) ** 2))(X[1]),
    "jvp": lambda f, d: dt.jvp(lambda c: f(c, c * X[0]), (X[1],), (X[2],))[1],
    "vmap": lambda f, d: d["vmap"](lambda z: f(z, X[1]))(X),
}


@pytest.mark.parametrize("seed", range(250))
def test_random_nestings_give_what_loops_give(seed: int) -> None:
    choose = np.random.default_rng(seed).integers
    parts = [PARTS[choose(len(PARTS))] for _ in range(choose(1, 4))]
    levels = [list(NESTINGS)[choose(len(NESTINGS))] for _ in range(choose(1, 4))]
    end = list(ENDS)[choose(len(ENDS))]

    def build(how: dict[str, Any]) -> Any:
        def innermost(x: Any, c: Any) -> Any:
            for part in parts:
                x = part(x, c)
            return np.tanh(x)

        f: Any = innermost
        for name in levels:
            f = NESTINGS[name](f, how)
        with np.errstate(all="ignore"):
            return bare(ENDS[end](f, how))

    expected = build(IN_TURN)
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
    np.testing.assert_allclose(build(AT_ONCE), expected, rtol=1e-7, atol=1e-9 * scale, err_msg=f"{end} of {levels}")


def test_what_is_cut_inside_vmap_is_cut_for_the_recorders_around_it() -> None:
    cuts: list[Callable[[Any], Any]] = [
        lambda x: dt.stop_gradient(x),
        lambda x: dt.constant(x.numpy()) if isinstance(x.numpy(), np.ndarray) else x.numpy() * 1.0,
        lambda x: np.floor(x * 4) / 4,
    ]
    for cut in cuts:
        found = dt.grad(lambda x, cut=cut: np.sum(dt.vmap(lambda z: cut(z) * z)(x)))(X)
        close(found, np.stack([bare(cut(dt.constant(x))) for x in X]))
    with dt.GradientTape() as tape:
        x = dt.constant(X)
        tape.watch(x)

        def paused(z: Any) -> Any:
            with dt.stop_recording():
                y = dt.copy(z)
            return y * z

        total = dt.vmap(paused)(x)
    close(tape.gradient(total, x), X)


# ------------------------------------------------------------------ vmap's own forms
def test_axes_may_be_structures_and_keywords_are_mapped_over_their_first_axis() -> None:
    def f(parts: Any, c: Any, *, d: Any) -> Any:
        return {"s": parts["a"] * parts["b"] + c, "n": d}

    mapped = dt.vmap(f, in_axes=({"a": 1, "b": None}, None), out_axes={"s": -1, "n": 0})
    got = mapped({"a": X, "b": 2.0}, 1.0, d=np.arange(3))
    close(got["s"], 2 * X + 1)
    assert np.array_equal(bare(got["n"]), np.arange(3))


def test_a_result_that_does_not_depend_on_the_batch_is_repeated_or_left_alone() -> None:
    assert dt.vmap(lambda x: np.ones(2))(X).shape == (3, 2)
    assert dt.vmap(lambda x: np.ones(2), out_axes=1)(X).shape == (2, 3)
    assert dt.vmap(lambda x: np.ones(2), out_axes=None)(X).shape == (2,)


def test_a_batch_of_no_examples_has_no_results_but_their_shape() -> None:
    assert dt.vmap(lambda x: np.tanh(A @ x))(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: dt.vmap(np.sin, in_axes=2)(X), ValueError, r"argument 0 has shape \(3, 3\), which has no axis 2"),
        (lambda: dt.vmap(np.add)(X, X[:2]), ValueError, r"different lengths: 3 \(axis 0 of argument 0.*2 \(axis 0 of"),
        (lambda: dt.vmap(np.add, in_axes=None)(X, X), ValueError, "none of the 2"),
        (lambda: dt.vmap(np.add, in_axes=(0,))(X, X), TypeError, r"1 entries for 2"),
        (lambda: dt.vmap(np.add, in_axes=(0, (1, 1, 1)))(X, X), TypeError, "do not fit argument 1"),
        (lambda: dt.vmap(np.sin, in_axes="0")(X), TypeError, "holds ints and None"),
        (lambda: dt.vmap(np.sin, out_axes=None)(X), ValueError, "out_axes is None for result 0"),
        (lambda: dt.vmap(np.sin, out_axes=5)(X), ValueError, "result 0 has 2 axes"),
        (lambda: dt.vmap(3)(X), TypeError, "takes a function"),
        (lambda: dt.vmap(lambda x: x @ np.ones(2))(X), ValueError, "size 2 is different from 3"),
    ],
)
def test_errors_name_the_argument_the_axis_and_the_sizes(call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        call()
    assert OPEN[0] == 0


def test_what_ran_once_for_each_example_is_told_on_request() -> None:
    assert dt.vmap(np.sin, explain=True)(X)[1] == "every operation ran once for all examples"
    how = dt.vmap(lambda x: np.array_equiv(x, X[0]) * x, explain=True)(X)[1]
    assert how == "once for each example ran: array_equiv"
    how = dt.vmap(BODIES["branch"], explain=True)(np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]]))[1]
    assert "the function itself (the truth value" in how
    slow = dt.extend.operation(
        lambda x: 1 * x, jvp=lambda t: t, vjp=lambda g: np.array([float(c) for c in g]), name="t_slow"
    )
    found, reason = dt.jacobian(slow, mode="reverse", explain=True)(X[0])
    assert reason == "reverse mode: asked for; one by one: t_slow"
    assert np.array_equal(bare(found), np.eye(3))


# ------------------------------------------------------------------ nothing is lost silently
def batch_of(x: Any) -> Batch:
    return Batch(Level(len(x)), x)


@pytest.mark.parametrize(
    "leave",
    [
        np.asarray,
        np.array,
        float,
        int,
        complex,
        lambda b: b.item(),
        lambda b: b.tolist(),
        lambda b: np.zeros(3)[b],
        lambda b: range(3)[b],
        lambda b: np.zeros(3).__setitem__(0, b),
        lambda b: np.add(np.zeros(3), b, out=np.zeros(3)),
        lambda b: np.add.at(np.zeros(3), [0], b),
        lambda b: np.copyto(np.zeros(3), b),
        lambda b: np.put(np.zeros(3), [0], b),
        lambda b: np.array([b, b]),
        lambda b: bool(b > 0),
    ],
)
def test_a_batch_cannot_be_mistaken_for_an_array(leave: Any) -> None:
    with pytest.raises((Refused, ValueError, TypeError)):
        leave(batch_of(np.array([-1.0, 0.0, 1.0])))


def test_a_truth_value_that_all_examples_share_may_decide() -> None:
    assert batch_of(np.ones(3)) > 0
    assert not batch_of(np.ones(3)) < 0


def test_a_value_of_a_finished_vmap_is_refused() -> None:
    kept: list[Any] = []
    dt.vmap(lambda x: (kept.append(x), x)[1])(X)
    with pytest.raises(RuntimeError, match="after it ended"):
        kept[0] + 1


def test_every_rule_gives_what_a_loop_gives_without_its_row() -> None:
    # Functions that rules and kernels call on Batches, with forms that the table may not reach.
    x = RNG.normal(size=(3, 3, 3))
    i = np.array([[2, 0], [1, 1], [0, 2]])
    forms: list[Callable[[Any], Any]] = [
        lambda b: b[..., 0],
        lambda b: b[1:, None, ::-1],
        lambda b: b[[0, 2]],
        lambda b: b[:, [0, 2]],
        lambda b: b[0, :, [0, 2]] if b.ndim > 2 else b[[0, 2], None, 1],
        lambda b: b[[[0], [1]], [0, 2]],
        lambda b: b[np.array([True, False, True])],
        lambda b: np.reshape(b, (-1,), order="F"),
        lambda b: np.ravel(b),
        lambda b: np.squeeze(np.expand_dims(b, (0, -1))),
        lambda b: np.moveaxis(b, 0, -1),
        lambda b: np.swapaxes(b, 0, 1),
        lambda b: np.roll(b, 2),
        lambda b: np.roll(b, (1, 2), (0, 1)),
        lambda b: np.tile(b, 2),
        lambda b: np.tile(b, (2, 1, 2)),
        lambda b: np.repeat(b, 2),
        lambda b: np.repeat(b, [1, 0, 2], axis=1),
        lambda b: np.pad(b, 1),
        lambda b: np.pad(b, ((1, 0), (0, 2)), mode="edge"),
        lambda b: np.take(b, [0, 0, 2]),
        lambda b: np.take(b, [0, 0, 2], axis=1),
        lambda b: np.argmax(b),
        lambda b: np.argmax(b, axis=1, keepdims=True),
        lambda b: np.argsort(b, axis=0),
        lambda b: np.take_along_axis(b, np.argsort(b, axis=0), 0),
        lambda b: np.flip(b),
        lambda b: np.trace(b, 1),
        lambda b: np.diagonal(b, -1),
        lambda b: np.tril(b, 1),
        lambda b: np.clip(b, -0.1, np.array([0.1, 0.2, 0.3])),
        lambda b: np.clip(b, None, b.T),
        lambda b: np.concatenate([b, X], axis=1),
        lambda b: np.stack([X, b], axis=-1),
        lambda b: np.where(b > 0, X, b),
        lambda b: np.where(X > 0, b[0], 1.0),
        lambda b: np.einsum("ij,jk->k", b, X),
        lambda b: np.einsum("ii->i", b),
        lambda b: X @ b,
        lambda b: b @ X,
        lambda b: b[0] @ X,
        lambda b: X @ b[0],
        lambda b: b @ X[0],
        lambda b: X[0] @ b,
        lambda b: b[0] @ b[1],
        lambda b: b @ b[1],
        lambda b: np.stack([X, X]) @ b,
        lambda b: b[0] @ np.stack([X, X]),
        lambda b: np.linalg.solve(X, b[0]),
        lambda b: np.linalg.solve(b, X[0]),
        lambda b: np.linalg.solve(X, b),
        lambda b: np.linalg.solve(b, b[0]),
        lambda b: np.linalg.solve(np.stack([X, X]), b),
        lambda b: np.cross(b, X[0]),
        lambda b: np.add.reduce(b, axis=(0, 1), keepdims=True),
        lambda b: np.add.reduce(b, axis=-1, where=X > 0),
        lambda b: np.add.outer(b[0], X[0]),
        lambda b: np.add.outer(X[0], b[0]),
        lambda b: np.maximum.accumulate(b, 1),
        lambda b: np.max(b, axis=-1, initial=0.0),
        lambda b: np.cumsum(b),
        lambda b: np.add(b, X[0]),
        lambda b: np.add(b[0], X),
        lambda b: X[0] - b,
        lambda b: np.float64(2.0) ** b,
        lambda b: np.full_like(b, 7.0),
        lambda b: b * np.result_type(b, np.float32).itemsize,
        lambda b: np.searchsorted(np.sort(X[0]), b),
        lambda b: np.interp(b, [0.0, 1.0], [2.0, 3.0]),
        lambda b: np.vdot(b, X),
        lambda b: np.dot(b, b.T),
        lambda b: b[tensor(np.array(1))._node.value],
    ]
    for k, form in enumerate(forms):
        got = form(batch_of(x))
        expected = [form(example) for example in x]
        same(got.physical if isinstance(got, Batch) else np.stack([got] * 3), np.stack(expected), f"form {k}", 8)
    for form in (lambda b, j: b[j], lambda b, j: b[:, j], lambda b, j: b[j, 1], lambda b, j: b[j[0], None, j]):
        level = Level(3)
        got = form(Batch(level, x), Batch(level, i))
        same(got.physical, np.stack([form(e, j) for e, j in zip(x, i, strict=True)]), "an index for each example")
    assert len(FUNCTIONS) > 80


# ------------------------------------------------------------------ tapes
def taped(f: Callable[..., Any], *values: Any, persistent: bool = False) -> tuple[Any, Any, list[Any]]:
    xs = [dt.constant(v) for v in values]
    with dt.GradientTape(persistent=persistent) as tape:
        tape.watch(xs)
        y = f(*xs)
    return tape, y, xs


@pytest.mark.parametrize("options", [{}, {"chunk": 1}, {"chunk": 2}, {"experimental_use_pfor": False}])
def test_jacobian_of_a_tape_has_the_shapes_of_target_and_source(options: Any) -> None:
    looped = "experimental_use_pfor" in options
    tape, y, (x, w, other) = taped(lambda x, w, _: np.tanh(w @ x), X[0], A[:2], 1.0, persistent=looped)
    by_x, (by_w, none) = tape.jacobian(y, (x, [w, other]), **options)
    assert by_x.shape == (2, 3)
    assert by_w.shape == (2, 2, 3)
    assert none is None
    slope = 1 - bare(y) ** 2
    close(by_x, slope[:, None] * bare(w))
    close(by_w, np.einsum("i,ij,k->ijk", slope, np.eye(2), X[0]))
    if not looped:
        with pytest.raises(RuntimeError, match="let go"):
            tape.jacobian(y, x)


def test_one_sweep_after_the_other_needs_a_persistent_tape() -> None:
    tape, y, (x,) = taped(np.tanh, X)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.jacobian(y, x, experimental_use_pfor=False)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.batch_jacobian(y, x, experimental_use_pfor=False)
    assert tape.jacobian(y, x).shape == (*X.shape, *X.shape)


@pytest.mark.parametrize("target", [[1.0], np.ones(2), 1.0, None])
def test_a_jacobian_has_one_tensor_for_its_target(target: Any) -> None:
    tape, y, (x,) = taped(np.tanh, X, persistent=True)
    for ask in (tape.jacobian, tape.batch_jacobian):
        with pytest.raises(TypeError, match="one Tensor or Variable, not a"):
            ask([y] if isinstance(target, list) else target, x)


def test_jacobian_of_a_persistent_tape_may_be_asked_again_and_fills_in_zeros() -> None:
    tape, y, (x, other) = taped(lambda x, _: x**2, X[0], 1.0, persistent=True)
    close(tape.jacobian(y, x), tape.jacobian(y, x))
    zeros = tape.jacobian(y, other, unconnected_gradients="zero")
    assert zeros.shape == (3,) and not np.any(bare(zeros))
    assert tape.jacobian(y, x, chunk=2).shape == (3, 3)


def test_jacobian_of_empty_targets_and_sources_is_empty() -> None:
    tape, y, (x,) = taped(lambda x: x[:0] * 2, X[0])
    assert tape.jacobian(y, x).shape == (0, 3)
    tape, y, (x,) = taped(lambda x: np.sum(x) * np.ones(2), np.zeros(0))
    assert tape.jacobian(y, x).shape == (2, 0)
    assert dt.jacrev(lambda x: x[:0])(X[0]).shape == (0, 3)
    assert dt.jacfwd(lambda x: np.ones(2) * np.sum(x))(np.zeros(0)).shape == (2, 0)


def test_jacobian_by_what_was_itself_computed() -> None:
    tape, y, (x,) = taped(lambda x: (m := np.exp(x), np.sin(m) * x), X[0])
    middle, end = y
    by_middle, by_x = tape.jacobian(end, [middle, x])
    m = np.exp(X[0])
    close(by_middle, np.diag(np.cos(m) * X[0]))
    close(by_x, np.diag(np.cos(m) * m * X[0] + np.sin(m)))


def test_a_jacobian_inside_a_tape_is_recorded() -> None:
    x = dt.constant(X[0])
    with dt.GradientTape() as outer:
        outer.watch(x)
        with dt.GradientTape() as tape:
            tape.watch(x)
            y = np.sum(np.tanh(A @ x) ** 2 * x)
        g = tape.gradient(y, x)
    h = outer.jacobian(g, x)
    close(h, dt.hessian(lambda x: np.sum(np.tanh(A @ x) ** 2 * x))(X[0]))


@pytest.mark.parametrize("options", [{}, {"chunk": 1}, {"experimental_use_pfor": False}])
def test_batch_jacobian_has_one_jacobian_a_row(options: Any) -> None:
    looped = "experimental_use_pfor" in options
    tape, y, (x,) = taped(lambda x: np.tanh(x @ A)[..., None] * np.ones(2), X, persistent=looped)
    found = tape.batch_jacobian(y, x, **options)
    assert found.shape == (3, 3, 2, 3)
    close(found, np.stack([bare(dt.jacrev(lambda v: np.tanh(v @ A)[..., None] * np.ones(2))(v)) for v in X]))


def test_batch_jacobian_of_what_is_not_connected_is_zeros_in_the_dtype_of_the_target() -> None:
    tape, y, (x, _) = taped(lambda x, z: np.float32(1.0) * z, X, X.astype(np.float32))
    found = tape.batch_jacobian(y, x)
    assert found.shape == (3, 3, 3) and found.dtype == np.float32 and not np.any(bare(found))


@pytest.mark.parametrize("pair", [(X, X[0]), (X[0], X[0]), (X, X[:2])])
def test_batch_jacobian_refuses_shapes_that_have_no_common_rows(pair: Any) -> None:
    tape, _, (y, x) = taped(lambda y, x: None, *pair)
    with pytest.raises(ValueError, match=r"must have rank at least 2|Need first dimension of .* to match"):
        tape.batch_jacobian(y, x)


def test_complex_targets_and_sources_give_what_gradient_gives() -> None:
    z = X[0] + 1j * X[1]
    tape, y, (x,) = taped(lambda z: z**2 * np.exp(z)[::-1], z, persistent=True)
    found = bare(tape.jacobian(y, x))
    for k, e in enumerate(np.eye(3)):
        close(found[k], tape.gradient(y, x, output_gradients=e))


def test_a_chunk_is_as_large_as_the_memory_bound_allows() -> None:
    tape, _, _ = taped(lambda x: np.exp(np.sin(x)), np.ones(1000))
    assert tape.nbytes == 16000
    assert chunk_size(tape._entries, None, 10**6, 0) == MEMORY // 16000
    assert chunk_size(tape._entries, None, 10, 0) == 10
    assert chunk_size(tape._entries, None, 10**6, 2**40) == 1
    assert chunk_size(tape._entries, 7, 10, 0) == 7
    for chunk in (0, 1.5, -1):
        with pytest.raises(ValueError, match="positive int"):
            chunk_size(tape._entries, chunk, 10, 0)


@pytest.mark.parametrize(("tangents", "words"), [(np.ones(3), "one axis is needed"), (np.ones((2, 4)), "shape")])
def test_batched_tangents_need_one_axis_more(tangents: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dt.ForwardAccumulator(dt.constant(X[0]), tangents, batch=True)


def test_a_result_that_stands_still_has_no_batch_of_tangents_or_zeros() -> None:
    with dt.ForwardAccumulator(dt.constant(X[0]), np.eye(3)[:2], batch=True) as acc:
        y = dt.constant(X[0]) * 2
    assert acc.jvp(y) is None
    assert acc.jvp(y, unconnected_gradients="zero").shape == (2, 3)


def test_sweeps_leave_no_level_open() -> None:
    dt.jacrev(BODIES["dense"])(X[0])
    with pytest.raises(ZeroDivisionError):
        dt.vmap(lambda x: 1 // 0)(X)
    assert OPEN[0] == 0
