"""Arrays in, arrays out: which results are arrays and which Tensors, whose memory they are, what else comes back.

Length: one case after the other of one promise.
"""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.memory.reserve import SMALLEST
from dualtape.modes.structure import flatten

X = np.array([0.3, -0.5, 1.2])
M = np.array([[1.0, 2.0, 0.5], [-1.0, 0.25, 3.0], [0.0, 1.5, -2.0]])


def f(x: Any) -> Any:
    return np.sum(np.sin(x))


def g(x: Any) -> Any:
    return M @ np.tanh(x)


# What each transform gives of one array argument and one array direction.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda x, v: dt.grad(f)(x),
    "value_and_grad": lambda x, v: dt.value_and_grad(f)(x),
    "jvp": lambda x, v: dt.jvp(g, (x,), (v,)),
    "vjp": lambda x, v: dt.vjp(g, x)[0],
    "pullback": lambda x, v: dt.vjp(g, x)[1](v),
    "linearize": lambda x, v: dt.linearize(g, x)[0],
    "push": lambda x, v: dt.linearize(g, x)[1](v),
    **{f"hvp {order}": lambda x, v, order=order: dt.hvp(f, x, v, order) for order in ("fr", "rf", "rr", "ff")},
    "jacfwd": lambda x, v: dt.jacfwd(g)(x),
    "jacrev": lambda x, v: dt.jacrev(g)(x),
    "jacobian": lambda x, v: dt.jacobian(g)(x),
    "hessian": lambda x, v: dt.hessian(f)(x),
    "vmap": lambda x, v: dt.vmap(f)(x),
    "vmap, one by one": lambda x, v: dt.vmap(lambda s: s * 2.0 if s > 0 else s)(x),
}
# Those that look at the direction.
DIRECTED = [name for name in CALLS if name in ("jvp", "pullback", "push") or name.startswith("hvp")]


def kinds(value: Any) -> set[str]:
    """What the leaves of a result are: arrays, that can be written to, NumPy scalars, or Tensors."""
    found = set()
    for leaf in flatten(value)[0]:
        if isinstance(leaf, dt.Tensor):
            found.add("Tensor")
        else:
            assert isinstance(leaf, np.generic) or (type(leaf) is np.ndarray and leaf.ndim and leaf.flags.writeable)
            found.add("array")
    return found


# ------------------------------------------------------------------ the place decides
@pytest.mark.parametrize("name", CALLS)
def test_arrays_in_arrays_out_and_tensors_in_tensors_out(name: str) -> None:
    call = CALLS[name]
    right = call(X, X)
    assert kinds(right) == {"array"}
    for x in (dt.constant(X), dt.Variable(X)):
        found = call(x, X)
        assert kinds(found) == {"Tensor"}
        for a, b in zip(flatten(found)[0], flatten(right)[0], strict=True):
            assert np.array_equal(a, b)
    assert kinds(call(X, dt.constant(X))) == {"Tensor" if name in DIRECTED else "array"}


@pytest.mark.parametrize("name", CALLS)
def test_results_inside_anything_are_tensors(name: str) -> None:
    call = CALLS[name]
    inside: list[Any] = []

    def note(z: Any) -> Any:
        inside.append(call(X, X))
        return np.sum(z)

    with dt.GradientTape() as tape:
        note(1.0)
        with tape.stop_recording():
            note(1.0)
    with dt.ForwardAccumulator(dt.constant(1.0), 1.0):
        note(1.0)
        with dt.stop_recording():
            note(1.0)
    dt.grad(note)(1.0)
    dt.jvp(note, (1.0,), (1.0,))
    dt.jacfwd(note)(X)
    dt.jacobian(note)(X)
    dt.vmap(note)(M)
    dt.vmap(lambda z: note(z) * (1.0 if z[0] > 0 else 2.0))(M)  # one by one
    dt.linearize(note, X)
    assert len(inside) >= 14 and all(kinds(found) == {"Tensor"} for found in inside)
    assert kinds(call(X, X)) == {"array"}  # and afterwards they are arrays again


def test_in_the_rules_of_a_user_they_are_tensors_recorded_or_not() -> None:
    seen: list[Any] = []

    @dt.custom_gradient
    def double(x: Any) -> Any:
        def back(c: Any) -> Any:
            seen.append(dt.grad(f)(X))
            return 2.0 * c

        return 2.0 * x, back

    dt.grad(double)(1.0)
    dt.hvp(double, 1.0, 1.0)
    assert len(seen) >= 2 and kinds(seen) == {"Tensor"}


def test_another_thread_is_another_place() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(dt.grad(f)(X)))
    with dt.GradientTape():
        thread.start()
        thread.join()
    assert kinds(found) == {"array"}


def test_a_recorder_that_was_forgotten_is_no_place() -> None:
    def generator() -> Any:
        with dt.GradientTape():
            yield kinds(dt.grad(f)(X))

    running = generator()
    assert next(running) == {"Tensor"}
    thread = threading.Thread(target=running.close)
    thread.start()
    thread.join()
    del running
    gc.collect()
    assert kinds(dt.grad(f)(X)) == {"array"}


@pytest.mark.parametrize(
    "holder",
    [
        [2.0, [dt.constant(3.0)]],
        {"a": (dt.Variable(3.0),)},
        SimpleNamespace,
        np.array([dt.constant(3.0), None], dtype=object),
    ],
)
def test_a_tensor_anywhere_among_the_arguments_makes_tensors(holder: Any) -> None:
    expected = {"array"} if holder is SimpleNamespace else {"Tensor"}
    assert kinds(dt.grad(lambda x, more: f(x))(X, holder)) == expected
    assert kinds(dt.grad(lambda x, more: f(x))(X, more=holder)) == expected
    assert kinds(dt.jacobian(lambda x, more: g(x))(X, holder)) == expected


def test_a_structure_that_holds_itself_is_searched_once() -> None:
    ring: list[Any] = [1.0]
    ring.append(ring)
    assert kinds(dt.grad(lambda x, more: f(x))(X, ring)) == {"array"}


def test_a_pullback_and_a_push_are_called_in_a_place_of_their_own() -> None:
    with dt.GradientTape():
        _, pull = dt.vjp(g, X)
        _, push = dt.linearize(g, X)
        assert kinds((pull(X), push(X))) == {"Tensor"}
    assert kinds((pull(X), push(X))) == {"array"}
    assert kinds((pull(dt.constant(X)), push(dt.constant(X)))) == {"Tensor"}
    _, pull = dt.vjp(g, dt.constant(X))
    assert kinds(pull(X)) == {"Tensor"}


def test_a_step_inside_a_gradient_is_differentiated() -> None:
    """w = 2 - 0.2 p: the slope of 2 w^2 by p is 4 w * -0.2 = -1.28 at p = 2."""

    def after_a_step(p: Any) -> Any:
        w = dt.grad(lambda w: np.sum(w * w))(np.ones(2))
        w -= 0.1 * p * w
        return np.sum(w * w)

    assert dt.grad(after_a_step)(2.0) == pytest.approx(-1.28, rel=1e-14)
    assert dt.jvp(after_a_step, (2.0,), (1.0,))[1] == pytest.approx(-1.28, rel=1e-14)
    with dt.GradientTape() as tape:
        slope = dt.grad(f)(X)
        tape.watch(slope)
        y = np.sum(slope * slope)
    assert np.allclose(tape.gradient(y, slope), 2 * np.cos(X), rtol=1e-14)


# ------------------------------------------------------------------ dtypes
def test_gradients_have_the_dtype_of_their_argument_and_jacobians_that_of_the_result() -> None:
    single, double = X.astype(np.float32), X
    widened = lambda x: np.sin(x.astype(np.float64))  # noqa: E731
    narrowed = lambda x: np.sin(x.astype(np.float32))  # noqa: E731
    for x, h, dtype in ((single, widened, np.float64), (double, narrowed, np.float32)):
        for jacobian in (dt.jacfwd, dt.jacrev, dt.jacobian):
            assert jacobian(h)(x).dtype == dtype
            assert jacobian(h)(dt.constant(x)).dtype == dtype
        value, slope = dt.value_and_grad(lambda x, h=h: np.sum(h(x)))(x)
        assert (value.dtype, slope.dtype) == (dtype, x.dtype)
        value, moved = dt.jvp(h, (x,), (x,))
        assert (value.dtype, moved.dtype) == (dtype, dtype)
        assert dt.vjp(h, x)[1](np.ones(3, dtype))[0].dtype == x.dtype
        assert dt.hvp(lambda x, h=h: np.sum(h(x)), x, x).dtype == x.dtype
    assert type(dt.grad(f)(np.float32(0.5))) is np.float32
    assert dt.grad(lambda z: np.sum(np.abs(z) ** 2))(X * 1j).dtype == np.complex128


def test_integers_are_taken_as_floating() -> None:
    cube = lambda x: np.sum(x**3)  # noqa: E731
    k = np.array([1, 2, -3])
    for x in (k, k.astype(np.int16), k.astype(np.uint8) % 4, k.astype(">i4")):
        found = dt.grad(cube)(x)
        assert found.dtype == np.float64 and np.array_equal(found, 3.0 * np.asarray(x, float) ** 2)
        assert np.array_equal(dt.jvp(cube, (x,), (k,))[1], np.sum(3.0 * np.asarray(x, float) ** 2 * k))
        assert np.array_equal(dt.hvp(cube, x, k), 6.0 * np.asarray(x, float) * k)
        assert np.array_equal(dt.jacobian(lambda x: x**2)(x), 2.0 * np.diag(np.asarray(x, float)))
    assert dt.grad(lambda x: x**3)(2) == 12.0 and type(dt.grad(lambda x: x**3)(np.int64(2))) is np.float64
    assert dt.grad(lambda x: x * x)(10**30) == 2e30
    assert dt.grad(lambda p: p[0] * p[1])([2, 3]) == [3.0, 2.0]
    assert np.array_equal(dt.vmap(dt.grad(lambda x: x**3))(k), 3.0 * k**2)
    assert dt.vjp(lambda x: x * x, 3)[1](1) == (6.0,)


# ------------------------------------------------------------------ whose memory it is
SIZES = [3, SMALLEST // 8 + 5]
KEPT = [np.linspace(0.5, 1.5, n) for n in SIZES]
FROZEN = [dt.constant(k) for k in KEPT]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda x, j: x,
    "a view": lambda x, j: x[::-1],
    "a reshaped one": lambda x, j: np.reshape(np.reshape(x, (-1, 1)), (-1,)),
    "twice itself": lambda x, j: (x, x, x + 0.0),
    "an array from outside": lambda x, j: KEPT[j],
    "a Tensor from outside": lambda x, j: FROZEN[j],
    "a product with one": lambda x, j: x * KEPT[j],
    "a broadcast": lambda x, j: np.broadcast_to(np.sum(x), x.shape),
    "something linear": lambda x, j: np.cumsum(x) - 2.0 * x,
    "something else": lambda x, j: np.sin(x) * x,
}


@pytest.mark.parametrize("j", range(2))
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_written_into_a_result_is_seen_nowhere_else(name: str, j: int) -> None:
    n, program = SIZES[j], lambda x: PROGRAMS[name](x, j)
    x, v = np.linspace(0.2, 0.7, n), np.linspace(-1.0, 1.0, n)
    before = x.copy(), v.copy(), KEPT[j].copy()
    value, pull = dt.vjp(program, x)
    cotangent = tuple([v] * 3) if isinstance(value, tuple) else v
    total = lambda x, y: sum(np.sum(leaf * leaf) for leaf in flatten((program(x), y))[0])  # noqa: E731

    def everything() -> list[Any]:
        moved, push = dt.linearize(program, x)
        products = [dt.grad(total, (0, 1))(x, v), dt.hvp(total, (x, v), (v, v))]
        return [dt.jvp(program, (x,), (v,)), moved, push(v), pull(cotangent), *products]

    right = flatten(everything())[0]
    found = [*flatten(everything())[0], *flatten(value)[0]]
    arrays = [a for a in found if a.ndim]
    assert kinds(found) == {"array"} and len(arrays) > 5
    for k, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in (*arrays[k + 1 :], x, v, KEPT[j], FROZEN[j].numpy()))
    for a in arrays:
        a[...] = np.nan
    assert all(np.array_equal(a, b) for a, b in zip((x, v, KEPT[j], FROZEN[j]), (*before, before[2]), strict=True))
    for a, b in zip(flatten(everything())[0], right, strict=True):
        assert np.array_equal(a, b)


def test_a_large_gradient_is_not_copied_if_it_is_nobody_elses() -> None:
    """Its memory is that in which it was computed."""
    import tracemalloc

    x = np.linspace(0.1, 1.0, 2**21)
    slope = dt.grad(lambda x: np.sum(x * x))
    slope(x)
    dt.inspect.release_memory()
    tracemalloc.start()
    try:
        found = slope(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.array_equal(found, 2 * x)
    assert peak < 3.5 * x.nbytes  # argument, square, gradient; with a copy one more


def test_a_pullback_does_not_see_what_is_done_with_its_value_or_the_arguments() -> None:
    """M^T (M w - d), by hand; the pullback that kept a handle gave zeros."""
    d, w = np.array([1.0, 1.0, 2.0]), np.array([0.5, -0.2, 0.1])
    for start in (w, dt.constant(w)):
        r, pull = dt.vjp(lambda w: M @ w, start)
        r -= d
        assert np.allclose(pull(r)[0], M.T @ (M @ w - d), rtol=1e-14)
    leaked: list[Any] = []

    def leaks(x: Any) -> Any:
        leaked.append(x)
        return x * x

    _, pull = dt.vjp(leaks, X)
    _, push = dt.linearize(leaks, X)
    for x in leaked:
        x += 1.0
    assert np.array_equal(pull(np.ones(3))[0], 2 * X) and np.allclose(push(X), 2 * X * X, rtol=1e-14)


def test_a_pullback_takes_variables_and_lists_of_tensors_without_losing_their_derivative() -> None:
    """The pullback of x * x at 3 is c -> 6 c, with slope 6."""
    v = dt.Variable(2.0)
    _, pull = dt.vjp(lambda x: x * x, 3.0)
    with dt.GradientTape() as tape:
        y = pull(v)[0]
    assert tape.gradient(y, v) == 6.0
    _, pull = dt.vjp(lambda x: x * x, np.full(2, 3.0))
    assert dt.grad(lambda c: np.sum(pull(np.array([c, 2 * c]))[0]))(1.0) == 18.0


# ------------------------------------------------------------------ what else is returned
AUX: list[Any] = ["text", None, 3, {"a": "b"}, object(), {1, 2}, X, [X, "x"], f, ValueError("no error")]


@pytest.mark.parametrize("aux", AUX, ids=lambda aux: type(aux).__name__)
def test_auxiliary_results_may_be_anything(aux: Any) -> None:
    with_aux = lambda h: lambda x: (h(x), aux)  # noqa: E731
    scalar, vector = with_aux(f), with_aux(g)
    for found in (
        dt.grad(scalar, has_aux=True)(X)[1],
        dt.value_and_grad(scalar, has_aux=True)(X)[0][1],
        dt.jvp(vector, (X,), (X,), has_aux=True)[2],
        dt.vjp(vector, X, has_aux=True)[2],
        dt.linearize(vector, X, has_aux=True)[2],
        dt.jacfwd(vector, has_aux=True)(X)[1],
        dt.jacrev(vector, has_aux=True)(X)[1],
        dt.jacobian(vector, has_aux=True)(X)[1],
        dt.jacobian(vector, has_aux=True, explain=True)(X)[0][1],
        dt.hessian(scalar, has_aux=True)(X)[1],
    ):
        assert found is aux


def test_with_auxiliary_results_the_others_are_what_they_are_without() -> None:
    pair = lambda x: (g(x), {"x": x, "text": "t", "some": [np.sin(x), 1.0], "objects": np.array([x[0], x[1]])})  # noqa: E731
    right = M @ np.diag(1 - np.tanh(X) ** 2)
    value, moved, aux = dt.jvp(pair, (X,), (X,), has_aux=True)
    assert np.allclose(value, g(X)) and np.allclose(moved, right @ X)
    for jacobian in (dt.jacfwd, dt.jacrev, dt.jacobian):
        assert np.allclose(jacobian(pair, has_aux=True)(X)[0], right)
    value, pull, _ = dt.vjp(pair, X, has_aux=True)
    assert np.allclose(value, g(X)) and np.allclose(pull(X)[0], right.T @ X)
    assert np.allclose(dt.linearize(pair, X, has_aux=True)[1](X), right @ X)
    assert kinds((aux["x"], aux["some"][0], aux["objects"])) == {"array"} and aux["text"] == "t"
    assert np.array_equal(aux["some"][0], np.sin(X)) and np.array_equal(aux["objects"], X[:2])
    aux["x"][:] = 0.0
    assert X[0] == 0.3
    aux = dt.jvp(pair, (dt.constant(X),), (X,), has_aux=True)[2]
    assert kinds((aux["x"], aux["some"][0], aux["objects"])) == {"Tensor"}
    # and outer levels differentiate them: the slope of sum(sin) is cos
    inner = lambda x: np.sum(dt.vjp(pair, x, has_aux=True)[2]["some"][0])  # noqa: E731
    assert np.allclose(dt.grad(inner)(X), np.cos(X))
    for call in (
        lambda: dt.jvp(g, (X,), (X,), has_aux=True),
        lambda: dt.vjp(g, X, has_aux=True),
        lambda: dt.jacrev(g, has_aux=True)(X),
    ):
        with pytest.raises(TypeError, match=r"with has_aux=True the function returns a pair \(value, aux\)"):
            call()


# ------------------------------------------------------------------ one element, and functions that come back
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (1, 1, 1)])
def test_a_result_of_one_element_has_a_gradient_whatever_its_rank(shape: tuple[int, ...]) -> None:
    """By hand: of the sum of cubes 3 x^2, its Hessian 6 diag(x)."""
    cubes = lambda x: np.reshape(np.sum(x**3), shape)  # noqa: E731
    value, slope = dt.value_and_grad(cubes)(X)
    assert value.shape == shape and np.allclose(value, np.sum(X**3)) and np.allclose(slope, 3 * X**2)
    assert np.allclose(dt.hessian(cubes)(X), np.diag(6 * X))
    for order in ("fr", "rf", "rr", "ff"):
        assert np.allclose(dt.hvp(cubes, X, X, order), 6 * X * X)
    with pytest.raises(ValueError, match=r"scalar result.*\(0,\)"):
        dt.grad(lambda x: x[:0])(X)


@pytest.mark.parametrize("order", ["fr", "rf", "rr", "ff"])
def test_products_with_the_hessian_of_nothing(order: str) -> None:
    for empty in (np.zeros(0), np.zeros((0, 3), np.float32)):
        found = dt.hvp(lambda x: np.sum(x * x), empty, empty, order)
        assert found.shape == empty.shape and found.dtype == empty.dtype


def test_a_function_that_comes_back_is_named_after_its_own() -> None:
    def poly(x: Any, power: int = 2) -> Any:
        return np.sum(x**power)

    slope = dt.grad(poly)
    assert slope.__name__ == "grad(poly)" and slope.__wrapped__ is poly and "grad of poly" in slope.__doc__
    assert repr(slope) == "<function grad(poly)>"
    assert str(inspect.signature(slope)) == str(inspect.signature(poly))
    assert np.allclose(slope(X, power=3), 3 * X**2)
    # Parameters of any name, and a method where it stands in a class.
    assert dt.grad(lambda x, name=1.0, f=2.0, has_aux=3.0: x * name * f * has_aux)(1.0, name=5.0) == 30.0

    class Model:
        weight = 3.0

        def loss(self, x: Any) -> Any:
            return self.weight * np.sum(x * x)

        slope = dt.grad(loss, 1)
        product = dt.jacobian(loss, 1)

    assert np.allclose(Model().slope(X), 6 * X) and np.allclose(Model().product(X), 6 * X)


def test_arguments_in_the_place_of_their_numbers_are_told_where_they_belong() -> None:
    for transform in (dt.grad, dt.value_and_grad, dt.jacfwd, dt.jacrev, dt.jacobian, dt.hessian):
        name = transform.__name__
        for wrong in (X, 2.0, (X,), "x"):
            with pytest.raises(TypeError, match=rf"{name}: argnums is an int or a tuple.*{name}\(f\)\(x\)"):
                transform(f, wrong)


def test_a_list_is_a_structure_and_an_error_of_one_says_so() -> None:
    assert dt.grad(lambda x: x[0] * x[1])([2.0, 3.0]) == [3.0, 2.0]
    for call in (
        lambda: dt.grad(lambda x: np.sum(x**2))([1.0, 2.0]),
        lambda: dt.grad(lambda x: x.sum())([1.0, 2.0]),
        lambda: dt.jvp(lambda x: x**2, ([1.0, 2.0],), ([1.0, 2.0],)),
        lambda: dt.vjp(lambda x: x**2, [1.0, 2.0]),
        lambda: dt.jacobian(lambda x: x**2)([1.0, 2.0]),
    ):
        with pytest.raises((TypeError, AttributeError), match="'list'") as error:
            call()
        assert [n for n in error.value.__notes__ if "For one array pass np.array(x)" in n]
    with pytest.raises(TypeError, match="'list'") as error:
        dt.grad(lambda x: np.sum([1.0] ** 2))(1.0)  # a list of one's own
    assert not hasattr(error.value, "__notes__")


def test_a_function_that_is_measured_is_seen_by_nobody_and_writes_to_nothing_of_ours() -> None:
    """``jacobian`` runs the function once to choose the mode."""
    x, v = X.copy(), dt.Variable(2.0)

    def writes(y: Any) -> Any:
        y = y.copy()
        y[0] = 7.0
        return y * v

    with dt.GradientTape() as tape:
        found = dt.jacobian(writes)(x)
        entries = len(tape)
        dt.jacobian(writes, mode="forward")(x)
        assert len(tape) - entries == entries
    assert np.array_equal(found, np.diag([0.0, 2.0, 2.0])) and np.array_equal(x, X)
