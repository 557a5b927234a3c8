"""Where results come from and how they get to disk: whole files, trees that were changed, experiments by their ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness import cli, environment, store
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
