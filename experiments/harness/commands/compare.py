"""`compare`: a function of one's own, its derivatives by all ways."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console
from ..threads import set_threads


def add(commands: Any, catalogue: Catalogue) -> None:
    compare = commands.add_parser("compare", help="a function of yours: cost and accuracy of its derivatives")
    compare.add_argument("function", metavar="FILE:FUNCTION", help="a function of arrays that returns one array")
    compare.add_argument("--at", type=float, nargs="+", metavar="VALUE", help="its argument: a number, or an array")
    compare.add_argument("--args", type=Path, metavar="FILE.npz", help="its arguments, in their order in the file")
    compare.add_argument("--make", metavar="FUNCTION", help="a function in the same file that returns its arguments")
    compare.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="default: %(default)s/")
    compare.add_argument("--quick", action="store_true", help="time for a moment only")
    compare.add_argument("--no-plot", action="store_true", help="write no figure")
    compare.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    set_threads(1)
    # Only now: it is the first to import NumPy.
    from .. import compare

    subject = compare.load(options.function, options.at, options.args, options.make)
    return compare.run(subject, options.out, options.quick, not options.no_plot, console)
