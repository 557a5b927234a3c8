"""Nested structures: taking lists, tuples, dicts, named tuples and dataclasses apart and putting them together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dualtape.core.tensor import has_tensor

Rebuild = Callable[[Iterator[Any]], Any]


def is_leaf(value: Any) -> bool:
    """Whether ``value`` is not a structure (None counts as a structure without leaves)."""
    return not (
        value is None
        or isinstance(value, (list, tuple, dict))
        or (hasattr(value, "__dataclass_fields__") and not isinstance(value, type))
    )


def is_object_array(leaf: Any) -> bool:
    """Whether a leaf is an array of Tensors, which is what ``np.array([t, u])`` makes of them."""
    return isinstance(leaf, np.ndarray) and has_tensor(leaf)


def items_of(array: Any) -> tuple[list[Any], tuple[int, ...]]:
    """The items of an object array, and the shape of the array that they make together."""
    items = list(array.flat)
    return items, (*array.shape, *np.shape(items[0]))


def flatten(structure: Any) -> tuple[list[Any], Rebuild]:
    """The leaves of a nested structure, and the function that builds one like it from new leaves.

    Args:
        structure: nested lists, tuples, dicts (in the order of their keys' insertion), named tuples and
            dataclass instances; everything else is a leaf; None has no leaves.

    Returns:
        The leaves in order, and ``rebuild``, which takes an iterator of as many new leaves.

    Example:
        >>> leaves, rebuild = flatten({"a": (1, 2), "b": 3})
        >>> rebuild(iter([10 * leaf for leaf in leaves]))
        {'a': (10, 20), 'b': 30}
    """
    leaves: list[Any] = []
    return leaves, _walk(structure, leaves)


def _walk(value: Any, leaves: list[Any]) -> Rebuild:
    if value is None:
        return _nothing
    if isinstance(value, dict):
        keys = list(value)
        parts = [_walk(value[k], leaves) for k in keys]
        kind = type(value) if type(value) in (dict, OrderedDict) else dict
        return lambda it: kind((k, part(it)) for k, part in zip(keys, parts, strict=True))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [_walk(v, leaves) for v in value]
        named = type(value)
        return lambda it: named(*[part(it) for part in parts])
    if isinstance(value, (list, tuple)):
        parts = [_walk(v, leaves) for v in value]
        sequence = list if isinstance(value, list) else tuple
        return lambda it: sequence([part(it) for part in parts])
    if not is_leaf(value):
        import dataclasses  # only where it is needed: its import takes time

        names = [f.name for f in dataclasses.fields(value)]
        parts = [_walk(getattr(value, n), leaves) for n in names]
        # replace() runs the class's own __init__, as for any new value of it
        return lambda it: dataclasses.replace(value, **{n: p(it) for n, p in zip(names, parts, strict=True)})
    leaves.append(value)
    return next


def _nothing(leaves: Iterator[Any]) -> None:
    return None


def map_structure(function: Callable[[Any], Any], structure: Any) -> Any:
    """The structure with ``function`` applied to each leaf."""
    leaves, rebuild = flatten(structure)
    return rebuild(iter([function(leaf) for leaf in leaves]))


# What is said of two that differ, and where it is their number.
DIFFERENT = "don't have the same nested structure"
UNEQUAL = f"{DIFFERENT}, since they don't have the same number of elements"


def ensure_alike(what: str, like: Any, given: Any) -> None:
    """Refuse two structures that are not built alike; lists and tuples may stand for each other."""
    if is_leaf(like) and is_leaf(given):
        return
    if isinstance(like, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(like) != len(given):
            raise ValueError(f"{what} {UNEQUAL}: {len(like)} and {len(given)}")
        for a, b in zip(like, given, strict=True):
            ensure_alike(what, a, b)
    elif is_leaf(like) or is_leaf(given) or len(flatten(like)[0]) != len(flatten(given)[0]):
        raise ValueError(f"{what} {DIFFERENT}: {type(like).__name__} and {type(given).__name__}")


def changed(function: Callable[[Any], Any], structure: Any) -> Any:
    """``map_structure``, which leaves a structure alone of which no leaf changes."""
    leaves, rebuild = flatten(structure)
    found = [function(leaf) for leaf in leaves]
    return structure if all([a is b for a, b in zip(leaves, found, strict=True)]) else rebuild(iter(found))


def match_structure(like: Any, given: Any, count: int) -> list[Any]:
    """The leaves of ``given``, one for each of the ``count`` leaves of ``like``.

    Raises:
        ValueError: if the two are not built alike.
    """
    if count == 1 and is_leaf(like):
        return [given]
    if isinstance(like, (list, tuple)) and isinstance(given, (list, tuple)):
        if len(like) != len(given):
            raise ValueError(f"the two structures {UNEQUAL}: {len(given)} entries where there are {len(like)} values")
        return [t for p, s in zip(like, given, strict=True) for t in match_structure(p, s, len(flatten(p)[0]))]
    if isinstance(like, dict) and isinstance(given, dict):
        if like.keys() != given.keys():
            keys = f"keys {sorted(map(str, given))} where the values have {sorted(map(str, like))}"
            raise ValueError(f"the two structures {DIFFERENT}: {keys}")
        return [t for k in like for t in match_structure(like[k], given[k], len(flatten(like[k])[0]))]
    if hasattr(like, "__dataclass_fields__") and type(given) is type(like):
        parts = [(getattr(like, n), getattr(given, n)) for n in like.__dataclass_fields__]
        return [t for p, s in parts for t in match_structure(p, s, len(flatten(p)[0]))]
    leaves, _ = flatten(given)
    if len(leaves) != count:
        raise ValueError(
            f"the two structures {UNEQUAL}: {len(leaves)} entries where there are {count} values, one each"
        )
    return leaves
