"""Whatever an operation reads is told: a program's rows, carried out again at another point, are the program there.

A reader of the table keeps what it is told while a case runs; its kernels are then called with other inputs. What came
of a value and not of an operation (a hidden mask, an index) stays as it was, and shows.

Length: the reader, what is asked of every case, and the programs that compute their masks belong together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from caseform import Absent, Case
from cases import CASES
from test_table import bare, close, results, tensors, varies

import dualtape as dt
from dualtape.core import recorders
from dualtape.core.absent import still
from dualtape.core.recorders import Recorder
from dualtape.core.tensor import Node

pytestmark = pytest.mark.filterwarnings("ignore")


class Refused(Exception):
    """The record is not the program at the other point."""


class Reader(Recorder):
    """Keeps every operation on what depends on the inputs, to carry it out again."""

    facts = True

    def __init__(self, inputs: list[Any]) -> None:
        super().__init__(None)
        self.inputs = [x._node for x in inputs]
        self.known = {node.id for node in self.inputs}
        self.lines: list[tuple[Any, Any, Any, Any]] = []
        self.hidden: list[str] = []

    def tracks(self, node: Node) -> bool:
        return self.live and node.id in self.known

    def cut(self, row: Any, operands: Any, outs: Any) -> None:
        """An operation of a batch, which are told to those around as operations on the whole, if they can be."""
        self.hidden.append(row.name)

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Any) -> None:
        if any(a.id in self.known for a in (*inside(list(operands)), *inside(params))):
            self.lines.append((row, tuple(operands), tuple(outs), params))
            self.known.update(out.id for out in outs)


def inside(a: Any) -> list[Node]:
    if a.__class__ is Node:
        return [a]
    items = a.values() if isinstance(a, dict) else a if isinstance(a, (tuple, list)) else ()
    return [node for b in items for node in inside(b)]


def record(f: Callable[..., Any], args: Any) -> tuple[Reader, list[Any]]:
    """What is told while f runs, and its results."""
    xs = tensors(args)
    reader = Reader(xs)
    recorders.enter(reader)
    try:
        with np.errstate(all="ignore"):
            return reader, results(f(*xs))
    finally:
        recorders.leave(reader)


def same_values(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc"))


def replay(reader: Reader, wanted: list[Any], args: Any) -> list[Any]:
    """The record carried out at another point; ``Refused`` where the program would go another way."""
    if reader.hidden:
        raise Refused(f"{reader.hidden[0]} took place inside of a batch")
    values = {node.id: np.asarray(x)[()] for node, x in zip(reader.inputs, args, strict=True)}

    def at(a: Any) -> Any:
        if a.__class__ is Node:
            return values.get(a.id, a.value)
        if a.__class__ is tuple:
            return tuple(map(at, a))
        return {k: at(v) for k, v in a.items()} if a.__class__ is dict else a

    for row, operands, outs, params in reader.lines:
        if row.kind == "custom":
            raise Refused(f"{row.name} has rules of its own")
        here = list(map(at, operands))
        if not outs:
            if not same_values(row.kernel(*here), params["found"]):
                raise Refused(f"Python went on with the {row.name}")
            continue
        with np.errstate(all="ignore"):
            found = row.kernel(here, **at(params)) if row.kind == "joint" else row.kernel(*here, **at(params))
        for out, value in zip(outs, found if row.outputs > 1 else (found,), strict=True):
            value = np.asarray(value)[()]
            if value.shape != out.value.shape or value.dtype != out.value.dtype:
                raise Refused(f"{row.name} gives another shape or dtype")
            values[out.id] = value
    return [values.get(y._node.id, bare(y)) if isinstance(y, dt.Tensor) else y for y in wanted]


def moved(x: Any) -> Any:
    """Another point of the same domain: the elements in another order, and those that can be a little away."""
    order = np.roll(x.ravel(), 1).reshape(x.shape)[()]
    return (0.96 * order + 0.03 * x).astype(x.dtype)[()] if varies(x) else order


def scaled(x: Any) -> Any:
    """A point so near that all is as before: signs, order, zeros, ranks, the number of terms of a series."""
    return (x * 1.0005).astype(x.dtype)[()] if varies(x) else x


POINTS = {"moved": moved, "scaled": scaled}
# Rows whose domain does not take its elements in another order.
SCALED_ALONE = {"cholesky": "definite matrices", "digitize": "ascending bins"}


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of the real parts of all results, each weighted by its place."""

    def g(*xs: Any) -> Any:
        parts = [np.sum(np.real(y) * (0.5 + np.arange(y.size).reshape(y.shape))) for y in results(f(*xs)) if varies(y)]
        return sum(parts[1:], parts[0])

    return g


def gradient(case: Any) -> Callable[..., Any]:
    def f(*xs: Any) -> Any:
        moving = [x for x in xs if varies(x)]
        with dt.GradientTape() as tape:
            tape.watch(moving)
            y = total(case.f)(*xs)
        return tuple(g for g in tape.gradient(y, moving) if g is not None)

    return f


def tangent(case: Any) -> Callable[..., Any]:
    def f(*xs: Any) -> Any:
        moving = [x for x in xs if varies(x)]
        ts = [np.cos(np.arange(float(x.size))).reshape(x.shape).astype(x.dtype) for x in moving]
        with dt.ForwardAccumulator(moving, ts) as acc:
            ys = results(case.f(*xs))
        return tuple(t for t in map(acc.jvp, ys) if t is not None)

    return f


class Program:
    """A function where a case is expected."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f


PROGRAMS = {"value": lambda case: case.f, "gradient": gradient, "tangent": tangent}
SECOND = {
    "gradient of the gradient": lambda case: gradient(Program(gradient(case))),
    "tangent of the gradient": lambda case: tangent(Program(gradient(case))),
}


def compared(f: Callable[..., Any], args: Any, there: Any, what: str) -> str:
    """Compare the replay at another point with the program there; the reason, if it is refused."""
    reader, wanted = record(f, args)
    try:
        got = replay(reader, wanted, there)
    except Refused as refused:
        return str(refused)
    with np.errstate(all="ignore"):
        expected = results(f(*tensors(there)))
    assert len(got) == len(expected)
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        close(a, b, f"{what}, result {k}, replayed")
    return ""


def programs(case: Any) -> list[str]:
    derivable = not isinstance(case, Absent) and any(varies(x) for x in case.args)
    return list(PROGRAMS) if derivable else ["value"]


# The reasons that a replay has for refusing a point in another order, and the cases that have them.
ZEROS = "zeros decide the formula of a product's derivative"
RANK = "the rank decides the formula of a determinant's derivative"
TERMS = "a series has as many terms as it takes"
COUNT = "how many elements there are depends on the values"
REFUSED = {
    **dict.fromkeys(("prod-one zero", "prod-a zero in one line", "prod-at zero"), ZEROS),
    **dict.fromkeys(("cumprod-one zero", "cumprod-two zeros", "cumprod-at zero"), ZEROS),
    **dict.fromkeys(("det-singular", "det-singular, no zeros", "det-singular, complex", "det-rank one"), RANK),
    **dict.fromkeys(("det-stack with a singular one", "det-at singular"), RANK),
    **dict.fromkeys(("gammainc", "gammaincinv", "gammaincc-large", "iv-by order", "ive-by order"), TERMS),
    **dict.fromkeys(("argwhere", "flatnonzero", "getitem-at infinite slope not taken, mask"), COUNT),
    **dict.fromkeys(("eig", "eig-complex pair"), "whether eigenvalues are real depends on the values"),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("row", sorted({c.row for c in CASES}))
def test_rows_replayed_at_another_point_give_the_program_there(row: str, point: str) -> None:
    if point == "moved" and row in SCALED_ALONE:
        return
    for case in [c for c in CASES if c.row == row]:
        there = [POINTS[point](x) for x in case.args]
        for name in programs(case):
            reason = compared(PROGRAMS[name](case), case.args, there, f"{name} of {case.name}")
            assert not reason or (point == "moved" and case.name in REFUSED), f"{name} of {case.name}: {reason}"


TWICE = [c for c in CASES if isinstance(c, Case) and c.order > 1 and c.row not in SCALED_ALONE]


@pytest.mark.parametrize("row", sorted({c.row for c in TWICE}))
def test_rules_of_rules_replayed_at_another_point_give_the_program_there(row: str) -> None:
    for case in [c for c in TWICE if c.row == row]:
        there = [moved(x) for x in case.args]
        for name, program in SECOND.items():
            reason = compared(program(case), case.args, there, f"{name} of {case.name}")
            assert not reason or case.name in REFUSED, f"{name} of {case.name}: {reason}"


def test_hardly_any_replay_is_refused() -> None:
    """Counted, so that a refusal too many shows: it would hide what is wrong."""
    refused = {
        (case.name, name)
        for case in CASES
        if case.name in REFUSED
        for name in programs(case)
        if compared(PROGRAMS[name](case), case.args, [moved(x) for x in case.args], case.name)
    }
    assert {name for name, _ in refused} == set(REFUSED)
    assert len(refused) < 0.025 * sum(len(programs(c)) for c in CASES if c.row not in SCALED_ALONE)


# ------------------------------------------------------------------ programs whose masks and indices are computed
X = np.array([0.3, -1.2, 2.5, -0.4, 0.9])
Y = np.array([-0.7, 1.4, 0.2, 2.2, -1.9])  # other signs, another order, as many positive ones


def written(x: Any) -> Any:
    y = dt.constant(x * 1.0)
    y[np.argmax(x)] = x[0] * x[1]
    y[x < -1.0] = 0.5
    return y * x


def overwritten(x: Any) -> Any:
    y = dt.constant(x * 1.0)
    places = np.argsort(x) // 2  # some twice: the last stays
    y[places] = x * x
    return y * x


def added_at(x: Any) -> Any:
    y = dt.zeros(5)
    np.add.at(y, np.argsort(x) // 2, x)
    return y * y


def through_a_view(x: Any) -> Any:
    y = x.reshape(5, 1) * 1.0
    part = y[np.argmin(x)]
    part *= x[2]
    return y


def paused(x: Any) -> Any:
    with dt.stop_recording():
        mask = x > 0
    return np.where(mask, x * x, x)


def through_a_variable(x: Any) -> Any:
    v = dt.Variable(np.zeros(5), trainable=False)
    v.assign(np.sign(x))
    v.assign_add(x > 0)
    y = v * x
    v.assign(np.ones(5))
    return y * v


COMPUTED: dict[str, Callable[..., Any]] = {
    "where": lambda x: np.where(x > 0, x, 0.1 * x),
    "where of numbers": lambda x: np.where(x > 0, 1.0, -2.0) * x,
    "where of integers": lambda x: np.where(np.sign(x) + 1, x * x, x),
    "clip": lambda x: np.clip(x, -0.5, x[0] + 1) ** 2,
    "a mask": lambda x: x[x > 0] ** 2,
    "a mask of another array": lambda x: (x * x)[np.sin(x) > 0],
    "sort": lambda x: np.sort(x) * np.arange(5.0),
    "sort, the largest first": lambda x: dt.sort(x, descending=True) * np.arange(5.0),
    "argsort": lambda x: (x**2)[np.argsort(x)] * np.arange(5.0),
    "argmax": lambda x: x[np.argmax(x)] * x,
    "argmax, the second time": lambda x: x[np.argmax(x)] ** 2 * x[np.argmin(x)],
    "inside a tuple": lambda x: (x[:, None] * x)[np.argmax(x), 1:],
    "two in a tuple": lambda x: (x[:, None] * x)[np.argsort(x), np.argsort(-x)],
    "take": lambda x: np.take(x, np.argsort(x)[:2]) * x[0],
    "take, wrapped": lambda x: np.take(x, np.argsort(x) - 7, mode="wrap") * np.arange(5.0),
    "take, clipped": lambda x: np.take(x, np.argsort(x) - 1, mode="clip") * np.arange(5.0),
    "take_along_axis": lambda x: np.take_along_axis(x[None] * x[:, None], np.argsort(x)[None], 1),
    "gather": lambda x: dt.gather(x * x, np.argsort(x)[:3]),
    "gather along an axis": lambda x: dt.gather(x[:, None] * x, np.argsort(x)[:2], axis=1),
    "nonzero": lambda x: (x**2)[np.nonzero(x > 0)],
    "where alone": lambda x: (x**2)[np.where(x > 0)[0]],
    "flatnonzero": lambda x: (x**2)[np.flatnonzero(x > 0)],
    "searchsorted": lambda x: (x**2)[np.searchsorted(np.array([-1.0, 0.0, 1.0]), x)],
    "searchsorted, not yet sorted": lambda x: x * np.searchsorted(x, 0.0, sorter=np.argsort(x)),
    "sum where": lambda x: np.sum(x**2, where=x > 0),
    "mean where": lambda x: np.mean(x**2, where=x < 1.0),
    "variance where": lambda x: np.var(x, where=x < 1.0),
    "max where": lambda x: np.max(x * x, where=x < 1.0, initial=0.2),
    "any where": lambda x: x * np.any(x > 2, where=x > 0),
    "count": lambda x: x * np.count_nonzero(x > 0.8),
    "a norm of masked elements": lambda x: np.linalg.norm(np.where(x > 0, x, 0.0)),
    "the norm of largest magnitude": lambda x: np.linalg.norm(x, np.inf) * x,
    "writing": written,
    "writing twice": overwritten,
    "adding at": added_at,
    "through a view": through_a_view,
    "a product of signs": lambda x: np.sign(x) * x + np.floor(x) * x,
    "rounded to an index": lambda x: (x**2)[(2 * np.abs(np.tanh(x))).astype(int)],
    "a ufunc where": lambda x: np.square(x, where=x > 0, out=dt.zeros(5)),
    "cond by a mask": lambda x: x * dt.cond(np.any(x > 0), lambda: x, lambda: -x),
    "in a pause": paused,
    "through a Variable": through_a_variable,
    "the gradient of a maximum": lambda x: dt.grad(lambda y: np.sum(np.maximum(y, 0.2) ** 2 * y))(x),
    "the gradient of a sort": lambda x: dt.grad(lambda y: np.sum(np.sort(y) ** 2 * np.arange(5.0)))(x),
    "the gradient of writing": lambda x: dt.grad(lambda y: np.sum(written(y) ** 2))(x),
    "a Hessian-vector product": lambda x: dt.jvp(
        dt.grad(lambda y: np.sum(np.where(y > 0, y**3, y * y[np.argmax(y)] ** 2))), (x,), (np.arange(5.0),)
    )[1],
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("what", COMPUTED)
def test_computed_masks_and_indices_are_followed(what: str, name: str) -> None:
    f = PROGRAMS[name](Program(COMPUTED[what]))
    assert not compared(f, [X], [Y], what)
    if name == "value":
        here, there = results(f(*tensors([X]))), results(f(*tensors([Y])))
        assert any(not same_values(bare(a), bare(b)) for a, b in zip(here, there, strict=True)), "points too alike"


# ------------------------------------------------------------------ what cannot be carried out again
def branch(x: Any) -> Any:
    return x * x if x[0] > 0 else -x


def loop(x: Any) -> Any:
    k, y = dt.while_loop(lambda k, y: y[2] > 1.0, lambda k, y: (k + 1, 0.5 * y), (0, x))
    return y * k


def descent(x: Any) -> Any:
    while np.max(x) > 1.2:
        x = 0.5 * x
    return x


ANOTHER_WAY: dict[str, tuple[Callable[..., Any], str]] = {
    "a branch": (branch, "truth"),
    "cond": (lambda x: dt.cond(x[0] > 0, lambda: x * x, lambda: -x), "truth"),
    "case": (lambda x: dt.case([(x[0] > 0, lambda: x * x)], default=lambda: -x), "truth"),
    "switch_case": (lambda x: dt.switch_case(np.argmax(x), [lambda: x, lambda: 2 * x, lambda: 3 * x]), "position"),
    "while_loop": (loop, "truth"),
    "a loop": (descent, "truth"),
    "range": (lambda x: sum(x * k for k in range(np.argmax(x))), "position"),
    "int": (lambda x: x * int(np.argmax(x)), "position"),
    "the end of a slice": (lambda x: x[: np.argmax(x)] ** 2, "position"),
    "a shape": (lambda x: np.reshape(x[:4], (np.argmax(x), -1)), "position"),
    "numpy": (lambda x: x * dt.stop_gradient(x).numpy(), "value"),
    "item": (lambda x: x * np.argmax(x).item(), "value"),
    "float": (lambda x: x * float(np.floor(x[0])), "value"),
    "an index as an array": (lambda x: X[np.asarray(np.argsort(x))] * x, "value"),
    "arange": (lambda x: np.sum(x) * dt.arange(np.argmax(x)), "value"),
    "another number of elements": (lambda x: np.sum(x[x > 1.0]), "getitem gives another shape"),
    "roll": (lambda x: np.roll(x, np.argmax(x)), "value"),
}


@pytest.mark.parametrize("what", ANOTHER_WAY)
def test_what_would_go_another_way_is_refused(what: str) -> None:
    f, reason = ANOTHER_WAY[what]
    assert reason in compared(f, [X], [Y], what)
    assert not compared(f, [X], [X * 1.0005], what) or what == "numpy"


TOLD: dict[str, Callable[[Any], Any]] = {
    "a comparison": dt.vmap(lambda v: np.where(v > 0, v, 0.0)),
    "several": dt.vmap(lambda v: np.where(np.logical_and(v > 0, ~(v > 1.0)), v * v, 3.0 * v)),
    "a comparison of two": dt.vmap(lambda v: np.where(v > v[::-1], v, v * v)),
    "a mask and a gradient inside": dt.vmap(dt.grad(lambda v: np.sum(np.where(v > 0, v**3, v)))),
    "a gradient outside": dt.grad(lambda x: np.sum(dt.vmap(lambda v: np.where(v > 0, v**3, v))(x))),
}


@pytest.mark.parametrize("what", TOLD)
def test_masks_of_a_batch_are_told_as_those_of_all_examples(what: str) -> None:
    """The mask of ``where`` was a constant to those around the batch, though they were told of the comparison."""
    assert compared(lambda x: TOLD[what](x * x[:, None]), [X], [Y], what) == ""


BATCHES: dict[str, Callable[..., Any]] = {
    "a comparison with what all share": lambda x: dt.vmap(lambda v: np.where(v > x[0, 0], v, 0.0))(x),
    "a comparison of what all share": lambda x: dt.vmap(lambda v: np.where(x[0] > 0, v, 0.0))(x),
    "rounding": dt.vmap(lambda v: np.floor(v) * v),
    "positions": dt.vmap(lambda v: v[np.argsort(v)]),
    "a batch in a batch": dt.vmap(dt.vmap(lambda v: np.where(v > 0, v, 0.0))),
    "a sort": dt.vmap(np.sort),
    "an index, backwards": dt.jacrev(lambda x: np.sort(x[0]) ** 2),
    "an index, forwards": dt.jacfwd(lambda x: np.sort(x[0]) ** 2),
    "a rule": dt.vmap(dt.grad(lambda x: np.sum(np.maximum(x, 0.2)))),
}


@pytest.mark.parametrize("what", BATCHES)
def test_masks_of_a_batch_are_refused(what: str) -> None:
    """Those around a batch are told of operations on the whole; where they cannot be, they hear that there was one."""
    assert "inside of a batch" in compared(lambda x: BATCHES[what](x * x[:, None]), [X], [Y], what)


def test_rules_of_ones_own_are_refused() -> None:
    @dt.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x)

    f.defvjp(lambda x: (np.sin(x), x), lambda x, g: (g * np.cos(x),))
    assert "rules of its own" in compared(f, [X], [Y], "custom")


def test_a_hidden_mask_would_show() -> None:
    """The reader is no formality: what leaves the world of Tensors in secret is found wrong."""

    def hidden(x: Any) -> Any:
        return np.where(x._node.value > 0, x, 0.0)

    with pytest.raises(AssertionError, match="replayed"):
        compared(hidden, [X], [Y], "hidden")


def test_rules_see_plain_masks_where_nobody_follows_facts() -> None:
    x = dt.constant(X)
    with dt.GradientTape() as tape:
        tape.watch(x)
        assert still(x) is x._node.value
    reader = Reader([x])
    recorders.enter(reader)
    try:
        assert isinstance(still(x), dt.Tensor) and still(dt.constant(1.0)) == 1.0
    finally:
        recorders.leave(reader)
    assert [row.name for row, *_ in reader.lines] == ["still"]
