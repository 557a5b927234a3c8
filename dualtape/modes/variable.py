"""Variable: named state that is read, assigned and watched.

A read is an operation: what it returns is followed by the recorders that were active then and follow the Variable, and
by no others. So a value that was read outside a tape, or in a pause, or before an assignment, is a constant there.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from dualtape.core.absent import NOTHING, still
from dualtape.core.elsewhere import unread
from dualtape.core.recorders import OTHERS, STACK, entered
from dualtape.core.standin import Standin
from dualtape.core.table import Edge, Row
from dualtape.core.tensor import Node, Operand, Tensor, read_only, tensor, wrap
from dualtape.facts import costs, patterns
from dualtape.modes.constant import constant
from dualtape.modes.indexed_slices import IndexedSlices


class Read(Edge):
    """The step from a Variable to what was read of it. It is in no table: nobody can call it, and it costs nothing."""

    __slots__ = ()

    counts = False
    moves = True

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        i = entry[1]
        if i in cotangents:
            cotangents.add(i, g)
        else:
            cotangents[i] = g

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        return t


READ = Read()
READ_ROW = Row(
    "read",
    lambda x: x,
    [READ],
    kind="linear",
    work=lambda performed: costs.FREE,
    pattern=patterns.elementwise,
)
# An assignment, of which only those are told who follow what carries no derivative.
ASSIGN_ROW = Row("assign", lambda x, y: y, kind="absent")


class Variable(Operand):
    """State with a name: reading it gives its value as a Tensor, ``assign`` gives it a new one.

    A gradient by it counts each value that the tape saw being read.

    Args:
        initial_value: a number, array or Tensor, or a function of no arguments that returns one.
        trainable: whether tapes watch it when it is read.
        name: a name for people.
        dtype: the dtype; that of the value if None.
        shape: the shape if it differs from the value's; ``(None, 3)`` lets assignments vary the first axis.

    Example:
        >>> import dualtape as dt
        >>> v = dt.Variable(3.0)
        >>> with dt.GradientTape() as tape:
        ...     y = v * v
        >>> tape.gradient(y, v)
        Tensor(6.)
    """

    __slots__ = ("__weakref__", "_node", "_shape", "name", "trainable")

    def __init__(
        self,
        initial_value: Any,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
        shape: Any = None,
    ) -> None:
        value = initial_value() if callable(initial_value) else initial_value
        given = constant(value, dtype)._node
        self._node = Node(given.value)
        self._tell_assigned((given, given))
        self._shape = tuple(shape) if shape is not None else self._node.value.shape
        self.trainable = trainable
        self.name = name or "Variable"
        self._check(self._node.value.shape)

    def _tell_assigned(self, operands: Any) -> None:
        """Tell recorders of facts what the Variable was before, and what it is now."""
        stack = STACK.get()
        for r in stack:
            if r.facts:
                r.see(ASSIGN_ROW, None, (), operands, (self._node,), NOTHING, stack)

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != len(self._shape) or any(
            n is not None and n != m for n, m in zip(self._shape, shape, strict=True)
        ):
            raise ValueError(f"a value of shape {shape} cannot be assigned to {self.name!r} of shape {self._shape}")

    def _ensure_castable(self, dtype: Any) -> None:
        if not np.can_cast(dtype, self._node.value.dtype, "same_kind"):
            raise TypeError(
                f"a value of dtype {dtype} cannot be assigned to {self.name!r} of dtype {self._node.value.dtype}"
            )

    def _value(self) -> Any:
        return self._node.value

    def _read(self) -> Tensor:
        """The value as an operand: read once for all operations under the same recorders, until it is assigned."""
        stack = STACK.get()
        if not stack:
            return tensor(self._node.value)
        reads = None if stack is OTHERS else stack[-1].reads
        if reads is None:
            return self.value()
        node = self._node
        known = reads.get(node.id)
        if known is not None and known[0] is stack and known[1] is node:
            return wrap(known[2])
        found = self.value()
        reads[node.id] = stack, node, found._node
        return found

    def value(self) -> Tensor:
        """The value as a Tensor of its own, which a later ``assign`` does not change."""
        stack = STACK.get()
        own = entered(stack)
        for r in own:
            r.access(self)
        node = self._node
        found = tensor(node.value)
        if own is not stack:
            unread(stack, own, node, found._node)
        for r in own:
            known = r.entries
            entry = READ, node.id, None, None
            if known is None:
                r.see(READ_ROW, entry, (node,), (node,), (found._node,), NOTHING, stack)
            elif node.id in known:
                known[found._node.id] = entry
        return found

    read_value = value

    def _access(self) -> None:
        """Tell the active recorders that the Variable is used: tapes watch it."""
        for r in entered(STACK.get()):
            r.access(self)

    def _opened(self) -> Tensor:
        """The Variable itself as an operand, for an operation that reads a part of it."""
        self._access()
        return wrap(self._node)

    def _renew(self) -> None:
        """Let operations read the Variable anew."""
        node = Node(self._node.value, self._node.id)
        node.tangents = self._node.tangents
        self._node = node

    def numpy(self) -> Any:
        """The value as NumPy has it, a read-only array or a scalar; see ``Tensor.numpy``. Tapes watch the Variable."""
        self._access()
        return read_only(self._node.value)

    def assign(self, value: Any) -> Variable:
        """Give the Variable a new value; what was computed from the old one is not touched.

        Assignment is not differentiated: the new value has no derivative by what it was computed from.

        Args:
            value: a number, array or Tensor of the Variable's shape; it is converted to its dtype.

        Returns:
            The Variable itself.

        Raises:
            ValueError: for a value of another shape.
        """
        if isinstance(value, Operand):
            given = without_derivative(value)
        else:
            given = tensor(value) if isinstance(value, Standin) else constant(value)
        new = given._value() if given.__class__ is Tensor else given
        if isinstance(new, Standin) and not new.single:
            raise RuntimeError(f"{self.name!r} has one value and cannot be assigned one for each example of a batch")
        self._access()
        self._check(new.shape)
        dtype = self._node.value.dtype
        if new.dtype != dtype:
            self._ensure_castable(new.dtype)
            given = given.astype(dtype)
            new = given._value() if given.__class__ is Tensor else given
        before = self._node
        node = Node(new, before.id)
        node.tangents = before.tangents
        self._node = node
        self._tell_assigned((before, given._node if given.__class__ is Tensor else given))
        return self

    def assign_add(self, value: Any) -> Variable:
        """Add to the value (not differentiated); see ``assign``. IndexedSlices are added slice by slice."""
        if isinstance(value, IndexedSlices):
            return self.scatter_add(value)
        return self.assign(without_derivative(self) + without_derivative(value))

    def assign_sub(self, value: Any) -> Variable:
        """Subtract from the value (not differentiated); see ``assign``. IndexedSlices go slice by slice."""
        if isinstance(value, IndexedSlices):
            return self.scatter_sub(value)
        return self.assign(without_derivative(self) - without_derivative(value))

    def scatter_add(self, sparse_delta: Any) -> Variable:
        """Add IndexedSlices to the value where they belong (not differentiated).

        Args:
            sparse_delta: IndexedSlices of the Variable's shape; what falls on one place is added up.

        Returns:
            The Variable itself.

        Raises:
            TypeError: for anything but IndexedSlices.
            ValueError: for slices of another shape.
            IndexError: for an index out of range.

        Example:
            >>> import dualtape as dt
            >>> v = dt.Variable([1.0, 2.0, 3.0])
            >>> v.scatter_add(dt.IndexedSlices([10.0, 10.0], [2, 2])).numpy()
            array([ 1.,  2., 23.])
        """
        return self._scatter("scatter_add", sparse_delta, np.add.at)

    def scatter_sub(self, sparse_delta: Any) -> Variable:
        """Subtract IndexedSlices from the value where they belong (not differentiated); see ``scatter_add``."""
        return self._scatter("scatter_sub", sparse_delta, np.subtract.at)

    def scatter_update(self, sparse_delta: Any) -> Variable:
        """Put IndexedSlices in the place of what the value has there (not differentiated); see ``scatter_add``.

        Of several slices for one place, the last one stays.
        """
        return self._scatter("scatter_update", sparse_delta, lambda new, index, values: new.__setitem__(index, values))

    def _scatter(self, name: str, slices: Any, change: Any) -> Variable:
        if not isinstance(slices, IndexedSlices):
            raise TypeError(f"{name} takes IndexedSlices, not {type(slices).__name__}")
        index, values = slices.indices._node.value, slices.values._node.value
        shape = self._node.value.shape
        if not shape or values.shape[1:] != shape[1:]:
            raise ValueError(f"{name}: values of shape {values.shape} are no slices of {self.name!r} of shape {shape}")
        if index.size and not (0 <= index.min() and index.max() < shape[0]):
            raise IndexError(f"{name}: an index is outside the first axis of {self.name!r} of shape {shape}")
        self._ensure_castable(values.dtype)
        if STACK.get():
            for x in (wrap(self._node), slices.indices, slices.values):
                x.numpy()  # which says that it was read
        new = np.array(self._node.value)
        change(new, index, values)
        return self.assign(new)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            f"{self.name!r} is a Variable, of which no part can be assigned: use v.assign(value) of the whole, or "
            "v.scatter_update(IndexedSlices(values, indices)) for slices along the first axis"
        )

    def __reduce__(self) -> Any:
        # Also a copy is a Variable of its own: with this one's identity it would get this one's derivatives.
        return type(self), (np.array(self._node.value), self.trainable, self.name, None, self._shape)

    def __repr__(self) -> str:
        text = np.array2string(np.asarray(self._node.value), separator=", ", prefix="Variable(")
        return f"Variable({text}, name={self.name!r}, dtype={self._node.value.dtype})"

    def __str__(self) -> str:
        return str(read_only(self._node.value))


def in_place(symbol: str, method: str) -> Any:
    """An operator as ``-=``: Python would bind the name of the Variable to a Tensor, and nothing be assigned."""
    remedy = method or f"assign(v {symbol} value)"

    def refuse(self: Variable, other: Any) -> NoReturn:
        raise RuntimeError(
            f"v {symbol}= value, with {self.name!r}: a Variable has no operators in place. Use v.{remedy} to change it "
            f"(not differentiated), or y = v {symbol} value for a new Tensor"
        )

    return refuse


for _name, _symbol, _method in (
    ("add", "+", "assign_add(value)"),
    ("sub", "-", "assign_sub(value)"),
    *[(name, symbol, "") for name, symbol in (("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"))],
    *[(name, symbol, "") for name, symbol in (("pow", "**"), ("matmul", "@"), ("lshift", "<<"), ("rshift", ">>"))],
    *[(name, symbol, "") for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^"))],
):
    setattr(Variable, f"__i{_name}__", in_place(_symbol, _method))


def without_derivative(value: Any) -> Any:
    """The value of anything, without derivative (``still``)."""
    if value.__class__ is Variable:
        value._access()
    if value.__class__ is Tensor or value.__class__ is Variable:
        return still(wrap(value._node))
    return value._value() if isinstance(value, Operand) else value
