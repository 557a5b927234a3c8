"""E03: which mode makes a dense Jacobian cheaper, for every shape of it - the boundary is the diagonal n_in = n_out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dualtape as dt
from dualtape import inspect

from ..harness import clock
from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from ..shared import measure

HIDDEN = 64
SIZES = (1, 4, 16, 64, 256, 1024)
QUICK_SIZES = (1, 4, 16, 64)
SQUARE = 256  # the Jacobian that is made chunk by chunk; quick: the largest there is
TIMED_SWEEPS = 64  # of sweeps that are alike so many are timed, and the time is scaled to all; quick: 4

SPEC = Spec(
    id="E03",
    name="crossover",
    title="which mode wins at n_in x n_out",
    claims=(
        Claim(
            "diagonal",
            "With all directions in one sweep a dense Jacobian costs OPS(f) (1 + a n_in) by forward mode, "
            "OPS(f) (1 + b n_out) by reverse mode. For linear layers with constant parameters and elementwise "
            "functions the two are equal, in flops, on the diagonal n_in = n_out.",
            "counts of the operations",
            "D",
        ),
        Claim(
            "what-batching-saves",
            "One sweep with all directions saves the evaluation and the local partials of all other sweeps, no more.",
            "counts of the operations",
            "D",
        ),
        Claim(
            "chunks",
            "Directions taken in chunks bound the memory: larger chunks mean fewer calls of f and more memory.",
            "Revels, Lubin & Papamarkou, arXiv:1607.07892, abstract; documentation of ForwardDiff, advanced usage",
            "R",
        ),
    ),
)

COLUMNS = (
    Column("part", "grid: every shape, four ways; chunks: one square Jacobian, by sweeps of a chunk each"),
    Column("n_in", "inputs"),
    Column("n_out", "outputs"),
    Column("mode", "forward or reverse"),
    Column("way", "loop: a direction a sweep; batched: all in one sweep; chunked: some in each"),
    Column("chunk", "directions a sweep"),
    Column("sweeps", "sweeps for the whole Jacobian"),
    Column("evaluations", "calls of f, counted"),
    Column("flops", "arithmetic performed for the whole Jacobian, counted", "flops"),
    Column("declared", "the same by the work column of the table of operations", "flops"),
    Column("once", "evaluation and local partials, which depend on no direction, by the work column", "flops"),
    Column("excess", "flops beyond those of one sweep with all directions", "flops"),
    Column("shared", "operations of one sweep that depend on no direction, traced"),
    Column("over_reverse", "flops over those of reverse mode, the same way"),
    Column("cheapest", "the way of the fewest flops at this shape (1) or not (0)"),
    Column("error", "Frobenius norm of the error relative to the Jacobian by hand"),
    Column("jacobian_error", "the same of jacfwd or jacrev with chunks of this size"),
    Column("disagreement", "Frobenius distance from the forward loop's Jacobian, relative to it"),
    Column("timed_sweeps", "sweeps inside the clock; the time is scaled to all"),
    Column("memory", "the most Python held more than before, the Jacobian included", "B", deterministic=False),
    Column("sweep_memory", "the same of one sweep alone", "B", deterministic=False),
    Column("seconds", "wall time of the whole Jacobian", "s", deterministic=False),
    Column("wall_over_reverse", "wall time over that of reverse mode, the same way", deterministic=False),
    Column("wall_over_loop", "wall time over that of the loop in the same mode", deterministic=False),
    Column("fastest", "the way of the least time at this shape (1) or not (0)", deterministic=False),
)

Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Network:
    """x -> V tanh(U tanh(W x)) with constant parameters, at a point, and its Jacobian by hand."""

    f: Function
    x: Any
    jacobian: Any

    def directions(self, mode: str) -> int:
        """How many directions the whole Jacobian takes."""
        return int(self.jacobian.shape[1 if mode == "forward" else 0])


def network(n_in: int, n_out: int, rng: np.random.Generator) -> Network:
    x = rng.uniform(-1.0, 1.0, n_in)
    w = rng.normal(size=(HIDDEN, n_in)) / np.sqrt(n_in)
    u = rng.normal(size=(HIDDEN, HIDDEN)) / np.sqrt(HIDDEN)
    v = rng.normal(size=(n_out, HIDDEN)) / np.sqrt(HIDDEN)

    def f(x: Any) -> Any:
        return v @ np.tanh(u @ np.tanh(w @ x))

    lw, lu, lv, long = (a.astype(np.longdouble) for a in (w, u, v, x))
    h1 = np.tanh(lw @ long)
    h2 = np.tanh(lu @ h1)
    return Network(f, x, lv @ ((1 - h2**2)[:, None] * lu * (1 - h1**2) @ lw))


# ---------------------------------------------------------------------------------------------------------------------
# Sweeps. One sweep evaluates f and takes one direction, or a batch of them, forwards or back.


def push(f: Function, x: Any, direction: Any) -> Any:
    """J v by one forward sweep."""
    return dt.jvp(f, (x,), (direction,))[1]


def pull(f: Function, x: Any, direction: Any) -> Any:
    """g J by one reverse sweep."""
    return dt.vjp(f, x)[1](direction)[0]


SWEEPS: dict[str, Callable[[Function, Any, Any], Any]] = {"forward": push, "reverse": pull}
JACOBIANS: dict[str, Callable[..., Any]] = {"forward": dt.jacfwd, "reverse": dt.jacrev}


@dataclass(frozen=True)
class Way:
    """One way to the Jacobian: a mode, and how many directions a sweep takes."""

    mode: str
    name: str
    chunk: int

    def sweep(self, f: Function, x: Any, seeds: Any) -> Any:
        """One sweep with the directions in the rows of `seeds`; a row of the result for each."""
        one = SWEEPS[self.mode]
        if self.name == "loop":
            return one(f, x, seeds[0])[None]
        return dt.vmap(lambda seed: one(f, x, seed))(seeds)

    def sweeps(self, net: Network) -> int:
        return -(-net.directions(self.mode) // self.chunk)

    def rows(self, net: Network, sweeps: int, f: Function | None = None) -> Any:
        """The first rows of the Jacobian, or by forward mode of its transpose, from so many sweeps."""
        n = net.directions(self.mode)
        starts = [self.chunk * k for k in range(sweeps)]
        blocks = [self.sweep(f or net.f, net.x, np.eye(min(self.chunk, n - k), n, k)) for k in starts]
        return np.concatenate([np.asarray(block) for block in blocks])

    def directed(self, net: Network) -> int:
        """Flops of the operations of one sweep that depend on its directions.

        The sweep is itself a program. It is run with the directions as what is followed, and so every operation on
        anything that depends on them is seen and counted. (Not x as well: an operation on a batch and on something else
        that is followed is carried out twice, once for the recorder around the batch.)
        """
        seeds = np.ones((self.chunk, net.directions(self.mode)))
        return flops(inspect.cost(partial(self.sweep, net.f), net.x, seeds, argnums=1).evaluation)

    def shared(self, net: Network) -> int:
        """How many operations of one sweep depend on x and on no direction."""
        nodes = inspect.trace(partial(self.sweep, net.f), net.x, np.ones((self.chunk, net.directions(self.mode)))).nodes
        directed = {1}  # the second input
        for node in nodes[2:]:
            if directed.intersection(i for i in node.inputs if isinstance(i, int)):
                directed.add(node.index)
        return len(nodes) - 1 - len(directed)


def shared_flops(mode: str, net: Network) -> int:
    """Flops of those operations: of a sweep with one direction, everything less what depends on the direction."""
    way = Way(mode, "loop", 1)
    everything = inspect.cost(partial(way.sweep, net.f), net.x, np.ones((1, net.directions(mode)))).evaluation
    return flops(everything) - way.directed(net)


def flops(work: Any) -> int:
    return int(work.weigh("flops"))


# ---------------------------------------------------------------------------------------------------------------------
# Rows.


def measured(part: str, net: Network, ways: Sequence[Way], config: Config, effort: clock.Effort) -> list[Row]:
    """A row for each way to one Jacobian, all timed in turns; the first is the forward loop."""
    cost = inspect.cost(net.f, net.x)
    once = flops(cost.evaluation + cost.partials)
    each = {"forward": flops(cost.tangent), "reverse": flops(cost.adjoint)}
    shared = {mode: shared_flops(mode, net) for mode in SWEEPS}
    timed = [min(way.sweeps(net), 4 if config.quick else TIMED_SWEEPS) for way in ways]
    calls = {str(k): partial(way.rows, net, timed[k]) for k, way in enumerate(ways)}
    about = f"{part}, {net.directions('forward')} to {net.directions('reverse')}"
    times = clock.interleaved(calls, effort, about=about)
    rows: list[Row] = []
    first: Any = None
    for k, way in enumerate(ways):
        n, sweeps = net.directions(way.mode), way.sweeps(net)
        counted = measure.Counted(net.f)
        found = way.rows(net, sweeps, counted)
        found = found.T if way.mode == "forward" else found
        first = found if first is None else first
        performed = (shared[way.mode] + way.directed(net)) * sweeps
        one_sweep = shared[way.mode] + Way(way.mode, "batched", n).directed(net)
        rows.append(
            {
                "part": part,
                "n_in": net.directions("forward"),
                "n_out": net.directions("reverse"),
                "mode": way.mode,
                "way": way.name,
                "chunk": way.chunk,
                "sweeps": sweeps,
                "evaluations": counted.calls,
                "flops": performed,
                "declared": once * sweeps + each[way.mode] * n,
                "once": once,
                "excess": performed - one_sweep,
                "shared": way.shared(net),
                "error": measure.relative_error(found, net.jacobian),
                "jacobian_error": measure.relative_error(
                    JACOBIANS[way.mode](net.f, chunk=way.chunk)(net.x), net.jacobian
                ),
                "disagreement": measure.relative_error(found, first),
                "timed_sweeps": timed[k],
                "memory": clock.peak_bytes(partial(way.rows, net, sweeps)),
                "sweep_memory": clock.peak_bytes(partial(way.rows, net, 1)),
                "seconds": times[str(k)].least * sweeps / timed[k],
            }
        )
    loops = {row["mode"]: row["seconds"] for row in rows if row["way"] == "loop"}
    for row in rows:
        row["wall_over_loop"] = row["seconds"] / loops[row["mode"]]
    return rows


def compared(rows: list[Row]) -> list[Row]:
    """The four rows of one shape, with forward over reverse mode and the winners."""
    reverse = {row["way"]: row for row in rows if row["mode"] == "reverse"}
    for row in rows:
        other = reverse[row["way"]]
        row["over_reverse"] = row["flops"] / other["flops"]
        row["wall_over_reverse"] = row["seconds"] / other["seconds"]
        row["cheapest"] = int(row["flops"] == min(r["flops"] for r in rows))
        row["fastest"] = int(row["seconds"] == min(r["seconds"] for r in rows))
    return rows


def four_ways(net: Network) -> list[Way]:
    """Both modes, direction by direction and all at once."""
    ways = []
    for mode in SWEEPS:
        ways += [Way(mode, "loop", 1), Way(mode, "batched", net.directions(mode))]
    return ways


def chunks(net: Network) -> list[Way]:
    """Forward mode in chunks of 1, 2, 4, ... directions, beside the loop."""
    n = net.directions("forward")
    return [Way("forward", "loop", 1), *[Way("forward", "chunked", 2**k) for k in range(n.bit_length())]]


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """Who wins where; what batching saves, exactly."""
    square = settings["square"]
    grid = 'part == "grid" and mode == "forward"'
    batched, chunked = f'{grid} and way == "batched"', 'part == "chunks" and way == "chunked"'
    at_square = f'part == "grid" and way == "batched" and n_in == {square} and n_out == {square}'
    growth = f"slope(chunk, sweep_memory, {chunked} and chunk >= 8)"
    return [
        Bar("forward-wins", f"max(over_reverse, {grid} and 2 * n_in <= n_out)", "<", 1),
        Bar("reverse-wins", f"min(over_reverse, {grid} and n_in >= 2 * n_out)", ">", 1),
        Bar("diagonal", f"max(abs(over_reverse - 1), {batched} and n_in == n_out)", "==", 0),
        Bar("agreement", "max(disagreement)", "<=", 1e-12),
        Bar("error", "max(error)", "<=", 1e-12),
        Bar("jacobian-error", "max(jacobian_error)", "<=", 1e-12),
        Bar("evaluations", "max(abs(evaluations - sweeps))", "==", 0),
        Bar("shared-alike", "spread(shared)", "==", 1),
        Bar("batching-saves", "max(abs(excess - (sweeps - 1) * once))", "==", 0),
        Bar("declared-forward", 'max(abs(flops - declared), mode == "forward")', "==", 0),
        # A transposed product has other additions than the product, and the first cotangent has nothing to be added to.
        Bar("declared-reverse", 'max(abs(flops / declared - 1), mode == "reverse")', "<=", 0.03),
        Bar("chunk-memory-least", growth, ">=", 0.8),
        Bar("chunk-memory-most", growth, "<=", 1.1),
        Bar("time-batched", f"max(wall_over_loop, {at_square})", "<=", 1, deterministic=False),
    ]


def run(config: Config) -> Result:
    sizes = config.grid(SIZES, QUICK_SIZES)
    square = min(SQUARE, sizes[-1])

    def made(n_in: int, n_out: int) -> Network:
        return network(n_in, n_out, config.rng(f"{SPEC.name}/{n_in}/{n_out}"))

    rows: list[Row] = []
    for n_in, n_out in config.track([(n, m) for n in sizes for m in sizes], SPEC.name):
        net = made(n_in, n_out)
        rows += compared(measured("grid", net, four_ways(net), config, config.effort(quick=0.05, full=0.4)))
    net = made(square, square)
    rows += measured("chunks", net, chunks(net), config, config.effort(quick=0.1, full=4.0))

    settings = {"sizes": sizes, "hidden": HIDDEN, "square": square}
    return Result(COLUMNS, rows, bars(settings), settings=settings, files={"table.md": markdown(rows)}, drawn=(sizes,))


def markdown(rows: Sequence[Row]) -> str:
    """Every shape: flops of the four ways, forward over reverse mode, and the winners."""
    heads = ("n_in", "n_out", "forward loop", "forward batched", "reverse loop", "reverse batched")
    heads += ("forward / reverse, flops", "forward / reverse, time", "fewest flops", "least time")
    lines = ["| " + " | ".join(heads) + " |", "|" + " ---: |" * 8 + " --- | --- |"]
    grid = [row for row in rows if row["part"] == "grid"]
    for n_in, n_out in dict.fromkeys((row["n_in"], row["n_out"]) for row in grid):
        mine = [row for row in grid if (row["n_in"], row["n_out"]) == (n_in, n_out)]
        cells = [f"{row['flops']:,}" for row in mine]
        batched = next(row for row in mine if (row["mode"], row["way"]) == ("forward", "batched"))
        cells += [f"{batched['over_reverse']:.4g}", f"{batched['wall_over_reverse']:.3g}"]
        for wins in ("cheapest", "fastest"):
            cells.append(", ".join(f"{row['mode']} {row['way']}" for row in mine if row[wins]))
        lines.append(f"| {n_in} | {n_out} | " + " | ".join(cells) + " |")
    lines += ["", "| directions a sweep | sweeps | flops | time [ms] | memory of a sweep [kB] |"]
    lines.append("| ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        if row["part"] == "chunks" and row["way"] == "chunked":
            milliseconds, kilobytes = row["seconds"] * 1e3, row["sweep_memory"] / 1e3
            counts = f"| {row['chunk']} | {row['sweeps']} | {row['flops']:,} |"
            lines.append(f"{counts} {milliseconds:.3g} | {kilobytes:.4g} |")
    return "\n".join(lines) + "\n"
