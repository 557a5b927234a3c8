"""vmap: a function of one example as a function of many, carried out on all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.level import Level
from dualtape.batching.physical import is_batched
from dualtape.core import recorders
from dualtape.core.standin import Refused, in_order, widest_first
from dualtape.core.tensor import Tensor, operand, tensor, wrap
from dualtape.modes.constant import constant
from dualtape.modes.structure import flatten, is_leaf
from dualtape.transforms.arguments import besides, holds_tensor, result, transformed
from dualtape.transforms.handles import own

__all__ = ["vmap"]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, explain: bool = False) -> Callable[..., Any]:
    """A function that applies ``f`` to each example of a batch, by operations on all examples at once.

    Args:
        f: a function of arrays or nested structures of them.
        in_axes: the axis of each argument that counts the examples; None for an argument that is the same for all. An
            int or None for all arguments, or a tuple or list with an entry for each; an entry may be a structure like
            its argument (or like the outer part of it). Arguments given by keyword are mapped over their first axis.
        out_axes: the axis of each result that counts the examples, in the same form; None for a result that does not
            depend on the batch.
        explain: whether the function returns a pair, the result and a sentence that names the operations without a
            batching rule, which ran once for each example.

    Returns:
        A function with the arguments of ``f``, each with one more axis, that returns its results, each with one more
        axis: arrays or Tensors, as with ``value_and_grad``. A result that does not depend on the batch is repeated.

    Raises:
        ValueError: for axes that do not exist, axes of different lengths, or a batched result with out_axes None.
        TypeError: for ``in_axes`` or ``out_axes`` that do not fit the arguments or results.

    Note:
        Operations find their batching rule by themselves; one that has none, or cannot use it here, runs once for each
        example, and what cannot be carried out for all at once in any way (a branch that depends on the values) makes
        ``f`` itself run once for each. The results are the same. Every combination with tapes, accumulators and
        transforms works, inside ``f`` and around it. What ``f`` does besides (writing into what was made outside it,
        assigning to Variables, printing) happens once, once for each example, or once more than that; and ``f`` must
        let the TypeError pass that a conversion of a batch raises (``float(x)``): it is the sign to start over.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> slopes = dt.vmap(dt.grad(lambda w, x: np.tanh(w @ x)), in_axes=(None, 0))
        >>> slopes(np.zeros(2), np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        array([[1., 2.],
               [3., 4.],
               [5., 6.]])
    """
    check_axes("in_axes", in_axes)
    check_axes("out_axes", out_axes)
    return transformed("vmap", f, mapped, in_axes, out_axes, explain)


def mapped(f: Any, in_axes: Any, out_axes: Any, explain: bool, /, *args: Any, **kwargs: Any) -> Any:
    """The results of ``f`` for each example of a batch, and what ran once for each if it is to be explained."""
    plain = recorders.outermost() and not holds_tensor((args, kwargs))
    found, rebuild, axes, size = arguments(f, args, kwargs, in_axes)
    level = Level(size, recorders.live())
    try:
        return explained(besides(batched(f, level, found, rebuild, axes, out_axes), plain), level, explain)
    except Exception as error:
        if size == 0 or isinstance(error, Misused):
            raise
        level.note(f"the function itself ({error})" if isinstance(error, Refused) else "the function itself")
    finally:
        level.close()
    with recorders.under(recorders.live()):  # inside of a transform, though nobody may be recording
        value = one_by_one(f, size, found, rebuild, axes, out_axes)
    return explained(besides(value, plain), level, explain)


def explained(value: Any, level: Level, explain: bool) -> Any:
    """The result, with a sentence on what ran once for each example if it is asked for."""
    if not explain:
        return value
    if not level.looped:
        return value, "every operation ran once for all examples"
    return value, "once for each example ran: " + ", ".join(sorted(level.looped))


class Misused(ValueError):
    """An error in the use of vmap itself."""


# ------------------------------------------------------------------ axes
def check_axes(name: str, axes: Any) -> None:
    """Refuse what cannot be axes, before the function is called."""
    for a in spread_out(axes):
        if a is not None and (isinstance(a, bool) or not isinstance(a, (int, np.integer))):
            raise TypeError(f"vmap: {name} holds ints and None, got {a!r}")


def spread_out(axes: Any) -> Iterator[Any]:
    """The axes in nested lists, tuples and dicts, None included."""
    if isinstance(axes, dict):
        axes = list(axes.values())
    if isinstance(axes, (tuple, list)):
        for a in axes:
            yield from spread_out(a)
    else:
        yield axes


def axes_of(value: Any, axes: Any, what: str) -> list[Any]:
    """An axis or None for each leaf of ``value``, from a structure like the outer part of it."""
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes] * len(flatten(value)[0])
    parts: Any = None
    if isinstance(axes, dict) and isinstance(value, dict) and axes.keys() == value.keys():
        parts = [(value[k], axes[k], f"{what}[{k!r}]") for k in value]
    elif isinstance(axes, (tuple, list)) and isinstance(value, (tuple, list)) and len(axes) == len(value):
        parts = [(v, a, f"{what}[{k}]") for k, (v, a) in enumerate(zip(value, axes, strict=True))]
    if parts is None:
        raise TypeError(f"vmap: the axes {axes!r} do not fit {what}, {described(value)}")
    return [a for part in parts for a in axes_of(*part)]


def described(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, (tuple, list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an array of shape {np.shape(value)}" if is_leaf(value) else f"a {type(value).__name__}"


def arguments(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any) -> Any:
    """The leaves of all arguments, how to build the arguments, the axis of each leaf, and the number of examples."""
    if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
        raise TypeError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} argument(s)")
    entries = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    axes: list[Any] = []
    names: list[str] = []
    for k, (arg, a) in enumerate(zip(args, entries, strict=True)):
        more = axes_of(arg, a, f"argument {k}")
        axes += more
        names += [f"argument {k}" + (f" (leaf {j})" if len(more) > 1 else "") for j in range(len(more))]
    for name, arg in kwargs.items():
        more = axes_of(arg, 0, name)
        axes += more
        names += [f"keyword argument {name!r}"] * len(more)
    found, rebuild = flatten((args, kwargs))
    sizes: dict[int, str] = {}
    for j, (leaf, axis, name) in enumerate(zip(found, axes, names, strict=True)):
        if axis is None:
            continue
        x = operand(leaf)
        found[j] = x = x if x.__class__ is Tensor or isinstance(x, np.ndarray) else np.asarray(x)
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"vmap: {name} has shape {x.shape}, which has no axis {axis} to map over")
        axes[j] = int(axis) % x.ndim
        sizes.setdefault(x.shape[axis], f"{x.shape[axis]} (axis {axis} of {name}, shape {x.shape})")
    if not sizes:
        raise ValueError(f"vmap: none of the {len(args)} argument(s) is mapped, so that there is no batch; see in_axes")
    if len(sizes) > 1:
        raise ValueError("vmap: the axes to map over have different lengths: " + ", ".join(sizes.values()))
    return found, rebuild, axes, next(iter(sizes))


# ------------------------------------------------------------------ all at once
def batched(f: Any, level: Level, found: Any, rebuild: Any, axes: Any, out_axes: Any) -> Any:
    """``f`` on all examples at once."""
    passed = []
    for x, axis in zip(found, axes, strict=True):
        x = own(x)  # the function may keep it, and the caller write into his
        if axis is not None:
            x = np.moveaxis(x, axis, 0) if axis else x
            if x.__class__ is Tensor:
                x = wrap(x._node) if recorders.is_tracked(x._node) else x._node.value
            else:  # its examples lie in memory as they did
                x = in_order(x, (0, *[k + 1 for k in widest_first(x.strides[1:])]))
            x = tensor(Batch(level, x))
        passed.append(x)
    args, kwargs = rebuild(iter(passed))
    before = level.enter()
    try:
        out = f(*args, **kwargs)
        outs, rebuild_out = flatten(out)
        outs = [result(y) for y in outs]
    finally:
        level.leave(before)
    places = axes_of(out, out_axes, "the result")
    return rebuild_out(iter([placed(level, y, a, k) for k, (y, a) in enumerate(zip(outs, places, strict=True))]))


def placed(level: Level, y: Tensor, axis: Any, k: int) -> Tensor:
    """A result with the examples along an axis."""
    value = y._node.value
    if not is_batched(level, value):
        if axis is None:
            return wrap(y._node)
        where = place(axis, len(y.shape) + 1, k)
        return copy_of(np.broadcast_to(np.expand_dims(y, where), (*y.shape[:where], level.size, *y.shape[where:])))
    if axis is None:
        raise Misused(f"vmap: out_axes is None for result {k}, which depends on the batch")
    physical = value.physical
    where = place(axis, len(y.shape) + 1, k)
    return copy_of(np.moveaxis(physical, 0, where) if where else physical)


def place(axis: int, ndim: int, k: int) -> int:
    """An axis of a result, counted from the front."""
    if not -ndim <= axis < ndim:
        raise Misused(f"vmap: out_axes is {axis}, but with the batch result {k} has {ndim} axes")
    return axis % ndim


def copy_of(x: Any) -> Tensor:
    """A Tensor of what may be an array, a Tensor or a Batch."""
    if x.__class__ is Tensor:
        return wrap(x._node)
    return tensor(x if not isinstance(x, np.ndarray) else np.ascontiguousarray(x))


# ------------------------------------------------------------------ one after the other
def one_by_one(f: Any, size: int, found: Any, rebuild: Any, axes: Any, out_axes: Any) -> Any:
    """``f`` on one example after the other."""
    results = []
    mapped = zip(found, axes, strict=True)
    xs = [x if axis is None or x.__class__ is Tensor else constant(x) for x, axis in mapped]
    for i in range(size):
        passed = [
            own(x if axis is None else x[(slice(None),) * axis + (i,)]) for x, axis in zip(xs, axes, strict=True)
        ]
        args, kwargs = rebuild(iter(passed))
        results.append(f(*args, **kwargs))
    leaves = [[result(y) for y in flatten(r)[0]] for r in results]
    rebuild_out = flatten(results[0])[1]
    if any(len(ys) != len(leaves[0]) for ys in leaves):
        raise ValueError("vmap: the function returns different structures for different examples")
    places = axes_of(results[0], out_axes, "the result")
    found_out = []
    for k, axis in enumerate(places):
        ys = [one[k] for one in leaves]
        if axis is None:
            raise ValueError(f"vmap: out_axes is None for result {k}, which depends on the batch")
        found_out.append(np.stack(ys, place(axis, len(ys[0].shape) + 1, k)))
    return rebuild_out(iter(found_out))
