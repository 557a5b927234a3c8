"""The command line: parse, set the thread variables before NumPy can be imported, measure, write."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.harness import console as consoles
from experiments.harness.threads import set_threads

EPILOG = """Ratios are of the fastest samples, all libraries in turns in this one process. Exit status: 0, or 1 if a
derivative is wrong, or 2 for a name that is not known. Derivatives are compared before anything is timed."""


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Time derivatives against plain NumPy, hand-written ones and other libraries.",
        epilog=EPILOG,
    )
    top.add_argument("names", nargs="*", metavar="NAME", help="problems, or how their names begin (default: all)")
    top.add_argument("--list", action="store_true", help="name the problems and stop")
    top.add_argument("--quick", action="store_true", help="fewer and shorter samples, and not the largest arrays")
    top.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads (default 1; 0 leaves it to the libraries)"
    )
    top.add_argument(
        "--peers", default="all", metavar="NAMES", help="other libraries: all, none, or names with commas between"
    )
    top.add_argument(
        "--processor-time",
        action="store_true",
        help="count processor time: for one thread on a machine with other work",
    )
    top.add_argument("--out", type=Path, default=Path("results/benchmarks"), metavar="DIR", help="default: %(default)s")
    return top


def wanted_peers(text: str, known: list[str]) -> list[str]:
    """The libraries a --peers text names; ValueError for one that is not known."""
    if text == "all":
        return known
    found = [] if text == "none" else text.split(",")
    for name in found:
        if name not in known:
            raise ValueError(f"--peers knows {', '.join(known)}, not {name!r}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.threads < 0:
        parser().error(f"--threads is a number of threads, or 0, not {options.threads}")
    threads = options.threads or None
    set_threads(threads)
    if threads == 1:  # XLA has a pool of its own, which no thread variable limits
        os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    # Only now: these are the first to import NumPy.
    from experiments.harness import environment

    from . import measure, peers, problems, report

    console = consoles.make()
    try:
        entries = problems.chosen(options.names)
        if options.list:
            for entry in entries:
                console.say(f"{entry.name:26}{entry.title}")
            return 0
        others = list(peers.installed(wanted_peers(options.peers, peers.names()), threads))
    except ValueError as error:
        console.error(f"error: {error}")
        return 2
    if options.quick:
        entries = [entry for entry in entries if not entry.heavy or entry.name in options.names]
    effort = measure.QUICK if options.quick else measure.FULL
    now = time.process_time if options.processor_time else time.perf_counter
    rows: list[dict[str, Any]] = []
    try:
        for entry in console.track(entries, "timing"):
            rows.append(measure.measured(entry, others, effort, now))
    except measure.WrongDerivativeError as error:
        console.error(f"error: {error}")
        return 1
    about = environment.record()
    about["libraries"] = {peer.name: peer.version for peer in others}
    about["config"] = {"threads": threads, "quick": options.quick, "processor_time": options.processor_time}
    # The variables with which glibc keeps freed pages, where they are set: they matter as much as the program.
    about["config"]["malloc"] = {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}
    names = [peer.name for peer in others]
    # Plain, since a table this wide is better cut by the terminal than folded into it.
    consoles.PlainConsole().table("Time of a derivative over time of the function", *report.brief(rows, names))
    console.say(report.environment_line(about))
    console.say(f"written: {report.write(options.out, rows, names, about)} and benchmarks.json beside it")
    return 0
