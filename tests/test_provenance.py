"""Where results come from and how they get to disk: whole files, trees that were changed, experiments by their ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness import cli, clock, environment, store
from experiments.harness.catalogue import UnknownExperimentError
from experiments.harness.spec import MARKS


def test_a_write_that_breaks_off_leaves_the_old_file_whole_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    store.write_text(path, "old\n")
    write = Path.write_text

    def full_disk(self: Path, text: str, **options: str) -> int:
        write(self, text[: len(text) // 2], **options)
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space"):
        store.write_text(path, "new and longer\n")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("answer", "changed"), [("", False), (" M dualtape/x.py", True), ("?? new.py", True), (None, None)]
)
def test_a_result_says_whether_the_tree_was_more_than_its_commit(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, changed: bool | None
) -> None:
    monkeypatch.setattr(environment, "_git", lambda *arguments: answer)
    assert environment.record()["changed"] is changed


def test_every_experiment_answers_to_its_name_and_its_id_in_any_case() -> None:
    for name in CATALOGUE.entries:
        number = CATALOGUE.load(name).SPEC.id
        for asked in (name, name.upper(), number, number.lower()):
            assert CATALOGUE.resolve([asked]) == [name]
        assert CATALOGUE.resolve([name, number]) == [name]


def test_an_unknown_id_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownExperimentError, match="no experiment has the id 'E99'; there are E00, E01"):
        CATALOGUE.resolve(["E99"])


def test_list_explains_every_mark(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(CATALOGUE, ["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for mark, meaning in MARKS.items():
        assert any(f"[{mark}]" in line and meaning.split(",")[0] in line for line in lines)


# ---------------------------------------------------------------------------------------------------------------------
# What a result file has, and what is made of it again.


def ran(folder: Path, *arguments: str) -> dict[str, Any]:
    """An experiment that takes a moment, and its file."""
    assert cli.main(CATALOGUE, ["run", "E00", "--no-plot", "--out", str(folder), *arguments]) == 0
    return store.read_json(folder / "trace_table" / "result.json")


def test_every_sample_is_kept_with_its_repeats() -> None:
    with clock.kept() as log:
        found = clock.interleaved({"f": lambda: None, "g": lambda: None}, clock.Effort(1e-5, 4, 1.0), about="nothing")
    (entry,) = log
    assert entry["about"] == "nothing"
    for name, timing in found.items():
        kept = entry["calls"][name]
        assert len(kept["seconds"]) == timing.samples
        assert min(kept["seconds"]) / kept["repeats"] == timing.least


def test_samples_of_a_run_are_in_its_file(tmp_path: Path) -> None:
    cli.main(CATALOGUE, ["run", "E12", "--quick", "--no-plot", "--sizes", "4", "8", "--out", str(tmp_path)])
    document = store.read_json(tmp_path / "helmholtz" / "result.json")
    assert [entry["about"] for entry in document["timings"]] == ["helmholtz, n = 4", "helmholtz, n = 8"]
    for row in document["rows"]:
        (entry,) = (entry for entry in document["timings"] if entry["about"].endswith(f" {row['n']}"))
        base = entry["calls"]["f"]
        assert row["f_seconds"] == min(base["seconds"]) / base["repeats"]
    assert document["config"]["seed"] == 0
    assert "default_rng" in document["config"]["inputs"]


def changed(document: dict[str, Any], folder: Path) -> str:
    """The file of a changed document."""
    store.write_json(folder / "changed.json", document)
    return str(folder / "changed.json")


def test_check_judges_by_the_bars_of_the_code_and_says_where_the_file_has_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = ran(tmp_path)
    wide = next(check for check in document["checks"] if check["id"] == "traces")
    wide["rhs"] = 1.0  # a wider bar in the file
    document["checks"] = [check for check in document["checks"] if check["id"] != "published"]
    document["checks"].append({**wide, "id": "made up"})
    assert cli.main(CATALOGUE, ["check", changed(document, tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "traces: rhs is 1.0 in the file, and 4.5e-16 in the code" in said
    assert "published: a bar of the code that the file does not have" in said
    assert "made up: a bar of the file that the code does not have" in said


def test_rows_that_only_the_wider_bar_of_a_file_lets_through_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = ran(tmp_path)
    document["rows"][-1]["trace_gap"] = 0.5
    for check in document["checks"]:
        if check["id"] == "traces":
            check["rhs"], check["lhs"] = 1.0, 0.5
    assert cli.main(CATALOGUE, ["check", changed(document, tmp_path)]) == 1
    assert "traces: 0.5 <= 4.5e-16 does not hold" in capsys.readouterr().err


def test_files_of_older_versions_and_of_other_experiments_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = ran(tmp_path)
    old = {key: value for key, value in document.items() if key not in ("drawn", "timings", "not_judged")}
    assert cli.main(CATALOGUE, ["check", changed(old, tmp_path)]) == 0
    assert cli.main(CATALOGUE, ["draw", changed(old, tmp_path)]) == 2
    assert "run it again" in capsys.readouterr().err
    assert cli.main(CATALOGUE, ["check", changed(document | {"experiment": "of_others"}, tmp_path)]) == 0
    assert "its own bars are judged" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------------------------------
# Going on where a run broke off; sizes; files of one's own.


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that is its commit."""
    monkeypatch.setattr(environment, "_git", lambda *arguments: "" if "status" in arguments else "abc")


@pytest.mark.usefixtures("clean")
def test_resume_skips_what_ran_with_the_same_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(tmp_path)
    path = tmp_path / "trace_table" / "result.json"
    before = path.stat().st_mtime_ns
    ran(tmp_path, "--resume")
    assert path.stat().st_mtime_ns == before
    assert "ran before" in capsys.readouterr().out
    for more in (["--seed", "1"], ["--quick"]):
        ran(tmp_path, "--resume", *more)
        assert path.stat().st_mtime_ns > before
        before = path.stat().st_mtime_ns


@pytest.mark.usefixtures("clean")
def test_resume_runs_again_what_is_no_whole_file_or_of_another_commit(tmp_path: Path) -> None:
    document = ran(tmp_path)
    path = tmp_path / "trace_table" / "result.json"
    path.write_text(json.dumps(document)[:1000])
    assert ran(tmp_path, "--resume")["passed"]
    for key, other in (("commit", "def"), ("changed", True)):
        store.write_json(path, document | {"environment": document["environment"] | {key: other}, "title": "old"})
        assert ran(tmp_path, "--resume")["title"] != "old"


def test_sizes_of_ones_own_and_the_bars_they_do_not_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--sizes", "512", "1024"]
    assert cli.main(CATALOGUE, ["run", "E02", *sizes, "--quick", "--no-plot", "--out", str(tmp_path)]) == 0
    document = store.read_json(tmp_path / "one_to_many" / "result.json")
    assert {row["n"] for row in document["rows"]} == {512, 1024}
    assert cli.main(CATALOGUE, ["check", str(tmp_path / "one_to_many" / "result.json")]) == 0
    capsys.readouterr()
    assert cli.main(CATALOGUE, ["run", "E12", "--sizes", "4", "--quick", "--no-plot", "--out", str(tmp_path)]) == 0
    assert "not judged, for want of sizes: reverse-performed-at-1000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["E13", "--sizes", "4"], "nesting has no grid of sizes"),
        (["E01", "--sizes", "0"], "--sizes are whole numbers from 1 on"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(CATALOGUE, ["run", *arguments])
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


def example() -> str:
    """The experiment that the page of experiments shows."""
    page = (Path(__file__).resolve().parent.parent / "experiments" / "README.md").read_text(encoding="utf-8")
    after = page[page.index("An experiment of your own is a file") :]
    return after.split("```python\n")[1].split("```")[0]


def test_an_experiment_of_ones_own_runs_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "squares.py"
    path.write_text(example())
    assert cli.main(CATALOGUE, ["run", str(path), "--out", str(tmp_path)]) == 0
    document = store.read_json(tmp_path / "squares" / "result.json")
    assert document["passed"]
    assert (tmp_path / "squares" / "figure.svg").is_file()
    assert cli.main(CATALOGUE, ["run", str(path), "--sizes", "5", "--no-plot", "--out", str(tmp_path)]) == 0
    assert len(store.read_json(tmp_path / "squares" / "result.json")["rows"]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no file"),
        ("x = 1", "has no SPEC"),
        ("SPEC = 1", "has no run"),
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused(
    tmp_path: Path, text: str | None, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    assert cli.main(CATALOGUE, ["run", str(path), "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
