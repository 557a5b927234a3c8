"""Rows registered from outside: what kernels and rules return is checked, keywords are those of a function.

Length: four tables of what is refused, each with its message.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.core.lookup import ROWS, TABLE, load_late_families
from dualtape.extend import operation
from dualtape.facts.costs import Performed
from dualtape.facts.patterns import reached
from dualtape.testing import check_grads

X = np.array([0.3, 0.7, -0.2])


@pytest.fixture(autouse=True)
def no_row_stays() -> Iterator[None]:
    """What a test registers leaves the table with it."""
    load_late_families("any")  # or those that a test brings in would leave with it
    rows, table = dict(ROWS), dict(TABLE)
    yield
    for current, before in ((ROWS, rows), (TABLE, table)):
        current.clear()
        current.update(before)


def sine(**rules: Any) -> Any:
    """The sine with rules of which one is wrong."""
    right: dict[str, Any] = {"jvp": lambda t, x: t * np.cos(x), "vjp": lambda g, x: g * np.cos(x)}
    return operation(lambda x: np.sin(x), name="sine", **(right | rules))


# ------------------------------------------------------------------ rules
def product(jvp: Any = None, vjp: Any = None) -> Any:
    return operation(
        lambda a, b: a * b,
        name="product",
        jvp=jvp or [lambda t, y: t * y, lambda t, x: t * x],
        vjp=vjp or [lambda g, y: g * y, lambda g, x: g * x],
    )


def reverse(f: Any) -> Any:
    return dt.grad(lambda x: np.sum(f(x)))(X)


def forward(f: Any) -> Any:
    return dt.jvp(f, (X,), (X,))


RETURNS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a cotangent that is not un-broadcast": (
        lambda: dt.grad(lambda a: np.sum(product()(a, X)))(2.0),
        ValueError,
        r"product: the vjp of operand 0 \('a'\) returned shape \(3,\), but the operand has shape \(\).*sum over",
    ),
    "a cotangent that is summed": (
        lambda: reverse(sine(vjp=lambda g, x: np.sum(g * np.cos(x)))),
        ValueError,
        r"sine: the vjp of operand 0 \('x'\) returned shape \(\), but the operand has shape \(3,\)",
    ),
    "a tangent of another shape": (
        lambda: forward(sine(jvp=lambda t, x: (t * np.cos(x))[None])),
        ValueError,
        r"sine: the jvp of operand 0 \('x'\) returned shape \(1, 3\), but the result has shape \(3,\)",
    ),
    "a tangent that would broadcast": (
        lambda: forward(sine(jvp=lambda t, x: (t * np.cos(x))[:1])),
        ValueError,
        r"sine: the jvp .* returned shape \(1,\), but the result has shape \(3,\)",
    ),
    "no tangent": (lambda: forward(sine(jvp=lambda t: None)), TypeError, "the jvp of operand 0 .* returned None"),
    "no cotangent": (lambda: reverse(sine(vjp=lambda g: None)), TypeError, "the vjp of operand 0 .* returned None"),
    "a complex tangent": (
        lambda: forward(sine(jvp=lambda t, x: t * 1j)),
        ValueError,
        r"the jvp of operand 0 .* complex tangent, but the result is real \(float64\)",
    ),
    "no number": (lambda: reverse(sine(vjp=lambda g: "g")), TypeError, "the vjp of .* returned a str"),
    "a partial of another shape": (
        lambda: reverse(operation(lambda x: np.sin(x), name="sine", partials=lambda x: np.cos(x)[:, None])),
        ValueError,
        r"sine: the partial by operand 0 \('x'\) returned shape \(3, 1\)",
    ),
    "no partial": (
        lambda: forward(operation(lambda x: np.sin(x), name="sine", partials=lambda x: None)),
        TypeError,
        "sine: the partial by operand 0 .* returned None",
    ),
    "a transpose of another shape": (
        lambda: reverse(operation(lambda x: x[:2], name="two", transpose=lambda g, shape: g)),
        ValueError,
        r"two: the transpose returned shape \(2,\), but the operand has shape \(3,\)",
    ),
    "one tangent for two results": (
        lambda: forward(
            operation(lambda x: (x, x), name="twice", outputs=2, jvp=lambda t: t, vjp=lambda g: g[0] + g[1])
        ),
        ValueError,
        "twice: the jvp .* a tuple, one for each of 2 results",
    ),
    "a wrong tangent of one of two results": (
        lambda: forward(
            operation(lambda x: (x, x), name="twice", outputs=2, jvp=lambda t: (t, t[:2]), vjp=lambda g: g[0] + g[1])
        ),
        ValueError,
        r"twice: the jvp of operand 0 \('x'\) \(result 1\) returned shape \(2,\)",
    ),
}


@pytest.mark.parametrize("what", RETURNS)
def test_what_a_rule_returns_is_checked(what: str) -> None:
    call, error, says = RETURNS[what]
    with pytest.raises(error, match=says):
        call()


def test_a_rule_is_checked_at_every_order() -> None:
    f = sine(vjp=lambda g, x: g * np.cos(x) if isinstance(x, np.ndarray) else (g * np.cos(x))[:, None])
    assert np.allclose(reverse(f), np.cos(X))
    with pytest.raises(ValueError, match=r"returned shape \(3, 1\)"):
        dt.hvp(lambda x: np.sum(f(x)), X, X)


def test_right_rules_pass() -> None:
    check_grads(sine(), (X,), order=3)
    by_sum = product(vjp=[lambda g, y, shape: total(g * y, shape), lambda g, x, shape: total(g * x, shape)])
    for args in ((2.0, X), (X, 2.0), (X, X), (X[:, None], X), (X.astype(np.float32), X.astype(np.float32))):
        check_grads(by_sum, args)
    # A tangent of the operand's shape is broadcast as the operand is.
    add = operation(
        lambda x, y: x + y,
        name="plus",
        jvp=[lambda t: t, lambda t: t],
        vjp=[lambda g, shape: total(g, shape), lambda g, shape: total(g, shape)],
    )
    check_grads(add, (2.0, X))
    parts = operation(
        lambda x: (np.sin(x), np.cos(x), np.argmax(x)),
        name="parts",
        outputs=3,
        jvp=lambda t, x: (t * np.cos(x), -t * np.sin(x), None),
        vjp=lambda g, x: (0 if g[0] is None else g[0] * np.cos(x)) - (0 * x if g[1] is None else g[1] * np.sin(x)),
    )
    check_grads(parts, (X,))
    check_grads(operation(lambda x, y: x / y, name="by", partials=[lambda y: 1 / y, lambda x, y: -x / y**2]), (X, 2.0))
    check_grads(operation(lambda x: x[::-1], name="turned", transpose=lambda g, shape: g[::-1]), (X,))
    constant_partial = operation(lambda x: 3.0 * x, name="triple", partials=3.0)
    assert float(dt.grad(constant_partial)(1.0)) == 3.0


def total(g: Any, shape: tuple[int, ...]) -> Any:
    """The sum over the axes that are not in ``shape``."""
    while np.ndim(g) > len(shape):
        g = np.sum(g, axis=0)
    for k, n in enumerate(shape):
        g = np.sum(g, axis=k, keepdims=True) if n == 1 else g
    return g


# ------------------------------------------------------------------ kernels
RULES: dict[str, Any] = {"jvp": lambda t: t, "vjp": lambda g: g}


def writes(x: Any) -> Any:
    x *= 2.0
    return x


KERNELS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "writes into its operand": (
        lambda: operation(writes, **RULES)(X.copy()),
        ValueError,
        "writes: the kernel writes into an operand.*copy",
    ),
    "writes into a Tensor": (lambda: reverse(operation(writes, **RULES)), ValueError, "writes into an operand"),
    "returns nothing": (lambda: operation(lambda x: None, name="k", **RULES)(X), TypeError, "k: .*returned a NoneType"),
    "returns a tuple": (
        lambda: operation(lambda x: (x, x), name="k", **RULES)(X),
        TypeError,
        "k: the kernel returned a tuple.*outputs=2",
    ),
    "returns two results of three": (
        lambda: operation(lambda x: (x, x), name="k", outputs=3, **RULES)(X),
        ValueError,
        "k: the kernel returned 2 results, but is registered with outputs=3",
    ),
    "returns one result of two": (
        lambda: operation(lambda x: x, name="k", outputs=2, **RULES)(X),
        ValueError,
        "k: the kernel returned a ndarray, but is registered with outputs=2",
    ),
    "returns objects": (
        lambda: operation(np.frompyfunc(lambda x: x, 1, 1), name="k", **RULES)(X),
        TypeError,
        "k: the kernel returned an array of dtype object",
    ),
    "is not elementwise": (
        lambda: operation(lambda x: np.sum(x), name="k", partials=lambda x: x)(X),
        ValueError,
        r"k: the kernel returned shape \(\), but with partials it is elementwise: \(3,\)",
    ),
}


@pytest.mark.parametrize("what", KERNELS)
def test_what_a_kernel_does_is_checked(what: str) -> None:
    call, error, says = KERNELS[what]
    with pytest.raises(error, match=says):
        call()


def test_a_kernel_may_return_its_operand_or_a_view_of_it() -> None:
    same = operation(lambda x: x, name="same", **RULES)
    x = X.copy()
    y = same(x)
    x[0] = 100.0
    assert float(y[0]) == 0.3
    z = dt.constant(X) * 1.0
    y = same(z)
    z[0] = 100.0
    y[1] = 5.0
    assert y.numpy().tolist() == [0.3, 5.0, -0.2] and z.numpy().tolist() == [100.0, 0.7, -0.2]
    assert np.array_equal(reverse(same), np.ones(3))


def test_a_kernel_may_return_python_s_numbers() -> None:
    slope = lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x)  # noqa: E731
    erf = operation(math.erf, partials=slope, name="error function")
    check_grads(erf, (0.3,), method="differences")
    assert erf(np.float32(0.3)).dtype == np.float32 and dt.grad(erf)(np.float32(0.3)).dtype == np.float32
    by_rules = operation(math.erf, name="erf of rules", jvp=lambda t, x: t * slope(x), vjp=lambda g, x: g * slope(x))
    check_grads(by_rules, (0.3,), method="differences")
    count = operation(lambda x: 3, name="count", **RULES)
    assert count(1.0).dtype == np.int64


def test_numbers_keep_single_precision() -> None:
    widens = operation(lambda x, y: np.float64(1.0) * x * y, name="widens", partials=[lambda y: y, lambda x: x])
    x = np.float32(3.0)
    assert widens(dt.constant(x), 2.0).dtype == np.float64
    assert dt.grad(lambda x: widens(x, 2.0))(x).dtype == np.float32


# ------------------------------------------------------------------ keywords
def power() -> Any:
    return operation(
        lambda x, n=3: x**n,
        name="power of n",
        jvp=lambda t, x, n: t * n * x ** (n - 1),
        vjp=lambda g, x, n: g * n * x ** (n - 1),
    )


def test_keywords_are_those_of_the_kernel() -> None:
    f = power()
    assert float(dt.grad(f)(2.0)) == 12.0
    assert float(dt.grad(lambda x: f(x, 2))(2.0)) == 4.0
    assert float(dt.grad(lambda x: f(x, n=2))(2.0)) == 4.0
    assert float(dt.grad(lambda x: f(n=2, x=x))(2.0)) == 4.0
    assert float(f(2.0, dt.constant(2.0))) == 4.0
    check_grads(f, (X,))
    check_grads(lambda x: f(x, 2), (X,))
    with pytest.raises(TypeError, match="power of n: too many positional arguments"):
        f(X, 2, 3)
    with pytest.raises(TypeError, match="power of n: got an unexpected keyword argument 'm'"):
        f(X, m=3)
    with pytest.raises(TypeError, match="power of n: missing a required argument: 'x'"):
        f()
    with pytest.raises(TypeError, match="power of n: the keyword 'n' is a Tensor that a recorder follows"):
        dt.grad(lambda n: f(2.0, n))(2.0)


def test_keywords_of_transposes_and_open_kernels() -> None:
    scaled = operation(
        lambda x, c=2.0, *, quiet=True: c * x, name="scaled", transpose=lambda g, shape, c: np.conj(c) * g
    )
    check_grads(scaled, (X,))
    check_grads(lambda x: scaled(x, 1j), (X + 1j,))
    open_ = operation(lambda x, **params: x * params["c"], name="open", jvp=lambda t, c: t * c, vjp=lambda g, c: g * c)
    check_grads(lambda x: open_(x, c=3.0), (X,))
    several = operation(
        lambda *xs, c=2.0: c * xs[0] * xs[1],
        name="several",
        jvp=[lambda t, y, c: c * t * y, lambda t, x, c: c * t * x],
        vjp=[lambda g, y, c: c * g * y, lambda g, x, c: c * g * x],
    )
    check_grads(several, (X, X))
    with pytest.raises(TypeError, match=r"several: 2 operand\(s\) expected, got 1"):
        several(X)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a rule that reads what there is not": (
        lambda: operation(lambda x: x, name="k", jvp=lambda t, foo: t, vjp=lambda g: g),
        ValueError,
        "'k': the jvp of operand 0 reads 'foo', which is neither of x, out, shape, dtype, out_shape, out_dtype, "
        "results nor a keyword",
    ),
    "a reverse rule that reads a second operand": (
        lambda: operation(lambda x: x, name="k", jvp=lambda t: t, vjp=lambda g, y: g),
        ValueError,
        "'k': the vjp of operand 0 reads 'y'",
    ),
    "a keyword with another meaning": (
        lambda: operation(lambda x, shape=(): x, name="k", jvp=lambda t: t, vjp=lambda g, shape: g),
        ValueError,
        "reads 'shape', which is a keyword of the kernel and has a meaning of its own",
    ),
    "a rule that takes nothing": (
        lambda: operation(lambda x: x, name="k", jvp=lambda: 0, vjp=lambda g: g),
        ValueError,
        "the jvp of operand 0 takes a tangent",
    ),
    "more rules than operands": (
        lambda: operation(lambda x: x, name="k", jvp=[lambda t: t] * 2, vjp=[lambda g: g] * 2),
        ValueError,
        "'k': rules for 2 operands, but its kernel takes 1",
    ),
    "a transpose that reads what there is not": (
        lambda: operation(lambda x: x, name="k", transpose=lambda g, shape, axis: g),
        ValueError,
        "k: the transpose reads 'axis', which is no keyword of the kernel",
    ),
    "a transpose without a shape": (
        lambda: operation(lambda x: x, name="k", transpose=lambda g: g),
        ValueError,
        r"k: the transpose takes .*transpose\(g, shape",
    ),
    "several results without rules": (
        lambda: operation(lambda x: (x, x), name="k", outputs=2, partials=1.0),
        ValueError,
        "'k': several results need jvp and vjp",
    ),
    "a partial that is none": (
        lambda: operation(lambda x: x, name="k", partials=["x"]),
        TypeError,
        "'k': a partial is a number or a function, not a str",
    ),
    "three partials": (
        lambda: operation(lambda x, y, z: x, name="k", partials=[1, 1, 1]),
        ValueError,
        "'k': one or two partials, got 3",
    ),
    "a lambda without a name": (lambda: operation(lambda x: x, partials=1), TypeError, "needs one: name="),
    "a name of dualtape's own": (
        lambda: operation(np.sin, partials=lambda x: np.cos(x), replace=True),
        ValueError,
        "already a row named 'sin', of dualtape's own",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused_at_registration(what: str) -> None:
    register, error, says = REFUSED[what]
    rows, table = dict(ROWS), dict(TABLE)
    with pytest.raises(error, match=says):
        register()
    assert rows == ROWS and table == TABLE


def test_names_of_families_that_are_loaded_later_are_taken_as_well() -> None:
    """One that was registered first kept scipy.special out: its functions had no rows then."""
    code = """
import math, dualtape as dt
try:
    dt.extend.operation(math.erf, partials=0.0)
except ValueError as error:
    assert "already a row named 'erf', of dualtape's own" in str(error), error
else:
    raise AssertionError("erf was registered")
import scipy.special
assert float(dt.grad(scipy.special.erf)(0.0)) > 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------ columns: which elements depend on which, batches
def places(call: Any, x: Any, **params: Any) -> list[tuple[int, int]]:
    """The pattern of an operation of one operand, as pairs (element of the result, element of the operand)."""
    op = Performed((np.shape(x),), (np.shape(call(x, **params)),), (True,), params)
    return sorted((int(i), int(j)) for i, j in zip(*reached(call.row, op), strict=True))


def test_a_pattern_says_which_elements_depend_on_which() -> None:
    """The pairs are counted by hand: of x[::-1], the first result is the last element."""
    turn: dict[str, Any] = {"transpose": lambda g, shape: g[::-1]}
    assert places(operation(lambda x: x[::-1], name="moving", pattern="moved", **turn), X) == [(0, 2), (1, 1), (2, 0)]
    everything = [(i, j) for i in range(3) for j in range(3)]
    assert places(operation(lambda x: x[::-1], name="silent", **turn), X) == everything
    assert places(operation(lambda x: x[::-1], name="full", pattern="dense", **turn), X) == everything
    assert places(sine(pattern="elementwise"), X) == [(0, 0), (1, 1), (2, 2)]
    own = operation(
        lambda x, n=1: x[:n], name="first", transpose=lambda g, shape, n: np.append(g, np.zeros(shape[0] - n)),
        pattern=lambda op, k, j: (np.arange(op.params["n"]), np.arange(op.params["n"])),
    )  # fmt: skip
    assert places(own, X, n=2) == [(0, 0), (1, 1)]
    with pytest.raises(ValueError, match="'sine': no pattern is named 'banded', but 'dense', 'elementwise', 'moved'"):
        sine(pattern="banded")


def test_a_batch_goes_through_at_once_if_the_kernel_takes_axes_in_front() -> None:
    """Values are those of one example after the other; the gradient of sum(v[::-1] v v) is 2 v[::-1] v + v[::-1]^2."""
    turned = operation(
        lambda x: x[..., ::-1], name="turned", transpose=lambda g, shape: g[..., ::-1], pattern="moved", batch=True
    )
    many = np.array([X, 2 * X])
    value, how = dt.vmap(turned, explain=True)(many)
    assert np.array_equal(value, many[:, ::-1]) and how == "every operation ran once for all examples"
    found, how = dt.vmap(dt.grad(lambda v: np.sum(turned(v) * v * v)), explain=True)(many)
    assert np.allclose(found, 2 * many[:, ::-1] * many + many[:, ::-1] ** 2) and how.startswith("every")
    outside = dt.grad(lambda x: np.sum(dt.vmap(lambda v: turned(v) * v * v)(x)))(many)
    assert np.allclose(outside, found)
    for jacobian in (dt.jacfwd, dt.jacrev):
        assert np.array_equal(jacobian(turned)(X), np.eye(3)[::-1])
    rules: dict[str, Any] = {"jvp": lambda t: t.sum(), "vjp": lambda g, x: g + 0 * x}
    reduces = operation(lambda x: x.sum(), name="all of it", batch=True, **rules)
    value, how = dt.vmap(reduces, explain=True)(many)
    assert np.allclose(value, many.sum(1)) and how.startswith("once for each example")


def test_a_batch_goes_through_a_function_of_its_own_and_through_the_rules_where_it_is_followed() -> None:
    shapes = []

    def rows_at_once(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return np.sum(x * y, axis=1)

    inner = operation(
        lambda x, y: np.sum(x * y),
        name="inner of two",
        jvp=[lambda t, y: np.sum(t * y), lambda t, x: np.sum(x * t)],
        vjp=[lambda g, y: 7.0 * g * y, lambda g, x: g * x],  # wrong by 7, to see that it is asked
        batch=rows_at_once,
    )
    many = np.array([X, 2 * X])
    value, how = dt.vmap(lambda v: inner(v, X), explain=True)(many)
    assert np.allclose(value, many @ X) and how.startswith("every") and shapes == [((2, 3), (2, 3))]
    assert np.allclose(dt.vmap(dt.grad(lambda v: inner(v, X)))(many), 7.0 * np.array([X, X])) and len(shapes) == 2
    outside = dt.grad(lambda x: np.sum(dt.vmap(lambda v: inner(v, X))(x)))(many)
    assert np.allclose(outside, 7.0 * np.array([X, X])) and len(shapes) == 2
    parts = operation(
        lambda x: (x.sum(), x.max()),
        name="sum and largest",
        outputs=2,
        jvp=lambda t, x: (t.sum(), t[np.argmax(x)]),
        vjp=lambda g, x: 0 * x + g[0],
        batch=lambda x: (x.sum(1), x.max(1)),
    )
    (total, largest), how = dt.vmap(parts, explain=True)(many)
    assert np.allclose(total, many.sum(1)) and np.allclose(largest, [0.7, 1.4]) and how.startswith("every")


# ------------------------------------------------------------------ registering again
def cell(x: Any) -> Any:
    """A kernel as a cell of a notebook defines it."""
    return 2.0 * x


def test_a_cell_may_run_again() -> None:
    def marker(x: Any) -> Any:
        return x

    first = operation(cell, partials=2.0, functions=[marker])
    second = operation(cell, partials=lambda x: 0 * x + 2.0, functions=[marker])
    assert ROWS["cell"] is second.row and TABLE[marker] is second
    assert float(dt.grad(first)(1.0)) == float(dt.grad(second)(1.0)) == 2.0
    with pytest.raises(ValueError, match="'sin' already has an operation"):
        operation(cell, partials=2.0, functions=[np.sin])
    assert ROWS["cell"] is second.row and TABLE[marker] is second


def test_another_kernel_takes_a_name_over_only_if_told_to() -> None:
    first = operation(lambda x: 2.0 * x, name="k", partials=2.0)
    with pytest.raises(ValueError, match=r"already a row named 'k'.*replace=True"):
        operation(lambda x: 3.0 * x, name="k", partials=3.0)
    assert ROWS["k"] is first.row
    second = operation(lambda x: 3.0 * x, name="k", partials=3.0, replace=True)
    assert ROWS["k"] is second.row
    assert (float(dt.grad(first)(1.0)), float(dt.grad(second)(1.0))) == (2.0, 3.0)

    @operation(name="k", partials=4.0, replace=True)
    def third(x: Any) -> Any:
        return 4.0 * x

    assert ROWS["k"] is third.row


def test_a_partial_with_an_array_of_its_own_sees_large_arrays_whole() -> None:
    weights = np.linspace(1.0, 2.0, 2**15)
    scale = operation(lambda x: weights * x * x, partials=lambda x: 2.0 * weights * x, name="weighted_square")
    x = np.linspace(0.1, 0.9, 2**17).reshape(4, -1)
    right = 2.0 * weights * x
    assert np.allclose(dt.grad(lambda x: np.sum(scale(x)))(x), right, rtol=1e-14)
    assert np.allclose(dt.jvp(scale, (x,), (np.ones_like(x),))[1], right, rtol=1e-14)


def test_a_rule_may_not_write_into_what_it_is_given() -> None:
    double = operation(
        lambda x: 2 * x, jvp=lambda t: np.multiply(t, 2, out=t), vjp=lambda g: np.multiply(g, 2, out=g), name="double"
    )
    with pytest.raises(ValueError, match="read-only"):
        dt.jvp(lambda x: double(x) + x, (np.ones(3),), (np.ones(3),))
    with pytest.raises(ValueError, match="read-only"):
        dt.grad(lambda x: np.sum(double(x) * x))(np.ones(3))


def test_a_partial_that_is_a_complex_number_is_conjugated_on_the_way_back() -> None:
    turn = operation(lambda x: 2j * x, name="turned_for_a_test", partials=2j)
    x, g = np.array([1.0 + 2.0j, -0.5j]), np.array([0.3 - 1.0j, 2.0 + 0.0j])
    value, pullback = dt.vjp(turn, x)
    _, moved = dt.jvp(turn, (x,), (np.ones(2, complex),))
    assert np.allclose(value, 2j * x) and np.allclose(moved, 2j)
    assert np.allclose(pullback(g)[0], -2j * g)
