"""The rules of products and of linear algebra for Batches: matrices are in the last axes, leading axes are free."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from dualtape.batching.batch import Batch
from dualtape.batching.calls import Rule, enter
from dualtape.batching.elementwise import ufunc_call
from dualtape.batching.level import Level
from dualtape.batching.physical import aligned, is_batched, physical, rank, shifted
from dualtape.core.standin import Refused
from dualtape.memory.reserve import SMALLEST, room


def leading(function: Any) -> Rule:
    def rule(level: Level, x: Any, *rest: Any, **kw: Any) -> Any:
        if x.ndim < 2 or any(isinstance(a, Batch) for a in (*rest, *kw.values())):
            raise Refused("no rule for a batch of these")
        found = function(x.physical, *rest, **kw)
        return tuple([Batch(level, y) for y in found]) if isinstance(found, tuple) else Batch(level, found)

    return rule


for _f in (
    *(np.tril, np.triu, np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cholesky, np.linalg.eigh),
    *(np.linalg.eig, np.linalg.svd, np.linalg.qr, np.linalg.pinv, np.linalg.eigvalsh, np.linalg.eigvals),
    *(np.linalg.matrix_power, np.linalg.matrix_rank),
):
    enter(_f)(leading(_f))


def planes(function: Any) -> Rule:
    """A function of the plane of two axes."""

    def rule(level: Level, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return Batch(level, function(x.physical, offset, *shifted((axis1, axis2), x.ndim)))

    return rule


enter(np.trace)(planes(np.trace))
enter(np.diagonal)(planes(np.diagonal))


@enter(np.linalg.solve, many=True)
def solve(level: Level, a: Any, b: Any) -> Any:
    vector = rank(b) == 1
    p, q = aligned(level, (a, b[..., None] if vector else b))
    y = np.linalg.solve(p, q)
    return Batch(level, y[..., 0] if vector else y)


@enter(np.cross, many=True)
def cross(level: Level, x: Any, y: Any, **kw: Any) -> Any:
    if kw:
        raise Refused("cross: no rule for other axes")
    return Batch(level, np.cross(*aligned(level, (x, y))))


def times(p: Any, q: Any) -> Any:
    """A product of matrices; where they are large, in memory that was used before."""
    if p.__class__ is q.__class__ is np.ndarray and p.dtype is q.dtype and p.ndim == q.ndim == 2:
        if p.shape[0] * q.shape[1] * p.itemsize >= SMALLEST:
            return np.matmul(p, q, out=room((p.shape[0], q.shape[1]), p.dtype))
    return p @ q


@enter(np.matmul, operator.matmul, many=True)
def matmul(level: Level, x: Any, y: Any, **kw: Any) -> Any:
    n, m = rank(x), rank(y)
    if not n or not m or kw:
        raise Refused("matmul: operands need an axis")
    one, other = is_batched(level, x), is_batched(level, y)
    p, q = physical(level, x), physical(level, y)
    if one and not other and m <= 2:
        if n == 1 or m == 1:
            return Batch(level, times(p, q))
        # One product of a tall matrix, and not one for each example.
        size = p.shape[:-1]
        return Batch(level, times(p.reshape((prod(size), p.shape[-1])), q).reshape((*size, q.shape[-1])))
    if other and not one and m == 1 and n <= 2:
        return Batch(level, times(q, p if n == 1 else p.T))
    p = p[..., None, :] if n == 1 else p
    q = q[..., :, None] if m == 1 else q
    left, right = aligned(level, (Batch(level, p) if one else p, Batch(level, q) if other else q))
    out = left @ right
    out = out[..., 0, :] if n == 1 else out
    return Batch(level, out[..., 0] if m == 1 else out)


@enter(np.einsum, many=True)
def einsum(level: Level, subscripts: Any, *xs: Any, **kw: Any) -> Any:
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        raise Refused("einsum: only with all indices spelled out")
    sources, target = subscripts.replace(" ", "").split("->")
    free = next(c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in subscripts)
    terms = [free + t if is_batched(level, x) else t for t, x in zip(sources.split(","), xs, strict=True)]
    arrays = [physical(level, x) for x in xs]
    return Batch(level, np.einsum(f"{','.join(terms)}->{free}{target}", *arrays, **kw))


@enter(np.vdot, many=True)
def vdot(level: Level, x: Any, y: Any) -> Any:
    p, q = aligned(level, (np.reshape(x, (-1,)), np.reshape(y, (-1,))))
    return Batch(level, np.add.reduce(p.conjugate() * q, axis=-1))


@enter(np.dot, many=True)
def dot(level: Level, x: Any, y: Any, out: Any = None) -> Any:
    if not rank(x) or not rank(y):
        return ufunc_call(level, np.multiply, x, y)
    if rank(y) > 2:
        raise Refused("dot: no rule for more than two axes")
    return matmul(level, x, y)
