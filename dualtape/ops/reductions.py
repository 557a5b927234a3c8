"""Rows of reductions and cumulative operations: sums, products, moments, extremes, log-sum-exp.

Length: half of it is NumPy's signatures with their docstrings, in front of rows that share the handling of axes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from dualtape.batching import functions as batches
from dualtape.batching.batch import Batch
from dualtape.core.absent import still
from dualtape.core.families import general, linear
from dualtape.core.lookup import newer, register
from dualtape.core.standin import Standin, finite, some
from dualtape.core.tensor import Operand, Tensor, dtype_of, operand, raw
from dualtape.facts import costs, patterns
from dualtape.facts.costs import Work
from dualtape.ops import elementwise as elementary
from dualtape.ops.elementwise import ratio_or_zero, where
from dualtape.ops.instead import ensure_known
from dualtape.ops.shaping import cast, ravel

if TYPE_CHECKING:
    from typing import Never

    from numpy.typing import ArrayLike, DTypeLike

__all__ = [
    "average", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "logsumexp", "max", "mean", "min", "prod",
    "ptp", "std", "sum", "var",
]  # fmt: skip

Axis = tuple[int, ...] | None
SMALL = 4096
MISSING: Any = np._NoValue  # what NumPy passes on for a keyword that was not given
ZERO_STRIDES = [(0,) * n for n in range(65)]


def normal_axis(axis: Any, ndim: int, name: str) -> Axis:
    """An axis argument as None or a sorted tuple of distinct axes counted from the front."""
    if axis is None:
        return None
    if axis.__class__ is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axes = tuple(int(a) for a in axis) if isinstance(axis, (tuple, list)) else (int(axis),)
    for a in axes:
        if not -ndim <= a < ndim:
            raise np.exceptions.AxisError(f"{name}: axis {a} is out of bounds for an array of {ndim} axes")
    found = tuple(sorted(a % ndim for a in axes))
    if len(set(found)) != len(found):
        raise ValueError(f"{name}: duplicate axes in {axis}")
    return found


def kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The shape of a reduction that keeps its axes."""
    if axis is None:
        return (1,) * len(shape)
    return tuple([1 if k in axis else n for k, n in enumerate(shape)])


def count(shape: tuple[int, ...], axis: Axis) -> int:
    """The number of elements that go into each result of a reduction."""
    n = 1
    for k, m in enumerate(shape):
        if axis is None or k in axis:
            n *= m
    return n


# ------------------------------------------------------------------ spreading: the adjoint of summing
def _spread(g: Any, to: tuple[int, ...], axis: Axis) -> Any:
    if axis is None:
        # One number for all elements: an array without strides costs the same at every size.
        return np.ndarray(to, g.dtype, g if g.__class__ is np.ndarray else np.array(g), 0, ZERO_STRIDES[len(to)])
    g = g.reshape(kept_shape(to, axis))
    if np.prod(to) > SMALL:
        return np.broadcast_to(g, to)
    full = np.empty(to, g.dtype)
    full[...] = g
    return full


def spread_batch(level: Any, g: Any, to: tuple[int, ...], axis: Any) -> Any:
    """What was reduced over axes, spread out again."""
    kept = tuple([1 if axis is None or k in axis else n for k, n in enumerate(to)])
    p = g.physical
    return Batch(level, np.broadcast_to(p.reshape((p.shape[0], *kept)), (p.shape[0], *to)))


spread_row = linear(
    _spread,
    lambda g, shape, to, axis: np.add.reduce(g, axis=axis).reshape(shape),
    name="spread",
    internal=True,
    work=costs.moves,
    pattern=patterns.moved,
    batch=spread_batch,
)


def spread(g: Any, to: tuple[int, ...], axis: Axis) -> Any:
    """g, reduced over ``axis`` (with or without keeping it), spread out again to the shape ``to``."""
    if g.__class__ is Tensor:
        return spread_row(g, to=to, axis=axis)
    return (spread_row.row.kernel if isinstance(g, Standin) else _spread)(g, to=to, axis=axis)


sum_row = linear(
    lambda x, axis, keepdims: np.add.reduce(x, axis=axis, keepdims=keepdims),
    lambda g, shape, axis, keepdims: spread(g, shape, axis),
    name="sum",
    work=costs.summation,
    pattern=patterns.reduced,
)


def mean_kernel(x: Any, axis: Axis, keepdims: bool) -> Any:
    if x.dtype.char in "dDgG":
        n = count(x.shape, axis)
        if n:
            return np.add.reduce(x, axis=axis, keepdims=keepdims) / n  # type: ignore[call-overload]
    return np.mean(x, axis=axis, keepdims=keepdims)


mean_row = linear(
    mean_kernel,
    lambda g, shape, axis, keepdims: spread(g / count(shape, axis) if count(shape, axis) else g, shape, axis),
    name="mean",
    work=costs.averaging,
    pattern=patterns.reduced,
)


def reduction(row: Any, x: Any, axis: Any, dtype: Any, keepdims: Any, initial: Any, where_: Any, name: str) -> Any:
    """A linear or product-like reduction with NumPy's keywords in front of the row."""
    x = operand(x)
    if not isinstance(x, Operand):
        x = np.asarray(x)
    if where_ is not True and where_ is not MISSING:
        x = where(where_, x, np.array(1 if name == "prod" else 0, x.dtype))
    if dtype is not None and x.dtype != dtype_of(dtype):
        x = cast(x, dtype=dtype_of(dtype))
    y = row(x, axis=normal_axis(axis, len(x.shape), name), keepdims=bool(keepdims is not MISSING and keepdims))
    if initial is not None and initial is not MISSING:
        y = y * initial if name == "prod" else y + initial
    return y


def sum(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Tensor:
    """The sum of the elements over an axis or several, or over all; NumPy's ``sum``.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        dtype: the dtype to add in.
        out: not supported (a Tensor never changes).
        keepdims: whether the summed axes stay, with length 1.
        initial: a number to start from.
        where: booleans; only elements where it holds are summed.

    Returns:
        A Tensor.

    Example:
        >>> import dualtape as dt
        >>> dt.sum(dt.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        Tensor([4., 6.])
    """
    if out is not None:
        no_out("sum", out)
    if axis is None and dtype is None and initial is None and where is True and isinstance(x, Operand):
        return sum_row(x, axis=None, keepdims=keepdims is True)
    return reduction(sum_row, x, axis, dtype, keepdims, initial, where, "sum")


def mean(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Tensor:
    """The arithmetic mean over an axis or several, or over all; NumPy's ``mean``.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        dtype: the dtype to add in.
        out: not supported (a Tensor never changes).
        keepdims: whether the axes stay, with length 1.
        where: booleans; only elements where it holds count.

    Returns:
        A Tensor.
    """
    no_out("mean", out)
    if where is not True and where is not MISSING:
        total = sum(x, axis, dtype, keepdims=keepdims, where=where)
        mask = np.broadcast_to(still(operand(where)), np.shape(x))
        number = np.sum(mask, axis=axis, keepdims=bool(keepdims is not MISSING and keepdims))
        return total / (number.astype(total.dtype) if total.dtype.kind in "fc" else number)
    return reduction(mean_row, x, axis, dtype, keepdims, None, True, "mean")


def no_out(name: str, out: Any) -> None:
    """Refuse ``out=``."""
    if out is not None and out is not MISSING:
        raise TypeError(f"{name}: out= is not supported, since a Tensor never changes; use the returned Tensor")


# ------------------------------------------------------------------ products
def others(x: Any, axis: Axis) -> Any:
    """For each element the product of all the others in its reduction; exact when some are zero."""
    value = still(x)
    if np.all(value != 0):
        return np.prod(x, axis=axis, keepdims=True) / x
    axes = tuple(range(value.ndim)) if axis is None else axis
    n = count(value.shape, axis)
    if n == 0:
        return x
    # The reduced axes last, as one; a copy for each element with a 1 in its place; the product over each copy.
    front = [k for k in range(value.ndim) if k not in axes]
    flat = np.transpose(x, (*front, *axes)).reshape((*(value.shape[k] for k in front), n))
    copies = np.where(np.eye(n, dtype=bool), np.ones((), value.dtype), flat[..., None, :])
    each = np.prod(copies, axis=-1).reshape([value.shape[k] for k in (*front, *axes)])
    return np.transpose(each, np.argsort((*front, *axes)))


prod_row = general(
    lambda x, axis, keepdims: np.multiply.reduce(x, axis=axis, keepdims=keepdims),
    name="prod",
    jvp=lambda t, x, axis, keepdims: np.add.reduce(t * others(x, axis), axis=axis, keepdims=keepdims),
    vjp=lambda g, x, shape, axis: spread(g, shape, axis) * np.conjugate(others(x, axis)),
    work=costs.composite(Work(mults=1), Work(mults=2), Work(mults=1, adds=1)),
    pattern=patterns.reduced,
)


def prod(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike = True,
) -> Tensor:
    """The product of the elements over an axis or several, or over all; NumPy's ``prod``.

    The derivative is exact when one or several elements are zero.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        dtype: the dtype to multiply in.
        out: not supported (a Tensor never changes).
        keepdims: whether the axes stay, with length 1.
        initial: a number to start from.
        where: booleans; only elements where it holds are multiplied.

    Returns:
        A Tensor.
    """
    no_out("prod", out)
    return reduction(prod_row, x, axis, dtype, keepdims, initial, where, "prod")


# ------------------------------------------------------------------ extremes
def ties(x: Any, out: Any, axis: Axis) -> Any:
    """The share of each element in an extreme: equal among those that attain it."""
    x, out = still(x), still(out)
    x = x if isinstance(x, (Standin, Tensor)) else np.asarray(x)
    top = np.reshape(out, kept_shape(x.shape, axis))
    mask = x == top
    if x.dtype.kind in "fc" and some(np.isnan(top)):
        mask = mask | (np.isnan(x) & np.isnan(top))
    number = np.add.reduce(mask, axis=axis, keepdims=True, dtype=np.intp)
    share = mask.astype(x.dtype)
    if number.size and some(number.max() > 1):
        share = share / number
    return share


def shared(t: Any, shares: Any) -> Any:
    """t times the shares, where a share of nothing is 0 even of an infinite t."""
    product = t * shares
    value = still(product)
    return product if finite(value) else where(shares != 0, product, np.zeros((), value.dtype)[()])


def extreme(kernel: Any, name: str) -> Any:
    row = general(
        lambda x, axis, keepdims: kernel(x, axis=axis, keepdims=keepdims),
        name=name,
        jvp=lambda t, x, out, axis, keepdims: np.add.reduce(
            shared(t, ties(x, out, axis)), axis=axis, keepdims=keepdims
        ),
        vjp=lambda g, x, out, shape, axis: shared(spread(g, shape, axis), ties(x, out, axis)),
        selects=True,
        work=costs.composite(Work(adds=1), Work(), Work(mults=1)),
        pattern=patterns.reduced,
    )

    def call(
        x: ArrayLike,
        /,
        axis: int | tuple[int, ...] | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike = True,
    ) -> Tensor:
        no_out(name, out)
        given = initial is not None and initial is not MISSING
        if where is not True and where is not MISSING:
            if initial is None or not given:
                raise ValueError(f"{name}: where= needs initial=, a value for empty reductions")
            x = elementary.where(where, x, initial)
        x = operand(x)
        if not isinstance(x, Operand):
            x = np.asarray(x)
        axes, keep = normal_axis(axis, len(x.shape), name), bool(keepdims is not MISSING and keepdims)
        if given and not count(x.shape, axes):  # nothing but the bound
            empty = sum(x, axes, keepdims=keep)
            return empty + np.asarray(initial, empty.dtype) if not isinstance(initial, Operand) else empty + initial
        y = row(x, axis=axes, keepdims=keep)
        if given:
            y = (elementary.maximum if name in ("max", "nanmax") else elementary.minimum)(y, initial)
        return y

    call.__name__ = name
    call.__doc__ = f"""The {"largest" if "max" in name else "smallest"} element over an axis or several, or over all.

    Elements that tie share the derivative equally.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        out: not supported (a Tensor never changes).
        keepdims: whether the axes stay, with length 1.
        initial: a bound on the result, also that of an empty reduction.
        where: booleans; only elements where it holds count (needs ``initial``).

    Returns:
        A Tensor.
    """
    return call


max = extreme(np.maximum.reduce, "max")
min = extreme(np.minimum.reduce, "min")


# ------------------------------------------------------------------ moments
def centred(x: Any, axis: Axis) -> Any:
    """x less its mean."""
    return x - np.mean(x, axis=axis, keepdims=True)


def deviation(x: Any, out: Any, axis: Axis) -> Any:
    """x less its mean, in standard deviations; centred twice, since a mean of equal elements may be rounded."""
    return ratio_or_zero(centred(centred(x, axis), axis), out.reshape(kept_shape(raw(x).shape, axis)))


def real_product(d: Any, t: Any) -> Any:
    """Re(conj(d) t)."""
    return np.real(np.conjugate(d) * t) if raw(d).dtype.kind == "c" else d * t


var_row = general(
    lambda x, axis, ddof, keepdims: np.var(x, axis=axis, ddof=ddof, keepdims=keepdims),
    name="var",
    jvp=lambda t, x, shape, axis, ddof, keepdims: (
        np.add.reduce(real_product(centred(x, axis), t), axis=axis, keepdims=keepdims)
        * (2 / (count(shape, axis) - ddof))
    ),
    vjp=lambda g, x, shape, axis, ddof: spread(g * (2 / (count(shape, axis) - ddof)), shape, axis) * centred(x, axis),
    work=costs.composite(Work(adds=3, mults=1), Work(adds=2), Work(mults=1, adds=1)),
    pattern=patterns.reduced,
)
# The standard deviation of a constant is 0, a minimum: its derivative there is 0, the minimum-norm subgradient.
std_row = general(
    lambda x, axis, ddof, keepdims: np.std(x, axis=axis, ddof=ddof, keepdims=keepdims),
    name="std",
    jvp=lambda t, x, out, shape, axis, ddof, keepdims: (
        np.add.reduce(real_product(deviation(x, out, axis), t), axis=axis, keepdims=keepdims)
        * (1 / (count(shape, axis) - ddof))
    ),
    vjp=lambda g, x, out, shape, axis, ddof: (
        spread(g * (1 / (count(shape, axis) - ddof)), shape, axis) * deviation(x, out, axis)
    ),
    work=costs.composite(Work(adds=3, mults=1), Work(adds=2), Work(mults=2, adds=1)),
    pattern=patterns.reduced,
)

root_row = general(
    lambda x: np.sqrt(x),
    name="deviation",
    jvp=lambda t, out: t * ratio_or_zero(0.5, out),
    vjp=lambda g, out: g * ratio_or_zero(0.5, out),
    pattern=patterns.elementwise,
)


def moment(row: Any, name: str, root: bool) -> Any:
    def call(
        x: ArrayLike,
        /,
        axis: int | tuple[int, ...] | None = None,
        dtype: DTypeLike | None = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: ArrayLike = True,
    ) -> Tensor:
        no_out(name, out)
        x = operand(x)
        if not isinstance(x, Operand):
            x = np.asarray(x)
        if dtype is not None or x.dtype.kind in "iub":
            x = cast(x, dtype=dtype_of(dtype or np.float64))
        ddof = ddof if correction is None or correction is MISSING else correction
        keep = bool(keepdims is not MISSING and keepdims)
        if where is not True and where is not MISSING:
            d = x - mean(x, axis, keepdims=True, where=where)
            d = d - mean(d, axis, keepdims=True, where=where)  # the mean of equal elements may be rounded
            total = sum(elementary.square(elementary.abs(d)), axis, keepdims=keep, where=where)
            n = np.sum(np.broadcast_to(still(operand(where)), x.shape), axis=axis, keepdims=keep)
            variance = total / (n - ddof).astype(total.dtype)
            return root_row(variance) if root else variance
        return row(x, axis=normal_axis(axis, len(x.shape), name), ddof=ddof, keepdims=keep)

    call.__name__ = name
    call.__doc__ = f"""The {"standard deviation" if root else "variance"} over an axis or several, or over all.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        dtype: the dtype to compute in.
        out: not supported (a Tensor never changes).
        ddof: the divisor is the number of elements less ``ddof``.
        keepdims: whether the axes stay, with length 1.
        correction: the Array API's name of ``ddof``.
        where: booleans; only elements where it holds count.

    Returns:
        A Tensor.
    """
    return call


var = moment(var_row, "var", False)
std = moment(std_row, "std", True)


# ------------------------------------------------------------------ log-sum-exp
def logsumexp_kernel(x: Any, axis: Axis, keepdims: bool) -> Any:
    if x.size == 0:
        with np.errstate(divide="ignore"):
            return np.log(np.add.reduce(np.exp(x), axis=axis, keepdims=keepdims))  # type: ignore[call-overload]
    top = np.maximum.reduce(np.real(x), axis=axis, keepdims=True)
    finite = np.isfinite(top)
    if not np.all(finite):
        top = np.where(finite, top, 0.0).astype(top.dtype)
    with np.errstate(divide="ignore"):
        out = np.log(np.add.reduce(np.exp(x - top), axis=axis, keepdims=True)) + top
    return (
        out if keepdims else out.reshape([n for k, n in enumerate(x.shape) if axis is not None and k not in axis])[()]
    )


def weights(x: Any, out: Any, axis: Axis) -> Any:
    """softmax(x) = exp(x - logsumexp(x)): 0 where the result is -inf; where it is inf, those who attain it share."""
    out = np.reshape(out, kept_shape(raw(x).shape, axis))
    full: Any = 1.0
    if some(np.isinf(still(out))):
        number = np.sum(still(x) == still(out), axis=axis, keepdims=True)
        full = 1.0 / np.where(number == 0, 1, number)
    return elementary.share(np.exp, x, out, full)


logsumexp_row: Any = general(
    logsumexp_kernel,
    name="logsumexp",
    jvp=lambda t, x, out, axis, keepdims: np.add.reduce(t * weights(x, out, axis), axis=axis, keepdims=keepdims),
    vjp=lambda g, x, out, shape, axis: spread(g, shape, axis) * np.conjugate(weights(x, out, axis)),
    work=costs.composite(Work(adds=3, nonlinear=1), Work(adds=1, nonlinear=1), Work(mults=1)),
    pattern=patterns.reduced,
    batch=batches.shifting(lambda: logsumexp_row.row),
)


def logsumexp(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) without overflow.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        keepdims: whether the axes stay, with length 1.

    Returns:
        A Tensor.

    Example:
        >>> import dualtape as dt
        >>> dt.logsumexp([1000.0, 1000.0])
        Tensor(1000.69314718)
    """
    x = operand(x)
    if not isinstance(x, Operand):
        x = np.asarray(x)
    if x.dtype.kind in "iub":
        x = cast(x, dtype=np.dtype(np.float64))
    return logsumexp_row(x, axis=normal_axis(axis, len(x.shape), "logsumexp"), keepdims=bool(keepdims))


# ------------------------------------------------------------------ cumulative
cumsum_row = linear(
    lambda x, axis: np.add.accumulate(x, axis=axis),
    lambda g, shape, axis: np.flip(np.cumsum(np.flip(g, axis), axis=axis), axis),
    name="cumsum",
    work=costs.accumulation,
    pattern=patterns.cumulative,
)


def cumprod_slopes(x: Any, out: Any, axis: int, along: Any) -> Any:
    """Apply d cumprod(x): out_k = prod_{j<=k} x_j; ``along`` combines with the matrix of partials [.., i, k]."""
    value = raw(x)
    n = value.shape[axis]
    flat = np.moveaxis(x, axis, -1)
    # One copy for each i with a 1 in place of x_i; its cumulative product, from k = i on.
    copies = np.where(np.eye(n, dtype=bool), np.ones((), value.dtype), flat[..., None, :])
    partials = np.cumprod(copies, axis=-1) * np.triu(np.ones((n, n), value.dtype))
    return np.moveaxis(along(partials), -1, axis)


def cumprod_jvp(t: Any, x: Any, out: Any, axis: int) -> Any:
    if np.all(still(x) != 0):
        return out * np.cumsum(t / x, axis=axis)
    return cumprod_slopes(x, out, axis, lambda p: np.sum(np.moveaxis(t, axis, -1)[..., :, None] * p, axis=-2))


def cumprod_vjp(g: Any, x: Any, out: Any, axis: int) -> Any:
    if np.all(still(x) != 0):
        return np.flip(np.cumsum(np.flip(g * np.conjugate(out), axis), axis=axis), axis) / np.conjugate(x)
    return cumprod_slopes(
        x, out, axis, lambda p: np.sum(np.moveaxis(g, axis, -1)[..., None, :] * np.conjugate(p), axis=-1)
    )


cumprod_row = general(
    lambda x, axis: np.multiply.accumulate(x, axis=axis),
    name="cumprod",
    jvp=cumprod_jvp,
    vjp=cumprod_vjp,
    work=costs.composite(Work(mults=1), Work(mults=1), Work(mults=1, adds=1)),
    pattern=patterns.cumulative,
)


def cumulative(row: Any, name: str) -> Any:
    def call(
        x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, **unknown: Never
    ) -> Tensor:
        if unknown:
            ensure_known(name, unknown)
        no_out(name, out)
        x = operand(x)
        if not isinstance(x, Operand):
            x = np.asarray(x)
        if dtype is not None and x.dtype != dtype_of(dtype):
            x = cast(x, dtype=dtype_of(dtype))
        if axis is None:
            x, axis = ravel(x), 0
        (k,) = normal_axis(axis, len(x.shape), name) or (0,)
        return row(x, axis=k)

    call.__name__ = name
    kind = "sum" if name == "cumsum" else "product"
    call.__doc__ = f"""The cumulative {kind} along an axis; of the flat array if None.

    Args:
        x: an array.
        axis: an int, or None.
        dtype: the dtype to compute in.
        out: not supported (a Tensor never changes).

    Returns:
        A Tensor.
    """
    return call


cumsum = cumulative(cumsum_row, "cumsum")
cumprod = cumulative(cumprod_row, "cumprod")


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The Array API's ``cumulative_sum``; see ``cumsum``."""
    return including(cumsum(x, axis, dtype), axis, 0) if include_initial else cumsum(x, axis, dtype)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """The Array API's ``cumulative_prod``; see ``cumprod``."""
    return including(cumprod(x, axis, dtype), axis, 1) if include_initial else cumprod(x, axis, dtype)


def including(y: Any, axis: Any, first: int) -> Any:
    """``y`` with the value of an empty reduction in front."""
    axis = 0 if axis is None else axis
    return np.concatenate([np.full_like(raw(y)[...], first).take([0], axis=axis), y], axis=axis)


register(sum, np.sum)
register(mean, np.mean)
register(prod, np.prod)
register(max, np.max, np.amax)
register(min, np.min, np.amin)
register(var, np.var)
register(std, np.std)
register(cumsum, np.cumsum)
register(cumprod, np.cumprod)
register(cumulative_sum, *newer("cumulative_sum"))
register(cumulative_prod, *newer("cumulative_prod"))


def ptp(x: ArrayLike, /, axis: int | tuple[int, ...] | None = None, out: None = None, keepdims: bool = False) -> Tensor:
    """The range of values, max - min, over an axis or several, or over all; NumPy's ``ptp``."""
    no_out("ptp", out)
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


@overload
def average(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    weights: ArrayLike | None = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
) -> Tensor: ...
@overload
def average(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    weights: ArrayLike | None = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]: ...
def average(
    x: ArrayLike,
    /,
    axis: int | tuple[int, ...] | None = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The weighted mean over an axis or several, or over all; NumPy's ``average``.

    Args:
        x: an array.
        axis: an int, a tuple of ints, or None for all.
        weights: an array of the shape of ``x`` or of the reduced axis; equal weights if None.
        returned: whether the sum of weights is returned as well.
        keepdims: whether the axes stay, with length 1.

    Returns:
        A Tensor, or with ``returned`` a pair of them.
    """
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        total = result * 0 + count(np.shape(x), normal_axis(axis, np.ndim(x), "average"))
        return (result, total) if returned else result
    w = operand(weights)
    if np.shape(w) != np.shape(x):
        axes = tuple(range(np.ndim(x))) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
        normal_axis(axes, np.ndim(x), "average")
        axes = tuple([int(k) % np.ndim(x) for k in axes])
        if np.shape(w) != tuple([np.shape(x)[k] for k in axes]):
            raise ValueError(f"average: weights of shape {np.shape(w)} fit neither x {np.shape(x)} nor axis {axis}")
        w = np.transpose(w, np.argsort(axes))  # they come in the order in which the axes are named
        w = np.reshape(w, tuple(n if k in axes else 1 for k, n in enumerate(np.shape(x))))
        w = np.broadcast_to(w, np.shape(x))
    total = sum(w, axis, keepdims=keepdims)
    result = sum(operand(x) * w, axis, keepdims=keepdims) / total
    return (result, total) if returned else result


register(ptp, np.ptp, "ptp")
register(average, np.average, "average")
