"""Batch: many examples of one array as a value, which knows of the batch so that no rule can mistake it for an axis.

A Batch reports the shape of one example. NumPy's functions, the operators and the array methods find through NumPy's
protocols the rule that carries them out on all examples at once (``FUNCTIONS``, filled by ``batching.functions``; it is
the ``batch`` column of the rows whose kernels call them). What has no rule runs once for each example, and is noted.

Length: a value that stands for an array has to answer for all that an array has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.calls import record
from dualtape.core.recorders import STACK, Recorder, Stack
from dualtape.core.standin import OPEN, Refused, Standin, every, finite, some
from dualtape.core.tensor import Node, Operand, Tensor, among, tensor, wrap
from dualtape.memory.reserve import SMALLEST, room, trim

new_number = count(1).__next__
ndarray = np.ndarray

# Rules by NumPy function and ufunc: rule(level, *args, **kwargs), of which some are Batches of that level.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
_lock = Lock()


def count_open(more: int) -> None:
    """One level more or less; levels of all threads count."""
    with _lock:
        OPEN[0] += more
    if more < 0:
        trim()


class NotBatched(Refused):
    """What was asked of a Batch can only be answered for one example at a time."""


class Level:
    """One activation of vmap or of a batched sweep: the number of examples, and who was recording around it.

    Levels are numbered as they are opened, so that of two Batches that meet the inner one has the higher number; for it
    the outer one is a constant, or part of what it holds.
    """

    __slots__ = ("live", "looped", "marker", "number", "size")

    def __init__(self, size: int, outer: Stack = ()) -> None:
        self.size = size
        self.number = new_number()
        self.live = True
        # With recorders around, they see the operations on all examples at once, and a stand-in takes their place.
        self.marker = Outside(self, outer) if outer else None
        # The operations that ran once for each example, and how often.
        self.looped: dict[str, int] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block whose operations belong to this level."""
        count_open(1)
        try:
            with recorders.only((self.marker,) if self.marker is not None else ()):
                yield
        finally:
            count_open(-1)

    def close(self) -> None:
        """From now on its Batches are of no use."""
        self.live = False
        if self.marker is not None:
            recorders.remove(self.marker)
            self.marker.outer = self.marker.every = ()
            self.marker = None  # which knows of the level as well: neither should wait for the garbage collector

    def note(self, name: str) -> None:
        """Remember that an operation ran once for each example."""
        self.looped[name] = self.looped.get(name, 0) + 1

    @contextmanager
    def outside(self) -> Iterator[None]:
        """A block that is seen by the recorders around this level, unless they are paused."""
        marker = self.marker
        if marker is None:
            yield
            return
        stack = STACK.get()
        # Without the stand-in (or that of a level inside, which stands for it), the block is outside already, or in a
        # pause: then no more is seen than is seen now.
        inside = any([r is marker or r.stands_for(marker) for r in stack])
        with recorders.only(tuple([r for r in marker.outer if r.live and (inside or r in stack)])):
            yield


class Batch(Standin):
    """Examples along the first axis of ``physical``, which is an ndarray, a Tensor or a Batch of an outer level."""

    __slots__ = ("level", "physical")
    __array_priority__ = 1000.0

    def __init__(self, level: Level, physical: Any) -> None:
        self.level = level
        self.physical = physical

    # ---- what an array has, of one example
    @property
    def shape(self) -> tuple[int, ...]:
        return self.physical.shape[1:]  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.physical.dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for m in self.shape:
            n *= m
        return n

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d array")
        return shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<a batch of {self.level.size} arrays of shape {self.shape}, dtype {self.dtype}>"

    # ---- leaving: nothing may be lost
    def _refuse(self, what: str) -> NotBatched:
        return NotBatched(
            f"{what} of a batch of {self.level.size} arrays of shape {self.shape}, which vmap or a batched derivative "
            "runs through the function at once: use NumPy's functions, which know of the batch (np.where for a choice)"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise self._refuse("conversion to one array")

    def __float__(self) -> float:
        raise self._refuse("float()")

    def __int__(self) -> int:
        raise self._refuse("int()")

    def __complex__(self) -> complex:
        raise self._refuse("complex()")

    def __index__(self) -> int:
        raise self._refuse("use as an integer")

    def __bool__(self) -> bool:
        """The truth of all examples, if it is the same for each."""
        if self.size != 1:
            raise ValueError(f"the truth value of an array of shape {self.shape} is ambiguous: use np.any or np.all")
        value = bare(self.physical)
        if bool(np.all(value)):
            return True
        if not bool(np.any(value)):
            return False
        raise self._refuse("the truth value, which is not the same for all,")

    def item(self, *index: Any) -> Any:
        raise self._refuse("item()")

    def tolist(self) -> Any:
        raise self._refuse("tolist()")

    # ---- what a stand-in answers
    @property
    def number(self) -> int:  # type: ignore[override]
        return self.level.number

    def detached(self) -> Batch:
        physical = bare(self.physical)
        return Batch(self.level, physical.detached() if physical.__class__ is Batch else physical)

    def ensure_live(self) -> None:
        ensure_live(self.level)

    def memory(self) -> Any:  # as its examples lie in memory, so do they all
        value = bare(self.physical)
        return value.memory() if isinstance(value, Batch) else value

    def is_inside(self, recorder: Any) -> bool:
        marker = self.level.marker
        if marker is not None and marker.stands_for(recorder):
            return True
        value = bare(self.physical)
        return isinstance(value, Batch) and value.is_inside(recorder)

    def some(self) -> bool:
        return some(bare(self.physical))

    def every(self) -> bool:
        return every(bare(self.physical))

    def finite(self) -> bool:
        return finite(bare(self.physical))

    def through(self, row: Any, operands: Any, params: dict[str, Any]) -> Any:
        return retried(self.level, row, operands, params)

    # ---- NumPy's protocols
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if len(inputs) == 2 and method == "__call__" and not kwargs and ufunc.signature is None:
            pair = lined_up(*inputs)
            if pair is not None and ufunc.nout == 1:
                return Batch(self.level, computed(ufunc, *pair))
        if any([isinstance(a, Operand) for a in inputs]):
            return NotImplemented
        if method == "__call__" and ufunc in FUNCTIONS:
            return carried_out(FUNCTIONS[ufunc], inputs, kwargs, ufunc)
        return carried_out(UFUNCS[method], (ufunc, *inputs), kwargs, getattr(ufunc, method))

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if any([issubclass(t, Operand) for t in types]):
            return NotImplemented
        if func is np.vdot and args[0] is args[1]:  # a test for infinities, which ``finite`` makes for the whole
            raise self._refuse("the norm")
        rule = FUNCTIONS.get(func)
        if rule is None:
            return carried_out(each, (func, *args), kwargs, func)
        return carried_out(rule, args, kwargs, func)

    def __getitem__(self, index: Any) -> Any:
        return carried_out(FUNCTIONS["getitem"], (self, index), {}, operator.getitem)

    # ---- attributes and methods
    @property
    def T(self) -> Any:
        return np.transpose(self)

    @property
    def mT(self) -> Any:
        return np.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        return np.real(self) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        return np.imag(self)

    def conjugate(self) -> Any:
        return np.conjugate(self) if self.dtype.kind == "c" else self

    conj = conjugate

    def astype(self, dtype: Any, **kwargs: Any) -> Any:
        return carried_out(converted, (self, dtype), {}, lambda x, dtype: x.astype(dtype))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, given or None)

    def ravel(self, order: str = "C") -> Any:
        if order == "K":
            raise self._refuse("the order in memory")
        return np.ravel(self, order)  # type: ignore[call-overload]

    def flatten(self, order: str = "C") -> Any:
        return self.ravel(order)

    def _in_place(self, other: Any) -> Any:
        """``z *= y`` would have to write into what z is a view of; scalars are rebound, as NumPy's are."""
        if self.shape:
            raise self._refuse("an in-place operation on a part")
        return NotImplemented

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = __imod__ = __ifloordiv__ = _in_place
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __imatmul__ = _in_place

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...



class Free(Batch):
    """An operand without batch that the recorders around a level follow, on its way through a kernel."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.physical.shape  # type: ignore[no-any-return]


def converted(level: Level, x: Any, dtype: Any) -> Batch:
    """The rule of ``astype``."""
    return Batch(level, x.physical.astype(dtype))


def is_batched(level: Level, value: Any) -> bool:
    """Whether a value has one example each for ``level``."""
    return value.__class__ is Batch and value.level is level


def plain(value: Any) -> Any:
    """An operand without batch as it stands."""
    return value.physical if value.__class__ is Free else value


def bare(value: Any) -> Any:
    """The value behind a Tensor, without telling anyone."""
    return value._node.value if value.__class__ is Tensor else value


def top(values: Any) -> Level | None:
    """The innermost level among the Batches in nested sequences, dicts, nodes and Tensors."""
    batch = among(values)
    return None if batch is None else batch.level


def ensure_live(level: Level) -> None:
    """Refuse a value whose vmap has ended."""
    if not level.live:
        raise RuntimeError("a value that was made inside vmap is used after it ended: return it from the function")


def carried_out(rule: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], function: Any) -> Any:
    """A function of Batches by its rule, seen by the recorders around their level; once for each if the rule cannot."""
    level = among((args, kwargs)).level
    ensure_live(level)
    of_method = rule in UFUNC_RULES
    with level.outside():
        places = [k for k, a in enumerate(args) if holds(level, a)]
        named = any([holds(level, a) for a in kwargs.values()]) if kwargs else False
        operands = args[1:] if of_method else args
        if not places and not named:  # operands without batch, on their way through a kernel
            found = function(*[freed(a) for a in operands], **{k: freed(a) for k, a in kwargs.items()})
            return Free(level, found) if isinstance(found, Operand) else found
        try:
            if rule not in MANY and (named or places != [int(of_method)]):
                raise NotBatched("the rule takes a batch for its first operand alone")
            return rule(level, *args, **kwargs)
        except NotBatched:
            if rule is each or rule is no_method or kwargs.get("out") is not None:
                raise
            return each(level, function, *operands, **kwargs)


def holds(level: Level, value: Any) -> bool:
    """Whether a value is a Batch of ``level`` or a sequence of which one is."""
    if value.__class__ is tuple or value.__class__ is list:
        return any([holds(level, a) for a in value])
    return value.__class__ is Batch and value.level is level


def freed(value: Any) -> Any:
    """What an operand without batch stands for, also inside a sequence."""
    if value.__class__ is tuple or value.__class__ is list:
        return value.__class__([freed(a) for a in value])
    return value.physical if value.__class__ is Free else value


# ------------------------------------------------------------------ one example at a time
# What changes its argument would change it once for each example.
WRITING = {np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis}


def each(level: Level, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function of one example, for each of them."""
    if function in WRITING or kwargs.get("out") is not None:
        raise NotBatched(f"{function.__name__} writes into an array, which cannot hold a batch")
    level.note(getattr(function, "__name__", str(function)))
    found = [function(*sliced(level, args, k), **sliced(level, kwargs, k)) for k in range(level.size)]
    return stacked(level, found)


def sliced(level: Level, value: Any, k: int) -> Any:
    """Example ``k`` of everything in a structure that is a Batch of ``level``."""
    kind = value.__class__
    if kind is Batch:
        return value.physical[k] if value.level is level else value
    if kind is Free:
        return value.physical if value.level is level else value
    if kind is Node:
        inner = value.value
        if not is_batched(level, inner):
            return value
        if inner.physical.__class__ is Tensor:
            raise NotBatched("an example of what an outer recorder follows has no identity of its own")
        return Node(inner.physical[k], value.id)
    if kind is Tensor:
        inner = value._node.value
        if not is_batched(level, inner):
            return value
        part = inner.physical[k]
        return part if part.__class__ is Tensor else tensor(part)
    if kind is tuple:
        return tuple([sliced(level, a, k) for a in value])
    if kind is list:
        return [sliced(level, a, k) for a in value]
    if kind is dict:
        return {name: sliced(level, a, k) for name, a in value.items()}
    return value


def stacked(level: Level, found: list[Any]) -> Any:
    """The results of all examples as Batches, in the structure of the first."""
    if not found:
        raise NotBatched("a batch of no examples cannot be run one by one")
    first = found[0]
    if first is None:
        return None
    if isinstance(first, (tuple, list)):
        if any([len(y) != len(first) for y in found]):
            raise NotBatched("the examples have results of different lengths")
        return tuple([stacked(level, [y[m] for y in found]) for m in range(len(first))])
    shapes = {np.shape(y) for y in found}
    if len(shapes) > 1:
        raise NotBatched(f"the examples have results of different shapes: {sorted(shapes)[:3]}")
    return Batch(level, np.stack([y if hasattr(y, "dtype") else np.asarray(y) for y in found]))


def retried(level: Level, row: Any, values: Any, params: dict[str, Any]) -> Any:
    """The result of a kernel that cannot be gone through: by the row's ``batch`` column, else once for each example."""
    with level.outside():
        if row.batch is not None:
            return row.batch(level, *values, **params)
        if row.kind == "elementwise":  # the row itself on aligned operands
            physical = aligned(level, values)
            if any([a.__class__ is Tensor for a in physical]):
                return Batch(level, row.call(*physical))
            try:
                return Batch(level, row.kernel(*physical))
            except NotBatched:
                pass
        level.note(row.name)
        found = []
        for k in range(level.size):
            args = sliced(level, values, k)
            followed = any([a.__class__ is Tensor for a in args])
            found.append((row.call if followed else row.kernel)(*args, **sliced(level, params, k)))
        return stacked(level, found)


def performed(row: Any, *physical: Any, **params: Any) -> Any:
    """A row carried out on arrays, Tensors or Batches of outer levels."""
    return (row.call if any([a.__class__ is Tensor for a in physical]) else row.kernel)(*physical, **params)


# ------------------------------------------------------------------ the recorders around a level
class Outside(Recorder):
    """Stands for the recorders around a level while its operations run.

    They see each operation on all examples at once. For operands that are Batches the kernel has done that already, by
    way of NumPy's protocols; where an operand without batch is followed as well, the result is computed again from its
    Tensor.
    """

    __slots__ = ("every", "level", "outer", "paused")

    def __init__(self, level: Level, outer: Stack) -> None:
        super().__init__(None)
        self.level = level
        self.every = outer
        self.paused: list[Recorder] = []
        self.outer = outer

    def stands_for(self, recorder: Recorder) -> bool:
        return any([r is recorder or r.stands_for(recorder) for r in self.every])

    def pause(self, recorder: Recorder, paused: bool) -> None:
        if recorder in self.every:
            (self.paused.append if paused else self.paused.remove)(recorder)
            self.outer = tuple([r for r in self.every if r not in self.paused])
        for r in self.every:
            if r.stands_for(recorder):
                r.pause(recorder, paused)

    def tracks(self, node: Node) -> bool:
        if not self.live:
            return False
        value = node.value
        while isinstance(value, Batch):
            value = value.physical
            if value.__class__ is Tensor:
                return any([r.tracks(value._node) for r in self.outer])
        return any([r.tracks(node) for r in self.outer])

    def access(self, variable: Any) -> None:
        for r in self.outer:
            r.access(variable)

    def cut(self, row: Any, operands: Any, outs: Any) -> None:
        for r in self.outer:
            r.cut(row, operands, outs)

    def see(
        self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: dict[str, Any], stack: Stack
    ) -> None:
        if not self.live:
            return
        followed = [a.__class__ is Node and self.tracks(a) for a in operands]
        if not any(followed):
            return
        if entry is None:
            self.cut(row, operands, outs)
            return
        level = self.level
        batched = [a.__class__ is Node and is_batched(level, a.value) for a in operands]
        outer = tuple([r for r in self.outer if r.live])
        hidden = [is_batched(level, out.value) for out in outs]  # a function of its own may use more than its operands
        if row.kind == "custom" and (any(hidden) or any(batched)):
            raise NotBatched(f"{row.name} has rules of its own, and recorders around the batch follow it")
        if not any(batched) and top([params]) is not level:
            with recorders.only(outer):
                record(row, operands, outs, params)
            return
        direct = row.batch is None and is_direct(row)
        if direct and all([b for b, f in zip(batched, followed, strict=True) if f]):
            return  # the kernel has told them
        values = [
            Free(level, wrap(a)) if f and not b else a.value if a.__class__ is Node else a
            for a, b, f in zip(operands, batched, followed, strict=True)
        ]
        arguments = (values,) if row.kind == "joint" else tuple(values)
        found = row.kernel(*arguments, **params) if direct else retried(level, row, arguments, params)
        for out, value in zip(outs, found if row.outputs > 1 else (found,), strict=True):
            out.value = value


def is_direct(row: Any) -> bool:
    """Whether a row's kernel is one NumPy function, which has the same row: what it does to a Batch may be recorded.

    A function from elsewhere may be composed of several, and the row is there to say that its derivative is another.
    """
    kernel = row.kernel
    if isinstance(kernel, np.ufunc):
        return True
    if row.kind == "elementwise" and hasattr(kernel, "__wrapped__"):
        return False
    return (kernel.__module__ or "").startswith(("dualtape.ops.", "numpy", "_operator"))


# ------------------------------------------------------------------ ufuncs and operators
def aligned(level: Level, xs: Any) -> list[Any]:
    """Operands of an elementwise function, with axes put in behind the batch so that the examples' axes line up."""
    rank = max([a.ndim if hasattr(a, "ndim") else np.ndim(a) for a in xs])
    found = []
    for a in xs:
        if is_batched(level, a):
            p = a.physical
            missing = rank + 1 - len(p.shape)
            found.append(p.reshape((p.shape[0], *(1,) * missing, *p.shape[1:])) if missing else p)
        else:
            found.append(plain(a))
    return found


# Functions whose result has the dtype of their operands.
ARITHMETIC: dict[Any, Any] = {np.add: np.add, np.subtract: np.subtract, np.multiply: np.multiply}
ARITHMETIC |= {operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply}
NUMBERS = {float, int, complex, bool, np.float64, np.float32, np.complex128, np.complex64, np.int64, np.bool_}


def computed(function: Any, x: Any, y: Any) -> Any:
    """A function of two arrays; where they are large, in memory that was used before."""
    if x.__class__ is ndarray and x.nbytes >= SMALLEST and y.__class__ is ndarray and x.dtype is y.dtype:
        ufunc = ARITHMETIC.get(function)
        if ufunc is not None:
            shape = x.shape if x.shape == y.shape else np.broadcast_shapes(x.shape, y.shape)
            return ufunc(x, y, out=room(shape, x.dtype))
    return function(x, y)


def lined_up(x: Any, y: Any) -> tuple[Any, Any] | None:
    """The physical operands, if their axes line up as they are and nobody records around the batch; the common case."""
    batch, other = (x, y) if x.__class__ is Batch else (y, x)
    level, p = batch.level, batch.physical
    if level.marker is not None or not level.live or p.__class__ is not ndarray:
        return None
    kind = other.__class__
    if kind is Batch:
        if other.level is not level or (other := other.physical).__class__ is not ndarray or other.ndim != p.ndim:
            return None
    elif kind is ndarray:
        if other.ndim >= p.ndim:
            return None
    elif kind not in NUMBERS:
        return None
    return (p, other) if batch is x else (other, p)


def ufunc_call(level: Level, ufunc: Any, *xs: Any, **kwargs: Any) -> Any:
    if kwargs.get("out") is not None or "where" in kwargs or getattr(ufunc, "signature", None):
        raise NotBatched(f"{ufunc.__name__}: no rule for a batch with these keywords")
    arrays = aligned(level, xs)
    found = computed(ufunc, *arrays) if len(arrays) == 2 and not kwargs else ufunc(*arrays, **kwargs)
    return tuple([Batch(level, y) for y in found]) if isinstance(found, tuple) else Batch(level, found)


def shifted(axis: Any, ndim: int) -> Any:
    """Axes of an example as axes of the whole; None stands for all."""
    if axis is None:
        return tuple(range(1, ndim + 1))
    if isinstance(axis, (tuple, list)):
        return tuple([shifted(a, ndim) for a in axis])
    a = operator.index(axis)
    if not -ndim <= a < ndim:
        raise np.exceptions.AxisError(a, ndim)
    return a % ndim + 1


def ufunc_reduce(level: Level, ufunc: Any, x: Any, axis: Any = 0, dtype: Any = None, out: Any = None, **kw: Any) -> Any:
    where = kw.pop("where", True)
    if out is not None and out != (None,):
        raise NotBatched("no rule for a batch with out=")
    if not is_batched(level, x):
        raise NotBatched("the batch is not the operand")
    ndim = x.ndim
    if axis == 0 and not ndim:
        axis = None
    if where is not True:
        kw["where"] = aligned(level, (where, x))[0]
    return Batch(level, ufunc.reduce(x.physical, axis=shifted(axis, ndim), dtype=dtype, **kw))


def ufunc_accumulate(level: Level, ufunc: Any, x: Any, axis: int = 0, dtype: Any = None, **kw: Any) -> Any:
    return Batch(level, ufunc.accumulate(x.physical, axis=shifted(axis, x.ndim), dtype=dtype, **kw))


def ufunc_outer(level: Level, ufunc: Any, x: Any, y: Any, **kw: Any) -> Any:
    rank = y.ndim if hasattr(y, "ndim") else np.ndim(y)
    x = x if hasattr(x, "reshape") else np.asarray(x)
    return ufunc(x.reshape((*x.shape, *(1,) * rank)), y, **kw)


def no_method(level: Level, ufunc: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotBatched(f"{ufunc.__name__}: this method has no rule for a batch")


# Rules that take Batches for all their operands.
MANY: set[Any] = {each, ufunc_call, ufunc_reduce, ufunc_outer}

UFUNCS: dict[str, Callable[..., Any]] = {
    "__call__": ufunc_call,
    "reduce": ufunc_reduce,
    "accumulate": ufunc_accumulate,
    "outer": ufunc_outer,
    "reduceat": no_method,
    "at": no_method,
}
UFUNC_RULES = set(UFUNCS.values())


def python_operator(name: str, function: Any) -> None:
    """Give Batches an operator of Python's."""

    elementwise = name != "matmul"

    def rule(level: Level, *xs: Any) -> Any:
        arrays = aligned(level, xs)
        return Batch(level, computed(function, *arrays) if len(arrays) == 2 else function(*arrays))

    if name == "matmul":

        def rule(level: Level, *xs: Any) -> Any:
            return FUNCTIONS[np.matmul](level, *xs)

    MANY.add(rule)

    def unary(x: Any) -> Any:
        return carried_out(rule, (x,), {}, function)

    def method(x: Any, y: Any) -> Any:
        if elementwise and (pair := lined_up(x, y)) is not None:
            return Batch(x.level, computed(function, *pair))
        return NotImplemented if isinstance(y, Operand) else carried_out(rule, (x, y), {}, function)

    def reflected(y: Any, x: Any) -> Any:
        if elementwise and (pair := lined_up(x, y)) is not None:
            return Batch(y.level, computed(function, *pair))
        return NotImplemented if isinstance(x, Operand) else carried_out(rule, (x, y), {}, function)

    setattr(Batch, f"__{name}__", unary if name in ("neg", "pos", "abs", "invert") else method)
    if name not in ("neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Batch, f"__r{name}__", reflected)


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift"):
    python_operator(_name.strip("_"), getattr(operator, _name))
for _name in ("rshift", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    python_operator(_name, getattr(operator, _name))


def array_method(name: str) -> None:
    """Give Batches the array method that NumPy has as a function too."""
    function = getattr(np, name)
    setattr(Batch, name, lambda x, *args, **kwargs: function(x, *args, **kwargs))


for _name in (
    *("sum", "prod", "mean", "max", "min", "var", "std", "all", "any", "argmax", "argmin", "argsort", "cumsum"),
    *("cumprod", "squeeze", "swapaxes", "repeat", "take", "trace", "diagonal", "clip", "round", "copy", "dot"),
):
    array_method(_name)
