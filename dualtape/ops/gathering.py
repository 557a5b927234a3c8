"""gather: slices of an array at integer positions, whose cotangent is those slices alone where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core.absent import closed, still
from dualtape.core.calls import fresh, record
from dualtape.core.cotangents import cast_back
from dualtape.core.edges import Linear
from dualtape.core.table import Row, publish
from dualtape.core.tensor import Node, Tensor, operand, raw, wrap
from dualtape.facts import costs, patterns
from dualtape.modes.indexed_slices import Slices
from dualtape.modes.variable import Variable
from dualtape.ops.indexing import getitem, scatter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.modes.indexed_slices import IndexedSlices

__all__ = ["gather"]


class Gather(Linear):
    """The x of x[index], where the index is an array of integers.

    Where the sweep takes slices for the cotangent of x, the cotangent of the result is one piece of them; else it
    is scattered into zeros.
    """

    __slots__ = ()

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, (shape, dtype), params = entry
        before = cotangents.get(i)
        if i in cotangents.sparse and (before is None or before.__class__ is Slices):
            cotangents.select(raw)
            if before is None:
                cotangents[i] = before = Slices(shape, dtype)
            before.pieces.append((cast_back(g, dtype), params["index"]))
            return
        super().pull(entry, g, cotangents, raw)


gather_row = Row(
    "gather",
    lambda x, index: x[index],
    [Gather(lambda g, shape, index: scatter(g, index=index, basic=False, to=shape), selects=True)],
    kind="linear",
    work=costs.moves,
    pattern=patterns.moved,
)


def rows(x: Any, index: Any) -> Any:
    """x[index] of an array of integers that are inside its first axis."""
    key = closed(index)
    if x.__class__ is not Tensor:
        if key is index:
            return fresh(x[index])
        x = fresh(x)
    out = Node(x._node.value[key])
    record(gather_row, (x._node,), (out,), {"index": key}, None if key is index else {"index": index._node})
    return wrap(out)


publish(gather_row, rows, (), "x[index].")


def gather(
    params: ArrayLike | IndexedSlices,
    indices: ArrayLike,
    validate_indices: bool | None = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Slices of ``params`` at integer positions along an axis; TensorFlow's ``gather``.

    Along the first axis, a tape's gradient by ``params`` itself is ``IndexedSlices``: of a table with a million lines,
    ten of which were read, it holds ten. ``x[indices]`` and NumPy's ``take`` read the same, and give an array.

    Args:
        params: an array of shape A.
        indices: integers of shape B, all of them from 0 to n - 1 for an axis of length n.
        validate_indices: accepted for TensorFlow's sake; indices are always validated.
        axis: the axis; ``batch_dims`` if None, which is the first one by default.
        batch_dims: the number of leading axes that ``params`` and ``indices`` share, one position in both.
        name: accepted for TensorFlow's sake.

    Returns:
        A Tensor of shape ``A[:axis] + B[batch_dims:] + A[axis + 1:]``.

    Raises:
        TypeError: for indices that are not integers.
        IndexError: for an index out of range; negative ones do not count from the end.
        ValueError: for an axis that ``params`` has not, or leading axes that differ.

    Mathematics:
        A linear map; its transpose adds each slice of the cotangent up where it was read.

    Example:
        >>> import dualtape as dt
        >>> table = dt.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> with dt.GradientTape() as tape:
        ...     y = dt.gather(table, [2, 0])
        >>> g = tape.gradient(y, table)
        >>> g.indices, g.values.shape, g.dense_shape
        (Tensor([2, 0]), (2, 2), (3, 2))
    """
    x: Any = operand(params) if not isinstance(params, Variable) else params
    shape = np.shape(x)
    given = still(operand(indices))
    index: Any = np.array(raw(given))  # a copy: the caller may change his before the sweep
    if not index.size and index.dtype.kind == "f":
        index = index.astype(np.intp)
    if index.dtype.kind not in "iu":
        raise TypeError(f"gather: indices are integers, not {index.dtype}")
    batch = batch_dims + index.ndim if batch_dims < 0 else batch_dims
    along = batch if axis is None else axis + len(shape) if axis < 0 else axis
    if not batch <= along < len(shape):
        raise ValueError(f"gather: axis={axis} with batch_dims={batch_dims} for an array of shape {shape}")
    if shape[:batch] != index.shape[:batch] or not 0 <= batch <= index.ndim:
        raise ValueError(
            f"gather: with batch_dims={batch_dims} the leading axes of params, {shape}, and of indices, {index.shape}, "
            "must be equal"
        )
    wrong = (index < 0) | (index >= shape[along])
    if wrong.any():
        raise IndexError(
            f"gather: index {index[wrong][0]} is out of range for axis {along} of length {shape[along]}"
            + ("; negative ones do not count from the end here, as they do in x[indices]" if (index < 0).any() else "")
        )
    if given.__class__ is Tensor:
        index = given
    if isinstance(x, Variable):
        # Slices of a Variable are read from itself: the whole of it is not read, and its gradient is slices too.
        x = x._read() if along else x._opened()
    if not along:
        return rows(x, index)
    if x.__class__ is not Tensor:
        x = fresh(x)
    if not batch:
        return getitem(x, (*[slice(None)] * along, index))
    places = np.ix_(*[np.arange(n) for n in index.shape])[:batch]
    found: Any = getitem(np.moveaxis(x, along, batch), (*places, index))
    # The axes of the indices come first; they belong in the place of the axis that was read.
    count = index.ndim - batch
    found = np.moveaxis(found, tuple(range(batch, batch + count)), tuple(range(along, along + count)))
    return found
