"""E05: Hessian-vector products by every composition of modes - arithmetic, memory and time against a gradient's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import counting, measure, modes
from . import problems
from .problems import Arrays, Case

SPEC = Spec(
    id="E05",
    name="hvp",
    title="Hessian-vector products, three compositions",
    claims=(
        Claim(
            "as-a-gradient",
            "A Hessian-vector product is exact and takes about as much computation as a gradient.",
            "Pearlmutter, Neural Computation 6(1), 1994, abstract",
            "R",
        ),
        Claim(
            "in-practice",
            "2 to 4 gradients in time, 2 to 3 in memory; without compilation reverse over reverse needs most memory.",
            "Dagreou, Ablin, Vaiter & Moreau, How to compute Hessian-vector products?, ICLR Blogposts 2024",
            "R",
        ),
        Claim(
            "per-multiplication",
            "Per multiplication, dropping no zeros: gradient 5 operations, forward over reverse 16, reverse over "
            "forward 18, reverse over reverse 21.",
            "counts of the chain rule",
            "D",
        ),
        Claim(
            "matrix-products",
            "Of a layer whose operands are all active, f takes 1 matrix product, the gradient 3, forward over reverse "
            "and reverse over reverse 9, reverse over forward 8: the direction is no operand of its outer sweep.",
            "counts of the chain rule",
            "D",
        ),
    ),
)

ORDERS = ("fr", "rf", "rr")  # outer mode first
WITHOUT_ZEROS_DROPPED = {"f": 1, "gradient": 5, "fr": 16, "rf": 18, "rr": 21}  # flops per multiplication
# One more factor, by hand. fr: value and tangent of the product 1 + 3, two adjoints with tangents 2 (1 + 3); rf: 4, and
# for their five products 5 and 2 sums; rr: the gradient 3, its product with the direction 2, the adjoint of that 1, and
# for the gradient's three products 6 and 3 sums. Both that push a direction forward ask of each entry if it is zero.
EACH_FACTOR = {"f": 1, "gradient": 3, "fr": 12 + 1, "rf": 11 + 1, "rr": 15}
# Matrix products of a network of L layers. That of the first with its constant inputs has one active operand: its
# inputs' adjoint and tangent are not wanted.
MATMULS = {"gradient": "3 * size - 1", "fr": "9 * size - 5", "rf": "8 * size - 5", "rr": "9 * size - 5"}
# Counted by hand with absent derivatives dropped, in units of f.
BY_HAND = {
    "product": {"f": 1.0, "gradient": 3.0, "fr": 11.9, "rf": 10.9, "rr": 14.9},
    "rosenbrock_scalar": {"f": 1.0, "gradient": 2.75, "fr": 6.6, "rf": 5.5, "rr": 6.0},
}
LARGEST_HESSIAN = 200
TIMED_DEPTH = 8  # the network whose times are judged

COLUMNS = (
    Column("problem", "name of the problem"),
    Column("size", "layers (mlp), inputs (others), multiplications (multiplication)"),
    Column("composition", "f, gradient, or the modes of the product, outer one first: fr, rf, rr"),
    Column("flops", "arithmetic that dualtape performs, counted call by call", "flops"),
    Column("f_ratio", "flops over those of f"),
    Column("gradient_ratio", "flops over those of the gradient"),
    Column("matmuls", "matrix products, in units of one layer's"),
    Column("matmul_ratio", "flops of the matrix products alone over those of the gradient's"),
    Column("each", "flops of dualtape for one more factor or term"),
    Column("plain_each", "the same by differentiation that drops no zeros"),
    Column("plain_flops", "arithmetic of differentiation that drops no zeros", "flops"),
    Column("by_hand", "flops over those of f, counted by hand with absent derivatives dropped"),
    Column("error", "distance from the product by hand (mlp: by the complex step), relative to it"),
    Column("hessian_error", "the same of the explicit Hessian times the direction"),
    Column("disagreement", "distance from forward over reverse, relative to it"),
    Column("asymmetry", "|u'(Hv) - v'(Hu)| over |u| |Hv|"),
    Column("tape_bytes", "arrays the fullest tape keeps; fr: with the tangents of what it keeps", "B"),
    Column("tape_ratio", "tape bytes over the gradient's"),
    Column("bytes_over_rr", "tape bytes over those of reverse over reverse"),
    Column("memory", "the most Python held more than before", "B", deterministic=False),
    Column("seconds", "wall time", "s", deterministic=False),
    Column("wall_ratio", "wall time over the gradient's", deterministic=False),
    Column("memory_ratio", "memory over the gradient's", deterministic=False),
)


def _every(xs: Arrays) -> tuple[int, ...]:
    return tuple(range(len(xs)))


def _gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: dt.grad(f, _every(xs))(*xs)


def _slope_forward(f: Callable[..., Any], v: Arrays) -> Callable[..., Any]:
    """x -> the derivative of f in direction v, by forward mode: what reverse over forward records."""
    return lambda *xs: dt.jvp(f, xs, v)[1]


def _slope_reverse(f: Callable[..., Any], v: Arrays) -> Callable[..., Any]:
    """The same by reverse mode: what reverse over reverse records."""
    return lambda *xs: sum(np.sum(t * g) for t, g in zip(v, _gradient(f)(*xs), strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# What is performed. A composition is itself a program; it is run with x, v and the factor 1, which starts the sweeps,
# as its inputs, and so every operation that it performs on anything that depends on them is seen and counted.


def _program(case: Case, composition: str) -> tuple[Callable[..., Any], Arrays]:
    """The composition as a function of arrays, and those arrays."""
    count = len(case.xs)

    def program(one: Any, *arrays: Any) -> Any:
        xs, v = arrays[:count], arrays[count:]
        if composition == "gradient":
            return _gradient(lambda *ys: one * case.f(*ys))(*xs)
        return dt.hvp(lambda *ys: one * case.f(*ys), xs, v, composition)

    if composition == "f":
        return case.f, case.xs
    return program, (1.0, *case.xs, *(() if composition == "gradient" else case.v))


def performed(case: Case, composition: str) -> int:
    """Flops that the composition performs, counted NumPy call by NumPy call."""
    program, arrays = _program(case, composition)
    return int(modes.performed(program, *arrays).weigh("flops"))


def matmul_flops(case: Case, composition: str) -> int:
    """Flops of its matrix products, counted with 2 m k n each: the additions as many as the multiplications."""
    program, arrays = _program(case, composition)
    nodes = inspect.trace(program, *arrays).nodes
    total = 0
    for node in nodes:
        if node.name == "matmul":
            left = node.inputs[0]
            shape = nodes[left].shape if isinstance(left, int) else np.shape(left.value)
            total += 2 * int(np.prod(node.shape)) * shape[-1]
    return total


def tape_bytes(case: Case, composition: str) -> int:
    """Bytes of the arrays that the fullest tape keeps for its sweep, measured.

    Forward over reverse keeps the tangents of what is on its tape as well.
    """
    if composition == "fr":
        inputs = [dt.constant(x) for x in case.xs]
        with dt.ForwardAccumulator(inputs, list(case.v)), dt.GradientTape() as tape:
            tape.watch(inputs)
            case.f(*inputs)
            return int(tape.nbytes)
    recorded = {"gradient": case.f, "rf": _slope_forward(case.f, case.v), "rr": _slope_reverse(case.f, case.v)}
    return int(measure.record(recorded[composition], *case.xs).nbytes)


# ---------------------------------------------------------------------------------------------------------------------
# Rows.


def _joined(arrays: Any) -> Any:
    return np.concatenate([np.ravel(np.asarray(array)) for array in arrays])


def _multiplication_rows() -> Iterator[Row]:
    """One more multiplication, without dropping any zeros: the difference between k of them and k + 1."""
    for composition in WITHOUT_ZEROS_DROPPED:
        for k in (1, 10, 100):
            flops = [
                counting.counted(composition, problems.power(m), (1.1, 0.9), (0.3, 0.7))[1].flops for m in (k, k + 1)
            ]
            yield {
                "problem": "multiplication",
                "size": k,
                "composition": composition,
                "plain_flops": flops[0],
                "plain_each": flops[1] - flops[0],
            }


def _scalar_rows(make: Callable[[int, Any], Case], n: int, rng: Any) -> list[Row]:
    """A loop over scalars: what dualtape performs, against what it would without dropping zeros."""
    case, longer = make(n, rng), make(2 * n, rng)
    rows = []
    for composition in WITHOUT_ZEROS_DROPPED:
        flops, more = performed(case, composition), performed(longer, composition)
        plain, plain_more = (counting.counted(composition, c.f, c.xs, c.v)[1].flops for c in (case, longer))
        rows.append(
            {
                "composition": composition,
                "flops": flops,
                "each": (more - flops) / n,
                "plain_each": (plain_more - plain) / n,
                "plain_flops": plain,
                "by_hand": BY_HAND[case.problem][composition],
            }
        )
    return _completed(case, rows)


def _array_rows(case: Case, config: Config) -> list[Row]:
    """Arrays: work, bytes and time."""
    rows: list[Row] = [{"composition": "f", "flops": performed(case, "f")}]
    calls: dict[str, Callable[[], object]] = {"f": lambda: case.f(*case.xs)}
    calls["gradient"] = lambda: _gradient(case.f)(*case.xs)
    calls |= {order: partial(dt.hvp, case.f, case.xs, case.v, order) for order in ORDERS}
    matmuls = {name: matmul_flops(case, name) for name in ("gradient", *ORDERS)}
    nbytes = {name: tape_bytes(case, name) for name in ("gradient", *ORDERS)}
    memory = {name: clock.peak_bytes(calls[name]) for name in ("gradient", *ORDERS)}
    effort = config.effort(quick=0.1, full=3.0)
    times = clock.interleaved(calls, effort, about=f"{case.problem}, {case.size}")
    for name in ("gradient", *ORDERS):
        rows.append(
            {
                "composition": name,
                "flops": performed(case, name),
                "matmuls": matmuls[name] / LAYER_FLOPS if case.problem == "mlp" else None,
                "matmul_ratio": matmuls[name] / matmuls["gradient"] if matmuls["gradient"] else None,
                "tape_bytes": nbytes[name],
                "tape_ratio": nbytes[name] / nbytes["gradient"],
                "bytes_over_rr": nbytes[name] / nbytes["rr"],
                "memory": memory[name],
                "memory_ratio": memory[name] / memory["gradient"],
                "wall_ratio": times[name].least / times["gradient"].least,
            }
        )
    for row in rows:
        row["seconds"] = times[row["composition"]].least
    return _completed(case, rows)


def _completed(case: Case, rows: list[Row]) -> list[Row]:
    """Rows with ratios of work and with the accuracy of the products."""
    flops = {row["composition"]: row["flops"] for row in rows}
    v, u, reference = _joined(case.v), _joined(case.u), _joined(case.product)
    products = {order: _joined(dt.hvp(case.f, case.xs, case.v, order)) for order in ORDERS}
    for row in rows:
        name = row["composition"]
        row |= {"problem": case.problem, "size": case.size, "f_ratio": flops[name] / flops["f"]}
        row["gradient_ratio"] = flops[name] / flops["gradient"]
        if name not in ORDERS:
            continue
        found = products[name]
        mirrored = _joined(dt.hvp(case.f, case.xs, case.u, name))
        row["error"] = measure.relative_error(found, reference)
        row["disagreement"] = measure.relative_error(found, products["fr"])
        row["asymmetry"] = abs(u @ found - v @ mirrored) / (np.linalg.norm(u) * np.linalg.norm(found))
        if len(case.xs) == 1 and v.size <= LARGEST_HESSIAN:
            hessian = np.asarray(dt.hessian(case.f)(*case.xs))
            row["hessian_error"] = measure.relative_error(hessian @ v, reference)
    return rows


MATRIX, ACTIVATIONS = 8 * problems.WIDTH**2, 8 * problems.WIDTH * problems.BATCH  # of a layer, in bytes
LAYER_FLOPS = 2 * problems.WIDTH**2 * problems.BATCH  # of its matrix product
# What a tape keeps of L layers, by hand. The gradient: the inputs of each, its matrix (not of the first: the inputs are
# constants) and what the outputs are compared with. fr: the tangents of all that is no constant. rf: of each layer the
# matrix and its direction, inputs and their tangents, 1 - tanh^2 and what it multiplies.
TAPES = {
    "gradient": f"size * {MATRIX + ACTIVATIONS} + {2 * ACTIVATIONS - MATRIX}",
    "fr": f"size * {2 * (MATRIX + ACTIVATIONS)} + {2 * ACTIVATIONS - 2 * MATRIX}",
    "rf": f"size * {2 * MATRIX + 4 * ACTIVATIONS} + {2 * ACTIVATIONS - 2 * MATRIX}",
}


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """Exact counts by hand from both sides, equal products, symmetric Hessians."""
    products = 'composition != "f" and composition != "gradient"'
    of_arrays = '(problem == "mlp" or problem == "rosenbrock" or problem == "logreg")'
    bars = [
        Bar("error", f'max(error, {products} and problem != "multiplication")', "<=", 1e-11),
        Bar("explicit-hessian", f'max(hessian_error, {products} and problem == "logreg")', "<=", 1e-11),
        Bar("compositions-agree", f'max(disagreement, {products} and problem != "multiplication")', "<=", 1e-11),
        Bar("symmetry", f'max(asymmetry, {products} and problem != "multiplication")', "<=", 1e-11),
    ]
    for composition, count in WITHOUT_ZEROS_DROPPED.items():
        mine = f'composition == "{composition}"'
        one = f'problem == "multiplication" and {mine}'
        bars.append(Bar(f"plain-{composition}", f"max(abs(plain_each - {count}), {one})", "==", 0))
        factor = f'problem == "product" and {mine}'
        bars.append(Bar(f"product-{composition}", f"max(each, {factor})", "<=", count))
        each = f"max(abs(each - {EACH_FACTOR[composition]}), {factor})"
        bars.append(Bar(f"product-by-hand-{composition}", each, "==", 0))
    for composition, count in MATMULS.items():
        mine = f'problem == "mlp" and composition == "{composition}"'
        bars.append(Bar(f"matmuls-{composition}", f"max(abs(matmuls - ({count})), {mine})", "==", 0))
    for composition, count in TAPES.items():
        mine = f'problem == "mlp" and composition == "{composition}"'
        bars.append(Bar(f"tape-{composition}", f"max(abs(tape_bytes - ({count})), {mine})", "==", 0))
    scalar = '(problem == "product" or problem == "rosenbrock_scalar")'
    return [
        *bars,
        Bar("no-more-than-plain", f"max(flops / plain_flops, {scalar})", "<=", 1),
        Bar("by-hand-least", f"min(f_ratio / by_hand, {scalar})", ">=", 0.95),
        Bar("by-hand-most", f"max(f_ratio / by_hand, {scalar})", "<=", 1.1),
        Bar("matmul-flops", f'max(matmul_ratio, problem == "mlp" and {products})', "<=", 3),
        Bar("tape-rr-most", f'max(bytes_over_rr, problem == "mlp" and {products})', "<=", 1),
        Bar("memory-rr-most", _memory_bar(), "<=", 1, deterministic=False),
        Bar("memory-ratio-least", f"min(memory_ratio, {_timed()} and {products})", ">=", 1.5, deterministic=False),
        Bar("memory-ratio-most", f"max(memory_ratio, {_timed()} and {products})", "<=", 3.5, deterministic=False),
        Bar("tape-ratio-least", f'min(tape_ratio, problem == "mlp" and {products})', ">=", 1.5),
        Bar("tape-ratio-most", f'max(tape_ratio, problem == "mlp" and {products})', "<=", 3),
        Bar("gradients-in-flops-least", f"min(gradient_ratio, {of_arrays} and {products})", ">=", 1.4),
        Bar("gradients-in-flops", f"max(gradient_ratio, {of_arrays} and {products})", "<=", 5),
        Bar("time-fr", f'max(wall_ratio, {_timed()} and composition == "fr")', "<=", 5, deterministic=False),
        Bar("time-least", f"min(wall_ratio, {_timed()} and {products})", ">=", 1, deterministic=False),
    ]


def _timed() -> str:
    """The network whose times and memory are judged."""
    return f'problem == "mlp" and size == {TIMED_DEPTH}'


def _memory_bar() -> str:
    """The memory of fr and rf at the timed depth over that of rr."""
    at = _timed()
    most = f'max(memory, {at} and (composition == "fr" or composition == "rf"))'
    return f'{most} / only(memory, {at} and composition == "rr")'


def run(config: Config) -> Result:
    quick = config.quick
    depths = (2, 4, 8) if quick else (2, 4, 8, 16)
    sizes = (100, 1000) if quick else (100, 1000, 10_000, 100_000)
    scalars = 16 if quick else 64

    def rng(problem: str, size: int) -> Any:
        return config.rng(f"{SPEC.name}/{problem}/{size}")

    makers = {
        "mlp": (problems.mlp_case, depths),
        "rosenbrock": (problems.rosenbrock_case, sizes),
        "logreg": (problems.logistic_case, (problems.FEATURES,)),
    }
    rows: list[Row] = list(_multiplication_rows())
    rows += _scalar_rows(problems.product_case, scalars, rng("product", scalars))
    rows += _scalar_rows(problems.valley_case, scalars, rng("rosenbrock_scalar", scalars))
    work = [(name, make, size) for name, (make, grid) in makers.items() for size in grid]
    for name, make, size in config.track(work, SPEC.name):
        rows += _array_rows(make(size, rng(name, size)), config)

    settings = {"depths": depths, "sizes": sizes, "scalars": scalars}
    settings |= {"width": problems.WIDTH, "batch": problems.BATCH, "samples": problems.SAMPLES}
    return Result(COLUMNS, rows, bars(settings), settings=settings, drawn=(TIMED_DEPTH,))
