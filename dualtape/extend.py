"""operation: register a function of your own, with its derivative rules, as a row of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dualtape.core import families


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
    doc: str | None = None,
) -> Any:
    """Register an operation of plain NumPy arrays with its derivative rules; also a decorator.

    Exactly one form of the rules is given:

    - ``partials``: for an elementwise function of one or two operands, the derivative by each, as a number or a
      function of ``x``, ``y``, ``out``.
    - ``transpose``: for a function linear in its one operand, ``transpose(g, shape, **params)``.
    - ``jvp`` and ``vjp``: one function for each operand, ``jvp(t, ...)`` and ``vjp(g, ...)``, that read what they
      name: ``x``, ``y``, ``z``, ``out``, ``shape`` and ``dtype`` of their operand, keywords.

    Rules are written in NumPy; they are differentiated themselves for higher orders.

    Args:
        kernel: ``kernel(*operands, **params)`` on arrays.
        jvp: the forward rule or rules.
        vjp: the reverse rule or rules.
        partials: a partial or a sequence of them.
        transpose: the transpose of a linear function.
        name: the row's name; the kernel's if None.
        functions: NumPy functions or ufuncs that this row shall answer for.
        outputs: the number of results (with ``jvp`` and ``vjp``).
        singular: a partial can be infinite where the value is finite, and a zero cotangent then wins.
        work: the cost column.
        doc: the docstring; the kernel's if None.

    Returns:
        The operation: it takes Tensors and arrays, and returns a Tensor.

    Raises:
        TypeError: if a rule is missing or the forms are mixed.
        ValueError: if the name is taken, or a partial reads what it cannot.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.extend.operation(partials=lambda out: out * (1 - out))
        ... def logistic_curve(x):
        ...     return 1 / (1 + np.exp(-x))
        >>> dt.grad(logistic_curve)(0.0)
        Tensor(0.25)
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
            doc=doc,
        )
    label = name or getattr(kernel, "__name__", "operation")
    forms = [
        form
        for form, given in (("partials", partials), ("transpose", transpose), ("jvp and vjp", jvp or vjp))
        if given is not None
    ]
    if len(forms) != 1:
        raise TypeError(
            f"operation {label!r}: give exactly one of partials, transpose, or jvp and vjp together; got "
            + (", ".join(forms) or "none")
        )
    text = doc or kernel.__doc__
    common: dict[str, Any] = {"name": label, "functions": functions, "doc": text}
    if partials is not None:
        each = list(partials) if isinstance(partials, (tuple, list)) else [partials]
        return families.elementwise(kernel, *each, singular=singular, changes_dtype=True, work=work, **common)
    if transpose is not None:
        return families.linear(kernel, transpose, **common, **({} if work is None else {"work": work}))
    if jvp is None or vjp is None:
        missing = "jvp" if jvp is None else "vjp"
        raise TypeError(
            f"operation {label!r} has no {missing}: a row needs both rules, so that every nesting of modes works; "
            "for a function with one rule use custom_jvp or custom_vjp, which derive the other"
        )
    return families.general(kernel, jvp=jvp, vjp=vjp, outputs=outputs, work=work, **common)
