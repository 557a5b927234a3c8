"""`report`: all results of a folder as one page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console


def add(commands: Any, catalogue: Catalogue) -> None:
    command = commands.add_parser("report", help="all results of a folder as one HTML page")
    command.add_argument(
        "folder", type=Path, nargs="?", default=Path("results"), metavar="DIR", help="default: results/"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in that folder")
    command.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    from .. import report, store

    path = options.out or options.folder / "report.html"
    store.write_text(path, report.page(options.folder, list(catalogue.entries)))
    console.say(str(path))
    return 0
