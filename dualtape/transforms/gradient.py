"""grad and value_and_grad: the gradient of a function with a scalar result, by one reverse sweep."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.core.standin import Standin
from dualtape.core.sweep import Cotangents, sweep
from dualtape.core.tensor import Tensor
from dualtape.transforms.arguments import (
    IDENTITY,
    Sources,
    besides,
    derivatives,
    ensure_argnums,
    given_out,
    note_lists,
    pair,
    recorded,
    result,
    sources,
    transformed,
)

__all__ = ["grad", "value_and_grad"]


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the value of ``f`` and its gradient.

    Args:
        f: a function with one real number for its result, of shape () or of any rank.
        argnums: the position of the argument to differentiate by, or a tuple of positions. Arguments are arrays or
            nested structures of arrays; integers are taken as float64.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.

    Returns:
        A function with the arguments of ``f`` that returns ``(value, gradient)``, or ``((value, aux), gradient)``. The
        gradient has the structure, shapes and dtypes of the argument (a tuple of them for a tuple of argnums), with
        zeros for what ``f`` does not use. By a complex argument it is the conjugate of the holomorphic derivative,
        the direction of steepest ascent. Results are NumPy arrays and scalars of the caller's own; they are Tensors
        where an argument is or holds one, and under a tape, an accumulator, a batch or another transform.

    Raises:
        ValueError: if the result is not one number.
        TypeError: if the result is not real, or an argument is no number or a Tensor of integers.

    Note:
        What ``f`` hands to other threads is differentiated there; what it hands to other processes is an error.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        (np.float64(5.0), array([2., 4.]))
    """
    ensure_argnums("value_and_grad", argnums)
    return transformed("value_and_grad", f, gradient, "value_and_grad", argnums, has_aux)


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``f``.

    Args:
        f: a function with one real number for its result, of shape () or of any rank.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.

    Returns:
        A function with the arguments of ``f`` that returns the gradient, or ``(gradient, aux)``; see
        ``value_and_grad``.

    Raises:
        ValueError: if the result is not one number.
        TypeError: if the result is not real, or an argument is no number or a Tensor of integers.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.grad(np.tanh)(0.0)
        np.float64(1.0)
    """
    ensure_argnums("grad", argnums)
    return transformed("grad", f, gradient, "grad", argnums, has_aux)


def gradient(f: Any, name: str, argnums: Any, has_aux: bool, /, *args: Any, **kwargs: Any) -> Any:
    """The gradient of ``f`` at arguments, as ``grad`` and ``value_and_grad`` return it."""
    given = sources(name, args, argnums, kwargs)
    plain = given.plain
    value, aux, found = gradients(name, f, given, kwargs, has_aux)
    gs = derivatives(found, given.leaves, plain)
    g = gs[0] if given.simple else given.gather(gs)
    if name == "grad":
        return (g, besides(aux, plain)) if has_aux else g
    y = given_out(value, plain)
    return ((y, besides(aux, plain)), g) if has_aux else (y, g)


def gradients(
    name: str, f: Any, given: Sources, kwargs: dict[str, Any], has_aux: bool = False
) -> tuple[Tensor, Any, list[Any]]:
    """The value of ``f``, what it returned besides, and the cotangent of each leaf of its arguments, or None."""
    aux = None
    try:
        out, entries = recorded(f, given.args, kwargs, given.leaves)
    except (TypeError, AttributeError) as error:
        note_lists(error, given.args)
        raise
    if has_aux:
        out, aux = pair(name, out)
    value: Tensor = out if out.__class__ is Tensor else scalar(name, out)
    node = value._node
    if isinstance(node.value, Standin):
        node.value.ensure_live()
    shape, dtype = node.value.shape, node.value.dtype
    if (shape and node.value.size != 1) or dtype.kind != "f":
        refuse(name, f, shape, dtype)
    cotangents = Cotangents()
    cotangents[node.id] = np.ones(shape, dtype) if shape else dtype.type(1)
    return value, aux, sweep(entries, cotangents, list(map(IDENTITY, given.leaves)), True, True)


def refuse(name: str, f: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Say what is wrong with a result that has no gradient, and what to call instead."""
    who = getattr(f, "__name__", "the function")
    if shape and math.prod(shape) != 1:
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
