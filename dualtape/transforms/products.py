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
from dualtape.core.tensor import Node, Tensor, operand, raw, tensor
from dualtape.modes.accumulator import tangent_like
from dualtape.modes.constant import constant
from dualtape.modes.structure import Rebuild, flatten, match_structure
from dualtape.transforms.arguments import (
    IDENTITY,
    Sources,
    besides,
    carrying,
    derivatives,
    ensure_callable,
    evaluated,
    given_out,
    holds_tensor,
    recorded,
    sources,
)
from dualtape.transforms.gradient import grad, gradients

__all__ = ["hvp", "jvp", "linearize", "vjp"]


def tuple_of(name: str, what: str, value: Any) -> tuple[Any, ...]:
    """A tuple of arguments, as jvp and linearize take them."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name}: {what} is a tuple, one entry for each argument of f; got {type(value).__name__}")
    return tuple(value)


def pushed(
    run: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, leaves: list[Tensor], tangents: list[Any]
) -> Any:
    """What ``run``, an evaluation, gives with tangents on the leaves; and for each result its tangent or None."""
    return carrying(leaves, tangents, partial(run, *args, **kwargs), lambda value: value[0])


def jvp(f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``f`` and its derivative in a direction, by one forward sweep.

    Args:
        f: a function of arrays or nested structures of them.
        primals: a tuple, one entry for each argument of ``f``; integers are taken as float64.
        tangents: a tuple like it: the direction, of the same shapes.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.

    Returns:
        ``(value, tangent)``, or ``(value, tangent, aux)``. Value and tangent have the structure of the result of ``f``;
        the tangent is J v. They are arrays or Tensors, as with ``value_and_grad``.

    Raises:
        ValueError: if a tangent has not the shape of its primal.
        TypeError: if primals or tangents are not tuples, or a primal is no number or a Tensor of integers.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.jvp(np.sin, (0.0,), (2.0,))
        (np.float64(0.0), np.float64(2.0))
    """
    ensure_callable("jvp", f)
    given, moves = directed("jvp", primals, tangents)
    plain = given.plain and not holds_tensor(tangents)
    (out, rebuild, aux), found = pushed(partial(evaluated, "jvp", f, has_aux), given.args, {}, given.leaves, moves)
    ts = rebuild(iter(derivatives(found, out, plain)))
    value = rebuild(iter([given_out(y, plain) for y in out]))
    return (value, ts, besides(aux, plain)) if has_aux else (value, ts)


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


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``f`` and its pullback, which maps a cotangent of the result to cotangents of the arguments.

    Args:
        f: a function of arrays or nested structures of them.
        *primals: its arguments; integers are taken as float64.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.

    Returns:
        ``(value, pullback)``, or ``(value, pullback, aux)``. ``pullback(cotangent)`` takes a cotangent in the structure
        of the value and returns a tuple, one entry for each argument: the conjugate transpose of J applied to it. It
        may be called many times. Results are arrays or Tensors, as with ``value_and_grad``; those of the pullback are
        Tensors also if its cotangent is one.

    Raises:
        TypeError: if an argument is no number or a Tensor of integers.
        ValueError: (from the pullback) if a cotangent does not fit.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> value, pullback = dt.vjp(np.multiply, 2.0, 3.0)
        >>> pullback(1.0)
        (np.float64(3.0), np.float64(2.0))
    """
    ensure_callable("vjp", f)
    given = sources("vjp", primals, range(len(primals)))
    own, plain = given.apart(primals), given.plain
    run = partial(evaluated, "vjp", f, has_aux)
    (out, rebuild, aux), entries = recorded(run, given.args, {}, given.leaves)
    value = rebuild(iter([given_out(y, plain) for y in out]))
    pullback = partial(pulled, own, rebuild, [y._node for y in out], entries)
    return (value, pullback, besides(aux, plain)) if has_aux else (value, pullback)


def pulled(given: Sources, rebuild: Rebuild, ends: list[Node], entries: dict[int, Any], cotangent: Any, /) -> Any:
    """The cotangents of the arguments that a cotangent of the results is pulled back to."""
    cs = match_structure(rebuild(iter(ends)), cotangent, len(ends))
    found = sweep(entries, seeded(ends, cs), list(map(IDENTITY, given.leaves)), False, True)
    return given.gather(derivatives(found, given.leaves, given.is_plain_with(cotangent)))


def seeded(ends: list[Node], given: list[Any]) -> Cotangents:
    """The cotangents that a sweep starts with, of results."""
    cotangents = Cotangents()
    for k, (end, c) in enumerate(zip(ends, given, strict=True)):
        if c is None or end.value.dtype.kind not in "fc":
            continue
        name = "vjp: the cotangent" if len(ends) == 1 else f"vjp: cotangent {k}"
        c = operand(c)
        if c.__class__ is not Tensor:
            c = np.array(c)[()]
        if c.shape != end.value.shape:
            raise ValueError(f"{name} has shape {c.shape}, but the result has shape {end.value.shape}")
        c = seed(end.value, c, name)
        cotangents.add(end.id, c if recorders.following() else raw(c))
    cotangents.owned.clear()
    cotangents.seeded = True
    return cotangents


def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``f`` and the linear map of tangents there, which repeats no nonlinear work.

    The tangents' own operations are recorded while ``f`` runs once under forward mode; what is left on that tape is
    linear, and is replayed for each new tangent.

    Args:
        f: a function of arrays or nested structures of them.
        *primals: its arguments; integers are taken as float64.
        has_aux: whether ``f`` returns a pair, of which only the first is differentiated; the second may be anything.

    Returns:
        ``(value, push)``, or ``(value, push, aux)``; ``push(*tangents)`` takes one tangent for each argument and
        returns that of the value. Results are arrays or Tensors, as with ``vjp``.

    Raises:
        TypeError: if an argument is no number or a Tensor of integers.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> value, push = dt.linearize(np.exp, 0.0)
        >>> push(3.0)
        np.float64(3.0)
    """
    ensure_callable("linearize", f)
    given = sources("linearize", primals, range(len(primals)))
    own, plain = given.apart(primals), given.plain
    (out, rebuild, aux), found, entries, starts = linearized("linearize", f, given, {}, has_aux)
    ends = [t._node.id if t.__class__ is Tensor else 0 for t in found]
    value = rebuild(iter([given_out(y, plain) for y in out]))
    push = partial(along, own, rebuild, [y._node.value for y in out], planned(entries, ends), starts, ends)
    return (value, push, besides(aux, plain)) if has_aux else (value, push)


def along(
    given: Sources, rebuild: Rebuild, likes: list[Any], steps: Any, starts: list[int], ends: list[int], *tangents: Any
) -> Any:
    """The tangents of the results that tangents of the arguments are carried along to."""
    if len(tangents) != len(given.args):
        raise ValueError(f"push: {len(given.args)} arguments and {len(tangents)} tangents")
    found = carried(steps, dict(zip(starts, directions("push", given, tangents), strict=True)), ends)
    return rebuild(iter(derivatives(found, likes, given.is_plain_with(tangents))))


def carried(steps: Any, tangents: dict[int, Any], ends: list[int]) -> list[Any]:
    """The tangents at the ends of linear steps, or None."""
    moved = walk(steps, tangents)
    return [moved.get(i) for i in ends]


def linearized(name: str, f: Any, given: Sources, kwargs: Any, has_aux: bool) -> tuple[Any, list[Any], Any, list[int]]:
    """An evaluation of ``f``, the tangents of its results, the entries of what those went through, and its starts."""
    # Any tangent will do, except one with zeros: rules may leave out what a zero would meet.
    rng = np.random.default_rng(0)
    seeds = [tensor(rng.uniform(0.5, 1.0, x.shape).astype(x.dtype)[()]) for x in given.leaves]
    run = partial(evaluated, name, f, has_aux)
    (evaluation, found), entries = recorded(pushed, (run, given.args, kwargs, given.leaves, seeds), {}, seeds)
    return evaluation, found, entries, list(map(IDENTITY, seeds))


def hvp(f: Callable[..., Any], primals: Any, tangents: Any, order: str = "fr") -> Any:
    """The product of the Hessian of ``f`` with a direction.

    Args:
        f: a function with one real number for its result.
        primals: a single array, or a tuple with one entry for each argument of ``f``; integers are taken as float64.
        tangents: the direction, in the structure of ``primals``.
        order: the outer and the inner mode: "fr" forward over reverse (the cheapest), "rf", "rr" or "ff" (one
            sweep for each input element, for comparison).

    Returns:
        The product, in the structure of ``primals``: arrays or Tensors, as with ``value_and_grad``.

    Raises:
        ValueError: for an unknown order, or a direction that does not fit.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> dt.hvp(lambda x: np.sum(x**3), np.array([1.0, 2.0]), np.array([1.0, 0.0]))
        array([6., 0.])
    """
    ensure_callable("hvp", f)
    if order not in ("fr", "rf", "rr", "ff"):
        raise ValueError(f'hvp: order is "fr", "rf", "rr" or "ff" (outer mode first), not {order!r}')
    single = not isinstance(primals, tuple)
    xs: tuple[Any, ...] = (primals,) if single else primals
    vs: Any = (tangents,) if single else tangents
    every = tuple(range(len(xs)))
    given, moves = directed("hvp", xs, vs)
    if order == "ff":
        found = forward_over_forward(f, given, vs)
    elif order == "fr":
        # The leaves are nobody else's, so the tape inside may watch the very nodes that carry the tangents.
        def slopes() -> list[Any]:
            return list(map(finished, gradients("hvp", f, given, {})[2], given.leaves))

        found = carrying(given.leaves, moves, slopes, list)[1]
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

        found = flatten(grad(slope, every)(*given.args))[0]
    product = given.gather(derivatives(found, given.leaves, given.plain and not holds_tensor(vs)))
    return product[0] if single else product


def forward_over_forward(f: Callable[..., Any], given: Sources, vs: tuple[Any, ...]) -> list[Any]:
    """The Hessian times a direction, one inner forward sweep for each real input coordinate."""
    found: list[Any] = []
    for k, leaf in enumerate(given.leaves):
        parts = (1.0,) if leaf.dtype.kind == "f" else (1.0, 1j)
        columns = []
        for unit in parts:
            for j in range(leaf.size):
                basis = [np.zeros(x.shape, x.dtype) for x in given.leaves]
                basis[k] = np.reshape(np.eye(1, leaf.size, j, dtype=leaf.dtype) * unit, leaf.shape)

                def slope(*args: Any, basis: list[Any] = basis) -> Any:
                    return jvp(f, args, given.gather(basis))[1]

                columns.append(unit * jvp(slope, given.args, vs)[1])
        if not columns:
            found.append(None)
            continue
        total = np.stack(columns).reshape((-1, *leaf.shape))
        found.append(np.sum(total, axis=0).astype(leaf.dtype))
    return found
