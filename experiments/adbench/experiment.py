"""E11: the ADBench problems - the time of a derivative over the time of the function, on the benchmark's own data.

A problem is a `Family`: its cases as data, and the function that measures one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..harness.config import Config
from ..harness.spec import Bar, Claim, Column, Result, Row, Spec
from . import gradients, jacobians, published

SPEC = Spec(
    id="E11",
    name="adbench",
    title="ADBench's problems with its data",
    claims=(
        Claim(
            "relative-times",
            "Derivative over function in time, by tool: mixtures from 1.9 (by hand) to 107, bundle adjustment from 1.7 "
            "(symbolic, compiled) to 319.",
            "Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, LaTeX source",
            "R",
        ),
        Claim(
            "operator-overloading",
            "Operator-overloading reverse tools take 10-35 times the original; Adept typically below 4.",
            "Hogan, ACM TOMS 40(4), 2014, abstract",
            "R",
        ),
        Claim(
            "reference-values",
            "Values and derivatives that the benchmark's unit tests expect.",
            "microsoft/ADBench at commit 38cb793, test/python/modules/common",
            "R",
        ),
        Claim(
            "sparse",
            "Each residual of bundle adjustment is independent of the others: its Jacobian takes 15 tangents or a "
            "cotangent a row, however many observations there are.",
            "Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, section on BA",
            "R",
        ),
        Claim(
            "factor-five",
            "A gradient costs at most 5 times the flops of the function.",
            "counts of the elemental operations",
            "D",
        ),
    ),
)

COLUMNS = (
    Column("problem", "GMM, BA (bundle adjustment), LSTM or hand"),
    Column("case", "data file, or how the numbers were drawn"),
    Column("parameters", "number of parameters P"),
    Column("observations", "points, observations, characters or correspondences"),
    Column("mode", "reverse, or forward (linearised once, one push a parameter); scan: the loop by `dt.scan`"),
    Column("sweeps", "sweeps for the whole derivative"),
    Column("operations", "operations recorded by one evaluation of f"),
    Column("flops_per_op", "flops of f per recorded operation", "flops"),
    Column("flops_ratio", "declared Work(derivative) / Work(f), all sweeps counted, weighting flops"),
    Column(
        "performed_ratio",
        "the same counted call by call: BA on 100 observations, LSTM on 8 characters, hand by the first two sweeps",
    ),
    Column("tape_bytes", "arrays held by all tapes alive once f is evaluated", "B"),
    Column("entries", "stored entries of a sparse Jacobian"),
    Column("value_error", "distance from the benchmark's expected value (BA: relative; loops: from them, relative)"),
    Column("derivative_error", "largest distance from the benchmark's expected derivative (BA: relative, by entry)"),
    Column("complex_step_error", "largest distance from the complex step, relative (hand: to the largest entry)"),
    Column("coordinates", "entries compared with the complex step"),
    Column("modes_gap", "relative distance from the other mode"),
    Column("products_gap", "J v and J^T u of the sparse Jacobian against one sweep through all residuals, relative"),
    Column("outside", "largest entry that reverse mode finds where the sparse Jacobian has none"),
    Column("timed_sweeps", "sweeps inside the clock; the time is scaled to all"),
    Column("f_seconds", "wall time of f in plain NumPy", "s", deterministic=False),
    Column("seconds", "wall time of the whole derivative", "s", deterministic=False),
    Column("relative_time", "time of the derivative over time of f", deterministic=False),
)


@dataclass(frozen=True)
class Family:
    """A problem of the benchmark."""

    name: str
    cases: Callable[[Config], list[Any]]
    rows: Callable[[Any, Config], list[Row]]
    bars: tuple[Bar, ...]


def both(id: str, quantity: str, where: str, least: float, most: float) -> tuple[Bar, Bar]:
    """A bar from either side."""
    low, high = f"min({quantity}, {where})", f"max({quantity}, {where})"
    return Bar(f"{id}-least", low, ">=", least), Bar(f"{id}-most", high, "<=", most)


GMM = 'problem == "GMM" and mode == "reverse"'
LSTM = 'problem == "LSTM" and mode == "reverse"'
BA = 'problem == "BA" and mode == "{}"'
HAND = 'problem == "hand" and mode == "{}"'

FAMILIES = (
    Family(
        "GMM",
        gradients.gmm_cases,
        gradients.gmm_rows,
        (
            Bar("gmm-value", 'max(value_error, problem == "GMM" and case == "test")', "<=", 1e-12),
            Bar("gmm-gradient", 'max(derivative_error, problem == "GMM" and case == "test")', "<=", 1e-12),
            Bar("gmm-unpacking", 'max(value_error, problem == "GMM" and mode == "value")', "<=", 1e-13),
            Bar("gmm-complex-step", 'max(complex_step_error, problem == "GMM" and mode != "value")', "<=", 1e-10),
            Bar("gmm-modes-agree", 'max(modes_gap, problem == "GMM" and mode != "value")', "<=", 1e-12),
            Bar("gmm-flops", f"max(flops_ratio, {GMM})", "<=", 5),
            *both("gmm-performed", "performed_ratio", GMM, 1.5, 4),
            *both("gmm-declared", "flops_ratio / performed_ratio", GMM, 0.9, 1.5),
            Bar("gmm-time", f"max(relative_time, {GMM} and observations >= 1000)", "<=", 12, deterministic=False),
            Bar("gmm-time-10k", f"max(relative_time, {GMM} and observations == 10000)", "<=", 4, deterministic=False),
        ),
    ),
    Family(
        "BA",
        jacobians.ba_cases,
        jacobians.ba_rows,
        (
            Bar("ba-value", 'max(value_error, problem == "BA" and case == "test")', "<=", 1e-12),
            Bar("ba-jacobian", 'max(derivative_error, problem == "BA" and case == "test")', "<=", 1e-12),
            Bar("ba-complex-step", 'max(complex_step_error, problem == "BA")', "<=", 1e-10),
            Bar("ba-same-entries", 'max(modes_gap, problem == "BA")', "<=", 1e-12),
            Bar("ba-products", 'max(products_gap, problem == "BA")', "<=", 1e-12),
            Bar("ba-entries", 'max(abs(entries - 31 * observations), problem == "BA")', "==", 0),
            Bar("ba-tangents", f"max(abs(sweeps - 15), {BA.format('forward')})", "==", 0),
            Bar("ba-cotangents", f"max(abs(sweeps - 3), {BA.format('reverse')})", "==", 0),
            # f and sixteen tangents, one of them the linearisation's own, each between 1 and 2.25 times f.
            *both("ba-performed-forward", "performed_ratio", BA.format("forward"), 17, 37),
            *both("ba-declared-forward", "flops_ratio / performed_ratio", BA.format("forward"), 0.8, 1.1),
            # f and two cotangents, each between 1 and 3 times f; the third one meets a square and a difference alone.
            *both("ba-performed-reverse", "performed_ratio", BA.format("reverse"), 3, 7),
            Bar("ba-time", f"max(relative_time, {BA.format('reverse')} and observations > 30000)", "<=", 8.4, False),
        ),
    ),
    Family(
        "LSTM",
        gradients.lstm_cases,
        gradients.lstm_rows,
        (
            Bar("lstm-value", 'max(value_error, problem == "LSTM" and case == "l2 c1024")', "<=", 5e-9),
            Bar("lstm-gradient", 'max(derivative_error, problem == "LSTM" and case == "l2 c1024")', "<=", 1e-14),
            Bar("lstm-complex-step", 'max(complex_step_error, problem == "LSTM" and mode != "expected")', "<=", 1e-10),
            Bar("lstm-modes-agree", 'max(modes_gap, problem == "LSTM" and mode != "expected")', "<=", 1e-12),
            Bar("lstm-flops", f"max(flops_ratio, {LSTM})", "<=", 5),
            *both("lstm-performed", "performed_ratio", LSTM, 1.5, 4),
            *both("lstm-declared", "flops_ratio / performed_ratio", LSTM, 0.9, 1.5),
        ),
    ),
    Family(
        "hand",
        jacobians.hand_cases,
        jacobians.hand_rows,
        (
            Bar("hand-value", 'max(value_error, problem == "hand" and observations == 2)', "<=", 1e-14),
            Bar("hand-jacobian", 'max(derivative_error, problem == "hand" and observations == 2)', "<=", 1e-14),
            Bar("hand-complex-step", 'max(complex_step_error, problem == "hand")', "<=", 1e-14),
            Bar("hand-modes-agree", 'max(modes_gap, problem == "hand")', "<=", 1e-13),
            Bar("hand-blocks", 'max(outside, problem == "hand")', "==", 0),
            Bar("hand-tangents-simple", f"min(sweeps, {HAND.format('forward')})", "==", 26),
            Bar("hand-tangents-complicated", f"max(sweeps, {HAND.format('forward')})", "==", 28),
            *both("hand-performed", "performed_ratio / sweeps", HAND.format("forward"), 0.9, 2.5),
            *both("hand-declared", "flops_ratio / performed_ratio", 'problem == "hand"', 0.9, 1.1),
        ),
    ),
)


def run(config: Config) -> Result:
    cases = [(family, case) for family in FAMILIES for case in family.cases(config)]
    rows: list[Row] = [{"problem": "GMM"} | row for row in gradients.loop_rows(config)]
    for family, case in config.track(cases, SPEC.name):
        rows += [{"problem": family.name, "case": case.name} | row for row in family.rows(case, config)]
    for row in rows:
        if "seconds" in row:
            row["relative_time"] = row["seconds"] / row["f_seconds"]
    settings = {"cases": [case.name for _, case in cases], "published": {"GMM": published.GMM, "BA": published.BA}}
    return Result(COLUMNS, rows, bars(settings), settings=settings, files={"table.md": table(rows)})


def bars(settings: Mapping[str, Any]) -> list[Bar]:
    """The bars of all families, quick or full."""
    return [bar for family in FAMILIES for bar in family.bars]


def table(rows: list[Row]) -> str:
    """Derivative over function beside what was published."""
    lines = ["Time of the derivative over time of the function; published figures: 2018, another machine.", ""]
    here = {(row["case"], row["mode"]): row["relative_time"] for row in rows if "relative_time" in row}
    sizes = [published.name_of(d, k) for d, k in published.GMM_SIZES]
    numbers = [f"{published.parameters(d, k)}" for d, k in published.GMM_SIZES]
    lines += _table("Mixtures, 10,000 points, by parameters", numbers, published.GMM, here, sizes, ["reverse"])
    scenes = [file.split("_")[0] for file in jacobians.BA_FILES]
    counts = [f"{p}" for p in published.BA_SIZES]
    modes = ["reverse", "forward"]
    lines += _table("Bundle adjustment, by observations", counts, published.BA, here, scenes, modes)
    lines += ["| other problems | mode | P | here |", "| --- | --- | --- | --- |"]
    for row in rows:
        if row["problem"] in ("LSTM", "hand") and "relative_time" in row:
            said = (
                f"{row['problem']} {row['case']}",
                row["mode"],
                str(row["parameters"]),
                f"{row['relative_time']:.3g}",
            )
            lines.append(f"| {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


def _table(
    title: str, heads: list[str], times: published.Times, here: dict[Any, float], cases: list[str], modes: list[str]
) -> list[str]:
    def line(name: str, numbers: Any) -> str:
        return f"| {name} | {' | '.join('-' if x is None else f'{x:.3g}' for x in numbers)} |"

    ours = [line(f"**dualtape, {mode}**", [here.get((case, mode)) for case in cases]) for mode in modes]
    head = [f"| {title} | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    return [*head, *ours, *[line(tool, numbers) for tool, numbers in times.items()], ""]
