"""The list of problems: one for benchmarks and tests alike."""

from __future__ import annotations

from . import adbench, arrays, small
from .problem import Entry

GMM_25 = "gmm/1k/gmm_d10_K25.txt.gz"

ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(
            f"chain-{size}-{spelling}",
            f"999 operations on {size} number{'s' if size > 1 else ''}, `{spelling}.`",
            small.chain,
            {"size": size, "spelling": spelling},
            {"rounds": 5},
        )
        for size in (1, 10)
        for spelling in ("dt", "np")
    ),
    *(
        Entry(f"rosenbrock-{text}", f"Rosenbrock {text}", small.rosenbrock, {"size": size}, {"size": 7}, size > 1e5)
        for text, size in (("10", 10), ("1e3", 1000), ("1e6", 1_000_000))
    ),
    *(
        Entry(
            f"rosenbrock-{text}-hvp-{order}",
            f"Rosenbrock {text}, HVP {order}",
            small.rosenbrock,
            {"size": size, "order": order},
            {"size": 7},
            size > 1e5,
        )
        for text, size in (("10", 10), ("1e3", 1000), ("1e6", 1_000_000))
        for order in ("fr", "rf", "rr")
    ),
    Entry(
        "mlp",
        "Network 784-256-10, batch of 256",
        arrays.network,
        {"batch": 256, "inputs": 784, "hidden": 256, "outputs": 10},
        {"batch": 6, "inputs": 5, "hidden": 4, "outputs": 3},
    ),
    Entry("gmm-25", "ADBench GMM d10 K25, 1000 points", adbench.mixture, {"file": GMM_25}),
    Entry(
        "gmm-50",
        "ADBench GMM d20 K50, 1000 points",
        adbench.mixture,
        {"d": 20, "k": 50, "n": 1000},
        {"d": 3, "k": 4, "n": 5},
    ),
    Entry("elementwise-1e6", "15 operations on 1e6 numbers", arrays.elementwise, {"size": 1_000_000}, {"size": 9}),
    Entry(
        "elementwise-1e7", "15 operations on 1e7 numbers", arrays.elementwise, {"size": 10_000_000}, {"size": 9}, True
    ),
    Entry("lstm", "ADBench LSTM, 2 layers, 1024 characters", adbench.lstm, {"characters": 1024}, {"characters": 6}),
    Entry("ba", "ADBench BA, 31843 observations", adbench.projection, {"observations": 31843}, {"observations": 5}),
    Entry("rk4", "1000 Runge-Kutta steps of a pendulum", small.pendulum, {"steps": 1000}, {"steps": 10}),
    Entry(
        "logistic-hessian",
        "Logistic regression, Hessian 100 x 100",
        arrays.logistic,
        {"points": 1000, "size": 100},
        {"points": 12, "size": 4},
    ),
    *(
        Entry(
            f"layer-jacobian-{mode}",
            f"Dense tanh layer, Jacobian 256 x 256, {mode}",
            arrays.layer,
            {"size": 256, "order": mode[0]},
            {"size": 4},
        )
        for mode in ("forward", "reverse")
    ),
    Entry("helmholtz", "Helmholtz energy, n = 50", small.helmholtz, {"size": 50}, {"size": 4}),
)


class UnknownProblemError(ValueError):
    """A name that no problem has or begins with."""


def chosen(names: list[str]) -> list[Entry]:
    """The entries whose names are, or begin with, one of `names`; all of them if there are none."""
    for name in names:
        if not any(entry.name.startswith(name) for entry in ENTRIES):
            known = ", ".join(entry.name for entry in ENTRIES)
            raise UnknownProblemError(f"no problem is called {name!r} or begins so; there are {known}")
    return [entry for entry in ENTRIES if not names or any(entry.name.startswith(name) for name in names)]
