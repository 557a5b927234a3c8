"""TensorFlow's control flow in a trace: a loop that ends by itself, and a choice, each as one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dualtape.core.tensor import Tensor
from dualtape.modes.structure import flatten
from dualtape.tracing.emit import UNKNOWN
from dualtape.tracing.graph import Guard
from dualtape.tracing.keys import structure_of
from dualtape.tracing.loops import Loop, as_tensor, ensure_same, scanned
from dualtape.tracing.symbol import Tracer
from dualtape.tracing.trace import plain


class Repeated(Loop):
    """The kernel of a loop that ends by itself: its last state, the number of steps, and a power of two above it.

    Its body returns whether to go on, behind the next state; ``n`` is the most steps it may take, or -1.
    """

    __name__ = "repeated"

    def __call__(self, *values: Any) -> Any:
        width, trace = self.width, self.trace
        state, outside = list(values[:width]), values[trace.count :]
        steps, run = 0, trace.run
        while state[-1] and steps != self.n:
            out = run(*state, *outside)
            if out is UNKNOWN:
                state = self.traced(state, outside)
                run = trace.run
            else:
                state = trace.outcome(out)[1]
            steps += 1
        return (*state, np.int64(steps), np.int64(1 << (steps - 1).bit_length() if steps else 0))


def repeated(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, most: int | None, first: Any) -> Any:
    """``while goes_on(state): state = body(state)`` as one step of a trace, ``most`` times at most.

    ``first`` is what ``goes_on`` says of the state it starts with.

    Somebody who follows it makes of it a scan of so many steps, with room for a power of two of them: for each of these
    a trace has a way of its own.

    Raises:
        TypeError: if it is no such loop: a state of another form, Variables that are assigned, random numbers.
    """
    leaves, rebuild = flatten(init)
    state = [as_tensor(x) for x in leaves]

    def step(values: Sequence[Any]) -> tuple[list[Any], list[Any], Any, Any]:
        after = [as_tensor(a) for a in flatten(body(rebuild(iter(values[:-1]))))[0]]
        ensure_same(state, after)
        return [*after, one_truth(goes_on(rebuild(iter(after))))], [], None, None

    start = [*state, one_truth(first)]
    loop = Repeated(step, len(start), -1 if most is None else most, False, f=(goes_on, body))
    values = [plain(x._node.value) for x in start]
    with np.errstate() if values[-1] else np.errstate(all="ignore"):  # it may not run now
        loop.prepare(values)
    (*last, _, steps, room), _, followed, _ = loop.carried_out(start, [])
    if not followed:
        return rebuild(iter(last))
    capacity = int(room)
    return scanned(lambda s, _: (body(s), None), init, None, capacity, False, steps)[0] if capacity else init


class Chosen(Loop):
    """The kernel of a choice: a loop of one step, whose body goes one of several ways; all are traced beforehand."""

    ways = 0

    def prepare(self, first: list[Any]) -> None:
        super().prepare(first)
        found = self.results, self.likes
        for k in self.missing():
            with np.errstate(all="ignore"):  # it may not run now
                self.trace.follow(self.body, [np.int64(k)])
            if (self.results, self.likes) != found:
                raise TypeError("the branches return arrays of different shapes or dtypes")

    def missing(self) -> Iterator[int]:
        """Ways that are not traced. (A trace that meets a Tensor from outside forgets those it had.)"""
        for _ in range(2 * self.ways):
            asked = self.trace.graph.root.end
            yield from [k for k in range(self.ways) if isinstance(asked, Guard) and k not in asked.branches][:1]


def chosen(index: Tensor, branches: Sequence[Callable[[], Any]]) -> Any:
    """What the branch of this number returns, a choice as one step of a trace.

    Raises:
        TypeError: if it is no such choice: results of different forms, Variables that are assigned, random numbers.
    """
    forms: list[Any] = []

    def step(values: Sequence[Any]) -> tuple[list[Any], list[Any], Any, Any]:
        out = branches[int(values[0])]()
        ys, rebuild = flatten(out)
        forms.append(structure_of(out))
        if forms[-1] != forms[0]:
            raise TypeError("the branches return different structures")
        return [], [as_tensor(y) for y in ys], rebuild, out

    loop = Chosen(step, 0, 1, False, f=tuple(branches))
    loop.ways = len(branches)
    _, ys, rebuild = loop.of([], [index.astype(np.int64).reshape((1,))])
    return rebuild(iter([y[0] for y in ys]))


def one_truth(x: Any) -> Tensor:
    """What a condition returns, as one boolean."""
    return as_tensor(np.asarray(x) if isinstance(x, bool) else x).astype(np.bool_).reshape(())


Tracer.repeated, Tracer.chosen = staticmethod(repeated), staticmethod(chosen)
