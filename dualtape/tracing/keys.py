"""Which arguments are of one kind: same structure, shapes and dtypes, the same Python values, the same objects."""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from dualtape.core.tensor import Node, Tensor, operand
from dualtape.modes.structure import flatten, is_leaf
from dualtape.tracing.graph import Like, described

ARRAYS = (np.ndarray, np.generic, Tensor)


class Arguments:
    """The arguments of a call, taken apart: arrays are inputs of a program, all else is part of it."""

    __slots__ = ("every", "key", "leaves", "nodes", "rebuild", "slots", "values")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.every = args, kwargs
        self.leaves, self.rebuild = flatten(self.every)
        self.slots = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, (*ARRAYS, np.random.Generator))]
        self.nodes = [node_of(self.leaves[k]) for k in self.slots]
        self.values = [n.value for n in self.nodes]
        inside = set(self.slots)
        rest = [None if k in inside else static(leaf) for k, leaf in enumerate(self.leaves)]
        self.key = structure_of(self.every), tuple(self.likes()), tuple(rest)

    def likes(self) -> list[Like]:
        """Shapes and dtypes of the inputs; no dtype for a random generator."""
        return [Like((), None) if isinstance(v, np.random.Generator) else described(v) for v in self.values]

    def caller(self, f: Callable[..., Any]) -> Callable[[list[Any]], Any]:
        """``f`` as a function of the inputs."""
        leaves, slots, rebuild = list(self.leaves), self.slots, self.rebuild

        def call(given: list[Any]) -> Any:
            filled = list(leaves)
            for k, x in zip(slots, given, strict=True):
                filled[k] = x
            args, kwargs = rebuild(iter(filled))
            return f(*args, **kwargs)

        return call

    def names(self, signature: inspect.Signature) -> list[str]:
        """Names for the inputs: those of the parameters, with a number if there are several in one."""
        found: list[str] = []
        bound = signature.bind(*self.every[0], **self.every[1])
        for name, value in bound.arguments.items():
            inputs = [leaf for leaf in flatten(value)[0] if isinstance(leaf, (*ARRAYS, np.random.Generator))]
            found += [name] if len(inputs) == 1 else [f"{name}_{k}" for k in range(len(inputs))]
        return found


def node_of(leaf: Any) -> Node:
    """The node of an input."""
    if isinstance(leaf, np.random.Generator):
        return Node(leaf)
    x = operand(leaf)
    return x._node if x.__class__ is Tensor else Node(np.asarray(x)[()])


def structure_of(value: Any) -> Any:
    """What is the same for structures of the same form."""
    if value is None or is_leaf(value):
        return value is None
    if isinstance(value, dict):
        return dict, tuple([(k, structure_of(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(structure_of, value))
    return type(value), tuple([(n, structure_of(getattr(value, n))) for n in value.__dataclass_fields__])


def static(leaf: Any) -> Any:
    """What a program depends on of an argument that is no array: type and value (floats by their bits), or identity."""
    if leaf.__class__ is float:
        return float, struct.pack("d", leaf)
    if leaf.__class__ in (int, bool, str, bytes):
        return leaf.__class__, leaf
    if leaf.__class__ is complex:
        return complex, struct.pack("dd", leaf.real, leaf.imag)
    return type(leaf), id(leaf)


def difference(new: Any, old: Any) -> str:
    """Why arguments are not of the same kind as others."""
    if new[0] != old[0]:
        return "arguments of another structure"
    for a, b in zip(new[1], old[1], strict=False):
        if a.shape != b.shape:
            return f"an array of shape {a.shape} after one of {b.shape}"
        if a.dtype != b.dtype:
            return f"an array of dtype {a.dtype} after one of {b.dtype}"
    for a, b in zip(new[2], old[2], strict=False):
        if a != b and a is not None:
            kind = a[0].__name__
            if a[0] in (int, bool, str):
                return f"the {kind} {a[1]!r} after {b[1]!r}: pass numbers that vary as arrays"
            if a[0] is float:
                return f"the float {struct.unpack('d', a[1])[0]!r}: pass numbers that vary as arrays, np.float64(x)"
            return f"another object, a {kind}"
    return "other arguments"
