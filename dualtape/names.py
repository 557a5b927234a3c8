"""What to say of a name that dualtape does not have: the name that was meant, if it can be told."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dualtape.core.lookup import TABLE

# Modules whose names are also looked for; their sources are read, since importing them would load SciPy.
MODULES = {"linalg": "linalg", "special": "ops.special", "inspect": "inspect", "testing": "testing", "extend": "extend"}

# What stands in the place of names of TensorFlow, JAX, PyTorch and autograd that no table and no spelling leads to.
ELSEWHERE = {
    "batch_jacobian": "GradientTape.batch_jacobian",
    "boolean_mask": "x[mask]",
    "detach": "dualtape.stop_gradient",
    "fill": "dualtape.full",
    "gradient": "dualtape.grad, or the method of a GradientTape",
    "gradients": "dualtape.grad",
    "map_fn": "dualtape.vmap",
    "math": "dualtape itself, which has these functions, as in dualtape.sin",
    "no_grad": "dualtape.stop_recording",
    "numpy": "numpy itself, whose functions take Tensors",
    "range": "dualtape.arange",
    "reduce_variance": "dualtape.var",
    "remat": "dualtape.checkpoint",
    "shape": "x.shape",
    "sigmoid": "dualtape.special.expit",
    "size": "x.size",
    "tensor": "dualtape.constant",
    "vectorized_map": "dualtape.vmap",
}


def message(name: str, public: Sequence[str], namespace: dict[str, Any]) -> str:
    """The text of the AttributeError for a name that is not among the public ones.

    Args:
        name: the name asked for.
        public: the names there are.
        namespace: what they stand for, as far as it is loaded.

    Returns:
        The message, with what to use instead if that is known.
    """
    return f"module 'dualtape' has no attribute {name!r}{advice(name, public, namespace)}"


def advice(name: str, public: Sequence[str], namespace: dict[str, Any]) -> str:
    """What to use instead, as the end of a sentence."""
    if name in ELSEWHERE:
        return f"; use {ELSEWHERE[name]}"
    if name.removeprefix("reduce_") in public:
        return f"; use dualtape.{name.removeprefix('reduce_')}"
    function = vars(np).get(name)
    call = TABLE.get(function) if callable(function) else None
    for known in public:
        if call is not None and namespace.get(known) is call:
            return f"; use dualtape.{known}"
    for module, path in MODULES.items():
        if name in names_of(f"dualtape.{path}"):
            return f"; use dualtape.{module}.{name}"
    if callable(function):
        return f"; use numpy.{name}, which takes Tensors" if call else f"; numpy.{name} has no operation"
    lowered = {known.lower(): known for known in public}
    close = difflib.get_close_matches(name.lower(), lowered, 1, 0.8)
    return f"; did you mean dualtape.{lowered[close[0]]}?" if close else ""


def names_of(module: str) -> list[str]:
    """A module's ``__all__``, read from its source without importing it."""
    spec = find_spec(module)
    origin = spec.origin if spec is not None else None
    text = Path(origin).read_text(encoding="utf-8") if origin and Path(origin).is_file() else ""
    return re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0])
