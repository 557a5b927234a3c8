"""E14: the error of a linear-algebra derivative is the condition of its problem times eps, and no more.

Both modes are held against 80 digits at the same doubles; the references are confirmed by differences in 80 digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

import dualtape as dt

from ..harness.config import Config
from ..harness.errors import InputError
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared.measure import EPS, Function
from . import reference

SPEC = Spec(
    id="E14",
    name="linalg_conditioning",
    title="accuracy of linear-algebra derivatives",
    claims=(
        Claim(
            "rules",
            "Products, inverses, determinants, factorisations and spectral decompositions have derivatives by rules of "
            "their own in both modes.",
            "M. Giles, Collected matrix derivative results, 2008, abstract",
            "R",
        ),
        Claim(
            "condition",
            "inv, solve, logdet and Cholesky lose what the condition number says, from 1 to 1e12, and no more.",
            "perturbation theory, confirmed by a pilot",
            "D",
        ),
        Claim(
            "near-machine-precision",
            "Derivatives of QR and of the symmetric eigenproblem come near machine precision.",
            "S. F. Walter & L. Lehmann, arXiv:1001.1654, abstract",
            "R",
        ),
        Claim(
            "gap",
            "Derivatives of eigenvectors and singular vectors lose eps / gap; what is symmetric in the values loses "
            "nothing.",
            "perturbation theory, confirmed by a pilot",
            "D",
        ),
        Claim(
            "composed",
            "The projector onto a cluster is well conditioned, and its derivative through single vectors loses eps / "
            "gap all the same: exact rules, composed, are not always accurate.",
            "derived, confirmed by a pilot",
            "D",
        ),
        Claim(
            "repeated",
            "Vectors of exactly equal values have no derivative: NaN, and no finite number.",
            "what the rules divide by",
            "D",
        ),
    ),
)
COLUMNS = (
    Column("study", "condition (of the matrix), gap (between two values) or repeated (values)"),
    Column("problem", "what is differentiated"),
    Column("n", "columns of the matrix"),
    Column("condition", "what an error of eps in the matrix is multiplied by: kappa, its square, or 1 / gap"),
    Column("draw", "number of the random direction"),
    Column("jvp_error", "error of the JVP, relative to the largest Frobenius norm along directions of this length"),
    Column("vjp_error", "error of the VJP, likewise"),
    Column("adjoint_gap", "|<VJP(u), dA> - <u, JVP(dA)>| / (|JVP| |u|)"),
    Column("reference_error", "distance of the reference from a difference in 80 digits, relative (first draw)"),
    Column("nan", "whether both derivatives are NaN (study repeated)"),
)
CLUSTER = (2.5, 3.5, 4.5, 5.5)  # beside 1 and 1 + gap
CONDITIONED = ("inv", "solve", "logdet", "cholesky", "qr", "least_squares")
GAPPED = ("eigenvectors", "singular_vectors", "projector", "eigenvalues", "singular_values")
VALUES = 'problem != "eigenvectors" and problem != "singular_vectors"'


class Case(NamedTuple):
    """A function, where it is differentiated, and its reference there."""

    problem: str
    n: int
    condition: float
    f: Function
    a: Any
    reference: Callable[[], Any]
    symmetric: bool = False


def run(config: Config) -> Result:
    if reference.mpmath is None:
        raise InputError("linalg_conditioning needs mpmath: pip install 'dualtape[experiments]'")
    rows: list[Row] = []
    with reference.mpmath.workdps(reference.DIGITS):
        cases = [("condition", case) for case in conditioned(config)]
        cases += [("gap", case) for case in clustered(config)]
        for study, case in config.track(cases, SPEC.name):
            rows += [{"study": study, **row} for row in rows_of(case, config)]
    rows += repeated()
    return Result(COLUMNS, rows, bars({}))


# ---------------------------------------------------------------------------------------------------------------------
# Matrices and what is made of them.


def orthogonal(n: int, rng: Any) -> Any:
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def conditioned(config: Config) -> Iterator[Case]:
    """Matrices with singular values from 1 to 10^-c."""
    for n in (6, 12):
        for c in (0, 4, 8, 12) if config.quick else range(13):
            rng = config.rng(f"{SPEC.name}/{n}/{c}")
            yield from square(n, 10.0**c, rng)
            if n == 12:
                yield from tall(10.0**c, rng)


def square(n: int, kappa: float, rng: Any) -> Iterator[Case]:
    """An n x n matrix of condition kappa, and a positive definite one."""
    values = np.geomspace(1, 1 / kappa, n)
    a = (orthogonal(n, rng) * values) @ orthogonal(n, rng).T
    s, b = with_eigenvalues(values, rng), rng.normal(size=n)
    exact, known = reference.precisely(a), reference.precisely(b)
    yield Case("inv", n, kappa, np.linalg.inv, a, lambda: reference.of_inv(exact))
    yield Case("solve", n, kappa, lambda a: np.linalg.solve(a, b), a, lambda: reference.of_solve(exact, known))
    yield Case("logdet", n, kappa, lambda a: np.linalg.slogdet(a)[1], a, lambda: reference.of_logdet(exact))
    yield Case("cholesky", n, kappa, np.linalg.cholesky, s, lambda: reference.of_cholesky(reference.precisely(s)), True)


def tall(kappa: float, rng: Any) -> Iterator[Case]:
    """A 12 x 6 matrix of condition kappa."""
    a = (orthogonal(12, rng)[:, :6] * np.geomspace(1, 1 / kappa, 6)) @ orthogonal(6, rng).T
    b = rng.normal(size=12)
    exact, known = reference.precisely(a), reference.precisely(b)
    signs = np.sign(np.diagonal(np.linalg.qr(a)[1])).astype(int)
    yield Case("qr", 6, kappa, lambda a: list(np.linalg.qr(a)), a, lambda: reference.of_qr(exact, signs))
    if kappa <= 1e6:  # its square is what counts: beyond that there are no digits left
        make = lambda: reference.of_least_squares(exact, known)  # noqa: E731
        yield Case("least_squares", 6, kappa**2, lambda a: least_squares(a, b), a, make)


def least_squares(a: Any, b: Any) -> Any:
    q, r = np.linalg.qr(a)
    return np.linalg.solve(r, q.T @ b)


def with_eigenvalues(values: Any, rng: Any) -> Any:
    q = orthogonal(len(values), rng)
    s = (q * values) @ q.T
    return (s + s.T) / 2


def clustered(config: Config) -> Iterator[Case]:
    """Matrices with two values that are close, and four others."""
    for k in (1, 4, 7, 10) if config.quick else range(1, 11):
        yield from close(10.0**-k, config.rng(f"{SPEC.name}/gap/{k}"))


def close(gap: float, rng: Any) -> Iterator[Case]:
    """A symmetric and a general matrix with two values that are `gap` apart."""
    values = np.array([1, 1 + gap, *CLUSTER])
    s, a = with_eigenvalues(values, rng), (orthogonal(6, rng) * values[::-1]) @ orthogonal(6, rng).T
    se, ae = reference.precisely(s), reference.precisely(a)
    v, u = np.linalg.eigh(s)[1], np.linalg.svd(a)[0]
    for problem, f, make in (
        ("eigenvectors", lambda s: np.linalg.eigh(s)[1], lambda: reference.of_eigenvectors(se, v)),
        ("eigenvalues", lambda s: np.linalg.eigh(s)[0], lambda: reference.of_eigenvalues(se, v)),
        ("logdet_of_eigenvalues", lambda s: np.sum(np.log(np.linalg.eigh(s)[0])), lambda: reference.of_logdet(se)),
        ("projector", projector, lambda: reference.of_projector(se, v)),
    ):
        yield Case(problem, 6, 1 / gap, f, s, make, True)
    for problem, f, make in (
        ("singular_vectors", lambda a: np.linalg.svd(a)[0], lambda: reference.of_singular_vectors(ae, u)),
        ("singular_values", lambda a: np.linalg.svd(a)[1], lambda: reference.of_singular_values(ae, u)),
    ):
        yield Case(problem, 6, 1 / gap, f, a, make)


def projector(s: Any) -> Any:
    v = np.linalg.eigh(s)[1][:, :2]
    return v @ v.T


# ---------------------------------------------------------------------------------------------------------------------
# Measuring.


def rows_of(case: Case, config: Config) -> list[Row]:
    """Both modes of one case, along a few directions."""
    exact = case.reference()
    rng = config.rng(f"{SPEC.name}/{case.problem}/{case.n}/{case.condition}")
    value, pull = dt.vjp(case.f, case.a)
    values = listed(value)
    rows: list[Row] = []
    pushes, pulls = [], []
    for draw in range(2 if config.quick else 5):
        da = rng.normal(size=case.a.shape)
        da = (da + da.T) / 2 if case.symmetric else da
        us = [rng.normal(size=v.shape) for v in values]
        tangents = listed(dt.jvp(case.f, (case.a,), (da,))[1])
        cotangent = pull(us if isinstance(value, list) else us[0])[0]
        cotangent = (cotangent + cotangent.T) / 2 if case.symmetric else cotangent
        exact_da, exact_us = reference.precisely(da), [reference.precisely(u) for u in us]
        pushes.append((tangents, exact.tangent(exact_da), norm([da])))
        pulls.append(([cotangent], [exact.cotangent(exact_us)], norm(us)))
        inner = sum(float(np.sum(u * t)) for u, t in zip(us, tangents, strict=True))
        rows.append(
            {
                "problem": case.problem,
                "n": case.n,
                "condition": case.condition,
                "draw": draw,
                "adjoint_gap": abs(float(np.sum(cotangent * da)) - inner) / (norm(tangents) * norm(us)),
            }
        )
        if draw == 0:
            rows[0]["reference_error"] = reference.confirmed(exact, reference.precisely(case.a), exact_da, exact_us)
    for row, pushed, pulled in zip(rows, errors(pushes), errors(pulls), strict=True):
        row |= {"jvp_error": pushed, "vjp_error": pulled}
    return rows


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def errors(found: list[tuple[list[Any], list[Any], float]]) -> list[float]:
    """Norms of errors, over those of the reference; where it is small by chance, over what other directions have."""
    most = max(norm(exact) / length for _, exact, length in found)
    return [distance(got, exact) / (most * length) for got, exact, length in found]


def norm(arrays: list[Any]) -> float:
    return float(sum(np.sum(np.square(x)) for x in arrays)) ** 0.5


def distance(found: list[Any], exact: list[Any]) -> float:
    """Frobenius norm of the error."""
    return norm([np.asarray(x) - y for x, y in zip(found, exact, strict=True)])


def repeated() -> Iterator[Row]:
    """Equal values: derivatives of vectors, and of what is symmetric in the values."""
    s = np.diag([1.0, 1.0, *CLUSTER])
    da = np.add.outer(np.arange(6.0), np.arange(6.0)) / 10
    for problem, f, exact in (
        ("eigenvectors", lambda s: np.linalg.eigh(s)[1], None),
        ("singular_vectors", lambda s: np.linalg.svd(s)[0], None),
        ("logdet_of_eigenvalues", lambda s: np.sum(np.log(np.linalg.eigh(s)[0])), np.diag(1 / np.diagonal(s))),
        ("sum_of_singular_values", lambda s: np.sum(np.linalg.svd(s)[1]), np.eye(6)),
    ):
        value, pull = dt.vjp(f, s)
        tangent, cotangent = dt.jvp(f, (s,), (da,))[1], pull(np.ones(np.shape(value)))[0]
        row: Row = {"study": "repeated", "problem": problem, "n": 6, "condition": None, "draw": 0}
        if exact is None:
            row["nan"] = int(np.any(np.isnan(tangent)) and np.any(np.isnan(cotangent)))
        else:
            row["jvp_error"] = distance([tangent], [np.sum(exact * da)]) / abs(float(np.sum(exact * da)))
            row["vjp_error"] = distance([cotangent], [exact]) / norm([exact])
        yield row


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """Condition numbers and gaps, from above; that losses are real, from below."""
    found = [Bar("reference", 'max(reference_error, draw == 0 and study != "repeated")', "<=", 1e-15)]
    for mode in ("jvp", "vjp"):
        for problem in CONDITIONED:
            scaled = f'max({mode}_error / (10 * n * condition), problem == "{problem}")'
            found.append(Bar(f"{problem.replace('_', '-')}-{mode}", scaled, "<=", EPS))
        for problem in GAPPED:
            scaled = f'max({mode}_error / condition, problem == "{problem}" and study == "gap")'
            found.append(Bar(f"{problem.replace('_', '-')}-{mode}", scaled, "<=", 100 * EPS))
        for problem in ("eigenvectors", "singular_vectors", *(("projector",) if mode == "jvp" else ())):
            # (In reverse mode the terms that are divided by the gap may cancel exactly for the projector.)
            lost = f'max({mode}_error, problem == "{problem}" and study == "gap" and condition >= 1e9)'
            found.append(Bar(f"{problem.replace('_', '-')}-lose-{mode}", lost, ">=", 1e-9))
        kept = f'max({mode}_error, problem == "logdet_of_eigenvalues" and study == "gap")'
        found.append(Bar(f"logdet-of-eigenvalues-{mode}", kept, "<=", 1e-12))
        found.append(Bar(f"symmetric-{mode}", f'max({mode}_error, study == "repeated" and {VALUES})', "<=", 1e-14))
    # Both modes divide by one factorisation, but for solve (by that of A, and of A^T) and what is composed.
    apart = 'problem != "solve" and problem != "projector"'
    found += [
        Bar("adjoint", f'max(adjoint_gap, study != "repeated" and {apart})', "<=", 1e-12),
        Bar("adjoint-solve", 'max(adjoint_gap / (10 * n * condition), problem == "solve")', "<=", EPS),
        Bar("adjoint-projector", 'max(adjoint_gap / condition, problem == "projector")', "<=", 100 * EPS),
        Bar("repeated-vectors", f'min(nan, study == "repeated" and not ({VALUES}))', "==", 1),
    ]
    return found
