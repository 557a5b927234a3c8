"""Nodes inside, handles outside: whoever writes into what he gave or was given changes nothing else.

Each place gives handles out, then all of them and those that went in are written into, and what the place gives
afterwards must be what it gave before.

Length: a table of places, of readers of arrays and of readers of parameters, with the tests of each kind beside it.
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import dualtape as dt

X = np.array([1.5, 2.5, 3.25, 4.0])

WAYS: dict[str, Callable[[Any], Any]] = {
    "in place": lambda t: t.__imul__(0.0),
    "an element": lambda t: t.__setitem__(0, 77.0),
    "all": lambda t: t.__setitem__(..., -3.0),
    "through a view": lambda t: t[1:].__imul__(9.0),
    "out": lambda t: np.add(t, 100.0, out=t),
}


# A place: given a tape around it (or none) and a Tensor, what went in, what came out, and how to get that again.
Place = tuple[list[Any], list[Any], Callable[[], list[Any]]]
PLACES: dict[str, Callable[[Any], Place]] = {}


def place(f: Callable[[Any], Place]) -> Callable[[Any], Place]:
    PLACES[f.__name__] = f
    return f


def once(given: list[Any], run: Callable[[], list[Any]]) -> Place:
    return given, run(), run


def same(t: Any) -> Any:
    """Another handle on what ``t`` is now, to ask by after ``t`` was written into."""
    return copy.copy(t)


def leaves(structure: Any) -> list[Any]:
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in leaves(part)]
    return [structure]


@place
def gradients_that_are_one_cotangent(x: Any) -> Place:
    a, b = x * 1.0, x * 2.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch([a, b])
        y = (a + b) * x
    return once([], lambda: leaves(tape.gradient(y, [a, b])))


@place
def gradient_that_is_the_cotangent_given(x: Any) -> Place:
    a, g = x * 1.0, x * 3.0
    kept = x * 3.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y = a + 1.0
    asked = same(y)
    first = tape.gradient(asked, [a, asked], output_gradients=g)
    return [g, y], first, lambda: leaves(tape.gradient(asked, [a, asked], output_gradients=kept))


@place
def jacobians(x: Any) -> Place:
    a = x * 1.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y = a * x
    return once([], lambda: [tape.jacobian(y, a)])


@place
def batch_jacobians(x: Any) -> Place:
    a = np.reshape(x * 1.0, (2, 2))
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y = a * a
    return once([], lambda: [tape.batch_jacobian(y, a)])


@place
def tangents_handed_out(x: Any) -> Place:
    a = x * 1.0
    with dt.ForwardAccumulator(a, x * 2.0) as acc:
        y = a * a
        z = y + 1.0
    return once([y * 1.0, z * 1.0], lambda: leaves([acc.jvp(y), acc.jvp(z), acc.jvp(a)]))


@place
def tangents_handed_in(x: Any) -> Place:
    a, t = x * 1.0, x * 2.0
    acc = dt.ForwardAccumulator(a, t)

    def again() -> list[Any]:
        with acc:
            return [acc.jvp(a * a)]

    return [t], again(), again


@place
def batches_of_tangents(x: Any) -> Place:
    a, t = x * 1.0, np.outer([1.0, 2.0, 3.0], X) * x
    with dt.ForwardAccumulator(a, t, batch=True) as acc:
        y = a * a
    return once([t], lambda: leaves([acc.jvp(y), acc.jvp(a)]))


@place
def tangents_of_an_object_array(x: Any) -> Place:
    a = x * 1.0
    with dt.ForwardAccumulator(a, x * 2.0) as acc:
        y = np.array([a[0] * 2.0, a[1], 5.0])
    return once([], lambda: [acc.jvp(y)])


@place
def pullbacks(x: Any) -> Place:
    g = x * 2.0
    kept = x * 2.0
    _, pull = dt.vjp(lambda a, b: (a + b) * 1.0, x * 1.0, x * 3.0)
    return [g], leaves(pull(g)), lambda: leaves(pull(kept))


@place
def pushes(x: Any) -> Place:
    t = x * 2.0
    kept = x * 2.0
    _, push = dt.linearize(lambda a: (a + 1.0, a + 2.0), x * 1.0)
    return [t], leaves(push(t)), lambda: leaves(push(kept))


@place
def examples_that_are_the_argument(x: Any) -> Place:
    z, kept = np.outer(x, X), np.outer(x, X)
    run = lambda z: leaves(dt.vmap(lambda a: (a, a, a[:2]))(z))  # noqa: E731
    return [z], run(z), lambda: run(kept)


@place
def arguments_that_all_examples_share(x: Any) -> Place:
    w, z = x * 1.0, np.outer(x, X)

    def f(a: Any, w: Any) -> Any:
        w *= 2.0
        a *= 3.0
        return a + w, w

    return once([], lambda: [*leaves(dt.vmap(f, in_axes=(0, None))(z, w)), w * 1.0, z * 1.0])


@place
def examples_one_after_the_other(x: Any) -> Place:
    w, z = x * 1.0, np.outer(x, X)

    def f(a: Any, w: Any) -> Any:
        w *= 2.0
        a *= 3.0 if float(np.sum(np.ones(4))) and bool(a[0] > 2.0) else 4.0  # a branch: once for each
        return a + w

    return once([], lambda: [dt.vmap(f, in_axes=(0, None))(z, w), w * 1.0, z * 1.0])


@place
def a_rule_of_custom_gradient(x: Any) -> Place:
    kept: list[Any] = []

    @dt.custom_gradient
    def double(a: Any) -> Any:
        a *= 2.0

        def back(g: Any) -> Any:
            kept.append(g)
            g *= 2.0
            return g

        return a, back

    a = x * 1.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = a * 1.0
        y = double(b) + b
    asked = same(y)
    return [y, kept], leaves(tape.gradient(asked, [a, b])), lambda: leaves(tape.gradient(asked, [a, b]))


@place
def a_rule_of_custom_vjp(x: Any) -> Place:
    stash: list[Any] = []

    @dt.custom_vjp
    def f(a: Any) -> Any:
        return a * a

    def fwd(a: Any) -> Any:
        stash.append(a)
        twice = 2.0 * a
        stash.append(twice)
        return a * a, (twice, np.ones(4))

    def bwd(kept: Any, g: Any) -> Any:
        twice, _ = kept
        twice *= g
        g *= 0.0
        stash.append(twice)
        return (twice,)

    f.defvjp(fwd, bwd)
    a = x * 1.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = a * 1.0
        y = f(b) + b
    asked = same(y)
    return [y, stash], leaves(tape.gradient(asked, [a, b])), lambda: leaves(tape.gradient(asked, [a, b]))


@place
def a_rule_of_custom_jvp(x: Any) -> Place:
    @dt.custom_jvp
    def f(a: Any) -> Any:
        return a * a

    def rule(primals: Any, tangents: Any) -> Any:
        (a,), (t,) = primals, tangents
        t *= 2.0 * a
        a *= a
        return a, t

    f.defjvp(rule)
    a = x * 1.0

    def again() -> list[Any]:
        t = x * 2.0
        with dt.ForwardAccumulator(a, t) as acc:
            b = a + 0.0
            y, z = f(b), f(b)
        with dt.GradientTape() as tape:
            tape.watch(a)
            c = f(a)
        return leaves([acc.jvp([y, z, b, a]), tape.gradient(c, a), t * 1.0])

    return once([], again)


@place
def a_checkpointed_function(x: Any) -> Place:
    c = x * 4.0

    @dt.checkpoint
    def f(a: Any, c: Any) -> Any:
        a *= 2.0
        c += a
        return a * c, c

    a = x * 1.0
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = a * 1.0
        y, z = f(b, c)
    asked, sources = [same(y), same(z)], [a, same(b)]
    return [y, z, c, b], leaves(tape.gradient(asked, sources)), lambda: leaves(tape.gradient(asked, sources))


@place
def an_operation_told_by_hand(x: Any) -> Place:
    a = x * 1.0

    def back(g: Any) -> Any:
        g *= 3.0
        return [g]

    with dt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        b = a * 1.0
        y = dt.constant(X * 3.0)
        dt.record_operation("threefold", [y], [b], back)
        z = y + b
    return once([], lambda: leaves(tape.gradient(z, [a, b, y])))


@place
def a_loop(x: Any) -> Place:
    z = x * 1.0

    def body(k: Any, a: Any, b: Any) -> Any:
        a *= 2.0
        return k + 1, a, a

    def again() -> list[Any]:
        _, a, b = dt.while_loop(lambda k, a, b: k < 2, body, (0, z, z))
        return [a, b, z * 1.0]

    return once([], again)


@place
def branches(x: Any) -> Place:
    z = x * 1.0
    return once(
        [],
        lambda: [
            dt.cond(True, lambda: z, lambda: z),
            dt.case([(True, lambda: z)]),
            *dt.switch_case(0, [lambda: (z, z)]),
            z * 1.0,
        ],
    )


@place
def slices(x: Any) -> Place:
    v = x * 1.0
    kept = dt.IndexedSlices(v, [2, 0, 1, 3], (4,))
    return [v], [kept.values, dt.convert_to_tensor(kept)], lambda: [kept.values, dt.convert_to_tensor(kept)]


@place
def a_variable(x: Any) -> Place:
    t = x * 1.0
    v = dt.Variable(t)
    w = dt.Variable(X)
    w.assign(t)
    again = lambda: [v.value(), w.value(), v.read_value(), v + 0.0, dt.constant(v), dt.copy(w)]  # noqa: E731
    return [t], again(), again


@place
def constants(x: Any) -> Place:
    t = x * 1.0
    made = lambda t: [  # noqa: E731
        dt.constant(t),
        dt.identity(t),
        dt.copy(t),
        dt.stop_gradient(t),
        copy.copy(t),
        dt.grad_pass_through(lambda a: a)(t),
        copy.deepcopy(t),
    ]
    kept = x * 1.0
    return [t], made(t), lambda: made(kept)


def write(target: Any, way: str) -> None:
    """Write into a Tensor, or into all of a list."""
    if isinstance(target, list):
        for t in target:
            write(t, way)
        return
    WAYS[way](target)


def values(found: list[Any]) -> list[Any]:
    return [None if t is None else np.array(t.numpy()) for t in found]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("recording", [False, True], ids=["alone", "under a tape"])
@pytest.mark.parametrize("name", PLACES)
def test_writing_changes_nothing_else(name: str, recording: bool, way: str) -> None:
    x = dt.constant(X)
    with dt.GradientTape(persistent=True) as outer:
        if recording:
            outer.watch(x)
        else:
            outer._stop()
        given, found, again = PLACES[name](x)
        found = [t for t in found if t is not None]
        before = values(found)
        assert len({id(t) for t in found}) == len(found)
        for k, t in enumerate(found):
            write(t, way)
            others = values(found)
            assert not np.array_equal(before[k], others[k])
            assert all(np.array_equal(a, b) for a, b in zip(before[k + 1 :], others[k + 1 :], strict=True)), k
        for t in given:
            write(t, way)
        after = [t for t in again() if t is not None]
    for a, b in zip(before, values(after), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    if recording:  # and its derivative is that of what it gave, not of what was written
        total = outer.gradient(after, x)
        fresh = dt.constant(X)
        with dt.GradientTape() as tape:
            tape.watch(fresh)
            expected = [t for t in PLACES[name](fresh)[1] if t is not None]
        want = tape.gradient(expected, fresh)
        assert (total is None) == (want is None)
        if want is not None:
            np.testing.assert_allclose(total, want, rtol=1e-13)


# ------------------------------------------------------------------ arrays of any class, and among the parameters
class Own(np.ndarray):
    """An array of a class of its own."""


def memory_map() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        m = np.memmap(file.name, dtype=float, mode="w+", shape=(4,))
        m[:] = 2.0
        return m


ARRAYS: dict[str, Callable[[], Any]] = {
    "an array": lambda: np.full(4, 2.0),
    "a subclass": lambda: np.full(4, 2.0).view(Own),
    "a memory map": memory_map,
    "a part of a memory map": lambda: memory_map()[::-1],
    "a view that is read-only, of one that is not": lambda: np.broadcast_to(np.full(4, 2.0), (4,)),
    "a record array's field": lambda: np.rec.array([(2.0, 1)] * 4, dtype=[("a", float), ("b", int)]).a,
    "a list": lambda: [2.0] * 4,
}
# By x, where the array c is 2 everywhere: the derivative is that of the formula, by hand.
READERS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "x * c": (lambda x, c: x * c, 2.0),
    "c / x": (lambda x, c: np.divide(c, x), -2.0 / X**2),
    "x ** c": (lambda x, c: x ** np.asanyarray(c), 2.0 * X),
    "where": (lambda x, c: np.where(np.asanyarray(c) > 1.0, c * x, x), 2.0),
    "dot": (lambda x, c: np.dot(x, c), 2.0),
    "clip": (lambda x, c: np.clip(x, c, 100.0), [0.0, 1.0, 1.0, 1.0]),
    "einsum": (lambda x, c: np.einsum("i,i->", x, c), 2.0),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("name", READERS)
def test_constants_are_kept_as_they_were(kind: str, name: str) -> None:
    f, expected = READERS[name]
    x, c = dt.constant(X), ARRAYS[kind]()
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = f(x, c)
    if kind.startswith("a view"):
        c.base[...] = 7.0
    else:
        c[:] = [7.0] * 4 if isinstance(c, list) else 7.0
    np.testing.assert_allclose(tape.gradient(y, x), np.broadcast_to(expected, 4), rtol=1e-12)


PARAMETERS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "hyp2f1": (lambda x, a: sc.hyp2f1(a, 2.0, 3.0, x / 10.0), np.array([1.0, 2.0, 1.0, 2.0])),
    "jv": (lambda x, a: sc.jv(a, x), np.array([0.0, 1.0, 2.0, 3.0])),
    "gammaln of a sum": (lambda x, a: sc.gammaln(x + a), np.array([1.0, 2.0, 1.0, 2.0])),
    "x[index]": (lambda x, a: x[a] ** 2, np.array([3, 0, 0])),
    "x[index, None]": (lambda x, a: x[a, None] ** 2, np.array([3, 0, 0])),
    "x[list]": (lambda x, a: x[a] ** 2, [3, 0, 0]),
    "take": (lambda x, a: np.take(x, a) ** 2, np.array([3, 0, 0])),
    "take of a list": (lambda x, a: np.take(x, a) ** 2, [3, 0, 0]),
    "gather": (lambda x, a: dt.gather(x, a) ** 2, np.array([3, 0, 0])),
    "take_along_axis": (lambda x, a: np.take_along_axis(x, a, 0) ** 2, np.array([3, 0, 0])),
    "a mask": (lambda x, a: x[a] ** 2, np.array([True, False, True, False])),
    "repeat": (lambda x, a: np.repeat(x, a) * np.arange(6.0), np.array([3, 0, 1, 2])),
    "moveaxis": (lambda x, a: np.moveaxis(np.reshape(x, (1, 2, 2)), a, [2, 1, 0])[0, 1], [0, 1, 2]),
    "transpose": (lambda x, a: np.transpose(np.reshape(x, (1, 2, 2)), a)[0, 1], [2, 1, 0]),
    "pad": (lambda x, a: np.pad(x, a) * np.arange(9.0), [2, 3]),
    "roll": (lambda x, a: np.roll(np.reshape(x, (2, 2)), a, (0, 1)) * np.arange(4.0).reshape(2, 2), [1, 1]),
    "split": (lambda x, a: np.split(x, a)[1] ** 2, [1, 3]),
    "sum where": (lambda x, a: np.sum(x * x, where=a), np.array([True, False, True, False])),
    "average": (lambda x, a: np.average(x * x, weights=a), np.array([1.0, 2.0, 3.0, 4.0])),
    "setitem": (lambda x, a: written(x, a), np.array([3, 0, 1])),
    "reshape": (lambda x, a: np.reshape(x, a)[1] ** 2, [2, 2]),
    "rot90 axes": (lambda x, a: np.rot90(np.reshape(x, (1, 2, 2)), 1, a)[0, 1], [1, 2]),
    "tensordot": (lambda x, a: np.tensordot(np.reshape(x, (2, 2)), np.arange(8.0).reshape(2, 2, 2), a), [[0], [2]]),
}


def written(x: Any, index: Any) -> Any:
    y = x * x
    y[index] = x[:3]
    return y


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_kept_as_they_were(name: str) -> None:
    f, given = PARAMETERS[name]
    grads = []
    for change in (False, True):
        x, a = dt.constant(X), copy.deepcopy(given)
        with dt.GradientTape() as tape:
            tape.watch(x)
            y = f(x, a)
        if change:
            a[:] = a[::-1] if name not in ("hyp2f1", "jv") else a * 0.5
            if isinstance(a, np.ndarray) and a.dtype == bool:
                a[:] = ~np.asarray(given)
        grads.append(np.asarray(tape.gradient(y, x)))
    np.testing.assert_array_equal(grads[0], grads[1])


# ------------------------------------------------------------------ kernels and rules of a user's own
def test_a_kernel_may_return_the_same_array_each_time() -> None:
    buffer = np.empty(4)

    def doubled(x: Any) -> Any:
        return np.multiply(x, 2.0, out=buffer)

    f = dt.extend.operation(doubled, jvp=lambda t: 2.0 * t, vjp=lambda g: 2.0 * g, name="doubled_in_a_buffer")
    x = dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y, z = f(x), f(x * 10.0)
        w = y * z
    np.testing.assert_array_equal(y, 2.0 * X)
    np.testing.assert_allclose(tape.gradient(w, x), 2.0 * 40.0 * X)  # of 40 x^2


def test_a_rule_may_return_the_same_array_each_time() -> None:
    buffer = np.empty(4)
    rule = lambda g: np.multiply(g, 2.0, out=buffer)  # noqa: E731
    f = dt.extend.operation(lambda x: 2.0 * x, jvp=rule, vjp=rule, name="doubled_by_a_buffer")
    g = dt.grad(lambda x: np.sum(f(x) * 3.0) + np.sum(f(x)))
    np.testing.assert_array_equal(np.asarray(g(X)), np.full(4, 8.0))
    a, b = dt.jvp(lambda x: (f(x), f(3.0 * x)), (X,), (np.ones(4),))[1]
    np.testing.assert_array_equal(np.asarray(a), np.full(4, 2.0))
    np.testing.assert_array_equal(np.asarray(b), np.full(4, 6.0))


def into(a: Any) -> Any:
    a *= 2.0
    return a


WRITERS: dict[str, dict[str, Any]] = {
    "vjp, its cotangent": {"jvp": lambda t: 2.0 * t, "vjp": lambda g: into(g)},
    "vjp, what it reads": {"jvp": lambda t: 2.0 * t, "vjp": lambda g, x: g * into(x) / x},
    "jvp, its tangent": {"jvp": lambda t: into(t), "vjp": lambda g: 2.0 * g},
    "jvp, the result": {"jvp": lambda t, out: t * into(out) / out, "vjp": lambda g: 2.0 * g},
    "transpose": {"transpose": lambda g, shape: into(g)},
    "partial": {"partials": lambda x: into(x) / x},
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_rule_cannot_write_into_arrays_that_others_use(name: str) -> None:
    f = dt.extend.operation(lambda x: 2.0 * x, name=f"written {name}", replace=True, **WRITERS[name])
    with pytest.raises(ValueError, match=r"writes into what it is given.*copy"):
        dt.grad(lambda x: np.sum(f(x) * x))(X) if "jvp" not in name else dt.jvp(f, (X,), (np.ones(4),))


@pytest.mark.parametrize("name", ["vjp, its cotangent", "transpose"])
def test_a_rule_may_write_into_its_handles(name: str) -> None:
    """Under a recorder outside, rules are handed Tensors: the gradient of sum(x (3x + 2x)) is 10 x."""
    f = dt.extend.operation(lambda x: 2.0 * x, name=f"written {name}", replace=True, **WRITERS[name])
    x = dt.constant(X)
    with dt.GradientTape() as outer:
        outer.watch(x)
        with dt.GradientTape() as inner:
            inner.watch(x)
            y = np.sum((x * 3.0 + f(x)) * x)
        g = inner.gradient(y, x)
    np.testing.assert_allclose(g, 10.0 * X)


def test_what_a_forward_part_keeps_is_kept_as_it_was() -> None:
    stash: list[Any] = []

    @dt.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    def fwd(x: Any) -> Any:
        slope = np.array(3.0 * x.numpy() ** 2)
        stash.append(slope)
        return x**3, slope

    cube.defvjp(fwd, lambda slope, g: (g * slope,))
    x = dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = cube(x)
    stash[0][:] = 0.0
    np.testing.assert_allclose(tape.gradient(y, x), 3.0 * X**2)


# ------------------------------------------------------------------ object arrays of Tensors
def test_an_object_array_as_target() -> None:
    x = dt.constant(X)
    with dt.GradientTape(persistent=True) as tape, dt.ForwardAccumulator(x, np.arange(4.0)) as acc:
        tape.watch(x)
        y = np.array([[x[0] * 2.0, x[1] * x[2]], [5.0, x[3]]])
        z = np.array([x[0], 1.0])
    # By hand: the sum of all is 2 x0 + x1 x2 + 5 + x3.
    np.testing.assert_array_equal(tape.gradient(y, x), [2.0, X[2], X[1], 1.0])
    np.testing.assert_array_equal(tape.gradient([y, z], x), [3.0, X[2], X[1], 1.0])
    seed = np.array([[1.0, 10.0], [100.0, 1000.0]])
    np.testing.assert_array_equal(tape.gradient(y, x, output_gradients=seed), [2.0, 10 * X[2], 10 * X[1], 1000.0])
    g = tape.gradient(y, x, output_gradients=dt.constant(seed[:1]))
    np.testing.assert_array_equal(g, [2.0, 10 * X[2], 10 * X[1], 10.0])
    with pytest.raises(ValueError, match="output_gradients has shape"):
        tape.gradient(y, x, output_gradients=np.ones(3))
    # The tangent with (0, 1, 2, 3): (2 * 0, x2 + 2 x1, 0, 3).
    np.testing.assert_array_equal(acc.jvp(y), [[0.0, X[2] + 2.0 * X[1]], [0.0, 3.0]])
    np.testing.assert_array_equal(acc.jvp([z])[0], [0.0, 0.0])
    other = np.array([dt.constant(1.0), dt.constant(2.0)])
    assert tape.gradient(other, x) is None
    assert acc.jvp(other) is None
    np.testing.assert_array_equal(acc.jvp(other, "zero"), [0.0, 0.0])
    assert tape.why(y, x) == "the target is connected with the source"


def test_an_object_array_as_target_of_a_batch_of_tangents() -> None:
    x = dt.constant(X)
    with dt.ForwardAccumulator(x, np.eye(4), batch=True) as acc:
        y = np.array([x[0] * 2.0, x[1] * x[2]])
    np.testing.assert_array_equal(acc.jvp(y), [[2.0, 0.0], [0.0, X[2]], [0.0, X[1]], [0.0, 0.0]])


def test_an_object_array_as_result_of_transforms() -> None:
    f = lambda x: np.array([x[0] * 2.0, x[1] * x[2]])  # noqa: E731
    J = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, X[2], X[1], 0.0]])
    for jacobian in (dt.jacrev, dt.jacfwd):
        np.testing.assert_array_equal(np.asarray(jacobian(f)(X)), J)
        np.testing.assert_array_equal(np.asarray(jacobian(dt.checkpoint(f))(X)), J)
    np.testing.assert_array_equal(np.asarray(dt.jvp(f, (X,), (np.arange(4.0),))[1]), J @ np.arange(4.0))
    np.testing.assert_array_equal(np.asarray(dt.vjp(f, X)[1](np.array([1.0, 10.0]))[0]), J.T @ [1.0, 10.0])
    np.testing.assert_array_equal(np.asarray(dt.linearize(f, X)[1](np.arange(4.0))), J @ np.arange(4.0))
    np.testing.assert_array_equal(np.asarray(dt.vmap(f)(np.stack([X, X]))), [[2 * X[0], X[1] * X[2]]] * 2)
    rule = dt.custom_gradient(lambda x: (f(x), lambda g: g @ J))
    np.testing.assert_array_equal(np.asarray(dt.jacrev(rule)(X)), J)


# ------------------------------------------------------------------ Variables
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_a_copy_of_a_variable_is_another_variable(copied: Callable[[Any], Any]) -> None:
    v = dt.Variable(X, trainable=True, name="v", shape=(None,))
    w = copied(v)
    with dt.GradientTape() as tape:
        y = np.sum(v * v) + np.sum(w * 3.0)
    g, h = tape.gradient(y, [v, w])
    np.testing.assert_array_equal(g, 2.0 * X)
    np.testing.assert_array_equal(h, np.full(4, 3.0))
    w.assign([1.0])
    assert (w.name, w.trainable, v.shape, w.shape) == ("v", True, (4,), (1,))


# ------------------------------------------------------------------ checkpoint
def test_a_checkpointed_function_writes_into_its_argument() -> None:
    def f(x: Any) -> Any:
        x *= 2.0
        x[0] = x[1] * x[1]
        return np.sum(x * x)

    # By hand: 16 x1^4 + 4 (x1^2 + x2^2 + x3^2).
    slope = np.array([0.0, 64.0 * X[1] ** 3 + 8.0 * X[1], 8.0 * X[2], 8.0 * X[3]])
    for g in (dt.checkpoint(f), lambda x: dt.checkpoint(f)(x * 1.0)):
        np.testing.assert_allclose(np.asarray(dt.grad(g)(X)), slope)
        np.testing.assert_allclose(np.asarray(dt.jvp(g, (X,), (np.ones(4),))[1]), slope.sum())
        H = np.asarray(dt.hessian(g)(X))
        np.testing.assert_allclose(H, np.diag([0.0, 192.0 * X[1] ** 2 + 8.0, 8.0, 8.0]))
    a = X.copy()
    dt.checkpoint(f)(a)
    np.testing.assert_array_equal(a, X)


DRAWS: dict[str, Callable[[], Any]] = {
    "numbers": lambda: (lambda rng: lambda x: np.sum(x * rng.normal(size=4)))(np.random.default_rng(1)),
    "an order": lambda: (lambda rng: lambda x: np.sum(x * np.arange(4.0)[rng.permutation(4)]))(
        np.random.default_rng(1)
    ),
    "a few elements of many": lambda: (
        lambda rng: lambda x: np.concatenate([np.zeros(4000), x * rng.normal(size=4), np.zeros(4000)])
    )(np.random.default_rng(1)),
    "how many": lambda: (lambda rng: lambda x: np.ones(next(rng)) * np.sum(x))(iter(range(3, 10))),
    "an integer": lambda: (lambda rng: lambda x: (np.sum(x), np.asarray(next(rng))))(iter(range(3, 10))),
}


@pytest.mark.parametrize("mode", ["reverse", "forward", "both", "batch"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_checkpointed_function_that_draws_random_numbers_is_refused(name: str, mode: str) -> None:
    f = dt.checkpoint(DRAWS[name]())
    first = lambda x: np.sum(y[0] if isinstance(y := f(x), tuple) else y)  # noqa: E731
    with pytest.raises(ValueError, match=r"another result.*generator as an argument.*default_rng"):
        if mode == "reverse":
            dt.grad(first)(X)
        elif mode == "forward":
            dt.jvp(f, (X,), (np.ones(4),))
        elif mode == "both":
            dt.hvp(first, X, np.ones(4))
        else:
            dt.vmap(dt.grad(first))(np.stack([X, X]))


def test_a_checkpointed_function_draws_from_a_generator_that_it_is_given() -> None:
    @dt.checkpoint
    def f(x: Any, rng: Any, *, more: Any = None) -> Any:
        y = x * rng.normal(size=4)
        return np.sum(y if more is None else y + more.normal() * x)

    rng = np.random.default_rng(3)
    expected = np.random.default_rng(3)
    for _ in range(2):  # each call draws on
        np.testing.assert_allclose(np.asarray(dt.grad(f)(X, rng)), expected.normal(size=4))
    g = np.asarray(dt.grad(f)(X, rng, more=np.random.RandomState(5)))
    np.testing.assert_allclose(g, expected.normal(size=4) + np.random.RandomState(5).normal())
    t = np.asarray(dt.jvp(lambda x: f(x, rng), (X,), (np.ones(4),))[1])
    np.testing.assert_allclose(t, expected.normal(size=4).sum())
    inside = dt.checkpoint(lambda x: np.sum(x * np.random.default_rng(7).normal(size=4)))
    np.testing.assert_allclose(np.asarray(dt.grad(inside)(X)), np.random.default_rng(7).normal(size=4))


def test_a_checkpointed_function_whose_surroundings_change_is_refused() -> None:
    w, x = dt.constant(X), dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.checkpoint(lambda x: x * w)(x)
    w *= 2.0
    with pytest.raises(ValueError, match="from outside must not be written"):
        tape.gradient(y, x)


def test_a_checkpointed_function_may_give_nan() -> None:
    f = dt.checkpoint(lambda x: np.sum(np.log(x) * 2.0 + np.array([np.nan, np.inf, 0.0, 1.0])))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.asarray(dt.grad(f)(X)), 2.0 / X)


def test_keywords_of_an_operation_of_ones_own_are_kept_as_they_were() -> None:
    forms: dict[str, dict[str, Any]] = {
        "transpose": {"transpose": lambda g, shape, k: g * k},
        "both": {"jvp": lambda t, k: t * k, "vjp": lambda g, k: g * k},
    }
    for name, rules in forms.items():
        f = dt.extend.operation(lambda x, k: x * k, name=f"times k, {name}", **rules)
        k, x = np.array([1.0, 2.0, 3.0, 4.0]), dt.constant(X)
        with dt.GradientTape() as tape:
            tape.watch(x)
            y = f(x, k=k)
        k[:] = 0.0
        np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 2.0, 3.0, 4.0])
