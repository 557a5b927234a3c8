"""Each row's case as a traced function: value, gradient, JVP, Hessian-vector product, at two points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_standin import BY_ORDER, CASED, PROGRAMS, elsewhere, varies

import dualtape as dt
from dualtape.core.standin import Refused

# Rows that cannot be traced in some of their cases, and why.
BY_PARAMETER = ("gammainc", "gammaincc", "gammaincinv", "gammainccinv")
REFUSED = {
    **dict.fromkeys(("getitem", "argwhere", "flatnonzero"), "as many elements as a mask has"),
    **dict.fromkeys(BY_PARAMETER, "the derivative by the parameter sums as many terms as the argument needs"),
    **dict.fromkeys(BY_ORDER, "the derivative by the order picks a method by the argument"),
}


def agrees(case: Any, how: str) -> bool:
    """Whether a program can be traced; if so, it gives what the function itself gives, at both points."""
    program, arrays = PROGRAMS[how], [np.asarray(a) for a in case.args]

    def run(*moving: Any) -> Any:
        given = iter(moving)
        return list(program(case.f, [next(given) if varies(a) else dt.constant(a) for a in arrays]))

    f = dt.function(run)
    for point in (arrays, arrays, [elsewhere(a) for a in arrays], arrays):
        moving = [dt.constant(a) for a in point if varies(a)]
        with np.errstate(all="ignore"):
            try:
                got = f(*moving)
            except Refused:
                return False
            expected = program(case.f, [dt.constant(a) for a in point])
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert (g is None) == (e is None)
            if g is not None:
                g, e = np.asarray(g), np.asarray(e)
                assert g.shape == e.shape and g.dtype == e.dtype
                scale = np.max(np.abs(e[np.isfinite(e)]), initial=1e-300) if varies(e) else 0
                np.testing.assert_allclose(g, e, rtol=1e-9, atol=1e-9 * scale)
    return True


@pytest.mark.parametrize(("case", "how"), CASED)
@pytest.mark.filterwarnings("ignore")
def test_a_traced_row_is_what_it_is_eagerly_or_refused(case: Any, how: str) -> None:
    assert agrees(case, how) or case.row in REFUSED


@pytest.mark.parametrize("row", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_a_row_that_is_said_to_be_refused_is(row: str) -> None:
    assert not all(agrees(c, how) for c, how in (p.values for p in CASED) if c.row == row)
