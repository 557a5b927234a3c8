"""Large results of elementwise steps are written into memory of values that nobody reads any more."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dualtape.tracing.graph import Block, Guard, Like, Place, Step, blocks, places_in

# Elements from which on new memory costs more than a keyword.
LARGE = 2**14


def reused(root: Block, uses: Any) -> dict[int, Place]:
    """For steps by their number, the value whose memory the result is written into."""
    found: dict[int, Place] = {}
    shared = shared_in(root, uses)
    walk(root, uses, shared, [], found)
    return found


def shared_in(root: Block, uses: Any) -> set[int]:
    """The steps whose memory others may look at: views, and all that is given out or goes where it cannot be seen."""
    shared: set[int] = set()
    for block in blocks(root):
        for step in block.steps:
            if uses[step.number] and (not isinstance(step.function, np.ufunc) or not step.fresh):
                if not step.fresh:
                    shared.add(step.number)
                    shared.update([place.step for place in places_in((step.args, step.kwargs))])
        if block.end is not None and not isinstance(block.end, Guard):
            shared.update([place.step for place in places_in((block.end.leaves, block.end.assigned))])
    return shared


def needed(end: Any) -> set[int]:
    """The steps that what comes after a block reads."""
    if end is None:
        return set()
    if not isinstance(end, Guard):
        return {place.step for place in places_in((end.leaves, end.assigned))}
    found = {end.of.step}
    for after in end.branches.values():
        found |= needed(after.end)
        found.update([place.step for step in after.steps for place in places_in((step.args, step.kwargs))])
    return found


def walk(block: Block, uses: Any, shared: set[int], free: list[tuple[Like, Place]], found: dict[int, Place]) -> None:
    """One block, with the memory that is free before it."""
    steps = [step for step in block.steps if uses[step.number]]
    later = needed(block.end)
    last: dict[int, int] = {}
    for k, step in enumerate(steps):
        for place in places_in((step.args, step.kwargs)):
            last[place.step] = k
    made: dict[int, Step] = {}
    for k, step in enumerate(steps):
        made[step.number] = step
        dying = [
            p for p in dict.fromkeys(places_in((step.args, step.kwargs)))
            if p.step in made and last[p.step] == k and p.step not in later and p.step not in shared and p.item is None
            and is_large(made[p.step])
        ]  # fmt: skip
        ours = [(made[p.step].results, p) for p in dying]
        if is_large(step) and step.number not in shared:
            pool = ours + free
            into = next((p for like, p in pool if like == step.results), None)
            if into is not None:
                found[step.number] = into
                ours = [item for item in ours if item[1] != into]
                free = [item for item in free if item[1] != into]
        free = free + ours
    if isinstance(block.end, Guard):
        for after in block.end.branches.values():
            walk(after, uses, shared, list(free), found)


def is_large(step: Step) -> bool:
    """Whether a step is elementwise, and its result a large array in memory of its own."""
    like = step.results
    return (
        isinstance(step.function, np.ufunc)
        and step.function.signature is None
        and like.__class__ is Like
        and step.fresh
        and prod(like.shape) >= LARGE
        and not step.kwargs
    )
