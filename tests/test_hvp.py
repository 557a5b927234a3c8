"""Hessian-vector products: the bytes a tape says it keeps are those that the allocator gave away for it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.inspect import release_memory
from experiments.hvp import experiment as hvp
from experiments.hvp import problems


def arrays_alive(case: problems.Case, composition: str) -> int:
    """Bytes of all arrays made since the start and alive when f has been evaluated inside the composition."""
    held: list[int] = []

    def probed(*xs: Any) -> Any:
        value = case.f(*xs)
        arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        held.append(sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces))
        return value

    release_memory()
    tracemalloc.start()
    try:
        if composition == "gradient":
            dt.grad(probed, tuple(range(case.size)))(*case.xs)
        else:
            dt.hvp(probed, case.xs, case.v, composition)
    finally:
        tracemalloc.stop()
    return held[0]


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize(("composition", "kept"), [("gradient", 1), ("fr", 2)])
def test_tapes_keep_the_bytes_that_numpy_allocated(depth: int, composition: str, kept: int) -> None:
    """Alive beside what the tape keeps: the first matrix, which no rule reads again, and with it its direction."""
    case = problems.mlp_case(depth, np.random.default_rng(depth))
    first = kept * case.xs[0].nbytes
    assert arrays_alive(case, composition) - first == pytest.approx(hvp.tape_bytes(case, composition), rel=0.01)


@pytest.mark.parametrize("order", hvp.ORDERS)
def test_products_are_traced_in_every_order(order: str) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * x)

    x, v = np.array([0.5, 1.0, 1.5]), np.array([0.3, -0.7, 1.1])
    traced = dt.function(lambda x, v: dt.hvp(f, x, v, order))
    np.testing.assert_allclose(traced(x, v), dt.hvp(f, x, v, "fr"), rtol=1e-14)
