"""Jacobians of the benchmark's least-squares problems, bundle adjustment and hand tracking: cases and their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Row
from ..shared import adbench_data, measure
from ..shared.modes import performed
from . import bundle, hand
from .compare import STEP, relative, stepped

SAMPLE = 20  # observations whose entries are compared with it
COUNTED = 100  # observations of which the operations are counted: each takes what any other takes
BA_FILES = ("ba1_n49_m7776_p31843", "ba4_n372_m47423_p204472", "ba7_n93_m61203_p287451", "ba10_n1197_m126327_p563734")
HAND_FILES = ("simple_small/hand{}_t26_c{}", "complicated_small/hand{}_t26_c{}")


# ---------------------------------------------------------------------------------------------------------------------
# Bundle adjustment.


@dataclass(frozen=True)
class SceneCase:
    """A scene, with what the benchmark's tests expect of it."""

    name: str
    scene: bundle.Scene
    expected: dict[str, Any] | None = None
    modes: tuple[str, ...] = ("reverse", "forward")


def ba_cases(config: Config) -> list[SceneCase]:
    """The benchmark's scenes, whose observations are all alike, and one drawn here, whose observations all differ; the
    two largest by reverse mode alone, where forward mode takes its time."""
    known = adbench_data.expected("ba/test.txt")
    cases = [SceneCase("test", bundle.load("ba/test.txt"), known)]
    cases.append(SceneCase("drawn", bundle.drawn(5, 7, 23, config.rng("adbench/scene"))))
    for file in BA_FILES[:1] if config.quick else BA_FILES:
        scene = bundle.load(f"ba/{file}.txt")
        large = len(scene.weights) > 250_000
        cases.append(SceneCase(file.split("_")[0], scene, None, ("reverse",) if large else ("reverse", "forward")))
    return cases


def ba_rows(case: SceneCase, config: Config) -> list[Row]:
    """The sparse Jacobian by 15 tangents and by a cotangent for each of three rows; f is all residuals together."""
    scene, rng = case.scene, config.rng(f"adbench/ba/{case.name}")
    f, x = bundle.objective(scene), scene.parameters
    found = {mode: bundle.MODES[mode][0](scene) for mode in case.modes}
    calls: dict[str, Callable[[], object]] = {"f": lambda: f(x)}
    calls |= {mode: partial(bundle.MODES[mode][0], scene) for mode in case.modes}
    times = clock.interleaved(calls, config.effort(quick=0.1, full=0.4), about=f"BA, {case.name}")
    v, u = rng.normal(size=x.size), rng.normal(size=3 * len(scene.weights))
    along, across = dt.jvp(f, (x,), (v,))[1], dt.vjp(f, x)[1](u)[0]
    some = np.unique(rng.integers(len(scene.weights), size=SAMPLE))
    few = bundle.Scene(scene.cameras, scene.points, scene.weights[:COUNTED], scene.features[:COUNTED])
    cost = inspect.cost(lambda *xs: bundle.residual(few.features.T, *xs), *bundle.inputs_of(few))
    rows = []
    for mode in case.modes:
        sweeps = bundle.MODES[mode][1]
        jacobian = bundle.matrix(scene, found[mode])
        count = len(sweeps(few.features.T, *bundle.inputs_of(few)))
        work = cost.evaluation + cost.partials + (cost.tangent if mode == "forward" else cost.adjoint) * count
        row: Row = {"parameters": x.size, "observations": len(scene.weights), "mode": mode, "sweeps": count}
        row |= {"timed_sweeps": count, "f_seconds": times["f"].least, "seconds": times[mode].least}
        row |= {"operations": cost.nodes, "entries": jacobian.nnz}
        row |= {"flops_per_op": cost.evaluation.weigh("flops") / cost.nodes * len(scene.weights) / len(few.weights)}
        row |= {"flops_ratio": work.weigh("flops") / cost.evaluation.weigh("flops")}
        row |= {"performed_ratio": _performed_ratio(few, sweeps)}
        row["modes_gap"] = measure.relative_error(found[mode], found["reverse"])
        row["products_gap"] = max(
            measure.relative_error(jacobian @ v, along), measure.relative_error(jacobian.T @ u, across)
        )
        row |= {"complex_step_error": _stepped_error(scene, found[mode], some), "coordinates": 31 * len(some)}
        if case.name == "drawn":
            dense = stepped(f, x, np.eye(x.size))
            row |= {"complex_step_error": relative(jacobian.toarray(), dense), "coordinates": dense.size}
        if case.expected:
            p = len(scene.weights)
            value, known = f(x), case.expected
            row["value_error"] = max(
                relative(value[: 2 * p], known["reproj_error"]), relative(value[2 * p :], known["weight_error"])
            )
            row["derivative_error"] = relative(jacobian.data, known["jacobian"]["vals"])
        if mode == "reverse":
            row["tape_bytes"] = _tape_bytes(scene)
        rows.append(row)
    return rows


def _stepped_error(scene: bundle.Scene, data: Any, some: Any) -> float:
    """How far the 31 entries of some observations are from the complex step."""
    inputs, features = np.array(bundle.inputs_of(scene))[:, some], scene.features[some].T
    steps = 1j * STEP * np.eye(len(inputs))[:, :, None]
    reference = np.array([[y.imag / STEP for y in bundle.residual(features, *(inputs + step))] for step in steps])
    p = len(scene.weights)
    errors = data[: 30 * p].reshape(p, 2, -1)[some]
    found = np.stack([errors[:, 0].T, errors[:, 1].T], axis=1)
    return max(relative(found, reference[:, :2]), relative(data[30 * p :][some], reference[-1, 2]))


def _performed_ratio(scene: bundle.Scene, sweeps: Callable[..., Any]) -> float:
    """What all sweeps perform over what the function does, flops counted call by call."""
    features, inputs = scene.features.T, bundle.inputs_of(scene)
    base = performed(lambda *xs: bundle.residual(features, *xs), *inputs)
    return float(performed(lambda *xs: sweeps(features, *xs), *inputs).weigh("flops") / base.weigh("flops"))


def _tape_bytes(scene: bundle.Scene) -> int:
    """What the tape of all residuals keeps, from inputs that are gathered already."""
    features, inputs = scene.features.T, bundle.inputs_of(scene)
    return measure.live_tape_bytes(lambda g: measure.record(g, *inputs), lambda *xs: bundle.residual(features, *xs))


# ---------------------------------------------------------------------------------------------------------------------
# Hand tracking.


@dataclass(frozen=True)
class FitCase:
    """A hand and measured points, with what the benchmark's tests expect of them."""

    name: str
    fit: hand.Fit
    expected: dict[str, Any] | None = None


def hand_cases(config: Config) -> list[FitCase]:
    """The simple and the complicated problem: two points with expected values, in full runs 100 and 192 too."""
    files = ["test", "hand_complicated"]
    if not config.quick:
        files += [file.format(*size) for file in HAND_FILES for size in ((1, 100), (2, 192))]
    cases = []
    for file in files:
        path = f"hand/{file}.txt"
        fit = hand.load(path)
        kind = "simple" if fit.places is None else "complicated"
        cases.append(FitCase(f"{kind}, {len(fit.points)}", fit, adbench_data.expected(path)))
    return cases


def hand_rows(case: FitCase, config: Config) -> list[Row]:
    """The Jacobian, by a tangent a column of its compressed form and by a cotangent a row."""
    fit = case.fit
    f, x, directions = hand.objective(fit), fit.parameters, hand.seeds(fit)
    value, columns, whole = f(x), hand.forward(fit, directions), hand.reverse(fit)
    spread = hand.decompressed(fit, columns).toarray()
    # What the structure says is zero is so in the whole Jacobian, which reverse mode finds without the structure.
    outside = hand.decompressed(fit, np.ones_like(columns)).toarray() == 0
    found = {"forward": (columns, len(directions)), "reverse": (whole @ directions.T, len(value))}
    calls: dict[str, Callable[[], object]] = {"f": lambda: f(x), "forward": lambda: hand.forward(fit, directions)}
    calls["reverse"] = lambda: hand.reverse(fit)
    times = clock.interleaved(calls, config.effort(quick=0.1, full=0.25), about=f"hand, {case.name}")
    cost, base = inspect.cost(f, x), performed(f, x).weigh("flops")
    swept = {
        "forward": [lambda y: dt.linearize(f, y)[1](directions[0]), lambda y: _pushed(f, y, directions[:2])],
        "reverse": [lambda y: dt.vjp(f, y)[1](_first(value))[0], lambda y: _pulled(f, y, np.eye(value.size)[:2])],
    }
    reference = stepped(f, x, directions)
    rows = []
    for mode, (jacobian, sweeps) in found.items():
        work = cost.evaluation + cost.partials + (cost.tangent if mode == "forward" else cost.adjoint) * sweeps
        one, two = (performed(sweep, x).weigh("flops") for sweep in swept[mode])
        row: Row = {"parameters": x.size, "observations": len(fit.points), "mode": mode, "sweeps": sweeps}
        row |= {"timed_sweeps": sweeps, "f_seconds": times["f"].least, "seconds": times[mode].least}
        row |= {"operations": cost.nodes, "flops_per_op": cost.evaluation.weigh("flops") / cost.nodes}
        row |= {"flops_ratio": work.weigh("flops") / cost.evaluation.weigh("flops")}
        row |= {"performed_ratio": float((one + (two - one) * (sweeps - 1)) / base)}
        row |= {"complex_step_error": np.max(np.abs(jacobian - reference)) / np.max(np.abs(reference))}
        row |= {"coordinates": reference.size, "modes_gap": measure.relative_error(spread, whole)}
        row |= {"outside": float(np.max(np.abs(whole[outside]), initial=0.0)), "entries": int(np.sum(~outside))}
        if case.expected:
            name = "jacobian_rows"
            row["value_error"] = np.max(np.abs(value - case.expected["objective"]))
            row["derivative_error"] = np.max(np.abs(jacobian - np.array(case.expected[name])))
        if mode == "reverse":
            row["tape_bytes"] = measure.live_tape_bytes(lambda g: measure.record(g, x), f)
        rows.append(row)
    return rows


def _first(value: Any) -> Any:
    return np.eye(1, value.size)[0]


def _pushed(f: Any, x: Any, directions: Any) -> list[Any]:
    _, push = dt.linearize(f, x)
    return [push(v) for v in directions]


def _pulled(f: Any, x: Any, rows: Any) -> list[Any]:
    _, pull = dt.vjp(f, x)
    return [pull(u)[0] for u in rows]
