"""The README's snippets run and print what it shows, and its test command is the one that is run elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHELL = [text for language, text in BLOCKS if language == "sh"]


def snippets() -> list[tuple[str, str]]:
    """Each Python block with the block of text that follows it, which is its output."""
    following = [*BLOCKS[1:], ("", "")]
    return [
        (text, output if kind == "text" else "")
        for (language, text), (kind, output) in zip(BLOCKS, following, strict=True)
        if language == "python"
    ]


def test_each_snippet_shows_its_output() -> None:
    assert len(snippets()) >= 3
    assert all(output.strip() for _, output in snippets())


@pytest.mark.parametrize("number", range(len(snippets())))
def test_a_snippet_prints_what_is_shown(number: int) -> None:
    program, output = snippets()[number]
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (output, "")


def test_the_first_two_commands_run_the_experiments_and_the_tests() -> None:
    assert "python -m experiments run all --quick" in SHELL[0]
    assert all(tool in SHELL[1] for tool in ("ruff check", "mypy", "pytest"))
    assert all("python3 -m venv .venv" in command for command in SHELL[:2])


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_checks_elsewhere_run_the_second_command() -> None:
    done = subprocess.run(["bash", ".ci/run", "--show"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == SHELL[1]
