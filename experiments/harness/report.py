"""All results of a folder as one page, complete in itself: verdicts, figures, tables, environment; to read or print."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from . import store
from .errors import InputError
from .runner import show, status
from .spec import MARKS

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: #1a1a1a; max-width: 56rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.3rem; margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
a { color: #0072B2; }
table { border-collapse: collapse; margin: .6rem 0; font-size: .85rem; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e5e5e5; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.bars td:nth-child(-n+3) { white-space: nowrap; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure img { width: 100%; max-width: 52rem; } figcaption { font-size: .85rem; color: #444; }
.pass { color: #00674a; } .fail { color: #b03a00; font-weight: bold; } .other { color: #666; }
.wide { overflow-x: auto; }
@page { size: A4; margin: 18mm 15mm; }
@media print {
  body { font-size: 9.5pt; max-width: none; margin: 0; padding: 0; }
  h2 { break-before: page; border: 0; margin-top: 0; } h2, h3 { break-after: avoid; }
  figure, tr { break-inside: avoid; } .wide { overflow: visible; } a { color: inherit; text-decoration: none; }
}
"""


def page(folder: Path, order: Sequence[str]) -> str:
    """The page of all results in a folder, in this order of experiments, and others after them."""
    places = {name: k for k, name in enumerate(order)}
    paths = sorted(folder.glob("*/result.json"), key=lambda p: (places.get(p.parent.name, len(places)), p))
    found = {path.parent: store.read_json(path) for path in paths}
    if not found:
        raise InputError(f"there are no results in {folder}: run some first (python -m experiments run all)")
    parts = [heading(list(found.values()))]
    parts += [section(document, place) for place, document in found.items()]
    marks = "; ".join(f"[{mark}] {escape(meaning)}" for mark, meaning in MARKS.items())
    body = "\n".join([*parts, f"<footer><p>Marks: {marks}.</p></footer>"])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Results of dualtape's experiments</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def heading(documents: Sequence[dict[str, Any]]) -> str:
    """What ran, where, and how it ended."""
    rows = []
    for document in documents:
        name = document["experiment"]
        judged = [c for c in document["checks"] if c["deterministic"] or document["config"].get("assert_time")]
        met = sum(check["passed"] for check in judged)
        rows.append(
            [
                f'<a href="#{escape(name)}">{escape(name)}</a>',
                escape(document.get("title", "")),
                f"{met} of {len(judged)}",
                f"{document['seconds']:.1f} s",
                word("pass" if document["passed"] else "FAIL"),
            ]
        )
    summary = table(["experiment", "", "bars met", "time", "result"], rows, numbers={2, 3})
    environments = []
    for document in documents:
        if document["environment"] not in environments:
            environments.append(document["environment"])
    where = "\n".join(environment(e) for e in environments)
    return f"<h1>Results of dualtape's experiments</h1>\n{summary}\n<h3>Where they ran</h3>\n{where}"


def environment(entries: dict[str, Any]) -> str:
    """Versions, processor, commit."""
    rows = []
    for key, value in entries.items():
        if key == "threads":
            value = ", ".join(f"{k}={v}" for k, v in value.items() if v is not None)
        rows.append([escape(key.replace("_", " ")), escape(str(value))])
    return table(["", ""], rows)


def section(document: dict[str, Any], place: Path) -> str:
    """One experiment."""
    name, judged = document["experiment"], document["config"].get("assert_time", False)
    claims = "".join(
        f"<li>{escape(c['statement'])} <span class='other'>[{escape(c['mark'])}] {escape(c['source'])}</span></li>"
        for c in document["claims"]
    )
    checks = [
        [
            escape(c["id"]),
            escape(show(c["lhs"])),
            escape(f"{c['op']} {show(c['rhs'])}"),
            word(status(c, judged)),
            f"<code>{escape(c['expr'])}</code>",
        ]
        for c in document["checks"]
    ]
    settings = ", ".join(
        f"{key} {value}" for key, value in document["config"].items() if isinstance(value, (bool, int, float))
    )
    parts = [
        f'<h2 id="{escape(name)}">{escape(name)}: {escape(document.get("title", ""))}</h2>',
        f"<ul>{claims}</ul>",
        picture(document, place),
        "<h3>Bars</h3>",
        '<div class="bars">',
        table(["", "found", "bar", "result", "computed from the rows"], checks, numbers={1}),
        "</div>",
    ]
    notes = place / "table.md"
    if notes.is_file():
        parts += ["<h3>Table</h3>", markdown(notes.read_text(encoding="utf-8"))]
    if document.get("not_judged"):
        parts.append(f"<p>Not judged, for want of sizes: {escape(', '.join(document['not_judged']))}.</p>")
    parts.append(f"<p class='other'>{escape(settings)}; {escape(document['started'])}</p>")
    return "\n".join(part for part in parts if part)


def picture(document: dict[str, Any], place: Path) -> str:
    """The figure, in the page itself: an image of SVG, so that names in one drawing do not meet those in another."""
    path = place / "figure.svg"
    if document["figure"] is None or not path.is_file():
        return ""
    inside = base64.b64encode(path.read_bytes()).decode("ascii")
    title = document.get("title", document["experiment"])
    return (
        f'<figure><img alt="{escape(title)}" src="data:image/svg+xml;base64,{inside}">'
        f"<figcaption>{escape(title[:1].upper() + title[1:])}.</figcaption></figure>"
    )


def word(said: str) -> str:
    """A verdict in its colour."""
    kind = {"pass": "pass", "FAIL": "fail"}.get(said, "other")
    return f'<span class="{kind}">{escape(said)}</span>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table of cells that are HTML already."""
    right = set(numbers)

    def line(tag: str, cells: Sequence[str]) -> str:
        made = (f"<{tag}{' class=number' if k in right else ''}>{cell}</{tag}>" for k, cell in enumerate(cells))
        return f"<tr>{''.join(made)}</tr>"

    head = f"<thead>{line('th', list(map(escape, heads)))}</thead>" if any(heads) else ""
    return f'<div class="wide"><table>{head}<tbody>{"".join(line("td", row) for row in rows)}</tbody></table></div>'


def markdown(text: str) -> str:
    """The tables and lines that experiments write; nothing else of Markdown is in them."""
    parts: list[str] = []
    block: list[list[str]] = []
    lines: list[str] = []
    for raw in [*text.splitlines(), ""]:
        if raw.startswith("|"):
            if lines:
                parts.append(f"<p>{escape(' '.join(lines))}</p>")
                lines = []
            cells = [
                c.strip().replace("\\|", "|") for c in raw.strip().removeprefix("|").removesuffix("|").split(" | ")
            ]
            block.append(cells)
            continue
        if block:
            heads, rule, *rows = block if len(block) > 1 else [block[0], [""]]
            numbers = {k for k, cell in enumerate(rule) if cell.endswith(":")}
            parts.append(table(heads, [list(map(escape, row)) for row in rows], numbers))
            block = []
        if raw.strip():
            lines.append(raw)
        elif lines:
            parts.append(f"<p>{escape(' '.join(lines))}</p>")
            lines = []
    return "\n".join(parts)
