"""cond, case, switch_case and while_loop: TensorFlow's control flow, which is Python's when it runs eagerly.

What is recorded is what ran: the branch that was taken, each turn of a loop. There are no rows here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core.standin import Standin
from dualtape.core.tensor import Operand, Tensor, operand, wrap
from dualtape.modes.constant import constant
from dualtape.modes.pause import stop_recording
from dualtape.modes.structure import changed, ensure_alike, map_structure

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["case", "cond", "switch_case", "while_loop"]


def cond(
    pred: ArrayLike,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What ``true_fn`` returns if ``pred`` is true, else what ``false_fn`` returns.

    Args:
        pred: one element of any rank: a boolean, a number, a Tensor.
        true_fn: a function of no arguments.
        false_fn: a function of no arguments.
        name: accepted for TensorFlow's sake.

    Returns:
        What the function that ran returned. A derivative passes through that branch alone.

    Raises:
        TypeError: if a branch is not a function.
        ValueError: if ``pred`` is not one element.

    Example:
        >>> import dualtape as dt
        >>> dt.grad(lambda x: dt.cond(x > 0, lambda: x * x, lambda: -x))(3.0)
        np.float64(6.0)
    """
    for label, branch in (("true_fn", true_fn), ("false_fn", false_fn)):
        ensure_function("cond", label, branch)
    assert true_fn is not None and false_fn is not None
    whole = standin_of(pred)
    found = None if whole is None else whole.choose(as_tensors(pred).reshape(()).astype(np.bool_), [false_fn, true_fn])
    return found if found is not None else apart(true_fn() if truth("cond", "pred", pred) else false_fn())


def case(
    pred_fn_pairs: Sequence[tuple[ArrayLike, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """What the function of the first true predicate returns.

    Args:
        pred_fn_pairs: pairs (predicate of one element, function of no arguments), in order.
        default: the function that runs if no predicate is true.
        exclusive: whether several true predicates are an error.
        strict: accepted for TensorFlow's sake.
        name: accepted for TensorFlow's sake.

    Returns:
        What the function that ran returned.

    Raises:
        TypeError: if the pairs are not pairs, or have no functions.
        ValueError: if no predicate is true and there is no default, or several are true and ``exclusive`` is set.

    Example:
        >>> import dualtape as dt
        >>> x = dt.constant(2.0)
        >>> dt.case([(x < 1, lambda: x), (x < 3, lambda: x * x)], default=lambda: 0 * x)
        Tensor(4.)
    """
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError(f"case: pred_fn_pairs is a list of pairs (pred, fn), not {type(pred_fn_pairs).__name__}")
    for k, pair in enumerate(pred_fn_pairs):
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2):
            raise TypeError(f"case: entry {k} of pred_fn_pairs is not a pair (pred, fn)")
        ensure_function("case", f"the second of pair {k}", pair[1])
    if default is not None:
        ensure_function("case", "default", default)
    if pred_fn_pairs and default is not None and not exclusive and standin_of(pred_fn_pairs[0][0]) is not None:
        (pred, branch), *others = pred_fn_pairs
        return cond(pred, branch, lambda: case(others, default) if others else default())
    taken: Callable[[], Any] | None = None
    for k, (pred, branch) in enumerate(pred_fn_pairs):
        if truth("case", f"predicate {k}", pred):
            if taken is not None:
                raise ValueError(f"case: predicate {k} is true as well as an earlier one, and exclusive=True")
            taken = branch
            if not exclusive:
                break
    taken = taken or default
    if taken is None:
        raise ValueError("case: no predicate is true, and there is no default")
    return apart(taken())


def switch_case(
    branch_index: ArrayLike,
    branch_fns: Mapping[int, Callable[[], Any]] | Sequence[Any],
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What the function of number ``branch_index`` returns.

    Args:
        branch_index: an integer, or an array of one.
        branch_fns: a list of functions of no arguments, a dict from integers to them, or a list of such pairs.
        default: the function for every other index; the one of the highest number if None.
        name: accepted for TensorFlow's sake.

    Returns:
        What the function that ran returned.

    Raises:
        TypeError: for an index that is not an integer, or branches that are not functions.
        ValueError: if there is no branch.

    Example:
        >>> import dualtape as dt
        >>> dt.switch_case(dt.constant(1), [lambda: 10.0, lambda: 20.0])
        20.0
    """
    index: Any = branch_index if isinstance(branch_index, Operand) else np.asarray(branch_index)
    if index.dtype.kind not in "iu" or index.size != 1:
        raise TypeError(f"switch_case: branch_index is an integer, not {index.dtype} of shape {index.shape}")
    if isinstance(branch_fns, dict):
        branches = dict(branch_fns)
    elif branch_fns and all([isinstance(b, tuple) and len(b) == 2 for b in branch_fns]):
        branches = dict(branch_fns)
    else:
        branches = dict(enumerate(branch_fns))
    if not branches:
        raise ValueError("switch_case: branch_fns is empty")
    for k, branch in branches.items():
        if not isinstance(k, (int, np.integer)):
            raise TypeError(f"switch_case: the branches have integers for keys, not {k!r}")
        ensure_function("switch_case", f"branch {k}", branch)
    if default is None:
        default = branches[max(branches)]
    ensure_function("switch_case", "default", default)
    whole = standin_of(index)
    if whole is not None:
        known = sorted(branches)
        number = sum([(index == k) * (1 + place) for place, k in enumerate(known)])  # 0: none of them
        found = whole.choose(as_tensors(number), [default, *[branches[k] for k in known]])
        if found is not None:
            return found
    return apart(branches.get(int(index.reshape(())), default)())


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: ArrayLike | None = None,
    name: str | None = None,
) -> Any:
    """Repeat ``loop_vars = body(*loop_vars)`` while ``cond(*loop_vars)`` is true.

    Args:
        cond: a function of the loop variables that returns one element, of any rank.
        body: a function of the loop variables that returns as many, in the same structure.
        loop_vars: a list or tuple: numbers, arrays, Tensors, nested structures of them; or a single one.
        shape_invariants: accepted for TensorFlow's sake, like the next one and ``swap_memory``: shapes may change.
        parallel_iterations: see ``shape_invariants``.
        back_prop: whether what the loop does is recorded.
        swap_memory: see ``shape_invariants``.
        maximum_iterations: an integer: stop after so many turns.
        name: accepted for TensorFlow's sake.

    Returns:
        The loop variables at the end, in the structure of ``loop_vars``, as Tensors; a single one as it is.

    Raises:
        TypeError: if ``cond`` or ``body`` is not a function.
        ValueError: if there are no loop variables, or ``body`` returns another number or structure of them.

    Example:
        >>> import dualtape as dt
        >>> power = lambda x: dt.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * x), (0, 1.0))[1]
        >>> dt.grad(power)(2.0)
        np.float64(12.0)
    """
    ensure_function("while_loop", "cond", cond)
    ensure_function("while_loop", "body", body)
    single = not isinstance(loop_vars, (list, tuple))
    values: list[Any] = [as_tensors(v) for v in ((loop_vars,) if single else loop_vars)]
    if not values:
        raise ValueError("while_loop: there are no loop variables")
    limit = None if maximum_iterations is None else int(np.reshape(operand(maximum_iterations), ()))
    turns = 0

    def turned(values: list[Any]) -> list[Any]:
        found = body(*values)
        each = found if isinstance(found, (list, tuple)) else [found]
        ensure_alike("while_loop: the loop variables and what body returns", values, list(each))
        return [as_tensors(v) for v in each]

    with nullcontext() if back_prop else stop_recording():
        while limit is None or turns < limit:
            goes_on = cond(*values)
            whole = standin_of(goes_on)
            if whole is not None and not turns:
                last = whole.repeat(lambda state: cond(*state), turned, values, limit, goes_on)
                if last is not None:
                    values = last
                    break
            if not truth("while_loop", "what cond returns", goes_on):
                break
            values = turned(values)
            turns += 1
    if single:
        return values[0]
    kind = type(loop_vars)
    return kind(*values) if hasattr(kind, "_fields") else kind(values)


def as_tensors(value: Any) -> Any:
    """A loop variable with Tensors for its leaves: what is there already keeps its identity, under another handle."""
    return map_structure(lambda leaf: wrap(leaf._read()._node) if isinstance(leaf, Operand) else constant(leaf), value)


def apart(value: Any) -> Any:
    """What a branch returned, its Tensors under handles that nobody else has: the caller may write into them."""
    return changed(lambda leaf: wrap(leaf._node) if leaf.__class__ is Tensor else leaf, value)


def standin_of(pred: Any) -> Standin | None:
    """The stand-in that a condition is of one element of; it may know of a way to go on as a whole."""
    value = pred._node.value if pred.__class__ is Tensor else None
    return value if isinstance(value, Standin) and np.size(pred) == 1 else None


def truth(name: str, what: str, pred: Any) -> bool:
    """What has one element as Python's bool."""
    if np.size(pred) != 1:
        raise ValueError(f"{name}: {what} must have exactly one element, not shape {np.shape(pred)}")
    return bool(pred)


def ensure_function(name: str, label: str, f: Any) -> None:
    """Refuse what is not a function."""
    if not callable(f):
        raise TypeError(f"{name}: {label} is a function, not {type(f).__name__}")
