"""Rules of one's own for a function (custom_gradient, custom_jvp, custom_vjp), checkpoint, stop_gradient."""

from __future__ import annotations

from typing import Any

from dualtape.core.families import nondifferentiable
from dualtape.core.structure import map_structure

stopped = nondifferentiable(lambda x: x, name="stop_gradient")


def stop_gradient(x: Any) -> Any:
    """``x`` as a constant: no derivative passes through, in any mode.

    Args:
        x: an array, or a nested structure of arrays.

    Returns:
        Tensors of the same value, in the same structure.

    Example:
        >>> import dualtape as dt
        >>> dt.grad(lambda x: x * dt.stop_gradient(x))(3.0)
        Tensor(3.)
    """
    return map_structure(stopped, x)
