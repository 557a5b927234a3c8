"""jacfwd, jacrev, jacobian and hessian: all derivatives of a function, by one sweep with a batch of seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dualtape.batching.sweeps import chunk_size, chunks, pull_many, push_many, unit_seeds
from dualtape.core import recorders
from dualtape.core.sweep import planned, walk
from dualtape.core.tensor import Tensor, raw
from dualtape.transforms.arguments import (
    besides,
    derivatives,
    ensure_argnums,
    ensure_callable,
    evaluated,
    recorded,
    sources,
    transformed,
)
from dualtape.transforms.gradient import grad
from dualtape.transforms.products import linearized

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]

Numbers = int | Sequence[int]


def jacfwd(
    f: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False, *, chunk: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f`` by forward mode: one sweep with a tangent for each input element.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.
        chunk: the number of tangents in one sweep. None: as many as fit into 256 MB, of which each takes as much as the
            linear part of ``f`` keeps on its tape, or as argument and value if that is more.

    Returns:
        A function with the arguments of ``f``; its result has the shape of the value followed by the shape of the
        argument, in the structure of the value, and within that of the argument, and the dtype of the value; with
        has_aux it is a pair, ``(jacobian, aux)``. For complex arguments, the holomorphic derivative; one sweep more
        makes sure that there is one. Results are arrays or Tensors, as with ``value_and_grad``.

    Raises:
        TypeError: if ``f`` is not holomorphic in a complex argument.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    ensure_argnums("jacfwd", argnums)
    return transformed("jacfwd", f, forward_jacobian, argnums, has_aux, chunk, None)


def forward_jacobian(
    f: Any, argnums: Any, has_aux: bool, chunk: Any, looped: dict[str, int] | None, /, *args: Any, **kwargs: Any
) -> Any:
    """The Jacobian by forward mode; ``looped`` gets the operations that ran once for each tangent."""
    looped = {} if looped is None else looped
    given = sources("jacfwd", args, argnums, kwargs)
    (outs, rebuild, aux), tangents, entries, starts = linearized("jacfwd", f, given, kwargs, has_aux)
    ends = [t._node.id if t.__class__ is Tensor else 0 for t in tangents]
    blocks: list[list[Any]] = []
    for k, x in enumerate(given.leaves):
        like = np.empty(x.shape, x.dtype)
        size = chunk_size(entries, chunk, like.size, like.nbytes + sum([y.nbytes for y in outs]))
        parts = [
            push_many(entries, {starts[k]: unit_seeds(like, a, b)}, ends, b - a, looped)
            for a, b in chunks(like.size, size)
        ]
        blocks.append([assembled([p[m] for p in parts], y, x, last=True) for m, y in enumerate(outs)])
    if any(x.dtype.kind == "c" and x.size for x in given.leaves):
        zeros = [np.zeros(x.shape, x.dtype) for x in given.leaves]
        vs = [probe(x) if x.dtype.kind == "c" else z for x, z in zip(given.leaves, zeros, strict=True)]
        turned = [v * 1j if v.dtype.kind == "c" else v for v in vs]
        moved = walk(planned(entries, ends), dict(zip(starts, turned, strict=True)))
        for m, y in enumerate(outs):
            # Along i v a holomorphic function moves i times as far as along v.
            if y.dtype.kind not in "fc":
                continue
            t = moved.get(ends[m])
            t = np.zeros(y.shape, y.dtype) if t is None else raw(t)
            matrices = [np.reshape(raw(block[m]), (y.size, v.size)) for block, v in zip(blocks, vs, strict=True)]
            along = sum(j @ np.ravel(v) for j, v in zip(matrices, vs, strict=True))
            ensure_holomorphic("jacfwd", np.ravel(t) - 1j * along, matrices, 1)
    rows = [[block[m] for block in blocks] for m in range(len(outs))]
    del blocks
    value = rebuild(iter([given.gather(derivatives(row, given.leaves, given.plain)) for row in rows]))
    return (value, besides(aux, given.plain)) if has_aux else value


def jacrev(
    f: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False, *, chunk: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f`` by reverse mode: one sweep, a cotangent for each output element.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.
        chunk: the number of cotangents in one sweep. None: as many as fit into 256 MB, of which each takes as much as
            ``f`` keeps on its tape, or as argument and value if that is more.

    Returns:
        A function with the arguments of ``f``; its result is that of ``jacfwd``. An element of a complex result takes
        two cotangents if an argument is real.

    Raises:
        TypeError: if ``f`` is not holomorphic in a complex argument.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacrev(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
        array([2., 4.])
    """
    ensure_argnums("jacrev", argnums)
    return transformed("jacrev", f, reverse_jacobian, argnums, has_aux, chunk, None)


def reverse_jacobian(
    f: Any, argnums: Any, has_aux: bool, chunk: Any, looped: dict[str, int] | None, /, *args: Any, **kwargs: Any
) -> Any:
    """The Jacobian by reverse mode; ``looped`` gets the operations that ran once for each cotangent."""
    looped = {} if looped is None else looped
    given = sources("jacrev", args, argnums, kwargs)
    leaves = given.leaves
    run = partial(evaluated, "jacrev", f, has_aux)
    (outs, rebuild, aux), entries = recorded(run, given.args, kwargs, leaves)
    ids = [x._node.id for x in leaves]
    some_real = any(x.dtype.kind == "f" and x.size for x in leaves)
    some_complex = any(x.dtype.kind == "c" and x.size for x in leaves)
    found = []
    for y in outs:
        node = y._node

        def pulled(seeds: Any, node: Any = node) -> list[Any]:
            return pull_many(entries, node, ids, seeds, True, looped)

        like = np.empty(y.shape, y.dtype)
        count = like.size if y.dtype.kind in "fc" else 0
        size = chunk_size(entries, chunk, count, like.nbytes + sum([x.nbytes for x in leaves]))
        parts: list[list[Any]] = []
        for a, b in chunks(count, size):
            # The pullback is the conjugate transpose; its conjugate is a row of the Jacobian. By a real argument
            # only the real part of that comes back, so that the imaginary part takes a cotangent of its own.
            part = [np.conj(c) if c is not None and c.dtype.kind == "c" else c for c in pulled(unit_seeds(like, a, b))]
            if some_real and y.dtype.kind == "c":
                imaginary = pulled(unit_seeds(like, a, b, 1j))
                part = [
                    c if c is None or c.dtype.kind == "c" else c + 1j * i for c, i in zip(part, imaginary, strict=True)
                ]
            parts.append(part)
        blocks = [assembled([p[k] for p in parts], y, x, last=False) for k, x in enumerate(leaves)]
        if some_complex and parts:
            w = probe(y)
            turned = pulled(w[None] * 1j) if y.dtype.kind == "c" else [None] * len(leaves)
            for block, c, x in zip(blocks, turned, leaves, strict=True):
                if x.dtype.kind == "c":
                    matrix = np.reshape(raw(block), (y.size, x.size))
                    # A real result that depends on a complex argument is not holomorphic.
                    back = 0.0 if c is None else np.ravel(np.conj(raw(c)))
                    ensure_holomorphic("jacrev", back + 1j * (np.ravel(w) @ matrix), [matrix], 0)
        del parts
        found.append(given.gather(derivatives(blocks, leaves, given.plain)))
    value = rebuild(iter(found))
    return (value, besides(aux, given.plain)) if has_aux else value


def probe(x: Tensor) -> Any:
    """A direction with no zeros, in the shape and dtype of ``x``."""
    return np.random.default_rng(0).uniform(0.5, 1.5, x.shape).astype(x.dtype)


def ensure_holomorphic(name: str, difference: Any, matrices: list[Any], axis: int) -> None:
    """Refuse a difference between the derivatives along v and along i v that is more than rounding."""
    eps = max(np.finfo(m.dtype).eps for m in matrices)
    with np.errstate(all="ignore"):
        sizes = sum(np.sum(np.abs(m), axis) for m in matrices)
        largest = max((np.max(np.abs(m), initial=0.0) for m in matrices), default=0.0)
        wrong = np.any(np.abs(difference) > eps**0.5 * sizes + 100 * eps * largest)
    if wrong:
        raise TypeError(
            f"{name}: the function is not holomorphic in its complex argument, so that no one matrix is its "
            "derivative: differentiate by real and imaginary part, jacobian(lambda a, b: f(a + 1j * b), (0, 1)); "
            "or take products with jvp, vjp or hvp; a real scalar result has a gradient, grad(f)"
        )


def assembled(parts: list[Any], y: Tensor, x: Tensor, last: bool) -> Any:
    """Batches of columns (``last``) or rows of a Jacobian as one array of y's shape followed by x's."""
    shape, dtype = (*y.shape, *x.shape), y.dtype
    if not parts or parts[0] is None:
        return np.zeros(shape, dtype if dtype.kind in "fc" else x.dtype)[()]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if last:
        whole = np.moveaxis(whole, 0, -1)
    if whole.dtype != dtype and whole.dtype.kind == dtype.kind:
        whole = whole.astype(dtype)
    return np.reshape(whole, shape)


def jacobian(
    f: Callable[..., Any],
    argnums: Numbers = 0,
    mode: str = "auto",
    explain: bool = False,
    has_aux: bool = False,
    *,
    chunk: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``f``, by the mode that needs fewer sweeps.

    Args:
        f: a function of arrays.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        mode: "forward" (a tangent for each input element), "reverse" (a cotangent for each output element), or "auto".
        explain: whether the function returns a pair, the Jacobian and the choice of mode with its reason; it also names
            operations without a batching rule, which ran once for each.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.
        chunk: the number of tangents or cotangents in one sweep, as for ``jacfwd`` and ``jacrev``.

    Returns:
        A function with the arguments of ``f``; its result is that of ``jacfwd``.

    Raises:
        ValueError: for an unknown mode.
        TypeError: if ``f`` is not holomorphic in a complex argument.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jacobian(lambda x: np.array([x[0] * x[1], x[1]]))(np.array([2.0, 3.0]))
        array([[3., 2.],
               [0., 1.]])
    """
    ensure_argnums("jacobian", argnums)
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f'jacobian: mode is "auto", "forward" or "reverse", not {mode!r}')
    return transformed("jacobian", f, chosen_jacobian, argnums, mode, explain, has_aux, chunk)


def chosen_jacobian(
    f: Any, argnums: Any, mode: str, explain: bool, has_aux: bool, chunk: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """The Jacobian by the mode that was asked for or needs fewer sweeps, and why."""
    choice, reason = mode, "asked for"
    if mode == "auto":
        given = sources("jacobian", args, argnums, kwargs)
        with recorders.under(()):  # for the sizes of the results alone
            outs = evaluated("jacobian", f, has_aux, *given.args, **kwargs)[0]
        inputs, outputs = sum(x.size for x in given.leaves), sum(y.size for y in outs)
        sweeps = outputs
        if any(x.dtype.kind == "f" for x in given.leaves):
            sweeps += sum(y.size for y in outs if y.dtype.kind == "c")
        choice = "forward" if inputs <= sweeps else "reverse"
        reason = f"{inputs} input and {outputs} output elements" + (", complex" if sweeps > outputs else "")
    looped: dict[str, int] = {}
    run = forward_jacobian if choice == "forward" else reverse_jacobian
    value = run(f, argnums, has_aux, chunk, looped, *args, **kwargs)
    if not explain:
        return value
    return value, f"{choice} mode: {reason}" + (f"; one by one: {', '.join(sorted(looped))}" if looped else "")


def hessian(
    f: Callable[..., Any], argnums: Numbers = 0, has_aux: bool = False, *, chunk: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Hessian of ``f``, forward over reverse.

    Args:
        f: a function with one real number for its result.
        argnums: the position of the argument to differentiate by, or a tuple of positions.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.
        chunk: the number of tangents in one sweep, as for ``jacfwd``.

    Returns:
        A function with the arguments of ``f``; its result has the shape of the argument twice (for a tuple of
        argnums, a tuple of tuples of blocks); with has_aux it is a pair, ``(hessian, aux)``.

    Raises:
        TypeError: if the gradient is not holomorphic in a complex argument; ``hvp`` takes any.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 3.0]))
        array([[0., 6.],
               [6., 2.]])
    """
    ensure_argnums("hessian", argnums)
    ensure_callable("hessian", f)
    slope = grad(f, argnums, has_aux)
    return transformed("hessian", f, second, slope, argnums, has_aux, chunk)


def second(f: Any, slope: Any, argnums: Any, has_aux: bool, chunk: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The Hessian of ``f``, whose gradient is ``slope``."""
    return forward_jacobian(slope, argnums, has_aux, chunk, None, *args, **kwargs)
