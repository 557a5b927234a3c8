"""Proves each row of the table: value, both modes, every nesting to second order, dtypes, layouts, special points.

Length: the loops over the table belong together; the cases themselves are in ``cases.py``.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caseform import Absent, Case, Special
from cases import CASES

import dualtape as dt
from dualtape.core import recorders
from dualtape.core.lookup import ROWS, TABLE
from dualtape.core.recorders import Recorder
from dualtape.core.tensor import Node, tensor
from dualtape.facts.costs import Parts, Performed
from dualtape.testing import check_grads

pytestmark = pytest.mark.filterwarnings("ignore:Mean of empty slice")

SMOOTH = [c for c in CASES if isinstance(c, Case)]
KINKS = [c for c in CASES if isinstance(c, Special)]
CUTS = [c for c in CASES if isinstance(c, Absent)]
BINARY = [c for c in SMOOTH if ROWS[c.row].kind == "elementwise" and len(c.args) == 2 and not c.label]
# Tolerances of equality to rounding, by the precision of the result.
CLOSE = {np.dtype(np.float32): 2e-5, np.dtype(np.complex64): 2e-5}
SINGLE = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}


def named(cases: Any) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[c.name for c in cases])


def varies(x: Any) -> bool:
    return x.dtype.kind in "fc"


def tensors(args: Any) -> list[Any]:
    """Arguments as the table gets them: Tensors where something can be differentiated, integers as well."""
    return [dt.constant(x) for x in args]


def results(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple) else [y]


def bare(y: Any) -> Any:
    return np.asarray(y.numpy() if hasattr(y, "numpy") else y)


def close(got: Any, expected: Any, what: str) -> None:
    """Equal to rounding, in shape and dtype as well."""
    if isinstance(expected, tuple):
        assert len(got) == len(expected), what
        for k, (g, e) in enumerate(zip(got, expected, strict=True)):
            close(g, e, f"{what}, result {k}")
        return
    got, expected = bare(got), bare(expected)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
    rtol = CLOSE.get(expected.dtype, 1e-12)
    scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0) if expected.dtype.kind in "fc" else 0.0
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * scale, err_msg=what)


def direction(x: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    v = rng.uniform(0.5, 1.5, x.shape)
    return (v if x.dtype.kind == "f" else v + 1j * rng.uniform(0.5, 1.5, x.shape)).astype(x.dtype)


def pulled(f: Any, args: Any, cotangents: Any = None) -> tuple[Any, list[Any]]:
    """The value, and the gradients by every floating argument."""
    xs = tensors(args)
    with np.errstate(all="ignore"):
        with dt.GradientTape() as tape:
            tape.watch([x for x in xs if varies(x)])
            y = f(*xs)
        return y, tape.gradient(y, [x for x in xs if varies(x)], output_gradients=cotangents)


def pushed(f: Any, args: Any, tangents: Any) -> tuple[Any, Any]:
    """The value, and its tangent; ``tangents`` has None for arguments that stand still."""
    xs = tensors(args)
    moving = [k for k, t in enumerate(tangents) if t is not None]
    with (
        np.errstate(all="ignore"),
        dt.ForwardAccumulator([xs[k] for k in moving], [tangents[k] for k in moving]) as acc,
    ):
        y = f(*xs)
    return y, acc.jvp(y)


def inner(a: Any, b: Any) -> float:
    """Re <a, b>, absent meaning zero."""
    return sum(
        float(np.sum(np.real(np.conj(bare(u)) * bare(v))))
        for u, v in zip(a, b, strict=True)
        if u is not None and v is not None
    )


class Witness(Recorder):
    """Follows everything and remembers what was performed."""

    def __init__(self) -> None:
        super().__init__(None)
        self.seen: list[tuple[Any, Any, Any, Any]] = []

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Any) -> None:
        self.seen.append((row, operands, outs, params))


def witnessed(f: Any, args: Any) -> list[tuple[Any, Any, Any, Any]]:
    """The operations that a function performs."""
    witness = Witness()
    xs = tensors(args)
    recorders.enter(witness)
    try:
        with np.errstate(all="ignore"):
            f(*xs)
    finally:
        recorders.leave(witness)
    return witness.seen


# ------------------------------------------------------------------ the table is covered
def test_every_row_has_a_case() -> None:
    """Asked of a new interpreter: tests and examples register rows of their own in this one."""
    script = """
import pkgutil, importlib, dualtape.ops
for module in pkgutil.iter_modules(dualtape.ops.__path__):
    importlib.import_module("dualtape.ops." + module.name)
from dualtape.core.lookup import ROWS
print(*ROWS, sep="\\n")
"""
    root = Path(__file__).resolve().parent.parent
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=root)
    rows = set(told.stdout.split("\n")) - {""}
    assert "add" in rows
    missing = rows - {c.row for c in CASES}
    assert not missing, f"rows without a case in tests/cases.py: {sorted(missing)}"


def test_every_case_has_a_row() -> None:
    assert {c.row for c in CASES} <= set(ROWS)


def test_case_names_are_distinct() -> None:
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})


@named(CASES)
def test_case_performs_its_row(case: Any) -> None:
    performed = [row.name for row, *_ in witnessed(case.f, case.args)]
    assert case.row in performed, f"the case performs {performed}"


# ------------------------------------------------------------------ value, derivatives, nestings
@named(CASES)
def test_value_is_numpys(case: Any) -> None:
    """Untracked, under a tape, and under an accumulator."""
    with np.errstate(all="ignore"):
        expected = case.f(*case.args)
        plain = case.f(*tensors(case.args))
    watched = tensors(case.args)
    with np.errstate(all="ignore"), dt.GradientTape() as tape:
        tape.watch([x for x in watched if varies(x)])
        taped = case.f(*watched)
    pairs = zip(results(expected), results(plain), results(taped), strict=True)
    for want, one, two in pairs:
        assert isinstance(one, dt.Tensor) and isinstance(two, dt.Tensor)
        close(one, want, "value outside of recorders")
        close(two, want, "value under a tape")


@named(SMOOTH)
def test_derivatives(case: Case) -> None:
    """Adjoint identity, differences or complex step, shapes and dtypes; to second order in the four nestings."""
    args = [x for x in case.args if varies(x)]
    assert len(args) == len(case.args), "constants belong into the function"
    method = "complex_step" if case.analytic else "auto"
    check_grads(case.f, args, order=case.order, rtol=case.rtol, method=method)


@named([c for c in SMOOTH if c.single])
def test_single_precision(case: Case) -> None:
    args = [x.astype(SINGLE[x.dtype]) if x.dtype in SINGLE else x for x in case.args]
    check_grads(case.f, args, order=1, method="complex_step" if case.analytic else "auto")
    value, gradients = pulled(case.f, args)
    with np.errstate(all="ignore"):
        close(value, case.f(*args), "value in single precision")
    for x, g in zip(args, gradients, strict=True):
        assert g is not None and g.dtype == x.dtype


def fortran(x: Any) -> Any:
    return np.asfortranarray(x) if x.ndim else x


def strided(x: Any) -> Any:
    """The same values as every second element of a reversed buffer."""
    if not x.ndim:
        return x
    buffer = np.zeros((2 * x.shape[0], *x.shape[1:]), x.dtype)
    view = buffer[::-2]
    view[...] = x
    return view


@named([c for c in SMOOTH if any(x.ndim for x in c.args)])
def test_memory_layout_does_not_matter(case: Case) -> None:
    tangents = [direction(x, k) for k, x in enumerate(case.args)]
    value, gradients = pulled(case.f, case.args)
    _, tangent = pushed(case.f, case.args, tangents)
    for layout in (fortran, strided):
        # Rules meet the layout as it comes: Tensors on the views themselves, not on copies in order.
        moved = [tensor(layout(x)[()]) for x in case.args]
        with dt.GradientTape() as tape:
            tape.watch(moved)
            y = case.f(*moved)
        for got, expected in zip(tape.gradient(y, moved), gradients, strict=True):
            close(got, expected, f"gradient, {layout.__name__}")
        with dt.ForwardAccumulator(moved, [layout(t) for t in tangents]) as acc:
            y = case.f(*moved)
        close(y, value, f"value, {layout.__name__}")
        close(acc.jvp(y), tangent, f"tangent, {layout.__name__}")


@named([c for c in SMOOTH if len(c.args) > 1])
def test_absent_tangents(case: Case) -> None:
    """Each argument as a constant of every kind: the others' derivatives are the same, and its own is None."""
    _, everything = pulled(case.f, case.args)
    for k in range(len(case.args)):
        kinds = [lambda x: x, dt.constant]
        if case.args[k].ndim == 0:
            kinds.append(lambda x: x.item())
        for kind in kinds:
            xs = tensors(case.args)
            xs[k] = kind(case.args[k])
            others = [x for j, x in enumerate(xs) if j != k]
            with dt.GradientTape(persistent=True) as tape:
                tape.watch(others)
                y = case.f(*xs)
            for got, expected in zip(tape.gradient(y, others), everything[:k] + everything[k + 1 :], strict=True):
                close(got, expected, f"gradient with a constant argument {k}")
            if isinstance(xs[k], dt.Tensor):
                assert tape.gradient(y, xs[k]) is None
            ts = [direction(x, j) for j, x in enumerate(case.args) if j != k]
            with dt.ForwardAccumulator(others, ts) as acc:
                y = case.f(*xs)
            got, gs = acc.jvp(y), [g for g in everything[:k] + everything[k + 1 :]]
            total = inner([np.ones_like(bare(r)) for r in results(y)], results(got))
            scale = sum(float(np.sum(np.abs(bare(g) * t))) for g, t in zip(gs, ts, strict=True))
            assert abs(total - inner(gs, ts)) <= 1e-10 * (scale + 1e-300) + 1e-300


@named([c for c in SMOOTH if TABLE.get(c.f) is ROWS[c.row].call])
def test_numpy_function_and_dualtape_function_agree(case: Case) -> None:
    call = ROWS[case.row].call
    value, gradients = pulled(case.f, case.args)
    again, same = pulled(call, case.args)
    close(again, value, "value")
    for a, b in zip(gradients, same, strict=True):
        close(b, a, "gradient")
    published = getattr(dt, case.row, call)
    assert published is call or published.row is call.row


SHAPES = [((3, 1), (4,)), ((4,), (3, 1)), ((), (4,)), ((4,), ()), ((0,), ()), ((0, 3), (3,)), ((1,), (1, 1)), ((), ())]


def cut_to(x: Any, shape: tuple[int, ...]) -> Any:
    """The values of a vector in another shape, repeated as often as it takes."""
    return np.resize(x, shape) if np.prod(shape) else np.zeros(shape, x.dtype)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@named(BINARY)
def test_broadcasting(case: Case, shapes: Any) -> None:
    args = [cut_to(x, s) for x, s in zip(case.args, shapes, strict=True)]
    value, gradients = pulled(case.f, args)
    close(value, case.f(*args), "value")
    for x, g in zip(args, gradients, strict=True):
        assert g.shape == x.shape and g.dtype == x.dtype
    if value.size:
        check_grads(case.f, args, order=1)


@named(BINARY)
def test_python_numbers_on_either_side(case: Case) -> None:
    x, y = case.args
    number_x, number_y = float(x[0]), float(y[1])
    for f, g, point in (
        (lambda t: case.f(t, number_y), lambda t: case.f(t, np.full(t.shape, number_y, t.dtype)), x),
        (lambda t: case.f(number_x, t), lambda t: case.f(np.full(t.shape, number_x, t.dtype), t), y),
    ):
        for dtype in (np.float64, np.float32):
            here = point.astype(dtype)
            a, (da,) = pulled(f, [here])
            b, (db,) = pulled(g, [here])
            # SciPy's ufuncs let a Python number make a double of the result; what counts is what NumPy says.
            assert a.dtype == f(here).dtype and da.dtype == dtype
            close(a.astype(dtype), b.astype(dtype), "value")
            close(da, db, "gradient")
            _, ta = pushed(f, [here], [np.ones(here.shape, dtype)])
            assert ta.dtype == a.dtype
            close(ta.astype(dtype), da, "tangent")


# ------------------------------------------------------------------ special points
@named(KINKS)
def test_special_point(case: Special) -> None:
    """Reverse mode gives the decided gradient; forward mode along each unit vector the same numbers."""
    value, gradients = pulled(case.f, case.args)
    ones = [np.ones_like(bare(y)) for y in results(value)]
    for k, (x, got, expected) in enumerate(zip(case.args, gradients, case.expected, strict=True)):
        got = np.zeros_like(x) if got is None else got
        np.testing.assert_allclose(bare(got), expected, rtol=1e-12, atol=1e-300, err_msg=f"gradient by argument {k}")
        units = (1.0,) if x.dtype.kind == "f" else (1.0, 1j)
        for place, unit in () if not case.forward else itertools.product(np.ndindex(x.shape), units):
            step = np.zeros_like(x)
            step[place] = unit
            _, t = pushed(case.f, case.args, [step if j == k else None for j in range(len(case.args))])
            with np.errstate(all="ignore"):
                along = inner(ones, results(t))
            want = np.real(np.conj(unit) * expected[place])
            np.testing.assert_allclose(
                along, want, rtol=1e-12, atol=1e-300, err_msg=f"tangent, argument {k} at {place}"
            )


# ------------------------------------------------------------------ no derivative
@named(CUTS)
def test_absent_is_none_in_both_modes(case: Absent) -> None:
    assert ROWS[case.row].kind == "absent"
    moving = [x for x in case.args if varies(x)]
    if not moving:
        return
    _, gradients = pulled(case.f, case.args)
    assert gradients == [None] * len(moving)
    _, tangent = pushed(case.f, case.args, [direction(x) if varies(x) else None for x in case.args])
    assert all(t is None for t in results(tangent))


def test_an_absent_tangent_costs_nothing() -> None:
    """The cotangent of a constant is never computed: its rule is not even called."""
    calls: list[str] = []

    def by_x(g: Any, y: Any, shape: Any) -> Any:
        calls.append("x")
        return g @ y.T

    def by_y(g: Any, x: Any, shape: Any) -> Any:
        calls.append("y")
        return x.T @ g

    product = temporary(lambda: dt.core.families.bilinear(lambda x, y: x @ y, by_x, by_y, name="test product"))
    w, data = dt.constant(np.ones((3, 2))), np.ones((4, 3))
    with dt.GradientTape() as tape:
        tape.watch(w)
        y = product(data, w)
    tape.gradient(y, w)
    assert calls == ["y"]


# ------------------------------------------------------------------ what a tape keeps
KEEPS: list[tuple[str, Any, int, Any]] = [
    ("add", lambda x, y: x + y, 2, lambda x, y, out: 0),
    ("add a number", lambda x: x + 1, 1, lambda x, out: 0),
    ("subtract", lambda x, y: x - y, 2, lambda x, y, out: 0),
    ("negative", lambda x: -x, 1, lambda x, out: 0),
    ("sum", np.sum, 1, lambda x, out: 0),
    ("mean", np.mean, 1, lambda x, out: 0),
    ("transpose", np.transpose, 1, lambda x, out: 0),
    ("slice", lambda x: x[2:], 1, lambda x, out: 0),
    ("concatenate", lambda x, y: np.concatenate([x, y]), 2, lambda x, y, out: 0),
    ("cumsum", np.cumsum, 1, lambda x, out: 0),
    ("exp", np.exp, 1, lambda x, out: out.nbytes),
    ("sqrt", np.sqrt, 1, lambda x, out: out.nbytes),
    ("tanh", np.tanh, 1, lambda x, out: out.nbytes),
    ("sin", np.sin, 1, lambda x, out: x.nbytes),
    ("log", np.log, 1, lambda x, out: x.nbytes),
    ("multiply", lambda x, y: x * y, 2, lambda x, y, out: x.nbytes + y.nbytes),
    ("multiply by a number", lambda x: x * 3.0, 1, lambda x, out: 0),
    ("matmul with a constant", lambda x: x @ np.ones(8), 1, lambda x, out: 64),
]


@pytest.mark.parametrize(("f", "n", "bytes_kept"), [k[1:] for k in KEEPS], ids=[k[0] for k in KEEPS])
def test_a_tape_keeps_what_rules_read(f: Any, n: int, bytes_kept: Any) -> None:
    xs = [dt.constant(np.linspace(0.1, 0.9, 8)) for _ in range(n)]
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(xs)
        out = f(*xs)
    assert tape.nbytes == bytes_kept(*xs, out)


# ------------------------------------------------------------------ the cost column
@named(SMOOTH)
def test_work_counts(case: Case) -> None:
    """The column answers for all combinations of active operands, and an operand less never costs more."""
    for row, operands, outs, params in witnessed(case.f, case.args):
        if row.kind == "absent":
            continue
        shapes = tuple(np.shape(a.value if isinstance(a, Node) else a) for a in operands)
        constants = tuple(None if isinstance(a, Node) else a for a in operands)
        every = tuple(isinstance(a, Node) for a in operands)
        combinations = {
            every,
            *(tuple(k == j and e for k, e in enumerate(every)) for j in range(len(every)) if every[j]),
        }
        whole = None
        for active in sorted(combinations, key=sum, reverse=True):
            performed = Performed(shapes, tuple(np.shape(o.value) for o in outs), active, params, constants)
            parts = row.work(performed)
            assert isinstance(parts, Parts), row
            counts = [c for part in parts for c in part]
            assert all(isinstance(c, (int, np.integer)) and c >= 0 for c in counts), (row, parts)
            if whole is None:
                whole = parts
            assert parts.evaluation.moves == whole.evaluation.moves
            assert all(a <= b for a, b in zip(parts.adjoint, whole.adjoint, strict=True)), (row, parts, whole)


# ------------------------------------------------------------------ the table test itself
def temporary(make: Any) -> Any:
    """An operation whose row leaves the table again, so that it does not need a case."""
    rows, table = dict(ROWS), dict(TABLE)
    try:
        return make()
    finally:
        for store, before in ((ROWS, rows), (TABLE, table)):
            store.clear()
            store.update(before)


BROKEN: dict[str, Any] = {
    "wrong slope": dict(partials=lambda x: -np.sin(x), kernel=np.sin),
    "slope right at first order only": dict(
        partials=lambda x: np.cos(x.numpy() if hasattr(x, "numpy") else x), kernel=np.sin
    ),
    "modes that differ": dict(jvp=lambda t, x: t * np.cos(x), vjp=lambda g, x: g * np.cos(x) * 1.0001, kernel=np.sin),
    "not un-broadcast": dict(
        jvp=lambda t, x: t + 0 * x, vjp=lambda g, x: np.stack([g, g])[0][..., None], kernel=lambda x: x * 1
    ),
    "leaks double precision": dict(
        jvp=lambda t, x: t * np.float64(2), vjp=lambda g, x: g * np.float64(2), kernel=lambda x: 2 * x
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_row_is_caught(how: str) -> None:
    rules = dict(BROKEN[how])
    kernel = rules.pop("kernel")
    f = temporary(lambda: dt.extend.operation(lambda x: kernel(x), name="test broken", **rules))
    broken = Case("test broken", f, (np.array([0.3, 0.7, 1.1]),))
    ROWS["test broken"] = f.row
    try:
        with pytest.raises(AssertionError):
            test_derivatives(broken)
            test_single_precision(broken)
    finally:
        del ROWS["test broken"]
