"""`run`: experiments by name or id, or all of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console
from ..threads import set_threads


def add(commands: Any, catalogue: Catalogue) -> None:
    run = commands.add_parser("run", help="run experiments by name or id, or all")
    run.add_argument(
        "names", nargs="+", metavar="NAME", help="an experiment, by name or id, a file PATH.py of your own, or `all`"
    )
    run.add_argument("--quick", action="store_true", help="the same bars on smaller grids, at most 10 s each")
    run.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default %(default)s)")
    run.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="default: %(default)s/")
    run.add_argument("--resume", action="store_true", help="skip what ran already: same commit, same options")
    run.add_argument("--sizes", type=int, nargs="+", default=(), metavar="N", help="sizes in the place of the grid's")
    run.add_argument("--no-plot", action="store_true", help="write no figures")
    run.add_argument("--assert-time", action="store_true", help="judge the wall-clock bars as well")
    run.add_argument(
        "--threads",
        type=int,
        nargs="?",
        const=0,
        default=1,
        metavar="N",
        help="BLAS threads (default 1; without a number: leave the choice to the libraries)",
    )
    run.add_argument(
        "--function",
        metavar="FILE:NAME",
        help=f"a function of yours, of one number (with {' or '.join(_takers(catalogue))} only, and --at)",
    )
    run.add_argument("--at", type=float, metavar="X", help="where it is differentiated")
    run.set_defaults(call=call, refuse=run.error)


def _takers(catalogue: Catalogue) -> list[str]:
    """The experiments that have a use for a function of the user's."""
    return [name for name, entry in catalogue.entries.items() if entry.takes_function]


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    if options.seed < 0:
        options.refuse("--seed must not be negative")
    if (options.function is None) != (options.at is None):
        options.refuse("--function and --at go together: a function and the point to differentiate it at")
    set_threads(options.threads or None)
    catalogue, names = found(options.names, catalogue)
    if options.sizes and min(options.sizes) < 1:
        options.refuse("--sizes are whole numbers from 1 on")
    without = [name for name in names if not catalogue.entries[name].takes_sizes]
    if options.sizes and without:
        options.refuse(f"{', '.join(without)} has no grid of sizes: leave --sizes out, or run others")
    takers = _takers(catalogue)
    if options.function is not None and not (len(names) == 1 and names[0] in takers):
        options.refuse(f"only {' or '.join(takers)} takes a function: run it alone")
    # Only now: these are the first to import NumPy.
    from .. import runner, user_function
    from ..config import Config

    config = Config(
        quick=options.quick,
        seed=options.seed,
        plot=not options.no_plot,
        assert_time=options.assert_time,
        threads=options.threads or None,
        sizes=tuple(options.sizes),
        function=user_function.load(options.function, options.at) if options.function else None,
        track=console.track,
    )
    options.out.mkdir(parents=True, exist_ok=True)  # better to fail now than after a minute's work
    return runner.run(names, catalogue, config, options.out, console, options.resume)


def found(asked: list[str], catalogue: Catalogue) -> tuple[Catalogue, list[str]]:
    """The names of what is asked for, in a catalogue that has the files among them as well."""
    names: list[str] = []
    for name in asked:
        if name.endswith(".py"):
            catalogue, own = catalogue.with_file(Path(name))
            names.append(own)
        else:
            names += [n for n in catalogue.resolve([name]) if n not in names]
    return catalogue, names
