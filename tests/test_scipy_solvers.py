"""SciPy's solvers, and what else expects arrays, take what the transforms return as it is.

The table of docs/scipy.md is made here: of each method, which derivatives it calls for, seen by counting the calls. The
optimum of each problem is known by hand, and the derivatives are checked against ones written by hand.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import pickle
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

import dualtape as dt

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scipy.md"
A = np.array([1.0, -0.5, 0.25])
TIMES = np.linspace(0.0, 2.0, 9)


# ------------------------------------------------------------------ problems, solved by hand
def bowl(x: Any) -> Any:
    """Convex, with the minimum 0 at A; its Hessian is positive everywhere, as dogleg demands."""
    return np.sum(np.cosh(x - A) - 1.0) + 0.5 * (np.sum(x) - 0.75) ** 2


def bowl_slope(x: Any) -> Any:
    return np.sinh(x - A) + (np.sum(x) - 0.75)


def equations(x: Any) -> Any:
    """Zero at A alone: sinh(x - A) plus a monotone coupling."""
    return np.sinh(x - A) + 0.5 * (np.sum(x) - 0.75)


def decay(t: Any, a: Any, b: Any) -> Any:
    return a * np.exp(-b * t)


def decay_slopes(t: Any, *p: Any) -> Any:
    """Of the parameters of ``decay``, a column each: a model of one vector has them as its Jacobian."""
    return dt.jacobian(lambda p: decay(t, *p))(np.array(p))


X0 = np.array([0.25, 0.5, 0.75])

MINIMIZE = (
    "Nelder-Mead Powell CG BFGS Newton-CG L-BFGS-B TNC COBYLA COBYQA SLSQP trust-constr dogleg trust-ncg trust-krylov "
    "trust-exact"
).split()
ROOT = "hybr lm broyden1 broyden2 anderson linearmixing diagbroyden excitingmixing krylov df-sane".split()
LEAST_SQUARES = ["trf", "dogbox", "lm"]


class Counted:
    """A function that counts its calls."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f, self.calls = f, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.f(*args)


SECOND: dict[str, Any] = {"hess": dt.hessian(bowl), "hessp": partial(dt.hvp, bowl)}
SOLVERS: dict[str, tuple[list[str], Callable[..., Any]]] = {
    "minimize": (MINIMIZE, lambda **given: optimize.minimize(bowl, X0, options={"maxiter": 9}, **given)),
    "least_squares": (LEAST_SQUARES, lambda **given: optimize.least_squares(equations, X0, max_nfev=9, **given)),
    "root": (ROOT, lambda **given: optimize.root(equations, X0, options={"maxiter": 9}, **given)),
    "curve_fit": (
        LEAST_SQUARES[::-1],
        lambda **given: optimize.curve_fit(decay, TIMES, decay(TIMES, 2.5, 1.5), [2, 1], **given),
    ),
}


def taken(solver: str, method: str) -> dict[str, bool]:
    """Which derivatives a method calls for if it is given them."""
    jac: dict[str, Any] = {
        "minimize": dt.grad(bowl),
        "least_squares": dt.jacobian(equations),
        "root": dt.jacobian(equations),
        "curve_fit": decay_slopes,
    }
    found = {"jac": False, "hess": False, "hessp": False}
    for name in list(found) if solver == "minimize" else ["jac"]:
        given = {"jac": Counted(jac[solver])}
        if name != "jac":
            given[name] = Counted(SECOND[name])
        # That something is not used, or lacking, or has not converged, is not asked.
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):
            SOLVERS[solver][1](method=method, **given)
        found |= {k: True for k, f in given.items() if f.calls}
    return found


def table() -> Iterator[str]:
    """The lines of the table on the page."""
    yield "| solver | method | `jac` | `hess` | `hessp` |"
    yield "| --- | --- | --- | --- | --- |"
    forms = {"minimize": "dt.grad(f)", "curve_fit": "slopes"}
    for solver, (methods, _) in SOLVERS.items():
        for method in methods:
            uses = taken(solver, method)
            form = {"jac": forms.get(solver, "dt.jacobian(f)"), "hess": "dt.hessian(f)", "hessp": "partial(dt.hvp, f)"}
            cells = [f"`{form[k]}`" if uses[k] else "" for k in form]
            yield f"| `{solver}` | `{method}` | " + " | ".join(cells) + " |"


def test_the_table_on_the_page_is_what_the_methods_call_for() -> None:
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert shown == list(table())


# ------------------------------------------------------------------ each method, to its end
def test_the_derivatives_are_those_of_the_hand() -> None:
    h = np.diag(np.cosh(X0 - A)) + 1.0
    v = np.array([1.0, -2.0, 0.5])
    for found, right in (
        (dt.grad(bowl)(X0), bowl_slope(X0)),
        (dt.hessian(bowl)(X0), h),
        (dt.hvp(bowl, X0, v), h @ v),
        (dt.jacobian(equations)(X0), np.diag(np.cosh(X0 - A)) + 0.5),
        (decay_slopes(TIMES, 2, 1), np.stack([np.exp(-TIMES), -2 * TIMES * np.exp(-TIMES)], 1)),
    ):
        assert type(found) is np.ndarray and np.allclose(found, right, rtol=1e-14, atol=1e-14)


GRADIENT = [m for m in MINIMIZE if m not in ("Nelder-Mead", "Powell", "COBYLA", "COBYQA")]
NEWTON = ["Newton-CG", "trust-constr", "dogleg", "trust-ncg", "trust-krylov", "trust-exact"]


@pytest.mark.parametrize("method", GRADIENT)
def test_minimize_with_a_gradient(method: str) -> None:
    more = {"hess": dt.hessian(bowl)} if method in NEWTON else {}
    found = optimize.minimize(bowl, X0, jac=dt.grad(bowl), method=method, tol=1e-9, **more)
    assert np.allclose(found.x, A, atol=1e-4)
    both = optimize.minimize(dt.value_and_grad(bowl), X0, jac=True, method=method, tol=1e-9, **more)
    assert np.array_equal(both.x, found.x)


@pytest.mark.parametrize("method", ["Newton-CG", "trust-constr", "trust-ncg", "trust-krylov"])
def test_minimize_with_products_of_the_hessian(method: str) -> None:
    found = optimize.minimize(bowl, X0, jac=dt.grad(bowl), hessp=partial(dt.hvp, bowl), method=method)
    assert np.allclose(found.x, A, atol=1e-4)


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "BFGS"])
def test_minimize_from_integers(method: str) -> None:
    assert np.allclose(optimize.minimize(bowl, [0, 1, 0], jac=dt.grad(bowl), method=method, tol=1e-9).x, A, atol=1e-4)


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_least_squares(method: str) -> None:
    found = optimize.least_squares(equations, X0, jac=dt.jacobian(equations), method=method)
    assert np.allclose(found.x, A, atol=1e-7)


@pytest.mark.parametrize("method", LEAST_SQUARES)
def test_curve_fit_from_integers(method: str) -> None:
    found, _ = optimize.curve_fit(decay, TIMES, decay(TIMES, 2.5, 1.5), p0=[2, 1], jac=decay_slopes, method=method)
    assert np.allclose(found, [2.5, 1.5], rtol=1e-7)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root(method: str) -> None:
    assert np.allclose(optimize.root(equations, X0, jac=dt.jacobian(equations), method=method).x, A, atol=1e-7)
    assert np.allclose(optimize.root(dt.grad(bowl), X0, jac=dt.hessian(bowl), method=method).x, A, atol=1e-7)


@pytest.mark.parametrize("method", ["newton", "halley"])
def test_root_of_a_number(method: str) -> None:
    f = lambda x: x**3 - 2.0  # noqa: E731
    slope = dt.grad(f)
    found = optimize.root_scalar(f, x0=1.0, fprime=slope, fprime2=dt.grad(slope), method=method)
    assert found.root == pytest.approx(2 ** (1 / 3), rel=1e-12)


def ring(x: Any) -> Any:
    return np.array([x[0] ** 2 + x[1] ** 2])


def weighted(x: Any, v: Any) -> Any:
    return np.sum(ring(x) * v)


@pytest.mark.parametrize("method", ["trust-constr", "SLSQP"])
def test_constraints(method: str) -> None:
    """The largest sum on the disc of radius 2 is at (sqrt 2, sqrt 2)."""
    f = lambda x: -np.sum(x)  # noqa: E731
    disc = optimize.NonlinearConstraint(ring, 0.0, 4.0, jac=dt.jacobian(ring))
    more: dict[str, Any] = {}
    if method == "trust-constr":
        more, disc.hess = {"hess": dt.hessian(f)}, dt.hessian(weighted)
    found = optimize.minimize(f, [0.5, 0.25], jac=dt.grad(f), constraints=disc, method=method, **more)
    assert np.allclose(found.x, np.sqrt(2), atol=1e-4)
    assert np.array_equal(dt.hessian(weighted)(np.ones(2), np.array([3.0])), 6 * np.eye(2))


def test_searches_of_the_whole_space() -> None:
    hopped = optimize.basinhopping(bowl, X0, niter=2, minimizer_kwargs={"jac": dt.grad(bowl), "method": "BFGS"}, rng=1)
    box = [(-2.0, 2.0)] * 3
    local = {"method": "SLSQP", "jac": dt.grad(bowl)}
    covered = optimize.shgo(bowl, box, options={"jac": dt.grad(bowl)}, minimizer_kwargs=local)
    annealed = optimize.dual_annealing(bowl, box, maxiter=5, minimizer_kwargs={"jac": dt.grad(bowl)}, rng=1)
    for found in (hopped, covered, annealed):
        assert np.allclose(found.x, A, atol=1e-4)


@pytest.mark.parametrize("method", ["BDF", "Radau", "LSODA"])
def test_stiff_equations(method: str) -> None:
    rhs = lambda t, y: np.array([-50.0 * y[0], y[0] - y[1]])  # noqa: E731
    jac = dt.jacobian(rhs, 1)
    end = integrate.solve_ivp(rhs, (0, 1), [1.0, 1.0], method, jac=jac, rtol=1e-6, atol=1e-8).y[:, -1]
    fast, slow = np.exp(-50.0), np.exp(-1.0)  # y1 = (1 + 1/49) e^-t - e^-50t / 49
    assert np.allclose(end, [fast, (1 + 1 / 49) * slow - fast / 49], atol=1e-5)


# ------------------------------------------------------------------ what else takes arrays
def test_files_and_figures() -> None:
    file = io.BytesIO()
    np.save(file, dt.grad(bowl)(X0))
    file.seek(0)
    assert np.array_equal(np.load(file), bowl_slope(X0))
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    line = axes.plot(X0, dt.grad(bowl)(X0))[0]
    axes.imshow(dt.hessian(bowl)(X0))
    figure.savefig(io.BytesIO())
    assert np.array_equal(line.get_ydata(), bowl_slope(X0))


def test_processes_take_functions_that_transforms_return() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(dt.grad(bowl), [X0, 2 * X0]))
    assert np.array_equal(found, [dt.grad(bowl)(X0), dt.grad(bowl)(2 * X0)])


RETURNED: dict[str, tuple[Callable[..., Any], Any]] = {
    "grad": (dt.grad(bowl), (X0,)),
    "value_and_grad": (dt.value_and_grad(bowl, (0,)), (X0,)),
    "jacfwd": (dt.jacfwd(equations, chunk=2), (X0,)),
    "jacrev": (dt.jacrev(equations), (X0,)),
    "jacobian": (dt.jacobian(equations, mode="reverse", explain=True), (X0,)),
    "hessian": (dt.hessian(bowl), (X0,)),
    "vmap": (dt.vmap(bowl), (np.stack([X0, A]),)),
    "of each other": (dt.vmap(dt.grad(dt.checkpoint(bowl))), (np.stack([X0, A]),)),
}


@pytest.mark.parametrize("name", [n for n in RETURNED if n != "of each other"])
def test_what_a_transform_returns_is_pickled(name: str) -> None:
    f, args = RETURNED[name]
    g = pickle.loads(pickle.dumps(f))
    assert (g.__name__, g.__doc__, g.__wrapped__) == (f.__name__, f.__doc__, f.__wrapped__)
    assert repr(g(*args)) == repr(f(*args))


def test_what_cannot_be_pickled_says_so() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(dt.grad(lambda x: x * x))


def test_a_solver_that_reads_numbers_inside_a_gradient_says_which() -> None:
    """brentq is compiled and does not look whether its function raised: Python makes a SystemError of it."""

    def root_of(a: Any) -> Any:
        return optimize.brentq(lambda x: x**2 - a, 0.0, 2.0)

    for call in (
        lambda: dt.grad(root_of)(2.0),
        lambda: dt.jvp(root_of, (2.0,), (1.0,)),
        lambda: dt.vjp(root_of, 2.0),
        lambda: dt.hvp(root_of, 2.0, 1.0),
        lambda: dt.jacobian(root_of, mode="forward")(2.0),
    ):
        with pytest.raises(TypeError, match=r"float\(\) of a Tensor.*scipy\.optimize.*brentq.*would lose"):
            call()
    # Newton's steps are Python, and are differentiated: the slope of sqrt(a) at 2.
    assert dt.grad(lambda a: optimize.newton(lambda x: x**2 - a, 1.0))(2.0) == pytest.approx(0.5 / np.sqrt(2.0))
