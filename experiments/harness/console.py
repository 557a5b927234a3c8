"""What the user sees: tables, progress and errors - with rich if it is installed, as plain lines if it is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, TypeVar

T = TypeVar("T")

EXTRA_HINT = "pip install 'dualtape[experiments]'"
QUIET_SECONDS = 2.0  # nothing shorter than this deserves a progress display


def _number(items: Iterable[Any]) -> int | None:
    return len(items) if isinstance(items, Sized) else None


class PlainConsole:
    """Lines of text; progress is a line on standard error every two seconds."""

    hint = f"(plain output: rich is not installed; {EXTRA_HINT} brings tables and progress bars)"

    def say(self, text: str, style: str = "") -> None:
        print(text)

    def error(self, text: str) -> None:
        print(text, file=sys.stderr)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
        print(f"\n{title}")
        for line in (headers, ["-" * width for width in widths], *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

    def track(self, items: Iterable[T], label: str) -> Iterator[T]:
        total = _number(items)
        last = time.perf_counter()
        for done, item in enumerate(items):
            if time.perf_counter() - last > QUIET_SECONDS:
                last = time.perf_counter()
                print(f"{label}: {done}" + (f" of {total}" if total else ""), file=sys.stderr)
            yield item


class RichConsole:
    """The same with rich: colours, box tables and a progress bar that leaves no trace."""

    hint = ""

    def __init__(self) -> None:
        from rich.console import Console

        self._out = Console(highlight=False)
        self._err = Console(stderr=True, highlight=False)

    def say(self, text: str, style: str = "") -> None:
        self._out.print(text, style=style or None, markup=False, soft_wrap=True)

    def error(self, text: str) -> None:
        self._err.print(text, style="bold red", markup=False, soft_wrap=True)

    def table(self, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        self._out.print(f"\n{title}", style="bold", markup=False)  # a title of the table's would wrap at its width
        table = Table(box=box.SIMPLE_HEAD)
        for header in headers:
            table.add_column(header, overflow="fold")
        colours = {"pass": "green", "FAIL": "bold red", "ERROR": "bold red"}
        for row in rows:
            table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in row))
        self._out.print(table)

    def track(self, items: Iterable[T], label: str) -> Iterator[T]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self._err, transient=True) as progress:
            yield from progress.track(items, total=_number(items), description=label)


Console = PlainConsole | RichConsole


def make() -> Console:
    """The console of this installation."""
    try:
        return RichConsole()
    except ImportError:
        return PlainConsole()
