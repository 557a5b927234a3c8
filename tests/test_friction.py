"""Small things that stop a user: what is accepted as it is meant, and errors that say what to write.

Values are by hand unless a line says otherwise. Phrases are those that TensorFlow's own tests look for.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special as sc

import dualtape as dt
from dualtape.core.lookup import INSTEAD, TABLE, unknown
from dualtape.ops.instead import SPECIAL

X = np.array([1.0, -2.0, 3.0])


def taped(persistent: bool = True) -> tuple[Any, Any, Any, Any]:
    """A tape, x = 2, and y = x**2, z = 3 x."""
    x = dt.constant(2.0)
    with dt.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y, z = x * x, 3.0 * x
    return tape, x, y, z


# ------------------------------------------------------------------ Variables
IN_PLACE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+=": (operator.iadd, "v.assign_add(value)"),
    "-=": (operator.isub, "v.assign_sub(value)"),
    "*=": (operator.imul, "v.assign(v * value)"),
    "/=": (operator.itruediv, "v.assign(v / value)"),
    "//=": (operator.ifloordiv, "v.assign(v // value)"),
    "%=": (operator.imod, "v.assign(v % value)"),
    "**=": (operator.ipow, "v.assign(v ** value)"),
    "@=": (operator.imatmul, "v.assign(v @ value)"),
    "<<=": (operator.ilshift, "v.assign(v << value)"),
    ">>=": (operator.irshift, "v.assign(v >> value)"),
    "&=": (operator.iand, "v.assign(v & value)"),
    "|=": (operator.ior, "v.assign(v | value)"),
    "^=": (operator.ixor, "v.assign(v ^ value)"),
}


@pytest.mark.parametrize("symbol", IN_PLACE)
def test_an_operator_in_place_on_a_variable_names_the_method(symbol: str) -> None:
    """Python would have bound the name to a Tensor: nothing was assigned, and nothing said so."""
    w = dt.Variable([3, 4], name="w")
    change, remedy = IN_PLACE[symbol]
    for recording in (False, True):
        with pytest.raises(RuntimeError, match=re.escape(f"v {symbol} value, with 'w': ") + ".*" + re.escape(remedy)):
            if recording:
                with dt.GradientTape():
                    change(w, 1)
            else:
                change(w, 1)
    assert w.numpy().tolist() == [3, 4]


WRITES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "item": (lambda v: operator.setitem(v, 0, 1.0), r"no part can be assigned: use v\.assign\(value\)"),
    "out=": (lambda v: np.add(v, 1.0, out=v), "add: a Variable cannot be written into; .* have the method assign"),
    "out= of arrays": (lambda v: np.add(np.ones(2), 1.0, out=v), "add: a Variable cannot be written into"),
    "ufunc.at": (lambda v: np.add.at(v, [0], 1.0), "add.at: a Variable cannot be written into"),
    "fill_diagonal": (lambda v: np.fill_diagonal(v, 0.0), "fill_diagonal: a Variable cannot be written into"),
}


@pytest.mark.parametrize("how", WRITES)
def test_what_would_write_into_a_variable_names_assign(how: str) -> None:
    """``out=`` recursed without end before, and ``fill_diagonal`` said that a derivative would be lost."""
    v = dt.Variable(np.eye(2))
    write, says = WRITES[how]
    with pytest.raises(TypeError, match=says):
        write(v)
    assert np.array_equal(v.numpy(), np.eye(2))


# ------------------------------------------------------------------ what is converted, and what is one element
def test_arrays_are_converted_to_tensors_of_a_dtype() -> None:
    single = dt.convert_to_tensor(X, dtype="float32")
    assert single.dtype == np.float32 and np.array_equal(single, X)
    assert dt.convert_to_tensor(np.float64(1.5), dtype=np.int64).numpy() == 1  # as astype
    assert dt.convert_to_tensor(np.array([1, 2]), dtype="complex128").dtype == np.complex128
    g = dt.grad(lambda x: dt.convert_to_tensor(np.array([x, x * x], dtype=object), dtype="float32")[1])(3.0)
    assert float(g) == 6.0
    for given in (dt.constant(X), dt.Variable(X)):
        with pytest.raises(ValueError, match=r"float32 for a (Tensor|Variable) of dtype float64; .*cast converts"):
            dt.convert_to_tensor(given, dtype="float32")


@pytest.mark.parametrize("true", [True, [[1.0]], np.array([[[True]]]), dt.constant([2]), np.float32(0.5)])
def test_a_condition_has_one_element_of_any_rank(true: Any) -> None:
    false = np.zeros_like(np.asarray(true))
    for condition, answer in ((true, "yes"), (false, "no")):
        assert dt.cond(condition, lambda: "yes", lambda: "no") == answer
        assert dt.case([(condition, lambda: "yes")], default=lambda: "no") == answer


def test_loops_and_switches_take_one_element_of_any_rank() -> None:
    power = lambda x: dt.while_loop(  # noqa: E731
        lambda k, y: dt.reshape(k < 3, (1, 1)), lambda k, y: (k + 1, y * x), (0, 1.0), maximum_iterations=np.array([9])
    )[1]
    assert float(dt.grad(power)(2.0)) == 12.0
    assert dt.switch_case(np.array([[1]]), [lambda: "a", lambda: "b"]) == "b"
    same = lambda v: dt.cond(dt.reshape(v > 0, (1,)), lambda: v, lambda: -v)  # noqa: E731
    assert np.array_equal(dt.vmap(same)(np.abs(X)), np.abs(X))
    for refused in ([], [True, False]):
        with pytest.raises(ValueError, match=rf"cond: pred must have exactly one element, not shape \({len(refused)},"):
            dt.cond(refused, lambda: 1, lambda: 2)


GIVEN: dict[str, tuple[Callable[[Any, Any], Any], Any, float]] = {
    # At x = 2: dy/dx = 4, dz/dx = 3, times what is given.
    "one target, an empty part": (lambda y, z: [y, ()], [5.0, ()], 20.0),
    "a bare target": (lambda y, z: y, [5.0, ()], 20.0),
    "an empty part between": (lambda y, z: [y, (), z], [5.0, (), 10.0], 50.0),
    "as a flat list": (lambda y, z: [y, (), z], [5.0, 10.0], 50.0),
    "for targets without one": (lambda y, z: [y, z], [5.0, (), 10.0], 50.0),
    "inside": (lambda y, z: [[y, ()], []], [[5.0, ()], []], 20.0),
    "by key": (lambda y, z: {"a": y, "b": {}, "c": z}, {"c": 10.0, "b": (), "a": 5.0}, 50.0),
    "None is ones": (lambda y, z: [y, ()], [None, ()], 4.0),
}


@pytest.mark.parametrize("how", GIVEN)
def test_output_gradients_may_have_empty_parts(how: str) -> None:
    tape, x, y, z = taped()
    target, given, expected = GIVEN[how]
    assert float(tape.gradient(target(y, z), x, output_gradients=given)) == expected


def test_the_gradient_of_no_targets_is_none() -> None:
    tape, x, _, z = taped()
    for nothing in ([], (), {}, [[], ()]):
        assert tape.gradient(nothing, x) is None
    assert tape.gradient([], {"a": x, "b": [z]}) == {"a": None, "b": [None]}
    assert float(tape.gradient([], x, unconnected_gradients="zero")) == 0.0
    for none in (None, [None]):
        with pytest.raises(TypeError, match=r"gradient\(\) needs a target, got None"):
            tape.gradient(none, x)


# ------------------------------------------------------------------ TensorFlow's phrases
def used_twice(what: str) -> Any:
    tape, x, y, _ = taped(persistent=False)
    tape.gradient(y, x)
    return getattr(tape, what)(y, x)


def of_operation(gradients: list[Any]) -> Any:
    x = dt.constant(2.0)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.constant(4.0)
        dt.record_operation("InvalidBackprop", [y], [x], lambda g: gradients)
    return tape.gradient(y, x)


def rows(target: Any, source: Any) -> Any:
    x = dt.constant(source)
    with dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.zeros(target) * np.sum(x)
    return tape.batch_jacobian(y, x)


def loop(start: Any, body: Any) -> Any:
    return dt.while_loop(lambda k, y: k < 3, body, (0, start))


STRUCTURE = "don't have the same nested structure"
PHRASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "gradient twice": (
        lambda: used_twice("gradient"),
        RuntimeError,
        r"A non-persistent GradientTape can only .*persistent=True",
    ),
    "jacobian after it": (lambda: used_twice("jacobian"), RuntimeError, "A non-persistent GradientTape can only"),
    "unconnected": (
        lambda: taped()[0].gradient([], [], unconnected_gradients="nonsense"),
        ValueError,
        'Unknown value for unconnected_gradients: \'nonsense\'; it is "none" or "zero"',
    ),
    "rank of the target": (lambda: rows((2,), np.ones((2, 2))), ValueError, "target must have rank at least 2"),
    "rank of the source": (lambda: rows((2, 2), np.ones(2)), ValueError, "source must have rank at least 2.*jacobian"),
    "first axes": (
        lambda: rows((3, 2), np.ones((2, 2))),
        ValueError,
        r"Need first dimension of target shape \(3, 2\) and source shape \(2, 2\) to match",
    ),
    "prevented": (
        lambda: dt.grad(lambda x: dt.prevent_gradient(x, "no tides"))(1.0),
        LookupError,
        "explicitly disabled here: no tides",
    ),
    "too few": (lambda: of_operation([]), ValueError, "'InvalidBackprop'.*0 entries where 1 .*too few gradients"),
    "too many": (lambda: of_operation([1.0, 1.0]), ValueError, "'InvalidBackprop'.*too many gradients"),
    "tangents": (
        lambda: dt.ForwardAccumulator([dt.constant(1.0)], [1.0, 2.0]),
        ValueError,
        f"{STRUCTURE}.* the same number of elements: 2 entries where there are 1",
    ),
    "tangents by key": (
        lambda: dt.ForwardAccumulator({"a": dt.constant(1.0)}, {"b": 1.0}),
        ValueError,
        f"{STRUCTURE}: keys",
    ),
    "output_gradients": (
        lambda: (lambda tape, x, y, z: tape.gradient([y, z], x, [1.0, 2.0, 3.0]))(*taped()),
        ValueError,
        f"3 entries for 2 targets: .*{STRUCTURE}.* the same number of elements",
    ),
    "fewer loop variables": (lambda: loop(1.0, lambda k, y: k + 1), ValueError, "the same number of elements: 2 and 1"),
    "another nesting": (lambda: loop(1.0, lambda k, y: (k + 1, (y, y))), ValueError, f"{STRUCTURE}: Tensor and tuple"),
    "fewer inside": (lambda: loop([1.0, 2.0], lambda k, y: (k + 1, y[:1])), ValueError, "number of elements: 2 and 1"),
}


@pytest.mark.parametrize("what", PHRASES)
def test_errors_have_tensorflows_phrases(what: str) -> None:
    call, error, says = PHRASES[what]
    with pytest.raises(error, match=says):
        call()


def test_a_loop_variable_may_be_a_list_that_comes_back_as_a_tuple() -> None:
    assert [float(v) for v in loop([1.0, 2.0], lambda k, y: (k + 1, (y[1], y[0] + y[1])))[1]] == [5.0, 8.0]


def test_a_tape_shows_what_it_does_and_holds() -> None:
    x = dt.constant(np.ones(4))
    tape = dt.GradientTape()
    assert repr(tape) == "<GradientTape: not recording, 0 operations, 0 bytes>"
    with tape:
        tape.watch(x)
        y = np.exp(x) * 2.0  # of which exp keeps its result: 4 doubles
        assert repr(tape) == "<GradientTape: recording, 2 operations, 32 bytes>"
    tape.gradient(y, x)
    assert repr(tape) == "<GradientTape: used up, 0 operations, 0 bytes>"
    persistent = taped()[0]
    assert repr(persistent) == "<GradientTape: persistent, not recording, 2 operations, 8 bytes>"


def test_a_trace_links_the_mask_of_a_batch_with_what_it_was_computed_from() -> None:
    """``where`` had a constant for its mask, as if nothing had been compared."""
    nodes = dt.inspect.trace(dt.vmap(lambda v: np.where(v > 0, v, 0.0)), X).nodes
    assert [node.name for node in nodes] == ["input", "greater", "select"] and nodes[2].inputs[:2] == (1, 0)


# ------------------------------------------------------------------ what to write instead
def test_functions_of_scipy_that_are_no_ufuncs_name_ours() -> None:
    calls: dict[str, Callable[[Any], Any]] = {
        "special.logsumexp": sc.logsumexp,
        "special.softmax": sc.softmax,
        "special.log_softmax": sc.log_softmax,
        "special.polygamma": lambda x: sc.polygamma(1, x),
        "special.multigammaln": lambda x: sc.multigammaln(x, 2),
        "linalg.norm": scipy.linalg.norm,
        "linalg.solve": lambda x: scipy.linalg.solve(np.eye(3), x),
    }
    for name, call in calls.items():
        # (Of a number, ufuncs inside failed on an object array.)
        numbers = [2.0] if name in ("special.polygamma", "special.multigammaln") else []
        for at in (np.array([2.0, 3.0, 4.0]), *numbers):
            for derive in (dt.grad, lambda f: lambda x: dt.jvp(f, (x,), (x,))):
                with pytest.raises(TypeError, match=rf"in scipy\.{name}, .*Use dualtape\.{name};"):
                    derive(lambda x, call=call: np.sum(call(x)))(at)
        module, _, last = name.partition(".")
        assert callable(getattr(getattr(dt, module), last))


@pytest.mark.parametrize("name", ["cov", "select", "put", "copyto", "interp", "choose", "unwrap", "packbits"])
def test_a_function_without_a_row_says_what_to_write_or_nothing(name: str) -> None:
    """The nearest name by its letters was told before: of ``cov`` that was ``cos``, of ``put`` ``ptp``."""
    function = getattr(np, name)
    if function in TABLE:
        return
    said = unknown(function)
    assert said.startswith(f"numpy.{name} has no row in dualtape's table") and "nearest" not in said
    assert ("; write " in said) == (name in INSTEAD)


def test_what_is_said_to_be_written_is_of_functions_without_a_row() -> None:
    for name in INSTEAD:
        function = getattr(np, name, None) or getattr(sc, name, None)
        assert "." in name or (callable(function) and function not in TABLE), name


AT: dict[str, tuple[float, ...]] = {
    "bdtr": (3.0, 10, 0.3), "bdtrc": (3.0, 10, 0.3), "betainccinv": (2.0, 3.0, 0.3), "chdtri": (3.0, 0.4),
    "cotdg": (33.0,), "ellipkm1": (0.3,), "fdtr": (2.0, 3.0, 0.7), "fdtrc": (2.0, 3.0, 0.7), "gdtr": (1.3, 2.0, 0.7),
    "gdtrc": (1.3, 2.0, 0.7), "inv_boxcox1p": (0.5, 0.7), "kn": (2, 0.7), "nbdtr": (3, 4, 0.3), "nbdtrc": (3, 4, 0.3),
    "pdtr": (3.0, 2.2), "pdtrc": (3.0, 2.2), "powm1": (1.3, 0.4), "yn": (2, 0.7),
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_what_stands_for_a_function_of_scipy_is_equal_to_it(name: str) -> None:
    names = {n: getattr(dt.special, n) for n in dt.special.__all__} | {"floor": np.floor, "log": np.log}
    found = eval(SPECIAL[name], names, dict(zip("xyz", AT[name], strict=False)))
    assert np.allclose(found, getattr(sc, name)(*AT[name]), rtol=1e-12)


WRITTEN = ["nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


@pytest.mark.parametrize("name", [*WRITTEN, "nan_to_num", "isposinf", "diff", "heaviside"])
def test_what_stands_for_a_function_of_numpy_is_equal_to_it_and_has_a_derivative(name: str) -> None:
    """The reference is NumPy's function; the derivative is compared with differences of it, at the numbers."""
    at = np.array([1.0, np.nan, 3.0, 2.0]) if "nan" in name else np.array([1.0, 5.0, 3.0, 2.0])
    f = lambda x: eval(INSTEAD[name], {"numpy": np}, {"x": x})  # noqa: E731
    plain: Callable[[Any], Any] = {"heaviside": lambda x: np.heaviside(x, 1.0)}.get(name, getattr(np, name))
    assert np.allclose(f(dt.constant(at)), plain(at))
    if name in ("isposinf", "heaviside"):
        return
    gradient = dt.grad(lambda x: np.sum(f(x)))(at)
    for k in np.flatnonzero(~np.isnan(at)):
        h = 1e-6 * np.eye(4)[k]
        difference = (np.sum(plain(at + h)) - np.sum(plain(at - h))) / 2e-6
        assert abs(float(gradient[k]) - difference) < 1e-7


def test_select_takes_the_first_condition_that_holds() -> None:
    """x = 1, -2, 3: 3 x (slope 3), the default x**3 (slope 3 x**2 = 12), x**2 (slope 6)."""
    f = lambda x: np.select([x > 2, x > 0], [x**2, 3 * x], x * x * x)  # noqa: E731
    assert np.array_equal(f(dt.constant(X)), f(X))
    assert np.array_equal(dt.grad(lambda x: np.sum(f(x)))(X), [3.0, 12.0, 6.0])
    assert np.array_equal(dt.jvp(f, (X,), (np.ones(3),))[1], [3.0, 12.0, 6.0])
    assert np.array_equal(dt.vmap(f)(X), f(X))
    single = dt.constant(X.astype(np.float32))
    assert np.select([single > 2], [single]).dtype == np.float32
    with pytest.raises(TypeError, match="select: condition 0 is of booleans, not float64"):
        np.select([dt.constant(X)], [X])
    with pytest.raises(ValueError, match="select: 1 conditions for 2 choices"):
        np.select([dt.constant(X) > 0], [X, X])


KEYWORDS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "matmul, second": (lambda x, **k: dt.matmul(x, x, **k), {"transpose_b": True}, "give y.mT in the place of y"),
    "matmul, first": (lambda x, **k: dt.matmul(x, x, **k), {"transpose_a": True}, "give x.mT in the place of x"),
    "matmul, adjoint": (lambda x, **k: dt.linalg.matmul(x, x, **k), {"adjoint_b": True}, "give conj(y).mT"),
    "transpose": (dt.transpose, {"perm": (1, 0)}, "it is axes= here"),
    "solve": (lambda x, **k: dt.linalg.solve(x, x, **k), {"adjoint": True}, "give conj(a).mT in the place of a"),
    "inv": (dt.linalg.inv, {"adjoint": True}, "give conj(a).mT in the place of a"),
    "cumsum": (dt.cumsum, {"reverse": True}, "flip before and after"),
    "cumprod": (dt.cumprod, {"exclusive": True}, "include_initial=True"),
    "expand_dims": (dt.expand_dims, {"dim": 0}, "it is axis= here"),
    "a name": (lambda x, **k: dt.concat([x, x], **k), {"name": "joined"}, "operations have no names here"),
    "any other": (lambda x, **k: dt.stack([x, x], **k), {"along": 0}, "unexpected keyword argument 'along'$"),
}


@pytest.mark.parametrize("what", KEYWORDS)
def test_keywords_of_other_libraries_name_ours(what: str) -> None:
    call, keywords, says = KEYWORDS[what]
    with pytest.raises(TypeError, match=r"got an unexpected keyword argument '\w+'.*") as caught:
        call(np.eye(2), **keywords)
    assert re.search(says if says.endswith("$") else re.escape(says), str(caught.value))


# ------------------------------------------------------------------ columns of tables
class Column:
    """What a column of pandas does when it meets an array: it takes it for one of its own, unless that goes first."""

    __array_priority__ = 1000
    __pandas_priority__ = 3000

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(getattr(x, "__pandas_priority__", 0) > self.__pandas_priority__ for x in inputs):
            return NotImplemented
        return Column(getattr(ufunc, method)(*map(np.asarray, inputs), **kwargs))

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other) if getattr(other, "__pandas_priority__", 0) < 3000 else NotImplemented


@pytest.mark.parametrize("make", [Column, "pandas"])
def test_a_column_times_x_is_x_times_a_column(make: Any) -> None:
    make = pytest.importorskip("pandas").Series if make == "pandas" else make
    column = make([1.0, 2.0, 4.0])
    for f in (lambda x: column * x, lambda x: x * column, lambda x: np.multiply(column, x)):
        for x in (dt.constant(X), dt.Variable(X)):
            assert isinstance(f(x), dt.Tensor) and np.array_equal(f(x), X * [1.0, 2.0, 4.0])
        assert np.array_equal(dt.grad(lambda x, f=f: np.sum(f(x)))(X), [1.0, 2.0, 4.0])
