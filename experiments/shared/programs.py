"""Programs whose costs are compared: those of E01, a mixture, a determinant by scalars, random programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..harness.config import Config
from . import gmm
from .problems import MANY_TO_ONE

UNARY: tuple[Callable[[Any], Any], ...] = (np.sin, np.exp, lambda x: np.log1p(np.abs(x)))
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (1.5 + np.sin(y)),
)


class Program(NamedTuple):
    """A function of one array with a number for its result; `rational` if it has no nonlinear function."""

    name: str
    f: Callable[[Any], Any]
    x: Any
    rational: bool = False


def determinant(entries: Any) -> Any:
    """det of a matrix by elimination, written with scalars."""
    n = round(len(entries) ** 0.5)
    a = [[entries[n * i + j] for j in range(n)] for i in range(n)]
    value: Any = 1.0
    for k in range(n):
        value = value * a[k][k]
        for i in range(k + 1, n):
            factor = a[i][k] / a[k][k]
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - factor * a[k][j]
    return value


def random_program(rng: np.random.Generator, length: int) -> Callable[[Any], Any]:
    """A program of scalar operations, each on results of ones before it, all of them used."""
    plan = [(int(rng.integers(7)), int(rng.integers(10**6)), int(rng.integers(10**6))) for _ in range(length)]

    def f(x: Any) -> Any:
        made = [x[k] for k in range(4)]
        for kind, i, j in plan:
            a, b = made[-1 - i % 4], made[j % len(made)]
            made.append(UNARY[kind](np.tanh(a)) if kind < len(UNARY) else BINARY[kind - len(UNARY)](a, np.tanh(b)))
        return made[-1] + made[-2] + made[-3] + made[-4]

    return f


def programs(config: Config, name: str) -> Iterator[Program]:
    """All of them; quick runs take smaller ones."""
    n = 32 if config.quick else 64
    for problem in MANY_TO_ONE:
        instance = problem.make(n, config.rng(f"{name}/{problem.name}"))
        rational = problem.name in ("speelpenning", "rosenbrock")
        yield Program(f"{problem.name}, n = {n}", instance.f, instance.x, rational)
    mixture = gmm.load("gmm/test.txt")
    yield Program("mixture, test case", gmm.objective(mixture), mixture.parameters)
    for size in (2, 4) if config.quick else (2, 4, 6, 8):
        matrix = config.rng(f"{name}/lu/{size}").uniform(0.1, 0.9, (size, size)) + size * np.eye(size)
        yield Program(f"determinant by scalars, n = {size}", determinant, matrix.ravel(), True)
    for k in range(2 if config.quick else 5):
        rng = config.rng(f"{name}/random/{k}")
        yield Program(f"random program {k}", random_program(rng, 60 if config.quick else 200), rng.uniform(0.1, 0.9, 4))
