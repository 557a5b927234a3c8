"""The row of an operation, the one table of rows, and look-up by NumPy function or by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Work(NamedTuple):
    """Counts of elementary work: memory moves, additions, multiplications, nonlinear functions.

    The four components are those of A. Griewank and A. Walther, *Evaluating Derivatives* (2008), chapter 4.
    """

    moves: int = 0
    adds: int = 0
    mults: int = 0
    nonlinear: int = 0

    def __add__(self, other: Work) -> Work:  # type: ignore[override]  # counts add up; they are no sequence
        a, b, c, d = other
        return Work(self[0] + a, self[1] + b, self[2] + c, self[3] + d)

    def __mul__(self, times: int) -> Work:  # type: ignore[override]
        return Work(self[0] * times, self[1] * times, self[2] * times, self[3] * times)

    def __rmul__(self, times: int) -> Work:  # type: ignore[override]
        return self * times

    def weigh(self, weighting: str) -> int:
        """The weighted sum: ``"flops"`` (0,1,1,2), ``"gw"`` (1,1,1,2) or ``"mults"`` (0,0,1,1)."""
        return sum(a * b for a, b in zip(self, WEIGHTINGS[weighting], strict=True))


WEIGHTINGS = {"flops": (0, 1, 1, 2), "gw": (1, 1, 1, 2), "mults": (0, 0, 1, 1)}


class Row:
    """One operation: kernel, forward rule, reverse rule, facts. Families (``families.py``) fill it in.

    A tape stores for each recorded operation one tuple, the entry, that the row itself lays out. ``entry[0]`` is
    the row; the rest is what its two rules read. The two readers need no more than these methods:

    - ``entry(ids, operands, outs, params)`` lays the entry out. ``ids[k]`` is the identity of operand k if the
      recorder follows it, else 0; operands are Nodes or raw constants.
    - ``pull(entry, g, cotangents, raw)`` adds the cotangents of the operands, given that of the result.
    - ``push(entry, tangents, raw)`` returns the tangent of the result, given those of the operands (None: zero);
      ``advance`` does the same for an operation that is just running, of which nothing has to be kept.
    - ``inputs(entry)`` are the identities followed, ``restrict(entry, needed)`` an entry that follows only those.

    ``raw`` says whether rules see plain arrays (nobody outside is recording) or Tensors.

    ``work``, ``pattern`` and ``batch`` are columns: cost, sparsity and batching, with a default by family. ``batch`` is
    needed where a kernel does more than call NumPy's functions, which know of batches themselves: a function
    ``batch(level, *operands, **params)`` that works on all examples at once (``core/batching.py``).
    """

    __slots__ = ("batch", "call", "differentiable", "kernel", "kind", "name", "outputs", "pattern", "work")

    # "absent": its results carry no derivative (None); "zero": they carry a derivative that is zero
    kind: str

    def __init__(self, name: str, kernel: Callable[..., Any], *, kind: str, outputs: int = 1) -> None:
        self.name = name
        self.kernel = kernel
        self.kind = kind
        self.outputs = outputs
        self.call: Callable[..., Any] = kernel
        self.work: Any = None
        self.pattern: Any = None
        self.batch: Any = None

    def __repr__(self) -> str:
        return f"<Row {self.name} ({self.kind})>"

    def entry(self, ids: tuple[int, ...], operands: tuple[Any, ...], outs: tuple[Any, ...], params: Any) -> Any:
        """The tuple a tape keeps of one operation."""
        raise NotImplementedError

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        """Reverse rule: add to the cotangents of the operands."""
        raise NotImplementedError

    def pull_batch(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> bool:
        """Reverse rule for a batch, of rows whose ``pull`` works in place; whether there is one."""
        return False

    def push(self, entry: Any, tangents: tuple[Any, ...], raw: bool) -> Any:
        """Forward rule: the tangent of the result."""
        raise NotImplementedError

    def advance(self, operands: tuple[Any, ...], outs: tuple[Any, ...], params: Any, tangents: Any, raw: bool) -> Any:
        """Forward rule while the operation runs: ``push`` without keeping an entry."""
        ids = tuple([0 if t is None else 1 for t in tangents])
        return self.push(self.entry(ids, operands, outs, params), tangents, raw)

    def inputs(self, entry: Any) -> tuple[int, ...]:
        """The identities of the operands, 0 for those not followed."""
        raise NotImplementedError

    def restrict(self, entry: Any, needed: Any) -> Any:
        """The entry, following only the operands whose identity is in ``needed``."""
        raise NotImplementedError

    def kept(self, entry: Any) -> tuple[Any, ...]:
        """The Nodes and arrays that the entry keeps alive."""
        raise NotImplementedError


# Every row by its name, and every callable by its name and by the NumPy or SciPy functions it stands for.
ROWS: dict[str, Row] = {}
TABLE: dict[Any, Callable[..., Any]] = {}


def register(call: Callable[..., Any], *names: Any) -> Callable[..., Any]:
    """Let ``call`` answer for names and NumPy functions; the first registration of a key is the only one."""
    name = getattr(getattr(call, "row", None), "name", None)
    if name in ROWS and ROWS[name].call is not call:
        raise ValueError(f"there is already a row named {name!r}")
    for key in names:
        if key in TABLE and TABLE[key] is not call:
            raise ValueError(f"{getattr(key, '__name__', key)!r} already has an operation in the table")
    for key in names:
        TABLE[key] = call
    return call


def add_row(row: Row) -> Row:
    """Enter a row in the table."""
    ROWS[row.name] = row
    return row
