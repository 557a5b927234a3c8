"""inspect.performed: what programs perform, against counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.facts.costs import Work
from dualtape.inspect import performed

X, M = np.linspace(0.5, 1.5, 10), np.ones((3, 4))

# Functions of arrays, and their work by hand: elements read and written, additions, multiplications, nonlinear.
COUNTS: dict[str, Any] = {
    "sum": (np.sum, (X,), Work(11, 9, 0, 0)),
    "product of numbers": (lambda x: x * 2.0, (X,), Work(20, 0, 10, 0)),
    "sine of a sum": (lambda x, y: np.sin(x + y), (X, X), Work(50, 10, 0, 10)),
    "broadcast": (lambda x, y: x * y, (X, np.float64(2.0)), Work(21, 0, 10, 0)),
    "matrix product": (lambda a, b: a @ b, (M, np.ones((4, 5))), Work(12 + 20 + 15, 3 * 3 * 5, 3 * 4 * 5, 0)),
    "one element": (lambda x: x[0], (np.ones(1000),), Work(2, 0, 0, 0)),
    "a slice": (lambda x: x[2:5], (X,), Work(6, 0, 0, 0)),
    "mean": (np.mean, (X,), Work(11 + 2, 9, 1, 0)),
    "twice the same": (lambda x: np.sin(x) + np.sin(x), (X,), Work(70, 10, 0, 20)),
    "cumulative sum": (np.cumsum, (X,), Work(20, 9, 0, 0)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_work_is_what_it_is_by_hand(name: str) -> None:
    f, args, work = COUNTS[name]
    found = performed(f, *args)
    assert found.work == work and not found.uncounted


def test_derivatives_are_counted_as_they_run() -> None:
    """A gradient of sum(x_i^2) with a cotangent g: x + x, g spread, one product."""
    found = performed(lambda x, g: dt.vjp(lambda x: np.sum(np.square(x)), x)[1](g), X, 1.0)
    assert found.work[1:] == (9 + 10, 10 + 10, 0)


def test_slices_are_added_into_one_array() -> None:
    """d/dx sum(x[1:] x[:-1]): two products, one of which is put into zeros and the other added."""
    found = performed(lambda x, g: dt.vjp(lambda x: np.sum(x[1:] * x[:-1]), x)[1](g), X, 1.0)
    assert found.work[1:] == (8 + 9, 9 + 18, 0)


def test_what_is_not_counted_is_named() -> None:
    found = performed(lambda m: np.linalg.inv(m) + np.linalg.inv(m), np.eye(2))
    assert found.uncounted == {"inv": 2} and found.work.adds == 4


def test_declared_work_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from dualtape.core.lookup import ROWS

    before = performed(np.sin, X).work
    monkeypatch.setattr(ROWS["sin"], "work", None)
    assert performed(np.sin, X).work == before
