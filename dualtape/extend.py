"""operation: register a function of your own, with its derivative rules, as a row of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.calls import performed
from dualtape.batching.examples import one_by_one, stacked
from dualtape.batching.level import Level
from dualtape.batching.physical import repeated
from dualtape.core.calls import call_of_many
from dualtape.core.edges import Linear
from dualtape.core.families import COMPOSITE
from dualtape.core.lookup import ROWS, TABLE, load_late_families
from dualtape.core.standin import Refused
from dualtape.core.table import Row, publish
from dualtape.facts import costs
from dualtape.facts.patterns import NAMED
from dualtape.names import missing
from dualtape.transforms.boundary import Kernel, Parameters, checked, checked_transpose, elementwise

__all__ = ["operation"]
__dir__ = __all__.copy
if not TYPE_CHECKING:  # or every misspelt name would be one to a type checker
    __getattr__ = missing("extend")

# The rows registered here, each with the module and the name of its kernel if these tell it from all others.
OWN: dict[str, tuple[Row, tuple[str, str] | None]] = {}


def operation(
    kernel: Callable[..., Any] | None = None,
    *,
    jvp: Any = None,
    vjp: Any = None,
    partials: Any = None,
    transpose: Any = None,
    name: str | None = None,
    functions: Sequence[Any] = (),
    outputs: int = 1,
    singular: bool = False,
    work: Any = None,
    pattern: Any = None,
    batch: Any = None,
    replace: bool = False,
    doc: str | None = None,
) -> Any:
    """Register an operation of plain NumPy arrays with its derivative rules; also a decorator.

    Exactly one form of the rules is given:

    - ``partials``: for an elementwise function of one or two operands, the derivative by each, as a number or a
      function of ``x``, ``y``, ``out``.
    - ``transpose``: for a function linear in its one operand, ``transpose(g, shape, **params)``.
    - ``jvp`` and ``vjp``: one function for each operand, ``jvp(t, ...)`` and ``vjp(g, ...)``, that read what they
      name: ``x``, ``y``, ``z``, ``out``, ``shape`` and ``dtype`` of their operand, keywords.

    Rules are written in NumPy; they are differentiated themselves for higher orders. A cotangent has the shape of its
    operand, so what was broadcast is summed; a tangent has the shape of the result, or that of its operand and is then
    broadcast.

    Args:
        kernel: ``kernel(*operands, **params)`` on arrays, which it must not write into. There are as many operands as
            rules; all further parameters are keywords, which are not differentiated, with their defaults.
        jvp: the forward rule or rules.
        vjp: the reverse rule or rules.
        partials: a partial or a sequence of them.
        transpose: the transpose of a linear function.
        name: the row's name; the kernel's if None (a lambda has none).
        functions: NumPy functions or ufuncs that this row shall answer for.
        outputs: the number of results (with ``jvp`` and ``vjp``).
        singular: a partial can be infinite where the value is finite; zeros of what is not taken, selected or seeded
            beat it.
        work: the cost column.
        pattern: which elements of the results can depend on which of an operand; every one on all, if not known (with
            ``partials``: on that in its own place). ``"elementwise"``; ``"moved"``, of a kernel that moves, repeats or
            drops elements or puts zeros, and is asked with their numbers; ``"stacked"``, matrices of a stack by
            themselves; ``"dense"``; or ``pattern(op, k, j)`` for operand k and result j, with ``op.shapes``,
            ``op.outs`` and ``op.params``: two arrays of element numbers, in C order, of the result and of the operand.
        batch: how a batch goes through at once (under ``vmap``, in Jacobians), and not one example after the other.
            True: kernel and rules take arrays with one more axis in front. Or a function ``batch(*operands, **params)``
            of arrays with the examples in front that returns the results of all of them; where a recorder around the
            batch follows an operand, kernel and rules are used, on each example.
        replace: whether a row of this name that was registered here before gives way. It does so in any case to a
            kernel of the same module and name, as when a cell of a notebook runs again.
        doc: the docstring; the kernel's if None.

    Returns:
        The operation: it takes Tensors and arrays, and returns a Tensor.

    Raises:
        TypeError: if a rule is missing, the forms are mixed, or there is no name; (when used) if the kernel or a rule
            does not return arrays.
        ValueError: if the name is taken, a rule reads what there is not, or no pattern has that name; (when used) if a
            shape is wrong, the number of results, or the kernel writes into an operand.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.extend.operation(partials=lambda out: out * (1 - out))
        ... def logistic_curve(x):
        ...     return 1 / (1 + np.exp(-x))
        >>> dt.grad(logistic_curve)(0.0)
        np.float64(0.25)

        A kernel that moves elements, and takes any number of axes in front:

        >>> turned = dt.extend.operation(
        ...     lambda x: x[..., ::-1], name="turned", transpose=lambda g, shape: g[..., ::-1], pattern="moved",
        ...     batch=True,
        ... )
        >>> print(*dt.vmap(turned, explain=True)(np.array([[1.0, 2.0], [3.0, 4.0]])))
        [[2. 1.]
         [4. 3.]] every operation ran once for all examples
    """
    if kernel is None:
        return lambda function: operation(
            function,
            jvp=jvp,
            vjp=vjp,
            partials=partials,
            transpose=transpose,
            name=name,
            functions=functions,
            outputs=outputs,
            singular=singular,
            work=work,
            pattern=pattern,
            batch=batch,
            replace=replace,
            doc=doc,
        )
    label: str = name or getattr(kernel, "__name__", None) or "<lambda>"
    if label == "<lambda>":
        raise TypeError("operation: the kernel has no name of its own, so the row needs one: name=")
    rules = jvp is not None or vjp is not None
    forms = [
        form
        for form, given in (("partials", partials), ("transpose", transpose), ("jvp and vjp", rules or None))
        if given is not None
    ]
    if len(forms) != 1:
        raise TypeError(
            f"operation {label!r}: give exactly one of partials, transpose, or jvp and vjp together; got "
            + (", ".join(forms) or "none")
        )
    if isinstance(pattern, str) and pattern not in NAMED:
        raise ValueError(f"operation {label!r}: no pattern is named {pattern!r}, but {', '.join(map(repr, NAMED))}")
    row: Any
    if rules:
        if jvp is None or vjp is None:
            missing = "jvp" if jvp is None else "vjp"
            raise TypeError(
                f"operation {label!r} has no {missing}: a row needs both rules, so that every nesting of modes works; "
                "for a function with one rule use custom_jvp or custom_vjp, which derive the other"
            )
        jvps, vjps = ([rule] if callable(rule) else list(rule) for rule in (jvp, vjp))
        form = Parameters(label, kernel, len(jvps))
        for what, each in (("jvp", jvps), ("vjp", vjps)):
            for k, rule in enumerate(each):
                form.ensure_known(rule, f"{what} of operand {k}")
        if len(jvps) != len(vjps):
            raise ValueError(
                f"operation {label!r}: {len(jvps)} forward and {len(vjps)} reverse rules; each operand needs both"
            )
        edges: list[Any] = [checked(form, k, outputs, j, v) for k, (j, v) in enumerate(zip(jvps, vjps, strict=True))]
        work = work or COMPOSITE["work"]
        row = Row(label, Kernel(label, kernel, outputs), edges, kind="general", outputs=outputs, work=work)
    elif outputs != 1:
        raise ValueError(f"operation {label!r}: several results need jvp and vjp")
    elif transpose is not None:
        form = Parameters(label, kernel, 1)
        edges = [Linear(checked_transpose(form, transpose))]
        row = Row(label, Kernel(label, kernel, 1), edges, kind="linear", work=work or costs.moves)
    else:
        each = list(partials) if isinstance(partials, (tuple, list)) else [partials]
        form = Parameters(label, kernel, len(each))
        row = elementwise(form, Kernel(label, kernel, 1, elementwise=True), each, singular)
        row.work = work or row.work
    if pattern is not None:
        row.pattern = NAMED[pattern] if isinstance(pattern, str) else lambda row, op, k, j: pattern(op, k, j)
    if batch is not None:
        row.batch = at_once(row, batch)
    apply = call_of_many(row)

    def call(*args: Any, **kwargs: Any) -> Any:
        operands, params = form.bound(args, kwargs)
        return apply(*operands, **params)

    if isinstance(kernel, np.ufunc) or (getattr(kernel, "__module__", None) or "").startswith("numpy"):
        functions = (kernel, *functions)
    enter(row, call, functions, doc or kernel.__doc__, source_of(kernel), replace)
    return call


def at_once(row: Row, batch: Any) -> Any:
    """The ``batch`` column: the row itself, or the user's function, on arrays with the examples in front."""
    whole = None if batch is True else Kernel(f"{row.name}, batch", batch, row.outputs)

    def rule(level: Level, *operands: Any, **params: Any) -> Any:
        arrays = [repeated(level, x) for x in operands]
        if whole is None:
            found = performed(row, *arrays, **params)
        elif any([not isinstance(a, np.ndarray) for a in arrays]):  # of Tensors the rules are asked
            return stacked(level, one_by_one(level, row.name, partial(performed, row), operands, params))
        else:
            found = whole(*arrays, **params)
        results = found if row.outputs > 1 else (found,)
        for y in results:
            if np.shape(y)[:1] != (level.size,):
                raise Refused(
                    f"{row.name}: of {level.size} examples at once (batch=) the kernel returned shape {np.shape(y)}, "
                    "of which the first axis is not theirs"
                )
        each = tuple([Batch(level, y) for y in results])
        return each if row.outputs > 1 else each[0]

    return rule


def source_of(kernel: Any) -> tuple[str, str] | None:
    """Module and name of a kernel; None if there can be several of them, as of lambdas and inner functions."""
    module, name = getattr(kernel, "__module__", None), getattr(kernel, "__qualname__", None)
    return (module, name) if module and name and "<" not in name else None


def enter(
    row: Row, call: Any, functions: Sequence[Any], doc: str | None, source: tuple[str, str] | None, replace: bool
) -> None:
    """Publish a row, in place of an earlier one of the name where that is meant."""
    if row.name not in ROWS:
        load_late_families(row.name)  # a name that a family has which is loaded when first used would keep it out then
    old: Any = ROWS.get(row.name)
    keys: list[Any] = []
    if old is not None:
        mine, known = OWN.get(row.name, (None, None))
        if mine is None or mine is not old:
            raise ValueError(f"there is already a row named {row.name!r}, of dualtape's own: choose another name=")
        if not (replace or (source is not None and source == known)):
            raise ValueError(
                f"there is already a row named {row.name!r}: choose another name=, or say replace=True if it is to go"
            )
        keys = [key for key, answer in TABLE.items() if answer is mine.call]
        del ROWS[row.name]
        for key in keys:
            del TABLE[key]
    try:
        publish(row, call, functions, doc)
    except ValueError:
        if old is not None:
            ROWS[row.name] = old
            TABLE.update((key, old.call) for key in keys)
        raise
    OWN[row.name] = row, source
