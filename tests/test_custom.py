"""Functions with rules of their own, and checkpoint: their surface, and their derivatives in every nesting.

Length: every way of giving rules goes through the same tests.
"""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads

X = np.array([0.3, -0.4, 1.2])


# ------------------------------------------------------------------ one function, every way to give it a rule
def plain(x: Any, y: Any) -> Any:
    """exp(x) sin(y): its derivatives read inputs and outputs."""
    return np.exp(x) * np.sin(y)


@dt.custom_gradient
def by_gradient(x: Any, y: Any) -> Any:
    e, s = np.exp(x), np.sin(y)
    out = e * s
    return out, lambda g: (g * np.conj(out), g * np.conj(e * np.cos(y)))


@dt.custom_jvp
def by_jvp(x: Any, y: Any) -> Any:
    return np.exp(np.asarray(x)) * np.sin(np.asarray(y))  # nobody follows the arguments in here


def jvp_rule(primals: Any, tangents: Any) -> Any:
    (x, y), (t, s) = primals, tangents
    out = by_jvp(x, y)
    return out, t * out + s * np.exp(x) * np.cos(y)


by_jvp.defjvp(jvp_rule)


@dt.custom_vjp
def by_vjp(x: Any, y: Any) -> Any:
    return np.exp(np.asarray(x)) * np.sin(np.asarray(y))


def fwd_rule(x: Any, y: Any) -> Any:
    out = by_vjp(x, y)
    return out, (x, y, out)


def bwd_rule(kept: Any, g: Any) -> Any:
    x, y, out = kept
    return g * np.conj(out), g * np.conj(np.exp(x) * np.cos(y))


by_vjp.defvjp(fwd_rule, bwd_rule)


@dt.custom_vjp
@dt.custom_jvp
def by_both(x: Any, y: Any) -> Any:
    return plain(x, y)


by_both.defjvp(jvp_rule)
by_both.defvjp(fwd_rule, bwd_rule)

checkpointed = dt.checkpoint(plain)
twice_checkpointed = dt.checkpoint(lambda x, y: dt.checkpoint(np.exp)(x) * dt.checkpoint(np.sin)(y))
inside_checkpoint = dt.checkpoint(lambda x, y: by_gradient(x, y) * 0.5 + by_vjp(x, y) * 0.25 + by_jvp(x, y) * 0.25)

WAYS: dict[str, Callable[..., Any]] = {
    "custom_gradient": by_gradient,
    "custom_jvp": by_jvp,
    "custom_vjp": by_vjp,
    "custom_jvp and custom_vjp": by_both,
    "checkpoint": checkpointed,
    "checkpoint of checkpoints": twice_checkpointed,
    "checkpoint of custom functions": inside_checkpoint,
}
WORDS = ["".join(word) for n in (1, 2, 3) for word in itertools.product("fr", repeat=n)]


def derivative(f: Callable[..., Any], word: str) -> Callable[[Any], Any]:
    """The derivative of a scalar function of a scalar, outermost mode first."""
    for mode in reversed(word):
        f = dt.grad(f) if mode == "r" else partial(lambda f, x: dt.jvp(f, (x,), (1.0,))[1], f)
    return f


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_agrees_with_the_plain_function_in_every_nesting(way: str, word: str) -> None:
    f = WAYS[way]
    z = 0.4
    for g in (
        lambda h, x: h(x, z) * x,  # a constant argument
        lambda h, x: h(z, x),
        lambda h, x: h(x, x * x),  # both, one of them computed
        lambda h, x: h(h(x, x), h(x, z)),  # functions of results
    ):
        expected = derivative(partial(g, plain), word)(0.7)
        assert float(derivative(partial(g, f), word)(0.7)) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_passes_the_harness_on_arrays(way: str) -> None:
    check_grads(WAYS[way], (X, X + 1))
    check_grads(WAYS[way], (X, X[:1]) if way == "checkpoint" else (X, X - 0.5))


@pytest.mark.parametrize("word", WORDS)
def test_a_wrong_rule_is_obeyed_in_every_nesting(word: str) -> None:
    """The rules say that the derivative of x is cos(x): all derivatives follow that, in both modes."""

    @dt.custom_gradient
    def reverse(x: Any) -> Any:
        return x * 1.0, lambda g: g * np.cos(x)

    @dt.custom_vjp
    def vjp(x: Any) -> Any:
        return x * 1.0

    vjp.defvjp(lambda x: (vjp(x), x), lambda x, g: (g * np.cos(x),))

    @dt.custom_jvp
    def forward(x: Any) -> Any:
        return x * 1.0

    forward.defjvp(lambda primals, tangents: (primals[0], tangents[0] * np.cos(primals[0])))
    expected = {1: np.cos(0.7), 2: -np.sin(0.7), 3: -np.cos(0.7)}[len(word)]
    for f in (reverse, vjp, forward):
        assert float(f(0.7)) == 0.7
        assert float(derivative(f, word)(0.7)) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_tapes_and_accumulators_differentiate_them(way: str) -> None:
    f = WAYS[way]
    x, y = dt.constant(X), dt.constant(X + 1)
    slope = np.exp(X) * np.sin(X + 1), np.exp(X) * np.cos(X + 1)
    with dt.GradientTape() as tape, dt.ForwardAccumulator([x, y], [np.ones(3), np.ones(3)]) as acc:
        tape.watch([x, y])
        z = f(x, y)
    assert np.allclose(acc.jvp(z), slope[0] + slope[1], rtol=1e-14)
    for found, expected in zip(tape.gradient(z, [x, y]), slope, strict=True):
        assert np.allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("way", WAYS)
def test_without_a_recorder_they_are_plain_functions(way: str) -> None:
    z = WAYS[way](X, X)
    assert isinstance(z, dt.Tensor)
    assert np.allclose(z, plain(X, X), rtol=1e-15)
    assert WAYS[way].__wrapped__ is not None


@pytest.mark.parametrize("way", WAYS)
def test_a_persistent_tape_gives_the_same_twice(way: str) -> None:
    x = dt.constant(X)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        z = WAYS[way](x, x)
        g = tape.gradient(z, x)  # inside its own context: recorded
    assert np.array_equal(tape.gradient(z, x), g)
    second = derivative(lambda x: plain(x, x), "rr")
    assert np.allclose(tape.gradient(g, x), [float(second(v)) for v in X], rtol=1e-13)


@pytest.mark.parametrize("way", WAYS)
def test_complex_arguments(way: str) -> None:
    z = np.array([0.3 + 0.2j, -0.1 + 0.5j])
    check_grads(WAYS[way], (z, z * 1j))
    check_grads(lambda x: np.real(WAYS[way](x + 0j, z)), (np.array([0.1, 0.2]),))


@pytest.mark.parametrize("way", WAYS)
def test_single_precision_stays(way: str) -> None:
    x = X.astype(np.float32)
    value, g = dt.vjp(WAYS[way], x, x)
    assert value.dtype == np.float32
    assert [c.dtype for c in g(value)] == [np.float32] * 2
    assert dt.jvp(WAYS[way], (x, x), (x, x))[1].dtype == np.float32


# ------------------------------------------------------------------ custom_gradient
def test_structures_keywords_and_numpy_inputs() -> None:
    @dt.custom_gradient
    def f(p: dict[str, Any], pair: list[Any], *, scale: float = 1.0) -> Any:
        assert isinstance(pair[1], dt.Tensor)
        a, (b, c) = p["a"], pair

        def grad(g: Any, h: Any) -> Any:
            return {"a": scale * g * b}, [scale * g * a, h]

        return {"product": scale * a * b, "c": c}, grad

    a, b, c = dt.constant(2.0), dt.constant(3.0), np.array([4.0, 5.0])
    with dt.GradientTape() as tape:
        tape.watch([a, b])
        out = f({"a": a}, [b, c], scale=10.0)
    assert [float(g) for g in tape.gradient(out["product"], [a, b])] == [30.0, 20.0]
    assert np.array_equal(out["c"], c)


def test_gradients_may_be_flat_and_absent() -> None:
    @dt.custom_gradient
    def f(x: Any, rest: Any, n: int) -> Any:
        return x * rest[0] * n, lambda g: [g * rest[0] * n, None, g, None]

    x, y = dt.constant(2.0), dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = f(x, [y, 7.0], 2)
    assert float(tape.gradient(z, x)) == 6.0
    assert tape.gradient(z, y) is None
    assert float(tape.gradient(z, y, unconnected_gradients="zero")) == 0.0


def test_methods() -> None:
    class Model:
        scale = 3.0

        @dt.custom_gradient
        def gradient(self, x: Any) -> Any:
            return self.scale * x, lambda g: g * 100.0

        @partial(dt.custom_vjp, nondiff_argnums=(0,))
        def vjp(self, x: Any) -> Any:
            return self.scale * x

        vjp.defvjp(lambda self, x: (self.scale * x, None), lambda self, kept, g: (g * self.scale * 10,))

        @dt.checkpoint
        def checkpointed(self, x: Any) -> Any:
            return self.scale * x

    model = Model()
    assert float(dt.grad(model.gradient)(2.0)) == 100.0
    assert float(dt.grad(model.vjp)(2.0)) == 30.0
    assert float(dt.grad(model.checkpointed)(2.0)) == 3.0
    assert float(model.gradient(2.0)) == 6.0


def test_several_results_of_which_some_are_used() -> None:
    @dt.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any, h: Any, k: Any) -> Any:
            assert g.shape == h.shape == ()
            assert k.dtype == np.int64
            return 2 * g + 100 * h

        return (2 * x, 100 * x, np.int64(3)), grad

    assert float(dt.grad(lambda x: f(x)[0])(1.0)) == 2.0
    assert float(dt.grad(lambda x: f(x)[1])(1.0)) == 100.0
    assert float(dt.grad(lambda x: f(x)[0] * f(x)[1])(1.0)) == 400.0
    assert [float(t) for t in dt.jvp(f, (1.0,), (1.0,))[1]] == [2.0, 100.0, 0.0]


def test_the_gradient_function_may_contain_custom_functions() -> None:
    @dt.custom_gradient
    def slope(x: Any) -> Any:
        return np.cos(x), lambda g: g * 1000.0

    @dt.custom_gradient
    def f(x: Any) -> Any:
        return np.sin(x), lambda g: g * slope(x)

    for word in ("rr", "fr", "rf", "ff"):
        assert float(derivative(f, word)(0.3)) == 1000.0


def test_the_body_runs_once() -> None:
    calls: list[int] = []

    @dt.custom_gradient
    def f(x: Any) -> Any:
        calls.append(1)
        return x * x, lambda g: 2 * g * x

    assert float(dt.grad(dt.grad(f))(3.0)) == 2.0
    assert len(calls) == 1


def test_variables_need_the_keyword() -> None:
    v, w = dt.Variable(2.0, name="v"), dt.Variable(3.0, name="w")

    @dt.custom_gradient
    def f(x: Any) -> Any:
        def grad(g: Any, variables: Any = None) -> Any:
            assert variables == [v, w] if variables is not None else True
            return g * v * w, [g * x * w * 10, g * x * v * 10]

        return x * w * v, grad

    x = dt.constant(5.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    assert tape.watched_variables() == (v, w)
    assert [float(g) for g in tape.gradient(y, [x, v, w])] == [6.0, 150.0, 100.0]

    @dt.custom_gradient
    def g(x: Any) -> Any:
        return x * v, lambda g: g * v

    with pytest.raises(TypeError, match=r"g reads the Variables 'v'.*variables="):
        g(x)

    @dt.custom_gradient
    def as_an_argument(u: Any) -> Any:
        return u * 2.0, lambda g: g * 7.0

    with dt.GradientTape() as tape:
        y = as_an_argument(v)
    assert float(tape.gradient(y, v)) == 7.0


@pytest.mark.parametrize(
    ("returned", "error", "says"),
    [
        (lambda x: (x, lambda g: (g, g)), ValueError, r"returned 2 gradient\(s\) for 1 argument"),
        (lambda x: (x, lambda g: ()), ValueError, r"returned 0 gradient\(s\) for 1 argument"),
        (lambda x: (x, lambda g: np.ones(5)), ValueError, r"gradient 0 has shape \(5,\), but must have shape \(3,\)"),
        (lambda x: x, TypeError, r"returns a pair \(y, grad_fn\)"),
        (lambda x: (x, x), TypeError, r"returns a pair \(y, grad_fn\)"),
    ],
)
def test_what_a_gradient_function_returns_is_checked(returned: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        dt.grad(lambda x: np.sum(dt.custom_gradient(returned)(x)))(X)


def test_an_exception_in_a_rule_surfaces_and_leaves_the_stack_in_order() -> None:
    def fails(g: Any) -> Any:
        raise ZeroDivisionError

    f = dt.custom_gradient(lambda x: (x * 1.0, fails))
    x = dt.constant(1.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
        z = x * x
    with pytest.raises(ZeroDivisionError):
        tape.gradient(y, x)
    with dt.GradientTape() as tape, dt.ForwardAccumulator(x, 1.0):
        tape.watch(x)
        with pytest.raises(ZeroDivisionError):
            f(x)
        z = x * x
    assert float(tape.gradient(z, x)) == 2.0


# ------------------------------------------------------------------ custom_jvp, custom_vjp
def test_a_function_without_a_rule_says_so() -> None:
    with pytest.raises(TypeError, match=r"f has no rule yet: set one with f\.defjvp or f\.defvjp"):

        @dt.custom_jvp
        def f(x: Any) -> Any:
            return x

        f(1.0)
    with pytest.raises(TypeError, match="takes a function first"):
        dt.custom_jvp(3)
    with pytest.raises(TypeError, match="takes a function first"):
        f.defvjp(lambda x: (x, None), 3)


def test_arguments_that_are_not_differentiated() -> None:
    @partial(dt.custom_jvp, nondiff_argnums=(0, -1))
    def apply(f: Any, x: Any, n: int) -> Any:
        return f(x) * n

    def rule(f: Any, n: int, primals: Any, tangents: Any) -> Any:
        return dt.jvp(lambda x: f(x) * n, primals, tangents)

    apply.defjvp(rule)
    assert float(dt.grad(lambda x: apply(np.sin, x, 3))(0.0)) == 3.0
    assert float(dt.grad(lambda x: apply(np.sin, x=x, n=3))(0.0)) == 3.0
    assert float(dt.jvp(lambda x: apply(np.exp, x, 2), (0.0,), (1.0,))[1]) == 2.0


class Pair(NamedTuple):
    left: Any
    right: Any


def test_rules_take_and_return_structures() -> None:
    @dt.custom_jvp
    def f(p: Pair, axis: int) -> Any:
        return {"sum": p.left + p.right, "count": axis}

    def rule(primals: Any, tangents: Any) -> Any:
        (p, axis), (t, _) = primals, tangents
        return f(p, axis), {"sum": t.left + 10 * t.right, "count": None}

    f.defjvp(rule)
    value, tangent = dt.jvp(lambda p: f(p, 2), (Pair(1.0, X),), (Pair(1.0, X),))
    assert np.allclose(tangent["sum"], 1 + 10 * X)
    assert value["count"] == 2
    g = dt.grad(lambda p: np.sum(f(p, 2)["sum"]))(Pair(1.0, X))
    assert float(g.left) == 3.0
    assert np.array_equal(g.right, [10.0, 10.0, 10.0])

    @dt.custom_vjp
    def h(p: dict[str, Any], q: Any) -> Any:
        return p["a"] * q, p["b"]

    h.defvjp(lambda p, q: ((p["a"] * q, p["b"]), (p, q)), lambda kept, g: ({"a": g[0] * kept[1], "b": 5 * g[1]}, None))
    g = dt.grad(lambda p: sum(h(p, 3.0)))({"a": 1.0, "b": 2.0})
    assert (float(g["a"]), float(g["b"])) == (3.0, 5.0)
    g = dt.grad(lambda q: sum(h({"a": 1.0, "b": 2.0}, q)))(3.0)
    assert float(g) == 0.0


def test_a_tensor_taken_from_outside_is_an_error() -> None:
    """Otherwise its derivative would be lost without a word."""

    def through(x: Any) -> Any:
        @dt.custom_jvp
        def f(y: Any) -> Any:
            return x * y

        f.defjvp(lambda primals, tangents: (f(*primals), x * tangents[0]))
        return f(x + 1.0)

    with pytest.raises(TypeError, match=r"f uses a Tensor \(\) from outside.*make it an argument.*stop_gradient"):
        dt.grad(through)(2.0)
    v = dt.Variable(3.0)
    f = dt.custom_vjp(lambda x: x * v)
    f.defvjp(lambda x: (x * v, None), lambda kept, g: (g,))
    x = dt.constant(1.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(TypeError, match="from outside"):
            f(x)
    assert float(f(x)) == 3.0


def test_custom_gradient_does_not_lose_a_tensor_taken_from_outside() -> None:
    """Its gradient was None, under grad 0, without a word."""
    c = dt.constant(2.0)
    v = dt.Variable(5.0, trainable=False)
    bodies: list[Callable[[Any], Any]] = [lambda x: x * c, lambda x: c, lambda x: x + np.exp(c) * 0, lambda x: x * v]
    for body in bodies:
        f = dt.custom_gradient(lambda x, body=body: (body(x), lambda g: g))
        with dt.GradientTape() as tape:
            tape.watch([c, v])
            with pytest.raises(TypeError, match=r"custom_gradient: .* uses .* \(\) from outside.*stop_gradient"):
                f(dt.constant(3.0))
            with pytest.raises(TypeError, match="from outside"):
                f(c * 1.0)
        with pytest.raises(TypeError, match="from outside"), dt.ForwardAccumulator([c, v], [1.0, 1.0]):
            f(dt.constant(3.0))
        f(dt.constant(3.0))

    @dt.custom_gradient
    def allowed(x: Any, y: Any) -> Any:
        kept = dt.stop_gradient(c)
        return x * kept + y, lambda g: (g * c * 10.0, g)  # what grad_fn reads is differentiated as it stands

    with dt.GradientTape() as outer:
        outer.watch(c)
        with dt.GradientTape() as tape:
            x = dt.constant(3.0)
            tape.watch([x, c])
            y = allowed(x, c)
        slope, by_c = tape.gradient(y, [x, c])
    assert float(slope) == 20.0 and float(by_c) == 1.0
    assert float(outer.gradient(slope, c)) == 10.0


def test_first_derivatives_run_fwd_once() -> None:
    calls: list[str] = []
    f = dt.custom_vjp(lambda x: calls.append("f") or x * x)
    f.defvjp(lambda x: (calls.append("fwd") or x * x, x), lambda x, g: (calls.append("bwd") or 2 * g * x,))
    assert float(dt.grad(f)(3.0)) == 6.0
    assert calls == ["fwd", "bwd"]


@pytest.mark.parametrize(
    ("bwd", "says"),
    [
        (lambda kept, g: (g, g, g), r"f: bwd returned 3 gradient\(s\) for 2 argument"),
        (lambda kept, g: g, r"f: bwd returned 1 gradient\(s\) for 2 argument"),
        (lambda kept, g: (np.ones(2), g), r"f: gradient 0 has shape \(2,\), but must have shape \(3,\)"),
    ],
)
def test_what_bwd_returns_is_checked(bwd: Any, says: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y

    f = dt.custom_vjp(f)
    f.defvjp(lambda x, y: (x * y, None), bwd)
    with pytest.raises(ValueError, match=says):
        dt.grad(lambda x: np.sum(f(x, x)))(X)


def test_the_tangent_a_rule_returns_is_checked() -> None:
    @dt.custom_jvp
    def f(x: Any) -> Any:
        return x * 1.0

    f.defjvp(lambda primals, tangents: (primals[0], np.ones(7)))
    with pytest.raises(ValueError, match=r"f: tangent 0 has shape \(7,\), but must have shape \(3,\)"):
        dt.jvp(f, (X,), (X,))
    f.defjvp(lambda primals, tangents: tangents[0])
    with pytest.raises(TypeError, match=r"f: the rule returns \(value, tangent\).*got Tensor"):
        dt.jvp(f, (X,), (X,))


# ------------------------------------------------------------------ checkpoint
def test_checkpoint_keeps_its_arguments_alone() -> None:
    x = dt.constant(np.ones(100))

    def f(x: Any) -> Any:
        for _ in range(50):
            x = np.sin(np.exp(-x * x))
        return x

    def kept(g: Callable[..., Any]) -> tuple[int, int]:
        with dt.GradientTape() as tape:
            tape.watch(x)
            g(x)
        return tape.nbytes, len(tape)

    assert kept(dt.checkpoint(f)) == (800, 1)
    assert kept(f)[0] > 100_000
    gc.disable()
    try:
        intermediate: list[Any] = []

        def spying(x: Any) -> Any:
            y = np.exp(x)
            intermediate.append(weakref.ref(y._node.value))
            return y * y

        with dt.GradientTape() as tape:
            tape.watch(x)
            out = dt.checkpoint(spying)(x)
        assert intermediate[0]() is None
        value = weakref.ref(out._node.value)
        del out
        assert value() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("word", WORDS)
def test_checkpoint_differentiates_what_its_function_takes_from_outside(word: str) -> None:
    def with_closure(wrap: Callable[..., Any], x: Any) -> Any:
        a = np.sin(x)
        return wrap(lambda y: np.exp(a * y) * x)(x * x) + wrap(lambda: np.cos(a))() + wrap(lambda y: a)(2.0)

    expected = derivative(partial(with_closure, lambda f: f), word)(0.7)
    found = derivative(partial(with_closure, dt.checkpoint), word)(0.7)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)
    within = derivative(lambda x: dt.checkpoint(partial(with_closure, dt.checkpoint))(x), word)(0.7)
    assert float(within) == pytest.approx(float(expected), rel=1e-12)


def test_checkpoint_and_variables() -> None:
    v, frozen = dt.Variable(2.0), dt.Variable(5.0, trainable=False)
    count = dt.Variable(0.0, trainable=False)
    x = dt.constant(3.0)

    @dt.checkpoint
    def f(x: Any, factor: float = 1.0) -> Any:
        count.assign_add(1.0)
        return factor * v**2 * x * frozen

    with dt.GradientTape(persistent=True) as tape, dt.ForwardAccumulator(v, 1.0) as acc:
        tape.watch(x)
        y = f(x, factor=10.0)
        v.assign(100.0)  # the sweep uses the value that was read
    assert tape.watched_variables() == (v,)
    assert [float(g) for g in tape.gradient(y, [x, v])] == [200.0, 600.0]
    assert float(acc.jvp(y)) == 600.0
    assert float(v) == 100.0
    with dt.GradientTape(persistent=True) as outer:
        v.assign(2.0)
        with dt.GradientTape() as inner:
            y = f(v)
        g = inner.gradient(y, v)
    assert float(g) == pytest.approx(3 * 4 * 5)
    assert float(outer.gradient(g, v)) == pytest.approx(6 * 2 * 5)


def test_checkpoint_is_not_disturbed_by_later_changes_of_its_arguments() -> None:
    index, x = np.array([0, 1]), dt.constant([1.0, 2.0, 3.0])
    y = x * 2.0
    with dt.GradientTape() as tape:
        tape.watch(y)
        watched = y.copy()
        z = dt.checkpoint(lambda y, i: np.sum(y[i] ** 2))(watched, index)
        index[:] = 2
        watched[0] = 50.0
    assert np.array_equal(tape.gradient(z, y), [4.0, 8.0, 0.0])


def test_a_conversion_inside_checkpoint_is_an_error() -> None:
    with pytest.raises(TypeError, match="would lose its derivative"):
        dt.grad(dt.checkpoint(lambda x: x * float(x)))(2.0)


def test_checkpoint_costs_nothing_for_what_is_constant() -> None:
    data = np.ones((3, 3))
    seen: list[str] = []

    @dt.custom_gradient
    def product(a: Any, b: Any) -> Any:
        return a @ b, lambda g: (seen.append("a") or np.outer(g, b), a.T @ g)

    f = dt.checkpoint(lambda a, b: np.sum(a @ b))
    assert np.array_equal(dt.grad(f, 1)(data, X), [3.0, 3.0, 3.0])
    with dt.GradientTape() as tape:
        x = dt.constant(X)
        tape.watch(x)
        y = f(data, x)
    assert tape.nbytes == x.nbytes
    assert np.array_equal(tape.gradient(y, x), [3.0, 3.0, 3.0])


# ------------------------------------------------------------------ stop_gradient
def test_stop_gradient_cuts_in_both_modes() -> None:
    f = lambda x: x * dt.stop_gradient({"a": x * x})["a"]  # noqa: E731
    assert float(dt.grad(f)(3.0)) == 9.0
    assert float(dt.jvp(f, (3.0,), (1.0,))[1]) == 9.0
    x = dt.constant(3.0)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = dt.stop_gradient(x)
    assert tape.gradient(y, x) is None
    assert "'stop_gradient'" in tape.why(y, x)


@pytest.mark.parametrize(
    "rule",
    [
        lambda g: np.clip(g, -0.5, 0.5),
        lambda g: g / np.maximum(np.sqrt(np.sum(g * g)), 1e-3),
        np.sign,
        lambda g: dt.stop_gradient(g * 3.0),
        lambda g: (g.numpy() if isinstance(g, dt.Tensor) else g) * 2.0,
    ],
)
def test_a_rule_that_has_no_transpose_is_not_transposed(rule: Any) -> None:
    """Forward mode would silently be zero, or anything; the reverse rule is used as it stands."""

    @dt.custom_gradient
    def f(x: Any) -> Any:
        return x * 1.0, rule

    x, v = np.array([0.3, -0.2, 0.9]), np.array([0.1, 0.2, -0.1])
    assert np.allclose(dt.vjp(f, x)[1](v)[0], np.asarray(rule(v)))
    with pytest.raises(ValueError, match="no transpose"):
        dt.jvp(f, (x,), (v,))
    with pytest.raises(ValueError, match="no transpose"):
        dt.hvp(lambda x: np.sum(f(x) ** 2), x, v)
