"""The files of a result: result.json and result.csv, written so that equal rows are equal bytes; and read back."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import InputError
from .spec import Column, Row

SCHEMA = 1
KEYS: dict[str, Any] = {
    "schema": int,
    "experiment": str,
    "claims": list,
    "config": dict,
    "environment": dict,
    "columns": list,
    "rows": list,
    "checks": list,
    "passed": bool,
    "started": str,
    "seconds": (int, float),
    "figure": (str, type(None)),
}
CHECK_KEYS = {"id", "expr", "lhs", "op", "rhs", "passed", "deterministic"}


class StoreError(InputError):
    """A result file that cannot be read as one."""


def plain(value: Any) -> Any:
    """NumPy scalars as Python's; NaN and infinities, which JSON does not know, as None."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def jsonable(value: Any) -> Any:
    """What a figure takes, as it comes back from a file: lists for tuples, Python's numbers for NumPy's."""
    if isinstance(value, dict):
        return {str(key): jsonable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(part) for part in value]
    return plain(value)


def tidy(rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Rows with every column present, in column order; a key that is no column is a mistake of the experiment."""
    names = [column.name for column in columns]
    for row in rows:
        unknown = set(row) - set(names)
        if unknown:
            raise KeyError(f"row has entries that are not columns: {sorted(unknown)}")
    return [{name: plain(row.get(name)) for name in names} for row in rows]


def to_csv(rows: Sequence[Row], columns: Sequence[Column], deterministic_only: bool = False) -> str:
    """The rows as CSV; floats in the shortest form that reads back exactly."""
    names = [column.name for column in columns if column.deterministic or not deterministic_only]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if row[name] is None else row[name] for name in names])
    return text.getvalue()


def write_text(path: Path, text: str) -> None:
    """Write beside the place, then rename: whoever reads sees the old file or the whole new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_csv(path: Path, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    write_text(path, to_csv(rows, columns))


def write_json(path: Path, document: dict[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A result document whose form has been checked, so that the judge can rely on it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise StoreError(f"{path} is not a result file of schema {SCHEMA}")
    for key, kind in KEYS.items():
        if not isinstance(document.get(key, ...), kind):
            raise StoreError(f"{path}: entry {key!r} is missing or of the wrong kind")
    if not all(isinstance(check, dict) and check.keys() >= CHECK_KEYS for check in document["checks"]):
        raise StoreError(f"{path}: every check needs the entries {', '.join(sorted(CHECK_KEYS))}")
    if not all(isinstance(row, dict) for row in document["rows"]):
        raise StoreError(f"{path}: every row must be an object")
    return document
