"""Gradients of the benchmark's two scalar objectives, mixtures and LSTM: cases, and the rows that both modes make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Row
from ..shared import adbench_data, gmm, measure
from ..shared.modes import performed
from . import lstm, published
from .compare import relative, stepped

SAMPLE = 20  # coordinates compared with the complex step, and forward sweeps where they are cheap
GMM_1K = ("d2_K5", "d10_K5", "d10_K25", "d2_K200", "d10_K50")
QUICK_CHARACTERS, COUNTED_CHARACTERS = 64, 8


@dataclass(frozen=True)
class Case:
    """A scalar objective of one parameter vector, with what is known about it."""

    name: str
    f: Callable[[Any], Any]
    x: Any
    observations: int
    expected: dict[str, Any] | None = None
    coordinates: int = SAMPLE  # compared with the complex step
    pushes: int = SAMPLE  # forward sweeps that are performed and timed; the others cost the same
    file: str = ""  # that it was made from, if it is to be made anew, longer or shorter


def gmm_cases(config: Config) -> list[Case]:
    """The benchmark's files with 1,000 points, and the sizes of 10,000 points and the largest of 1,000, whose numbers
    are drawn here: the files are large."""
    sizes = ("d2_K5",) if config.quick else GMM_1K
    cases = []
    for file in ("gmm/test.txt", *(f"gmm/1k/gmm_{size}.txt.gz" for size in sizes)):
        mixture = gmm.load(file)
        name = file.removeprefix("gmm/").removesuffix(".gz").removesuffix(".txt")
        known = adbench_data.expected(file)
        cases.append(Case(name, gmm.objective(mixture), mixture.parameters, len(mixture.points), known))
    drawn = [(published.name_of(d, k), d, k, 10_000) for d, k in published.GMM_SIZES if d * k <= 64 * 25]
    drawn = drawn[1:2] if config.quick else [("1k, d64 K5", 64, 5, 1_000), *drawn]
    for name, d, k, n in drawn:
        mixture = gmm.drawn(d, k, n, config.rng(f"adbench/{name}"))
        # The complex step takes four times f at each coordinate.
        few = 3 if n * d * d * k > 100_000_000 else 10 if n * k > 250_000 else SAMPLE
        cases.append(Case(name, gmm.objective(mixture), mixture.parameters, n, coordinates=few, pushes=2))
    return cases


def loop_rows(config: Config) -> list[Row]:
    """The value in three and more dimensions, where the order of a triangle shows, against loops."""
    rows: list[Row] = []
    for d in (3, 5):
        mixture = gmm.drawn(d, 4, 6, config.rng(f"adbench/loops/{d}"))
        expected = gmm.by_loops(mixture)
        found = float(gmm.objective(mixture)(mixture.parameters))
        row: Row = {"case": f"loops, D = {d}", "mode": "value", "observations": 6}
        row |= {"parameters": mixture.parameters.size, "value_error": abs(found - expected) / abs(expected)}
        rows.append(row)
    return rows


def gmm_rows(case: Case, config: Config) -> list[Row]:
    """Both modes on the gradient of a mixture: reverse in one sweep, forward linearised once and pushed once a
    parameter, of which only some are performed; work and time are scaled to all."""
    f, x = case.f, case.x
    reference = reference_of(case, config)
    _, push = dt.linearize(f, x)
    pushes = reference.directions[: case.pushes]

    def forward() -> Any:
        return np.array([float(push(direction)) for direction in pushes])

    value, gradient = dt.value_and_grad(f)(x)
    found = {"reverse": np.asarray(gradient), "forward": forward()}
    calls = {"f": lambda: f(x), "reverse": lambda: dt.grad(f)(x), "forward": forward}
    calls["linearize"] = lambda: dt.linearize(f, x)
    times = clock.interleaved(calls, config.effort(quick=0.5, full=0.5), about=f"GMM, {case.name}")
    cost = inspect.cost(f, x)
    once, base = cost.evaluation + cost.partials, cost.evaluation.weigh("flops")
    rows = []
    for mode, sweeps, timed, work, seconds in (
        ("reverse", 1, 1, once + cost.adjoint, 0.0),
        ("forward", x.size, len(pushes), once + cost.tangent * x.size, times["linearize"].least),
    ):
        row: Row = {"sweeps": sweeps, "timed_sweeps": timed, "f_seconds": times["f"].least}
        row |= {"seconds": seconds + times[mode].least * sweeps / timed, "operations": cost.nodes}
        row |= {"flops_per_op": base / cost.nodes, "flops_ratio": work.weigh("flops") / base}
        row |= compared(case, reference, mode, value, found)
        rows.append(row)
    rows[0]["performed_ratio"] = performed_ratio(f, x)
    rows[0]["tape_bytes"] = measure.live_tape_bytes(lambda g: measure.record(g, x), f)
    rows[1]["tape_bytes"] = measure.live_tape_bytes(lambda g: dt.jvp(g, (x,), (pushes[0],)), f)
    return rows


@dataclass(frozen=True)
class Reference:
    """Some coordinates, the directions along them, and the derivatives there by the complex step."""

    picked: Any
    directions: Any
    stepped: Any


def reference_of(case: Case, config: Config) -> Reference:
    count = min(case.coordinates, case.x.size)
    picked = config.rng(f"adbench/{case.name}").choice(case.x.size, count, replace=False)
    directions = np.zeros((count, case.x.size))
    directions[np.arange(count), picked] = 1.0
    return Reference(picked, directions, stepped(case.f, case.x, directions))


def performed_ratio(f: Callable[[Any], Any], x: Any) -> float:
    """What a gradient performs over what the function performs, flops counted call by call."""
    swept = performed(lambda y, g: dt.vjp(f, y)[1](g), x, np.float64(1.0))
    return float(swept.weigh("flops") / performed(f, x).weigh("flops"))


def compared(case: Case, reference: Reference, mode: str, value: Any, found: dict[str, Any]) -> Row:
    """The columns of a mode: sizes, and the distances from what is expected, the complex step, and the first mode.

    `found` has, by mode, the whole gradient (reverse) or its entries at the first of the picked coordinates (forward).
    """
    whole = mode.startswith("reverse")
    first = next(iter(found.values()))[reference.picked]
    entries = found[mode][reference.picked] if whole else found[mode]
    count = len(entries)
    row: Row = {
        "parameters": case.x.size,
        "observations": case.observations,
        "mode": mode,
        "coordinates": count,
        "complex_step_error": relative(entries, reference.stepped[:count]),
        "modes_gap": measure.relative_error(entries, first[:count]),
    }
    if case.expected:
        known = np.array(case.expected["gradient"])
        known = known if whole else known[reference.picked[:count]]
        row["value_error"] = abs(float(value) - case.expected["objective"])
        row["derivative_error"] = np.max(np.abs(found[mode] - known))
    return row


# ---------------------------------------------------------------------------------------------------------------------
# The LSTM, whose loop over the characters is Python's, with each operation on the tape, or one operation by `dt.scan`.


def lstm_cases(config: Config) -> list[Case]:
    """Two and four layers, whole in full runs; quick ones take the first characters, of which nothing is expected, and
    compare the value of the whole text."""
    cases = []
    for layers in (2,) if config.quick else (2, 4):
        file = f"lstm/lstm_l{layers}_c1024.txt.gz"
        model = lstm.load(file, QUICK_CHARACTERS if config.quick else None)
        known = None if config.quick else adbench_data.expected(file)
        f, c = lstm.objective(model, lstm.python_loop), len(model.text)
        few = 5 if known else SAMPLE  # all entries are compared with what is expected
        cases.append(Case(f"l{layers} c{c}", f, model.parameters, c, known, few, 2, file))
    return cases


def lstm_rows(case: Case, config: Config) -> list[Row]:
    """The gradient with every operation on the tape, and by `dt.scan` in both modes; f is NumPy alone, in a loop."""
    f, x = case.f, case.x
    scanned = lstm.objective(lstm.load(case.file, case.observations))
    reference = reference_of(case, config)

    def forward() -> Any:
        return np.array([float(dt.jvp(scanned, (x,), (v,))[1]) for v in reference.directions[: case.pushes]])

    gradient = dt.grad(f)(x)
    ways = {"reverse": f, "reverse, scan": scanned, "forward, scan": scanned}
    found = {"reverse": np.asarray(gradient), "reverse, scan": np.asarray(dt.grad(scanned)(x))}
    found["forward, scan"] = forward()
    calls: dict[str, Callable[[], object]] = {"f": lambda: f(x), "reverse": lambda: dt.grad(f)(x)}
    calls |= {"reverse, scan": lambda: dt.grad(scanned)(x), "forward, scan": forward}
    times = clock.interleaved(calls, config.effort(quick=0.2, full=0.5), about=f"LSTM, {case.name}")
    rows = []
    for mode, way in ways.items():
        sweeps, timed = (x.size, case.pushes) if mode.startswith("forward") else (1, 1)
        row: Row = {"sweeps": sweeps, "timed_sweeps": timed, "f_seconds": times["f"].least}
        row |= {"seconds": times[mode].least * sweeps / timed}
        row |= compared(case, reference, mode, way(x), found)
        if timed == 1:
            tape = measure.record(way, x)
            row |= {"operations": len(tape), "tape_bytes": tape.nbytes}
        rows.append(row)
    # Each character takes what any other takes, so that counting some is enough.
    few = lstm.objective(lstm.load(case.file, COUNTED_CHARACTERS), lstm.python_loop)
    cost = inspect.cost(few, x)
    base = cost.evaluation.weigh("flops")
    work = cost.evaluation + cost.partials + cost.adjoint
    rows[0] |= {"flops_per_op": base / cost.nodes, "flops_ratio": work.weigh("flops") / base}
    rows[0]["performed_ratio"] = performed_ratio(few, x)
    if config.quick:
        rows += _whole_text(case.file)
    return rows


def _whole_text(file: str) -> list[Row]:
    """Value and gradient of the whole text against what is expected, for quick runs."""
    model, known = lstm.load(file), adbench_data.expected(file)
    if known is None:
        raise ValueError(f"nothing is expected of {file}")
    x = model.parameters
    value, gradient = dt.value_and_grad(lstm.objective(model))(x)
    row: Row = {"case": "l2 c1024", "mode": "expected", "parameters": x.size, "observations": len(model.text)}
    row["value_error"] = abs(float(value) - known["objective"])
    row["derivative_error"] = np.max(np.abs(np.asarray(gradient) - np.array(known["gradient"])))
    return [row]
