"""Rows that reorder by value: sort, and what is read off sorted arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualtape.core.absent import still
from dualtape.core.lookup import register
from dualtape.core.tensor import operand
from dualtape.ops.indexing import take_along_axis
from dualtape.ops.shaping import arranged_like, as_tensor, ravel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

__all__ = ["sort"]


def sort(
    x: ArrayLike,
    /,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> Tensor:
    """``x`` sorted along an axis (the flat array if None); NumPy's ``sort``.

    Args:
        x: an array.
        axis: an int or None.
        kind: NumPy's choice of algorithm.
        order: not used (it is for structured arrays).
        stable: whether equal elements keep their order.
        descending: the Array API's keyword: the largest first.

    Returns:
        A Tensor.
    """
    x = as_tensor(operand(x))
    if axis is None:
        x, axis = ravel(x), 0
    places = np.argsort(still(x), axis=axis, kind=kind or "stable")  # type: ignore[arg-type]
    if descending:
        places = np.flip(places, axis)
    return arranged_like(take_along_axis(x, places, axis), x)


register(sort, np.sort, "sort")
