"""NumPy's protocols beyond the plain call: ufunc methods, out= and where=, and the methods of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.core.lookup import LATE_FAMILIES, TABLE, UFUNC_METHODS
from dualtape.core.lookup import lookup as find
from dualtape.core.recorders import is_tracked
from dualtape.core.tensor import Operand, Tensor, operand, raw, unfollowed, wrap
from dualtape.ops import indexing, nondifferentiable, products, reductions, shaping
from dualtape.ops.elementwise import conj, imag, real, where

REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.maximum: reductions.max,
    np.minimum: reductions.min,
    np.logical_and: nondifferentiable.all,
    np.logical_or: nondifferentiable.any,
    np.logaddexp: reductions.logsumexp,
}
ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: reductions.cumsum, np.multiply: reductions.cumprod}


def ufunc_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc called with keywords, or one of its methods, on at least one Tensor."""
    outs = kwargs.pop("out", None)
    for out in outs or ():
        if out is not None and not isinstance(out, Tensor):
            if not any(followed(x) for x in inputs) and not isinstance(out, Operand):  # nothing is lost
                plain = [x._value() if isinstance(x, Operand) else x for x in inputs]
                return getattr(ufunc, method)(*plain, out=outs, **kwargs)
            raise indexing.unwritable(ufunc.__name__, out)
    if method == "at":
        return at(ufunc, *inputs)
    result = METHODS[method](ufunc, inputs, kwargs, outs[0] if outs else None)
    if kwargs:
        raise TypeError(f"{ufunc.__name__}.{method}: keywords {sorted(kwargs)} have no meaning for a Tensor")
    if outs and outs[0] is not None:
        out = outs[0]
        if result.shape != out.shape and method == "__call__" and ufunc.signature is None:
            result = shaping.broadcast_to(result, out.shape)
        indexing.store(out, result)
        return out
    return result


def followed(x: Any) -> bool:
    """Whether an active recorder follows the derivative of an operand."""
    return isinstance(x, Operand) and is_tracked(x._read()._node)


def called(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """ufunc(..., where=, dtype=)."""
    mask = kwargs.pop("where", True)
    dtype = kwargs.pop("dtype", None)
    for ignored in ("casting", "order", "subok"):
        kwargs.pop(ignored, None)
    operands = [operand(x) for x in inputs]
    if dtype is not None:
        operands = [shaping.cast(x, dtype) if np.asarray(raw(x)).dtype.kind in "fc" else x for x in operands]
    call = TABLE.get(ufunc) or find(ufunc)
    if ufunc.signature and "axis" in kwargs:  # a product of vectors along an axis
        return call(*operands, axis=kwargs.pop("axis"))
    if mask is True:
        return call(*operands)
    if out is None:
        raise ValueError(
            f"{ufunc.__name__}: where= leaves elements without a value; give out= as well, or use np.where"
        )
    return where(mask, call(*operands), out)


def reduced(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """ufunc.reduce."""
    x = inputs[0]
    options = dict(kwargs)
    kwargs.clear()
    names = ("axis", "dtype", "keepdims", "initial", "where")
    options = {"axis": 0, **dict(zip(names, inputs[1:], strict=False)), **options}
    options = {
        k: v for k, v in options.items() if not (v is None and k in ("dtype", "initial")) and v is not np._NoValue
    }
    if options.get("where", None) is True:
        del options["where"]
    call = REDUCTIONS.get(ufunc)
    if call is None:
        return folded(ufunc, x, options)
    return call(x, **options)


def folded(ufunc: np.ufunc, x: Any, options: dict[str, Any]) -> Any:
    """A reduction with no row of its own, one element after the other as NumPy defines it."""
    call = TABLE.get(ufunc) or find(ufunc)
    axes = reductions.normal_axis(options["axis"], np.ndim(x), ufunc.__name__)
    axes = tuple(range(np.ndim(x))) if axes is None else axes
    if set(options) - {"axis", "keepdims"}:
        raise TypeError(f"{ufunc.__name__}.reduce: only axis and keepdims are supported for a Tensor")
    y = np.moveaxis(x, axes, tuple(range(len(axes))))
    y = np.reshape(y, (-1, *y.shape[len(axes) :]))
    total = y[0]
    for k in range(1, y.shape[0]):
        total = call(total, y[k])
    return np.expand_dims(total, axes) if options.get("keepdims") else total


def accumulated(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """ufunc.accumulate."""
    x = inputs[0]
    axis = kwargs.pop("axis", inputs[1] if len(inputs) > 1 else 0)
    dtype = kwargs.pop("dtype", None)
    call = ACCUMULATIONS.get(ufunc)
    if call is not None:
        return call(x, axis, dtype)
    step = TABLE.get(ufunc) or find(ufunc)
    y = np.moveaxis(x, axis, 0)
    found = [y[0]]
    for k in range(1, y.shape[0]):
        found.append(step(found[-1], y[k]))
    return np.moveaxis(np.stack(found), 0, axis)


def outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """ufunc.outer."""
    x, y = (operand(v) for v in inputs)
    left = np.reshape(x, (*np.shape(x), *(1,) * np.ndim(y)))
    return called(ufunc, (left, y), kwargs, out)


def at(ufunc: np.ufunc, x: Any, index: Any, y: Any = None) -> None:
    """ufunc.at: in place, once for each time an element is named."""
    if not isinstance(x, Tensor):
        raise indexing.unwritable(f"{ufunc.__name__}.at", x)
    key, basic = indexing.normal_index(index)
    y = None if y is None else operand(y)
    if y.__class__ is Tensor:
        y = wrap(y._node)  # the value before the first write, if it is a view of x
    if ufunc in (np.add, np.subtract):
        shape = np.shape(x._node.value[key])
        value = y if ufunc is np.add else -y
        full = shaping.broadcast_to(shaping.cast(value, x.dtype), shape)
        told = indexing.told_index(index, key)
        indexing.store(x, x + indexing.scatter(full, index=told, basic=basic, to=x.shape))
        return
    call = TABLE.get(ufunc) or find(ufunc)
    places = np.arange(x.size).reshape(x.shape)[indexing.asked(index, key)]
    flat = x.reshape(-1)
    values = None if y is None else np.reshape(np.broadcast_to(y, places.shape), (-1,))
    for k, place in enumerate(places.ravel()):
        flat[int(place)] = call(flat[int(place)]) if values is None else call(flat[int(place)], values[k])
    indexing.store(x, flat.reshape(x.shape))


def unsupported(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """ufunc.reduceat."""
    options = dict(kwargs)
    kwargs.clear()
    refusal = f"{ufunc.__name__}.reduceat has no row in dualtape's table; use sums of slices, or cumsum and indexing"
    return unfollowed(ufunc.reduceat, lambda: refusal, inputs, options)


METHODS: dict[str, Callable[..., Any]] = {
    "__call__": called,
    "reduce": reduced,
    "accumulate": accumulated,
    "outer": outer,
    "reduceat": unsupported,
}
UFUNC_METHODS.append(ufunc_method)


# ------------------------------------------------------------------ families that are loaded when first used
def load_linear_algebra(function: Any) -> None:
    """Bring in linear algebra the first time a NumPy function without a row meets a Tensor."""
    if (getattr(function, "__module__", None) or "numpy").startswith("numpy"):
        from dualtape.ops import chains, diagonals, norms  # noqa: F401  (norms brings the factorisations)


def load_special(function: Any) -> None:
    """Bring in the rows of ``scipy.special`` the first time one of its functions meets a Tensor."""
    if "scipy" in (getattr(function, "__module__", None) or "scipy") and function not in TABLE:
        import dualtape.ops.special  # noqa: F401


LATE_FAMILIES.extend([load_linear_algebra, load_special])


# ------------------------------------------------------------------ the methods of an array
def reshape_method(x: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    """``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    return shaping.reshape(x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def transpose_method(x: Any, *axes: Any) -> Any:
    """``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    return shaping.transpose(x, (axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes) or None)


def conjugated(x: Any) -> Any:
    """A real array itself, where NumPy's function copies."""
    if x.__class__ is Tensor and x._node.value.dtype.kind != "c":
        return x
    return conj(x) if x.dtype.kind == "c" else x._read()


def install() -> None:
    """Give Tensors and Variables the methods and attributes of an array."""
    methods: dict[str, Any] = {
        "reshape": reshape_method,
        "transpose": transpose_method,
        "astype": shaping.astype,
        "copy": lambda x, order="C": shaping.copy(x, order),
        "ravel": shaping.ravel,
        "flatten": shaping.flatten,
        "squeeze": shaping.squeeze,
        "swapaxes": shaping.swapaxes,
        "repeat": shaping.repeat,
        "take": indexing.take,
        "dot": products.dot,
        "sum": reductions.sum,
        "mean": reductions.mean,
        "prod": reductions.prod,
        "max": reductions.max,
        "min": reductions.min,
        "var": reductions.var,
        "std": reductions.std,
        "cumsum": reductions.cumsum,
        "cumprod": reductions.cumprod,
        "ptp": reductions.ptp,
        "clip": lambda x, min=None, max=None: np.clip(x, min, max),
        "round": nondifferentiable.round,
        "all": nondifferentiable.all,
        "any": nondifferentiable.any,
        "argmax": nondifferentiable.argmax,
        "argmin": nondifferentiable.argmin,
        "argsort": nondifferentiable.argsort,
        "nonzero": nondifferentiable.nonzero,
        "trace": lambda x, *a, **k: np.trace(x, *a, **k),
        "diagonal": lambda x, *a, **k: np.diagonal(x, *a, **k),
        "conjugate": conjugated,
        "conj": conjugated,
        "T": property(shaping.transpose, doc="The Tensor with its axes reversed."),
        "mT": property(products.mT, doc="The Tensor with its last two axes exchanged."),
        "real": property(
            lambda x: real(x) if x.dtype.kind == "c" else x._read(),
            lambda x, value: indexing.setitem(real(x), ..., value),
            doc="The real part.",
        ),
        "imag": property(imag, lambda x, value: indexing.setitem(imag(x), ..., value), doc="The imaginary part."),
        "flat": property(lambda x: iter(shaping.ravel(x)), doc="The elements, one after the other."),
    }
    for name, method in methods.items():
        setattr(Operand, name, method)


install()
