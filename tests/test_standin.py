"""A stand-in of the tests goes through every row: what it traces replays elsewhere as the program runs there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import CASES
from tracer import Traced, replayed, traced

import dualtape as dt
from dualtape.core.standin import Refused
from dualtape.core.tensor import tensor

# Rows some of whose cases ask for numbers where a traced array has none, and why: they refuse, all others replay.
BY_PARAMETER = ("betainc", "betaincc", "betaincinv", "gammainc", "gammaincc", "gammaincinv", "gammainccinv", "stdtr")
BY_ORDER = ("iv", "ive", "jv", "kv", "kve")
REFUSED = {
    "cumprod": "products through zeros are found with the zeros counted",
    "det": "a singular matrix has rules of its own",
    "eig": "complex vectors are normalised by a test of their phase",
    "eigh": "complex vectors are normalised by a test of their phase",
    "gammaln": "multigammaln looks whether all of its argument is in the domain",
    "getitem": "the places to be read are numbers: sort, masks",
    "pinv": "lstsq counts the rank",
    "prod": "products through zeros are found with the zeros counted",
    "svd": "vectors that are not unique may not be used",
    **dict.fromkeys(BY_PARAMETER, "the derivative by the parameter picks a method by the argument"),
    **dict.fromkeys(BY_ORDER, "the derivative by the order picks a method by the argument"),
}


def varies(x: Any) -> bool:
    return x.dtype.kind in "fc"


def value(f: Any, xs: Any) -> Any:
    y = f(*xs)
    return list(y) if isinstance(y, tuple) else [y]


def weights(shape: Any, dtype: Any, seed: int) -> Any:
    v = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    return v.astype(dtype)[()]


def gradient(f: Any, xs: Any) -> Any:
    moving = [x for x in xs if varies(x)]
    with dt.GradientTape() as tape:
        tape.watch(moving)
        ys = [y for y in value(f, xs) if isinstance(y, dt.Tensor) and varies(y)]
        if not ys:
            return []
    found = tape.gradient(ys, moving, output_gradients=[weights(y.shape, y.dtype, 1) for y in ys])
    return [dt.convert_to_tensor(g) if isinstance(g, dt.IndexedSlices) else g for g in found]


def jvp(f: Any, xs: Any) -> Any:
    moving = [x for x in xs if varies(x)]
    with dt.ForwardAccumulator(moving, [weights(x.shape, x.dtype, 2) for x in moving]) as acc:
        ys = value(f, xs)
    return acc.jvp(ys)


def hvp(f: Any, xs: Any) -> Any:
    moving = [x for x in xs if varies(x)]
    with dt.ForwardAccumulator(moving, [weights(x.shape, x.dtype, 2) for x in moving]) as acc:
        gs = gradient(f, xs)
    return acc.jvp(gs)


PROGRAMS = {"value": value, "gradient": gradient, "jvp": jvp, "hvp": hvp}


def elsewhere(x: Any) -> Any:
    """Another point near by, also for elements that are equal."""
    if not varies(x):
        return x
    return (x * (1 + 1e-3 * np.linspace(-1, 1, x.size).reshape(x.shape))).astype(x.dtype)


CASED = [
    pytest.param(c, how, id=f"{c.name}-{how}")
    for c in CASES
    for how in PROGRAMS
    if (how == "value" or any(varies(a) for a in c.args)) and (how != "hvp" or getattr(c, "order", 2) > 1)
]


def replays(case: Any, how: str) -> bool:
    """Whether a program goes through with traced arrays; if so, what was traced is right at another point."""
    program, arrays = PROGRAMS[how], [np.asarray(a) for a in case.args]
    others = [elsewhere(a) for a in arrays]
    stands = iter(traced([a for a in arrays if varies(a)]))
    xs = [tensor(next(stands)) if varies(a) else dt.constant(a) for a in arrays]
    with np.errstate(all="ignore"):
        try:
            outputs = program(case.f, xs)
        except Refused:
            return False
        values = [None if y is None else y._node.value for y in outputs]
        got = replayed(values, [a for a in others if varies(a)])
        there = program(case.f, [dt.constant(a) for a in others])
    for g, e in zip(got, there, strict=True):
        assert (g is None) == (e is None)
        if g is not None:
            g, e = np.asarray(g), np.asarray(e.numpy())
            assert g.shape == e.shape and g.dtype == e.dtype
            scale = np.max(np.abs(e[np.isfinite(e)]), initial=1e-300) if varies(e) else 0
            np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-9 * scale)
    return True


@pytest.mark.parametrize(("case", "how"), CASED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_traced_replays_elsewhere_or_is_refused(case: Any, how: str) -> None:
    assert replays(case, how) or case.row in REFUSED


@pytest.mark.parametrize("row", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_a_row_that_is_said_to_refuse_does(row: str) -> None:
    assert not all(replays(c, how) for c, how in (p.values for p in CASED) if c.row == row)


def test_a_traced_array_never_becomes_an_array() -> None:
    x = traced([np.ones(3)])[0]
    for leave in (np.asarray, float, bool, int, list):
        with pytest.raises(Refused):
            leave(x)
    with pytest.raises(Refused):
        np.zeros(3)[:] = x
    with pytest.raises(Refused):
        np.add(x, 1, out=np.zeros(3))


def test_a_value_that_is_lost_on_the_way_is_noticed() -> None:
    """The check itself: a program that reads the numbers of the first run does not pass."""

    def leaks(x: Any) -> Any:
        held = x._node.value
        return x * (held.value.sum() if isinstance(held, Traced) else held.sum())

    class Leaking:
        f, args, row = staticmethod(leaks), (np.arange(3.0),), "multiply"

    with pytest.raises(AssertionError):
        replays(Leaking, "value")
