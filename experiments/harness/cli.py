"""The command line: parse, hand over to the command, and turn what went wrong into a line and an exit status."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from . import console as consoles
from .catalogue import Catalogue
from .commands import check, compare, draw, list, papers, report, run
from .errors import InputError

COMMANDS = (
    list,
    run,
    compare,
    check,
    draw,
    report,
    papers,
)


def parser(catalogue: Catalogue) -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Run the experiments and judge their bars.",
        epilog="Exit status: 0 every deterministic bar holds, 1 one does not, 2 something broke.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands, catalogue)
    return top


def main(catalogue: Catalogue, arguments: Sequence[str] | None = None) -> int:
    options = parser(catalogue).parse_args(arguments)
    console = consoles.make()
    if console.hint:
        console.say(console.hint)
    try:
        status: int = options.call(options, catalogue, console)
        return status
    except InputError as error:
        console.error(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        console.error("interrupted; what was finished is in its folder")
        return 130
    except OSError as error:
        console.error(f"error: {error.strerror}: {error.filename}")
        return 2
