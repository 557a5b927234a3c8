"""cond, case, switch_case and while_loop: values, derivatives of what ran, and what they refuse."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads


# ------------------------------------------------------------------ cond
@pytest.mark.parametrize("pred", [True, 1, np.bool_(True), np.array(2.0), dt.constant(True), dt.Variable(1.0)])
def test_cond_runs_one_branch(pred: Any) -> None:
    ran: list[str] = []
    assert dt.cond(pred, lambda: ran.append("true") or 1, lambda: ran.append("false")) == 1
    assert dt.cond(np.logical_not(pred), true_fn=lambda: ran.append("true"), false_fn=lambda: 2) == 2
    assert ran == ["true"]


@pytest.mark.parametrize("point", [1.3, -0.7])
def test_cond_is_differentiated_through_the_branch_that_ran(point: float) -> None:
    def f(x: Any) -> Any:
        return dt.cond(x > 0, lambda: np.sin(x) * x, lambda: np.exp(x))

    check_grads(f, (point,), order=3)


def test_a_branch_that_returns_a_constant_has_no_derivative() -> None:
    x = dt.constant(2.0)
    with dt.ForwardAccumulator(x, 1.0) as acc, dt.GradientTape() as tape:
        tape.watch(x)
        y = dt.cond(x > 3.0, lambda: x * x, lambda: dt.constant(5.0))
    assert acc.jvp(y) is None
    assert tape.gradient(y, x) is None


def test_branches_return_structures() -> None:
    x = dt.constant(2.0)
    y = dt.cond(x > 0, lambda: {"a": x, "b": [x * x]}, lambda: None)
    assert float(y["b"][0]) == 4.0


# ------------------------------------------------------------------ case, switch_case
def test_case_takes_the_first_true_predicate() -> None:
    x = dt.constant(2.0)
    pairs = [(x < 1, lambda: "small"), (x < 3, lambda: "middle"), (x < 9, lambda: "large")]
    assert dt.case(pairs) == "middle"
    assert dt.case(pairs[:1], default=lambda: "other") == "other"
    assert dt.case(pairs[:2], exclusive=True) == "middle"
    with pytest.raises(ValueError, match="case: predicate 2 is true as well as an earlier one, and exclusive=True"):
        dt.case(pairs, exclusive=True)
    with pytest.raises(ValueError, match="case: no predicate is true, and there is no default"):
        dt.case(pairs[:1])


def test_switch_case_takes_the_branch_of_a_number() -> None:
    branches = [lambda: "a", lambda: "b", lambda: "c"]
    assert [dt.switch_case(k, branches) for k in (0, 1, 2, 3, -1)] == ["a", "b", "c", "c", "c"]
    assert dt.switch_case(dt.constant(5), branches, default=lambda: "other") == "other"
    assert dt.switch_case(np.int32(7), {7: branches[0], 2: branches[1]}) == "a"
    assert dt.switch_case(2, [(7, branches[0]), (2, branches[1])]) == "b"
    check_grads(lambda x: dt.switch_case(1, [lambda: x, lambda: x**3]), (1.5,))


# ------------------------------------------------------------------ while_loop
def test_while_loop_keeps_the_structure_of_its_variables() -> None:
    class State(NamedTuple):
        k: Any
        y: Any

    step = lambda k, y: (k + 1, y * 2.0)  # noqa: E731
    assert [float(v) for v in dt.while_loop(lambda k, y: k < 3, step, (0, 1.0))] == [3.0, 8.0]
    assert isinstance(dt.while_loop(lambda k, y: k < 3, step, [0, 1.0]), list)
    found = dt.while_loop(lambda k, y: k < 3, step, State(0, 1.0))
    assert isinstance(found, State) and float(found.y) == 8.0
    assert float(dt.while_loop(lambda k: k < 3, lambda k: k + 1, 0)) == 3
    (found,) = dt.while_loop(lambda k: k < 3, lambda k: k + 1, [0])
    assert isinstance(found, dt.Tensor) and found.dtype == np.int64
    (found,) = dt.while_loop(lambda s: s["k"] < 3, lambda s: [{"k": s["k"] + 1}], [{"k": 0}])
    assert float(found["k"]) == 3


def test_while_loop_stops_at_its_maximum() -> None:
    loop = lambda n: dt.while_loop(lambda k: True, lambda k: k + 1, [0], maximum_iterations=n)[0]  # noqa: E731
    assert [int(loop(n)) for n in (0, 5, dt.constant(7))] == [0, 5, 7]
    assert int(dt.while_loop(lambda k: k < 2, lambda k: k + 1, [0], maximum_iterations=5)[0]) == 2


def test_while_loop_is_differentiated_as_it_ran() -> None:
    def f(x: Any) -> Any:
        return dt.while_loop(lambda y, k: np.sum(y) < 30.0, lambda y, k: (y * x, k + 1), (x, 0))[0]

    check_grads(f, (np.array([1.5, 2.5]),), order=3)
    v = dt.Variable(2.0)
    with dt.GradientTape() as tape:
        y = dt.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * v), (0, v))[1]
    assert float(tape.gradient(y, v)) == 32.0


def test_while_loop_records_nothing_if_told_so() -> None:
    x = dt.constant(2.0)
    with dt.GradientTape() as tape, dt.ForwardAccumulator(x, 1.0) as acc:
        tape.watch(x)
        y = dt.while_loop(lambda y: y < 9.0, lambda y: y * x, [x], back_prop=False)[0]
    assert float(y) == 16.0 and acc.jvp(y) is None and tape.gradient(y, x) is None


# ------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: dt.cond(True, 1, lambda: 2), TypeError, "cond: true_fn is a function, not int"),
        (lambda: dt.cond(True, lambda: 1), TypeError, "cond: false_fn is a function, not NoneType"),
        (lambda: dt.cond([1, 0], len, len), ValueError, r"cond: pred must have exactly one element, not shape \(2,\)"),
        (lambda: dt.case({}), TypeError, "case: pred_fn_pairs is a list of pairs"),
        (lambda: dt.case([True]), TypeError, "case: entry 0 of pred_fn_pairs is not a pair"),
        (lambda: dt.case([(True, 3)]), TypeError, "case: the second of pair 0 is a function, not int"),
        (lambda: dt.case([(True, len)], default=3), TypeError, "case: default is a function, not int"),
        (lambda: dt.switch_case(1.0, [len]), TypeError, "switch_case: branch_index is an integer, not float64"),
        (lambda: dt.switch_case(1, []), ValueError, "switch_case: branch_fns is empty"),
        (lambda: dt.switch_case(1, {"a": len}), TypeError, "switch_case: the branches have integers for keys, not 'a'"),
        (lambda: dt.switch_case(1, [len, 2]), TypeError, "switch_case: branch 1 is a function, not int"),
        (lambda: dt.while_loop(1, len, [0]), TypeError, "while_loop: cond is a function"),
        (lambda: dt.while_loop(len, 1, [0]), TypeError, "while_loop: body is a function"),
        (lambda: dt.while_loop(len, len, []), ValueError, "while_loop: there are no loop variables"),
        (
            lambda: dt.while_loop(lambda k, y: True, lambda k, y: k, (0, 1)),
            ValueError,
            "what body returns don.t have the same nested structure, .* the same number of elements: 2 and 1",
        ),
        (
            lambda: dt.while_loop(lambda x: x > 0, lambda x: x, [np.ones(2)]),
            ValueError,
            r"while_loop: what cond returns must have exactly one element, not shape \(2,\)",
        ),
    ],
)
def test_misuse_is_refused(call: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        call()
