"""The problems of ADBench beyond mixtures: what their programs are, and the faults that their bars notice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from dualtape.core.lookup import ROWS
from experiments.adbench import bundle, experiment, gradients, hand, jacobians, lstm, published
from experiments.harness import clock
from experiments.harness.bars import judge
from experiments.harness.config import Config
from experiments.shared import adbench_data

Patch = pytest.MonkeyPatch
FAMILIES = {family.name: family for family in experiment.FAMILIES}


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: Patch) -> None:
    """Times are not judged: everything is called once, and said to take a second."""

    def interleaved(
        calls: dict[str, Callable[[], object]], effort: clock.Effort, about: str = ""
    ) -> dict[str, clock.Timing]:
        return {name: clock.Timing(1.0, 1.0, 1, 1) for name in calls if calls[name]() is not interleaved}

    monkeypatch.setattr(clock, "interleaved", interleaved)


def failed(name: str) -> set[str]:
    """The bars of one problem, quickly, that do not hold."""
    family, config = FAMILIES[name], Config(quick=True, plot=False)
    with clock.set_aside():  # as the runner does
        rows = [
            {"problem": name, "case": case.name} | row
            for case in family.cases(config)
            for row in family.rows(case, config)
        ]
    rows = [{column.name: None for column in experiment.COLUMNS} | row for row in rows]
    return {bar.id for bar in family.bars if bar.deterministic and not judge(bar, rows)["passed"]}


# ---------------------------------------------------------------------------------------------------------------------
# Faults, and the bars that are to turn red (others may as well).


@dataclass(frozen=True)
class Fault:
    what: str
    problem: str
    apply: Callable[[Patch], None]
    red: set[str]


def another(module: Any, name: str, made: Callable[[Any], Any]) -> Callable[[Patch], None]:
    """Something else in the place of a function, made of the function."""
    return lambda patch: patch.setattr(module, name, made(getattr(module, name)))


def columns_of_points_by_camera(structure: Any) -> Any:
    def wrong(scene: bundle.Scene) -> Any:
        indices, ends = structure(scene)
        errors = indices[: 30 * len(scene.weights)].reshape(-1, 2, 15)
        start, cameras = bundle.CAMERA * len(scene.cameras), scene.joins[0] % len(scene.points)
        errors[:, :, 11:14] = start + 3 * cameras[:, None, None] + np.arange(3)
        return indices, ends

    return wrong


def rows_exchanged(reverse: Any) -> Any:
    def wrong(scene: bundle.Scene) -> Any:
        data = reverse(scene)
        p = len(scene.weights)
        return np.concatenate([data[: 30 * p].reshape(p, 2, 15)[:, ::-1].ravel(), data[30 * p :]])

    return wrong


def an_input_short(sweeps: Any) -> Any:
    """The last tangent is not pushed: the weight is a constant."""

    def wrong(features: Any, *inputs: Any) -> Any:
        *first, last = sweeps(features, *inputs)
        return [*first, tuple(np.zeros_like(y) for y in last)]

    return wrong


def gates_exchanged(layer: Any) -> Any:
    """in, forget instead of forget, in."""

    def wrong(x: Any, hidden: Any, cell: Any, weight: Any, bias: Any) -> Any:
        b = hidden.shape[0]
        order = np.r_[b : 2 * b, :b, 2 * b : 4 * b]
        return layer(x, hidden, cell, weight[order], bias[order])

    return wrong


def angles_exchanged(turned: Any) -> Any:
    return lambda bones: turned(bones)[::-1]


def corners_turned(load: Any) -> Any:
    def wrong(name: str) -> hand.Fit:
        fit = load(name)
        return fit if fit.places is None else replace(fit, vertices=np.roll(fit.vertices, 1, axis=1))

    return wrong


def places_of_the_next_point(decompressed: Any) -> Any:
    def wrong(fit: hand.Fit, columns: Any) -> Any:
        return decompressed(fit, np.roll(columns, 3, axis=0))

    return wrong


def places_by_two_rows(decompressed: Any) -> Any:
    """Row i has the places of point i div 2."""

    def wrong(fit: hand.Fit, columns: Any) -> Any:
        jacobian = decompressed(fit, columns).tolil()
        if fit.places is not None:
            free = fit.places.size
            jacobian[:, :free] = 0
            for row in range(len(columns)):
                point = min(row // 2, free // 2 - 1)
                jacobian[row, 2 * point : 2 * point + 2] = columns[row, :2]
        return jacobian.tocsr()

    return wrong


def scaled(factor: float) -> Callable[[Any], Any]:
    """A counter that is off by a factor."""
    return lambda ratio: lambda *args: factor * ratio(*args)


def partial_of(row: str, formula: Callable[..., Any]) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(ROWS[row].edges[0], "partial", formula)


FAULTS = (
    Fault(
        "points have the columns of cameras",
        "BA",
        another(bundle, "structure", columns_of_points_by_camera),
        {"ba-products", "ba-complex-step"},
    ),
    Fault(
        "both errors change their rows in reverse mode",
        "BA",
        lambda patch: patch.setitem(
            bundle.MODES, "reverse", (rows_exchanged(bundle.reverse), bundle.MODES["reverse"][1])
        ),
        {"ba-jacobian", "ba-same-entries", "ba-products", "ba-complex-step"},
    ),
    Fault(
        "the tangent of the weights is lost",
        "BA",
        another(bundle, "forward_sweeps", an_input_short),
        {"ba-jacobian", "ba-same-entries", "ba-products", "ba-complex-step"},
    ),
    Fault("the sign of cos", "BA", partial_of("cos", lambda x: np.sin(x)), {"ba-jacobian", "ba-complex-step"}),
    Fault(
        "half the work is not counted",
        "BA",
        another(jacobians, "_performed_ratio", scaled(0.45)),
        {"ba-performed-forward-least", "ba-performed-reverse-least"},
    ),
    Fault(
        "work is counted twice",
        "BA",
        another(jacobians, "_performed_ratio", scaled(2.0)),
        {"ba-performed-forward-most", "ba-performed-reverse-most"},
    ),
    Fault(
        "the gates are in another order",
        "LSTM",
        another(lstm, "layer", gates_exchanged),
        {"lstm-value", "lstm-gradient"},
    ),
    Fault(
        "the 2 of the normaliser is left out",
        "LSTM",
        lambda patch: patch.setattr(lstm, "ADDED", 0.0),
        {"lstm-value", "lstm-gradient"},
    ),
    Fault(
        "tanh has the slope of its square root",
        "LSTM",
        partial_of("tanh", lambda out: 1 - out),
        {"lstm-gradient", "lstm-complex-step"},
    ),
    Fault(
        "work is counted twice",
        "LSTM",
        another(gradients, "performed_ratio", scaled(2.0)),
        {"lstm-performed-most", "lstm-declared-least"},
    ),
    Fault(
        "angles turn about the other axis",
        "hand",
        another(hand, "turned", angles_exchanged),
        {"hand-value", "hand-jacobian"},
    ),
    Fault(
        "corners of triangles are turned",
        "hand",
        another(hand, "load", corners_turned),
        {"hand-value", "hand-jacobian"},
    ),
    Fault(
        "columns are those of the next point",
        "hand",
        another(hand, "decompressed", places_of_the_next_point),
        {"hand-modes-agree"},
    ),
    Fault(
        "a point has two rows",
        "hand",
        another(hand, "decompressed", places_by_two_rows),
        {"hand-modes-agree", "hand-blocks"},
    ),
    Fault("the sign of sin", "hand", partial_of("sin", lambda x: -np.cos(x)), {"hand-jacobian", "hand-complex-step"}),
)


@pytest.mark.parametrize("name", FAMILIES)
def test_without_a_fault_all_bars_of_a_problem_hold(name: str) -> None:
    assert not failed(name) - {"gmm-unpacking"}  # whose rows are made beside the cases


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.problem}: {fault.what}")
def test_a_fault_turns_its_bars_red(fault: Fault, monkeypatch: Patch) -> None:
    fault.apply(monkeypatch)
    assert fault.red <= failed(fault.problem)


# ---------------------------------------------------------------------------------------------------------------------
# The programs.


def test_all_data_files_are_the_published_ones_and_few() -> None:
    manifest = json.loads((adbench_data.FOLDER / "manifest.json").read_text())
    own = {"manifest.json", "expected.json", "LICENSE.ADBench.txt"}
    files = [path for path in adbench_data.FOLDER.rglob("*") if path.is_file()]
    assert {str(path.relative_to(adbench_data.FOLDER)) for path in files} - own == set(manifest)
    for name, facts in manifest.items():
        assert len(adbench_data.read(name)) == facts["bytes_uncompressed"]
    assert sum(path.stat().st_size for path in files) < 400_000


def test_residuals_are_those_of_the_formula_one_observation_at_a_time() -> None:
    scene = bundle.drawn(3, 4, 10, np.random.default_rng(5))
    found = bundle.objective(scene)(scene.parameters)
    for i, (weight, feature) in enumerate(zip(scene.weights, scene.features, strict=True)):
        camera, x = scene.cameras[i % 3], scene.points[i % 4]
        rotation, centre, focal, principal, radial = np.split(camera, [3, 6, 7, 9])
        angle = np.linalg.norm(rotation)
        e, v = rotation / angle, x - centre
        v = v * np.cos(angle) + np.cross(e, v) * np.sin(angle) + e * (e @ v) * (1 - np.cos(angle))
        u = v[:2] / v[2]
        u = u * (1 + radial[0] * (u @ u) + radial[1] * (u @ u) ** 2) * focal + principal
        assert found[2 * i : 2 * i + 2] == pytest.approx(weight * (u - feature), rel=1e-13, abs=1e-15)
        assert found[20 + i] == 1 - weight**2


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (7, 2, 13)])
def test_both_modes_fill_the_same_sparse_matrix(sizes: tuple[int, int, int]) -> None:
    scene = bundle.drawn(*sizes, np.random.default_rng(3))
    n, m, p = sizes
    tangents, cotangents = (bundle.matrix(scene, mode(scene)) for mode in (bundle.forward, bundle.reverse))
    assert tangents.shape == (3 * p, 11 * n + 3 * m + p) and tangents.nnz == 31 * p
    assert np.array_equal(tangents.indices, cotangents.indices) and tangents.has_sorted_indices
    assert np.array_equal(tangents.indptr, cotangents.indptr)
    assert tangents.data == pytest.approx(cotangents.data, rel=1e-11, abs=1e-14)


def test_the_loop_of_scan_is_the_loop_of_python() -> None:
    model = lstm.load("lstm/lstm_l4_c1024.txt.gz", 6)
    scanned, looped = lstm.objective(model), lstm.objective(model, lstm.python_loop)
    assert model.parameters.size == 490
    assert float(scanned(model.parameters)) == pytest.approx(looped(model.parameters), rel=1e-14)


def test_a_hand_at_rest_has_its_vertices_where_the_file_says() -> None:
    """Without any turn each bone undoes what it does at rest, but for the digits of the file."""
    model = hand.model()
    rows = [line.split(":")[:3] for line in adbench_data.read("hand/model/vertices.txt.gz").split("\n") if line]
    found = hand.posed(model, np.zeros(20)) @ model.skin
    assert found.T == pytest.approx(np.array(rows, dtype=float), abs=1e-5)
    assert hand.skinned(model, np.array([np.pi, 0, 0, 1, 2, 3, *np.zeros(20)])) == pytest.approx(
        np.diag([1, -1, -1]) @ found + np.array([[1], [2], [3]]), abs=1e-12
    )


@pytest.mark.parametrize(
    ("load", "name", "extra"),
    [
        (bundle.load, "ba/test.txt", " 1.5"),
        (lstm.load, "lstm/lstm_l2_c1024.txt.gz", " 1"),
    ],
)
def test_numbers_too_many_in_a_file_are_refused(
    load: Callable[[str], Any], name: str, extra: str, monkeypatch: Patch
) -> None:
    read = adbench_data.read
    monkeypatch.setattr(adbench_data, "read", lambda name: read(name) + extra)
    with pytest.raises(ValueError, match="1 numbers more than"):
        load(name)


# ---------------------------------------------------------------------------------------------------------------------
# What is published, and what is shown beside it.


def test_published_sizes_are_those_of_the_tables() -> None:
    sizes = [published.parameters(d, k) for d, k in published.GMM_SIZES]
    assert sizes == [30, 330, 1200, 3300, 10725, 21450, 53625, 429000]
    assert all(len(times) == len(sizes) for times in published.GMM.values())
    assert all(len(times) == len(published.BA_SIZES) for times in published.BA.values())
    heads = [adbench_data.read(f"ba/{file}.txt").split("\n")[0] for file in jacobians.BA_FILES]
    assert [int(head.split()[2]) for head in heads] == list(published.BA_SIZES)


def made_up(full: bool) -> list[dict[str, Any]]:
    """Rows as a run makes them, with times that are made up."""
    row = {"f_seconds": 1e-3, "operations": 50, "relative_time": 3.0}
    gmm = [("test", 18, 1), ("1k/gmm_d2_K5", 30, 1000)]
    sizes = published.GMM_SIZES[:7] if full else published.GMM_SIZES[1:2]
    gmm += [(published.name_of(d, k), published.parameters(d, k), 10_000) for d, k in sizes]
    rows = [
        row | {"problem": "GMM", "case": case, "parameters": p, "observations": n, "mode": mode}
        for case, p, n in gmm
        for mode in ("reverse", "forward")
    ]
    others = [("BA", "ba1", 55710, published.BA_SIZES[0]), ("LSTM", "l2 c64", 266, 64), ("hand", "simple, 2", 26, 2)]
    return rows + [
        row | {"problem": problem, "case": case, "parameters": p, "observations": n, "mode": mode}
        for problem, case, p, n in others
        for mode in ("reverse", "forward")
    ]


@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
def test_the_table_has_ours_beside_theirs(full: bool) -> None:
    lines = experiment.table(made_up(full)).split("\n")
    ours = next(line for line in lines if line.startswith("| **dualtape, reverse**"))
    assert ours.count("| 3 ") == (7 if full else 1)
    assert "| Theano (vector) | 3.01 | 3.82 | 3.26 | 4.06 | 7.24 | 8.17 | 8.75 | - |" in lines
    assert "| hand simple, 2 | forward | 26 | 3 |" in lines


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="pictures need matplotlib")
@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
def test_the_picture_names_what_is_published_and_what_is_ours(full: bool) -> None:
    from experiments.adbench.figure import figure

    drawing = figure(made_up(full))
    mixtures, scene, others, rest = drawing.axes
    assert {text.get_text() for text in mixtures.texts} == set(published.GMM) - {"ADOL-C", "Autograd"}
    names = {label.get_text() for label in scene.get_yticklabels()}
    assert names == {*published.BA, "here, reverse", "here, forward"}
    assert len(others.patches) == 4
    labels = [text.get_text() for text in rest.get_legend().get_texts()]
    assert "published 2018, other machine" in labels
    assert "the same, 1 and 1,000 points" in labels
