"""What is told to the recorders by hand: operations done elsewhere, operations that none may pass, and their like."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.calls import record
from dualtape.core.tensor import Tensor, operand, tensor
from dualtape.modes.structure import flatten
from dualtape.transforms.arguments import ensure_callable, result
from dualtape.transforms.calls import Call, connect, likes, nodes_of
from dualtape.transforms.custom import custom_gradient
from dualtape.transforms.handles import taken

__all__ = ["grad_pass_through", "prevent_gradient", "record_operation"]


def record_operation(
    op_type: str,
    output_tensors: Any,
    input_tensors: Any,
    backward_function: Callable[..., Any] | None = None,
    forward_function: Callable[..., Any] | None = None,
) -> None:
    """Put an operation on the active tapes and accumulators that was done where they did not see it.

    Args:
        op_type: a name for the operation, for messages.
        output_tensors: its results: Tensors that nothing recorded yet knows.
        input_tensors: its operands: Tensors, Variables, arrays.
        backward_function: takes a cotangent for each output, of its shape and dtype (zeros where there is none), and
            returns one for each input, None where there is none.
        forward_function: takes a tangent for each input, likewise, and returns one for each output.

    Raises:
        TypeError: if there is no function, or an output is not a Tensor.
        ValueError: if an output is an input, or an active recorder follows it already; (when differentiating) if the
            number or a shape of what a function returns is wrong.

    Mathematics:
        Both functions are linear; the one that is missing is the transpose of the other.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> x = dt.constant([1.0, 4.0])
        >>> with dt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = dt.constant(np.sqrt(x.numpy()))
        ...     dt.record_operation("root", [y], [x], lambda g: [g / (2 * y)])
        >>> tape.gradient(y, x)
        Tensor([0.5 , 0.25])
    """
    name = f"record_operation {op_type!r}"
    if backward_function is None and forward_function is None:
        raise TypeError(f"{name}: give a backward_function, a forward_function or both")
    for label, rule in (("backward_function", backward_function), ("forward_function", forward_function)):
        if rule is not None:
            ensure_callable(f"{name}: {label}", rule)
    outs = flatten(output_tensors)[0]
    ins = [result(x) for x in flatten(input_tensors)[0]]
    stack = recorders.live()
    known = {x._node.id for x in ins}
    for k, y in enumerate(outs):
        if y.__class__ is not Tensor:
            raise TypeError(f"{name}: output {k} is a {type(y).__name__}, not a Tensor")
        if y._node.id in known:
            raise ValueError(f"{name}: output {k} is an input or an earlier output; take dualtape.identity of it")
        if any([r.tracks(y._node) for r in stack]):
            raise ValueError(
                f"{name}: output {k} is followed by an active recorder already, so it would be recorded twice; compute "
                "it inside a stop_recording() block"
            )
        known.add(y._node.id)
    places = [k for k, x in enumerate(ins) if x.dtype.kind in "fc"]
    carried = [k for k, y in enumerate(outs) if y.dtype.kind in "fc"]
    operands = [ins[k]._node for k in places]
    if not (stack and operands and carried):
        return
    every = likes(nodes_of(outs)), likes(nodes_of(ins))

    def back(primals: list[Tensor], gs: list[Any], raw: bool) -> Sequence[Any]:
        assert backward_function is not None
        given = backward_function(*among(gs, carried, every[0]))
        found = listed(given, len(ins), f"{name}: the backward function", "gradients")
        return [taken(found[k]) for k in places]

    def forward(primals: list[Tensor], ts: list[Any], raw: bool) -> Sequence[Any]:
        assert forward_function is not None
        given = forward_function(*among(ts, places, every[1]))
        found = listed(given, len(outs), f"{name}: the forward function", "tangents")
        return [taken(found[k]) for k in carried]

    results = [outs[k]._node for k in carried]
    row = Call(
        op_type,
        likes(operands),
        likes(results),
        None if backward_function is None else back,
        None if forward_function is None else forward,
    )
    record(row, tuple(operands), tuple(results), {})


def among(values: Sequence[Any], places: Sequence[int], every: Sequence[Any]) -> list[Any]:
    """The values at their places, and zeros for the arrays that carry no derivative."""
    filled: list[Any] = [tensor(np.zeros(like.shape, like.dtype)[()]) for like in every]
    for k, value in zip(places, values, strict=True):
        filled[k] = value
    return filled


def listed(found: Any, count: int, name: str, kind: str) -> list[Any]:
    """What a rule returned, one entry for each of ``count`` arrays."""
    entries = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(entries) != count:
        what = f"too {'few' if len(entries) < count else 'many'} {kind}"
        raise ValueError(f"{name} returned {len(entries)} entries where {count} are needed: {what}")
    return entries


def prevent_gradient(input: Any, message: str = "", name: Any = None) -> Tensor:
    """``input`` itself, through which no derivative may be taken: asking for one is an error.

    Args:
        input: an array.
        message: what the error says.
        name: accepted for TensorFlow's sake.

    Returns:
        A Tensor of the same value.

    Raises:
        LookupError: when a gradient passes through it; in forward mode that is at once.

    Example:
        >>> import dualtape as dt
        >>> dt.grad(lambda x: dt.prevent_gradient(x * x, "no rule for the tides"))(2.0)
        Traceback (most recent call last):
        LookupError: prevent_gradient: the derivative is explicitly disabled here: no rule for the tides
    """
    x = operand(input)
    x = x if x.__class__ is Tensor else result(x)

    def refuse(primals: list[Tensor], derivatives: list[Any], raw: bool) -> Sequence[Any]:
        said = "prevent_gradient: the derivative is explicitly disabled here"
        raise LookupError(f"{said}: {message}" if message else said)

    found: Tensor = connect("prevent_gradient", [x._node], [x], refuse, refuse)[0]
    return found


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f``, differentiated as if it returned its arguments; a decorator.

    Args:
        f: a function that returns as many arrays as it takes, of their shapes: rounding, quantising.

    Returns:
        A function with the values of ``f`` and the derivatives of the identity. What ``f`` reads of Variables besides
        gets none.

    Raises:
        TypeError: if ``f`` uses a Tensor from outside that a recorder follows.
        ValueError: (when differentiating) if results and arguments do not fit together.

    Mathematics:
        Known as the straight-through estimator: Y. Bengio, N. Leonard, A. Courville, Estimating or Propagating
        Gradients Through Stochastic Neurons for Conditional Computation, 2013.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.grad(lambda x: dt.grad_pass_through(np.round)(x) * 3.0)(2.4)
        np.float64(3.0)
    """
    ensure_callable("grad_pass_through", f)

    def passed(*args: Any, **kwargs: Any) -> Any:
        def grad_fn(*gs: Any, variables: Any = None) -> Any:
            return gs if variables is None else (gs, [None] * len(variables))

        return f(*args, **kwargs), grad_fn

    functools.update_wrapper(passed, f)
    through = custom_gradient(passed)
    through.__wrapped__ = f
    return through  # type: ignore[no-any-return]
