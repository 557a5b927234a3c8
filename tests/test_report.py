"""The page of all results: whole, valid, escaped, and complete in itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness import cli, report, store

VOID = {"meta", "img", "br", "link"}


class Checked(HTMLParser):
    """Raises where elements do not nest; keeps texts, images and targets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.ids: list[str | None] = []
        self.links: list[str | None] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        if tag == "img":
            self.images.append(found)
        if tag == "a":
            self.links.append(found["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two experiments that take a moment."""
    out = tmp_path_factory.mktemp("results")
    assert cli.main(CATALOGUE, ["run", "E00", "E07", "--quick", "--out", str(out)]) == 0
    return out


def made(folder: Path) -> str:
    assert cli.main(CATALOGUE, ["report", str(folder)]) == 0
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_nests_and_needs_nothing_from_elsewhere(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    text = made(folder)
    page = Checked(text)
    assert [image["src"].split(",")[0] for image in page.images if image["src"]] == ["data:image/svg+xml;base64"] * 2
    assert all(image["alt"] for image in page.images)
    assert not re.search(r"(src|href)=.?https?:", text)
    assert {f"#{i}" for i in page.ids} == set(page.links)
    assert "@media print" in text


def test_every_bar_claim_and_verdict_is_on_the_page_in_the_order_of_the_catalogue(folder: Path) -> None:
    page = Checked(made(folder))
    assert page.ids == ["trace_table", "expression_swell"]
    said = " ".join(page.texts)
    for name in ("trace_table", "expression_swell"):
        document = store.read_json(folder / name / "result.json")
        for check in document["checks"]:
            assert check["id"] in page.texts
            assert check["expr"] in page.texts
        assert all(claim["statement"] in said for claim in document["claims"])
    assert str(store.read_json(folder / "trace_table" / "result.json")["environment"]["commit"]) in page.texts


def test_what_failed_is_seen_and_what_looks_like_html_is_text(folder: Path, tmp_path: Path) -> None:
    document = store.read_json(folder / "trace_table" / "result.json")
    document["checks"][0] |= {"passed": False, "lhs": 7.25, "id": "<b>value</b>"}
    document |= {"passed": False, "title": 'a "quoted" <i>title</i>', "experiment": "of & others", "figure": None}
    store.write_json(tmp_path / "other" / "result.json", document)
    page = Checked(made(tmp_path))
    assert page.texts.count("FAIL") == 2  # of the bar, and of the experiment
    assert "<b>value</b>" in page.texts
    assert "7.25" in page.texts
    assert not page.images
    assert page.ids == ["of & others"]


def test_tables_of_results_are_tables() -> None:
    text = "Before it,\ntwo lines.\n\n| a | b |\n| --- | ---: |\n| 1 \\| 2 | <3> |\n\nAfter."
    found = report.markdown(text)
    assert "<p>Before it, two lines.</p>" in found
    assert "<td>1 | 2</td><td class=number>&lt;3&gt;</td>" in found
    assert found.endswith("<p>After.</p>")


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(CATALOGUE, ["report", str(tmp_path)]) == 2
    assert "run some first" in capsys.readouterr().err
