"""Published claims, and whether they are reproduced: TOML files of claims, verdicts from the checks of results."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .bars import OPERATORS
from .errors import InputError
from .spec import MARKS

KINDS = ("theorem", "count", "accuracy", "timing")


@dataclass(frozen=True)
class LedgerClaim:
    """One claim of a source; what it is held against, if anything here is."""

    source: str
    id: str
    statement: str
    kind: str
    mark: str
    obtained: str
    published: str = ""
    experiment: str = ""
    check: tuple[str, ...] = ()
    limit: float | None = None  # what the checks' values are held to, where their bars are wider than the claim
    in_kind: bool = False  # whether other problems than the source's are looked at
    note: str = ""


@dataclass(frozen=True)
class Paper:
    """A source with its claims."""

    key: str
    citation: str
    claims: tuple[LedgerClaim, ...]


def load(folder: Path) -> list[Paper]:
    """All sources of a folder, checked."""
    papers = []
    for path in sorted(folder.glob("*.toml")):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
            claims = [LedgerClaim(path.stem, **{**c, "check": tuple(c.get("check", ()))}) for c in document["claim"]]
            papers.append(Paper(path.stem, document["citation"], tuple(claims)))
        except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise InputError(f"{path}: {error}") from error
    if not papers:
        raise InputError(f"there are no papers in {folder}")
    for paper in papers:
        for claim in paper.claims:
            ensure_sound(claim)
    return papers


def ensure_sound(claim: LedgerClaim) -> None:
    """Refuse a claim of an unknown kind, or one that is recalled and yet held against something."""
    where = f"{claim.source}.toml, {claim.id}"
    if claim.kind not in KINDS or claim.mark not in MARKS:
        raise InputError(f"{where}: kind {claim.kind!r} or mark {claim.mark!r} is none of those there are")
    if claim.mark == "M" and claim.check:
        raise InputError(f"{where}: what is recalled feeds no check")
    if bool(claim.experiment) != bool(claim.check):
        raise InputError(f"{where}: an experiment and its checks go together")


def verdict(claim: LedgerClaim, results: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """What was found here and the verdict, from the checks of the last run."""
    if not claim.check:
        return "", "recalled, not judged" if claim.mark == "M" else "not attempted"
    document = results.get(claim.experiment)
    if document is None:
        return "", "not run"
    checks = {check["id"]: check for check in document["checks"]}
    missing = [name for name in claim.check if name not in checks]
    if missing:
        raise InputError(f"{claim.source}.toml, {claim.id}: {claim.experiment} has no check {', '.join(missing)}")
    used = [checks[name] for name in claim.check]
    if claim.limit is not None:
        holds = [c["passed"] and OPERATORS[c["op"]](c["lhs"], claim.limit) for c in used]
        used = [c | {"rhs": claim.limit, "passed": held} for c, held in zip(used, holds, strict=True)]
    found = "; ".join(
        f"{c['lhs']:.4g} {c['op']} {c['rhs']:g}" + ("" if c["passed"] else " fails") if c["lhs"] is not None else "-"
        for c in used
    )
    held = all(c["passed"] for c in used)
    if claim.in_kind or not all(c["deterministic"] for c in used):
        return found, "reproduced in kind" if held else "not reproduced"
    return found, "reproduced" if held else "not reproduced"


def page(papers: list[Paper], results: dict[str, dict[str, Any]]) -> str:
    """The ledger as Markdown: claim, published, ours, verdict."""
    judged = [(claim, *verdict(claim, results)) for paper in papers for claim in paper.claims]
    counts: dict[str, int] = {}
    for _, _, said in judged:
        counts[said] = counts.get(said, 0) + 1
    lines = [
        "# Published claims, and what we find",
        "",
        "Made by `python -m experiments papers` from the files beside it and from results; do not edit. Marks: "
        + "; ".join(f"[{mark}] {meaning}" for mark, meaning in MARKS.items())
        + ".",
        "",
        f"{len(judged)} claims from {len(papers)} sources: "
        + ", ".join(f"{n} {said}" for said, n in sorted(counts.items()))
        + ".",
        "",
    ]
    for paper in papers:
        lines += [f"## {paper.citation}", "", "| claim | published | ours | verdict |", "| --- | --- | --- | --- |"]
        for claim in paper.claims:
            ours, said = verdict(claim, results)
            where = f" (`{claim.experiment}`: {', '.join(claim.check)})" if claim.check else ""
            text = f"{claim.statement} [{claim.mark}: {claim.obtained}]{where}"
            note = f" {claim.note}" if claim.note else ""
            lines.append("| " + " | ".join(cell(a) for a in (text, claim.published, ours, said + "." + note)) + " |")
        lines.append("")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text as it may stand in a cell of a table."""
    return text.replace("|", "\\|")
