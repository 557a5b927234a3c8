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
    shared, later = shared_in(root, uses), read_later(root)
    ahead: list[tuple[Block, list[tuple[Like, Place]]]] = [(root, [])]
    while ahead:
        block, free = ahead.pop()
        free = walk(block, uses, shared, later, free, found)
        if isinstance(block.end, Guard):
            ahead += [(after, list(free)) for after in reversed(block.end.branches.values())]
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


def read_later(root: Block) -> set[int]:
    """The steps that are read after the block that they stand in, or by its end."""
    found: set[int] = set()
    for block in blocks(root):
        own = {step.number for step in block.steps}
        for step in block.steps:
            found.update([p.step for p in places_in((step.args, step.kwargs)) if p.step not in own])
        if isinstance(block.end, Guard):
            found.add(block.end.of.step)
        elif block.end is not None:
            found.update([place.step for place in places_in((block.end.leaves, block.end.assigned))])
    return found


def walk(
    block: Block,
    uses: Any,
    shared: set[int],
    later: set[int],
    free: list[tuple[Like, Place]],
    found: dict[int, Place],
) -> list[tuple[Like, Place]]:
    """One block, with the memory that is free before it; the memory that is free after it."""
    steps = [step for step in block.steps if uses[step.number]]
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
    return free


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
