"""The examples on the pages in docs run, each by itself after the page's first one, and print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/tensorflow.md", "docs/scipy.md", "docs/function.md")
# Its examples stand alone.
ALONE = "CONTRIBUTING.md"


def blocks(page: str) -> list[tuple[str, str]]:
    """Each Python block of a page with the block of text that follows it, which is its output."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [
        (code, output if kind == "text" else "")
        for (language, code), (kind, output) in zip(found, [*found[1:], ("", "")], strict=True)
        if language == "python"
    ]


@pytest.mark.parametrize(("page", "number"), [(page, k) for page in PAGES for k in range(1, len(blocks(page)))])
def test_an_example_prints_what_is_shown(page: str, number: int) -> None:
    run(blocks(page)[0][0], *blocks(page)[number])


@pytest.mark.parametrize("number", range(len(blocks(ALONE))))
def test_a_worked_example_prints_what_is_shown(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run("", *blocks(ALONE)[number])


def run(first: str, code: str, output: str) -> None:
    space: dict[str, object] = {"__name__": "example"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(first, "<imports>", "exec"), space)
        exec(compile(code, "<page>", "exec"), space)
    assert printed.getvalue() == output


@pytest.mark.parametrize("page", [*PAGES, ALONE])
def test_each_example_shows_its_output(page: str) -> None:
    assert all(output for _, output in blocks(page)[page != ALONE :])
