"""stop_recording: a block that no tape or accumulator sees."""

from __future__ import annotations

from typing import Any

from dualtape.core.recorders import paused


def stop_recording() -> Any:
    """Pause every tape and accumulator of this thread for the length of a ``with`` block.

    Returns:
        A context manager.

    Example:
        >>> import dualtape as dt
        >>> x = dt.constant(3.0)
        >>> with dt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     with dt.stop_recording():
        ...         y = x * x
        >>> print(tape.gradient(y, x))
        None
    """
    return paused()
