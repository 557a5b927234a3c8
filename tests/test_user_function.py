"""Experiments on a function of the user's: it is measured and drawn, or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.catalogue import CATALOGUE
from experiments.harness import cli, store
from experiments.harness.compare import Subject, reference

USERS = """
import math
import dualtape
import numpy as np
not_a_function = 3
def polynomial(x): return x**5 - 3 * x
def cubed(x): return abs(x) ** 3 + x
def wave(x): return np.exp(-x) * np.sin(3 * x)
def vector(x): return np.ones(2) * x
def refuses(x): raise ValueError("on purpose")
def leaves(x): return math.exp(x)
def pole(x): return 1 / (x - x)
def lost(x): return np.sin(dualtape.stop_gradient(x))
"""


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(USERS)
    return path


@pytest.mark.parametrize(
    ("name", "source"), [("cubed", "mpmath, 50 digits"), ("wave", "complex step in extended precision")]
)
def test_function_of_the_users(users: Path, tmp_path: Path, name: str, source: str) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("mpmath")
    arguments = ["run", "accuracy_vs_step", "--function", f"{users}:{name}", "--at", "1.5", "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 0
    result = store.read_json(tmp_path / "accuracy_vs_step" / "result.json")
    assert result["config"]["references"] == {f"model.py:{name}": source}
    assert str(tmp_path) not in json.dumps(result)
    folder = tmp_path / "accuracy_vs_step"
    assert (folder / "figure.png").stat().st_size > 10_000
    assert source in (folder / "table.md").read_text(encoding="utf-8")


def test_the_reference_does_not_confirm_a_derivative_that_was_lost(users: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["run", "accuracy_vs_step", "--function", f"{users}:lost", "--at", "1.5", "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 1
    checks = store.read_json(tmp_path / "accuracy_vs_step" / "result.json")["checks"]
    assert [check["id"] for check in checks if not check["passed"]] == ["reference-confirms"]


@pytest.mark.parametrize(
    ("target", "at", "message"),
    [
        ("missing.py:wave", "1.5", "there is no file"),
        ("wave", "1.5", "FILE:NAME"),
        ("{users}:wafe", "1.5", "did you mean 'wave'"),
        ("{users}:not_a_function", "1.5", "no function but of type int"),
        ("{users}:wave", "nan", "finite number"),
        ("{users}:vector", "1.5", "an array of shape (2,)"),
        ("{users}:refuses", "1.5", "ValueError: on purpose"),
        ("{users}:leaves", "1.5", "cannot be differentiated in forward mode"),
        ("{users}:pole", "1.5", "choose a point where it is finite"),
        ("{broken}:wave", "1.5", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_function_that_is_of_no_use(
    users: Path, tmp_path: Path, target: str, at: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    target = target.format(users=users, broken=tmp_path / "broken.py")
    arguments = ["run", "accuracy_vs_step", "--function", target, "--at", at, "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in " ".join(said.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "accuracy_vs_step", "--function", "model.py:wave"],
        ["run", "accuracy_vs_step", "--at", "1.5"],
        ["run", "accuracy_vs_step", "--function", "model.py:wave", "--at", "here"],
        ["run", "trace_table", "--function", "model.py:wave", "--at", "1.5"],
    ],
)
def test_options_of_a_function_that_do_not_go_together(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(CATALOGUE, arguments)
    assert ended.value.code == 2


def slope_of(f: Any) -> Any:
    """The reference of a function at 1.5, or None."""
    found, _ = reference(Subject("f", lambda x: f(x[0]), np.array([1.5]), 1), [0])
    return None if found is None else found[0, 0]


@pytest.mark.parametrize("body", ["abs(x) * x", "x.real ** 2 + x.imag * 7", "x ** 2 if x > 0 else x", "np.float64(x)"])
def test_a_complex_step_that_sees_another_slope_is_no_reference(body: str) -> None:
    f = eval(f"lambda x: {body}", {"np": np})
    slope = slope_of(f)
    exact = {"abs(x) * x": 3.0, "np.float64(x)": 1.0}.get(body, 3.0)
    assert slope is None or abs(slope - exact) < 1e-15


def test_the_reference_has_more_digits_than_a_double() -> None:
    slope = slope_of(lambda x: np.exp(np.sin(x)))
    wide = np.longdouble(1.5)
    assert abs(slope - np.cos(wide) * np.exp(np.sin(wide))) <= 4 * np.finfo(np.longdouble).eps


def test_a_function_without_a_reference_is_refused_and_not_measured_against_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text("import numpy as np\ndef f(x): return np.abs(x) * np.sin(x)\n")
    arguments = ["run", "accuracy_vs_step", "--function", f"{path}:f", "--at", "1.5", "--out", str(tmp_path)]
    assert cli.main(CATALOGUE, arguments) == 2
    assert "nothing to measure the errors" in " ".join(capsys.readouterr().err.split())
