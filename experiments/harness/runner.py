"""Runs experiments: judges their bars, writes their files, and says what came out."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from . import bars, environment, store
from .catalogue import Catalogue
from .clock import kept, set_aside
from .config import Config
from .console import EXTRA_HINT, Console
from .errors import InputError
from .spec import MARKS, Bar, Result, Row, Spec, as_dicts


@dataclass(frozen=True)
class Outcome:
    """How one run of one experiment ended; `document` is None if it broke down."""

    name: str
    document: dict[str, Any] | None
    error: str = ""


def have_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def _draw(module: str, arguments: Sequence[Any], stem: Path, title: str, caption: str) -> None:
    """`stem`.svg, .png, .pdf and its caption, by the function `figure` of a module; each is whole or not there.

    In the SVG text is text, and the title and the caption are there for who cannot see it.
    """
    made = import_module(module)
    drawing = made.figure(*arguments)
    stem.parent.mkdir(parents=True, exist_ok=True)
    for suffix, options in (
        (".svg", {"metadata": {"Date": None, "Title": title}}),
        (".png", {"dpi": 300}),
        (".pdf", {"metadata": {"CreationDate": None, "Title": title}}),
    ):
        part = stem.with_name(stem.name + suffix + ".part")
        drawing.savefig(part, format=suffix[1:], **options)
        if suffix == ".svg":
            text = part.read_text(encoding="utf-8")
            part.write_text(text.replace("</title>", f"</title>\n <desc>{escape(caption)}</desc>", 1), encoding="utf-8")
        part.replace(stem.with_suffix(suffix))
    store.write_text(stem.with_name(stem.name + ".caption.md"), f"**{title}.** {caption}\n")


def draw(document: dict[str, Any], catalogue: Catalogue, folder: Path) -> str | None:
    """Draw the figure of a result from what its file has; the name of the SVG, or None if there is none."""
    name = document["experiment"]
    caption = " ".join(f"{claim['statement']} ({claim['source']})" for claim in document["claims"])
    rows, drawn = document["rows"], document["drawn"]
    picture = folder / "figure.svg"
    if have_matplotlib() and catalogue.draws(name):
        _draw(catalogue.draws(name), (rows, *drawn), folder / "figure", document["title"], caption)
    by_hand = getattr(catalogue.load(name), "svg", None)
    if by_hand is not None:  # needs no matplotlib, and is preferred
        words = f"<title>{escape(document['title'])}</title>\n<desc>{escape(caption)}</desc>\n"
        start, rest = by_hand(rows, *drawn).split(">", 1)
        store.write_text(picture, f"{start}>\n{words}{rest}")
    return picture.name if picture.is_file() else None


def run_one(name: str, catalogue: Catalogue, config: Config, out: Path) -> dict[str, Any]:
    """Run one experiment and write `out/name/`; the document that went into result.json."""
    module = catalogue.load(name)
    spec: Spec = module.SPEC
    folder = out / name
    for stale in ("result.json", "result.csv", "figure.svg", "figure.png", "figure.pdf"):
        (folder / stale).unlink(missing_ok=True)  # a run that breaks down must not leave the last one's files
    started, clock = datetime.now(UTC), time.perf_counter()
    with set_aside(), kept() as timings:  # once for all that the experiment measures
        result: Result = module.run(config)
    rows = store.tidy(result.rows, result.columns)
    for file, text in result.files.items():
        store.write_text(folder / file, text)
    document = {
        "schema": store.SCHEMA,
        "experiment": name,
        "title": spec.title,
        "claims": as_dicts(spec.claims),
        "config": store.jsonable(config.stored() | result.settings),
        "environment": environment.record(),
        "columns": as_dicts(result.columns),
        "rows": rows,
        "drawn": store.jsonable(result.drawn),
        "timings": store.jsonable(timings),
        **judged(result.bars, rows, config),
        "started": started.isoformat(timespec="seconds"),
    }
    document["figure"] = draw(document, catalogue, folder) if config.plot else None
    document["seconds"] = round(time.perf_counter() - clock, 3)
    store.write_csv(folder / "result.csv", rows, result.columns)
    store.write_json(folder / "result.json", document)  # last: where it is, the rest is
    return document


def judged(found: Sequence[Bar], rows: Sequence[Row], config: Config) -> dict[str, Any]:
    """The checks and the verdict; at sizes of the user's, bars that the rows do not reach are named, not judged."""
    checks = [bars.judge(bar, rows) for bar in found]
    apart = [check["id"] for check in checks if check["lhs"] is None] if config.sizes else []
    checks = [check for check in checks if check["id"] not in apart]
    return {"checks": checks, "not_judged": apart, "passed": bars.verdict(checks, config.assert_time)}


def finished(name: str, catalogue: Catalogue, config: Config, out: Path) -> dict[str, Any] | None:
    """The result that is there already of the same commit, unchanged, and configuration; None if there is none."""
    path = out / name / "result.json"
    try:
        document = store.read_json(path)
    except InputError:
        return None
    known, now = document["environment"], environment.record()
    if config.function is not None:
        return None
    same = known.get("commit") == now["commit"] is not None and known.get("changed") is False is now["changed"]
    return document if same and config.stored().items() <= document["config"].items() else None


def show(value: Any) -> str:
    """A value in few digits."""
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
    rows = [[c["id"], show(c["lhs"]), f"{c['op']} {show(c['rhs'])}", status(c, judged)] for c in document["checks"]]
    title = f"{document['experiment']}: {document.get('title', '')}"
    console.table(title, ["check", "found", "bar", "result"], rows)


def run(
    names: Sequence[str], catalogue: Catalogue, config: Config, out: Path, console: Console, resume: bool = False
) -> int:
    """Run `names`, show what happened; the exit status of the program. `resume`: but for those that ran already."""
    if config.plot and not have_matplotlib():
        console.say(f"no figures: matplotlib is not installed; {EXTRA_HINT}")
    outcomes = []
    for name in names:
        document = finished(name, catalogue, config, out) if resume else None
        if document is not None:
            console.say(f"{out / name}/  (ran before, {document['started']})")
            outcomes.append(Outcome(name, document))
            continue
        try:
            document = run_one(name, catalogue, config, out)
        except InputError:
            raise
        except Exception as error:
            traceback.print_exc()
            console.error(f"{name} broke down: {type(error).__name__}: {error}")
            outcomes.append(Outcome(name, None, f"{type(error).__name__}: {error}"))
            continue
        show_checks(console, document)
        if document["not_judged"]:
            console.say(f"not judged, for want of sizes: {', '.join(document['not_judged'])}")
        console.say(f"{out / name}/  ({document['seconds']:.1f} s)")
        outcomes.append(Outcome(name, document))
    if config.plot and have_matplotlib():
        _combined(outcomes, catalogue, out, console)
    if len(outcomes) > 1:
        _summary(console, outcomes)
    if any(outcome.document is None for outcome in outcomes):
        return 2
    return 0 if all(outcome.document and outcome.document["passed"] for outcome in outcomes) else 1


def _combined(outcomes: Sequence[Outcome], catalogue: Catalogue, out: Path, console: Console) -> None:
    """The pictures that need several experiments."""
    rows = {outcome.name: outcome.document["rows"] for outcome in outcomes if outcome.document}
    for picture in catalogue.together:
        if rows.keys() >= set(picture.of):
            titles = " and ".join(catalogue.load(name).SPEC.title for name in picture.of)
            _draw(picture.draws, [rows[name] for name in picture.of], out / picture.name, titles, titles)
            console.say(f"{out / picture.name}.svg  ({' and '.join(picture.of)} side by side)")


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


def check(path: Path, catalogue: Catalogue, console: Console) -> int:
    """Judge a result file by the bars of the code, and see that the file follows from its rows; the exit status."""
    document = store.read_json(path)
    wrong = bars.recheck(document)
    module = catalogue.find(document["experiment"])
    if module is None:
        console.say(f"{path}: there is no experiment {document['experiment']!r} here; its own bars are judged")
    elif not hasattr(module, "bars"):
        console.say(f"{path}: {document['experiment']} gives its bars with its rows only; the file's are judged")
    else:
        try:
            ours = [bars.judge(bar, document["rows"]) for bar in module.bars(document["config"])]
        except KeyError as error:
            raise InputError(
                f"{path}: config has no entry {error}, which the bars are made with: run it again"
            ) from error
        apart = set(document.get("not_judged", ()))
        ours = [check for check in ours if check["id"] not in apart]
        for line in bars.differences(document["checks"], ours):
            console.say(line, style="yellow")
        wrong += bars.failed(ours, document["config"].get("assert_time", False))
        document = document | {"checks": ours}
    show_checks(console, document)
    for line in dict.fromkeys(wrong):
        console.error(line)
    if not wrong:
        console.say(f"{path}: all judged bars hold, and every stored value follows from the rows", style="green")
    return 1 if wrong else 0


def redraw(path: Path, catalogue: Catalogue, folder: Path, console: Console) -> int:
    """Draw the figure of a result file again, from what is in the file; the exit status."""
    document = store.read_json(path)
    if "drawn" not in document:
        raise InputError(
            f"{path} does not say what its figure was drawn from (it is of an older version): run it again"
        )
    if catalogue.find(document["experiment"]) is None:
        raise InputError(f"{path}: there is no experiment {document['experiment']!r} to draw it")
    found = draw(document, catalogue, folder)
    console.say(f"{folder / found}" if found else f"{document['experiment']} has no figure, or matplotlib is missing")
    return 0 if found else 2


def listing(catalogue: Catalogue, console: Console) -> None:
    """The table of experiments with what they claim."""
    rows = []
    for name in catalogue.entries:
        spec: Spec = catalogue.load(name).SPEC
        for number, claim in enumerate(spec.claims):
            head = [spec.id, name] if number == 0 else ["", ""]
            rows.append([*head, f"{claim.statement} [{claim.mark}]", claim.source])
    console.table("Experiments", ["id", "name", "claim", "source"], rows)
    console.table("How far a source was followed", ["mark", "meaning"], [[f"[{k}]", v] for k, v in MARKS.items()])
