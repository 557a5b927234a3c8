"""Variable: named state that is read, assigned and watched."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core.recorders import STACK
from dualtape.core.tensor import Node, Operand, Tensor, constant, read_only, wrap


class Variable(Operand):
    """State with a name: reading it gives its value as a Tensor, ``assign`` gives it a new one.

    All reads share the Variable's identity, so a gradient by it counts each value it was read with.

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
        self._node = Node(constant(value, dtype)._node.value)
        self._shape = tuple(shape) if shape is not None else self._node.value.shape
        self.trainable = trainable
        self.name = name or "Variable"
        self._check(self._node.value.shape)

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != len(self._shape) or any(
            n is not None and n != m for n, m in zip(self._shape, shape, strict=True)
        ):
            raise ValueError(f"a value of shape {shape} cannot be assigned to {self.name!r} of shape {self._shape}")

    def _value(self) -> Any:
        return self._node.value

    def _read(self) -> Tensor:
        for r in STACK.get():
            r.access(self)
        return wrap(self._node)

    def value(self) -> Tensor:
        """The value, as a Tensor."""
        return self._read()

    read_value = value

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
        new = constant(value)._node.value if not isinstance(value, Operand) else value._value()
        if hasattr(new, "_as_tensor"):
            raise RuntimeError(f"{self.name!r} has one value and cannot be assigned one for each example of a batch")
        self._read()  # tapes watch what is assigned to
        self._check(new.shape)
        dtype = self._node.value.dtype
        if new.dtype != dtype:
            if not np.can_cast(new.dtype, dtype, "same_kind"):
                raise TypeError(f"a value of dtype {new.dtype} cannot be assigned to {self.name!r} of dtype {dtype}")
            new = new.astype(dtype)
        node = Node(new, self._node.id)
        node.tangents = self._node.tangents
        self._node = node
        return self

    def assign_add(self, value: Any) -> Variable:
        """Add to the value (not differentiated); see ``assign``."""
        return self.assign(self._node.value + bare(value))

    def assign_sub(self, value: Any) -> Variable:
        """Subtract from the value (not differentiated); see ``assign``."""
        return self.assign(self._node.value - bare(value))

    def __repr__(self) -> str:
        text = np.array2string(np.asarray(self._node.value), separator=", ", prefix="Variable(")
        return f"Variable({text}, name={self.name!r}, dtype={self._node.value.dtype})"

    def __str__(self) -> str:
        return str(read_only(self._node.value))


def bare(value: Any) -> Any:
    """The plain value of anything."""
    return value._value() if isinstance(value, Operand) else value
