"""What every transform does first and last: arguments become Tensors of their own, results arrays or Tensors.

The place decides: arrays where no argument is or holds a Tensor or Variable and nothing is recorded around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from types import MethodType
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.recorders import INSIDE, STACK, Recorder
from dualtape.core.standin import Standin
from dualtape.core.sweep import finished
from dualtape.core.tangents import TangentRecorder, finish, start
from dualtape.core.tensor import OBJECT, SCALARS, Node, Operand, Tensor, has_tensor, new_id, operand, raw, tensor, wrap
from dualtape.memory.reserve import SMALLEST, copied, taken
from dualtape.modes.structure import Rebuild, flatten, is_leaf, map_structure
from dualtape.ops.shaping import identity

FLOATING = "a derivative needs floating or complex numbers: convert with astype(float)"


def source(leaf: Any, name: str, k: int, j: int | None = None) -> Tensor:
    """A leaf of argument ``k`` as a Tensor with an identity of its own.

    Of its own, even if it is a Tensor already: the function may also reach the caller's Tensor some other way, and
    that way is not what is differentiated. Recorders outside see the step from one to the other. Integers become
    float64; those of a Tensor carry no derivative, on purpose or by mistake, and are refused.
    """
    if leaf.__class__ is np.ndarray and leaf.dtype.kind in "fc":
        return tensor((leaf.copy("K") if leaf.size < 4096 else copied(leaf)) if leaf.ndim else leaf[()])
    if leaf.__class__ is float:
        return tensor(np.float64(leaf))
    label = f"{name}: argument {k}" + ("" if j is None else f" (leaf {j})")
    if isinstance(leaf, Operand):
        x = leaf._read()
        if x.dtype.kind in "iu" and isinstance(x._node.value, Standin):
            x = x.astype(np.float64)  # an example of an array
        if x.dtype.kind not in "fc":
            raise TypeError(f"{label} is a Tensor of dtype {x.dtype}: {FLOATING}")
        return identity(x) if STACK.get() else wrap(Node(x._node.value))
    if isinstance(leaf, np.ma.MaskedArray):
        raise TypeError(f"{label} is a masked array, and its mask would be lost: pass its data and its mask apart")
    if isinstance(leaf, np.ndarray) and leaf.dtype == object and has_tensor(leaf):
        return source(operand(leaf), name, k, j)
    try:
        array = np.array(leaf, float if leaf.__class__ is int else None)
        kind = array.dtype.kind
    except (TypeError, ValueError):
        kind = "O"
    if kind in "iu":
        array = array.astype(np.float64)
    elif kind not in "fc":
        shown = f"of dtype {array.dtype}" if kind == "b" else f"a {type(leaf).__name__}"
        raise TypeError(f"{label} is {shown}: {FLOATING}")
    return tensor(array[()])


def holds_tensor(values: Iterable[Any]) -> bool:
    """Whether a Tensor or Variable is among values or inside of them: in lists, tuples, dicts, dataclasses, arrays."""
    for value in values:
        if value.__class__ is not np.ndarray or value.dtype is OBJECT:
            break
    else:  # the common case, without its cost
        return False
    todo, seen = list(values), set()
    while todo:
        value = todo.pop()
        if value.__class__ is np.ndarray and value.dtype is not OBJECT:
            continue
        if isinstance(value, Operand):
            return True
        if isinstance(value, SCALARS) or id(value) in seen:  # a structure may hold itself
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            todo += value.ravel().tolist() if value.dtype == OBJECT else ()
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, (list, tuple)):
            todo += value
        elif not is_leaf(value):
            todo += [getattr(value, n, None) for n in getattr(value, "__dataclass_fields__", ())]
    return False


class Sources:
    """The arguments as they are passed on, those that are differentiated, and whether results are to be arrays."""

    __slots__ = ("args", "leaves", "plain", "rebuilds", "simple", "single")

    def __init__(
        self,
        args: tuple[Any, ...],
        leaves: list[Tensor],
        rebuilds: list[tuple[Rebuild, int]],
        single: bool,
        plain: bool,
    ) -> None:
        self.args = args
        self.leaves = leaves
        self.rebuilds = rebuilds
        self.single = single
        self.plain = plain
        self.simple = single and rebuilds is ONE_LEAF

    def gather(self, values: Iterable[Any]) -> Any:
        """One value for each leaf, in the structure of the differentiated arguments."""
        it = iter(values)
        if self.single:
            return self.rebuilds[0][0](it)
        if self.rebuilds is ONE_LEAF:
            return (next(it),)
        return tuple([rebuild(it) for rebuild, _ in self.rebuilds])

    def apart(self, given: Any) -> Sources:
        """The same for a function that is returned, with handles that ``f`` does not get to write to.

        Every argument is differentiated, and ``given`` are those of the caller. Where he called does not matter then.
        """
        leaves = [wrap(x._node) for x in self.leaves]
        return Sources(self.gather(leaves), leaves, self.rebuilds, self.single, not holds_tensor(given))

    def is_plain_with(self, *more: Any) -> bool:
        """Whether results are to be arrays where a function that was returned is called with ``more``."""
        return self.plain and recorders.outermost() and not holds_tensor(more)


ONE_LEAF: list[tuple[Rebuild, int]] = [(next, 1)]


def sources(
    name: str, args: tuple[Any, ...], argnums: int | Sequence[int], more: dict[str, Any] | None = None
) -> Sources:
    """Make Tensors of the arguments that ``argnums`` names; ``more`` are keyword arguments."""
    plain = not (STACK.get() or INSIDE.get()) or recorders.outermost()
    if len(args) == 1 and not more and args[0].__class__ is np.ndarray and args[0].dtype is not OBJECT:
        one = argnums.__class__ is int and argnums == 0  # the common case, without its cost
        if one or argnums == range(1):
            x = source(args[0], name, 0)
            return Sources((x,), [x], ONE_LEAF, one, plain)
    plain = plain and not holds_tensor((args, more))
    single = isinstance(argnums, (int, np.integer))
    numbers: Sequence[int] = (argnums,) if single else argnums  # type: ignore[assignment]
    passed = list(args)
    leaves: list[Tensor] = []
    rebuilds: list[tuple[Rebuild, int]] = []
    for k in numbers:
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
    return Sources(tuple(passed), leaves, rebuilds, single, plain)


# The identity and the node of a Tensor.
IDENTITY = attrgetter("_node.id")
NODE = attrgetter("_node")


def recorded(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: Sequence[Tensor]
) -> tuple[Any, dict[int, Any]]:
    """The result of ``f``, and the entries of its operations on ``leaves``."""
    entries: dict[int, Any] = dict.fromkeys(map(IDENTITY, leaves))
    recorder = Recorder(entries, True)
    recorders.enter(recorder)
    try:
        return f(*args, **kwargs), entries
    except SystemError as error:
        raise cause_of(error) from None
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
    recorder = TangentRecorder(key, start(map(NODE, leaves), key, tangents))
    stack = STACK.get()
    tapes = [(r.entries, len(r.entries)) for r in stack if r.entries is not None] if stack else ()
    recorders.enter(recorder)
    try:
        value = run()
        found, hung = [], []
        for y in outputs(value):
            held = y._node.tangents or {}
            found.append(held.get(key))
            hung.append(held)
        for held in hung:
            held.pop(key, None)
        return value, found
    except SystemError as error:
        raise cause_of(error) from None
    finally:
        recorders.leave(recorder)
        for leaf in leaves:
            held = leaf._node.tangents or {}
            held.pop(key, None)
            held.pop(~key, None)
        for entries, before in tapes:
            forget(key, entries, len(entries) - before)


def forget(key: int, entries: dict[int, Any], latest: int) -> None:
    """Let go of the tangents under ``key`` on what a tape has kept lately: they would live as long as the tape."""
    for e in islice(reversed(entries.values()), max(latest, 0)):
        for kept in e[0].kept(e) if e else ():
            if kept.__class__ is Node:
                finish(kept, key)


def cause_of(error: SystemError) -> BaseException:
    """What went wrong where compiled code called Python and did not look whether that raised."""
    return error.__cause__ if isinstance(error.__cause__, TypeError) else error


def note_lists(error: Exception, args: Iterable[Any]) -> None:
    """Say of an error that speaks of a list what a list among the arguments is."""
    if "'list'" in str(error) and any([isinstance(arg, list) for arg in args]):
        error.add_note("a list is a structure: the function is given a list of Tensors. For one array pass np.array(x)")


# ------------------------------------------------------------------ what comes back
def evaluated(name: str, f: Callable[..., Any], has_aux: bool, /, *args: Any, **kwargs: Any) -> Any:
    """The results of ``f`` as Tensors, how to put their structure together again, and what it returns besides."""
    try:
        out, aux = f(*args, **kwargs), None
    except (TypeError, AttributeError) as error:
        note_lists(error, args)
        raise
    if has_aux:
        out, aux = pair(name, out)
    found, rebuild = results(out)
    return found, rebuild, aux


def pair(name: str, out: Any) -> Any:
    """What a function with ``has_aux`` returned."""
    if not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise TypeError(f"{name}: with has_aux=True the function returns a pair (value, aux), got {out!r}")
    return out


def results(value: Any) -> tuple[list[Any], Rebuild]:
    """The results of a function as Tensors, and how to put their structure together again."""
    if value.__class__ is Tensor:  # the common case, without its cost
        return [result(value)], next
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


def given_out(y: Tensor, plain: bool) -> Any:
    """A result as the caller gets it: an array or a handle that nobody else has. (What recorders of another thread
    follow does not lose its derivative.)"""
    node = y._node
    return ndarray_of(node.value) if plain and not recorders.is_tracked(node) else wrap(node)


def besides(aux: Any, plain: bool) -> Any:
    """What a function returned besides, as the caller gets it: Tensors like results, all else as it is."""
    if not holds_tensor((aux,)):
        return aux
    return map_structure(lambda leaf: given_out(result(leaf), plain) if is_result(leaf) else leaf, aux)


def is_result(leaf: Any) -> bool:
    """Whether something among auxiliary results is a Tensor, or an array of them."""
    return leaf.__class__ is Tensor or (isinstance(leaf, np.ndarray) and has_tensor(leaf))


def derivatives(found: list[Any], likes: Iterable[Any], plain: bool) -> list[Any]:
    """Derivatives as the caller gets them, with zeros in the form of ``likes`` for those that are None."""
    if not plain:
        return list(map(finished, found, likes))
    for k, like in enumerate(likes):
        c = found[k]
        if c.__class__ is Tensor and recorders.is_tracked(c._node):
            found[k] = wrap(c._node)
        elif c.__class__ is not np.ndarray or not c.shape:
            found[k] = ndarray_of(c, like)
        elif c.nbytes < SMALLEST:
            found[k] = c.copy()
        else:
            del c  # a reference
            found[k] = taken(found, k)
    return found


def ndarray_of(value: Any, like: Any = None) -> Any:
    """An array that nobody else has, or a NumPy scalar; zeros for None."""
    if isinstance(value, np.generic):
        return value
    if value is None:
        return np.zeros(like.shape, like.dtype)[()]
    value = raw(value)
    return copied(value) if isinstance(value, np.ndarray) and value.shape else np.asarray(value)[()]


# ------------------------------------------------------------------ functions
def ensure_callable(name: str, f: Any) -> None:
    """Refuse what is not a function, with the form of the call."""
    if not callable(f):
        raise TypeError(f"{name}(f, ...) takes a function first, got {type(f).__name__}")


def ensure_argnums(name: str, argnums: Any) -> None:
    """Refuse what are no positions of arguments: the arguments themselves, perhaps."""
    each = argnums if isinstance(argnums, (tuple, list, range)) else (argnums,)
    if not all([isinstance(k, (int, np.integer)) for k in each]):
        got = repr(argnums) if isinstance(argnums, (tuple, list, str)) else f"a {type(argnums).__name__}"
        raise TypeError(
            f"{name}: argnums is an int or a tuple of ints, not {got}. The arguments of f are given to the function "
            f"that {name} returns: {name}(f)(x)"
        )


class Transformed(partial[Any]):
    """A function that a transform made of another one: pickled if that can be, and a method where it is in a class."""

    transform: str

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    # What a function has, found when it is asked for: most are made to be called once.
    @property
    def __wrapped__(self) -> Any:
        return self.args[0]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"The {self.transform} of {getattr(self.args[0], '__name__', 'function')}."

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__") and "transform" in vars(self):
            return f"{self.transform}({getattr(self.args[0], '__name__', 'function')})"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"


def transformed(transform: str, f: Callable[..., Any], run: Callable[..., Any], *options: Any) -> Callable[..., Any]:
    """The function ``run(f, *options, ...)`` of further arguments, named after the one it came from."""
    ensure_callable(transform, f)
    call = Transformed(run, f, *options)
    call.transform = transform
    return call
