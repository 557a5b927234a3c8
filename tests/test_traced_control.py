"""while_loop, cond, case and switch_case in traced functions: one step each, right in all modes and orders."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as dt


def newton(a: Any) -> Any:
    """The square root by as many steps as it takes."""
    goes_on = lambda x, k: np.abs(x * x - a) > 1e-13 * a  # noqa: E731
    return dt.while_loop(goes_on, lambda x, k: ((x + a / x) / 2, k + 1), (a + 0.0, 0))[0]


def halved(x: Any) -> Any:
    """A state of a structure; a body with a branch; Tensors from outside."""

    def body(state: Any, k: Any) -> Any:
        u = state["u"]
        u = u * 0.5 if np.sum(u) > 4 else np.sin(u) * np.tanh(x) * 0.9
        return {"u": u, "n": state["n"] + np.sum(u)}, k + 1

    state, k = dt.while_loop(lambda s, k: np.sum(s["u"] ** 2) > 0.1, body, ({"u": x * 3.0, "n": 0.0}, 0))
    return np.sum(state["u"] * x) + state["n"] * k


def nested(x: Any) -> Any:
    def outer(y: Any) -> Any:
        inner = dt.while_loop(lambda z: np.sum(z) > 1.0, lambda z: (z * 0.7,), (y,))[0]
        return (inner * 0.8 + y * 0.1,)

    return np.sum(dt.while_loop(lambda y: np.sum(y) > 0.9, outer, (x,))[0] ** 2)


def at_most(x: Any) -> Any:
    return np.sum(dt.while_loop(lambda y: np.sum(y) < 100, lambda y: (y * 1.5,), (x,), maximum_iterations=4)[0] ** 3)


def choosing(x: Any) -> Any:
    for k in range(8):
        x = dt.cond(x[k % 3] > 0, lambda x=x: np.sin(x) * 1.5 - 0.2, lambda x=x: -x * 0.9 + 0.1)
    return np.sum(x**2)


def switching(x: Any) -> Any:
    index = np.floor(np.abs(x[0]) * 2).astype(int)
    y = dt.switch_case(index, {0: lambda: np.sin(x), 2: lambda: x * x}, default=lambda: x + 1.0)
    total = np.sum(y)
    return dt.case(
        [(total < 0, lambda: total * 2), (total < 2, lambda: np.exp(total))], default=lambda: total * total
    ) + np.sum(y)


V = np.array([0.3, -0.7, 1.1])
PROGRAMS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "newton": (newton, [np.float64(a) for a in (2.0, 9.5, 1e4, 0.01, 3.0, 1e-4)]),
    "none at all": (lambda x: np.sum(dt.while_loop(lambda y: np.sum(y) > 9, lambda y: (y / 2,), (x,))[0] ** 2),
                    [V, V * 40 + 20, V]),
    "halved": (halved, [V + 2, V + 5, V * 0.1, V + 9]),
    "nested": (nested, [V + 1, V + 3, V * 0.1, V + 2]),
    "at most": (at_most, [V + 1, V + 40, V]),
    "cond": (choosing, [V, -V, V - 0.5, V[::-1].copy()]),
    "switch_case and case": (switching, [V, V * 3, V * 4.2, V - 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_is_as_eager_in_value_gradient_jvp_and_second_order(name: str) -> None:
    f, points = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = dt.function(f), dt.function(dt.grad(f))
        products = {
            order: dt.function(lambda x, v, order=order: dt.hvp(f, x, v, order)) for order in ("fr", "rf", "rr")
        }
        pushed = dt.function(lambda x, v: dt.jvp(f, (x,), (v,))[1])
        for x in points:
            v = np.cos(x)
            np.testing.assert_allclose(value(x), f(x), rtol=1e-13)
            np.testing.assert_allclose(gradient(x), dt.grad(f)(x), rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(dt.grad(value)(x), dt.grad(f)(x), rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(pushed(x, v), dt.jvp(f, (x,), (v,))[1], rtol=1e-11, atol=1e-13)
            exact = dt.hvp(f, x, v)
            for product in products.values():
                np.testing.assert_allclose(product(x, v), exact, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(dt.hvp(value, x, v), exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["newton", "halved", "cond", "switch_case and case"])
def test_a_loop_or_a_choice_takes_one_way_whichever_way_it_goes(name: str) -> None:
    f, points = PROGRAMS[name]
    traced = dt.function(f)
    for x in points:
        traced(x)
    assert "    1 way(s)" in traced.trace_report()


def test_a_derivative_has_a_way_for_each_power_of_two_of_steps() -> None:
    gradient = dt.function(dt.grad(lambda x: dt.while_loop(lambda y: y > 1, lambda y: (y / 1.1,), (x,))[0]))
    for x in np.linspace(1.5, 1e6, 40):
        assert np.isclose(gradient(x), 1.1 ** -np.ceil(np.log(x) / np.log(1.1)), rtol=1e-12)
    assert "8 way(s)" not in gradient.trace_report()
    assert gradient.trace_count == 1


# ---------------------------------------------------------------------------------------------------------------------
# What cannot be one step is what Python makes of it.


def test_branches_of_other_shapes_are_two_ways() -> None:
    f = dt.function(lambda x: dt.cond(np.sum(x) > 0, lambda: x, lambda: np.sum(x)))
    assert f(np.array([1.0, 2.0])).shape == (2,)
    assert f(np.array([-1.0, -2.0])).shape == ()
    assert f(np.array([-1.0, -3.0])) == -4.0


def test_a_state_that_grows_is_gone_along_by_python() -> None:
    def f(x: Any) -> Any:
        grown = dt.while_loop(lambda y: np.sum(y) < 9, lambda y: (np.concatenate([y, x]),), (x,))[0]
        return np.sum(grown**2)

    traced = dt.function(f)
    for x in (np.array([1.0, 1.5]), np.array([2.0, 2.5]), np.array([5.0, 5.0])):
        assert traced(x) == f(x)
        assert np.array_equal(dt.grad(traced)(x), dt.grad(f)(x))


def test_variables_assigned_in_branches_and_bodies_are_assigned() -> None:
    count = dt.Variable(0.0)

    @dt.function
    def branch(x: Any) -> Any:
        return dt.cond(x > 0, lambda: count.assign_add(1.0) * x, lambda: x)

    @dt.function
    def body(x: Any) -> Any:
        def turn(y: Any) -> Any:
            count.assign_add(1.0)
            return (y / 2,)

        return dt.while_loop(lambda y: y > 1, turn, (x,))[0]

    assert [float(branch(np.float64(x))) for x in (2.0, -2.0, 3.0)] == [2.0, -2.0, 6.0]
    assert float(count) == 2.0
    assert float(body(np.float64(8.0))) == 1.0
    assert float(count) == 5.0
    assert float(body(np.float64(4.0))) == 1.0
    assert float(count) == 7.0


def test_a_branch_that_is_not_taken_may_fail() -> None:
    def fails() -> Any:
        raise RuntimeError("not now")

    f = dt.function(lambda x: dt.cond(x > 0, lambda: x * 2.0, fails))
    assert f(np.float64(2.0)) == 4.0
    with pytest.raises(RuntimeError, match="not now"):
        f(np.float64(-2.0))
    assert f(np.float64(3.0)) == 6.0


def test_what_a_branch_that_is_not_taken_divides_by_is_no_warning() -> None:
    f = dt.function(lambda x: dt.cond(x > 0, lambda: 1.0 / x, lambda: x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(np.float64(0.0)) == 0.0
        assert dt.grad(f)(np.float64(0.0)) == 1.0
        assert dt.grad(f)(np.float64(2.0)) == -0.25


def test_an_error_in_a_body_is_the_users() -> None:
    def turn(y: Any) -> Any:
        raise KeyError("mine")

    f = dt.function(lambda x: dt.while_loop(lambda y: y > 1, turn, (x,))[0])
    with pytest.raises(KeyError, match="mine"):
        f(np.float64(4.0))


# ---------------------------------------------------------------------------------------------------------------------
# What a body that is traced once may not do.


def test_random_numbers_in_the_body_of_a_loop_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="draw the numbers of all steps before the loop"):
        dt.scan(lambda c, _: (c + rng.normal(), c), 1.0, None, 4)
    traced = dt.function(lambda x, rng: dt.scan(lambda c, _: (c + rng.normal(), c), x, None, 4)[1])
    with pytest.raises(TypeError, match="random numbers in the body of a loop"):
        traced(1.0, np.random.default_rng(0))


def test_a_loop_that_draws_goes_on_by_python() -> None:
    def f(x: Any, rng: Any) -> Any:
        return dt.while_loop(lambda y: y < 3, lambda y: (y + np.exp(rng.normal()),), (x,))[0]

    traced = dt.function(f)
    for seed in range(4):
        x = np.float64(0.5)
        assert traced(x, np.random.default_rng(seed)) == f(x, np.random.default_rng(seed))


def test_writing_into_a_tensor_from_outside_in_the_body_of_a_loop_is_refused() -> None:
    total = dt.zeros(())

    def body(c: Any, x: Any) -> Any:
        total[...] = total + x
        return c + x, c

    with pytest.raises(TypeError, match="make it part of the state"):
        dt.scan(body, 0.0, np.ones(3))
    assert float(total) == 0.0


def test_a_choice_that_writes_into_a_tensor_is_gone_along_by_python() -> None:
    @dt.function
    def f(x: Any) -> Any:
        y = dt.asarray(x) * 1.0

        def write() -> Any:
            y[0] = 5.0
            return y

        return np.sum(dt.cond(x[1] > 0, write, lambda: y) * x)

    assert f(np.array([1.0, 2.0])) == 9.0
    assert f(np.array([1.0, -2.0])) == 5.0
