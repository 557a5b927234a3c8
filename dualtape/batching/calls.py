"""A function of Batches, or a row whose kernel cannot be gone through: by its rule, else once for each example."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch, Shared
from dualtape.batching.examples import each, one_by_one, stacked
from dualtape.batching.operators import OPERATORS
from dualtape.batching.physical import aligned, holds, is_batched, physical
from dualtape.core.standin import Refused
from dualtape.core.tensor import Operand, Tensor

Rule = Callable[..., Any]

# Rules by function: rule(level, *args, **kwargs), some of the operands Batches of that level. Those of ufuncs go by the
# name of the method: rule(level, ufunc, *args, **kwargs).
FUNCTIONS: dict[Any, Rule] = {}
# Those that take Batches for more than their first operand.
MANY: set[Rule] = {each}


def enter(*functions: Any, many: bool = False) -> Callable[[Rule], Rule]:
    """Let a rule answer for functions; ``many``: it takes Batches for more than its first operand."""

    def entered(rule: Rule) -> Rule:
        FUNCTIONS.update(dict.fromkeys(functions, rule))
        if many:
            MANY.add(rule)
        return rule

    return entered


def call(level: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """A function of which some operands are Batches, ``level`` the innermost, seen by the recorders around it."""
    level.ensure_live()
    with level.outside():
        places = [k for k, a in enumerate(args) if holds(level, a)]
        named = any([holds(level, a) for a in kwargs.values()]) if kwargs else False
        if not places and not named:  # what the examples share, on its way through a kernel
            found = function(*physical(level, args), **{k: physical(level, a) for k, a in kwargs.items()})
            return Shared(level, found) if isinstance(found, Operand) else found
        rule, first = FUNCTIONS.get(function), ()
        if rule is None:
            rule, first = general_rule(function)
        try:
            if rule not in MANY and (named or places != [0] or not is_batched(level, args[0])):
                raise Refused("the rule takes a batch for its first operand alone")
            return rule(level, *first, *args, **kwargs)
        except Refused:
            if rule is each or kwargs.get("out") is not None:
                raise
            return each(level, function, *args, **kwargs)


def general_rule(function: Any) -> tuple[Rule, Any]:
    """The rule of a function that has none of its own, and what comes first among its arguments."""
    if isinstance(function, np.ufunc) or function in OPERATORS:
        return FUNCTIONS["__call__"], (function,)
    ufunc = getattr(function, "__self__", None)
    if not isinstance(ufunc, np.ufunc):
        return each, (function,)
    if function.__name__ not in FUNCTIONS:
        raise Refused(f"{ufunc.__name__}: this method has no rule for a batch")
    return FUNCTIONS[function.__name__], (ufunc,)


def through(level: Any, row: Any, operands: Any, params: dict[str, Any]) -> Any:
    """The result of a row: by its ``batch`` column, on aligned operands if it is elementwise, else for each example."""
    with level.outside():
        if row.batch is not None:
            return row.batch(level, *operands, **params)
        if row.kind == "elementwise":
            try:
                return Batch(level, performed(row, *aligned(level, operands)))
            except Refused:
                pass
        return stacked(level, one_by_one(level, row.name, partial(performed, row), operands, params))


def performed(row: Any, *physical: Any, **params: Any) -> Any:
    """A row carried out on arrays, Tensors or Batches of outer levels."""
    return (row.call if any([a.__class__ is Tensor for a in physical]) else row.kernel)(*physical, **params)
