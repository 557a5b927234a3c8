"""What a program really performs: its NumPy calls, kernels and rules alike, counted one by one.

The table below knows NumPy's functions and nothing of rows: it counts beside the column ``work``, and does not read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dualtape.facts.costs import Work
from dualtape.tracing import control  # noqa: F401  (loops and choices as steps)
from dualtape.tracing.graph import Block, Like, Place, Step, blocks, described, exchanged
from dualtape.tracing.passes import gathered, scattered
from dualtape.tracing.symbol import method
from dualtape.tracing.trace import Trace
from dualtape.transforms.arguments import sources


class Count(NamedTuple):
    """What was performed: elementary work, the number of NumPy calls, and the calls that the table does not know."""

    work: Work
    calls: int
    uncounted: dict[str, int]


def performed(f: Callable[..., Any], *args: Any) -> Count:
    """The work that ``f`` performs on its arguments, counted call by call; derivatives that it takes are counted too.

    Counted are additions (comparisons and choices too), multiplications, nonlinear functions (those whose derivative
    takes several operations twice), and elements read and written, of every NumPy call of kernels and of rules.
    ``cost`` says from shapes what operations and their derivatives cost by a model; this is what takes place.

    Only what depends on the arguments is seen: pass a cotangent, or a tangent, as an argument too.

    Args:
        f: a function of arrays or nested structures of them.
        *args: its arguments.

    Returns:
        A ``Count``: ``work`` has ``moves``, ``adds``, ``mults``, ``nonlinear``; ``calls`` is the number of NumPy calls;
        ``uncounted`` has the names of calls that are not counted, compiled functions with no formula, and how often
        they ran.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> f = lambda x: np.sum(np.sin(x))
        >>> dt.inspect.performed(lambda x, g: dt.vjp(f, x)[1](g), np.ones(10), 1.0).work
        Work(moves=81, adds=9, mults=10, nonlinear=20)
    """
    given = sources("performed", args, range(len(args)))
    trace = Unemitted("performed", [""] * len(given.leaves), [described(x._node.value) for x in given.leaves], "")
    trace.follow(lambda leaves: f(*given.gather(leaves)), [x._node.value for x in given.leaves])
    root = gathered(trace.graph.root, [*trace.likes, *[described(x) for x in trace.outside]])
    return counted(root, trace.likes)


class Unemitted(Trace):
    """A trace whose program nobody runs."""

    def emit(self) -> None:
        """Nothing is emitted."""


def counted(root: Block, inputs: list[Like]) -> Count:
    """The work of all steps."""
    total, calls, unknown = Work(), 0, Counter[str]()
    likes: dict[Place, Like] = {Place(-1 - k): like for k, like in enumerate(inputs)}
    for block in blocks(root):
        for step in block.steps:
            results = (step.results,) if step.results.__class__ is Like else step.results
            likes.update({Place(step.number, k): like for k, like in enumerate(results)})
            if step.results.__class__ is Like:
                likes[Place(step.number)] = step.results
            calls += 1
            work = work_of(step, [size_of(a, likes) for a in leaves_of(step)], [prod(like.shape) for like in results])
            if work is None:
                unknown[name_of(step)] += 1
            else:
                total += work
    return Count(total, calls, dict(unknown))


def leaves_of(step: Step) -> list[Any]:
    """The arguments of a call, those in lists too."""
    found: list[Any] = []

    def note(a: Any) -> None:
        found.append(a)

    exchanged((step.args, step.kwargs), note)
    return found


def size_of(a: Any, likes: dict[Place, Like]) -> Any:
    """The shape of an array among arguments; None for what is no array."""
    if a.__class__ is Place:
        return likes[a].shape
    return a.shape if isinstance(a, np.ndarray) else None


def name_of(step: Step) -> str:
    """The name of a call."""
    return step.row.name if step.row is not None else getattr(step.function, "__name__", str(step.function))


# ------------------------------------------------------------------ the table
def names(text: str) -> list[Any]:
    """NumPy's functions by their names."""
    return [getattr(np, name) for name in text.split()]


ADD, MULTIPLY, NONLINEAR, TWICE = Work(adds=1), Work(mults=1), Work(nonlinear=1), Work(nonlinear=2)
# What one element of the result takes.
EACH: dict[Any, Work] = {
    **dict.fromkeys(
        names(
            "add subtract negative absolute fabs sign maximum minimum fmax fmin less less_equal greater greater_equal "
            "equal not_equal logical_and logical_or logical_not logical_xor bitwise_and bitwise_or invert isnan isinf "
            "isfinite floor ceil rint trunc copysign signbit nextafter where clip"
        ),
        ADD,
    ),
    **dict.fromkeys(names("multiply divide square reciprocal floor_divide remainder fmod deg2rad rad2deg"), MULTIPLY),
    **dict.fromkeys(names("sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh power"), NONLINEAR),
    **dict.fromkeys(names("arcsin arccos arctan arctan2 arcsinh arccosh arctanh sinc i0"), TWICE),
    np.hypot: Work(adds=1, mults=2, nonlinear=1),
    np.logaddexp: Work(adds=3, nonlinear=2),
    np.logaddexp2: Work(adds=3, nonlinear=2),
}
# Other views of what is there, and what is the same already.
FREE = set(
    names(
        "reshape transpose swapaxes moveaxis squeeze expand_dims broadcast_to atleast_1d atleast_2d ravel positive "
        "conjugate"
    )
)
MOVING = {
    *names(
        "concatenate stack flip roll repeat tile take pad copy take_along_axis diag diagonal tril triu split rot90 "
        "zeros_like ones_like full_like fliplr flipud column_stack hstack vstack"
    ),
    scattered,
}
MOVING_NAMES = {
    *[function.__name__ for function in MOVING], "concat", "getitem", "scatter", "spread", "setitem", "astype", "cast",
}  # fmt: skip


def work_of(step: Step, shapes: list[Any], results: list[int]) -> Work | None:
    """The work of one call; None if there is no formula for it."""
    arithmetic = arithmetic_of(step, shapes, sum(results))
    if arithmetic is None:
        return None
    views = name_of(step) == "spread" or (step.function is method and step.args[1] in ("reshape", "transpose", "ravel"))
    if step.function in FREE or step.function is getattr or views:
        return Work()
    read = sum([prod(s) for s in shapes if s is not None])
    if name_of(step) == "getitem":
        read = min(read, sum(results))  # what is read, and not where it is read from
    found: Work = arithmetic + Work(moves=read + sum(results))
    return found


def arithmetic_of(step: Step, shapes: list[Any], written: int) -> Any:
    """Additions, multiplications and nonlinear functions of one call."""
    function = step.function
    arrays = [s for s in shapes if s is not None]
    if function in EACH:
        return EACH[function] * written
    if function is scattered:
        return Work(adds=sum(map(prod, arrays[1:])))  # the first part is put, the others are added
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc) and owner in EACH:
        if function.__name__ == "reduce":
            return EACH[owner] * max(prod(arrays[0]) - written, 0)
        if function.__name__ == "accumulate":
            return EACH[owner] * along_lines(arrays[0], step.kwargs.get("axis", 0))
        return EACH[owner] * written if function.__name__ == "outer" else None
    if function in (np.cumsum, np.cumprod):
        each = MULTIPLY if function is np.cumprod else ADD
        return each * along_lines(arrays[0], step.kwargs.get("axis", 0))
    if function in (np.sum, np.mean, np.prod, np.max, np.min):
        each = MULTIPLY if function is np.prod else ADD
        more = Work(mults=written) if function is np.mean else Work()
        return each * max(prod(arrays[0]) - written, 0) + more
    if function in (np.matmul, np.dot, np.vecdot, np.inner):
        return contraction(arrays[0][-1] if arrays[0] else 1, written)
    if function is np.outer or (function in (np.tensordot, np.einsum) and len(arrays) == 2):
        return pairs(arrays, written)
    if function is getattr or function in FREE or function in MOVING or name_of(step) in MOVING_NAMES:
        return Work()
    if function is method:
        name = step.args[1]
        if name in ("sum", "mean", "max", "min"):
            return Work(adds=max(prod(arrays[0]) - written, 0), mults=written if name == "mean" else 0)
        return Work() if name in ("reshape", "astype", "copy", "ravel", "transpose", "view", "flatten") else None
    return None


def along_lines(shape: Any, axis: Any) -> int:
    """Elements of an array but the first of each line."""
    return prod(shape) - prod(shape) // max(shape[axis or 0], 1) if shape else 0


def contraction(k: int, written: int) -> Work:
    """Of a product of matrices: k multiplications and k - 1 additions for each element."""
    return Work(mults=k * written, adds=max(k - 1, 0) * written)


def pairs(arrays: list[Any], written: int) -> Work:
    """Of a sum of products over what two arrays share and the result has not."""
    multiplied = round((prod(arrays[0]) * prod(arrays[1]) * written) ** 0.5) if written else 0
    return Work(mults=multiplied, adds=max(multiplied - written, 0))

