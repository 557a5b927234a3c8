"""grad and value_and_grad: the gradient of a function with a scalar result, by one reverse sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.core.standin import Standin
from dualtape.core.sweep import Cotangents, finished, sweep
from dualtape.core.tensor import Tensor
from dualtape.transforms.arguments import (
    IDENTITY,
    Sources,
    as_tensors,
    ensure_callable,
    named,
    recorded,
    result,
    sources,
)

__all__ = ["grad", "value_and_grad"]


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the value of ``f`` and its gradient.

    Args:
        f: a function with a real scalar result (shape ()).
        argnums: the position of the argument to differentiate by, or a tuple of positions. Arguments are arrays or
            nested structures of arrays, of floating or complex dtypes.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated.

    Returns:
        A function with the arguments of ``f`` that returns ``(value, gradient)``, or ``((value, aux), gradient)``. The
        gradient has the structure, shapes and dtypes of the argument (a tuple of them for a tuple of argnums), with
        zeros for what ``f`` does not use. By a complex argument it is the conjugate of the holomorphic derivative,
        the direction of steepest ascent.

    Raises:
        ValueError: if the result is not a scalar.
        TypeError: if the result is not real, or an argument is not floating or complex.

    Note:
        What ``f`` hands to other threads is differentiated there; what it hands to other processes is an error.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        (Tensor(5.), Tensor([2., 4.]))
    """
    ensure_callable("value_and_grad", f)
    return named("value_and_grad", f, gradient_call("value_and_grad", f, argnums, has_aux, True))


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``.

    Args:
        f: a function with a real scalar result (shape ()).
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated.

    Returns:
        A function with the arguments of ``f`` that returns the gradient, or ``(gradient, aux)``; see
        ``value_and_grad``.

    Raises:
        ValueError: if the result is not a scalar.
        TypeError: if the result is not real, or an argument is not floating or complex.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.grad(np.tanh)(0.0)
        Tensor(1.)
    """
    ensure_callable("grad", f)
    return named("grad", f, gradient_call("grad", f, argnums, has_aux, False))


def gradient_call(name: str, f: Any, argnums: Any, has_aux: bool, with_value: bool) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = sources(name, args, argnums)
        value, aux, found = gradients(name, f, given, kwargs, has_aux)
        g = given.gather(found)
        if not with_value:
            return (g, as_tensors(aux)) if has_aux else g
        return ((value, as_tensors(aux)), g) if has_aux else (value, g)

    return call


def gradients(
    name: str, f: Any, given: Sources, kwargs: dict[str, Any], has_aux: bool = False
) -> tuple[Tensor, Any, list[Tensor]]:
    """The value of ``f``, what it returned besides, and the gradient by each leaf of its arguments."""
    leaves = given.leaves
    out, entries = recorded(f, given.args, kwargs, leaves)
    aux = None
    if has_aux:
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise TypeError(f"{name}: with has_aux=True the function returns a pair (value, aux), got {out!r}")
        out, aux = out
    value: Tensor = out if out.__class__ is Tensor else scalar(name, out)
    node = value._node
    if isinstance(node.value, Standin):
        node.value.ensure_live()
    dtype = node.value.dtype
    if node.value.shape or dtype.kind != "f":
        refuse(name, f, node.value.shape, dtype)
    cotangents = Cotangents()
    cotangents[node.id] = dtype.type(1)
    found = sweep(entries, cotangents, list(map(IDENTITY, leaves)), True, True)
    return value, aux, list(map(finished, found, leaves))


def refuse(name: str, f: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Say what is wrong with a result that has no gradient, and what to call instead."""
    who = getattr(f, "__name__", "the function")
    if shape:
        raise ValueError(
            f"{name} needs a scalar result, but {who} returned shape {shape}: "
            "use jacobian for all derivatives, vjp for a weighted sum of them, or sum the result"
        )
    what = "complex: differentiate its real part, np.real(f(x)), or use vjp" if dtype.kind == "c" else f"dtype {dtype}"
    raise TypeError(f"{name} needs a real result, but {who} returned {what}")


def scalar(name: str, out: Any) -> Tensor:
    """A result that is not a Tensor, as one."""
    if isinstance(out, (tuple, list, dict)) or out is None:
        raise TypeError(
            f"{name} needs a function with a scalar result, got {'None' if out is None else 'a ' + type(out).__name__}"
            + ("; for a pair (value, aux) say has_aux=True" if isinstance(out, (tuple, list)) and len(out) == 2 else "")
        )
    return result(np.asarray(out)[()] if isinstance(out, (int, bool)) else out)  # type: ignore[no-any-return]
