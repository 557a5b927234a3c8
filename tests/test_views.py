"""Slices and reshapes are views as NumPy's are: what is written through one is read through all the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.testing import check_grads

X = np.array([1.5, 2.5, 3.25, 4.0])


def stencil(u: Any) -> Any:
    u = u * 1.0
    left, mid, right = u[:-2], u[1:-1], u[2:]
    for _ in range(3):
        mid += 0.1 * (left - 2 * mid + right)
    return np.sum(u**2)


def overlapping(u: Any) -> Any:
    z = u * 1.0
    a, b = z[0:3], z[1:4]
    a += u[0]
    b *= 2
    return np.sum(z * np.arange(1.0, 5.0)) + np.sum(a * b)


def owner_written(u: Any) -> Any:
    z = np.outer(u, u)
    row = z[0]
    z *= 2
    return np.sum(row)


def through_ravel(u: Any) -> Any:
    z = np.outer(u, u)
    z.ravel()[::5] += u
    return np.sum(z**2)


def through_reshape(u: Any) -> Any:
    z = np.outer(u, u)
    z.reshape(-1)[0] = u[1]
    return np.sum(z**2)


def through_transpose(u: Any) -> Any:
    z = np.outer(u, u)
    for column in z.T:
        column /= np.sqrt(np.sum(column**2))
    return np.sum(z * np.arange(16.0).reshape(4, 4))


def through_many(u: Any) -> Any:
    z = np.outer(u, u)
    np.atleast_2d(z)[0, 0] = 3
    z[::-1][0] *= u[0]
    z[:, None][1] += 1
    z[1:3][0][1:] = u[0]
    np.swapaxes(z, 0, 1)[2] -= u
    np.flip(z, 1)[0] = u
    return np.sum(z * np.arange(16.0).reshape(4, 4))


def rows_and_transpose(u: Any) -> Any:
    z = np.outer(u, u)
    rows, t = [z[i] for i in range(4)], z.T
    z[1, 2] = u[0]
    rows[1][0] = u[1] * 2
    t[3] *= u
    return np.sum(z * np.arange(16.0).reshape(4, 4) + t) + np.sum(rows[1] ** 2)


def views_of_views(u: Any) -> Any:
    z = u * 1.0
    y = z[1:]
    w = y[1:]
    w[0] = u[0] * u[1]
    y[0] *= 3
    z[2] += 1
    return np.sum(z * y[0]) + np.sum(w**2)


def through_a_function(u: Any) -> Any:
    def shift(a: Any) -> None:
        a -= u[0]
        a %= 2.0

    z = u * 1.0
    shift(z[1:])
    return np.sum(z**2)


PROGRAMS = [
    stencil,
    overlapping,
    owner_written,
    through_ravel,
    through_reshape,
    through_transpose,
    through_many,
    rows_and_transpose,
    views_of_views,
    through_a_function,
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_that_write_through_views(f: Callable[[Any], Any]) -> None:
    """Value and derivatives are those of the NumPy program, in both modes and to second order."""
    assert float(dt.value_and_grad(f)(X)[0]) == pytest.approx(float(f(X.copy())), rel=1e-13)
    check_grads(f, (X,), order=2)


def test_what_was_computed_before_a_write_keeps_its_values() -> None:
    """A tape holds what it was given, not what the handle says later."""
    x = dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        z = x * 1.0
        part = z[1:]
        total = np.sum(part * part)
        z[1:] = 7.0
    assert np.asarray(part).tolist() == [7.0, 7.0, 7.0]
    assert np.asarray(tape.gradient(total, x)).tolist() == [0.0, 5.0, 6.5, 8.0]


@pytest.mark.parametrize("cut", [lambda z: np.broadcast_to(z, (2, 4, 4)), np.diagonal])
def test_views_that_numpy_does_not_let_be_written(cut: Callable[[Any], Any]) -> None:
    """Writing into them raises."""
    z = dt.constant(np.outer(X, X)) * 1.0
    view = cut(z)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0


def test_a_view_of_a_source_cannot_be_written() -> None:
    """The gradient by the source would be ambiguous."""

    def f(x: Any) -> Any:
        x[1:][0] = 2.0
        return np.sum(x)

    with pytest.raises(ValueError, match="copy"):
        dt.grad(f)(X)


def test_slices_in_a_loop_leave_nothing_behind() -> None:
    """An owner forgets its views when they are gone."""
    z = dt.constant(np.zeros(10)) * 1.0
    for k in range(5000):
        z[k % 8 : k % 8 + 2]
    assert len(z._views) < 200


def test_an_index_written_later_does_not_move_a_view() -> None:
    """A view remembers where it was cut, not what the index says now."""
    z, k = dt.constant(np.outer(X, X)) * 1.0, dt.constant(1)
    row = z[k]
    k[...] = 2
    z += 1.0
    assert np.array_equal(np.asarray(row), X[1] * X + 1.0)
