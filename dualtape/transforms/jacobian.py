"""jacfwd, jacrev, jacobian and hessian: all derivatives of a function, one sweep for each input or output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dualtape.core.structure import flatten
from dualtape.core.tensor import Tensor
from dualtape.transforms.arguments import ensure_callable, named, sources
from dualtape.transforms.gradient import grad
from dualtape.transforms.products import linearize, vjp

Numbers = int | Sequence[int]


def of_arguments(f: Callable[..., Any], args: tuple[Any, ...], argnums: Numbers, name: str, kwargs: Any) -> Any:
    """``f`` as a function of the differentiated leaves alone, with what is needed to put results together."""
    given = sources(name, args, argnums)
    numbers = [argnums] if given.single else list(argnums)  # type: ignore[arg-type]
    counts = [count for _, count in given.rebuilds]

    def of_leaves(*leaves: Any) -> Any:
        passed, it = list(args), iter(leaves)
        for k, (rebuild, _) in zip(numbers, given.rebuilds, strict=True):
            passed[k] = rebuild(it)  # type: ignore[index]
        return f(*passed, **kwargs)

    return given, of_leaves, counts


def jacfwd(f: Callable[..., Any], argnums: Numbers = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f`` by forward mode, one tangent for each input element.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.

    Returns:
        A function with the arguments of ``f``; its result has the shape of the value followed by the shape of the
        argument, in the structure of the value, and within that of the argument. For complex arguments, the
        holomorphic derivative.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        Tensor([[2., 0.],
                [0., 4.]])
    """
    ensure_callable("jacfwd", f)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, of_leaves, _ = of_arguments(f, args, argnums, "jacfwd", kwargs)
        value, push = linearize(of_leaves, *given.leaves)
        zeros = [np.zeros(x.shape, x.dtype) for x in given.leaves]
        blocks: list[list[Any]] = []
        outs, rebuild = flatten(value)
        for k, x in enumerate(given.leaves):
            columns = []
            for j in range(x.size):
                basis = np.zeros(x.size, x.dtype)
                basis[j] = 1
                columns.append(flatten(push(*zeros[:k], basis.reshape(x.shape), *zeros[k + 1 :]))[0])
            blocks.append([assembled([c[m] for c in columns], y, x, last=True) for m, y in enumerate(outs)])
        return rebuild(iter([given.gather([block[m] for block in blocks]) for m in range(len(outs))]))

    return named("jacfwd", f, call)


def jacrev(f: Callable[..., Any], argnums: Numbers = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f`` by reverse mode, one cotangent for each output element.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.

    Returns:
        A function with the arguments of ``f``; its result is shaped as that of ``jacfwd``.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacrev(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        Tensor([2., 4.])
    """
    ensure_callable("jacrev", f)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, of_leaves, _ = of_arguments(f, args, argnums, "jacrev", kwargs)
        value, pullback = vjp(of_leaves, *given.leaves)
        outs, rebuild = flatten(value)
        zeros = [np.zeros(y.shape, y.dtype) for y in outs]
        found = []
        for m, y in enumerate(outs):
            rows = []
            for j in range(y.size if y.dtype.kind in "fc" else 0):
                basis = np.zeros(y.size, y.dtype)
                basis[j] = 1
                seeds = [*zeros[:m], basis.reshape(y.shape), *zeros[m + 1 :]]
                # The pullback is the conjugate transpose; its conjugate is a row of the Jacobian.
                rows.append([np.conj(c) if c.dtype.kind == "c" else c for c in pullback(rebuild(iter(seeds)))])
            found.append(
                given.gather([assembled([r[k] for r in rows], y, x, last=False) for k, x in enumerate(given.leaves)])
            )
        return rebuild(iter(found))

    return named("jacrev", f, call)


def assembled(parts: list[Any], y: Tensor, x: Tensor, last: bool) -> Any:
    """Columns (``last``) or rows of a Jacobian as one array of y's shape followed by x's."""
    shape = (*y.shape, *x.shape)
    if not parts:
        from dualtape.core.tensor import tensor

        return tensor(np.zeros(shape, np.result_type(y.dtype, x.dtype)))
    if not last:
        return np.reshape(np.stack(parts), shape)
    return np.reshape(np.stack(parts, axis=-1), shape)


def jacobian(
    f: Callable[..., Any], argnums: Numbers = 0, mode: str = "auto", explain: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, by the mode that needs fewer sweeps.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        mode: "forward" (a sweep for each input element), "reverse" (for each output element), or "auto".
        explain: whether the function returns a pair, the Jacobian and the choice of mode with its reason.

    Returns:
        A function with the arguments of ``f``; its result is shaped as that of ``jacfwd``.

    Raises:
        ValueError: for an unknown mode.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacobian(lambda x: np.array([x[0] * x[1], x[1]]))(np.array([2.0, 3.0]))
        Tensor([[3., 2.],
                [0., 1.]])
    """
    ensure_callable("jacobian", f)
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f'jacobian: mode is "auto", "forward" or "reverse", not {mode!r}')

    def call(*args: Any, **kwargs: Any) -> Any:
        choice, reason = mode, "asked for"
        if mode == "auto":
            given = sources("jacobian", args, argnums)
            inputs = sum(x.size for x in given.leaves)
            outs, _ = flatten(f(*args, **kwargs))
            outputs = sum(int(np.size(y)) if np.ndim(y) or np.size(y) else 0 for y in outs)
            choice = "forward" if inputs <= outputs else "reverse"
            reason = f"{inputs} input and {outputs} output elements"
        result = (jacfwd if choice == "forward" else jacrev)(f, argnums)(*args, **kwargs)
        return (result, f"{choice} mode: {reason}") if explain else result

    return named("jacobian", f, call)


def hessian(f: Callable[..., Any], argnums: Numbers = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``f``, forward over reverse.

    Args:
        f: a function with a real scalar result.
        argnums: the position of the argument to differentiate by, or a tuple of positions.

    Returns:
        A function with the arguments of ``f``; its result has the shape of the argument twice (for a tuple of
        argnums, a tuple of tuples of blocks).

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 3.0]))
        Tensor([[0., 6.],
                [6., 2.]])
    """
    ensure_callable("hessian", f)
    return named("hessian", f, jacfwd(grad(f, argnums), argnums))


