"""`papers`: published claims held against the experiments, and the page of verdicts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..catalogue import Catalogue
from ..console import Console
from ..threads import set_threads


def add(commands: Any, catalogue: Catalogue) -> None:
    papers = commands.add_parser("papers", help="run what published claims need, and write papers/README.md")
    papers.add_argument("--folder", type=Path, default=Path("papers"), metavar="DIR", help="default: %(default)s/")
    papers.add_argument("--results", type=Path, metavar="DIR", help="take results from there and run nothing")
    papers.add_argument("--quick", action="store_true", help="run on smaller grids")
    papers.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default %(default)s)")
    papers.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="default: %(default)s/")
    papers.set_defaults(call=call)


def call(options: argparse.Namespace, catalogue: Catalogue, console: Console) -> int:
    set_threads(1)
    # Only now: these are the first to import NumPy.
    from .. import ledger, runner, store
    from ..config import Config

    found = ledger.load(options.folder)
    needed = sorted({claim.experiment for paper in found for claim in paper.claims if claim.experiment})
    catalogue.resolve(needed)
    folder = options.results or options.out
    status = 0
    if options.results is None:
        folder.mkdir(parents=True, exist_ok=True)
        config = Config(quick=options.quick, seed=options.seed, plot=False, track=console.track)
        status = runner.run(needed, catalogue, config, folder, console)
    results = {}
    for name in needed:
        path = folder / name / "result.json"
        if path.exists():
            results[name] = store.read_json(path)
    page = options.folder / "README.md"
    store.write_text(page, ledger.page(found, results))
    console.say(f"{page}")
    return status
