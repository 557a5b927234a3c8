"""Rows of operations without derivative: rounding, comparisons, tests, logic, positions, casts to integer."""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import operator
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core.families import nondifferentiable as absent
from dualtape.core.lookup import register
from dualtape.core.tensor import SCALARS, Operand, raw
from dualtape.ops.elementwise import remainder, where

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from dualtape.core.tensor import Tensor

__all__ = [
    "all", "allclose", "any", "argmax", "argmin", "argsort", "argwhere", "array_equal", "array_equiv", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "count_nonzero",
    "digitize", "equal", "flatnonzero", "floor", "floor_divide", "greater", "greater_equal", "isclose", "iscomplex",
    "isfinite", "isinf", "isnan", "isreal", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "logical_xor", "nanargmax", "nanargmin", "nonzero", "not_equal", "rint", "round", "searchsorted", "signbit",
    "trunc",
]  # fmt: skip

# ------------------------------------------------------------------ rounding
floor = absent(np.floor)
ceil = absent(np.ceil)
trunc = absent(np.trunc)
rint = absent(np.rint)
round = absent(np.round, name="round", functions=[np.around])
fix = absent(np.fix, name="fix", functions=[np.fix])
floor_divide = absent(np.floor_divide)


def divided_with_rest(x: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
    """The whole quotient (no derivative) and the remainder; NumPy's and Python's ``divmod``."""
    return floor_divide(x, y), remainder(x, y)


register(divided_with_rest, np.divmod)

# ------------------------------------------------------------------ comparisons, logic, tests
equal = absent(operator.eq, name="equal", functions=[np.equal])
not_equal = absent(operator.ne, name="not_equal", functions=[np.not_equal])
less = absent(operator.lt, name="less", functions=[np.less])
less_equal = absent(operator.le, name="less_equal", functions=[np.less_equal])
greater = absent(operator.gt, name="greater", functions=[np.greater])
greater_equal = absent(operator.ge, name="greater_equal", functions=[np.greater_equal])
logical_and = absent(np.logical_and)
logical_or = absent(np.logical_or)
logical_xor = absent(np.logical_xor)
logical_not = absent(np.logical_not)
bitwise_and = absent(np.bitwise_and)
bitwise_or = absent(np.bitwise_or)
bitwise_xor = absent(np.bitwise_xor)
bitwise_invert = absent(np.invert, name="bitwise_invert")
bitwise_left_shift = absent(np.left_shift, name="bitwise_left_shift")
bitwise_right_shift = absent(np.right_shift, name="bitwise_right_shift")
isfinite = absent(np.isfinite)
isinf = absent(np.isinf)
isnan = absent(np.isnan)
signbit = absent(np.signbit)
isclose = absent(np.isclose, name="isclose", functions=[np.isclose])
allclose = absent(np.allclose, name="allclose", functions=[np.allclose])
array_equal = absent(np.array_equal, name="array_equal", functions=[np.array_equal])
array_equiv = absent(np.array_equiv, name="array_equiv", functions=[np.array_equiv])
iscomplex = absent(np.iscomplex, name="iscomplex", functions=[np.iscomplex])
isreal = absent(np.isreal, name="isreal", functions=[np.isreal])
all = absent(np.all, name="all", functions=[np.all])
any = absent(np.any, name="any", functions=[np.any])

# ------------------------------------------------------------------ positions and counts
argmax = absent(np.argmax, name="argmax", functions=[np.argmax])
argmin = absent(np.argmin, name="argmin", functions=[np.argmin])
nanargmax = absent(np.nanargmax, name="nanargmax", functions=[np.nanargmax])
nanargmin = absent(np.nanargmin, name="nanargmin", functions=[np.nanargmin])
argsort = absent(np.argsort, name="argsort", functions=[np.argsort])
searchsorted = absent(np.searchsorted, name="searchsorted", functions=[np.searchsorted])
digitize = absent(np.digitize, name="digitize", functions=[np.digitize])
count_nonzero = absent(np.count_nonzero, name="count_nonzero", functions=[np.count_nonzero])
argwhere = absent(np.argwhere, name="argwhere", functions=[np.argwhere])
flatnonzero = absent(np.flatnonzero, name="flatnonzero", functions=[np.flatnonzero])


def nonzero(x: ArrayLike) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero, one Tensor per axis (no derivative)."""
    return where(x)


# ------------------------------------------------------------------ how they are called
def one(x: ArrayLike, /) -> Tensor: ...
def two(x: ArrayLike, y: ArrayLike, /) -> Tensor: ...
def rounded(x: ArrayLike, /, decimals: int = 0) -> Tensor: ...
def close(x: ArrayLike, y: ArrayLike, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor: ...
def same(x: ArrayLike, y: ArrayLike, /, equal_nan: bool = False) -> Tensor: ...
def reduced(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Tensor: ...
def truth(
    x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False, where: ArrayLike = True
) -> Tensor: ...
def position(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor: ...
def order(x: ArrayLike, /, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None) -> Tensor: ...
def search(x: ArrayLike, v: ArrayLike, /, side: str = "left", sorter: ArrayLike | None = None) -> Tensor: ...
def binned(x: ArrayLike, bins: ArrayLike, /, right: bool = False) -> Tensor: ...


def show(called: Any, *operations: Any) -> None:
    """Let help and inspect show of operations how they are called."""
    for call in operations:
        call.__signature__ = signature(called)


show(one, floor, ceil, trunc, rint, fix, logical_not, bitwise_invert, isfinite, isinf, isnan, signbit)
show(one, iscomplex, isreal, argwhere, flatnonzero)
show(two, floor_divide, equal, not_equal, less, less_equal, greater, greater_equal, array_equiv)
show(two, logical_and, logical_or, logical_xor)
show(two, bitwise_and, bitwise_or, bitwise_xor, bitwise_left_shift, bitwise_right_shift)
show(rounded, round)
show(close, isclose, allclose)
show(same, array_equal)
show(truth, all, any)
show(reduced, count_nonzero)
show(position, argmax, argmin, nanargmax, nanargmin)
show(order, argsort)
show(search, searchsorted)
show(binned, digitize)


def facts() -> None:
    """NumPy's questions about an array that are answered without a Tensor."""
    register(lambda x, *a, **k: np.shape(x._value()), np.shape)
    register(lambda x, *a, **k: np.ndim(x._value()), np.ndim)
    register(lambda x, *a, **k: np.size(x._value(), *a, **k), np.size)
    register(lambda x, *a, **k: np.iscomplexobj(x._value()), np.iscomplexobj)
    register(lambda x, *a, **k: np.isrealobj(x._value()), np.isrealobj)
    register(lambda *xs: np.result_type(*map(raw, xs)), np.result_type)
    register(lambda x, *a, **k: np.can_cast(raw(x).dtype, *a, **k), np.can_cast)
    register(lambda a, b, **k: np.shares_memory(raw(a), raw(b)), np.shares_memory)
    register(lambda a, b, **k: np.may_share_memory(raw(a), raw(b)), np.may_share_memory)
    register(lambda x, *a, **k: np.array_repr(np.asarray(x._value()), *a, **k), np.array_repr)
    register(lambda x, *a, **k: np.array_str(np.asarray(x._value()), *a, **k), np.array_str)
    register(lambda x, *a, **k: np.array2string(np.asarray(x._value()), *a, **k), np.array2string)
    register(nonzero, np.nonzero, "nonzero")


def install() -> None:
    """Give Tensors and Variables the comparison and bit operators."""
    for name, call in {
        "eq": or_false(equal),
        "ne": or_false(not_equal),
        "lt": less,
        "le": less_equal,
        "gt": greater,
        "ge": greater_equal,
        "and": bitwise_and,
        "or": bitwise_or,
        "xor": bitwise_xor,
        "invert": bitwise_invert,
        "lshift": bitwise_left_shift,
        "rshift": bitwise_right_shift,
        "floordiv": floor_divide,
        "divmod": divided_with_rest,
    }.items():
        setattr(Operand, f"__{name}__", call)
    for name, call in {
        "and": bitwise_and,
        "or": bitwise_or,
        "xor": bitwise_xor,
        "floordiv": floor_divide,
        "divmod": divided_with_rest,
        "lshift": bitwise_left_shift,
        "rshift": bitwise_right_shift,
    }.items():
        setattr(Operand, f"__r{name}__", swapped(call))
    for name, call in {"floor": floor, "ceil": ceil, "trunc": trunc, "round": round}.items():
        setattr(Operand, f"__{name}__", call)


def or_false(call: Any) -> Any:
    """The comparison, which Python answers itself for what is no number or array (``x == None`` is False)."""

    def method(x: Any, y: Any) -> Any:
        return call(x, y) if hasattr(y, "__array__") or isinstance(y, (*SCALARS, list, tuple)) else NotImplemented

    return method


def swapped(call: Any) -> Any:
    """The operator with its operands exchanged."""
    return lambda y, x: call(x, y)


facts()
install()
