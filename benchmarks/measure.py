"""One problem measured: every derivative is compared before it is timed, and all are timed in turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from experiments.harness import clock

from . import dual
from .peers import Peer
from .problem import Entry, Problem

TOLERANCE = 1e-8


class WrongDerivativeError(AssertionError):
    """A library's derivative is not the one written by hand."""


FULL = clock.Effort(1e-2, 15, 20.0)
QUICK = clock.Effort(2e-3, 5, 1.5)


def reference(problem: Problem) -> list[Any]:
    """The derivative by hand, or dualtape's if there is none by hand."""
    if problem.hand is not None:
        return [np.asarray(a) for a in problem.hand(problem.data, *problem.args)]
    return [np.asarray(a) for a in dual.derivative(problem)()]


def compare(who: str, name: str, found: Sequence[Any], right: Sequence[Any]) -> None:
    """Raise unless all arrays agree, each relative to its norm."""
    if len(found) != len(right):
        raise WrongDerivativeError(f"{who} gives {len(found)} arrays for {name}, and there should be {len(right)}")
    for k, (a, b) in enumerate(zip(found, right, strict=True)):
        error = float(np.linalg.norm(np.ravel(np.asarray(a) - b)))
        bar = TOLERANCE * max(float(np.linalg.norm(np.ravel(b))), 1e-300)
        if np.shape(a) != np.shape(b) or not (error <= bar or error == 0):
            raise WrongDerivativeError(f"{who} is wrong for {name}: array {k} is off by {error:.2g} in norm")


def compare_jvp(problem: Problem, name: str, right: Sequence[Any]) -> None:
    """Check the forward sweep against the reverse one: <gradient, direction> is the derivative in the direction."""
    if problem.derivative not in ("gradient", "rows"):
        return
    found = np.asarray(dual.jvp(problem)())
    tangents = dual.directions(problem)
    n = len(tangents)
    slopes = [
        sum(
            np.asarray(g * t).reshape(-1, t.shape[-1]).sum(axis=0)
            for g, t in zip(right[k : k + n], tangents, strict=True)
        )
        if problem.derivative == "rows"
        else sum(float(np.vdot(g, t)) for g, t in zip(right, tangents, strict=True))
        for k in range(0, len(right), n)
    ]
    compare("dualtape's jvp", name, [found], [np.array(slopes).reshape(found.shape)])


def measured(entry: Entry, peers: Sequence[Peer], effort: clock.Effort, now: clock.Clock) -> dict[str, Any]:
    """All timings and bytes of one problem, as a row of the result."""
    problem = entry.problem()
    right = reference(problem)
    calls: dict[str, clock.Call] = {"primal": problem.value}
    if (hand := problem.hand) is not None:
        calls["hand"] = lambda: hand(problem.data, *problem.args)
    calls["dualtape"] = gradient = dual.derivative(problem)
    compare("dualtape", entry.name, gradient(), right)
    compare_jvp(problem, entry.name, right)
    calls["jvp"] = dual.jvp(problem)
    for peer in peers:
        if peer.can(problem):
            call = peer.derivative(problem)
            compare(peer.name, entry.name, [peer.numpy(a) for a in call()], right)
            calls[peer.name] = call
    timings = clock.interleaved(calls, effort, now)
    # Arrays of libraries with an allocator of their own are not seen by tracemalloc.
    seen = [who for who in ("primal", "hand", "dualtape", "jvp", "autograd") if who in calls]
    return {
        "name": entry.name,
        "title": entry.title,
        "timings": {who: asdict(timing) for who, timing in timings.items()},
        "peak_bytes": {who: clock.peak_bytes(calls[who]) for who in seen},
        "tape_bytes": dual.tape_bytes(problem),
    }


def ratio(row: dict[str, Any], who: str, to: str) -> float | None:
    """A ratio of minima, if both were measured."""
    timings = row["timings"]
    return timings[who]["least"] / timings[to]["least"] if who in timings and to in timings else None
