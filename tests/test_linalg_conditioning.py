"""E14: errors are as large as conditions and gaps say, and what breaks a rule or a reference turns a bar red."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dualtape.ops import factorisations, spectral
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.harness.errors import InputError
from experiments.linalg_conditioning import experiment, reference

QUICK = Config(quick=True, plot=False)


def failed() -> set[str]:
    result = experiment.run(QUICK)
    return {bar.id for bar in result.bars if not judge(bar, result.rows)["passed"]}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix of each kind: enough to see a fault."""
    conditioned, clustered = experiment.conditioned, experiment.clustered
    monkeypatch.setattr(experiment, "conditioned", lambda c: [x for x in conditioned(c) if x.condition == 1e8])
    monkeypatch.setattr(experiment, "clustered", lambda c: [x for x in clustered(c) if x.condition > 1e9])


def test_all_bars_hold() -> None:
    assert not failed()


def sign_of_gaps(patch: pytest.MonkeyPatch) -> None:
    right = spectral.gaps
    patch.setattr(spectral, "gaps", lambda *args: -right(*args))


def no_gaps_between_equals(patch: pytest.MonkeyPatch) -> None:
    right = spectral.gaps
    patch.setattr(spectral, "gaps", lambda *args: np.where(np.isnan(right(*args)), 0.0, right(*args)))


def diagonal_not_halved(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(factorisations, "lower_half", np.tril)


def reference_not_transposed(patch: pytest.MonkeyPatch) -> None:
    right = reference.of_inv
    patch.setattr(reference, "of_inv", lambda a: right(a)._replace(cotangent=lambda u: right(a).cotangent(u).T))


@pytest.mark.parametrize(
    ("fault", "red"),
    [
        (sign_of_gaps, {"eigenvectors-jvp", "eigenvectors-vjp", "singular-vectors-vjp", "projector-jvp"}),
        (no_gaps_between_equals, {"repeated-vectors"}),
        (diagonal_not_halved, {"cholesky-jvp", "cholesky-vjp"}),
        (reference_not_transposed, {"reference", "inv-vjp"}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
@pytest.mark.usefixtures("few")
def test_faults_turn_bars_red(
    fault: Callable[[pytest.MonkeyPatch], None], red: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert failed() >= red


def references(rng: Any) -> list[tuple[str, Any, Any, bool]]:
    a = rng.normal(size=(4, 4))
    s = a @ a.T + np.eye(4)
    v, u = np.linalg.eigh(s)[1], np.linalg.svd(a)[0]
    tall, b = rng.normal(size=(6, 3)), rng.normal(size=6)
    exact = reference.precisely
    return [
        ("inv", a, lambda: reference.of_inv(exact(a)), False),
        ("solve", a, lambda: reference.of_solve(exact(a), exact(b[:4])), False),
        ("logdet", a, lambda: reference.of_logdet(exact(a)), False),
        ("cholesky", s, lambda: reference.of_cholesky(exact(s)), True),
        ("qr", tall, lambda: reference.of_qr(exact(tall), np.ones(3, int)), False),
        ("least_squares", tall, lambda: reference.of_least_squares(exact(tall), exact(b)), False),
        ("eigenvectors", s, lambda: reference.of_eigenvectors(exact(s), v), True),
        ("eigenvalues", s, lambda: reference.of_eigenvalues(exact(s), v), True),
        ("projector", s, lambda: reference.of_projector(exact(s), v), True),
        ("singular_vectors", a, lambda: reference.of_singular_vectors(exact(a), u), False),
        ("singular_values", a, lambda: reference.of_singular_values(exact(a), u), False),
    ]


def test_without_mpmath_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "mpmath", None)
    with pytest.raises(InputError, match="pip install"):
        experiment.run(QUICK)


def test_references_are_confirmed_by_differences_in_80_digits() -> None:
    import mpmath  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    with mpmath.workdps(reference.DIGITS):
        for name, a, make, symmetric in references(rng):
            made = make()
            da = rng.normal(size=a.shape)
            da = reference.precisely((da + da.T) / 2 if symmetric else da)
            us = [reference.precisely(rng.normal(size=np.shape(y))) for y in made.value(reference.precisely(a))]
            assert reference.confirmed(made, reference.precisely(a), da, us) < 1e-40, name
