"""What is left of a run: one Markdown table and one JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .measure import ratio


def time_of(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def times(value: float | None) -> str:
    """A ratio."""
    if value is None:
        return "-"
    if value < 0.1:
        return f"{value:.1g}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def megabytes(count: int | None) -> str:
    """Bytes in millions."""
    if count is None:
        return "-"
    return f"{count / 1e6:.0f}" if count >= 1e8 else f"{count / 1e6:.2g}"


def cells(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The heads and cells of the table. Times are ratios of minima to the function in plain NumPy."""
    heads = [
        "problem",
        "function",
        "by hand",
        "dualtape",
        *peers,
        "jvp / gradient",
        "peak MB",
        "peak by hand",
        "tape MB",
    ]
    body = [
        [
            row["title"],
            time_of(row["timings"]["primal"]["least"]),
            times(ratio(row, "hand", "primal")),
            times(ratio(row, "dualtape", "primal")),
            *(times(ratio(row, peer, "primal")) for peer in peers),
            times(ratio(row, "jvp", "dualtape")),
            megabytes(row["peak_bytes"].get("dualtape")),
            megabytes(row["peak_bytes"].get("hand")),
            megabytes(row["tape_bytes"]),
        ]
        for row in rows
    ]
    return heads, body


def brief(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The columns that fit a terminal."""
    heads = ["problem", "function", "hand", "dualtape", *peers, "jvp/grad"]
    _, body = cells(rows, peers)
    return heads, [[row["name"], *line[1 : len(heads)]] for row, line in zip(rows, body, strict=True)]


def markdown(rows: Sequence[dict[str, Any]], peers: Sequence[str]) -> str:
    """The table as Markdown."""
    heads, body = cells(rows, peers)
    lines = ["| " + " | ".join(line) + " |" for line in (heads, *body)]
    return "\n".join([lines[0], "|" + " --- |" + " ---: |" * (len(heads) - 1), *lines[1:], ""])


def environment_line(environment: dict[str, Any]) -> str:
    """One sentence that says what was measured on what."""
    libraries = ", ".join(f"{name} {version}" for name, version in environment["libraries"].items())
    threads = environment["config"]["threads"] or "default"
    return (
        f"{environment['cpu']}, {environment['logical_cores']} logical cores, threads: {threads}; Python "
        f"{environment['python']}, NumPy {environment['numpy']} with {environment['blas']}; dualtape "
        f"{environment['dualtape']}{', ' if libraries else ''}{libraries}."
    )


def write(folder: Path, rows: Sequence[dict[str, Any]], peers: Sequence[str], environment: dict[str, Any]) -> Path:
    """benchmarks.md and benchmarks.json; whoever reads the second finds what the first was made of."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{environment_line(environment)}\n\n{markdown(rows, peers)}"
    (folder / "benchmarks.md").write_text(text, encoding="utf-8")
    document = {"schema": 1, "environment": environment, "rows": rows}
    (folder / "benchmarks.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return folder / "benchmarks.md"
