"""`check`: result files judged again: by the bars of the code, from the rows in the files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console


def add(commands: Any, catalogue: Catalogue) -> None:
    command = commands.add_parser("check", help="judge a result file by the bars of the code")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a result.json")
    command.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    from .. import runner

    return max(runner.check(path, catalogue, console) for path in options.files)
