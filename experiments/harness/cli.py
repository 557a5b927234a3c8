"""The command line: parse, set the thread variables before NumPy can be imported, hand over to the runner."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from . import console as consoles
from .catalogue import Catalogue, UnknownExperimentError
from .store import StoreError
from .threads import set_threads


def parser(takers: Sequence[str]) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Run the experiments and judge their bars.",
        epilog="Exit status: 0 every deterministic bar holds, 1 one does not, 2 something broke.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="name the experiments, their claims and sources")
    run = commands.add_parser("run", help="run experiments by name, or all")
    run.add_argument("names", nargs="+", metavar="NAME", help="an experiment, or `all`")
    run.add_argument("--quick", action="store_true", help="the same bars on smaller grids, at most 5 s each")
    run.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default %(default)s)")
    run.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="default: %(default)s/")
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
        help=f"a function of yours, of one number (with {' or '.join(takers)} only, and --at)",
    )
    run.add_argument("--at", type=float, metavar="X", help="where it is differentiated")
    compare = commands.add_parser("compare", help="a function of yours: cost and accuracy of its derivatives")
    compare.add_argument("function", metavar="FILE:FUNCTION", help="a function of arrays that returns one array")
    compare.add_argument("--at", type=float, nargs="+", metavar="VALUE", help="its argument: a number, or an array")
    compare.add_argument("--args", type=Path, metavar="FILE.npz", help="its arguments, in their order in the file")
    compare.add_argument("--make", metavar="FUNCTION", help="a function in the same file that returns its arguments")
    compare.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="default: %(default)s/")
    compare.add_argument("--quick", action="store_true", help="time for a moment only")
    compare.add_argument("--no-plot", action="store_true", help="write no figure")
    check = commands.add_parser("check", help="re-evaluate the bars of a result file from the file alone")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a result.json")
    return top


def main(catalogue: Catalogue, arguments: Sequence[str] | None = None) -> int:
    takers = [name for name, entry in catalogue.entries.items() if entry.takes_function]
    command_line = parser(takers)
    options = command_line.parse_args(arguments)
    if options.command == "run":
        if options.seed < 0:
            command_line.error("--seed must not be negative")
        if (options.function is None) != (options.at is None):
            command_line.error("--function and --at go together: a function and the point to differentiate it at")
        if options.function is not None and not (len(options.names) == 1 and options.names[0] in takers):
            command_line.error(f"only {' or '.join(takers)} takes a function: run it alone")
        set_threads(options.threads or None)
    if options.command == "compare":
        set_threads(1)
    # Only now: these are the first to import NumPy.
    from . import runner, user_function
    from .config import Config

    console = consoles.make()
    if console.hint:
        console.say(console.hint)
    try:
        if options.command == "list":
            runner.listing(catalogue, console)
            return 0
        if options.command == "check":
            return max(runner.check(path, console) for path in options.files)
        if options.command == "compare":
            from . import compare

            subject = compare.load(options.function, options.at, options.args, options.make)
            return compare.run(subject, options.out, options.quick, not options.no_plot, console)
        config = Config(
            quick=options.quick,
            seed=options.seed,
            plot=not options.no_plot,
            assert_time=options.assert_time,
            threads=options.threads or None,
            function=user_function.load(options.function, options.at) if options.function else None,
            track=console.track,
        )
        names = catalogue.resolve(options.names)
        options.out.mkdir(parents=True, exist_ok=True)  # better to fail now than after a minute's work
        return runner.run(names, catalogue, config, options.out, console)
    except (UnknownExperimentError, StoreError, user_function.UserFunctionError) as error:
        console.error(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        console.error("interrupted; what was finished is in its folder")
        return 130
    except OSError as error:
        console.error(f"error: {error.strerror}: {error.filename}")
        return 2
