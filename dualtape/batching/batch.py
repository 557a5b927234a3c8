"""Batch: many examples of one array as a value, which knows of the batch so that no rule can mistake it for an axis.

A Batch reports the shape of one example. What is done to it, by NumPy's functions, operators and methods, by rows and
by sweeps, it asks of its level, which carries it out on all examples at once, or once for each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from dualtape.batching.operators import Operators, called, computed, lined_up
from dualtape.core.standin import Refused, every, finite, in_order, some
from dualtape.core.tensor import Node, Operand, Tensor, raw, wrap


def refusing(what: str) -> Any:
    """A method that a Batch does not have: it would lose all examples but one."""

    def method(self: Batch, *args: Any, **kwargs: Any) -> Any:
        raise self._refuse(what)

    return method


class Batch(Operators):
    """Examples along the first axis of ``physical``, which is an ndarray, a Tensor or a Batch of an outer level."""

    __slots__ = ()

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
        return prod(self.shape)

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
    def _refuse(self, what: str) -> Refused:
        return Refused(
            f"{what} of a batch of {self.level.size} arrays of shape {self.shape}, which vmap or a batched derivative "
            "runs through the function at once: use NumPy's functions, which know of the batch (np.where for a choice)"
        )

    __array__ = refusing("conversion to one array")
    __float__ = refusing("float()")
    __int__ = refusing("int()")
    __complex__ = refusing("complex()")
    __index__ = refusing("use as an integer")
    item = refusing("item()")
    tolist = refusing("tolist()")

    def __bool__(self) -> bool:
        """The truth of all examples, if it is the same for each."""
        if self.size != 1:
            raise ValueError(f"the truth value of an array of shape {self.shape} is ambiguous: use np.any or np.all")
        value = raw(self.physical)
        if bool(np.all(value)):
            return True
        if not bool(np.any(value)):
            return False
        raise self._refuse("the truth value, which is not the same for all,")

    # ---- what a stand-in answers
    @property
    def number(self) -> int:  # type: ignore[override]
        return self.level.number  # type: ignore[no-any-return]

    def detached(self) -> Batch:
        physical = raw(self.physical)
        return Batch(self.level, physical.detached() if physical.__class__ is Batch else physical)

    def ensure_live(self) -> None:
        self.level.ensure_live()

    def memory(self) -> Any:  # as its examples lie in memory, so do they all
        value = raw(self.physical)
        return value.memory() if isinstance(value, Batch) else value

    def ordered(self, axes: Any) -> Batch:
        p, axes = self.physical, (0, *[a + 1 for a in axes])
        if p.__class__ is Tensor:
            node = Node(ordered(p._node.value, axes), p._node.id)
            node.tangents = p._node.tangents
            return Batch(self.level, wrap(node))
        return Batch(self.level, ordered(p, axes))

    def is_inside(self, recorder: Any) -> bool:
        marker = self.level.marker
        if marker is not None and marker.stands_for(recorder):
            return True
        value = raw(self.physical)
        return isinstance(value, Batch) and value.is_inside(recorder)

    def some(self) -> bool:
        return some(raw(self.physical))

    def every(self) -> bool:
        return every(raw(self.physical))

    def finite(self) -> bool:
        return finite(raw(self.physical))

    def through(self, row: Any, operands: Any, params: dict[str, Any]) -> Any:
        return self.level.through(row, operands, params)

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        self.level.pull(entry, g, cotangents, raw)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        return self.level.push(entry, tangents, raw)

    # ---- NumPy's protocols
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if len(inputs) == 2 and method == "__call__" and not kwargs and ufunc.signature is None:
            pair = lined_up(self, *inputs)
            if pair is not None and ufunc.nout == 1:
                return Batch(self.level, computed(ufunc, *pair))
        if any([isinstance(a, Operand) for a in inputs]):
            return NotImplemented
        return called(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if any([issubclass(t, Operand) for t in types]):
            return NotImplemented
        if func is np.vdot and args[0] is args[1]:  # a test for infinities, which ``finite`` makes for all
            raise self._refuse("the norm")
        return called(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return called(operator.getitem, (self, index), {})

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
        return called(astype, (self, dtype), {})

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


class Shared(Batch):
    """A value that all examples share and that recorders around the level follow, on its way through a kernel."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.physical.shape  # type: ignore[no-any-return]


def ordered(value: Any, axes: Any) -> Any:
    """An array or Batch with its axes in memory in the order given."""
    return value.ordered(axes) if isinstance(value, Batch) else in_order(value, axes)


def astype(x: Any, dtype: Any) -> Any:
    """The array method as a function, which can have a rule."""
    return x.astype(dtype)
