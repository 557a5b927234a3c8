"""A derivative that owes nothing to dualtape: the complex step in extended precision, checked before it is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LONG = np.longdouble
STEP = LONG(1e-200)  # its square vanishes beside 1 in any precision


def complex_step(f: Callable[[Any], Any], x: float) -> Any:
    """f'(x) of a function of one number, in extended precision; None if f does not take complex numbers faithfully.

    A function that drops the imaginary part (abs, a comparison, a cast) raises no error and gives a wrong slope,
    so the step is believed only where a central difference in extended precision comes near it.
    """
    wide = LONG(x)
    width = max(abs(wide), LONG(1)) * LONG(1e-6)
    try:
        with np.errstate(all="ignore"):
            slope = LONG(np.imag(np.clongdouble(f(np.clongdouble(complex(0, 1) * STEP + wide))))) / STEP
            ahead, behind = LONG(f(wide + width)), LONG(f(wide - width))
    except Exception:  # whatever a function does that was not written for such numbers
        return None
    rounding = LONG(1e-6) * max(abs(slope), abs(ahead), abs(behind))
    near = np.isfinite(slope) and abs((ahead - behind) / (2 * width) - slope) <= rounding
    return slope if near else None
