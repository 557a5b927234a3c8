"""Vertex elimination, and E17: Jacobians in any order are the same, and what they cost is what they perform."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualtape as dt
from dualtape.inspect import eliminate
from dualtape.transforms.elimination import ORDERS
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.hourglass import experiment, graphs

QUICK = Config(quick=True, plot=False)
MODES = ("forward", "reverse", "markowitz", "optimal")


def jacobian(f: Callable[..., Any], xs: Any) -> Any:
    return np.atleast_2d(dt.jacobian(lambda x: np.stack(f(*x)))(np.array(xs)))


# ---------------------------------------------------------------------------------------------------------------------
# eliminate


@given(st.integers(0, 2**32 - 1), st.sampled_from([*MODES, "drawn"]))
def test_every_order_gives_the_jacobian(seed: int, order: Any) -> None:
    rng = np.random.default_rng(seed)
    f, xs = graphs.dag(rng, inputs=2, vertices=5, outputs=2), rng.uniform(0.5, 1.5, 2)
    if order == "drawn":
        order = rng.permutation(5).tolist()
    np.testing.assert_allclose(eliminate(f, *xs, order=order).jacobian, jacobian(f, xs), rtol=1e-12, atol=1e-14)


def test_multiplications_by_hand() -> None:
    # a, b -> p = a b -> s = sin p -> e = exp s -> two results. A vertex with i edges in and o out takes i o.
    def f(a: Any, b: Any) -> Any:
        e = np.exp(np.sin(a * b))
        return e * 2.0, e * 3.0

    def mults(order: Any) -> int:
        return eliminate(f, 0.5, 1.0, order=order).mults

    assert mults("forward") == 2 * 1 + 2 * 1 + 2 * 2
    assert mults("reverse") == 1 * 2 + 1 * 2 + 2 * 2
    assert mults([1, 2, 0]) == 1 * 1 + 1 * 2 + 2 * 2 == mults("markowitz") == mults("optimal")


def test_a_product_of_n_factors_takes_3n_less_6_multiplications_at_best() -> None:
    # 2(n - 2) products in reverse order: each vertex but the last has two edges in and one out.
    def speelpenning(*x: Any) -> Any:
        product = x[0]
        for factor in x[1:]:
            product = product * factor
        return product

    for n in (3, 6, 9):
        xs = np.linspace(0.5, 1.5, n)
        assert eliminate(speelpenning, *xs, order="reverse").mults == 2 * (n - 2)
        assert eliminate(speelpenning, *xs, order="optimal").mults == 2 * (n - 2)
        assert eliminate(speelpenning, *xs, order="forward").mults == sum(range(2, n))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_order_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, xs = graphs.dag(rng, inputs=2, vertices=5, outputs=2), rng.uniform(0.5, 1.5, 2)
    every = [eliminate(f, *xs, order=order).mults for order in permutations(range(5))]
    assert eliminate(f, *xs, order="optimal").mults == min(every)


def test_additions_are_counted_where_paths_meet() -> None:
    found = eliminate(lambda a: np.sin(a) * np.cos(a), 0.3)
    assert (found.mults, found.adds) == (2, 1)


def test_results_may_be_arguments_repeat_and_be_read_again() -> None:
    def f(a: Any, b: Any) -> Any:
        p = a * b
        return [a, p, p, np.sin(p), 3.0]

    for order in MODES:
        found = eliminate(f, 0.5, 2.0, order=order).jacobian
        slope = np.cos(1.0)
        assert np.allclose(found, [[1, 0], [2, 0.5], [2, 0.5], [2 * slope, 0.5 * slope], [0, 0]])


def test_an_operand_taken_twice_is_one_edge() -> None:
    found = eliminate(lambda a: np.multiply(a + 1.0, a + 1.0), 2.0)
    assert found.jacobian == [[6.0]]
    doubled = eliminate(lambda a: (lambda s: s * s)(np.sin(a)), 2.0)
    assert doubled.mults == 1
    assert np.allclose(doubled.jacobian, 2 * np.sin(2.0) * np.cos(2.0))


def test_structures_of_arguments_and_results() -> None:
    found = eliminate(lambda p: {"y": p["a"] * p["b"][0]}, {"a": 2.0, "b": [5.0, 1.0]})
    assert np.allclose(found.jacobian, [[5, 2, 0]])


def test_what_nobody_reads_is_no_vertex() -> None:
    def f(a: Any) -> Any:
        np.exp(a)
        return np.sin(a * 2.0)

    assert eliminate(f, 1.0).order == (0,)


def long(a: Any) -> Any:
    for _ in range(20):
        a = np.sin(a)
    return a


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: eliminate(np.sin, 1j), TypeError, "complex128"),
        (lambda: eliminate(long, 1.0, order="optimal"), ValueError, 'there are 19 .at most 16.; use "markowitz"'),
        (lambda: eliminate(long, 1.0, order=[0, 1]), ValueError, "each of the 19 vertices once"),
        (lambda: eliminate(long, 1.0, order="best"), ValueError, "forward, reverse, markowitz, optimal"),
        (lambda: eliminate(3, 1.0), TypeError, "eliminate"),
    ],
)
def test_what_cannot_be_done_is_said(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


# ---------------------------------------------------------------------------------------------------------------------
# The experiment.


def failed() -> set[str]:
    result = experiment.run(QUICK)
    return {bar.id for bar in result.bars if not judge(bar, result.rows)["passed"]}


def test_all_bars_hold() -> None:
    assert not failed()


def test_a_best_order_that_is_not_turns_bars_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ORDERS, "optimal", ORDERS["reverse"])
    assert failed() >= {"graph-least", "graph-least-of-markowitz"}


def test_of_equal_vertices_the_first_is_the_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(graph: Any, middle: list[int]) -> Any:
        left = list(middle)
        while left:
            left.remove(v := min(left, key=lambda v: len(graph.before[v]) * len(graph.after[v])))
            yield v

    monkeypatch.setitem(ORDERS, "markowitz", first)
    assert failed() >= {"markowitz-is-best", "mixture-markowitz"}


def test_brackets_that_are_not_best_turn_bars_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "bracketed", lambda factors: graphs.folded(factors, forward=True))
    assert failed() >= {"chain-least-of-reverse", "chain-gain-forward"}


def test_a_sweep_of_all_of_the_program_is_no_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    right = experiment.mults_of_pull
    monkeypatch.setattr(experiment, "mults_of_pull", lambda f, x: 2 * right(f, x))
    assert failed() >= {"factors-exact", "waist-modes-alike"}
