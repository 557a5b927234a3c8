"""The tree keeps its shape: imports point down, each file says its reason, nothing machine-bound is tracked.

The rules are functions of a directory, so that they are themselves tested on small trees which break them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# The packages of dualtape from the lowest up: each may import itself and those before it, other modules all of them and
# what is said of a name that they do not have.
ROOMS = ("memory", "facts", "core", "batching", "modes", "ops", "transforms", "tracing")
BELOW = {room: set(ROOMS[:k]) for k, room in enumerate(ROOMS)}
# What may be imported from outside the standard library; everywhere else SciPy too.
THIRD_PARTY = {room: {"numpy"} for room in ROOMS if room != "ops"}
# Not for experiments, papers and benchmarks, which show what users can do.
INTERNAL = {*ROOMS}
USERS = ("experiments", "papers", "benchmarks")
# What a part of experiments may import of experiments, beside itself; any experiment may import both.
SHARED: dict[str, set[str]] = {"harness": set(), "shared": {"harness"}}
# Those name the experiments, and their command lines set the number of threads before anything else is imported.
JOINS = {"__init__", "__main__", "catalogue"}
# And what brings in SciPy waits until it is needed.
LATE = ("experiments/harness/commands/", "benchmarks/cli.py", "dualtape/ops/protocols.py")
LONGEST = 400


def python_files(tree: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (tree / folder).rglob("*.py") if "__pycache__" not in path.parts)


def imported(path: Path, tree: Path) -> Iterator[tuple[int, str]]:
    """The line and full dotted name of everything a file imports, `from` names included."""
    package = path.relative_to(tree).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value)


def arrows_up(tree: Path) -> list[str]:
    """Imports that point up: from a lower part of dualtape to a higher one, or from outside into its inner parts."""
    found = []
    for path in python_files(tree, "dualtape"):
        place = path.relative_to(tree / "dualtape")
        if place == Path("__init__.py"):
            continue  # the public names come from everywhere
        part = place.parts[0].removesuffix(".py")
        allowed = {part, *BELOW.get(part, {*BELOW, "names"})}
        for line, name in imported(path, tree):
            top, *rest = name.split(".")
            if top == "dualtape":
                arrow = not rest or rest[0] not in allowed
            else:
                arrow = top not in sys.stdlib_module_names | THIRD_PARTY.get(part, {"numpy", "scipy"})
            if arrow:
                found.append(f"dualtape/{place.as_posix()}:{line} imports {name}")
    for path in python_files(tree, *USERS):
        place = path.relative_to(tree).as_posix()
        for line, name in imported(path, tree):
            top, *rest = name.split(".")
            if top == "dualtape" and rest and (rest[0] in INTERNAL or rest[0].startswith("_")):
                found.append(f"{place}:{line} imports {name}")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in INTERNAL:
                if ast.unparse(node.value) in ("dt", "dualtape"):
                    found.append(f"{place}:{node.lineno} uses {ast.unparse(node)}")
    return found


def arrows_between_experiments(tree: Path) -> list[str]:
    """Imports from one experiment into another, and from what all use into any."""
    found = []
    for path in python_files(tree, "experiments", "benchmarks"):
        place = path.relative_to(tree)
        part = place.parts[1].removesuffix(".py") if place.parts[0] == "experiments" else ""
        allowed = {part, *SHARED.get(part, SHARED)}
        for line, name in imported(path, tree):
            top, *rest = name.split(".")
            wrong = (top == "experiments" and rest[:1] and rest[0] not in allowed) or (part and top == "benchmarks")
            if part not in JOINS and wrong:
                found.append(f"{place.as_posix()}:{line} imports {name}")
    return found


def circles(tree: Path, *folders: str) -> list[str]:
    """Files that import each other in a circle (or lead into one), imports inside functions included."""
    files = {".".join(path.relative_to(tree).with_suffix("").parts): path for path in python_files(tree, *folders)}
    below = {
        module: files.keys() & {n if n in files else n.rpartition(".")[0] for _, n in imported(path, tree)} - {module}
        for module, path in files.items()
    }
    while free := [module for module, others in below.items() if not others & below.keys()]:
        for module in free:
            del below[module]
    return sorted(below)


def hidden_imports(tree: Path) -> list[str]:
    """Imports of our own modules inside functions: an arrow that nobody sees. (SciPy waits until it is needed.)"""
    found = []
    for path in python_files(tree, "dualtape", *USERS):
        place = path.relative_to(tree).as_posix()
        text = path.read_text(encoding="utf-8")
        inside = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.Lambda):
                inside |= {n.lineno for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)}
        for line, name in imported(path, tree):
            if line in inside and name.split(".")[0] in ("dualtape", *USERS) and not place.startswith(LATE):
                found.append(f"{place}:{line} imports {name} inside a function")
    return found


def looked_up_by_name(tree: Path) -> list[str]:
    """Rows found by their name below ``ops``: an arrow up, in other words."""
    pattern = re.compile(r"""\b(?:TABLE|ROWS)(?:\.get\()?\[?["']""")
    return [
        f"{path.relative_to(tree).as_posix()}:{k}: {line.strip()}"
        for room in ROOMS[: ROOMS.index("ops")]
        for path in python_files(tree, f"dualtape/{room}")
        for k, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def without_reason(tree: Path) -> list[str]:
    """Files whose first line is not a docstring, and long files whose docstring has no sentence "Length: ..."."""
    found = []
    for path in python_files(tree, "dualtape", "tests", *USERS):
        place, text = path.relative_to(tree).as_posix(), path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(text))
        if not docstring or not text.startswith(('"""', 'r"""')) or not docstring.splitlines()[0].strip():
            found.append(f"{place}: the first line is not a docstring that says the file's reason")
        elif len(text.splitlines()) > LONGEST and "Length:" not in docstring:
            found.append(f'{place}: over {LONGEST} lines, and no "Length: ..." in its docstring says why')
    return found


def machine_paths(text: str) -> list[str]:
    """Absolute paths of the machine a text was written on."""
    folders = "|".join(("home", "root", "Users", "work", "opt", "mnt", "tmp"))
    return re.findall(rf"(?<![\w.\-:/])(?:[A-Z]:)?[/\\](?:{folders})[/\\]\w+", text)


def unnamed_modules(tree: Path) -> list[str]:
    """Modules that the layout in docs/design.md does not name."""
    design = (tree / "docs" / "design.md").read_text(encoding="utf-8")
    layout = design.partition("## Layout")[2].partition("\n## ")[0]
    named = set(re.findall(r"\w+", layout))
    paths = [path.relative_to(tree) for path in python_files(tree, "dualtape")]
    return [path.as_posix() for path in paths if path.stem != "__init__" and not {*path.parts[:-1], path.stem} <= named]


def grow(tree: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    return tree


def test_imports_point_down() -> None:
    assert not arrows_up(ROOT)
    assert not arrows_between_experiments(ROOT)
    assert not hidden_imports(ROOT)
    assert not looked_up_by_name(ROOT)


def test_no_files_import_each_other_in_a_circle() -> None:
    assert not circles(ROOT, "dualtape")
    assert not circles(ROOT, "experiments", "benchmarks")


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"dualtape/core/a.py": "from dualtape.core import b", "dualtape/core/b.py": "import dualtape.core.a"}, 2),
        ({"dualtape/core/a.py": "def f():\n    from .b import g", "dualtape/core/b.py": "from .a import f"}, 2),
        ({"dualtape/core/a.py": "from .b import g", "dualtape/core/b.py": "import math"}, 0),
    ],
)
def test_a_circle_is_found(tmp_path: Path, files: dict[str, str], wrong: int) -> None:
    assert len(circles(grow(tmp_path, files), "dualtape")) == wrong


def test_hidden_arrows_are_found(tmp_path: Path) -> None:
    files = {
        "dualtape/modes/tape.py": "def f():\n    from dualtape.core import sweep",
        "dualtape/core/tensor.py": "x = TABLE['cast']",
        "dualtape/batching/value.py": "x = ROWS.get('cast')",
        "dualtape/ops/linalg.py": "def f():\n    from scipy.linalg import lapack",
        "dualtape/ops/shaping.py": "x = ROWS['cast']",
    }
    tree = grow(tmp_path, files)
    assert [line.split(":")[0] for line in hidden_imports(tree)] == ["dualtape/modes/tape.py"]
    assert [line.split(":")[0] for line in looked_up_by_name(tree)] == [
        "dualtape/core/tensor.py",
        "dualtape/batching/value.py",
    ]


def test_an_arrow_between_experiments_is_found(tmp_path: Path) -> None:
    files = {
        "experiments/harness/a.py": "from ..shared import b",
        "experiments/shared/b.py": "from ..hvp import c",
        "experiments/hvp/c.py": "from ..nesting.d import x\nfrom benchmarks import y",
        "benchmarks/z.py": "from experiments.hvp import c",
        "experiments/catalogue.py": "from .hvp import c",
        "experiments/nesting/d.py": "from ..shared import b\nfrom ..harness import a",
    }
    found = [line.split(":")[0] for line in arrows_between_experiments(grow(tmp_path, files))]
    assert sorted(found) == [
        "benchmarks/z.py",
        "experiments/harness/a.py",
        "experiments/hvp/c.py",
        "experiments/hvp/c.py",
        "experiments/shared/b.py",
    ]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dualtape/memory/reserve.py", "from dualtape.core import tensor"),
        ("dualtape/core/tensor.py", "from dualtape.batching.value import Batch"),
        ("dualtape/batching/value.py", "from dualtape.modes import tape"),
        ("dualtape/modes/tape.py", "from dualtape.ops import shaping"),
        ("dualtape/core/tape.py", "from dualtape.ops import elementwise"),
        ("dualtape/core/tape.py", "from ..transforms.products import jvp"),
        ("dualtape/core/tape.py", "from .. import ops"),
        ("dualtape/core/tape.py", "import dualtape as dt"),
        ("dualtape/core/tape.py", "from dualtape import grad"),
        ("dualtape/core/tape.py", "import scipy.special"),
        ("dualtape/core/tape.py", "def late():\n    import scipy"),
        ("dualtape/core/tape.py", "import importlib\nimportlib.import_module('dualtape.ops.special')"),
        ("dualtape/ops/linalg.py", "from dualtape.transforms import products"),
        ("dualtape/ops/linalg.py", "import matplotlib"),
        ("dualtape/transforms/products.py", "from dualtape.testing import check_grads"),
        ("dualtape/inspect.py", "import dualtape.testing"),
        ("dualtape/scipy/optimize.py", "from ..optimizers import Adam"),
        ("experiments/nesting/experiment.py", "from dualtape.core.tape import GradientTape"),
        ("experiments/nesting.py", "from dualtape import ops"),
        ("experiments/nesting.py", "import dualtape as dt\ndt.core.recorders"),
        ("benchmarks/run.py", "from dualtape.transforms.products import jvp"),
        ("papers/generate.py", "from dualtape import _private"),
    ],
)
def test_an_arrow_that_points_up_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert [line for line in arrows_up(grow(tmp_path, {file: text})) if line.startswith(file)]


def test_arrows_that_point_down_are_not_found(tmp_path: Path) -> None:
    files = {
        "dualtape/__init__.py": "from dualtape.transforms.products import jvp\nfrom dualtape import testing",
        "dualtape/core/tape.py": "import math\nimport numpy as np\nfrom .recorders import stack\nfrom . import table",
        "dualtape/ops/special.py": "import scipy.special\nfrom ..core import table\nfrom dualtape.ops import shaping",
        "dualtape/transforms/products.py": "from dualtape.core.tape import GradientTape\nfrom ..ops import shaping",
        "dualtape/scipy/optimize.py": "from scipy import optimize\nfrom .linalg import a\nfrom ..transforms import b",
        "experiments/nesting.py": "import dualtape as dt\nfrom dualtape import grad, inspect\nimport rich",
    }
    assert not arrows_up(grow(tmp_path, files))


def test_each_file_says_its_reason() -> None:
    assert not without_reason(ROOT)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ('"""Why."""\n', True),
        ("", False),
        ('# A comment.\n"""Why."""\n', False),
        ('"""Why."""\n' + "x = 1\n" * LONGEST, False),
        ('"""Why.\n\nLength: one table.\n"""\n' + "x = 1\n" * LONGEST, True),
    ],
)
def test_a_file_without_a_reason_is_found(tmp_path: Path, text: str, accepted: bool) -> None:
    assert bool(without_reason(grow(tmp_path, {"dualtape/module.py": text}))) is not accepted


def test_the_layout_names_every_module() -> None:
    assert not unnamed_modules(ROOT), "name these in the layout of docs/design.md"


def test_an_unnamed_module_is_found(tmp_path: Path) -> None:
    files = {"docs/design.md": "## Layout\ndualtape core tape.py\n## Names\nextra", "dualtape/core/tape.py": ""}
    assert not unnamed_modules(grow(tmp_path, files))
    assert unnamed_modules(grow(tmp_path, {"dualtape/core/extra.py": ""})) == ["dualtape/core/extra.py"]


def test_importing_dualtape_is_cheap() -> None:
    heavy = {"scipy", "matplotlib", "rich", "mpmath", "hypothesis", "pytest"}
    script = f"import sys, dualtape; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_wheel_is_the_library_and_needs_numpy_and_scipy_alone() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {re.split(r"\W", need)[0] for need in settings["project"]["dependencies"]} == {"numpy", "scipy"}
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["dualtape"]}
    assert (ROOT / "dualtape" / "py.typed").exists()


def test_nothing_tracked_contains_a_path_of_a_machine() -> None:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip("not a git checkout")
    found = {}
    for name in filter(None, listing.stdout.split("\0")):
        path = ROOT / name
        if path.is_file():
            found[name] = machine_paths(path.read_bytes().decode("utf-8", errors="replace"))
    assert not {name: paths for name, paths in found.items() if paths}


def test_a_path_of_a_machine_is_found() -> None:
    assert machine_paths("see " + "/".join(("", "home", "ada", "notes")))
    assert machine_paths("see " + "\\".join(("C:", "Users", "ada")))
    assert not machine_paths("a/home/page, https://example.org/" + "work/x, g * np.cos(x) / work")
