"""record_operation, prevent_gradient, grad_pass_through, recompute_grad: what is told to the recorders by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads


def by_hand(x: Any, backward: bool = True, forward: bool = True) -> Any:
    """exp(x), computed where nobody sees it and recorded by hand; its rules read the result."""
    with dt.stop_recording():
        y = np.exp(x)
    back = lambda g: [g * np.conj(y)]  # noqa: E731
    dt.record_operation("exponential", [y], [x], back if backward else None, (lambda t: [t * y]) if forward else None)
    return y


# ------------------------------------------------------------------ record_operation
@pytest.mark.parametrize(("backward", "forward"), [(True, True), (True, False), (False, True)])
def test_an_operation_recorded_by_hand_is_differentiated_in_every_nesting(backward: bool, forward: bool) -> None:
    f = lambda x: np.sum(by_hand(x, backward, forward) * x)  # noqa: E731
    check_grads(lambda x: f(dt.asarray(x)), (np.array([0.3, -0.4]),), order=3)
    check_grads(lambda x: f(dt.asarray(x)), (np.array([0.3 + 0.1j]),))


def test_it_is_put_on_every_active_recorder_and_no_other() -> None:
    x, v = dt.constant(2.0), dt.Variable(3.0)
    with dt.GradientTape() as outside:
        outside.watch(x)
    with dt.ForwardAccumulator(x, 10.0) as acc, dt.GradientTape() as tape, dt.GradientTape() as other:
        tape.watch(x)
        y = dt.constant(6.0)
        dt.record_operation("product", [y], [x, v], lambda g: (3.0 * g, 2.0 * g))
        z = y * y
    assert float(acc.jvp(z)) == 2 * 6.0 * 30.0
    assert [float(g) for g in tape.gradient(z, [x, v])] == [36.0, 24.0]
    assert [None if g is None else float(g) for g in other.gradient(z, [x, v])] == [None, 24.0]
    assert len(outside) == 0


def test_without_a_recorder_nothing_happens() -> None:
    dt.record_operation("nothing", [dt.constant(1.0)], [dt.constant(2.0)], lambda g: [g])
    with dt.GradientTape() as tape:
        dt.record_operation("nothing", [], [], lambda: [])
        dt.record_operation("nothing", [dt.constant(1.0)], [dt.constant(2.0)], lambda g: [g])  # not watched
    assert len(tape) == 0


def test_several_results_structures_and_integers() -> None:
    x, k = dt.constant([1.0, 2.0]), dt.constant(3)
    seen: list[Any] = []

    def back(a: Any, count: Any, b: Any) -> Any:
        seen.append((a.numpy(), count.numpy(), b.numpy()))
        return [3.0 * a + np.sum(b), None]

    with dt.GradientTape(persistent=True) as tape, dt.ForwardAccumulator(x, np.array([1.0, 0.0])) as acc:
        tape.watch(x)
        outs = {"a": dt.constant([3.0, 6.0]), "count": dt.constant(2), "b": dt.constant(3.0)}
        dt.record_operation("several", outs, {"x": x, "k": k}, back)
        y = outs["b"] * 2.0
    assert np.array_equal(acc.jvp(outs["a"]), [3.0, 0.0]) and float(acc.jvp(y)) == 2.0
    seen.clear()
    assert np.array_equal(tape.gradient(y, x), [2.0, 2.0])
    assert [np.shape(s) for s in seen[0]] == [(2,), (), ()] and np.array_equal(seen[0][0], [0.0, 0.0])
    assert tape.gradient(outs["count"], x) is None


def test_what_it_refuses() -> None:
    x, y = dt.constant(1.0), dt.constant(2.0)
    with pytest.raises(TypeError, match="record_operation 'op': give a backward_function, a forward_function or both"):
        dt.record_operation("op", [y], [x])
    with pytest.raises(TypeError, match="'op': backward_function"):
        dt.record_operation("op", [y], [x], 3)
    with pytest.raises(TypeError, match="'op': output 0 is a float, not a Tensor"):
        dt.record_operation("op", [2.0], [x], lambda g: [g])
    with pytest.raises(ValueError, match=r"output 0 is an input or an earlier output; take dualtape\.identity"):
        dt.record_operation("op", [x], [x], lambda g: [g])
    with pytest.raises(ValueError, match="output 1 is an input or an earlier output"):
        dt.record_operation("op", [y, y], [x], lambda g, h: [g])
    with dt.GradientTape() as tape:
        tape.watch(x)
        z = x * x
        with pytest.raises(ValueError, match=r"output 0 is followed by an active recorder already.*stop_recording\(\)"):
            dt.record_operation("op", [z], [x], lambda g: [g])
    assert float(tape.gradient(z, x)) == 2.0
    for rule, says in (
        (lambda g: [], "record_operation 'op': the backward function returned 0 entries where 1 are needed"),
        (lambda g: [g, g], "returned 2 entries where 1 are needed"),
        (lambda g: [np.ones(3)], r"op: gradient 0 has shape \(3,\), but must have shape \(\)"),
    ):
        with dt.GradientTape() as tape:
            tape.watch(x)
            z = dt.constant(2.0)
            dt.record_operation("op", [z], [x], rule)
        with pytest.raises(ValueError, match=says):
            tape.gradient(z, x)
    with dt.ForwardAccumulator(x, 1.0), pytest.raises(ValueError, match="the forward function returned 2 entries"):
        dt.record_operation("op", [dt.constant(2.0)], [x], None, lambda t: [t, t])


# ------------------------------------------------------------------ prevent_gradient
def test_a_derivative_through_prevent_gradient_is_an_error() -> None:
    x = dt.constant([1.0, 2.0])
    assert np.array_equal(dt.prevent_gradient(x), x)
    assert np.array_equal(dt.prevent_gradient(np.ones(2)), np.ones(2))
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = dt.prevent_gradient(x * x, message="no rule for the tides")
        z = x + dt.stop_gradient(y)
    assert np.array_equal(y, [1.0, 4.0])
    with pytest.raises(LookupError, match=r"prevent_gradient: .* explicitly disabled here: no rule for the tides"):
        tape.gradient(y, x)
    assert np.array_equal(tape.gradient(z, x), [1.0, 1.0])
    with dt.ForwardAccumulator(x, np.ones(2)), pytest.raises(LookupError, match=r"disabled here$"):
        dt.prevent_gradient(x)
    with dt.ForwardAccumulator(x, np.ones(2)):
        dt.prevent_gradient(dt.constant(1.0))  # nobody follows it


# ------------------------------------------------------------------ grad_pass_through
def test_grad_pass_through_differentiates_as_the_identity() -> None:
    x, y = dt.constant([1.4, 2.6]), dt.constant(0.3)

    @dt.grad_pass_through
    def rounded(x: Any, y: Any, *, digits: int = 0) -> Any:
        """Rounds both."""
        return np.round(x, digits), np.floor(y)

    assert rounded.__name__ == "rounded" and rounded.__doc__ == "Rounds both."
    with dt.GradientTape() as tape, dt.ForwardAccumulator([x, y], [np.ones(2), 5.0]) as acc:
        tape.watch([x, y])
        u, v = rounded(x, y, digits=0)
        z = np.sum(u * u) + 7.0 * v
    assert np.array_equal(u, [1.0, 3.0]) and float(v) == 0.0
    assert float(acc.jvp(z)) == 8.0 + 35.0
    assert [np.asarray(g).tolist() for g in tape.gradient(z, [x, y])] == [[2.0, 6.0], 7.0]


def test_grad_pass_through_and_variables() -> None:
    v, x = dt.Variable(3.0), dt.Variable(2.0)
    with dt.GradientTape() as tape:
        y = dt.grad_pass_through(lambda u: v * u)(x)
    assert float(y) == 6.0
    assert [None if g is None else float(g) for g in tape.gradient(y, [x, v])] == [1.0, None]
    with dt.GradientTape() as tape:
        y = dt.grad_pass_through(v.assign)(x * 2.0)
    assert float(y) == 4.0 and float(tape.gradient(y, x)) == 2.0


# ------------------------------------------------------------------ recompute_grad
def test_recompute_grad_is_checkpoint_and_works_in_every_nesting() -> None:
    assert dt.recompute_grad is dt.checkpoint

    def f(x: Any) -> Any:
        """A docstring."""
        return np.prod(np.tanh(x) ** 2)

    again = dt.recompute_grad(f)
    assert again.__wrapped__ is f and again.__name__ == "f" and again.__doc__ == "A docstring."
    check_grads(again, (np.array([1.0, 0.5]),), order=3)
