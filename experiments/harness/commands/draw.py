"""`draw`: the figure of a result file, drawn again from the file alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console


def add(commands: Any, catalogue: Catalogue) -> None:
    command = commands.add_parser("draw", help="draw the figure of a result file again")
    command.add_argument("file", type=Path, metavar="FILE", help="a result.json")
    command.add_argument("--out", type=Path, metavar="DIR", help="where to (default: beside the file)")
    command.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    from .. import runner

    return runner.redraw(options.file, catalogue, options.out or options.file.parent, console)
