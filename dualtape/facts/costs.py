"""The `work` column: what one operation costs to evaluate and to differentiate, counted from shapes alone.

The scalar entries follow the work model of A. Griewank and A. Walther, *Evaluating Derivatives* (2008), ch. 4:
an addition costs (3,1,0,0) to evaluate, (6,2,0,0) with a tangent and (9,3,0,0) with its adjoint; a product
(3,0,1,0), (6,1,3,0), (11,2,3,0); a nonlinear function (2,0,0,1), (4,0,1,2), (7,1,1,2). An adjoint reads and
resets the cotangent of the result, and reads and writes that of each operand.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

Shape = tuple[int, ...]


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


class Performed(NamedTuple):
    """One operation as it was performed: shapes, which operands are differentiated, and keywords."""

    shapes: tuple[Shape, ...]
    outs: tuple[Shape, ...]
    active: tuple[bool, ...]
    params: dict[str, Any]
    constants: tuple[Any, ...] = ()

    @property
    def reads(self) -> int:
        """Elements of the operands."""
        return sum(map(prod, self.shapes))

    @property
    def writes(self) -> int:
        """Elements of the results."""
        return sum(map(prod, self.outs))

    @property
    def active_reads(self) -> int:
        """Elements of the differentiated operands."""
        return sum(prod(s) for s, a in zip(self.shapes, self.active, strict=True) if a)


class Parts(NamedTuple):
    """The cost of one operation, in the parts that the ways of differentiating put together.

    A tangent sweep with its primal costs ``evaluation + partials + tangent``; n tangents, linearised once,
    ``evaluation + partials + n * tangent``; a gradient ``evaluation + partials + adjoint``.
    """

    evaluation: Work
    partials: Work
    tangent: Work
    adjoint: Work


WorkRule = Callable[[Performed], Parts]


# The cost of what is not counted.
FREE = Parts(Work(), Work(), Work(), Work())


def by_shape(rule: WorkRule) -> WorkRule:
    """Mark a rule that depends on nothing but shapes and active operands, so that it is counted once for each."""
    rule.by_shape = True  # type: ignore[attr-defined]
    return rule


def traffic(op: Performed, tangent: Work, adjoint: Work, *, rereads: int = 0) -> tuple[Work, Work]:
    """Tangent and adjoint arithmetic with the memory moves every operation has."""
    return (
        tangent + Work(moves=op.active_reads + op.writes),
        adjoint + Work(moves=2 * op.writes + 2 * op.active_reads + rereads),
    )


def elementwise(
    operands: int,
    *,
    adds: int = 0,
    mults: int = 0,
    nonlinear: int = 0,
    factor: int | None = None,
    partial: Work | None = None,
) -> WorkRule:
    """Cost of an elementwise operation, per element of the result.

    Args:
        operands: how many operands.
        adds: additions of one evaluation.
        mults: multiplications of one evaluation.
        nonlinear: nonlinear functions of one evaluation.
        factor: multiplications to apply one partial; 0 for sums, where the partials are 1 or -1.
        partial: the cost of one partial; as many nonlinear functions as the value if None.
    """
    each = Work(0, adds, mults, nonlinear)
    one = Work(nonlinear=nonlinear) if partial is None else partial
    times = (0 if adds and not mults and not nonlinear else 1) if factor is None else factor

    def work(op: Performed) -> Parts:
        m = op.writes
        active = sum(op.active)
        tangent, adjoint = traffic(
            op,
            Work(adds=(active - 1) * m, mults=active * times * m),
            Work(adds=active * m, mults=active * times * m),
            rereads=op.reads if times else 0,
        )
        return Parts(each * m + Work(moves=op.reads + m), one * (active * m), tangent, adjoint)

    return by_shape(work)


@by_shape
def moves(op: Performed) -> Parts:
    """Cost of reshaping, slicing, joining, broadcasting: memory moves only."""
    tangent, adjoint = traffic(op, Work(), Work())
    return Parts(Work(moves=op.reads + op.writes), Work(), tangent, adjoint)


@by_shape
def reading(op: Performed) -> Parts:
    """Cost of reading a part of an array: what is read and written moves, and not the array it is read from."""
    n = op.writes
    return Parts(Work(moves=2 * n), Work(), Work(moves=2 * n), Work(moves=4 * n))


@by_shape
def summation(op: Performed) -> Parts:
    """Cost of a sum: one addition fewer than elements, for each result; its adjoint adds to each element."""
    adds = Work(adds=max(op.reads - op.writes, 0))
    tangent, adjoint = traffic(op, adds, Work(adds=op.reads))
    return Parts(adds + Work(moves=op.reads + op.writes), Work(), tangent, adjoint)


@by_shape
def averaging(op: Performed) -> Parts:
    """Cost of a mean: a sum, and one multiplication for each result."""
    evaluation, partials, tangent, adjoint = summation(op)
    once = Work(mults=op.writes)
    return Parts(evaluation + once, partials, tangent + once, adjoint + once)


def accumulation(op: Performed) -> Parts:
    """Cost of a cumulative sum: one addition fewer than elements, along each line."""
    shape = op.shapes[0]
    length = shape[op.params.get("axis") or 0] if shape else 1
    adds = Work(adds=op.reads - op.reads // max(length, 1))
    tangent, adjoint = traffic(op, adds, adds + Work(adds=op.reads))
    return Parts(adds + Work(moves=op.reads + op.writes), Work(), tangent, adjoint)


def bilinear(product: Callable[[Performed], Work]) -> WorkRule:
    """Cost of a bilinear operation: each tangent and each cotangent is one more product."""

    def work(op: Performed) -> Parts:
        once, active = product(op), sum(op.active)
        tangent, adjoint = traffic(
            op,
            once * active + Work(adds=(active - 1) * op.writes),
            once * active + Work(adds=op.active_reads),
            rereads=op.reads,
        )
        return Parts(once + Work(moves=op.reads + op.writes), Work(), tangent, adjoint)

    return work


def contraction(op: Performed) -> Work:
    """Multiplications and additions of ``matmul`` and ``dot``: m k n and m (k - 1) n."""
    k = op.shapes[0][-1] if op.shapes[0] else 1
    return Work(mults=op.writes * k, adds=op.writes * max(k - 1, 0))


def composite(evaluation: Work, partials: Work, apply: Work) -> WorkRule:
    """Cost of a composite operation from its elemental expansion, per element of the operands.

    Args:
        evaluation: one evaluation.
        partials: the part of the derivative that does not depend on the direction.
        apply: one tangent, or one cotangent before it is accumulated.
    """

    def work(op: Performed) -> Parts:
        n = op.reads
        tangent, adjoint = traffic(op, apply * n, apply * n + Work(adds=op.active_reads), rereads=n)
        return Parts(evaluation * n + Work(moves=n + op.writes), partials * n, tangent, adjoint)

    return by_shape(work)


def factorisation(
    evaluation: Callable[[Performed], int], tangent: Callable[[Performed], int], adjoint: Callable[[Performed], int]
) -> WorkRule:
    """Cost of a matrix operation, by leading-order counts of multiplications and additions together.

    Half of each count is booked as multiplications, half as additions.
    """

    def work(op: Performed) -> Parts:
        def halves(count: int) -> Work:
            return Work(adds=count // 2, mults=count - count // 2)

        back = halves(adjoint(op)) + Work(adds=op.active_reads)
        push, pull = traffic(op, halves(tangent(op)), back, rereads=op.reads)
        return Parts(halves(evaluation(op)) + Work(moves=op.reads + op.writes), Work(), push, pull)

    return work
