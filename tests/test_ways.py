"""A way is straight: the calls and the files of ours that a small gradient passes through, counted by Python itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualtape as dt

PACKAGE = str(Path(dt.__file__).parent)


def way(run: Callable[[], object]) -> list[tuple[str, str]]:
    """The file and the name of each Python function of dualtape that is called, in order."""
    passed: list[tuple[str, str]] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            passed.append((frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return passed


def f(x: Any) -> Any:
    return np.sum(np.sin(x))


X = np.ones(3)
gradient = dt.grad(f)
WAYS: dict[str, tuple[Callable[[], object], int, int]] = {
    "gradient": (lambda: gradient(X), 30, 9),
    "Hessian-vector product": (lambda: dt.hvp(f, X, X), 65, 14),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_way_is_straight(name: str) -> None:
    run, calls, files = WAYS[name]
    run()  # what is only done once
    passed = way(run)
    assert len(passed) <= calls, passed
    assert len({file for file, _ in passed}) <= files, passed


def test_the_way_is_counted() -> None:
    longer = dt.grad(lambda x: np.sum(np.sin(np.cos(x))))
    assert len(way(lambda: longer(X))) > len(way(lambda: gradient(X)))
    assert not way(lambda: np.sin(X))
