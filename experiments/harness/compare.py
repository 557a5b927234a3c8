"""One's own function: what its derivatives cost in each mode, predicted, performed, measured; how right they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import dualtape as dt

from . import clock
from .clock import Effort
from .console import Console
from .user_function import UserFunctionError, attribute, module

# So many entries of a derivative are compared with the reference, and so many sweeps timed.
SAMPLE = 32
ORDERS = {"fr": "forward over reverse", "rf": "reverse over forward", "rr": "reverse over reverse"}
LONG = np.longdouble
DIGITS = 50


@dataclass(frozen=True)
class Subject:
    """A function of one flat array, made of the user's and his arguments."""

    name: str
    f: Callable[[Any], Any]
    x: Any
    outputs: int


@dataclass(frozen=True)
class Way:
    """A way to the whole derivative."""

    name: str
    sweeps: int
    predicted: float | None  # flops, over those of the function
    performed: float | None
    seconds: float
    error: float | None
    nbytes: int | None = None


# ------------------------------------------------------------------ the function and its arguments
def load(target: str, at: list[float] | None, npz: Path | None, maker: str | None) -> Subject:
    """The function that FILE:FUNCTION names, of the arguments given, as a function of one flat array."""
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UserFunctionError(f"compare takes FILE:FUNCTION, for example model.py:energy, not {target!r}")
    if sum(given is not None for given in (at, npz, maker)) != 1:
        raise UserFunctionError("say where: one of --at VALUE..., --args FILE.npz, --make FUNCTION")
    found = module(Path(file))
    f = attribute(found, name)
    if at is not None:
        args: tuple[Any, ...] = (np.array(at)[()] if len(at) > 1 else np.float64(at[0]),)
    elif npz is not None:
        args = arrays_of(npz)
    else:
        made = call(attribute(found, str(maker)), f"{maker}()")
        args = tuple(made) if isinstance(made, (tuple, list)) else (made,)
    arrays = [np.asarray(a) for a in args]
    for k, a in enumerate(arrays):
        if a.dtype.kind not in "fiu":
            raise UserFunctionError(f"argument {k} has dtype {a.dtype}: compare takes real numbers")
        if not np.all(np.isfinite(a)):
            raise UserFunctionError(f"argument {k} is not finite everywhere")
    return flat(f"{Path(file).name}:{name}", f, [a.astype(float) if a.dtype.kind in "iu" else a for a in arrays])


def arrays_of(path: Path) -> tuple[Any, ...]:
    """The arrays of a file, in their order."""
    try:
        with np.load(path) as held:
            return tuple(held[key] for key in held.files)
    except FileNotFoundError:
        raise UserFunctionError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise UserFunctionError(f"{path} holds no arrays: {error}") from None


def call(f: Callable[..., Any], what: str, *args: Any) -> Any:
    """The result of a function of the user's, or an error that says what he called."""
    try:
        return f(*args)
    except Exception as error:
        raise UserFunctionError(f"{what} cannot be evaluated: {type(error).__name__}: {error}") from error


def flat(name: str, f: Callable[..., Any], arrays: list[Any]) -> Subject:
    """The function of all arguments laid one after the other; its results likewise."""
    ends = np.cumsum([a.size for a in arrays])

    def joined(x: Any) -> Any:
        parts = [
            np.reshape(x[end - a.size : end], a.shape) if a.shape else x[end - 1]
            for a, end in zip(arrays, ends, strict=True)
        ]
        return f(*parts)

    x = np.concatenate([a.ravel() for a in arrays])
    if not x.size:
        raise UserFunctionError("the arguments have no numbers to differentiate by")
    value = call(joined, f"{name}", x)
    if isinstance(value, (tuple, list, dict)) or value is None:
        raise UserFunctionError(f"{name} is to return one array or number, not a {type(value).__name__}")
    result = np.asarray(value)
    if result.dtype.kind not in "f":
        raise UserFunctionError(f"{name} returns dtype {result.dtype}: compare takes real results")
    if not np.all(np.isfinite(result)):
        raise UserFunctionError(f"{name} is not finite there: choose another point")
    tried: dict[str, Callable[[], Any]] = {
        "forward": lambda: dt.jvp(joined, (x,), (np.ones_like(x),)),
        "reverse": lambda: pulled(joined, x),
    }
    for mode, differentiate in tried.items():
        try:
            differentiate()
        except Exception as error:
            raise UserFunctionError(
                f"{name} cannot be differentiated in {mode} mode: {type(error).__name__}: {error}"
            ) from error
    return Subject(name, joined, x, int(result.size))


def pulled(f: Callable[[Any], Any], x: Any) -> Any:
    """One reverse sweep, all cotangents 1."""
    y, pullback = dt.vjp(f, x)
    return pullback(np.ones_like(np.asarray(y)))[0]


# ------------------------------------------------------------------ a true reference
def reference(subject: Subject, places: Any) -> tuple[Any, str]:
    """Columns of the Jacobian at some places in more than double precision (None if in no way), and how."""
    columns = {"complex step in extended precision": by_complex_step, f"mpmath, {DIGITS} digits": by_mpmath}
    for how, column in columns.items():
        try:
            with np.errstate(all="ignore"):
                found = [column(subject, int(k)) for k in places]
        except Exception:  # whatever a function does that was not written for such numbers
            continue
        if all(c is not None and np.all(np.isfinite(np.asarray(c, LONG))) for c in found):
            return np.stack([np.asarray(c, LONG) for c in found]), how
    return None, "none: the function takes neither complex numbers of extended precision nor mpmath's"


def by_complex_step(subject: Subject, k: int) -> Any:
    """Im f(x + ih e_k) / h (Squire & Trapp 1998), where f stays in extended precision and is analytic."""
    step = LONG("1e-2000") if np.finfo(LONG).maxexp > 2000 else LONG(1e-200)
    x = subject.x.astype(np.clongdouble)
    value = np.asarray(subject.f(x))
    x[k] += step * 1j
    moved = np.asarray(subject.f(x))
    plain = np.asarray(subject.f(subject.x))
    same = moved.dtype == np.clongdouble and np.allclose(value.real.astype(float), plain, rtol=1e-12, atol=0)
    if not same or np.any(value.imag != 0):
        return None
    found = np.ravel(moved.imag) / step
    # An analytic function has the same slope along both axes; abs and conj have not.
    h = 1e-6 * max(1.0, abs(subject.x[k]))
    there, back = subject.x.copy(), subject.x.copy()
    there[k] += h
    back[k] -= h
    rough = np.ravel(np.asarray(subject.f(there)) - np.asarray(subject.f(back))) / (2 * h)
    size = np.max(np.abs(rough)) + np.max(np.abs(plain))
    return found if np.all(np.abs(found.astype(float) - rough) <= 1e-4 * max(size, 1e-300)) else None


def by_mpmath(subject: Subject, k: int) -> Any:
    """A central difference with 50 digits and a step of 1e-20, on objects that NumPy calls by their methods."""
    from mpmath import mp, mpf  # type: ignore[import-untyped]

    with mp.workdps(DIGITS):
        h, sides = mpf(10) ** -20, []
        for sign in (1, -1):
            x = np.array([mpf(float(v)) for v in subject.x], object)
            x[k] += sign * h
            sides.append(np.ravel(np.asarray(subject.f(x), object)))
        if any(not isinstance(v, mpf) for side in sides for v in side):
            return None
        return np.array([LONG(mp.nstr((a - b) / (2 * h), 30)) for a, b in zip(*sides, strict=True)])


# ------------------------------------------------------------------ the ways
def ways(subject: Subject, effort: Effort) -> tuple[list[Way], list[Way], str]:
    """All ways to the derivative, those to a Hessian-vector product, and what the reference is."""
    f, x, n, m = subject.f, subject.x, subject.x.size, subject.outputs
    cost = dt.inspect.cost(f, x)
    base, once = cost.evaluation.weigh("flops") or 1, cost.evaluation + cost.partials
    places = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int))
    known, how = reference(subject, places)
    y = np.asarray(f(x))
    performed = {"f": performed_flops(f, x)}
    performed["forward"] = performed_flops(lambda a, t: dt.jvp(f, (a,), (t,))[1], x, np.full(n, 0.5))
    performed["reverse"] = performed_flops(lambda a, g: dt.vjp(f, a)[1](g), x, np.full(y.shape, 0.5)[()])

    def scaled(work: float | None, times: int) -> float | None:
        return None if work is None or not performed["f"] else work * times / performed["f"]

    eye = np.eye(n)[places] if n <= 4096 else np.stack([unit(n, k) for k in places])
    _, push = dt.linearize(f, x)
    rows = min(m, SAMPLE)
    seeds = [unit(m, int(k)).reshape(y.shape)[()] for k in np.linspace(0, m - 1, rows).astype(int)]
    calls: dict[str, Callable[[], Any]] = {
        "f": lambda: f(x),
        "forward": lambda: [np.asarray(dt.jvp(f, (x,), (t,))[1]) for t in eye],
        "linearised": lambda: [np.asarray(push(t)) for t in eye],
        "linearize": lambda: dt.linearize(f, x),
        "batched": lambda: dt.jacfwd(f)(x),
        "reverse": lambda: [np.asarray(dt.vjp(f, x)[1](g)[0]) for g in seeds],
        "differences": lambda: [difference(f, x, int(k), y) for k in places],
    }
    times = {name: result.least for name, result in clock.interleaved(calls, effort).items()}
    f_seconds, share = times["f"], n / len(places)
    jacobian = {
        "forward": np.stack([np.ravel(c) for c in calls["forward"]()]),
        "linearised": np.stack([np.ravel(c) for c in calls["linearised"]()]),
        "batched": np.moveaxis(np.asarray(calls["batched"]()), -1, 0).reshape(n, -1)[places],
        "reverse": np.asarray(dt.jacrev(f)(x)).reshape(m, n).T[places],
        "differences": np.stack([np.ravel(c) for c in calls["differences"]()]),
    }

    def error(name: str) -> float | None:
        if known is None:
            return None
        size = np.max(np.abs(known)) or LONG(1)
        return float(np.max(np.abs(jacobian[name] - known)) / size)

    tangent, adjoint = cost.tangent.weigh("flops"), cost.adjoint.weigh("flops")
    first = once.weigh("flops")
    found = [
        Way("reverse, a sweep a result", m, (first + adjoint) * m / base, scaled(performed["reverse"], m),
            times["reverse"] * m / rows / f_seconds, error("reverse"), cost.nbytes),
        Way("forward, a sweep an argument", n, (first + tangent) * n / base, scaled(performed["forward"], n),
            times["forward"] * share / f_seconds, error("forward"), 0),
        Way("forward, linearised once", n, (first + tangent * n) / base, None,
            (times["linearize"] + times["linearised"] * share) / f_seconds, error("linearised"), cost.nbytes),
        Way("forward, all at once", 1, (first + tangent * n) / base, None, times["batched"] / f_seconds,
            error("batched"), None),
        Way("forward differences", n + 1, float(n + 1), float(n + 1), times["differences"] * share / f_seconds,
            error("differences"), 0),
    ]  # fmt: skip
    return found, products(subject, effort, base, performed["f"]) if m == 1 and not y.shape else [], how


def products(subject: Subject, effort: Effort, base: float, performed_f: float | None) -> list[Way]:
    """A Hessian-vector product in each nesting, of the same direction."""
    f, x = subject.f, subject.x
    v = np.random.default_rng(0).normal(size=x.size)
    calls = {order: (lambda order=order: dt.hvp(f, x, v, order=order)) for order in ORDERS}  # type: ignore[misc]
    times = clock.interleaved({"f": lambda: f(x), **calls}, effort)
    first = np.asarray(calls["fr"]())
    found = []
    for order, name in ORDERS.items():
        work = performed_flops(lambda a, t, order=order: dt.hvp(f, a, t, order=order), x, v)
        gap = float(np.max(np.abs(np.asarray(calls[order]()) - first)) / (np.max(np.abs(first)) or 1.0))
        ratio = None if work is None or not performed_f else work / performed_f
        found.append(Way(name, 1, None, ratio, times[order].least / times["f"].least, gap))
    return found


def performed_flops(program: Callable[..., Any], *args: Any) -> float | None:
    """Flops that a program performs; None if a call has no formula, or it cannot be traced."""
    try:
        count = dt.inspect.performed(program, *args)
    except Exception:  # a function that looks at its numbers
        return None
    return None if count.uncounted else float(count.work.weigh("flops"))


def unit(n: int, k: int) -> Any:
    """The k-th direction of n."""
    direction = np.zeros(n)
    direction[k] = 1.0
    return direction


def difference(f: Callable[[Any], Any], x: Any, k: int, y: Any) -> Any:
    """One column by a forward difference."""
    h = np.sqrt(np.finfo(float).eps) * max(1.0, abs(x[k]))
    moved = x.copy()
    moved[k] += h
    return (np.asarray(f(moved)) - y) / (moved[k] - x[k])


# ------------------------------------------------------------------ what is said
def advice(subject: Subject, found: list[Way]) -> str:
    """Which mode to choose, and why."""
    n, m = subject.x.size, subject.outputs
    best = min(found[:4], key=lambda way: way.seconds)
    by_count = "reverse" if m < n else "forward"
    text = f"{n} argument(s), {m} result(s): {by_count} mode needs fewer sweeps ({min(m, n)} against {max(m, n)}). "
    text += f"Fastest here: {best.name}, {best.seconds:.1f} times the function."
    if not best.name.startswith(by_count):
        text += " The count of sweeps would have said otherwise: what a sweep costs in Python decides at this size."
    return text


def run(subject: Subject, out: Path, quick: bool, plot: bool, console: Console) -> int:
    """Compare, show, and write compare.json, compare.md and a figure; the exit status."""
    effort = Effort(1e-3, 3, 0.5, fewest=1) if quick else Effort(1e-2, 9, 3.0, fewest=2)
    found, second, how = ways(subject, effort)
    head = ["way to the derivative", "sweeps", "predicted", "performed", "measured", "error", "tape"]
    rows = [
        [w.name, str(w.sweeps), shown(w.predicted), shown(w.performed), shown(w.seconds),
         "not known" if w.error is None else f"{w.error:.0e}", "" if w.nbytes is None else f"{w.nbytes} B"]
        for w in found
    ]  # fmt: skip
    console.table(f"{subject.name}: times the function, flops (predicted, performed) and time (measured)", head, rows)
    if second:
        console.table(
            "Hessian-vector products (error: distance from forward over reverse)",
            ["nesting", "performed", "measured", "error"],
            [[w.name, shown(w.performed), shown(w.seconds), f"{w.error:.0e}"] for w in second],
        )
    said = advice(subject, found)
    console.say(f"Reference: {how}.")
    console.say(said)
    folder = out / "compare"
    folder.mkdir(parents=True, exist_ok=True)
    document = {"function": subject.name, "inputs": subject.x.size, "outputs": subject.outputs, "reference": how}
    document |= {"ways": [w.__dict__ for w in found], "hvp": [w.__dict__ for w in second], "advice": said}
    (folder / "compare.json").write_text(json.dumps(document, indent=1))
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|", *[f"| {' | '.join(row)} |" for row in rows]]
    text = [f"# {subject.name}", "", *lines, "", f"Reference: {how}.", "", said, ""]
    (folder / "compare.md").write_text("\n".join(text))
    if plot:
        try:
            import_module("experiments.harness.compare_figure").draw(
                subject.name, [*found, *second], folder / "compare.png"
            )
        except ImportError:
            console.say("no figure: matplotlib is not installed")
    console.say(f"{folder}/")
    return 0


def shown(ratio: float | None) -> str:
    """A ratio for people."""
    return "" if ratio is None else f"{ratio:.3g}"
