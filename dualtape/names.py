"""What to say of a name that dualtape or a module of it does not have: the one that was meant, if it can be told."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np

from dualtape.core.lookup import INSTEAD, TABLE

# Modules whose names are also looked for; their sources are read, since importing them would load SciPy.
MODULES = {"linalg": "linalg", "special": "ops.special", "inspect": "inspect", "testing": "testing", "extend": "extend"}

# What stands in the place of names of TensorFlow, JAX, PyTorch and autograd that no table and no spelling leads to.
ELSEWHERE = {
    "Module": "a class of your own, with Variables for attributes",
    "add_n": "Python's sum, or dualtape.sum(dualtape.stack(xs), axis=0)",
    "as_tensor": "dualtape.asarray",
    "batch_jacobian": "GradientTape.batch_jacobian",
    "boolean_mask": "x[mask]",
    "cat": "dualtape.concat",
    "clamp": "dualtape.clip",
    "clip_by_norm": "x * (c / dualtape.maximum(dualtape.linalg.norm(x), c))",
    "clip_by_value": "dualtape.clip",
    "debugging": "numpy.testing, whose functions take Tensors",
    "detach": "dualtape.stop_gradient",
    "divide_no_nan": "dualtape.where(y == 0, 0, x / dualtape.where(y == 0, 1, y))",
    "elementwise_grad": "dualtape.grad of the sum of the result",
    "fill": "dualtape.full",
    "from_numpy": "dualtape.constant",
    "function": "the function itself: it is recorded as it runs",
    "gather_nd": "x[tuple(numpy.moveaxis(indices, -1, 0))]",
    "gradient": "dualtape.grad, or the method of a GradientTape",
    "gradients": "dualtape.grad",
    "is_tensor": "isinstance(x, dualtape.Tensor)",
    "jit": "the function itself: it is recorded as it runs",
    "keras": "Variables, a GradientTape and assign_sub",
    "map_fn": "dualtape.vmap",
    "math": "dualtape itself, which has these functions, as in dualtape.sin",
    "nn": "NumPy's functions and dualtape.special: nn.relu(x) is maximum(x, 0), nn.sigmoid is special.expit, "
    "nn.softmax is special.softmax, nn.softplus is special.softplus",
    "no_grad": "dualtape.stop_recording",
    "numpy": "numpy itself, whose functions take Tensors",
    "one_hot": "dualtape.eye(depth)[indices]",
    "optimizers": "v.assign_sub(rate * gradient), or scipy.optimize with dualtape.grad",
    "py_function": "dualtape.record_operation",
    "random": "numpy.random.default_rng(seed): random.normal(shape) is constant(rng.normal(size=shape))",
    "range": "dualtape.arange",
    "rank": "x.ndim",
    "reduce_euclidean_norm": "dualtape.linalg.norm",
    "reduce_variance": "dualtape.var",
    "relu": "dualtape.maximum(x, 0)",
    "remat": "dualtape.checkpoint",
    "scan": "a loop of Python's, and dualtape.stack of what it gives",
    "shape": "x.shape",
    "sigmoid": "dualtape.special.expit",
    "size": "x.size",
    "squared_difference": "dualtape.square(x - y)",
    "tensor": "dualtape.constant",
    "test": "dualtape.testing",
    "truncatediv": "dualtape.trunc(x / y)",
    "unsqueeze": "dualtape.expand_dims",
    "vectorized_map": "dualtape.vmap",
    "linalg.adjoint": "dualtape.conj(x).mT",
    "linalg.band_part": "dualtape.tril and dualtape.triu",
    "linalg.diag": "dualtape.diag",
    "linalg.diag_part": "dualtape.linalg.diagonal",
    "linalg.global_norm": "dualtape.linalg.norm of the norms",
    "linalg.logdet": "dualtape.linalg.slogdet",
    "linalg.matvec": "x @ y",
    "linalg.pinverse": "dualtape.linalg.pinv",
    "linalg.solve_triangular": "dualtape.linalg.solve",
    "linalg.triangular_solve": "dualtape.linalg.solve",
}


def message(name: str, module: str = "") -> str:
    """The text of the AttributeError for a name that is not among the public ones.

    Args:
        name: the name asked for.
        module: the module below dualtape that was asked; dualtape itself if empty.

    Returns:
        The message, with what to use instead if that is known.
    """
    place = f"dualtape.{module}" if module else "dualtape"
    return f"module {place!r} has no attribute {name!r}{meant(name, module) or nearest(name, place)}"


def missing(module: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module below dualtape."""

    def no_attribute(name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"module 'dualtape.{module}' has no attribute {name!r}")
        raise AttributeError(message(name, module), name=name)  # alone, so that Python adds no guess

    return no_attribute


def meant(name: str, module: str = "") -> str:
    """What stands for a name of another library or module, as the end of a sentence."""
    namespace = vars(sys.modules["dualtape"])
    public = namespace["__all__"]
    for key in (f"{module}.{name}", name):
        if key in ELSEWHERE:
            return f"; use {ELSEWHERE[key]}"
    for known in (name, name.removeprefix("reduce_")):
        if known in public:
            return f"; use dualtape.{known}"
    function = vars(np).get(name)
    call = TABLE.get(function) if callable(function) else None
    for known in public:
        if call is not None and namespace.get(known) is call:
            return f"; use dualtape.{known}"
    for other, path in MODULES.items():
        if name in names_of(f"dualtape.{path}"):
            return f"; use dualtape.{other}.{name}"
    written = f", write {INSTEAD[name]}" if name in INSTEAD else ""
    if callable(function):
        return f"; use numpy.{name}, which takes Tensors" if call else f"; numpy.{name} has no operation{written}"
    if hasattr(sys.modules.get("scipy.special"), name):
        return f"; scipy.special.{name} has no operation{written}"
    return ""


def nearest(name: str, place: str) -> str:
    """The public name of a module that is spelt nearly so: four letters of five are the same, or all are exchanged."""
    lowered = {known.lower(): known for known in vars(sys.modules[place])["__all__"]}
    near = difflib.get_close_matches(name.lower(), lowered, 1, 0.75)
    if near and not difflib.get_close_matches(name.lower(), near, 1, 0.8) and sorted(near[0]) != sorted(name.lower()):
        near = []
    return f"; did you mean {place}.{lowered[near[0]]}?" if near else ""


def names_of(module: str) -> list[str]:
    """A module's ``__all__``, read from its source without importing it."""
    spec = find_spec(module)
    origin = spec.origin if spec is not None else None
    text = Path(origin).read_text(encoding="utf-8") if origin and Path(origin).is_file() else ""
    return re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0])
