"""UnconnectedGradients: what a derivative is where no path leads from source to target, None or zeros."""

from __future__ import annotations

from enum import Enum
from typing import Any


class UnconnectedGradients(Enum):
    """What a source gets that no target depends on; TensorFlow's spelling of ``"none"`` and ``"zero"``.

    Example:
        >>> import dualtape as dt
        >>> x, y = dt.Variable(2.0), dt.Variable(3.0)
        >>> with dt.GradientTape() as tape:
        ...     z = y * y
        >>> tape.gradient(z, x, unconnected_gradients=dt.UnconnectedGradients.ZERO)
        Tensor(0.)
    """

    NONE = "none"
    ZERO = "zero"


def wants_zero(unconnected: Any) -> bool:
    """Whether unconnected derivatives are zeros rather than None.

    Raises:
        ValueError: for anything but ``"none"``, ``"zero"`` and the members of ``UnconnectedGradients``.
    """
    value = unconnected.value if isinstance(unconnected, UnconnectedGradients) else unconnected
    if not (isinstance(value, str) and value in ("none", "zero")):
        raise ValueError(f'Unknown value for unconnected_gradients: {unconnected!r}; it is "none" or "zero"')
    return value == "zero"
