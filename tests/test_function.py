"""function: what is traced means what the function means; what would become a constant is refused or asked again."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import gammaln

import dualtape as dt
from dualtape.core.standin import Refused
from dualtape.modes.structure import flatten

RNG = np.random.default_rng(0)
X, Y, M = RNG.normal(size=4), RNG.normal(size=4), RNG.normal(size=(4, 4))


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def writes(x: Any) -> Any:
    z = dt.zeros_like(x)
    for i in range(4):
        z[i] = x[i] ** 2
    z[1:] += z[:-1]
    return np.sum(z * x)


def divides(x: Any) -> Any:
    if np.sum(x) > 0:
        return np.sin(x)
    while np.sum(x) < 10:
        x = x + np.ones(4)
    return x


def repeated(x: Any, n: int) -> Any:
    for _ in range(n):
        x = np.sin(x)
    return x


def caught(x: Any) -> Any:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return x * 0


def recorded(x: Any) -> Any:
    x = dt.convert_to_tensor(x)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(np.exp(x))
    return {"gradient": tape.gradient(y, x), "value": y, "nothing": None}


class Pair(NamedTuple):
    a: Any
    b: Any


@dt.custom_vjp
def tenfold(x: Any) -> Any:
    return np.abs(x)


tenfold.defvjp(lambda x: (np.abs(x), x), lambda kept, g: (g * 10,))
inner = dt.function(lambda x: np.sin(x) * 2)

# Functions, and arguments that they are called with one after the other, each twice.
PROGRAMS: dict[str, Any] = {
    "rosenbrock": (rosenbrock, (X,), (Y,)),
    "value and gradient": (lambda x: dt.value_and_grad(rosenbrock)(x), (X,), (Y,)),
    "Hessian-vector product": (lambda x, v: dt.hvp(rosenbrock, x, v), (X, Y), (Y, X), (X, np.eye(4)[1])),
    "Hessian": (lambda x: dt.hessian(lambda z: np.sum(np.tanh(M @ z)))(x), (X,), (Y,)),
    "Jacobian": (lambda x: dt.jacobian(lambda z: np.tanh(M @ z))(x), (X,), (Y,)),
    "forward Jacobian": (lambda x: dt.jacfwd(lambda z: np.tanh(M @ z))(x), (X,), (Y,)),
    "vmap": (lambda m: dt.vmap(lambda r: np.sum(np.sin(r) * r))(m), (M,), (M + 1,)),
    "tape": (recorded, (X,), (Y,)),
    "branch and loop": (divides, (X,), (-X - 3,), (Y,), (X - 1,)),
    "cond": (lambda x: dt.cond(np.sum(x) > 0, lambda: np.sin(x), lambda: x**2), (X,), (-X,)),
    "while_loop": (lambda x: dt.while_loop(lambda z: np.sum(z) < 10, lambda z: (z + 1.0,), (x,)), (X,), (X - 2,)),
    "a Python number": (repeated, (X, 3), (X, 4), (Y, 3)),
    "writes": (writes, (X,), (Y,)),
    "gradient of writes": (lambda x: dt.grad(writes)(x), (X,), (Y,)),
    "sort": (lambda x: dt.grad(lambda z: np.sum(np.sort(z) * np.arange(4)))(x), (X,), (Y,)),
    "largest": (lambda x: x[int(np.argmax(x))] * 2, (X,), (-X,), (Y,)),
    "product with a zero": (lambda x: dt.grad(lambda z: np.max(z) + np.prod(z))(x), (X,), (X * [1, 0, 1, 1],)),
    "where": (lambda x: dt.grad(lambda z: np.sum(np.where(z > 0, np.log(np.where(z > 0, z, 1)), 0)))(x), (X,), (Y,)),
    "checkpoint": (lambda x: dt.grad(lambda z: np.sum(dt.checkpoint(lambda q: np.sin(q) ** 2)(z)))(x), (X,), (Y,)),
    "rules of one's own": (lambda x: dt.grad(lambda z: np.sum(tenfold(z)))(x), (X,), (Y,)),
    "another traced function": (lambda x: dt.grad(lambda z: np.sum(inner(z) ** 2))(x), (X,), (Y,)),
    "an error that is caught": (caught, (M,), (np.zeros((4, 4)),), (M + 1,), (np.zeros((4, 4)),), (M,)),
    "structures": (lambda d: {"s": d["a"] + d["b"][0], "l": [d["b"][1], 2.5]}, ({"a": X, "b": (Y, X)},)),
    "a named tuple": (lambda p: Pair(p.b, p.a * 2), (Pair(X, Y),), (Pair(Y, X),)),
    "the argument itself": (lambda x: (x, x), (X,)),
    "a view": (lambda x: x[1:], (X,)),
    "a constant": (lambda x: (np.ones(3), 2.0, x), (X,)),
    "infinite slopes": (lambda x: dt.grad(lambda z: np.sum(np.sqrt(z)))(x), (np.abs(X),), (np.zeros(4),)),
    "float32": (lambda x: dt.grad(lambda z: np.sum(np.tanh(z) * 2))(x), (X.astype("f4"),), (Y.astype("f4"),)),
    "complex": (lambda x: np.abs(np.exp(1j * x)), (X,), (Y,)),
    "a number": (lambda x: dt.grad(lambda t: t**3)(x), (np.float64(2.0),), (np.float64(3.0),)),
    "no elements": (lambda x: np.sum(x), (np.zeros(0),)),
    "numpy()": (lambda x: x * dt.convert_to_tensor(x).numpy(), (X,), (Y,)),
    "SciPy": (lambda x: dt.grad(lambda z: dt.special.logsumexp(z) + np.sum(gammaln(z * z + 1)))(x), (X,), (Y,)),
    "solve": (lambda m, x: dt.grad(lambda m: np.sum(np.linalg.solve(m, x)))(m), (M, X), (M + np.eye(4), Y)),
}


def agree(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    a, b = flatten(found)[0], flatten(expected)[0]
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype and np.shape(x) == np.shape(y)
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_traced_function_is_what_it_is_untraced(name: str) -> None:
    f, *calls = PROGRAMS[name]
    traced = dt.function(f)
    for args in calls:
        for _ in range(2):
            agree(traced(*args), f(*args))


@pytest.mark.parametrize("name", ["rosenbrock", "writes", "sort", "branch and loop", "SciPy"])
def test_it_is_differentiated_from_outside(name: str) -> None:
    f, *calls = PROGRAMS[name]
    f, traced = (lambda g: lambda x: np.sum(g(x)))(f), dt.function(lambda x: np.sum(PROGRAMS[name][0](x)))
    for (x,) in calls:
        agree(dt.grad(traced)(x), dt.grad(f)(x))
        agree(dt.jvp(traced, (x,), (Y,)), dt.jvp(f, (x,), (Y,)))
        agree(dt.hvp(traced, x, Y), dt.hvp(f, x, Y), 1e-11)
        agree(dt.hvp(traced, (x,), (Y,), order="rr"), dt.hvp(f, (x,), (Y,), order="rr"), 1e-11)
        agree(dt.hessian(traced)(x), dt.hessian(f)(x), 1e-11)


def test_rules_and_stops_inside_hold_outside() -> None:
    f = dt.function(lambda x: np.sum(tenfold(x) + dt.stop_gradient(x**2)))
    agree(dt.grad(f)(X), np.full(4, 10.0))
    assert dt.jvp(f, (X,), (np.ones(4),))[1] == 40


def test_the_program_is_numpy_that_can_be_read() -> None:
    f = dt.function(lambda x: dt.value_and_grad(rosenbrock)(x))
    f(X)
    source = f.source()
    assert source.startswith("from numpy import add, square, zeros\n\ndef function(x):")
    names: dict[str, Any] = {}
    exec(source, names)  # the text alone is the program
    _, value, slope = names["function"](Y)
    agree((value, slope), dt.value_and_grad(rosenbrock)(Y))
    assert "zeros" in source and source.count("x[:-1]") == 1


def test_results_have_memory_of_their_own() -> None:
    f = dt.function(lambda x: (x, x, x[1:], np.zeros(3)))
    for _ in range(2):
        found = f(X)
        for y in found:
            assert y.flags.writeable and not np.shares_memory(y, X)
        assert not np.shares_memory(found[0], found[1])
        found[3][:] = 7


def test_an_answer_that_is_new_is_traced_and_kept() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x * 2 if np.sum(x) > 0 else -x

    g = dt.function(f)
    for sign in (1, -1, 1, -1, 1):
        agree(g(sign * np.ones(3)), (2.0 if sign > 0 else 1.0) * np.ones(3))
    assert len(calls) == 2 and g.trace_count == 1
    assert "truth of a value" in g.trace_report() and "2 way(s)" in g.trace_report()


def test_too_many_ways_run_untraced_with_one_warning() -> None:
    def f(x: Any) -> Any:
        n = 0
        while n < x[0]:
            n += 1
        return x * n

    g = dt.function(f)
    with pytest.warns(UserWarning, match=r"different ways.*test_function.py:\d+.*cond or while_loop") as told:
        for k in range(1, 30):
            agree(g(np.array([k + 0.5])), f(np.array([k + 0.5])))
    assert len(told) == 1


def test_the_fifth_retrace_warns_of_its_cause() -> None:
    g = dt.function(lambda x, k=0: x * 2)
    with pytest.warns(UserWarning, match=r"shape \(6,\) after one of \(5,\)"):
        for n in range(1, 9):
            g(np.zeros(n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = dt.function(lambda x: x * 2, reduce_retracing=True)
        for n in range(1, 9):
            quiet(np.zeros(n))
    h = dt.function(lambda x, k: x * k)
    with pytest.warns(UserWarning, match="the float 5.0: pass numbers that vary as arrays"):
        for n in range(8):
            h(X, float(n))


def test_floats_are_told_apart_by_their_bits() -> None:
    g = dt.function(lambda x, k: x * k)
    assert np.signbit(g(np.ones(1), -0.0))[0] and not np.signbit(g(np.ones(1), 0.0))[0]
    ones = np.ones(1, int)
    assert g(ones, 1).dtype == int and g(ones, 1.0).dtype == float and g(ones, True).dtype == int


def test_warnings_are_those_of_the_function() -> None:
    log = dt.function(lambda x: np.log(x))
    log(np.ones(2))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        log(np.zeros(2))

    def quiet(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(x)

    g = dt.function(quiet)
    g(np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(np.isinf(g(np.zeros(2))))


def test_errors_are_those_of_the_function() -> None:
    def f(x: Any) -> Any:
        if x[0] > 100:
            raise ValueError("too large")
        return np.linalg.inv(x[1:].reshape(1, 1))

    g = dt.function(f)
    good, bad = np.array([1.0, 2.0]), np.array([200.0, 2.0])
    for _ in range(2):
        agree(g(good), f(good))
        with pytest.raises(ValueError, match="too large"):
            g(bad)
        with pytest.raises(np.linalg.LinAlgError):
            g(np.array([1.0, 0.0]))


# ------------------------------------------------------------------ never silently a constant
@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: float(x[0]), r"float\(\)"),
        (lambda x: complex(x[0]), r"complex\(\)"),
        (lambda x: x[x > 0], "size that depends"),
        (lambda x: np.unique(x), "unique has no row"),
        (lambda x: np.nonzero(x)[0], "size that depends"),
        (lambda x: np.repeat(x, np.argsort(x)), "an array"),
        (lambda x: np.zeros(4) + np.asarray(x), "an array"),
        (lambda x: x[0].item(), "item"),
        (lambda x: int(x[0]), r"int\(\)"),
    ],
)
def test_what_would_be_a_constant_is_refused_with_the_line(f: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as raised:
        dt.function(f)(X)
    assert "test_function.py" in " ".join(getattr(raised.value, "__notes__", ())) or "no row" in message


@pytest.mark.parametrize("before", [True, False])
def test_a_tensor_from_outside_is_an_input(before: bool) -> None:
    t = dt.constant(Y)
    f = dt.function(lambda x: np.sum(x**2 * t**3))
    if before:
        agree(f(X), np.sum(X**2 * Y**3))
    with dt.GradientTape() as outer:
        outer.watch(t)
        with dt.GradientTape() as tape:
            tape.watch(t)
            y = f(X)
        g = tape.gradient(y, t)
    agree(g, 3 * X**2 * Y**2)
    agree(outer.gradient(g, t), 6 * X**2 * Y)
    with dt.ForwardAccumulator(t, np.ones(4)) as accumulator:
        y = f(X)
    agree(accumulator.jvp(y), np.sum(3 * X**2 * Y**2))
    agree(dt.grad(f)(X), 2 * X * Y**3)
    agree(dt.grad(lambda s: dt.function(lambda x: np.sum(x * np.exp(s)))(X))(Y), X * np.exp(Y))


def test_a_name_outside_may_come_to_stand_for_another_tensor() -> None:
    w = dt.constant(np.ones(4))
    f = dt.function(lambda x: np.sum(x * w))
    for _ in range(3):
        agree(f(X), float(np.sum(X * w.numpy())))
        w = w * 2.0
    w[0] = 7.0  # or be written into
    agree(f(X), float(np.sum(X * w.numpy())))
    w = dt.constant(np.ones((4, 1)))
    agree(f(X), float(np.sum(X * w.numpy())))


def test_random_numbers_from_elsewhere_are_told() -> None:
    rng = np.random.default_rng(0)
    for f, whose in ((lambda x: x + np.random.normal(), "global"), (lambda x: x + rng.normal(), "'rng' from outside")):
        with pytest.warns(UserWarning, match=whose):
            dt.function(f)(X)


def test_tensors_that_share_a_value_are_told_apart() -> None:
    t = dt.constant(Y)
    stopped = dt.stop_gradient(t)
    f = dt.function(lambda x: np.sum(x * t * stopped))
    with dt.GradientTape() as tape:
        tape.watch(t)
        y = f(X)
    agree(tape.gradient(y, t), X * Y)


def test_a_value_that_is_kept_is_refused_later() -> None:
    kept: list[Any] = []
    dt.function(lambda x: (kept.append(x), x * 2)[1])(X)
    with pytest.raises(Refused, match="return it instead"):
        kept[0] + 1


def test_random_numbers_are_drawn_from_a_generator_among_the_arguments() -> None:
    @dt.function
    def noisy(x: Any, rng: Any) -> Any:
        if np.sum(x) > 0:
            x = -x
        return x + rng.normal(size=4)

    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for x in (X, Y, np.abs(X), -np.abs(X), X):
        agree(noisy(x, ours), (-x if np.sum(x) > 0 else x) + theirs.normal(size=4))


def test_a_change_of_what_it_depends_on_besides_is_noticed_when_it_is_traced_again() -> None:
    k = [2.0]
    f = dt.function(lambda x: x * k[0] if np.sum(x) > 0 else x + k[0])
    agree(f(np.ones(2)), 2 * np.ones(2))
    k[0] = 3.0
    agree(f(-np.ones(2)), 2 * np.ones(2))
    assert f.trace_count == 1


def test_a_way_of_a_thousand_questions_is_a_program_like_any_other() -> None:
    def f(x: Any) -> Any:
        for _ in range(1500):
            x = x * 1.001 if np.sum(x) > 0 else x * 0.5
        return np.sum(x)

    traced, x = dt.function(f), np.ones(3)
    assert traced(x) == traced(x) == f(x)
    assert np.array_equal(dt.grad(traced)(x), dt.grad(f)(x))
    assert traced(-x) == f(-x)
    assert dt.inspect.performed(f, x).work.mults == 4500
