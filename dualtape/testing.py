"""Checks derivatives of any order and nesting: value, adjoint identity, differences or complex step, shape and dtype.

The public functions are `check_grads`, for the tests of whoever writes a rule or a function, `check_rule`, for
functions that bring rules of their own, and `numerical_jvp`, the reference they compare with, which knows nothing of
dualtape: it evaluates the function on plain arrays.

Length: three public docstrings with their mathematics, and a reference that is read together with its comparison.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dualtape.core.tensor import operand
from dualtape.modes.structure import flatten
from dualtape.names import missing
from dualtape.transforms.calls import Bound
from dualtape.transforms.products import jvp, vjp

__all__ = ["check_grads", "check_rule", "numerical_jvp"]
__dir__ = __all__.copy
if not TYPE_CHECKING:  # or every misspelt name would be one to a type checker
    __getattr__ = missing("testing")

Array = NDArray[Any]
Arrays = tuple[Array, ...]
FlatFunction = Callable[..., tuple[Any, ...]]
Method = Literal["auto", "differences", "complex_step"]
Mode = Literal["fwd", "rev"]

# Ridders' extrapolation: steps shrink by this factor until the estimate stops improving.
SHRINK = 3.0
LEVELS = 8
# Small enough that the truncation error h**2 vanishes, large enough that squares of it do not underflow.
IMAGINARY_STEP = 1e-100
# What a complex step may differ from a crude difference (whose own error is about 1e-8) before it is disbelieved.
ANALYTIC = 1e-5
# A failure of reverse mode is located element by element; larger arguments are located to the argument only.
LOCATED = 256


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[Mode] = ("fwd", "rev"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    method: Method = "auto",
    seed: int = 0,
) -> None:
    r"""Assert that the derivatives of `f` at `args` are right, in every nesting of `modes` up to `order`.

    Args:
        f: function of `len(args)` arguments; arguments and results may be nested structures of arrays of any shape.
        args: the point, a tuple with one entry an argument of `f`. Leaves of float and complex dtype are
            differentiated, all others are constants. `f` must be differentiable at the point, and stay inside its
            domain one hundredth around it.
        order: highest order of derivative that is checked, at least 1.
        modes: the modes that are nested: `"fwd"`, `"rev"` or both.
        rtol: tolerance relative to the largest element of what is expected. Default: `eps**0.45` against differences
            and `eps**0.7` between the two modes, with `eps` of the coarsest dtype among arguments and results.
        atol: absolute tolerance. Default: the larger of `rtol / 1000` and `16 eps`, times the largest element of
            arguments and value.
        method: how the first order's reference is computed, see `numerical_jvp`.
        seed: of the random directions.

    Returns:
        None.

    Raises:
        AssertionError: something is wrong. The message names the nesting as a path such as `fwd(rev(f))`, the
            argument, what was expected, what was found, the largest error and where it is.
        TypeError: `args` is not a tuple or a list, or has nothing to differentiate.
        ValueError: no mode, an unknown mode or method, or an order below 1.

    Mathematics:
        Let J be the derivative of `f`, and <a, b> = Re sum conj(a) b, for real and complex arrays alike. Checked are,
        with random v and w, argument by argument and for all arguments together: J v from forward mode against
        (f(x + h v) - f(x - h v)) / 2h extrapolated to h = 0 (Ridders, Advances in Engineering Software 4, 1982), or
        Im f(x + i h v) / h (Squire and Trapp, SIAM Review 40, 1998); J^T w from reverse mode by <J^T w, v> = <w, J v>.
        That is the gradient's convention for complex arguments: the conjugate of the holomorphic derivative, along
        which a real function ascends steepest. The next order repeats all this for the functions (x, v) -> J(x) v
        and (x, w) -> J(x)^T w, so that dependence of a rule on its tangent or cotangent is checked as well.

    Example:
        >>> import numpy as np
        >>> from dualtape.testing import check_grads
        >>> check_grads(lambda x, y: np.sum(np.exp(x) * y), (np.array([0.1, 0.2]), 3.0), order=3)
    """
    if order < 1:
        raise ValueError(f"check_grads: order must be at least 1, not {order}")
    if not modes:
        raise ValueError("check_grads: no mode to check; modes are 'fwd' and 'rev'")
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ValueError(f"check_grads: unknown mode {mode!r}; modes are 'fwd' and 'rev'")
    problem = _problem("check_grads", f, args)
    _Check(tuple(modes), rtol, atol, method, np.random.default_rng(seed)).run(problem, order)


def check_rule(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    exact: bool = True,
    order: int = 2,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
) -> dict[str, str]:
    r"""Assert that the rules that `f` brings along are linear, belong together, and are its derivative.

    Args:
        f: a function made by `custom_gradient`, `custom_jvp` or `custom_vjp`, a method of this kind, or an operation
            registered with `extend.operation`.
        args: the point, as in `check_grads`.
        exact: whether the rules are meant to be the derivative of `f`. False for a rule that departs from it on
            purpose (a straight-through estimator): then all the rest is checked.
        order: the highest order that is compared with differences, as in `check_grads`, if `exact`.
        rtol: as in `check_grads`.
        atol: as in `check_grads`.
        seed: of the random directions.

    Returns:
        For `"jvp"` and `"vjp"`, whether the rule is `"given"`, or `"derived"` from the other one.

    Raises:
        AssertionError: something is wrong. The message names the side, whether it is given or derived, and the place.
        TypeError: `f` brings no rules; `args` is not a tuple or a list, or has nothing to differentiate.

    Mathematics:
        Let t -> F t be the forward and g -> R g the reverse rule at the point. Checked are, with random u, v and w:
        F(64 u) = 64 F u and F(3 u - v) = 3 F u - F v; the same of R; <R w, v> = <w, F v> with <a, b> = Re sum
        conj(a) b; that values do not depend on whether somebody differentiates; and, if `exact`, all that
        `check_grads` checks. A rule that is not linear has no transpose, so the side derived from it means nothing.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> from dualtape.testing import check_rule
        >>> @dt.custom_vjp
        ... def sine(x):
        ...     return np.sin(x)
        >>> sine.defvjp(lambda x: (np.sin(x), np.cos(x)), lambda c, g: (g * c,))
        >>> check_rule(sine, (0.3,), order=1)
        {'jvp': 'derived', 'vjp': 'given'}
    """
    rules = _rules(f)
    problem = _problem("check_rule", f, args)
    value = _arrays(problem.call(*(x.copy() for x in problem.point)))
    if not value:
        raise TypeError("check_rule: no result of float or complex dtype, so nothing to differentiate")
    check = _Check(("fwd", "rev"), rtol, atol, "auto", np.random.default_rng(seed))
    compare = _Comparison(problem, value, rtol, atol)

    def pushed(tangents: Arrays) -> Arrays:
        path = f"the {rules['jvp']} forward rule"
        return tuple(compare._push(path, "all arguments", problem.call, problem.point, tangents))

    def pulled(cotangents: Arrays) -> Arrays:
        path = f"the {rules['vjp']} reverse rule"
        return compare._pull(path, problem.names, problem.call, problem.point, cotangents)

    # The given side first: what is wrong with it is wrong with what is derived from it.
    for side in sorted(rules, key=lambda name: rules[name] == "derived"):
        rule, kind = (pushed, "forward") if side == "jvp" else (pulled, "reverse")
        likes = problem.point if side == "jvp" else value
        u, v = (tuple(map(check._direction, likes)) for _ in range(2))
        compare.linear(f"the {rules[side]} {kind} rule", rule, u, v)
    tangents, cotangents = tuple(map(check._direction, problem.point)), tuple(map(check._direction, value))
    push, pull = pushed(tangents), pulled(cotangents)
    sizes = _weigh_sizes(cotangents, push) + _weigh_sizes(tangents, pull)
    where = f"the {rules['jvp']} forward rule and the {rules['vjp']} reverse rule, <R w, v> = <w, F v>"
    compare._close(where, _weigh(tangents, pull), _weigh(cotangents, push), compare._tolerance(sizes, 0.7), "forward")
    if exact:
        check.run(problem, order)
    return rules


def _rules(f: Any) -> dict[str, str]:
    """Which rules a function brings along."""
    if isinstance(f, partial) and isinstance(getattr(f.func, "__self__", None), Bound):  # a method
        return _rules(f.func.__self__)  # type: ignore[attr-defined]
    if isinstance(f, Bound):
        if f.rules:
            return f.rules
        raise TypeError(f"check_rule: {f.name} has no rule of its own, which check_rule could check; see check_grads")
    if hasattr(f, "row"):
        return {"jvp": "given", "vjp": "given"}
    raise TypeError(
        f"check_rule takes a function that brings rules along, not {getattr(f, '__name__', type(f).__name__)}; "
        "check_grads checks the derivatives of any function"
    )


def numerical_jvp(
    f: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any], *, method: Method = "auto"
) -> Any:
    r"""Directional derivative of `f` at `args` along `tangents`, from values of `f` on plain arrays alone.

    Args:
        f: function of `len(args)` arguments; arguments and results may be nested structures of arrays of any shape.
        args: the point, a tuple with one entry an argument of `f`. Float and complex leaves vary, others are constants.
        tangents: the direction, in the structure of `args`; entries of constants are not looked at.
        method: `"differences"`: central differences, extrapolated. `"complex_step"`: exact to rounding, for functions
            of real arguments that are analytic and accept complex arrays. `"auto"`: the complex step if it is possible
            and agrees with a crude difference, else differences.

    Returns:
        The derivative in the structure of the result of `f`, in double precision where `f` lets it; zeros for results
        that are neither float nor complex.

    Raises:
        TypeError: `args` is not a tuple or a list, or has nothing to differentiate.
        ValueError: an unknown method; `tangents` not in the structure of `args`; a complex step that is impossible.

    Mathematics:
        As in `check_grads`. Single-precision arguments are raised to double first: a step in single precision loses
        half of its seven digits.

    Example:
        >>> from dualtape.testing import numerical_jvp
        >>> derivative = numerical_jvp(lambda x: x**3, (2.0,), (1.0,))
        >>> bool(abs(derivative - 12.0) < 1e-9)
        True
    """
    problem = _problem("numerical_jvp", f, args)
    direction = _tangent_leaves(problem, args, tangents)
    reference = _reference(problem.call, problem.point, direction, method)
    results, rebuild = flatten(f(*args))
    derivatives = iter(reference.derivative)
    return rebuild(iter([next(derivatives) if _varies(y) else np.zeros(np.shape(y)) for y in results]))


# What is checked: a function of flat arrays, made from the user's or as a derivative of another one.


@dataclass(frozen=True)
class _Problem:
    """A function of arrays, all of which vary, at a point; its place in the nesting and the names of its arguments."""

    path: str
    call: FlatFunction
    point: Arrays
    names: tuple[str, ...]

    def forward(self, tangents: Arrays) -> _Problem:
        """The function (x, v) -> J(x) v."""

        def call(*arrays: Any) -> tuple[Any, ...]:
            primals, directions = arrays[: len(self.point)], arrays[len(self.point) :]
            value, tangent = jvp(self.call, primals, directions)
            return _filled(tangent, value)

        names = tuple(f"the tangent of {name}" for name in self.names)
        return _Problem(f"fwd({self.path})", call, self.point + tangents, self.names + names)

    def reverse(self, cotangents: Arrays) -> _Problem:
        """The function (x, w) -> J(x)^T w."""

        def call(*arrays: Any) -> tuple[Any, ...]:
            primals, weights = arrays[: len(self.point)], arrays[len(self.point) :]
            value, pullback = vjp(self.call, *primals)
            # A function that rounds to single precision inside has single-precision cotangents, whatever it is given.
            fitted = tuple(w if w.dtype == y.dtype else w.astype(y.dtype) for w, y in zip(weights, value, strict=True))
            return _filled(pullback(fitted), primals)

        several = len(cotangents) > 1
        names = tuple(f"the cotangent of result {i}" if several else "the cotangent" for i in range(len(cotangents)))
        return _Problem(f"rev({self.path})", call, self.point + cotangents, self.names + names)

    def doubled(self) -> _Problem:
        """The same in double precision: a difference in single precision loses half of its seven digits."""
        return replace(self, point=tuple(map(_double, self.point)))

    def alone(self, index: int) -> Callable[[Any], tuple[Any, ...]]:
        """The function of one argument, the others constant: what is absent takes another way through the rules."""

        def call(array: Any) -> tuple[Any, ...]:
            arrays: list[Any] = [x.copy() for x in self.point]  # the function may write into its arguments
            arrays[index] = array
            return self.call(*arrays)

        return call


def _problem(caller: str, f: Callable[..., Any], args: Sequence[Any]) -> _Problem:
    """`f` as a function of those leaves of its arguments that vary, giving those leaves of its result that do."""
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"{caller}: args is a tuple, one entry an argument of f, not {type(args).__name__}; write (x,)")
    leaves, rebuild = flatten(tuple(args))
    arrays = [_array(leaf) for leaf in leaves]
    places = [place for place, array in enumerate(arrays) if _varies(array)]
    if not places:
        raise TypeError(f"{caller}: no argument of float or complex dtype, so nothing to differentiate")

    def call(*varying: Any) -> tuple[Any, ...]:
        filled = list(leaves)
        for place, value in zip(places, varying, strict=True):
            filled[place] = value
        results, _ = flatten(f(*rebuild(iter(filled))))
        return tuple(result for result in results if _varies(operand(result)))

    names = [name for position, arg in enumerate(args) for name in _leaf_names(position, arg)]
    # Copies: a function that writes into its argument, or a rule that does, must not change the caller's arrays.
    return _Problem("f", call, tuple(arrays[p].copy() for p in places), tuple(names[p] for p in places))


def _leaf_names(position: int, arg: Any) -> Iterator[str]:
    count = len(flatten(arg)[0])
    for leaf in range(count):
        yield f"argument {position}" if count == 1 else f"argument {position}, leaf {leaf}"


def _tangent_leaves(problem: _Problem, args: Sequence[Any], tangents: Sequence[Any]) -> Arrays:
    """The leaves of `tangents` that belong to leaves of `args` that vary, with their shapes."""
    points, directions = flatten(tuple(args))[0], flatten(tuple(tangents))[0]
    if len(points) != len(directions):
        raise ValueError(f"numerical_jvp: {len(directions)} tangents for {len(points)} leaves of args")
    kept = tuple(_array(d) for p, d in zip(points, directions, strict=True) if _varies(p))
    for name, point, direction in zip(problem.names, problem.point, kept, strict=True):
        if point.shape != direction.shape:
            raise ValueError(f"numerical_jvp: {name} has shape {point.shape}, its tangent {direction.shape}")
    return kept


# The reference: derivatives from values of the function.


@dataclass(frozen=True)
class _Reference:
    """A directional derivative of each result, and how far each of its elements may be off."""

    derivative: Arrays
    uncertainty: Arrays
    method: str


def _reference(call: FlatFunction, point: Arrays, direction: Arrays, method: Method) -> _Reference:
    if method not in ("auto", "differences", "complex_step"):
        raise ValueError(f"unknown method {method!r}; methods are 'auto', 'differences' and 'complex_step'")
    point, direction = tuple(map(_double, point)), tuple(map(_double, direction))

    def along(step: complex) -> Arrays:
        return _arrays(call(*(x + step * v for x, v in zip(point, direction, strict=True))))

    with np.errstate(all="ignore"):  # a step out of the domain gives NaN, which smaller steps mend
        if method != "differences":
            exact = _complex_step(along, point + direction)
            if exact is not None and (method == "complex_step" or _agrees(exact, _central(along, 1e-4))):
                return _Reference(exact, tuple(np.zeros(d.shape) for d in exact), "complex step")
            if method == "complex_step":
                raise ValueError("method='complex_step': needs real arguments and a function of complex arrays")
        return _differences(along)


def _complex_step(along: Callable[[complex], Arrays], inputs: Arrays) -> Arrays | None:
    """Im f(x + i h v) / h, or None where it is impossible: complex inputs, or a step that is dropped or refused."""
    if any(array.dtype.kind == "c" for array in inputs):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns when an imaginary part is dropped
            stepped = along(1j * IMAGINARY_STEP)
    except Exception:  # whatever the function does with complex arrays, there are differences to fall back on
        return None
    if any(array.dtype.kind != "c" for array in stepped):
        return None
    return tuple(array.imag / IMAGINARY_STEP for array in stepped)


def _agrees(exact: Arrays, crude: Arrays) -> bool:
    """Whether a complex step is right: `conj`, `abs` or a comparison inside the function make it wrong silently."""
    pairs = zip(exact, crude, strict=True)
    return all(bool(np.all(np.abs(e - c) <= ANALYTIC * _largest(c))) for e, c in pairs)


def _central(along: Callable[[complex], Arrays], step: float) -> Arrays:
    return tuple((ahead - behind) / (2.0 * step) for ahead, behind in zip(along(step), along(-step), strict=True))


def _differences(along: Callable[[complex], Arrays]) -> _Reference:
    """Ridders' method, element by element: a table of extrapolations, of which the steadiest entry is kept."""
    eps = _eps(along(0.0))
    step = 1e-2 if eps < 1e-10 else 1e-1
    previous = [_central(along, step)]
    best = previous[0]
    uncertainty = tuple(np.full(d.shape, np.inf) for d in best)
    for _ in range(1, LEVELS):
        step /= SHRINK
        row = [_central(along, step)]
        for column, coarse in enumerate(previous, start=1):
            weight = SHRINK ** (2 * column)
            row.append(tuple((weight * f - c) / (weight - 1.0) for f, c in zip(row[-1], coarse, strict=True)))
            change = tuple(
                np.maximum(np.abs(new - fine), np.abs(new - old))
                for new, fine, old in zip(row[-1], row[-2], coarse, strict=True)
            )
            steadier = tuple(now < so_far for now, so_far in zip(change, uncertainty, strict=True))
            best = tuple(np.where(s, new, old) for s, new, old in zip(steadier, row[-1], best, strict=True))
            uncertainty = tuple(np.where(s, c, u) for s, c, u in zip(steadier, change, uncertainty, strict=True))
        # Later steps only add rounding once the table is this steady.
        if all(_largest(u) <= eps**0.6 * _largest(b) for u, b in zip(uncertainty, best, strict=True)):
            break
        previous = row
    return _Reference(best, uncertainty, "differences")


# The comparison.


@dataclass(frozen=True)
class _Check:
    """The settings of one call of `check_grads`, and the checks of one function, repeated for its derivatives."""

    modes: tuple[Mode, ...]
    rtol: float | None
    atol: float | None
    method: Method
    rng: np.random.Generator

    def run(self, problem: _Problem, order: int) -> None:
        with _named(problem.path) if problem.path != "f" else nullcontext():
            value = _arrays(problem.call(*(x.copy() for x in problem.point)))
        if not value:
            raise TypeError("check_grads: no result of float or complex dtype, so nothing to differentiate")
        tangents = tuple(self._direction(x) for x in problem.point)
        cotangents = tuple(self._direction(y) for y in value)
        # Nested derivatives are not analytic functions (reverse mode conjugates): no complex step for those.
        method: Method = self.method if problem.path == "f" else "differences"
        exact, references = problem.doubled(), []
        for index, name in enumerate(problem.names):
            only = slice(index, index + 1)
            reference = _reference(exact.alone(index), exact.point[only], tangents[only], method)
            if not all(np.all(np.isfinite(d)) for d in reference.derivative):
                raise AssertionError(f"{problem.path}, {name}: the reference ({reference.method}) is not finite here")
            references.append(reference)
        compare = _Comparison(problem, value, self.rtol, self.atol)
        pushed = compare.forward(tangents, references) if "fwd" in self.modes else None
        pulled = compare.reverse(tangents, cotangents, references) if "rev" in self.modes else None
        if pushed is not None and pulled is not None:
            compare.adjoint(tangents, cotangents, pushed, pulled)
        if order > 1:
            for mode in self.modes:
                derived = problem.forward(tangents) if mode == "fwd" else problem.reverse(cotangents)
                self.run(derived, order - 1)

    def _direction(self, array: Array) -> Array:
        """Random, away from zero, and no longer than the element it moves: a step stays inside log's domain, say."""
        size = np.abs(array)
        scale = np.where(size == 0, 1.0, np.clip(size, 1e-2, 1.0))
        direction = scale * self._signed(array.shape)
        if array.dtype.kind == "c":
            direction = direction + 1j * scale * self._signed(array.shape)
        return np.asarray(direction).astype(array.dtype)

    def _signed(self, shape: tuple[int, ...]) -> Array:
        return np.asarray(self.rng.uniform(0.5, 1.5, shape) * self.rng.choice([-1.0, 1.0], shape))


@dataclass(frozen=True)
class _Comparison:
    """Compares the derivatives of one problem with their references, and words what is wrong."""

    problem: _Problem
    value: Arrays
    rtol: float | None
    atol: float | None

    def forward(self, tangents: Arrays, references: Sequence[_Reference]) -> list[Arrays]:
        """J v, argument by argument against the references, and for all arguments together against their sum."""
        problem, path = self.problem, f"fwd({self.problem.path})"
        pushed = []
        for index, (name, reference) in enumerate(zip(problem.names, references, strict=True)):
            primal, tangent = problem.point[index : index + 1], tangents[index : index + 1]
            found = self._push(path, name, problem.alone(index), primal, tangent)
            rows = zip(self._labels(), found, reference.derivative, reference.uncertainty, strict=True)
            for label, got, expected, slack in rows:
                tolerance = self._tolerance(expected, 0.45)
                self._close(f"{path}, {name}{label}", got, expected, tolerance, reference.method, slack)
            pushed.append(found)
        if len(pushed) > 1:
            together = self._push(path, "all arguments together", problem.call, problem.point, tangents)
            for label, got, *parts in zip(self._labels(), together, *pushed, strict=True):
                tolerance = self._tolerance(sum(np.abs(part) for part in parts), 0.7)
                self._close(f"{path}, all arguments together{label}", got, sum(parts), tolerance, "sum over arguments")
        return pushed

    def reverse(self, tangents: Arrays, cotangents: Arrays, references: Sequence[_Reference]) -> Arrays:
        """J^T w, for all arguments together against the references, and argument by argument against the former."""
        problem, path = self.problem, f"rev({self.problem.path})"
        pulled = self._pull(path, problem.names, problem.call, problem.point, cotangents)
        for index, (name, reference) in enumerate(zip(problem.names, references, strict=True)):
            got, expected = _inner(pulled[index], tangents[index]), _weigh(cotangents, reference.derivative)
            tolerance = self._tolerance(_weigh_sizes(cotangents, reference.derivative), 0.45)
            if not abs(got - expected) <= tolerance:
                self._locate(path, index, pulled[index], cotangents)
                slack, where = _weigh_sizes(cotangents, reference.uncertainty), f"{path}, {name}, a random direction"
                self._close(where, got, expected, tolerance, reference.method, slack)
        if len(pulled) > 1:
            for index, name in enumerate(problem.names):
                primal = problem.point[index : index + 1]
                (alone,) = self._pull(path, (name,), problem.alone(index), primal, cotangents)
                tolerance = self._tolerance(pulled[index], 0.7)
                self._close(f"{path}, {name} alone", alone, pulled[index], tolerance, "all arguments together")
        return pulled

    def linear(self, where: str, rule: Callable[[Arrays], Arrays], u: Arrays, v: Arrays) -> None:
        """r(64 u) = 64 r(u) and r(3 u - v) = 3 r(u) - r(v)."""
        ru, rv = rule(u), rule(v)
        for what, p, q in (("64 times as much", 64, 0), ("a sum", 3, -1)):
            mixed = rule(tuple([p * a + q * b for a, b in zip(u, v, strict=True)]))
            for got, a, b in zip(mixed, ru, rv, strict=True):
                tolerance = self._tolerance(64 * np.abs(a) + np.abs(b), 0.7)
                self._close(f"{where} is not linear, at {what}", got, p * a + q * b, tolerance, "by linearity")

    def adjoint(self, tangents: Arrays, cotangents: Arrays, pushed: Sequence[Arrays], pulled: Arrays) -> None:
        """<J^T w, v> = <w, J v>, to rounding: far tighter than either mode against differences."""
        for name, tangent, push, pull in zip(self.problem.names, tangents, pushed, pulled, strict=True):
            path = f"fwd({self.problem.path}) and rev({self.problem.path}), {name}, adjoint identity"
            sizes = _weigh_sizes(cotangents, push) + _weigh_sizes((tangent,), (pull,))
            expected, got = _weigh(cotangents, push), _inner(pull, tangent)
            self._close(path, got, expected, self._tolerance(sizes, 0.7), "forward mode")

    def _push(self, path: str, name: str, call: FlatFunction, point: Arrays, tangents: Arrays) -> Arrays:
        with _named(f"{path}, {name}"):
            value, tangent = jvp(call, point, tangents)
            found = _arrays(_filled(tangent, value))
        self._value(f"{path}, {name}", value)
        for label, got, expected in zip(self._labels(), found, self.value, strict=True):
            self._form(f"{path}, {name}{label}", "tangent", got, "result", expected)
        return found

    def _pull(
        self, path: str, names: Sequence[str], call: FlatFunction, point: Arrays, cotangents: Arrays
    ) -> Arrays:
        together = ", ".join(names)
        with _named(f"{path}, {together}"):
            value, pullback = vjp(call, *point)
            found = _arrays(_filled(pullback(cotangents), point))
            again = _arrays(_filled(pullback(cotangents), point))
        self._value(f"{path}, {together}", value)
        for name, got, expected in zip(names, found, point, strict=True):
            self._form(f"{path}, {name}", "gradient", got, "argument", expected)
        for name, got, expected in zip(names, again, found, strict=True):
            # Other numbers mean that a rule wrote into what the tape keeps.
            where = f"{path}, {name}, the pullback called again"
            self._close(where, got, expected, self._tolerance(expected, 0.7), "first call")
        return found

    def _value(self, path: str, value: Sequence[Any]) -> None:
        """The value is that of the function outside differentiation."""
        if len(value) != len(self.value):
            raise AssertionError(f"{path}: {len(value)} results, without differentiation {len(self.value)}")
        for label, got, expected in zip(self._labels(), _arrays(value), self.value, strict=True):
            where = f"{path}{label}, value"
            self._form(where, "value", got, "plain value", expected)
            self._close(where, got, expected, self._tolerance(expected, 0.7), "plain evaluation")

    def _form(self, where: str, what: str, got: Array, of: str, expected: Array) -> None:
        for form in ("shape", "dtype"):
            if getattr(got, form) != getattr(expected, form):
                wanted = getattr(expected, form)
                raise AssertionError(f"{where}: the {what} has {form} {getattr(got, form)}, the {of} {wanted}")

    def _tolerance(self, expected: Any, digits: float) -> float:
        """`digits` is the share of the dtype's digits that must agree."""
        arrays = self.problem.point + self.value
        eps, scale = _eps(arrays), max(map(_largest, arrays))
        rtol = self.rtol if self.rtol is not None else eps**digits
        # A derivative that is zero because terms cancel comes out as their rounding, in single precision 0.1 rtol.
        atol = self.atol if self.atol is not None else max(1e-3 * rtol, 16.0 * eps) * scale
        return atol + rtol * _largest(expected)

    def _close(
        self, where: str, got: Any, expected: Any, tolerance: float, source: str, uncertainty: Any = 0.0
    ) -> None:
        got, expected = np.asarray(got), np.asarray(expected)
        if not got.size:
            return
        error = np.where((got == expected) | (np.isnan(got) & np.isnan(expected)), 0.0, np.abs(got - expected))
        if np.all(error <= tolerance):
            return
        place = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
        position = f" at position {tuple(map(int, place))}" if place else ""
        doubt = float(np.broadcast_to(uncertainty, error.shape)[place])
        note = f"; its own uncertainty is {doubt:.1e}: a kink or an edge of the domain?" if doubt > tolerance else ""
        raise AssertionError(
            f"{where}: expected {expected[place]} ({source}{note}), got {got[place]}{position}; "
            f"max error {error[place]:.3g}, tolerance {tolerance:.3g}"
        )

    def _locate(self, path: str, index: int, pulled: Array, cotangents: Arrays) -> None:
        """Raise for the worst element of a gradient that is known to be wrong, if the argument is small enough."""
        point, name = self.problem.point[index], self.problem.names[index]
        if point.size > LOCATED:
            return
        exact = self.problem.doubled()
        units = (1.0, 1j) if point.dtype.kind == "c" else (1.0,)
        expected = np.zeros(point.shape, np.result_type(point.dtype, np.float64))
        for place in np.ndindex(point.shape):
            for unit in units:
                step = np.zeros_like(point)
                step[place] = unit
                reference = _reference(exact.alone(index), (point,), (step,), "differences")
                expected[place] += unit * _weigh(cotangents, reference.derivative)
        self._close(f"{path}, {name}", pulled, expected, self._tolerance(expected, 0.45), "differences")

    def _labels(self) -> tuple[str, ...]:
        return tuple(f", result {i}" for i in range(len(self.value))) if len(self.value) > 1 else ("",)


# Small helpers.


@contextmanager
def _named(where: str) -> Iterator[None]:
    """A derivative that cannot be computed is a failure like any other: with its place in the nesting."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{where}: raised {type(error).__name__}: {error}") from error


def _array(leaf: Any) -> Array:
    return np.asarray(leaf.numpy() if hasattr(leaf, "numpy") else leaf)


def _arrays(leaves: Sequence[Any]) -> Arrays:
    return tuple(map(_array, leaves))


def _varies(leaf: Any) -> bool:
    return (leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype).kind in "fc"


def _filled(derivatives: Sequence[Any], like: Sequence[Any]) -> tuple[Any, ...]:
    """Zeros in the place of derivatives that are absent."""
    pairs = zip(derivatives, like, strict=True)
    return tuple(np.zeros(array.shape, array.dtype) if d is None else d for d, array in pairs)


def _double(array: Array) -> Array:
    return array.astype(np.result_type(array.dtype, np.float64))


def _eps(arrays: Sequence[Array]) -> float:
    return max(float(np.finfo(array.dtype).eps) for array in arrays)


def _largest(array: Any) -> float:
    return float(np.max(np.abs(array), initial=0.0))


def _inner(a: Array, b: Array) -> float:
    """The real inner product, Re sum conj(a) b."""
    return math.fsum(np.ravel((np.conj(a) * b).real).tolist())


def _weigh(weights: Arrays, arrays: Arrays) -> float:
    return math.fsum(_inner(w, a) for w, a in zip(weights, arrays, strict=True))


def _weigh_sizes(weights: Arrays, arrays: Arrays) -> float:
    return _weigh(tuple(map(np.abs, weights)), tuple(map(np.abs, arrays)))
