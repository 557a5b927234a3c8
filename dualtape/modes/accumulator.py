"""ForwardAccumulator: the reader of the table that carries tangents along with the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from dualtape.batching.sweeps import BatchRecorder, directions, each_direction
from dualtape.core import recorders
from dualtape.core.standin import Refused, Standin
from dualtape.core.sweep import finished
from dualtape.core.tangents import TangentRecorder, start
from dualtape.core.tensor import Operand, Tensor, new_id, tensor, wrap
from dualtape.memory.reserve import copied
from dualtape.modes.constant import constant
from dualtape.modes.indexed_slices import IndexedSlices
from dualtape.modes.structure import flatten, is_object_array, items_of, match_structure
from dualtape.modes.unconnected import UnconnectedGradients, wants_zero
from dualtape.modes.variable import Variable


class ForwardAccumulator:
    """Carries tangents along with every operation (forward mode): Jacobian-vector products as the program runs.

    Args:
        primals: Tensors and Variables, in any structure.
        tangents: a structure like it, of arrays of the primals' shapes: the direction.
        batch: whether each tangent has one more axis, the first, for several directions at once; ``jvp`` then returns
            tangents with that axis.

    Raises:
        ValueError: for a tangent of another shape, a primal listed twice, or one that is not a Tensor.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> x = dt.constant([0.0, 1.0])
        >>> with dt.ForwardAccumulator(x, np.array([1.0, 2.0])) as acc:
        ...     y = x * x
        >>> acc.jvp(y)
        Tensor([0., 4.])
        >>> with dt.ForwardAccumulator(x, np.eye(2), batch=True) as acc:
        ...     y = x * x
        >>> acc.jvp(y)
        Tensor([[0., 0.],
                [0., 2.]])
    """

    def __init__(self, primals: Any, tangents: Any, *, batch: bool = False) -> None:
        self._key = new_id()
        self._level: Any = None  # of the tangents, if they are batches
        self._recorder: TangentRecorder | None = None
        xs, _ = flatten(primals)
        ts = match_structure(primals, tangents, len(xs))
        seen: set[int] = set()
        checked = []
        for k, (x, t) in enumerate(zip(xs, ts, strict=True)):
            name = f"primal {k}" if len(xs) > 1 else "the primal"
            if not isinstance(x, Operand) or isinstance(x, IndexedSlices):
                raise ValueError(
                    f"{name} is a {type(x).__name__}: an accumulator follows Tensors and Variables; "
                    "make one with dualtape.constant(value)"
                )
            if isinstance(x, Variable):
                x._access()  # a tangent hangs on the value that it has where this is entered
            node = x._node
            if node.id in seen:
                raise ValueError(f"{name} is listed multiple times; add its tangents up and list it once")
            seen.add(node.id)
            if batch:
                t = directions(self._level, tangent_like, node.value, t, name)
                self._level = t.level
            else:
                t = tangent_like(node.value, t, name)
            checked.append((node, t))
        self._apart = start([node for node, _ in checked], self._key, [t for _, t in checked])
        self._marked = [node.tangents for node, _ in checked]

    # Where the primals keep their tangents. Not the primals: those may go while the accumulator stays.
    _marked: Sequence[dict[int, Any]] = ()

    def __del__(self) -> None:
        for tangents in self._marked:
            tangents.pop(self._key, None)
            tangents.pop(~self._key, None)

    def __enter__(self) -> Self:
        if self._recorder is not None:
            raise ValueError("this accumulator is already recording; leave it before entering it again")
        key, level = self._key, self._level
        self._recorder = TangentRecorder(key) if level is None else BatchRecorder(key, level)
        self._recorder.apart = self._apart
        recorders.enter(self._recorder)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._recorder is not None:
            recorders.leave(self._recorder)
            self._recorder = None

    def jvp(self, primals: Any, unconnected_gradients: str | UnconnectedGradients = "none") -> Any:
        """The tangents of results: their derivative in the direction given.

        Args:
            primals: Tensors and Variables computed while the accumulator was active, in any structure.
            unconnected_gradients: ``"none"`` or ``"zero"``, what a result gets that depends on no primal.

        Returns:
            Tensors (or None) in the structure of ``primals``, each with the shape and dtype of its result.
        """
        zero = wants_zero(unconnected_gradients)
        found, rebuild = flatten(primals)
        return rebuild(iter([self._tangent(x, zero) for x in found]))

    def _tangent(self, x: Any, zero: bool) -> Any:
        if is_object_array(x):
            items, shape = items_of(x)
            found = [self._tangent(item, False) for item in items]
            if all([t is None for t in found]):
                return self._zeros(shape, None) if zero else None
            front = () if self._level is None else (self._level.size,)
            found = [self._zeros(shape[x.ndim :], None) if t is None else t for t in found]
            return finished(np.reshape(np.stack(found, len(front)), (*front, *shape)), x)
        if isinstance(x, IndexedSlices):
            t = self._tangent(x.values, zero)
            if t is None or self._level is None:
                return None if t is None else IndexedSlices(t, x.indices, x.dense_shape)
            # One tangent for each direction: an array, since slices have no axis in front of the first.
            return np.stack([IndexedSlices(row, x.indices, x.dense_shape)._read() for row in t])
        node = x._node if isinstance(x, Operand) else None
        t = node.tangents.get(self._key) if node is not None and node.tangents is not None else None
        if t is None and node is not None and isinstance(node.value, Standin) and node.value.is_inside(self._recorder):
            raise Refused("an accumulator around vmap cannot be asked inside for the tangents of single examples")
        if t is None:
            return self._zeros(np.shape(x), x.dtype if isinstance(x, Operand) else None) if zero else None
        if self._level is not None:
            t = each_direction(self._level, t)
        return finished(t, x)

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        """The tangent of what does not depend on the primals."""
        return constant(np.zeros(shape if self._level is None else (self._level.size, *shape), dtype))


def tangent_like(value: Any, tangent: Any, name: str) -> Any:
    """A tangent checked against its primal's value: the same shape, converted to its dtype."""
    if tangent.__class__ is np.ndarray and tangent.dtype == value.dtype and tangent.shape == value.shape:
        return (tangent.copy() if tangent.size < 4096 else copied(tangent))[()]
    if value.dtype.kind not in "fc":
        raise ValueError(f"{name} has dtype {value.dtype}: only floating and complex dtypes have tangents")
    if isinstance(tangent, Standin):  # a direction that went through here before
        tangent = tensor(tangent)
    t = tangent if isinstance(tangent, Tensor) else constant(tangent)
    if t.shape != value.shape:
        raise ValueError(f"the tangent of {name} has shape {t.shape}, but {name} has shape {value.shape}")
    if t.dtype != value.dtype:
        if t.dtype.kind == "c":
            raise ValueError(f"the tangent of {name} is complex, but {name} is real ({value.dtype})")
        t = t.astype(value.dtype)
    return wrap(t._node) if recorders.following() and recorders.is_tracked(t._node) else t._node.value
