"""Forward- and reverse-mode automatic differentiation for people who write NumPy and SciPy.

A function of arrays stays as it is, written with NumPy; its gradient is another function:

>>> import numpy as np, dualtape as dt
>>> def f(x):
...     return np.sum(np.sin(x) * x)
>>> dt.grad(f)(np.array([0.0, 1.0]))
array([0.        , 1.38177329])

Or a tape records what happens to a value, and is asked afterwards:

>>> x = dt.constant([0.0, 1.0])
>>> with dt.GradientTape() as tape:
...     tape.watch(x)
...     y = f(x)
>>> tape.gradient(y, x)
Tensor([0.        , 1.38177329])

Functions of functions, under JAX's names
    grad, value_and_grad, jvp, vjp, linearize, hvp, jacobian, jacfwd, jacrev, hessian, vmap, checkpoint; custom_jvp,
    custom_vjp, custom_gradient for rules of your own; stop_gradient, stop_recording

Recording, under TensorFlow's names
    GradientTape (reverse mode), ForwardAccumulator (forward mode), Tensor, Variable, constant, convert_to_tensor,
    IndexedSlices, TensorSpec, UnconnectedGradients; cond, case, switch_case, while_loop, gather

Operations, under the names of the Array API and NumPy
    sin, exp, abs, acos, pow, where, sum, mean, max, matmul, einsum, reshape, concat, take, sort, zeros, ... They take
    numbers, arrays and Tensors, and return Tensors. NumPy's own functions, as in ``f`` above, do the same on Tensors.

Modules
    linalg   linear algebra (``numpy.linalg``)         inspect  the trace of a program and its cost in operations
    special  special functions (``scipy.special``)     testing  checks of derivatives, of any order
    extend   operations with derivative rules of your own
"""

# ruff: noqa: F403 - the public names are those that the modules list in their ``__all__``

import importlib
import typing

from numpy import bool as bool
from numpy import complex64 as complex64
from numpy import complex128 as complex128
from numpy import e as e
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import inf as inf
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import nan as nan
from numpy import newaxis as newaxis
from numpy import pi as pi
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64

from dualtape.core.tensor import Tensor as Tensor
from dualtape.modes.accumulator import ForwardAccumulator as ForwardAccumulator
from dualtape.modes.constant import constant as constant
from dualtape.modes.indexed_slices import IndexedSlices as IndexedSlices
from dualtape.modes.pause import stop_recording as stop_recording
from dualtape.modes.spec import TensorSpec as TensorSpec
from dualtape.modes.tape import GradientTape as GradientTape
from dualtape.modes.unconnected import UnconnectedGradients as UnconnectedGradients
from dualtape.modes.variable import Variable as Variable
from dualtape.ops.control_flow import *
from dualtape.ops.creation import *
from dualtape.ops.elementwise import *
from dualtape.ops.gathering import *
from dualtape.ops.indexing import *
from dualtape.ops.nondifferentiable import *
from dualtape.ops.products import *
from dualtape.ops.reductions import *
from dualtape.ops.shaping import *
from dualtape.ops.sorting import *
from dualtape.tracing.function import *
from dualtape.tracing.loops import *
from dualtape.transforms.byhand import *
from dualtape.transforms.checkpoint import *
from dualtape.transforms.custom import *
from dualtape.transforms.gradient import *
from dualtape.transforms.jacobian import *
from dualtape.transforms.products import *
from dualtape.transforms.vmap import *

__version__ = "0.1.0"

# What is loaded when first asked for, and where it is: it costs time to import, SciPy most of all.
if typing.TYPE_CHECKING:
    from dualtape import extend as extend
    from dualtape import inspect as inspect
    from dualtape import linalg as linalg
    from dualtape import special as special
    from dualtape import testing as testing
    from dualtape.ops.chains import cross as cross
    from dualtape.ops.diagonals import *
else:  # unseen by a type checker, to which a module's __getattr__ would make every name a name
    _LATE = {
        **{name: f"dualtape.{name}" for name in ("extend", "inspect", "linalg", "special", "testing")},
        "cross": "dualtape.ops.chains",
        **dict.fromkeys(("diag", "diagflat", "diagonal", "trace", "tril", "triu"), "dualtape.ops.diagonals"),
    }
    _MODULE = type(typing)
    __all__ = sorted({n for n, v in globals().items() if n[0] != "_" and type(v) is not _MODULE} | _LATE.keys())
    __dir__ = __all__.copy

    def __getattr__(name):
        if name in _LATE:
            found = importlib.import_module(_LATE[name])
            found = globals()[name] = found if _LATE[name].endswith(f".{name}") else getattr(found, name)
            return found
        if name.startswith("_"):
            raise AttributeError(f"module 'dualtape' has no attribute {name!r}")
        said = importlib.import_module("dualtape.names").message(name)
        raise AttributeError(said, name=name)  # alone, so that Python adds no guess
