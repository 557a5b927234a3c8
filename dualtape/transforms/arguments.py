"""What every transform does first and last: arguments become Tensors of their own, results become Tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import STACK, Recorder
from dualtape.core.standin import Standin
from dualtape.core.tangents import TangentRecorder, attach
from dualtape.core.tensor import Node, Operand, Tensor, has_tensor, new_id, operand, tensor, wrap
from dualtape.memory.reserve import copied
from dualtape.modes.structure import Rebuild, flatten, is_leaf, map_structure
from dualtape.ops.shaping import identity

FLOATING = "a derivative needs floating or complex numbers: write 3.0 for 3, or convert with astype(float)"


def source(leaf: Any, name: str, k: int, j: int | None = None) -> Tensor:
    """A leaf of argument ``k`` as a Tensor with an identity of its own.

    Of its own, even if it is a Tensor already: the function may also reach the caller's Tensor some other way, and
    that way is not what is differentiated. Recorders outside see the step from one to the other.
    """
    if leaf.__class__ is np.ndarray and leaf.dtype.kind in "fc":
        return tensor((leaf.copy("K") if leaf.size < 4096 else copied(leaf)) if leaf.ndim else leaf[()])
    if leaf.__class__ is float:
        return tensor(np.float64(leaf))
    label = f"{name}: argument {k}" + ("" if j is None else f" (leaf {j})")
    if isinstance(leaf, Operand):
        x = leaf._read()
        if x.dtype.kind not in "fc":
            raise TypeError(f"{label} is a Tensor of dtype {x.dtype}: {FLOATING}")
        return identity(x) if STACK.get() else wrap(Node(x._node.value))
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(f"{label} is a masked array, and its mask would be lost: pass its data and its mask apart")
    if isinstance(leaf, np.ndarray) and leaf.dtype == object and has_tensor(leaf):
        return source(operand(leaf), name, k, j)
    try:
        array = np.array(leaf)
        kind = array.dtype.kind
    except (TypeError, ValueError):
        kind = "O"
    if kind not in "fc":
        shown = f"of dtype {array.dtype}" if kind in "iub" else f"a {type(leaf).__name__}"
        raise TypeError(f"{label} is {shown}: {FLOATING}")
    return tensor(array[()])


class Sources:
    """The arguments as they are passed on, and those that are differentiated."""

    __slots__ = ("args", "leaves", "rebuilds", "single")

    def __init__(
        self, args: tuple[Any, ...], leaves: list[Tensor], rebuilds: list[tuple[Rebuild, int]], single: bool
    ) -> None:
        self.args = args
        self.leaves = leaves
        self.rebuilds = rebuilds
        self.single = single

    @classmethod
    def of(cls, leaves: list[Tensor]) -> Sources:
        """Leaves that are all the arguments there are."""
        return cls(tuple(leaves), leaves, [ONE_LEAF[0]] * len(leaves), False)

    def gather(self, values: Iterable[Any]) -> Any:
        """One value for each leaf, in the structure of the differentiated arguments."""
        it = iter(values)
        if self.single:
            return self.rebuilds[0][0](it)
        if self.rebuilds is ONE_LEAF:
            return (next(it),)
        return tuple([rebuild(it) for rebuild, _ in self.rebuilds])


ONE_LEAF: list[tuple[Rebuild, int]] = [(next, 1)]


def sources(name: str, args: tuple[Any, ...], argnums: int | Sequence[int]) -> Sources:
    """Make Tensors of the arguments that ``argnums`` names."""
    if len(args) == 1 and args[0].__class__ is np.ndarray:  # the common case, without its cost
        one = argnums.__class__ is int and argnums == 0
        if one or argnums == range(1):
            x = source(args[0], name, 0)
            return Sources((x,), [x], ONE_LEAF, one)
    single = isinstance(argnums, (int, np.integer))
    numbers: Sequence[int] = (argnums,) if single else argnums  # type: ignore[assignment]
    passed = list(args)
    leaves: list[Tensor] = []
    rebuilds: list[tuple[Rebuild, int]] = []
    for k in numbers:
        if not isinstance(k, (int, np.integer)):
            raise TypeError(f"{name}: argnums is an int or a tuple of ints, not {argnums!r}")
        if not -len(args) <= k < len(args):
            raise TypeError(f"{name}: argnums={argnums!r}, but the function was called with {len(args)} argument(s)")
        arg = args[k]
        if passed[k] is not arg:
            raise ValueError(f"{name}: argnums={argnums!r} names argument {k % len(args)} twice")
        if is_leaf(arg):
            x = source(arg, name, k)
            passed[k] = x
            leaves.append(x)
            rebuilds.append((next, 1))
            continue
        found, rebuild = flatten(arg)
        made = [source(leaf, name, k, j) for j, leaf in enumerate(found)]
        passed[k] = rebuild(iter(made))
        leaves += made
        rebuilds.append((rebuild, len(made)))
    return Sources(tuple(passed), leaves, rebuilds, single)


# The identity of a Tensor.
IDENTITY = attrgetter("_node.id")


def recorded(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Tensor]
) -> tuple[Any, dict[int, Any]]:
    """The result of ``f``, and the entries of its operations on ``leaves``."""
    entries: dict[int, Any] = dict.fromkeys(map(IDENTITY, leaves))
    recorder = Recorder(entries, True)
    recorders.enter(recorder)
    try:
        return f(*args, **kwargs), entries
    finally:
        recorders.leave(recorder)


def carrying(
    leaves: Sequence[Tensor],
    tangents: Sequence[Any],
    run: Callable[[], Any],
    outputs: Callable[[Any], Sequence[Tensor]],
) -> tuple[Any, list[Any]]:
    """``run()`` with tangents on the leaves; its result, and the tangent (or None) of each of the ``outputs`` of it."""
    key = new_id()
    for leaf, t in zip(leaves, tangents, strict=True):
        attach(leaf._node, key, t)
    recorder = TangentRecorder(key)
    stack = STACK.get()
    tapes = [(r.entries, len(r.entries)) for r in stack if r.entries is not None] if stack else ()
    recorders.enter(recorder)
    try:
        value, found = run(), []
        for y in outputs(value):
            held = y._node.tangents
            found.append(None if held is None else held.get(key))
        return value, found
    finally:
        recorders.leave(recorder)
        for leaf in leaves:
            (leaf._node.tangents or {}).pop(key, None)
        for entries, before in tapes:
            forget(key, entries, len(entries) - before)


def forget(key: int, entries: dict[int, Any], latest: int) -> None:
    """Let go of the tangents under ``key`` on what a tape has kept lately: they would live as long as the tape."""
    for e in islice(reversed(entries.values()), max(latest, 0)):
        for kept in e[0].kept(e) if e else ():
            if kept.__class__ is Node and kept.tangents is not None:
                kept.tangents.pop(key, None)


def results(value: Any) -> tuple[list[Any], Rebuild]:
    """The results of a function as Tensors, and how to put their structure together again."""
    found, rebuild = flatten(value)
    return [result(leaf) for leaf in found], rebuild


def result(leaf: Any) -> Any:
    """One result as a Tensor."""
    x = operand(leaf)
    if x.__class__ is not Tensor:
        return tensor(np.array(x)[()])
    if isinstance(x._node.value, Standin):
        x._node.value.ensure_live()
    return x


def ensure_callable(name: str, f: Any) -> None:
    """Refuse what is not a function, with the form of the call."""
    if not callable(f):
        raise TypeError(f"{name}(f, ...) takes a function first, got {type(f).__name__}")


def named(transform: str, f: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """The transformed function, named after the one it came from."""
    call.__name__ = f"{transform}({getattr(f, '__name__', 'function')})"
    call.__doc__ = f"The {transform} of {getattr(f, '__name__', 'a function')}."
    call.__wrapped__ = f  # type: ignore[attr-defined]
    return call


def as_tensors(structure: Any) -> Any:
    """A structure with Tensors for leaves."""
    return map_structure(result, structure)
