"""The experiments package: every experiment runs quickly and is judged, and its files can be trusted and re-judged.

Length: the runs that most tests look at are made once, for all of them; the rest is the problems, a test each.
"""

from __future__ import annotations

import copy
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from experiments import helmholtz
from experiments.accuracy_vs_step import experiment as accuracy_vs_step
from experiments.catalogue import CATALOGUE
from experiments.crossover import experiment as crossover
from experiments.harness import bars, cli, clock, runner, store
from experiments.harness.config import Config
from experiments.harness.console import PlainConsole
from experiments.harness.spec import MARKS, Bar, Column
from experiments.hvp import experiment as hvp
from experiments.hvp import problems as hvp_problems
from experiments.shared import adbench_data, counting, gmm, measure, problems

NAMES = tuple(CATALOGUE.entries)
ROOT = Path(__file__).resolve().parent.parent


Calls = dict[str, Callable[[], object]]


def pretended(seconds: float) -> Callable[..., dict[str, clock.Timing]]:
    """A stopwatch that runs everything once and then says what it likes: tests need no real times."""

    def interleaved(calls: Calls, effort: clock.Effort, about: str = "") -> dict[str, clock.Timing]:
        for call in calls.values():
            call()
        return {name: clock.Timing(seconds * (1 + k), seconds, 1, 1) for k, name in enumerate(calls)}

    return interleaved


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything run once, quickly, with figures."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "interleaved", pretended(1e-6))
        runner.run(NAMES, CATALOGUE, Config(quick=True), folder, PlainConsole())
    return folder


def document(out: Path, name: str) -> dict[str, Any]:
    return store.read_json(out / name / "result.json")


@pytest.mark.parametrize("name", NAMES)
def test_every_deterministic_bar_holds(out: Path, name: str) -> None:
    failed = [c for c in document(out, name)["checks"] if c["deterministic"] and not c["passed"]]
    assert not failed


@pytest.mark.parametrize("name", NAMES)
def test_result_file_follows_the_schema(out: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    result = document(out, name)
    assert result["experiment"] == name
    assert result["figure"] == "figure.svg"
    assert (out / name / "figure.png").stat().st_size > 10_000
    assert {"quick", "seed"} <= result["config"].keys()
    assert all(claim.keys() == {"id", "statement", "source", "mark"} for claim in result["claims"])
    assert all(claim["mark"] in MARKS for claim in result["claims"])
    assert all(check.keys() == store.CHECK_KEYS for check in result["checks"])
    columns = [column["name"] for column in result["columns"]]
    assert all(list(row) == columns for row in result["rows"])
    assert len({check["id"] for check in result["checks"]}) == len(result["checks"])


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_again_from_its_file_alone(out: Path, name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert cli.main(CATALOGUE, ["draw", str(out / name / "result.json"), "--out", str(tmp_path)]) == 0
    for picture in ("figure.svg", "figure.png", "figure.caption.md"):
        assert (tmp_path / picture).read_bytes() == (out / name / picture).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_the_width_of_columns_and_type_that_can_be_read(out: Path, name: str) -> None:
    text = pytest.importorskip("matplotlib.text")
    plots = import_module("experiments.harness.plots")
    result = document(out, name)
    drawing = import_module(CATALOGUE.draws(name)).figure(result["rows"], *result["drawn"])
    assert drawing.get_size_inches()[0] in plots.COLUMNS.values()
    drawing.draw_without_rendering()
    sizes = {t.get_fontsize() for t in drawing.findobj(text.Text) if t.get_visible() and t.get_text()}
    assert min(sizes) >= plots.POINTS


@pytest.mark.parametrize("name", NAMES)
def test_pictures_say_what_they_are_to_who_cannot_see_them(out: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    picture = (out / name / "figure.svg").read_text(encoding="utf-8")
    assert "<title>" in picture
    assert "<desc>" in picture
    assert "<text" in picture  # text is text


@pytest.mark.parametrize("name", NAMES)
def test_the_bars_of_the_code_are_those_of_a_run(out: Path, name: str) -> None:
    result = document(out, name)
    ours = [bars.judge(bar, result["rows"]) for bar in CATALOGUE.load(name).bars(result["config"])]
    assert not bars.differences(result["checks"], ours)


def test_environment_says_what_ran_and_not_who(out: Path) -> None:
    environment = document(out, NAMES[0])["environment"]
    expected = {"dualtape", "commit", "python", "numpy", "blas", "platform", "cpu", "logical_cores", "threads"}
    assert expected <= set(environment)
    text = json.dumps(environment)
    for private in (os.uname().nodename, str(Path.home()), str(ROOT)):
        assert private not in text


def test_nothing_recalled_is_judged() -> None:
    assert not [claim for name in NAMES for claim in CATALOGUE.load(name).SPEC.claims if claim.mark == "M"]


def test_front_page_picture_is_drawn(out: Path) -> None:
    pytest.importorskip("matplotlib")
    assert (out / "mode_cost.svg").is_file()
    assert (out / "mode_cost.png").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_columns_repeat_byte_for_byte(
    out: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "interleaved", pretended(1e-3))  # other times must change no deterministic column
    again = runner.run_one(name, CATALOGUE, Config(quick=True, plot=False), tmp_path)
    first = document(out, name)
    columns = [Column(**column) for column in first["columns"]]
    texts = [store.to_csv(result["rows"], columns, deterministic_only=True) for result in (first, again)]
    assert texts[0] == texts[1]
    assert (out / name / "result.csv").read_text() == store.to_csv(first["rows"], columns)


def test_another_seed_gives_other_points() -> None:
    points = [problems.MANY_TO_ONE[-1].make(4, Config(seed=seed).rng("xlog")).x for seed in (0, 0, 1)]
    assert np.array_equal(points[0], points[1])
    assert not np.array_equal(points[0], points[2])


@pytest.mark.parametrize("name", NAMES)
def test_check_accepts_what_run_wrote(out: Path, name: str) -> None:
    assert cli.main(CATALOGUE, ["check", str(out / name / "result.json")]) == 0


@pytest.mark.parametrize("change", ["row", "lhs", "passed", "bar", "verdict"])
def test_check_refuses_a_tampered_file(out: Path, tmp_path: Path, change: str) -> None:
    result = copy.deepcopy(document(out, "trace_table"))
    if change == "row":
        result["rows"][-1]["value_ulps"] = 0.25
    elif change == "lhs":
        result["checks"][0]["lhs"] = 0.25
    elif change == "passed":
        result["checks"][0]["passed"] = False
    elif change == "bar":
        result["checks"][0]["rhs"] = -1
    else:
        result["passed"] = False
    store.write_json(tmp_path / "result.json", result)
    assert cli.main(CATALOGUE, ["check", str(tmp_path / "result.json")]) == 1


@pytest.mark.parametrize("text", [None, "not json", "[]", '{"schema": 2}', '{"schema": 1}'])
def test_check_cannot_read_what_is_no_result(
    tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    if text is not None:
        path.write_text(text)
    assert cli.main(CATALOGUE, ["check", str(path)]) == 2
    assert "result.json" in capsys.readouterr().err


def _with_bar(monkeypatch: pytest.MonkeyPatch, bar: Bar) -> None:
    """Give trace_table one more bar."""
    module = CATALOGUE.load("trace_table")
    run = module.run

    def stricter(config: Config) -> Any:
        result = run(config)
        result.bars.append(bar)
        return result

    monkeypatch.setattr(module, "run", stricter)


def test_exit_status_of_a_bar_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_bar(monkeypatch, Bar("impossible", "count(value > 0)", "<", 0))
    assert cli.main(CATALOGUE, ["run", "trace_table", "--no-plot", "--out", str(tmp_path)]) == 1
    assert cli.main(CATALOGUE, ["check", str(tmp_path / "trace_table" / "result.json")]) == 1


def test_timing_bars_are_judged_on_request_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_bar(monkeypatch, Bar("too-slow", "count(value > 0)", "<", 0, deterministic=False))
    arguments = ["run", "trace_table", "--no-plot", "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 0
    assert cli.main(CATALOGUE, [*arguments, "--assert-time"]) == 1


def test_an_experiment_that_breaks_down_leaves_no_old_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "trace_table", "--no-plot", "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 0

    def broken(config: Config) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(CATALOGUE.load("trace_table"), "run", broken)
    assert cli.main(CATALOGUE, arguments) == 2
    assert not (tmp_path / "trace_table" / "result.json").exists()


def test_unknown_name_says_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(CATALOGUE, ["run", "mony_to_one"]) == 2
    assert "many_to_one" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_said_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(CATALOGUE, ["run", "trace_table", "--out", str(tmp_path / "file" / "results")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(CATALOGUE, ["list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)


def test_without_matplotlib_and_rich(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for missing in ("matplotlib", "rich", "rich.console"):
        monkeypatch.setitem(sys.modules, missing, None)
    assert cli.main(CATALOGUE, ["run", "adbench", "--quick", "--out", str(tmp_path)]) == 0
    assert document(tmp_path, "adbench")["figure"] is None
    text = capsys.readouterr().out
    assert "pip install 'dualtape[experiments]'" in text
    assert "pass" in text


def test_program_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The real thing: thread variables are set before NumPy is there, and nothing is written elsewhere."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-m", "experiments", "run", "trace_table", "--no-plot", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(document(tmp_path, "trace_table")["environment"]["threads"].values()) == {"1"}
    written = {path.name for path in (tmp_path / "trace_table").iterdir()}
    assert written == {"result.json", "result.csv", "table.md", "table.tex"}


ROWS = [
    {"n": 2, "mode": "a", "work": 4.0, "gap": None},
    {"n": 4, "mode": "a", "work": 16.0, "gap": float("nan")},
    {"n": 8, "mode": "b", "work": 64.0, "gap": 1.0},
]


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        ("max(work)", 64.0),
        ('max(work, mode == "a")', 16.0),
        ('min(abs(work - 2 * n), n > 2 and mode == "a")', 8.0),
        ("spread(work, n < 8)", 4.0),
        ("count(n >= 4)", 2),
        ("slope(n, work)", pytest.approx(2.0)),
        ('only(work, mode == "b") / sum(work, mode == "a")', 3.2),
        ("median(work)", 16.0),
        ('only(gap, mode == "b")', 1.0),
    ],
)
def test_language_of_bars(expr: str, value: Any) -> None:
    assert bars.evaluate(expr, ROWS) == value


@pytest.mark.parametrize(
    "expr",
    [
        "max(gap)",  # a missing entry
        "max(gap, n == 4)",  # not a number
        "max(work, n > 100)",  # nothing selected
        "max(speed)",  # no such column
        "only(work)",
        "slope(n, work, n == 2)",
        "max(work",
        "__import__('os')",
        "max(work.real)",
        "[1, 2]",
        "max(work, n ** 'a')",
    ],
)
def test_a_bar_that_has_no_value_fails(expr: str) -> None:
    with pytest.raises(bars.BarError):
        bars.evaluate(expr, ROWS)
    assert not bars.judge(Bar("bar", expr, "<=", 1e9), ROWS)["passed"]


@pytest.mark.parametrize("problem", problems.MANY_TO_ONE, ids=lambda p: p.name)
@pytest.mark.parametrize("n", [2, 7, 64])
def test_gradients_by_hand_agree_with_the_complex_step(problem: problems.Problem, n: int) -> None:
    case = problem.make(n, np.random.default_rng(n))
    stepped = [measure.complex_step(case.f, case.x, i) for i in range(n)]
    assert measure.scaled_error(stepped, case.derivative, case.scale) < 64


@pytest.mark.parametrize("problem", problems.ONE_TO_MANY, ids=lambda p: p.name)
@pytest.mark.parametrize("m", [2, 7, 64])
def test_derivatives_of_curves_by_hand_agree_with_the_complex_step(problem: problems.Problem, m: int) -> None:
    case = problem.make(m, np.random.default_rng(m))
    stepped = case.f(case.x + 1e-100j).imag / 1e-100
    assert measure.scaled_error(stepped, case.derivative, case.scale) < 64


@pytest.mark.parametrize("n", [1, 8, 50, 300])
def test_helmholtz_gradient_by_hand_agrees_with_the_complex_step(n: int) -> None:
    case = helmholtz.PROBLEM.make(n, np.random.default_rng(n))
    stepped = [measure.complex_step(case.f, case.x, i) for i in range(n)]
    assert measure.scaled_error(stepped, case.derivative, case.scale) < 64


@pytest.mark.parametrize("shape", [(1, 5), (7, 3)])
def test_network_jacobian_by_hand_agrees_with_the_complex_step(shape: tuple[int, int]) -> None:
    net = crossover.network(*shape, np.random.default_rng(3))
    stepped = np.array([net.f(net.x + 1e-100j * unit).imag / 1e-100 for unit in np.eye(net.x.size)])
    assert measure.relative_error(stepped.T, net.jacobian) < 1e-14


@pytest.mark.parametrize("mode", crossover.SWEEPS)
@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_sweeps_of_a_chunk_each_make_the_whole_jacobian(mode: str, chunk: int) -> None:
    net = crossover.network(5, 4, np.random.default_rng(4))
    way = crossover.Way(mode, "chunked", chunk)
    rows = way.rows(net, way.sweeps(net))
    assert measure.relative_error(rows.T if mode == "forward" else rows, net.jacobian) < 1e-13


@pytest.mark.parametrize("chunk", [1, 2])
def test_flops_of_a_sweep_are_those_counted_by_hand(chunk: int) -> None:
    n, m, h = 5, 3, crossover.HIDDEN
    net = crossover.network(n, m, np.random.default_rng(5))

    def products(*shapes: tuple[int, int]) -> int:
        return sum(rows * (2 * columns - 1) for rows, columns in shapes)

    once = products((h, n), (h, h), (m, h)) + 2 * 2 * h + 2 * 2 * h  # a tanh counts two, its partial 1 - h^2 is two
    each = {
        "forward": products((h, n), (h, h), (m, h)) + 2 * h,
        "reverse": products((n, h), (h, h), (h, m)) + 2 * h,
    }
    for mode in crossover.SWEEPS:
        assert crossover.shared_flops(mode, net) == once
        assert crossover.Way(mode, "chunked", chunk).directed(net) == chunk * each[mode]


@pytest.mark.parametrize("composition", hvp.ORDERS)
def test_differentiation_that_drops_no_zeros_is_right(composition: str) -> None:
    a, b, k, (v, w) = 1.1, 0.9, 7, (0.3, -0.7)
    found, _ = counting.counted(composition, hvp_problems.power(k), (a, b), (v, w))
    mixed = k * b ** (k - 1)
    assert found == pytest.approx([mixed * w, mixed * v + a * k * (k - 1) * b ** (k - 2) * w], rel=1e-13)


@pytest.mark.parametrize("make", [hvp_problems.product_case, hvp_problems.valley_case])
@pytest.mark.parametrize("composition", hvp.ORDERS)
def test_scalar_products_agree_with_differentiation_that_drops_no_zeros(make: Any, composition: str) -> None:
    case = make(6, np.random.default_rng(6))
    found, _ = counting.counted(composition, case.f, case.xs, case.v)
    assert measure.relative_error(found, np.array(case.product)) < 1e-14


def test_derivatives_by_hand_have_the_digits_of_a_high_precision_reference() -> None:
    digits = {"A": "9.0660864000000007482", "A'": "9.0660864000000007482", "B": "4.0534278938986206577"}
    for curve in accuracy_vs_step.CURVES:
        known = np.longdouble(digits[curve.name])  # at the double nearest to the point
        assert abs(curve.reference - known) <= 8 * np.finfo(np.longdouble).eps * known


def test_mixture_objective_is_the_formula_written_with_loops() -> None:
    points, gamma, m = np.random.default_rng(3).normal(size=(4, 2)), 1.5, 2
    read = gmm.load("gmm/test.txt")
    mixture = gmm.Mixture(points, read.alphas, read.means, read.factors, gamma, m)
    factors = [np.array([[np.exp(a), 0.0], [below, np.exp(b)]]) for a, b, below in mixture.factors]
    log_dets = [a + b for a, b, _ in mixture.factors]
    total = -len(points) * (np.log(2 * np.pi) + np.log(np.sum(np.exp(mixture.alphas))))  # -N D/2 log(2 pi), D = 2
    for x in points:
        parts = zip(mixture.alphas, factors, log_dets, mixture.means, strict=True)
        total += np.log(sum(np.exp(a + s - np.sum((q @ (x - mean)) ** 2) / 2) for a, q, s, mean in parts))
    freedom = 2 + m + 1
    log_gamma = np.log(np.pi) / 2 + gammaln(freedom / 2) + gammaln(freedom / 2 - 0.5)
    for q, s in zip(factors, log_dets, strict=True):
        total += gamma**2 / 2 * np.sum(q**2) - m * s - freedom * 2 * (np.log(gamma) - np.log(2) / 2) + log_gamma
    assert gmm.objective(mixture)(mixture.parameters) == pytest.approx(total, rel=1e-13)


def test_data_that_was_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gmm").mkdir()
    (tmp_path / "manifest.json").write_bytes((adbench_data.FOLDER / "manifest.json").read_bytes())
    (tmp_path / "gmm/test.txt").write_text("2 3 1\n")
    monkeypatch.setattr(adbench_data, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="not the file the benchmark published"):
        adbench_data.read("gmm/test.txt")


def test_calls_are_timed_in_turns_by_the_clock_that_is_given() -> None:
    order: list[str] = []
    lasts = {"f": 1.0, "g": 3.0}
    calls = {name: partial(order.append, name) for name in lasts}
    effort = clock.Effort(2.0, rounds=2, limit=0.0, fewest=2)
    found = clock.interleaved(calls, effort, lambda: sum(lasts[name] for name in order))
    assert "".join(order) == "fffffff" + "g" + 2 * "ffffg"
    assert found == {"f": clock.Timing(1.0, 1.0, 3, 4), "g": clock.Timing(3.0, 3.0, 3, 1)}


def test_the_peak_of_memory_counts_what_lives_at_one_time() -> None:
    def call() -> None:
        for _ in range(3):
            np.ones(100_000)

    assert 800_000 <= clock.peak_bytes(call) < 1_600_000


def test_what_is_set_aside_comes_back_with_the_outermost_block() -> None:
    with clock.set_aside():
        with clock.set_aside():
            assert gc.isenabled()
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()


def test_readme_names_every_experiment() -> None:
    text = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    assert all(re.search(rf"^\| `{name}` ", text, re.MULTILINE) for name in NAMES)
