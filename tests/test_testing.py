"""The harness is itself tested: rules that are wrong on purpose fail, and the message names nesting and argument.

Length: each kind of check has a rule that only it catches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import ROWS, TABLE, load_late_families
from dualtape.extend import operation
from dualtape.testing import check_grads, check_rule, numerical_jvp

VECTOR = np.array([0.3, 0.7, 1.9])


@pytest.fixture(autouse=True)
def no_row_stays() -> Iterator[None]:
    """Rows that are wrong on purpose leave the table with the test that registered them."""
    load_late_families("any")  # or those that a test brings in would leave with it
    rows, table = dict(ROWS), dict(TABLE)
    yield
    for current, before in ((ROWS, rows), (TABLE, table)):
        current.clear()
        current.update(before)


# Right functions pass.


class Point(NamedTuple):
    place: Any
    label: int


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: np.sin(x) * x, (VECTOR,)),
        (lambda x, y: np.exp(x) / y, (VECTOR, 2.0)),
        (lambda x, y: (x @ y, x.sum()), (np.arange(6.0).reshape(2, 3), VECTOR)),
        (lambda x: x * x, (VECTOR + 1j * VECTOR[::-1],)),
        (lambda x: (x * x.conjugate()).real, (VECTOR + 1j * VECTOR[::-1],)),
        (lambda x: np.exp(1j * x), (VECTOR,)),
        (lambda x: np.tanh(x), (VECTOR.astype(np.float32),)),
        (lambda x: x.astype(np.float32) ** 2, (VECTOR,)),
        (lambda x, y: x * y, (VECTOR.astype(np.float32), VECTOR)),
        (lambda x, n: x**n, (VECTOR, 3)),
        (lambda p: {"square": p["a"][0] ** 2, "one": 1, "product": p["a"][0] * p["b"]}, ({"a": [2.0], "b": VECTOR},)),
        (lambda p: Point(p.place * p.label, p.label), (Point(VECTOR, 3),)),
        (lambda x, y: np.cos(x), (VECTOR, VECTOR)),
        (lambda x: np.zeros(3) + 0.0 * x, (VECTOR,)),
        (lambda x: np.sum(x), (np.zeros((0, 2)),)),
        (lambda x: np.log(x), (np.array([1e-3, 1.0, 1e3]),)),
        (lambda x: np.hypot(x, x), (VECTOR.astype(np.float32),)),
        (lambda x, y: (x * y - x * y) / (3 + np.sin(y)), (VECTOR, VECTOR + 0.1)),
        (lambda x: x[0] * x[1] * x[2], (np.array([0.0, 0.0, 2.0]),)),
        (lambda x: np.array([x[0], x[1] * x[2]]), (VECTOR,)),
    ],
)
@pytest.mark.parametrize("modes", [("fwd",), ("rev",), ("fwd", "rev")])
def test_a_right_derivative_passes(f: Callable[..., Any], args: tuple[Any, ...], modes: Any) -> None:
    check_grads(f, args, modes=modes)


@pytest.mark.parametrize("method", ["auto", "differences", "complex_step"])
def test_the_third_order_passes_with_each_method(method: Any) -> None:
    check_grads(lambda x, y: np.sum(np.exp(x) * y), (VECTOR, 2.0), order=3, method=method)


# Wrong ones fail.


class Wrong(NamedTuple):
    """What is wrong, the arguments it is seen at, and what the message must say."""

    make: Callable[[str], Callable[..., Any]]
    args: tuple[Any, ...]
    says: str
    modes: tuple[str, ...] = ("fwd", "rev")


# Kernels of rows of their own, since NumPy's functions have the right rows already.


def sine(x: Any) -> Any:
    return np.sin(x)


def cosine(x: Any) -> Any:
    return np.cos(x)


def square(x: Any) -> Any:
    return x * x


def product(x: Any, y: Any) -> Any:
    return x * y


def wrong_at_second_order(name: str) -> Callable[..., Any]:
    inner = operation(cosine, partials=(lambda x: -1.5 * np.sin(x),), name=name + "_inner")
    return operation(sine, partials=(lambda x: inner(x),), name=name)


def writes_into_its_operand(name: str) -> Callable[..., Any]:
    def pull(g: Any, x: Any) -> Any:
        factor = np.cos(x)
        if isinstance(x, np.ndarray):
            x.setflags(write=True)
            x += 1.0
        return g * factor

    return operation(sine, jvp=(lambda t, x: t * np.cos(x),), vjp=(pull,), name=name)


def changes_its_value(name: str) -> Callable[..., Any]:
    calls = count()
    return lambda x: np.sin(x) + 1e-3 * next(calls)


WRONG = {
    "a factor in forward mode": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: 1.01 * t * np.cos(x),), vjp=(lambda g, x: g * np.cos(x),), name=name
        ),
        (VECTOR,),
        r"fwd\(f\), argument 0: expected \S+ \(complex step\), got \S+ at position \(\d,\); max error",
    ),
    "a factor in reverse mode": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: t * np.cos(x),), vjp=(lambda g, x: 1.01 * g * np.cos(x),), name=name
        ),
        (VECTOR,),
        r"rev\(f\), argument 0: expected \S+ \(differences\), got \S+ at position \(\d,\); max error",
    ),
    "one element in reverse mode": Wrong(
        lambda name: operation(
            sine,
            jvp=(lambda t, x: t * np.cos(x),),
            vjp=(lambda g, x: g * np.cos(x) + np.array([0.0, 0.0, 1e-3]),),
            name=name,
        ),
        (VECTOR,),
        r"rev\(f\), argument 0: expected .* at position \(2,\)",
    ),
    "less than differences can see": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: t * np.cos(x),), vjp=(lambda g, x: (1 + 1e-9) * g * np.cos(x),), name=name
        ),
        (VECTOR,),
        r"fwd\(f\) and rev\(f\), argument 0, adjoint identity: expected \S+ \(forward mode\)",
    ),
    "the second order, forward": Wrong(
        wrong_at_second_order, (VECTOR,), r"fwd\(fwd\(f\)\), argument 0: expected \S+ \(differences\)", ("fwd",)
    ),
    "the second order, reverse": Wrong(wrong_at_second_order, (VECTOR,), r"rev\(rev\(f\)\), argument 0: ", ("rev",)),
    "the second order, one mode of two": Wrong(
        lambda name: operation(
            sine,
            jvp=(lambda t, x: t * np.cos(x),),
            vjp=(lambda g, x: g * dt.stop_gradient(np.cos(x)),),
            name=name,
        ),
        (VECTOR,),
        r"fwd\(rev\(f\)\), argument 0: expected \S+ \(differences\), got -?0.0 at position",
    ),
    "a cotangent that carries no derivative": Wrong(
        lambda name: operation(
            sine,
            jvp=(lambda t, x: t * np.cos(x),),
            vjp=(lambda g, x: dt.stop_gradient(g) * np.cos(x),),
            name=name,
        ),
        (VECTOR,),
        r"fwd\(rev\(f\)\), the cotangent: expected",
    ),
    "a missing conjugate": Wrong(
        lambda name: operation(square, jvp=(lambda t, x: 2 * t * x,), vjp=(lambda g, x: 2 * g * x,), name=name),
        (VECTOR + 1j,),
        r"rev\(f\), argument 0: expected \(\S+j\)",
    ),
    "a shape": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: (t * np.cos(x))[:1],), vjp=(lambda g, x: g * np.cos(x),), name=name
        ),
        (VECTOR,),
        r"fwd\(f\), argument 0: .*shape",
    ),
    "a shape in reverse mode": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: t * np.cos(x),), vjp=(lambda g, x: (g * np.cos(x))[:, None],), name=name
        ),
        (VECTOR,),
        r"rev\(f\), argument 0: .*shape",
    ),
    "a dtype": Wrong(
        lambda name: operation(
            sine,
            jvp=(lambda t, x: t * np.cos(x) * np.ones(3),),
            vjp=(lambda g, x: g * np.cos(x),),
            name=name,
        ),
        (VECTOR.astype(np.float32),),
        r"fwd\(f\), argument 0: .*dtype",
    ),
    "a rule that raises": Wrong(
        lambda name: operation(
            sine, jvp=(lambda t, x: t * np.cos(x),), vjp=(lambda g, x: g * np.cos(x) @ np.ones(7),), name=name
        ),
        (VECTOR,),
        r"rev\(f\), argument 0: raised ValueError",
    ),
    "the value": Wrong(changes_its_value, (VECTOR,), r"fwd\(f\), argument 0, value: expected .* \(plain evaluation\)"),
    "an array that the tape keeps": Wrong(
        writes_into_its_operand, (VECTOR,), r"rev\(f\), argument 0, the pullback called again: expected"
    ),
    "one argument of two, forward": Wrong(
        lambda name: operation(
            product,
            jvp=(lambda t, y: t * y, lambda t, x: -t * x),
            vjp=(lambda g, y: g * y, lambda g, x: g * x),
            name=name,
        ),
        (VECTOR, VECTOR + 1),
        r"fwd\(f\), argument 1: expected",
    ),
    "one argument of two, reverse": Wrong(
        lambda name: operation(
            product,
            jvp=(lambda t, y: t * y, lambda t, x: t * x),
            vjp=(lambda g, y: g * y, lambda g, x: -g * x),
            name=name,
        ),
        (VECTOR, VECTOR + 1),
        r"rev\(f\), argument 1: expected",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_rule_is_found(what: str) -> None:
    wrong = WRONG[what]
    f = wrong.make("wrong_on_purpose")
    with pytest.raises(AssertionError) as failure:
        check_grads(f, wrong.args, modes=wrong.modes)  # type: ignore[arg-type]
    assert re.match(wrong.says, str(failure.value)), str(failure.value)


@pytest.mark.parametrize("what", ["the second order, forward", "the second order, reverse"])
def test_a_rule_wrong_at_second_order_passes_at_first(what: str) -> None:
    check_grads(WRONG[what].make("wrong_on_purpose"), WRONG[what].args, order=1)


def test_the_leaf_of_a_structure_is_named() -> None:
    wrong = operation(
        product,
        jvp=(lambda t, y: t * y, lambda t, x: -t * x),
        vjp=(lambda g, y: g * y, lambda g, x: g * x),
        name="wrong_on_purpose",
    )
    with pytest.raises(AssertionError, match=r"^fwd\(f\), argument 1, leaf 1, result 1: expected"):
        check_grads(lambda n, p: (p["a"], wrong(p["a"], p["b"]), n), (3, {"a": 1.5, "b": 2.0}))


def test_a_kink_is_said_to_be_one() -> None:
    with pytest.raises(AssertionError, match="a kink or an edge of the domain"):
        check_grads(np.abs, (np.array([1.0, 0.0]),))


def test_an_edge_of_the_domain_is_an_error() -> None:
    with pytest.raises(AssertionError, match=r"^f, argument 0: the reference \(differences\) is not finite"):
        check_grads(np.sqrt, (np.array([1.0, 0.0]),), method="differences")


# Misuse is refused.


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"args": VECTOR}, TypeError, "args is a tuple"),
        ({"args": (3,)}, TypeError, "nothing to differentiate"),
        ({"args": (1.0,), "order": 0}, ValueError, "order"),
        ({"args": (1.0,), "modes": ("forward",)}, ValueError, "unknown mode 'forward'"),
        ({"args": (1.0,), "modes": ()}, ValueError, "no mode to check"),
        ({"args": (1.0,), "method": "exact"}, ValueError, "unknown method 'exact'"),
        ({"args": (1j,), "method": "complex_step"}, ValueError, "needs real arguments"),
    ],
)
def test_misuse_is_refused(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        check_grads(np.sin, **arguments)


def test_a_result_without_derivative_is_refused() -> None:
    with pytest.raises(TypeError, match="no result of float or complex dtype"):
        check_grads(lambda x: 3, (1.0,))


def test_the_arguments_stay_as_they_were() -> None:
    x = VECTOR.copy()
    check_grads(np.sin, (x,))
    assert np.array_equal(x, VECTOR)


# The reference.


@pytest.mark.parametrize(
    ("f", "derivative", "tolerance"),
    [
        (np.exp, np.exp, 1e-15),  # analytic: the complex step is exact to rounding
        (lambda x: np.abs(x) * x, lambda x: 2 * np.abs(x), 1e-11),  # a complex step would be wrong, silently
        (lambda x: x * np.conj(x), lambda x: 2 * x, 1e-11),
        (lambda x: np.maximum(x, 1.0) ** 2, lambda x: np.where(x > 1, 2 * x, 0.0), 1e-11),
        (lambda x: x.astype(np.float32) ** 2, lambda x: 2 * x, 1e-3),  # single precision inside
        (lambda x: np.log(x), lambda x: 1 / x, 1e-14),
    ],
)
def test_the_reference_is_accurate(f: Callable[..., Any], derivative: Callable[..., Any], tolerance: float) -> None:
    found = numerical_jvp(f, (VECTOR,), (np.ones(3),))
    assert np.allclose(found, derivative(VECTOR), rtol=tolerance, atol=tolerance)


def test_the_reference_has_the_structure_of_the_result() -> None:
    found = numerical_jvp(lambda x, n: {"power": x**n, "n": n}, (np.float32(2.0), 3), (1.0, 0))
    assert list(found) == ["power", "n"]
    assert found["power"] == pytest.approx(12.0, rel=1e-12)
    assert found["n"] == 0.0


def test_the_reference_along_a_complex_direction() -> None:
    assert numerical_jvp(square, (1 + 2j,), (1j,)) == pytest.approx(2j * (1 + 2j), rel=1e-10)


@pytest.mark.parametrize("tangents", [(1.0, 2.0), (np.ones(2),)])
def test_a_tangent_that_does_not_fit_is_refused(tangents: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="tangent"):
        numerical_jvp(np.sin, (VECTOR,), tangents)


# Rules that functions bring along.


def with_vjp(fwd: Callable[..., Any], bwd: Callable[..., Any], f: Callable[..., Any] = np.sin) -> Any:
    made = dt.custom_vjp(lambda x: f(x))
    made.defvjp(fwd, bwd)
    return made


def with_both(jvp: Callable[..., Any], fwd: Callable[..., Any], bwd: Callable[..., Any]) -> Any:
    made = with_vjp(fwd, bwd)
    made.defjvp(jvp)
    return made


def sine_jvp(primals: Any, tangents: Any) -> Any:
    return np.sin(primals[0]), np.cos(primals[0]) * tangents[0]


SINE_VJP = (lambda x: (np.sin(x), x)), (lambda x, g: (g * np.cos(x),))


class Plane:
    """Functions with rules, as methods."""

    @dt.custom_gradient
    def scaled(self, x: Any) -> Any:
        return 3.0 * x, lambda g: 3.0 * g


def test_right_rules_pass_and_say_which_side_is_derived() -> None:
    by_jvp = dt.custom_jvp(lambda x: np.sin(x))
    by_jvp.defjvp(sine_jvp)
    by_gradient = dt.custom_gradient(lambda x, y: (x * y, lambda g: (g * np.conj(y), g * np.conj(x))))
    row = operation(cosine, partials=(lambda x: -np.sin(x),), name="cosine_checked")
    for f, args, expected in (
        (by_jvp, (VECTOR,), {"jvp": "given", "vjp": "derived"}),
        (with_vjp(*SINE_VJP), (VECTOR,), {"jvp": "derived", "vjp": "given"}),
        (with_both(sine_jvp, *SINE_VJP), (VECTOR,), {"jvp": "given", "vjp": "given"}),
        (by_gradient, (VECTOR + 1j, VECTOR), {"jvp": "derived", "vjp": "given"}),
        (by_gradient, (VECTOR.astype(np.float32), VECTOR.astype(np.float32)), {"jvp": "derived", "vjp": "given"}),
        (Plane().scaled, (VECTOR,), {"jvp": "derived", "vjp": "given"}),
        (row, (VECTOR,), {"jvp": "given", "vjp": "given"}),
    ):
        assert check_rule(f, args) == expected


STRAIGHT = dt.custom_gradient(lambda x: (np.round(x), lambda g: g))


def test_rules_that_depart_from_the_derivative_on_purpose_are_checked_for_the_rest() -> None:
    assert check_rule(STRAIGHT, (VECTOR,), exact=False) == {"jvp": "derived", "vjp": "given"}
    with pytest.raises(AssertionError, match=r"fwd\(f\), argument 0: expected 0"):
        check_rule(STRAIGHT, (VECTOR,))
    assert check_rule(dt.grad_pass_through(np.round), (VECTOR,), exact=False)["jvp"] == "derived"


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (
            dt.custom_gradient(lambda x: (np.sin(x), lambda g: np.clip(g, -1.6, 1.6))),
            r"the given reverse rule is not linear, at 64 times as much: expected .* \(by linearity\)",
        ),
        (
            dt.custom_gradient(lambda x: (np.sin(x), lambda g: g * np.cos(x) + 1.0)),
            "the given reverse rule is not linear",
        ),
        (
            with_both(lambda p, t: (np.sin(p[0]), np.abs(t[0])), *SINE_VJP),
            "the given forward rule is not linear, at a sum",
        ),
        (
            with_both(lambda p, t: (np.sin(p[0]), 1.01 * np.cos(p[0]) * t[0]), *SINE_VJP),
            "the given forward rule and the given reverse rule, <R w, v> = <w, F v>: expected",
        ),
        (
            with_vjp(lambda x: (np.sin(x) + 1e-3, x), SINE_VJP[1]),
            "the given reverse rule, argument 0, value: expected",
        ),
    ],
)
def test_wrong_rules_are_found_even_where_they_may_depart_from_the_derivative(f: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_rule(f, (VECTOR,), exact=False)


def test_a_rule_that_is_not_the_derivative_is_found() -> None:
    with pytest.raises(AssertionError, match=r"fwd\(f\), argument 0: expected"):
        check_rule(with_vjp(lambda x: (np.sin(x), x), lambda x, g: (1.01 * g * np.cos(x),)), (VECTOR,))


def test_functions_without_rules_are_refused() -> None:
    for f, says in (
        (np.sin, "check_rule takes a function that brings rules along, not sin; check_grads checks"),
        (dt.checkpoint(square), "check_rule: square has no rule of its own"),
        (dt.custom_vjp(square), "check_rule: square has no rule of its own"),
    ):
        with pytest.raises(TypeError, match=says):
            check_rule(f, (VECTOR,))
    with pytest.raises(TypeError, match="check_rule: no result of float or complex dtype"):
        check_rule(dt.custom_gradient(lambda x: (3, lambda g: g)), (VECTOR,))
