"""What recorders outside are told of a traced function: one operation, whose rules are traced functions themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.tensor import Node, Tensor, tensor, wrap
from dualtape.modes.accumulator import ForwardAccumulator
from dualtape.modes.structure import flatten
from dualtape.modes.tape import GradientTape
from dualtape.tracing.graph import Output
from dualtape.tracing.trace import Trace
from dualtape.transforms.calls import connect


def connected(
    owner: Any, trace: Trace, call: Callable[..., Any], output: Output, operands: list[Node], leaves: list[Any]
) -> list[Any]:
    """The results of a call, known to the recorders that follow its operands by one operation."""
    arrays = [k for k, y in enumerate(leaves) if isinstance(y, (np.ndarray, np.generic))]
    followed = [k for k, n in enumerate(operands) if differentiable(n.value) and recorders.is_tracked(n)]
    carried = [k for k in arrays if differentiable(leaves[k])]
    if not followed or not carried:
        return leaves
    pull, push = rules(owner, trace, call, followed, carried)

    def filled(primals: list[Tensor]) -> list[Any]:
        """All inputs, those that are followed as a rule sees them. (What is outside, the function takes itself.)"""
        inputs = [n.value if isinstance(n.value, np.random.Generator) else wrap(n) for n in operands[: trace.count]]
        for k, x in zip(followed, primals, strict=True):
            if k < trace.count:
                inputs[k] = x
        return inputs

    outs = connect(
        owner.name,
        [operands[k] for k in followed],
        [tensor(leaves[k]) for k in arrays],
        lambda primals, gs, raw: pull(filled(primals), gs),
        lambda primals, ts, raw: push(filled(primals), ts),
    )
    leaves = list(leaves)
    for k, y in zip(arrays, outs, strict=True):
        leaves[k] = y
    return leaves


def differentiable(value: Any) -> bool:
    """Whether a value has derivatives."""
    return getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def rules(
    owner: Any, trace: Trace, call: Callable[..., Any], followed: list[int], carried: list[int]
) -> tuple[Any, Any]:
    """The reverse and the forward rule for these operands and results, as traced functions."""
    key = id(trace), tuple(followed), tuple(carried)
    if key not in owner.derived:
        inputs = [k for k in followed if k < trace.count]
        outside = [trace.outside[k - trace.count] for k in followed if k >= trace.count]
        variables = [wrap(x) if x.__class__ is Node else x for x in outside]

        def results(given: list[Any]) -> list[Any]:
            leaves = flatten(call(given))[0]
            return [leaves[k] for k in carried]

        def pulled(given: list[Any], cotangents: list[Any]) -> Any:
            sources = [*[given[k] for k in inputs], *variables]
            with GradientTape() as tape:
                tape.watch(sources)
                ys = results(given)
            return tape.gradient(ys, sources, output_gradients=list(cotangents))

        def pushed(given: list[Any], tangents: list[Any]) -> Any:
            for v in variables:
                v._read()  # a tangent hangs on the value that it has while this is traced
            with ForwardAccumulator([*[given[k] for k in inputs], *variables], list(tangents)) as accumulator:
                ys = results(given)
            return [accumulator.jvp(y) for y in ys]

        kind = type(owner)
        owner.derived[key] = kind(pulled, None, True, False), kind(pushed, None, True, False)
        owner.held.append(trace)
    return owner.derived[key]  # type: ignore[no-any-return]
