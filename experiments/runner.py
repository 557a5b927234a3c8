"""Runs experiments: judges their bars, writes their files, and says what came out."""

from __future__ import annotations

import difflib
import importlib
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from . import NAMES, bars, environment, store
from .console import EXTRA_HINT, Console
from .spec import Config, Result, Spec, as_dicts


class UnknownExperimentError(Exception):
    """The name of no experiment."""


@dataclass(frozen=True)
class Outcome:
    """How one run of one experiment ended; `document` is None if it broke down."""

    name: str
    document: dict[str, Any] | None
    error: str = ""


def resolve(names: Sequence[str]) -> list[str]:
    """Names as given, `all` spelled out, each once; an unknown one is an error that names the nearest."""
    chosen: list[str] = []
    for name in names:
        if name != "all" and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"the nearest name is {near[0]!r}" if near else f"there are {', '.join(NAMES)}"
            raise UnknownExperimentError(f"no experiment is called {name!r}; {hint}")
        chosen += [n for n in (NAMES if name == "all" else (name,)) if n not in chosen]
    return chosen


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


def have_matplotlib() -> bool:
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return False
    return True


def _figure(result: Result, folder: Path) -> str | None:
    """Draw figure.svg and figure.png; the name of the SVG, or None if there is no way to draw one."""
    if result.draw is not None and have_matplotlib():
        from . import plots

        plots.save(result.draw(), folder / "figure")
    if result.svg is not None:
        store.write_text(folder / "figure.svg", result.svg())
    return "figure.svg" if (folder / "figure.svg").is_file() else None


def run_one(name: str, config: Config, out: Path) -> dict[str, Any]:
    """Run one experiment and write `out/name/`; the document that went into result.json."""
    module = load(name)
    spec: Spec = module.SPEC
    folder = out / name
    for stale in ("result.json", "result.csv", "figure.svg", "figure.png"):
        (folder / stale).unlink(missing_ok=True)  # a run that breaks down must not leave the last one's files
    started, clock = datetime.now(UTC), time.perf_counter()
    result: Result = module.run(config)
    rows = store.tidy(result.rows, result.columns)
    checks = [bars.judge(bar, rows) for bar in result.bars]
    for file, text in result.files.items():
        store.write_text(folder / file, text)
    figure = _figure(result, folder) if config.plot else None
    document = {
        "schema": store.SCHEMA,
        "experiment": name,
        "title": spec.title,
        "claims": as_dicts(spec.claims),
        "config": config.stored() | result.settings,
        "environment": environment.record(),
        "columns": as_dicts(result.columns),
        "rows": rows,
        "checks": checks,
        "passed": bars.verdict(checks, config.assert_time),
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(time.perf_counter() - clock, 3),
        "figure": figure,
    }
    store.write_json(folder / "result.json", document)
    store.write_text(folder / "result.csv", store.to_csv(rows, result.columns))
    return document


def _show(value: Any) -> str:
    if value is None:
        return "undefined"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def status(check: dict[str, Any], assert_time: bool) -> str:
    """The word in the table; a timing nobody asked to judge is reported, not failed."""
    if check["deterministic"] or assert_time:
        return "pass" if check["passed"] else "FAIL"
    return "met" if check["passed"] else "not met"


def show_checks(console: Console, document: dict[str, Any]) -> None:
    """The table of bars of one result."""
    judged = document["config"].get("assert_time", False)
    rows = [[c["id"], _show(c["lhs"]), f"{c['op']} {_show(c['rhs'])}", status(c, judged)] for c in document["checks"]]
    title = f"{document['experiment']}: {document.get('title', '')}"
    console.table(title, ["check", "found", "bar", "result"], rows)


def run(names: Sequence[str], config: Config, out: Path, console: Console) -> int:
    """Run `names`, show what happened; the exit status of the program."""
    if config.plot and not have_matplotlib():
        console.say(f"no figures: matplotlib is not installed; {EXTRA_HINT}")
    outcomes = []
    for name in names:
        try:
            document = run_one(name, config, out)
        except Exception as error:
            traceback.print_exc()
            console.error(f"{name} broke down: {type(error).__name__}: {error}")
            outcomes.append(Outcome(name, None, f"{type(error).__name__}: {error}"))
            continue
        show_checks(console, document)
        console.say(f"{out / name}/  ({document['seconds']:.1f} s)")
        outcomes.append(Outcome(name, document))
    _combined(outcomes, config, out, console)
    if len(outcomes) > 1:
        _summary(console, outcomes)
    if any(outcome.document is None for outcome in outcomes):
        return 2
    return 0 if all(outcome.document and outcome.document["passed"] for outcome in outcomes) else 1


def _combined(outcomes: Sequence[Outcome], config: Config, out: Path, console: Console) -> None:
    """The picture that needs two experiments: both mode costs side by side."""
    documents = {outcome.name: outcome.document for outcome in outcomes}
    left, right = documents.get("many_to_one"), documents.get("one_to_many")
    if not config.plot or left is None or right is None or not have_matplotlib():
        return
    from . import mode_cost, plots

    plots.save(mode_cost.side_by_side(left["rows"], right["rows"]), out / "mode_cost")
    console.say(f"{out / 'mode_cost.svg'}  (many_to_one and one_to_many side by side)")


def _summary(console: Console, outcomes: Sequence[Outcome]) -> None:
    rows = []
    for outcome in outcomes:
        document = outcome.document
        if document is None:
            rows.append([outcome.name, "-", "-", "ERROR", outcome.error])
            continue
        judged = [c for c in document["checks"] if c["deterministic"] or document["config"]["assert_time"]]
        failed = [c["id"] for c in judged if not c["passed"]]
        rows.append(
            [
                outcome.name,
                f"{len(judged) - len(failed)} of {len(judged)}",
                f"{document['seconds']:.1f} s",
                "pass" if document["passed"] else "FAIL",
                ", ".join(failed),
            ]
        )
    console.table("Summary", ["experiment", "bars met", "time", "result", "what failed"], rows)
    if not any(outcome.document and outcome.document["config"]["assert_time"] for outcome in outcomes):
        console.say("Timings are stored and drawn, not judged: they depend on the machine (--assert-time judges them).")


def check(path: Path, console: Console) -> int:
    """Re-evaluate the bars of a result file from the file alone; the exit status of the program."""
    document = store.read_json(path)
    wrong = bars.recheck(document)
    show_checks(console, document)
    for line in wrong:
        console.error(line)
    if not wrong:
        console.say(f"{path}: all judged bars hold, and every stored value follows from the rows", style="green")
    return 1 if wrong else 0


def listing(console: Console) -> None:
    """The table of experiments with what they claim."""
    rows = []
    for name in NAMES:
        spec: Spec = load(name).SPEC
        for number, claim in enumerate(spec.claims):
            head = [spec.id, name] if number == 0 else ["", ""]
            rows.append([*head, f"{claim.statement} [{claim.mark}]", claim.source])
    console.table("Experiments", ["id", "name", "claim", "source"], rows)
