"""What a sweep of a tape starts with: the cotangents of its targets, given in their structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualtape.core import recorders
from dualtape.core.cotangents import seed
from dualtape.core.standin import Standin
from dualtape.core.sweep import Cotangents
from dualtape.core.tensor import Operand, Tensor, operand
from dualtape.modes.indexed_slices import IndexedSlices, followed
from dualtape.modes.structure import flatten, is_leaf, match_structure


def seeds(target: Any, leaves: list[Any], given: Any) -> Cotangents:
    """The cotangents a sweep starts with; ``leaves`` are those of ``target``."""
    cotangents = Cotangents()
    values = [None] * len(leaves) if given is None else seeds_like(target, given, len(leaves))
    for k, (leaf, value) in enumerate(zip(leaves, values, strict=True)):
        t = followed(leaf)
        if t.__class__ is not Tensor or t.dtype.kind not in "fc":
            continue
        node = t._node
        if isinstance(node.value, Standin):
            node.value.ensure_live()
        if value is None:
            c = np.ones(node.value.shape, node.value.dtype)[()]
        else:
            name = "output_gradients" if len(leaves) == 1 else f"output_gradients[{k}]"
            if isinstance(leaf, IndexedSlices):
                raise ValueError(
                    f"{name}: the target is IndexedSlices, of which a cotangent could mean the slices or the dense "
                    "array; make it a Tensor with convert_to_tensor, inside the tape that differentiates it"
                )
            c = operand(value) if isinstance(value, Operand) else np.array(value)[()]
            c = seed(node.value, c, name)
            if c.__class__ is Tensor and not recorders.live():
                c = c._node.value
        cotangents.add(node.id, c)
    cotangents.owned.clear()
    cotangents.seeded = given is not None
    return cotangents


def seeds_like(target: Any, given: Any, count: int) -> list[Any]:
    """The cotangents given for ``count`` targets: in their structure, keys of dicts matched by name, or a flat list."""
    sequence = isinstance(given, (list, tuple))
    # (Parts without leaves stand for no target.)
    parts = [g for g in given if g is None or is_leaf(g) or flatten(g)[0]] if sequence else [given]
    if count == 1:
        inside = isinstance(given, dict) or (sequence and len(parts) == 1)
        leaves = flatten(parts)[0] or [None] if inside else [given]
        if len(leaves) == 1:
            return leaves
    elif len(parts) == count and all([g is None or is_leaf(g) for g in parts]):
        return parts
    try:
        return match_structure(target, given, count)
    except ValueError as error:
        found = len(flatten(given)[0])
        raise ValueError(f"output_gradients has {found} entries for {count} targets: {error}") from None
