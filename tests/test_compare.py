"""python -m experiments compare: a function of one's own, with a true reference; what cannot be done is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness.cli import main
from experiments.harness.compare import load, reference

MODEL = """
import numpy as np
def energy(x): return np.sum(np.sin(x) * x**2)
def curve(t): return np.stack([np.sin(t * k) for k in range(1, 6)])
def both(a, b): return np.tanh(a @ b)
def arguments(): return np.linspace(0, 1, 12).reshape(4, 3), np.ones((3, 2))
def kinked(x): return np.sum(np.abs(x) * x)
def rounded(x): return np.sum(np.exp(np.abs(x)))
def failing(x): raise ValueError("not today")
def pair(x): return x, x
def complex_(x): return x * 1j
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return path


def compared(tmp_path: Path, *arguments: str) -> Any:
    status = main(CATALOGUE, ["compare", *arguments, "--quick", "--no-plot", "--out", str(tmp_path)])
    assert status == 0
    return json.loads((tmp_path / "compare" / "compare.json").read_text())


def test_any_number_of_inputs_and_outputs(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "point.npz", a=np.ones((2, 3)), b=np.ones((3, 2)))
    for target, more, inputs, outputs in (
        ("energy", ["--at", "0.1", "0.2", "0.3"], 3, 1),
        ("curve", ["--at", "0.5"], 1, 5),
        ("both", ["--make", "arguments"], 18, 8),
        ("both", ["--args", str(tmp_path / "point.npz")], 12, 4),
    ):
        found = compared(tmp_path, f"{model}:{target}", *more)
        assert (found["inputs"], found["outputs"]) == (inputs, outputs)
        assert found["reference"].startswith("complex step")
        errors = {way["name"]: way["error"] for way in found["ways"]}
        assert all(0 <= error < 1e-12 for name, error in errors.items() if "differences" not in name)
        assert 1e-12 < errors["forward differences"] < 1e-5
        assert bool(found["hvp"]) == (outputs == 1)
        assert f"{min(inputs, outputs)} against {max(inputs, outputs)}" in found["advice"]


def test_the_reference_is_a_true_one_or_none(model: Path) -> None:
    kinked = load(f"{model}:kinked", [-1.0, 2.0], None, None)
    found, how = reference(kinked, [0, 1])
    assert how.startswith("mpmath") and np.allclose(np.ravel(found).astype(float), [2.0, 4.0], rtol=1e-15)
    found, how = reference(load(f"{model}:rounded", [-1.0, 2.0], None, None), [0, 1])
    assert found is None and how.startswith("none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["failing", "--at", "1"], "not today"),
        (["nothing", "--at", "1"], "no function"),
        (["energy"], "say where"),
        (["energy", "--at", "1", "--make", "arguments"], "say where"),
        (["energy", "--args", "/nowhere.npz"], "no file"),
        (["energy", "--at", "nan"], "not finite"),
        (["pair", "--at", "1"], "one array or number"),
        (["complex_", "--at", "1"], "real results"),
        (["energy", "--make", "failing"], "failing\\(\\) cannot be evaluated"),
    ],
)
def test_bad_input_is_told_with_status_2(
    arguments: list[str], message: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(CATALOGUE, ["compare", f"{model}:{arguments[0]}", *arguments[1:], "--out", str(tmp_path)])
    assert status == 2
    import re

    assert re.search(message, " ".join(capsys.readouterr().err.split()))


def test_experiments_are_known_by_their_ids() -> None:
    assert CATALOGUE.resolve(["E01", "e13"]) == ["many_to_one", "nesting"]
