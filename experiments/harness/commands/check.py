"""`check`: the bars of result files, judged again from the rows in them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console


def add(commands: Any, catalogue: Catalogue) -> None:
    command = commands.add_parser("check", help="re-evaluate the bars of a result file from the file alone")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a result.json")
    command.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    from .. import runner

    return max(runner.check(path, console) for path in options.files)
