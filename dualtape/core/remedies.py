"""What is said beside an error that NumPy raises on Tensors inside an array: how they are joined instead."""

from __future__ import annotations

import re

# NumPy's words where it meets objects: a function without a loop for them, a cast, a method that a number lacks.
OBJECTS = re.compile(
    r"dtype\('O'\)|setting an array element with a sequence|loop of ufunc does not support argument"
    r"|not supported for the input types|'(bool|int|float|complex)' object has no attribute"
)
REMEDY = (
    "np.array([t1, t2]) of Tensors is an array of objects, for which few of NumPy's functions know what to do: join "
    "them with np.stack or dualtape.asarray. Into an array of numbers no Tensor can be written: start from "
    "dualtape.zeros_like(x) or dualtape.zeros(shape) in the place of NumPy's."
)


def remark(error: BaseException) -> None:
    """Note the remedy on an error that leaves a block where Tensors are followed, if it is NumPy's about objects."""
    if not isinstance(error, (TypeError, ValueError, AttributeError)) or not OBJECTS.search(str(error)):
        return
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    # (Raised in a kernel or rule, it is about numbers.)
    if place is not None and not place.tb_frame.f_globals.get("__name__", "").startswith("dualtape."):
        if REMEDY not in getattr(error, "__notes__", ()):
            error.add_note(REMEDY)
