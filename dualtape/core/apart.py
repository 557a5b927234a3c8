"""Products of a cotangent or tangent with a partial, in which a zero that nothing can change beats an infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualtape.core.calls import call_of_two
from dualtape.core.cotangents import fitted
from dualtape.core.reached import unreached
from dualtape.core.recorders import is_fact
from dualtape.core.standin import Standin, finite
from dualtape.core.table import PARAMS, Edge, Row, publish
from dualtape.core.tensor import Tensor, opened
from dualtape.facts import costs, patterns


def apart(product: Any, zeros: Sequence[Any]) -> Any:
    """A product with 0 wherever a zero of its factors beats an infinity or NaN: where one of ``zeros`` is 0, an array,
    or a function that finds it if there is need (None: nowhere)."""
    if product.__class__ is Tensor:
        if not at_once(product):
            return product_apart(product, 1.0, zeros=tuple(zeros))
    elif finite(product):
        return product
    for zero in zeros:
        marks = zero() if callable(zero) else zero
        if marks is not None:
            product = unreached(marks, product)
    return product


def at_once(x: Any) -> bool:
    """Whether zeros are to be found now, though no infinity was met: who carries out the program again may meet one,
    and a stand-in may be gone when it is met."""
    return x.__class__ is Tensor and (isinstance(x._node.value, Standin) or is_fact(x._node))


class Apart(Edge):
    """A factor of such a product, for those who differentiate it again. It keeps the other one, and the zeros."""

    __slots__ = ()

    exact = False
    spreads = True

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, like, kept = entry
        if not cotangents.masked:
            cotangents.select(raw)
        other, params = opened(kept, raw)
        c = self.product(g, other.conjugate(), (*params["zeros"], cotangents.reach.later(cotangents.at)))
        cotangents.add(i, c if like is None else fitted(c, like))

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        other, params = opened(kept, raw)
        with np.errstate(invalid="ignore"):
            return self.product(t, other, params["zeros"])

    def product(self, x: Any, y: Any, zeros: tuple[Any, ...]) -> Any:
        if (x.__class__ is Tensor or y.__class__ is Tensor) and not (at_once(x) or at_once(y)):
            return product_apart(x, y, zeros=zeros)
        return apart(y * x if y.__class__ is Tensor else x * y, zeros)

    def partly(self, kept: Any) -> bool:
        return True

    def outline(self, kept: Any, raw: bool) -> Any:
        zeros = kept[1]["zeros"]

        def taken() -> Any:
            total: Any = None
            for zero in zeros:
                marks = zero() if callable(zero) else zero
                if marks is not None:
                    marks = marks != 0
                    total = marks if total is None else total & marks
            return total

        return taken


apart_row = Row(
    "product_apart",
    lambda x, y, zeros: apart(x * y, zeros),
    [Apart((1, PARAMS)), Apart((0, PARAMS))],
    kind="bilinear",
    work=costs.elementwise(2, mults=1, partial=costs.Work()),
    pattern=patterns.elementwise,
)
product_apart = publish(apart_row, call_of_two(apart_row))
