"""jvp, vjp, linearize and hvp: products with Jacobians and Hessians, at the cost of a few evaluations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.absent import still
from dualtape.core.cotangents import seed
from dualtape.core.sweep import Cotangents, finished, planned, sweep, walk
from dualtape.core.tensor import Tensor, operand, raw, tensor
from dualtape.modes.accumulator import tangent_like
from dualtape.modes.constant import constant
from dualtape.modes.structure import flatten, match_structure
from dualtape.transforms.arguments import IDENTITY, Sources, carrying, ensure_callable, recorded, results, sources
from dualtape.transforms.gradient import grad, gradients

__all__ = ["hvp", "jvp", "linearize", "vjp"]


def tuple_of(name: str, what: str, value: Any) -> tuple[Any, ...]:
    """A tuple of arguments, as jvp and linearize take them."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name}: {what} is a tuple, one entry for each argument of f; got {type(value).__name__}")
    return tuple(value)


def pushed(f: Callable[..., Any], args: tuple[Any, ...], leaves: list[Tensor], tangents: list[Any]) -> Any:
    """Run ``f`` with tangents on its leaves; the results and, for each, its tangent or None."""
    (out, rebuild), found = carrying(leaves, tangents, lambda: results(f(*args)), lambda value: value[0])
    return out, found, rebuild


def jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    """The value of ``f`` and its derivative in a direction, by one forward sweep.

    Args:
        f: a function of arrays or nested structures of them.
        primals: a tuple, one entry for each argument of ``f``.
        tangents: a tuple like it: the direction, of the same shapes.

    Returns:
        ``(value, tangent)``, both in the structure of the result of ``f``; the tangent is J v.

    Raises:
        ValueError: if a tangent has not the shape of its primal.
        TypeError: if primals or tangents are not tuples, or not of a floating or complex dtype.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jvp(np.sin, (0.0,), (2.0,))
        (Tensor(0.), Tensor(2.))
    """
    ensure_callable("jvp", f)
    given, directions = directed("jvp", primals, tangents)
    out, found, rebuild = pushed(f, given.args, given.leaves, directions)
    return rebuild(iter(out)), rebuild(map(finished, found, out))


def directed(name: str, primals: Any, tangents: Any) -> tuple[Sources, list[Any]]:
    """Primals as Tensors, tangents checked against them."""
    args = primals if primals.__class__ is tuple else tuple_of(name, "primals", primals)
    given = sources(name, args, range(len(args)))
    ts = tangents if tangents.__class__ is tuple else tuple_of(name, "tangents", tangents)
    if len(ts) != len(args):
        raise ValueError(f"{name}: {len(args)} primals and {len(ts)} tangents")
    return given, directions(name, given, ts)


def directions(name: str, given: Sources, tangents: Sequence[Any]) -> list[Any]:
    """One tangent for each leaf of the arguments."""
    found: list[Any] = []
    for k, (x, t, (rebuild, count)) in enumerate(zip(given.args, tangents, given.rebuilds, strict=True)):
        label = f"argument {k} of {name}"
        if rebuild is next:
            found.append(tangent_like(x._node.value, t, label))
            continue
        try:
            parts = match_structure(x, t, count)
        except ValueError as error:
            raise ValueError(f"{label}: {error}") from None
        found += [tangent_like(leaf._node.value, s, label) for leaf, s in zip(flatten(x)[0], parts, strict=True)]
    return found


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The value of ``f`` and its pullback, which maps a cotangent of the result to cotangents of the arguments.

    Args:
        f: a function of arrays or nested structures of them.
        *primals: its arguments.

    Returns:
        ``(value, pullback)``. ``pullback(cotangent)`` takes a cotangent in the structure of the value and returns a
        tuple, one entry for each argument: the conjugate transpose of J applied to it. It may be called many times.

    Raises:
        TypeError: if an argument is not of a floating or complex dtype.
        ValueError: (from the pullback) if a cotangent does not fit.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> value, pullback = dt.vjp(np.multiply, 2.0, 3.0)
        >>> pullback(1.0)
        (Tensor(3.), Tensor(2.))
    """
    ensure_callable("vjp", f)
    given = sources("vjp", primals, range(len(primals)))
    (out, rebuild), entries = recorded(lambda *args: results(f(*args)), given.args, {}, given.leaves)
    ids = list(map(IDENTITY, given.leaves))

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        cs = match_structure(rebuild(iter(out)), cotangent, len(out))
        cotangents = Cotangents()
        for k, (y, c) in enumerate(zip(out, cs, strict=True)):
            if c is None or y.dtype.kind not in "fc":
                continue
            name = "vjp: the cotangent" if len(out) == 1 else f"vjp: cotangent {k}"
            c = operand(c) if c.__class__ is Tensor else np.array(raw(operand(c)))[()]
            if c.shape != y.shape:
                raise ValueError(f"{name} has shape {c.shape}, but the result has shape {y.shape}")
            c = seed(y._node.value, c, name)
            cotangents.add(y._node.id, c if recorders.live() else raw(c))
        cotangents.owned.clear()
        cotangents.seeded = True
        found = sweep(entries, cotangents, ids, False, True)
        g = given.gather(map(finished, found, given.leaves))
        return g  # type: ignore[no-any-return]

    return rebuild(iter(out)), pullback


def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``f`` and the linear map of tangents there, which repeats no nonlinear work.

    The tangents' own operations are recorded while ``f`` runs once under forward mode; what is left on that tape is
    linear, and is replayed for each new tangent.

    Args:
        f: a function of arrays or nested structures of them.
        *primals: its arguments.

    Returns:
        ``(value, push)``; ``push(*tangents)`` takes one tangent for each argument and returns that of the value.

    Raises:
        TypeError: if an argument is not of a floating or complex dtype.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> value, push = dt.linearize(np.exp, 0.0)
        >>> push(3.0)
        Tensor(3.)
    """
    ensure_callable("linearize", f)
    given = sources("linearize", primals, range(len(primals)))
    out, found, rebuild, entries, ids = linearized(f, given)
    steps = planned(entries, [t._node.id for t in found if t.__class__ is Tensor])

    def push(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise ValueError(f"push: {len(primals)} arguments and {len(tangents)} tangents")
        start = dict(zip(ids, directions("push", given, tangents), strict=True))
        ends = walk(steps, start)
        return rebuild(iter([finished(linear_part(t, ends), y, True) for t, y in zip(found, out, strict=True)]))

    return rebuild(iter(out)), push


def linearized(f: Callable[..., Any], given: Sources) -> tuple[list[Any], list[Any], Any, dict[int, Any], list[int]]:
    """The results of ``f``, their tangents, the entries of what the tangents went through, and where those start."""
    # Any tangent will do, except one with zeros: rules may leave out what a zero would meet.
    rng = np.random.default_rng(0)
    seeds = [tensor(rng.uniform(0.5, 1.0, x.shape).astype(x.dtype)[()]) for x in given.leaves]
    (out, found, rebuild), entries = recorded(pushed, (f, given.args, given.leaves, seeds), {}, seeds)
    return out, found, rebuild, entries, [t._node.id for t in seeds]


def linear_part(t: Any, ends: dict[int, Any]) -> Any:
    """The tangent that took the place of ``t`` in a replay."""
    return ends.get(t._node.id) if t.__class__ is Tensor else None


def hvp(f: Callable[..., Any], primals: Any, tangents: Any, order: str = "fr") -> Any:
    """The product of the Hessian of ``f`` with a direction.

    Args:
        f: a function with a real scalar result.
        primals: a single array, or a tuple with one entry for each argument of ``f``.
        tangents: the direction, in the structure of ``primals``.
        order: the outer and the inner mode: "fr" forward over reverse (the cheapest), "rf", "rr" or "ff" (one
            sweep for each input element, for comparison).

    Returns:
        The product, in the structure of ``primals``.

    Raises:
        ValueError: for an unknown order, or a direction that does not fit.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 0.0]))
        Tensor([6., 0.])
    """
    ensure_callable("hvp", f)
    if order not in ("fr", "rf", "rr", "ff"):
        raise ValueError(f'hvp: order is "fr", "rf", "rr" or "ff" (outer mode first), not {order!r}')
    single = not isinstance(primals, tuple)
    xs: tuple[Any, ...] = (primals,) if single else primals
    vs: Any = (tangents,) if single else tangents
    every = tuple(range(len(xs)))
    if order == "ff":
        product = forward_over_forward(f, xs, vs)
        return product[0] if single else product
    given, moves = directed("hvp", xs, vs)
    if order == "fr":
        # The leaves are nobody else's, so the tape inside may watch the very nodes that carry the tangents.
        run = partial(gradients, "hvp", f, given, {})
        (_, _, slopes), found = carrying(given.leaves, moves, run, lambda value: value[2])
        product = given.gather(map(finished, found, slopes))
    else:

        def slope(*args: Any) -> Any:
            if order == "rf":
                return jvp(f, args, given.gather(moves))[1]
            gs, _ = flatten(grad(f, every)(*args))
            # The real inner product: also for complex arguments, Re <v, g>.
            total: Any = constant(0.0)
            for v, g in zip(moves, gs, strict=True):
                total = total + np.sum(np.real(np.conj(still(v)) * g))
            return total

        product = grad(slope, every)(*xs)
    return product[0] if single else product


def forward_over_forward(f: Callable[..., Any], xs: tuple[Any, ...], vs: tuple[Any, ...]) -> Any:
    """The Hessian times a direction, one inner forward sweep for each real input coordinate."""
    given = sources("hvp", xs, range(len(xs)))
    found = []
    for k, leaf in enumerate(given.leaves):
        parts = (1.0,) if leaf.dtype.kind == "f" else (1.0, 1j)
        columns = []
        for unit in parts:
            for j in range(leaf.size):
                basis = [np.zeros(x.shape, x.dtype) for x in given.leaves]
                basis[k] = np.reshape(np.eye(1, leaf.size, j, dtype=leaf.dtype) * unit, leaf.shape)

                def slope(*args: Any, basis: list[Any] = basis) -> Any:
                    return jvp(f, args, given.gather(basis))[1]

                columns.append(unit * jvp(slope, xs, vs)[1])
        if not columns:
            columns = [constant(np.zeros(leaf.shape))]
        total = np.stack(columns).reshape((-1, *leaf.shape))
        found.append(np.sum(total, axis=0).astype(leaf.dtype))
    return given.gather(found)


