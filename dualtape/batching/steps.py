"""One step of a sweep that Batches take part in: by the rule as it stands, else for one example after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dualtape.batching.examples import one_by_one, stacked
from dualtape.batching.physical import top
from dualtape.core.reached import Reach
from dualtape.core.standin import Refused
from dualtape.core.sweep import Cotangents
from dualtape.core.tensor import among, tensor


def pull(level: Any, e: Any, g: Any, cotangents: Cotangents, raw: bool) -> None:
    """A step on the way back."""
    in_place = e[0].row.pull_batch
    if in_place is not None and in_place(e, g, cotangents, raw):
        return
    # What adds to one cotangent does so as the last thing; else a step that fails must leave nothing behind.
    single = len(e[0].inputs(e)) == 1
    part = cotangents if single else portion(cotangents)
    try:
        e[0].pull(e, g, part, raw)
    except Exception as error:
        cotangents.quiet = part.quiet
        if not raw and level.marker is None:
            raise Refused(f"{e[0].name}: recorders inside the batch follow this step") from error
        part = pull_each(level, e, g, cotangents, raw)
    if part is not cotangents:
        if part.masked:
            cotangents.select(raw)
        elif part.cut and not cotangents.cut:
            cotangents.leave_out(raw)
        cotangents.quiet = part.quiet
        for i, c in part.items():
            cotangents.add(i, c)


def portion(cotangents: Cotangents) -> Cotangents:
    """Cotangents of their own for a part of a sweep."""
    part = Cotangents()
    part.reach, part.at, part.quiet = cotangents.reach, cotangents.at, cotangents.quiet
    part.masked, part.cut = cotangents.masked, cotangents.cut
    return part


def pull_each(level: Any, e: Any, g: Any, cotangents: Cotangents, raw: bool) -> Cotangents:
    """What a step adds to the cotangents, from one example after the other."""
    part = portion(cotangents)
    reached = None if cotangents.reach is None else cotangents.reach.of(cotangents.at)

    def pull_one(entry: Any, c: Any, marks: Any) -> dict[int, Any]:
        one = portion(part)
        if reached is not None:
            one.reach = Reach.told(one.at, marks)
        outer = among((c, *entry))
        (entry[0] if outer is None else outer).pull(entry, c, one, raw)
        if one.masked:
            part.select(raw)
        part.quiet = one.quiet
        return dict(one)

    with level.outside():
        found = one_by_one(level, e[0].name, pull_one, (e, g, reached), {})
        for i in dict.fromkeys(i for one in found for i in one):
            c = stacked(level, [one.get(i) for one in found])
            part[i] = c if raw else tensor(c)
    return part


def push(level: Any, e: Any, tangents: Sequence[Any], raw: bool) -> Any:
    """A step on the way along."""
    try:
        return e[0].push(e, tangents, raw)
    except Exception:
        level = top(tangents)
        if level is None:
            raise
    with level.outside():
        found = stacked(level, one_by_one(level, e[0].name, lambda *one: e[0].push(*one, raw), (e, list(tangents)), {}))
    if raw:
        return found
    return tuple([tensor(t) for t in found]) if isinstance(found, tuple) else tensor(found)
