"""Names as users meet them: what is public and nothing else, what a wrong name is told, what a type checker says."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape import names

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"batching", "core", "memory", "modes", "names", "ops", "scipy", "tracing", "transforms"}
MODULES = {name for name in dt.__all__ if isinstance(getattr(dt, name), ModuleType)}
# The modules whose public names are all names of dualtape.
SOURCES = [
    *(f"ops.{name}" for name in ("control_flow", "creation", "diagonals", "elementwise", "gathering", "indexing")),
    *(f"ops.{name}" for name in ("nondifferentiable", "products", "reductions", "shaping", "sorting")),
    *(f"transforms.{name}" for name in ("byhand", "custom", "gradient", "jacobian", "products", "vmap")),
]


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    shown = set(dir(dt))
    assert shown == set(dt.__all__)
    assert len(dt.__all__) == len(shown)
    assert not shown & (FOLDERS | {"annotations", "Any", "TYPE_CHECKING", "importlib", "import_module", "np", "typing"})
    assert MODULES == set(names.MODULES) == {"extend", "inspect", "linalg", "special", "testing"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_dir_of_a_module_shows_its_public_names_and_nothing_else(name: str) -> None:
    module = getattr(dt, name)
    assert dir(module) == sorted(module.__all__)
    assert sorted(names.names_of(f"dualtape.{names.MODULES[name]}")) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in module.__all__)


def test_each_public_name_of_a_module_is_that_of_dualtape() -> None:
    for source in SOURCES:
        module = importlib.import_module(f"dualtape.{source}")
        for name in module.__all__:
            assert getattr(dt, name) is getattr(module, name), f"{source}.{name}"


def test_a_star_import_brings_all_public_names() -> None:
    found: dict[str, Any] = {}
    exec("from dualtape import *", found)
    assert set(dt.__all__) == found.keys() - {"__builtins__"}


def test_public_names_do_not_depend_on_what_was_used_before() -> None:
    script = "import dualtape as dt; a = dir(dt); dt.diag; dt.special; print(a == dt.__all__ == dir(dt), len(a))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", str(len(dt.__all__))]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("concatenate", "use dualtape.concat"),
        ("arcsin", "use dualtape.asin"),
        ("power", "use dualtape.pow"),
        ("absolute", "use dualtape.abs"),
        ("amax", "use dualtape.max"),
        ("mod", "use dualtape.remainder"),
        ("append", "use numpy.append, which takes Tensors"),
        ("svd", "use dualtape.linalg.svd"),
        ("gammaln", "use dualtape.special.gammaln"),
        ("check_grads", "use dualtape.testing.check_grads"),
        ("operation", "use dualtape.extend.operation"),
        ("reduce_sum", "use dualtape.sum"),
        ("reduce_variance", "use dualtape.var"),
        ("math", "use dualtape itself"),
        ("gradient", "use dualtape.grad"),
        ("gradd", "did you mean dualtape.grad?"),
        ("jacobain", "did you mean dualtape.jacobian?"),
        ("gradienttape", "did you mean dualtape.GradientTape?"),
        ("block", "numpy.block has no operation, write numpy.concatenate of rows"),
        ("cov", "numpy.cov has no operation, write products of what numpy.mean leaves"),
        ("select", "use numpy.select, which takes Tensors"),
        # A TensorFlow tutorial's.
        ("reduce_mean", "use dualtape.mean"),
        ("random", "use numpy.random.default_rng(seed): random.normal(shape) is constant(rng.normal(size=shape))"),
        ("nn", "use NumPy's functions and dualtape.special: nn.relu(x) is maximum(x, 0)"),
        ("sigmoid", "use dualtape.special.expit"),
        ("clip_by_norm", "use x * (c / dualtape.maximum(dualtape.linalg.norm(x), c))"),
        ("norm", "use dualtape.linalg.norm"),
        ("range", "use dualtape.arange"),
    ],
)
def test_a_name_that_does_not_exist_is_told_the_right_one(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"module 'dualtape' has no attribute {name!r}; {said}")):
        getattr(dt, name)
    assert not hasattr(dt, name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("linalg.nrom", "did you mean dualtape.linalg.norm?"),
        ("linalg.svdd", "did you mean dualtape.linalg.svd?"),
        ("linalg.sin", "use dualtape.sin"),
        ("linalg.concatenate", "use dualtape.concat"),
        ("linalg.logdet", "use dualtape.linalg.slogdet"),
        ("special.gammln", "did you mean dualtape.special.gammaln?"),
        ("special.sigmoid", "use dualtape.special.expit"),
        ("special.norm", "use dualtape.linalg.norm"),
        ("special.gdtr", "scipy.special.gdtr has no operation, write gammainc(y, x * z)"),
        ("extend.operations", "did you mean dualtape.extend.operation?"),
        ("testing.check_grad", "did you mean dualtape.testing.check_grads?"),
        ("inspect.costs", "did you mean dualtape.inspect.cost?"),
    ],
)
def test_a_name_below_the_top_level_is_told_the_right_one_too(name: str, said: str) -> None:
    module, _, last = name.partition(".")
    known = f"module 'dualtape.{module}' has no attribute {last!r}; {said}"
    with pytest.raises(AttributeError, match=re.escape(known)):
        getattr(getattr(dt, module), last)


@pytest.mark.parametrize("name", ["linalg.xyzzy", "linalg.tand", "extend.y", "special._x", "testing.__path__"])
def test_a_name_below_the_top_level_like_no_other_is_told_so_and_no_more(name: str) -> None:
    module, _, last = name.partition(".")
    with pytest.raises(AttributeError, match=f"^module 'dualtape.{module}' has no attribute '{last}'$"):
        getattr(getattr(dt, module), last)


@pytest.mark.parametrize("name", ["xyzzy", "_private", "__array_api_version__"])
def test_a_name_like_no_other_is_told_so_and_no_more(name: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'dualtape' has no attribute '{name}'$"):
        getattr(dt, name)


def test_a_wrong_name_loads_no_scipy_and_gets_no_second_guess_from_python() -> None:
    script = "import sys, dualtape as dt; hasattr(dt, 'gammaln'); assert 'scipy' not in sys.modules; dt.arcsin"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("'arcsin'; use dualtape.asin")


def test_what_wrong_names_are_told_to_use_exists() -> None:
    for text in names.ELSEWHERE.values():
        for path in re.findall(r"\bdualtape((?:\.\w+)+)", text):
            value: Any = dt
            for part in path[1:].split("."):
                value = getattr(value, part)


GOOD = """
import numpy as np
x = dt.constant([[1.0, 2.0]])
y = dt.sum(x * 2, axis=(0, 1), keepdims=True) + dt.reshape(x, (2, 1)).T @ dt.zeros((2, 2), dtype="float32")
dt.concat([x, np.ones((1, 2)), [[1.0, 2.0]]]), dt.stack([x, y]), dt.split(x, [1], axis=1)[0].shape
dt.transpose(x, (1, 0)).shape, dt.argmax(x, axis=1), dt.where(x > 1, x, 0.0) + 1, dt.grad(lambda v: dt.max(v))(x)
dt.where(x > 1, x, 0.0).shape, dt.where(x > 1)[0].shape, dt.atleast_2d(x).shape, dt.atleast_2d(x, x)[0].shape
dt.linalg.svd(x, compute_uv=False).shape, dt.linalg.svd(x).Vh.shape, dt.linalg.svd(x, False, False).shape
dt.linalg.qr(x).R.shape, dt.linalg.qr(x, "r").shape, dt.average(x).shape, dt.average(x, returned=True)[1].shape
dt.linalg.norm(x, "fro") + dt.linalg.solve(np.eye(2), [1.0, 2.0]), dt.linalg.svd(x).S, dt.special.erf(x)
dt.extend.operation, dt.testing.check_grads, dt.inspect.cost(dt.sum, x).nodes
"""
BAD = """import dualtape as dt
dt.gradd
dt.concatenate
dt.linalg.svdd
dt.special.gammln
dt.matmul([[1.0]], [[1.0]], transpose_b=True)
dt.sum([1.0], axis="rows")
dt.reshape([1.0], shape="flat")
dt.zeros((2,)).shapee
dt.where([True], 1.0, 2.0).shapee
dt.linalg.svd([[1.0]]).W
dt.linalg.svd([[1.0]], compute_uv=False).S
dt.linalg.qr([[1.0]], "r").R
"""


def test_a_type_checker_knows_the_public_names_and_no_others(tmp_path: Path) -> None:
    listed = "\n".join(f"dt.{name}" for name in dt.__all__)
    (tmp_path / "good.py").write_text(f"import dualtape as dt\n{listed}\n{GOOD}")
    (tmp_path / "bad.py").write_text(BAD)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    files = [str(tmp_path / name) for name in ("good.py", "bad.py")]
    done = subprocess.run(
        [*command, *files], cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert "good.py" not in done.stdout, done.stdout
    wrong = sorted({int(line) for line in re.findall(r"bad\.py:(\d+): error", done.stdout)})
    assert wrong == [*range(2, 14)], done.stdout


# ------------------------------------------------------------------ signatures
FUNCTIONS = {
    f"{module.__name__}.{name}".removeprefix("dualtape."): getattr(module, name)
    for module in (dt, dt.linalg)
    for name in module.__all__
    if inspect.isfunction(getattr(module, name)) and getattr(module, name).__module__.startswith("dualtape.ops")
}
# These return what a function of the user's returns.
BRANCHES = {"case", "cond", "switch_case", "while_loop"}
# Parameters that may be anything.
OPEN = {
    "convert_to_tensor": {"value"},
    "einsum": {"operands", "kwargs"},
    "pad": {"kwargs"},
    "linalg.pinv": {"rtol"},
    "while_loop": {"loop_vars", "shape_invariants"},
}
X = np.array([[2.0, 1.0], [1.0, 3.0]])
# Some of these arguments fit each function.
ATTEMPTS: list[tuple[Any, ...]] = [
    *[(X,), (X, X), (X, 0), (X, 1), (X, 0, 1), (X, (0, 1)), (X, [0, 1]), (X, np.float64), ([X, X],)],
    *[(2,), (2, 1.0), (0.0, 1.0), (X, 2, 1), (X, (2, 2)), (X, [[0, 1]], 1), ("ii", X), (X[0], 1), (X[None], 1, 2)],
    *[(np.ones((2, 2, 4)),), (np.ones((2, 2, 2)), 2), (np.ones((2, 3)), np.ones((2, 3)))],
]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_signature_says_what_is_taken_and_returned(name: str) -> None:
    signature = inspect.signature(FUNCTIONS[name])
    vague = {p.name for p in signature.parameters.values() if p.annotation in ("Any", p.empty)}
    assert vague == OPEN.get(name, set())
    assert (signature.return_annotation in ("Any", signature.empty)) == (name in BRANCHES)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - BRANCHES))
def test_what_a_signature_says_is_returned_is_returned_for_plain_arrays(name: str) -> None:
    promised = inspect.signature(FUNCTIONS[name]).return_annotation
    for args in ATTEMPTS:
        try:
            found = FUNCTIONS[name](*args)
        except (TypeError, ValueError, IndexError, ZeroDivisionError):
            continue
        parts = found if isinstance(found, (tuple, list)) else [found]
        assert parts[0] is found or promised != "Tensor"
        assert all(isinstance(part, (dt.Tensor, int)) for part in parts)
        return
    raise AssertionError(f"none of the arguments fit {name}")


def test_creation_takes_no_keyword_that_it_ignores() -> None:
    assert dt.full_like(X, 2.0, shape=(3,)).shape == (3,)
    assert dt.full((2,), 1.0, device="cpu").shape == dt.zeros((2,), device="cpu").shape == (2,)
    for make in (dt.array, lambda value, **kwargs: dt.full((2,), value, **kwargs), dt.zeros_like):
        with pytest.raises(TypeError, match="dtyp"):
            make(X[0], dtyp=np.float32)
