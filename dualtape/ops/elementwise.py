"""Rows of operations on each element: arithmetic, powers, elementary functions, choices.

Length: it is one table, with the special points of each function decided beside its row.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.physical import repeated
from dualtape.core.absent import NOTHING, still
from dualtape.core.calls import call_of_two, fresh, record
from dualtape.core.cotangents import fitted
from dualtape.core.families import elementwise, elementwise_row, general, linear
from dualtape.core.lookup import TABLE, register
from dualtape.core.standin import some
from dualtape.core.table import Edge, Row, publish
from dualtape.core.tensor import Node, Operand, Tensor, opened, operand, raw, wrap
from dualtape.facts import costs, patterns
from dualtape.facts.costs import Work
from dualtape.facts.costs import elementwise as cost
from dualtape.ops.views import give, kind_of, link, link_if_shared, read_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

__all__ = [
    "abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "clip", "conj",
    "copysign", "cos", "cosh", "deg2rad", "divide", "exp", "exp2", "expm1", "fabs", "fmax", "fmin", "fmod", "hypot",
    "imag", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "maximum", "minimum", "multiply", "negative",
    "positive", "pow", "rad2deg", "real", "reciprocal", "remainder", "sign", "sin", "sinc", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "where",
]  # fmt: skip

LN2 = math.log(2.0)
LN10 = math.log(10.0)

SUM = cost(2, adds=1)
PRODUCT = cost(2, mults=1, partial=Work())
CHOICE = cost(2, adds=1, factor=1, partial=Work())
# One nonlinear function, whose partial takes several multiplications or another nonlinear evaluation.
DOUBLE = cost(1, nonlinear=2)

# ------------------------------------------------------------------ arithmetic
# Kernels are Python's operators: NumPy has short cuts behind them (x ** 2), and scalars are faster.
add = elementwise(operator.add, 1, 1, name="add", functions=[np.add], work=SUM)
subtract = elementwise(operator.sub, 1, -1, name="subtract", functions=[np.subtract], work=SUM)
multiply = elementwise(operator.mul, lambda y: y, lambda x: x, name="multiply", functions=[np.multiply], work=PRODUCT)
divide_row = elementwise(
    operator.truediv, lambda y: 1 / y, lambda out, y: -out / y, name="divide", singular=True, work=PRODUCT
)


def divide(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x / y, element by element; NumPy's ``divide``.

    Args:
        x: an array.
        y: an array.

    Returns:
        A Tensor.
    """
    if y.__class__ in (float, int) and y == 0:
        y = np.zeros((), raw(operand(x)).dtype)  # so that its reciprocal is infinite and no ZeroDivisionError
    return divide_row(x, y)


def divided(y: Any, x: Any) -> Any:
    """x / y with the operands exchanged. One over y has a row that keeps only its result."""
    if x.__class__ in (float, int) and x == 1 and y.__class__ is Tensor and y.dtype.kind in "fc":
        return reciprocal(y)
    return divide_row.reflected(y, x)


divide.reflected = divided  # type: ignore[attr-defined]
register(divide, np.divide, np.true_divide)
negative = elementwise(np.negative, -1, functions=["neg"], work=cost(1, adds=1))
positive = elementwise(np.positive, 1, work=costs.moves)
reciprocal = elementwise(
    np.reciprocal, lambda out: -(out * out), singular=True, work=cost(1, mults=1, partial=Work(mults=1))
)
square = elementwise(np.square, lambda x: x + x, work=cost(1, mults=1, partial=Work(mults=1)))


def power_work(op: costs.Performed) -> costs.Parts:
    """x**2 is one product; a constant exponent a nonlinear function; two active operands log, product and exp."""
    exponent: Any = op.constants[1] if len(op.constants) > 1 else None
    if op.active == (True, False) and np.ndim(exponent) == 0 and exponent == 2:
        rule = cost(2, mults=1, partial=Work(mults=1))
    elif op.active == (True, False):
        rule = cost(2, nonlinear=1)
    else:
        rule = cost(2, nonlinear=2, mults=1, partial=Work(mults=1, nonlinear=1))
    return rule(op)


def slope_of_power(x: Any, y: Any) -> Any:
    """d/dx x**y = y x**(y-1); where y is 0 the power is constant, at x = 0 too."""
    if y.__class__ in (float, int):
        return y * x ** (y - 1) if y != 0 else np.zeros_like(raw(x))[()]
    constant = still(y) == 0
    if not some(constant):
        return y * x ** (y - 1)
    # Where the power is constant, x is replaced as well: 0 * inf is not 0.
    slope = y * np.where(constant, 1, x) ** np.where(constant, 1, y - 1)
    return np.where(constant, np.zeros((), raw(slope).dtype), slope)


def growth_of_power(x: Any, y: Any, out: Any) -> Any:
    """d/dy x**y = x**y log x; the limit 0 at x = 0 for y > 0, which has a derivative by x if y > 1."""
    if x.__class__ in (float, int):  # a Python number must not decide the dtype
        if x > 0:
            return out * math.log(x)
        x = np.asarray(x, raw(out).dtype)[()]
    base = still(x)
    if np.iscomplexobj(base):
        zero = base == 0
    else:
        zero = (base == 0) & (np.real(still(y)) > 0)
    if not some(zero):
        return out * np.log(x)
    growth = out * np.log(np.where(zero, np.ones((), raw(out).dtype), x))
    return chosen(growth, np.where(zero & (np.real(still(y)) <= 1), x, 1)) if x.__class__ is Tensor else growth


general_power = elementwise(
    operator.pow, slope_of_power, growth_of_power, name="power", singular=True, work=power_work
)


def pow(x: ArrayLike, y: ArrayLike) -> Tensor:
    """x to the power y, element by element; NumPy's ``power``.

    The derivative by x is 0 where y is 0, at x = 0 too; that by y is the limit 0 at x = 0 for y > 0.

    Args:
        x: an array.
        y: an array or a number.

    Returns:
        A Tensor.

    Example:
        >>> import dualtape as dt
        >>> dt.pow(dt.constant([1.0, 2.0]), 3)
        Tensor([1., 8.])
    """
    if y.__class__ is int and y == 2:
        return square(x)
    return general_power(x, y)


pow.reflected = general_power.reflected  # type: ignore[attr-defined]
register(pow, np.power, "pow")

# ------------------------------------------------------------------ exponentials, logarithms, roots
exp = elementwise(np.exp, lambda out: out)
exp2 = elementwise(np.exp2, lambda out: out * LN2)
expm1 = elementwise(np.expm1, lambda out: out + 1)
log = elementwise(np.log, lambda x: 1 / x, singular=True)
log2 = elementwise(np.log2, lambda x: 1 / (x * LN2), singular=True)
log10 = elementwise(np.log10, lambda x: 1 / (x * LN10), singular=True)
log1p = elementwise(np.log1p, lambda x: 1 / (1 + x), singular=True)
sqrt = elementwise(np.sqrt, lambda out: 0.5 / out, singular=True)
cbrt = elementwise(np.cbrt, lambda out: 1 / (3 * (out * out)), singular=True)


def share(exp: Any, x: Any, out: Any, full: Any) -> Any:
    """exp(x - out), the share of x in exp(out): 0 where that is nothing, ``full`` where x is as infinite as out is."""
    value, total = still(x), still(out)
    infinite = np.isinf(total)
    if not some(infinite):
        return exp(x - out)
    whole = np.where((value == total) & (np.real(total) > 0), full, 0.0).astype(raw(out).real.dtype)
    return np.where(infinite, whole, exp(np.where(infinite, 0.0, x) - np.where(infinite, 0.0, out)))


def share_of_two(exp: Any, x: Any, y: Any, out: Any) -> Any:
    """The share of x where exp(x) + exp(y) is exp(out)."""
    return share(exp, x, out, np.where(still(x) == still(y), 0.5, 1.0))


logaddexp = elementwise(
    np.logaddexp,
    lambda x, y, out: share_of_two(np.exp, x, y, out),
    lambda x, y, out: share_of_two(np.exp, y, x, out),
    work=cost(2, adds=3, nonlinear=2),
)
logaddexp2 = elementwise(
    np.logaddexp2,
    lambda x, y, out: share_of_two(np.exp2, x, y, out),
    lambda x, y, out: share_of_two(np.exp2, y, x, out),
    work=cost(2, adds=3, nonlinear=2),
)


# ------------------------------------------------------------------ trigonometric and hyperbolic
sin = elementwise(np.sin, lambda x: np.cos(x))
cos = elementwise(np.cos, lambda x: -np.sin(x))
tan = elementwise(np.tan, lambda out: 1 + out * out)
asin = elementwise(
    np.arcsin, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), functions=["asin"], singular=True, work=DOUBLE
)
acos = elementwise(
    np.arccos, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), functions=["acos"], singular=True, work=DOUBLE
)
atan = elementwise(np.arctan, lambda x: 1 / (1 + x * x), functions=["atan"], singular=True, work=DOUBLE)
sinh = elementwise(np.sinh, lambda x: np.cosh(x))
cosh = elementwise(np.cosh, lambda x: np.sinh(x))
tanh = elementwise(np.tanh, lambda out: 1 - out * out)
asinh = elementwise(np.arcsinh, lambda x: 1 / np.sqrt(1 + x * x), functions=["asinh"], work=DOUBLE)
acosh = elementwise(
    np.arccosh, lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), functions=["acosh"], singular=True, work=DOUBLE
)
atanh = elementwise(np.arctanh, lambda x: 1 / ((1 - x) * (1 + x)), functions=["atanh"], singular=True, work=DOUBLE)
deg2rad = elementwise(np.deg2rad, math.pi / 180, functions=[np.radians], work=cost(1, mults=1, partial=Work()))
rad2deg = elementwise(np.rad2deg, 180 / math.pi, functions=[np.degrees], work=cost(1, mults=1, partial=Work()))


def sinc_slope(x: Any, out: Any) -> Any:
    """d/dx sin(pi x)/(pi x) = (cos(pi x) - sinc x)/x; its Taylor series near 0, which keeps every order."""
    small = np.abs(still(x)) < 0.03
    if not some(small):
        return (np.cos(math.pi * x) - out) / x
    near = sinc_series(np.where(small, x, 0.0))
    away = np.where(small, 1.0, x)
    return np.where(small, near, (np.cos(math.pi * away) - np.sinc(away)) / away)


def sinc_series(x: Any) -> Any:
    """The derivative of sinc about 0: sum of (-1)^k 2k pi^(2k) x^(2k-1) / (2k+1)!."""
    z = (math.pi * x) ** 2
    terms = [(-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 8)]
    total: Any = terms[-1]
    for c in reversed(terms[:-1]):
        total = total * z + c
    return total * math.pi**2 * x


sinc = elementwise(np.sinc, sinc_slope, work=DOUBLE)


def undefined(y: Any) -> Any:
    """NaN where y is 0, else 0."""
    return np.where(still(y) == 0, np.nan, 0.0).astype(raw(y).dtype)[()]


def first(x: Any, y: Any) -> Any:
    """x, in the common shape and dtype."""
    taken: Any = np.where(False, y, x)
    return taken[()]


# The derivative of a function at a point where it has none is a choice (a subgradient), and the choice has no
# derivative: NaN in every order above the first. ``x`` was chosen where ``y`` is 0.
chosen_row = elementwise_row("chosen", first, [1, lambda y: undefined(y)], True, False, work=SUM)
chosen_call = publish(chosen_row, call_of_two(chosen_row))


def chosen(x: Any, y: Any) -> Any:
    """x, which was chosen where y is 0: a plain array of plain arrays."""
    return chosen_call(x, y) if x.__class__ is Tensor or y.__class__ is Tensor else x


def ratio_or_zero(x: Any, y: Any) -> Any:
    """x / y, and 0 by choice where the real y is 0: the minimum-norm subgradient of a norm, if y is the norm."""
    zero = still(y) == 0
    return chosen(np.where(zero, 0.0, x) / np.where(zero, 1.0, y), y) if some(zero) else x / y


def over_square(a: Any, x: Any, y: Any) -> Any:
    """a / (x^2 + y^2), which is 0 at the origin."""
    return ratio_or_zero(a, x * x + y * y)


atan2 = elementwise(
    np.arctan2,
    lambda x, y: over_square(y, x, y),
    lambda x, y: over_square(-x, x, y),
    functions=["atan2"],
    work=cost(2, nonlinear=2),
)


hypot = elementwise(
    np.hypot,
    lambda x, out: ratio_or_zero(x, out),
    lambda y, out: ratio_or_zero(y, out),
    work=cost(2, adds=1, mults=2, nonlinear=1, partial=Work(mults=1)),
)


# ------------------------------------------------------------------ magnitudes and choices
def turn(t: Any, x: Any, out: Any) -> Any:
    """The derivative of z / |z| along t, which is at right angles to it: i s Im(conj(s) t) / |z|; none at 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return out * (1j * np.imag(np.conj(out) * t)) / np.where(still(x) == 0, np.nan, np.abs(x))


sign_row = elementwise(lambda x: np.sign(x), 0, name="sign", work=cost(1, adds=1))
complex_sign = general(
    lambda x: np.sign(x),
    name="complex_sign",
    jvp=lambda t, x, out: turn(t, x, out),
    vjp=lambda g, x, out: turn(g, x, out),
    pattern=patterns.elementwise,
    work=DOUBLE,
)


def sign(x: ArrayLike) -> Tensor:
    """x / |x|, element by element, 0 at 0; NumPy's ``sign``.

    Args:
        x: an array.

    Returns:
        A Tensor. The derivative of real numbers is 0; of complex ones it is that along the circle, NaN at 0.
    """
    x = operand(x)
    return (complex_sign if np.iscomplexobj(raw(x)) else sign_row)(x)


register(sign, np.sign)

# A real function of complex numbers has no complex partial: |x + t| = |x| + Re(conj(x/|x|) t) to first order.
abs = general(
    np.absolute,
    jvp=lambda t, x: np.real(np.conj(np.sign(x)) * t) if raw(x).dtype.kind == "c" else np.sign(x) * t,
    vjp=lambda g, x: g * np.sign(x),
    functions=["abs"],
    pattern=patterns.elementwise,
    work=cost(1, adds=1, factor=1, partial=Work()),
)
fabs = elementwise(np.fabs, lambda x: np.sign(x), work=cost(1, adds=1, factor=1, partial=Work()))


def same_sign(x: Any, y: Any) -> Any:
    """1 where x and y have one sign, -1 where not, 0 where x is 0."""
    x = still(x)
    return np.copysign(np.sign(x), np.sign(x) * np.copysign(1, still(y))).astype(x.dtype)


copysign = elementwise(np.copysign, lambda x, y: same_sign(x, y), 0, work=CHOICE)


def greater(x: Any, y: Any) -> Any:
    """1 where x > y, 1/2 at a tie, else 0; NaN follows itself."""
    x, y = still(x), still(y)
    share = np.where(x == y, 0.5, (x > y) | np.isnan(x))
    return share.astype(np.result_type(x, y))[()]


maximum = elementwise(np.maximum, lambda x, y: greater(x, y), lambda x, y: greater(y, x), chooses=True, work=CHOICE)
minimum = elementwise(
    np.minimum,
    lambda x, y: greater(-still(x), -still(y)),
    lambda x, y: greater(-still(y), -still(x)),
    chooses=True,
    work=CHOICE,
)


def greater_number(x: Any, y: Any) -> Any:
    """``greater`` where a number beats NaN."""
    x, y = still(x), still(y)
    share = np.where(x == y, 0.5, (x > y) | np.isnan(y))
    return share.astype(np.result_type(x, y))[()]


fmax = elementwise(
    np.fmax, lambda x, y: greater_number(x, y), lambda x, y: greater_number(y, x), chooses=True, work=CHOICE
)
fmin = elementwise(
    np.fmin,
    lambda x, y: greater_number(-still(x), -still(y)),
    lambda x, y: greater_number(-still(y), -still(x)),
    chooses=True,
    work=CHOICE,
)
remainder = elementwise(
    np.remainder,
    1,
    lambda x, y: -np.floor(still(x) / still(y)),
    functions=[np.mod],
    work=cost(2, adds=1, mults=1, partial=Work(mults=1)),
)
fmod = elementwise(
    np.fmod, 1, lambda x, y: -np.trunc(still(x) / still(y)), work=cost(2, adds=1, mults=1, partial=Work(mults=1))
)


# ------------------------------------------------------------------ complex parts
def as_complex(t: Any) -> Any:
    """A real array in the complex dtype of its precision."""
    return t if raw(t).dtype.kind == "c" else t * np.ones((), np.result_type(raw(t).dtype, np.complex64))


real_row = linear(lambda x: np.real(x), lambda g, shape: g, name="real", pattern=patterns.elementwise)
imag_row = linear(lambda x: np.imag(x), lambda g, shape: as_complex(g) * 1j, name="imag", pattern=patterns.elementwise)


def from_parts(x: Any, y: Any) -> Any:
    out = np.empty(x.shape, np.result_type(x.dtype, y.dtype, np.complex64))
    out.real, out.imag = x, y
    return out[()]


def from_parts_batch(level: Any, x: Any, y: Any) -> Any:
    """Complex numbers of their parts, of which neither is infinite times i."""
    return Batch(level, complex_of(*[repeated(level, a) for a in (x, y)]))


# x + iy, also where y is infinite.
by_parts: Any = (1, 1j)
complex_of = elementwise(from_parts, *by_parts, name="complex_of", work=costs.moves, batch=from_parts_batch)


def real(x: ArrayLike, /) -> Tensor:
    """The real part, a view; a real array is its own. NumPy's ``real``.

    Args:
        x: an array.

    Returns:
        A Tensor.
    """
    x = operand(x)
    if x.__class__ is Tensor and x.dtype.kind != "c":
        return x
    return link_if_shared(real_row(x), x, REAL, NOTHING)


def imag(x: ArrayLike, /) -> Tensor:
    """The imaginary part, a view; of a real array, zeros that NumPy does not let be written. NumPy's ``imag``.

    Args:
        x: an array.

    Returns:
        A Tensor.
    """
    x = operand(x)
    y = imag_row(x)
    if x.__class__ is Tensor and x.dtype.kind != "c" and x.shape:
        link(y, x, NO_PART, NOTHING)
        return y
    return link_if_shared(y, x, IMAG, NOTHING)


REAL = kind_of(real_row, lambda owner, arg, view: give(owner, complex_of(view, imag_row(owner)), by=view))
IMAG = kind_of(imag_row, lambda owner, arg, view: give(owner, complex_of(real_row(owner), view), by=view))
NO_PART = kind_of(imag_row, read_only)
register(real, np.real)
register(imag, np.imag)
conj = linear(np.conjugate, lambda g, shape: np.conjugate(g), functions=["conj"], pattern=patterns.elementwise)
angle_row = general(
    lambda x: np.angle(x),
    name="angle",
    pattern=patterns.elementwise,
    jvp=lambda t, x: (
        np.imag(t * over_square(np.conj(x), np.real(x), np.imag(x))) if raw(x).dtype.kind == "c" else 0 * t
    ),
    vjp=lambda g, x: g * 1j * over_square(x, np.real(x), np.imag(x)) if raw(x).dtype.kind == "c" else 0 * g,
    work=DOUBLE,
)


def angle(z: ArrayLike, deg: bool = False) -> Tensor:
    """The argument of complex numbers, element by element; NumPy's ``angle``.

    Args:
        z: an array.
        deg: whether in degrees.

    Returns:
        A Tensor of real numbers; at 0 its derivative is 0 by choice.
    """
    return angle_row(z) * (180 / math.pi) if deg else angle_row(z)


register(angle, np.angle)


# ------------------------------------------------------------------ selection
CHOOSING = cost(2, adds=1)


@costs.by_shape
def choice_work(op: costs.Performed) -> costs.Parts:
    """The cost of a choice between two; the condition is not counted."""
    return CHOOSING(op._replace(shapes=op.shapes[1:], active=op.active[1:], constants=op.constants[1:]))


class Branch(Edge):
    """One of the two that np.where(condition, x, y) chooses from, which is linear in both. What is not taken gets a
    zero that no infinite partial may spoil. It keeps the condition."""

    __slots__ = ("taken",)

    exact = False
    moves = places = True

    def __init__(self, taken: bool) -> None:
        super().__init__(0)
        self.taken = taken

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        cotangents.select(raw)
        c = self.along(g, like, kept, raw)
        cotangents.add(i, c if like is None else fitted(c, like))

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        condition, zero = opened(kept, raw), np.zeros((), t.dtype)[()]
        return np.where(condition, t, zero) if self.taken else np.where(condition, zero, t)


select_row = Row(
    "select",
    lambda condition, x, y: np.where(condition, x, y),
    [None, Branch(True), Branch(False)],
    kind="general",
    work=choice_work,
    pattern=patterns.moved,
)


def select(condition: Any, x: Any, y: Any) -> Tensor:
    """np.where of booleans: a Tensor or an array."""
    operands = tuple([a._node if a.__class__ is Tensor else a for a in (condition, operand(x), operand(y))])
    value = select_row.kernel(*[a.value if a.__class__ is Node else a for a in operands])
    if not any([a.__class__ is Node for a in operands]):
        return fresh(value)
    out = Node(value)
    record(select_row, operands, (out,), NOTHING)
    return wrap(out)


publish(select_row, select)


@overload
def where(condition: ArrayLike, x: None = None, y: None = None) -> tuple[Tensor, ...]: ...
@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Tensor: ...
def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Elements of ``x`` where ``condition`` holds, else of ``y``; NumPy's ``where``.

    Args:
        condition: booleans (no derivative passes through it).
        x: an array that broadcasts with the others.
        y: likewise.

    Returns:
        A Tensor; with ``condition`` alone, the indices where it holds.

    Example:
        >>> import dualtape as dt
        >>> dt.where([True, False], 1.0, dt.constant([5.0, 6.0]))
        Tensor([1., 6.])
    """
    c: Any = condition if condition.__class__ is Tensor else operand(condition)
    if x is None and y is None:
        if not np.ndim(c):
            np.nonzero(raw(c))  # which raises, and says that there are none
        places: Any = TABLE[np.argwhere](c)
        return tuple([places[:, k] for k in range(places.shape[1])])
    if x is None or y is None:
        raise ValueError("where: give both x and y, or neither")
    if c.__class__ is not Tensor:
        c = np.asarray(c, bool)
    elif c.dtype.kind != "b":
        c = c.astype(bool)
    return select(c, x, y)


def first_of(condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0) -> Tensor:
    """The choice of the first condition that holds, for each element; NumPy's ``select``."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(f"select: {len(condlist)} conditions for {len(choicelist)} choices; one each is needed")
    found: Any = default
    for k, (condition, choice) in reversed(list(enumerate(zip(condlist, choicelist, strict=True)))):
        c = operand(condition)
        if getattr(c, "dtype", None) != np.bool_:
            raise TypeError(f"select: condition {k} is of booleans, not {getattr(c, 'dtype', type(c).__name__)}")
        found = where(c, choice, found)
    return found


def clip(
    x: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Tensor:
    """``x`` limited to the closed interval [min, max]; slope 1 on the bounds, where x itself is taken.

    Args:
        x: an array.
        min: the lower bound, or None.
        max: the upper bound, or None.
        a_min: NumPy's older name of ``min``.
        a_max: NumPy's older name of ``max``.

    Returns:
        A Tensor.
    """
    low = a_min if min is None else min
    high = a_max if max is None else max
    y: Any = x
    if low is not None:
        y = where(still(operand(y)) < still(operand(low)), low, y)
    if high is not None:
        y = where(still(operand(y)) > still(operand(high)), high, y)
    return positive(y) if low is None and high is None else y


register(where, np.where, "where")
register(first_of, np.select)
register(clip, np.clip, "clip")


# ------------------------------------------------------------------ operators
def install() -> None:
    """Give Tensors and Variables Python's operators."""

    for name, call in {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "truediv": divide,
        "pow": pow,
        "mod": remainder,
    }.items():
        for cls in (Tensor, Operand):
            setattr(cls, f"__{name}__", call)
            setattr(cls, f"__r{name}__", call.reflected)
    for name, call in {"neg": negative, "pos": positive, "abs": abs}.items():
        for cls in (Tensor, Operand):
            setattr(cls, f"__{name}__", call)


install()
