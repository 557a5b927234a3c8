"""checkpoint: a function that is computed again in the sweep, in place of keeping what it computed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.standin import Standin
from dualtape.core.tensor import Node, Tensor, wrap
from dualtape.ops.shaping import identity
from dualtape.transforms.arguments import carrying, ensure_callable, recorded, results
from dualtape.transforms.calls import REACHED, Body, Bound, Given, connect, loose, nodes_of, swept

__all__ = ["checkpoint", "recompute_grad"]


def checkpoint(f: Callable[..., Any]) -> Any:
    """A function that keeps its arguments alone for the reverse sweep, and is computed again there; a decorator.

    Args:
        f: a function of arrays or nested structures of them that gives the same result for the same arguments. What it
            takes from outside, Tensors and Variables, is differentiated as well. A NumPy random generator among the
            arguments is in the same state again when ``f`` is computed again. What ``f`` writes into its arguments
            stays inside: it gets handles and arrays of its own.

    Returns:
        A function with the arguments and the result (of Tensors) of ``f``, and the same derivatives in every mode.

    Raises:
        ValueError: (when differentiating) if ``f`` gives another result when it is computed again.

    Mathematics:
        A chain of n operations, checkpointed in pieces of sqrt(n), needs memory for 2 sqrt(n) of them and one more
        evaluation. T. Chen, B. Xu, C. Zhang and C. Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> x = dt.constant(np.ones(1000))
        >>> with dt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = dt.checkpoint(lambda x: np.exp(np.sin(np.exp(x))))(x)
        >>> tape.nbytes
        8000
    """
    ensure_callable("checkpoint", f)
    return Checkpoint(f)


recompute_grad = checkpoint  # TensorFlow's name


class Checkpoint(Bound):
    """A function made by ``checkpoint``."""

    def call(self, owner: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        f = self.f
        outer = recorders.live()
        given = Given((*args, kwargs), outer)
        before = {k: deepcopy(g) for k, g in enumerate(given.leaves) if isinstance(g, GENERATORS)} if outer else {}

        def run(values: Sequence[Any]) -> Any:
            *positional, keywords = given.filled(values)
            return results(f(*owner, *positional, **keywords))

        if not outer:
            outs, rebuild = run([])
            return rebuild(iter([wrap(n) for n in nodes_of(outs)]))
        own = given.apart()
        body = Body(outer, nodes_of(own))
        outs, rebuild = body.run(run, own)
        for y in outs:
            body.takes(y._node)
        foreign = list(body.foreign.values())
        variables = list(body.variables.values())
        carried = [k for k, y in enumerate(outs) if y.dtype.kind in "fc"]
        samples = [sample(y._node) for y in outs]

        def again(mine: Sequence[Tensor]) -> Any:
            """The results, computed again from operands that the function may write into."""
            for k, generator in before.items():
                given.leaves[k] = deepcopy(generator)
            with as_they_were(variables):
                found, _ = run([identity(x) for x in mine])
            ensure_same(self.name, samples, found)
            return [found[k] for k in carried]

        def back(primals: list[Tensor], gs: list[Any], raw: bool) -> Sequence[Any]:
            reached = REACHED.get()
            mine = given.own()
            wanted = [*mine, *map(wrap, foreign)]
            found, entries = recorded(again, (mine,), {}, wanted)
            return swept(entries, found, gs, wanted, reached)

        def forward(primals: list[Tensor], ts: list[Any], raw: bool) -> Sequence[Any]:
            mine = given.own()
            leaves = [*mine, *map(wrap, foreign)]
            return carrying(leaves, [loose(t) for t in ts], lambda: again(mine), lambda found: found)[1]

        return rebuild(iter(connect(self.name, [*given.operands, *foreign], outs, back, forward)))


@contextmanager
def as_they_were(variables: Sequence[Any]) -> Iterator[None]:
    """A block in which Variables have the values they were read with before; what it assigns is forgotten."""
    now = [v._node for v, _ in variables]
    for v, node in variables:
        v._node = node
    try:
        yield
    finally:
        for (v, _), node in zip(variables, now, strict=True):
            v._node = node


# ------------------------------------------------------------------ whether it was the same
GENERATORS = np.random.Generator, np.random.RandomState

# As many elements of a result are remembered: keeping all of them is what a checkpoint is there to avoid.
SAMPLE = 1024


def sample(node: Node) -> Any:
    """Whether a result is a batch, its shape, some of its elements, their sum and that of their sizes."""
    batch = isinstance(node.value, Standin)
    value = node.value.memory() if batch else node.value
    if not isinstance(value, (np.ndarray, np.generic)):
        return None
    flat = np.asarray(value).reshape(-1)
    some = flat[:: max(1, flat.size // SAMPLE)].copy()
    with np.errstate(all="ignore"):
        return batch, value.shape, some, np.sum(flat), np.sum(np.abs(flat))


def ensure_same(name: str, samples: Sequence[Any], found: Sequence[Tensor]) -> None:
    """Refuse a second run that found something else than the first one."""
    for first, y in zip(samples, found, strict=False):
        second = sample(y._node)
        if first is not None and second is not None and not alike(first, second):
            break
    else:
        if len(samples) == len(found):
            return
    raise ValueError(
        f"checkpoint: {name} gave another result when it was computed again for its derivative. If it draws random "
        "numbers, pass it a generator as an argument (numpy.random.default_rng(seed)), or seed one inside; what it "
        "takes from outside must not be written into before the derivative is taken"
    )


def alike(first: Any, second: Any) -> bool:
    """Whether two samples differ by no more than rounding."""
    batch, shape, some, total, size = first
    if shape != second[1]:
        return bool(batch or second[0])  # the second time, a batch may have gone one example after the other
    rough = np.finfo(some.dtype).eps ** 0.5 if some.dtype.kind in "fc" else 0.0
    with np.errstate(all="ignore"):
        scale = np.max(np.abs(some), initial=0.0, where=np.isfinite(some))
        return bool(
            np.allclose(some, second[2], rough, rough * scale, equal_nan=True)
            and np.isclose(total, second[3], rough, rough * size, equal_nan=True)
        )
