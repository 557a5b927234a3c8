"""Reads the files of the ADBench subset under data/adbench, checked against their published sizes and hashes."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "data" / "adbench"


@cache
def _json(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def read(name: str) -> str:
    """The text of a data file; ValueError if it is not, byte for byte, the benchmark's."""
    path = FOLDER / name
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != _json("manifest.json")[name]["sha256_uncompressed"]:
        raise ValueError(f"{path} is not the file the benchmark published")
    return raw.decode("ascii")


def expected(name: str) -> dict[str, Any] | None:
    """What the benchmark's own tests expect of a data file, if they expect anything."""
    return _json("expected.json").get(name.removesuffix(".gz"))
