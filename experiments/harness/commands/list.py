"""`list`: the experiments with their claims, sources and marks."""

from __future__ import annotations

import argparse
from typing import Any

from ..catalogue import Catalogue
from ..console import Console


def add(commands: Any, catalogue: Catalogue) -> None:
    command = commands.add_parser("list", help="name the experiments, their claims and sources")
    command.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    from .. import runner

    runner.listing(catalogue, console)
    return 0
