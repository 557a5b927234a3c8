"""Rows of products that sum: matmul, dot, inner, outer, tensordot, einsum.

Length: half of it is einsum, which is products, sums, diagonals and transposes in one, and views of some of them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dualtape.core.calls import fresh
from dualtape.core.cotangents import unbroadcast
from dualtape.core.families import bilinear, linear
from dualtape.core.lookup import register
from dualtape.core.tensor import Operand, Tensor, operand
from dualtape.facts import costs, patterns
from dualtape.memory.reserve import SMALLEST, room
from dualtape.ops.elementwise import multiply
from dualtape.ops.indexing import in_place, scatter, write
from dualtape.ops.instead import ensure_known
from dualtape.ops.views import give, kind_of, link_if_shared

if TYPE_CHECKING:
    from typing import Never

    from numpy.typing import ArrayLike

__all__ = ["dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot"]


def mT(x: Any) -> Any:
    """The matrix transpose, a view."""
    return x.T if x.ndim == 2 else np.swapaxes(x, -1, -2)


def product(x: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """``x @ y`` summed to ``shape``, as rules need it; ``shape`` is 1, or nothing, where an operand was broadcast.

    The sum is part of the product: first a product for each matrix and then their sum would make an array that may be
    far larger than all others.
    """
    if x.ndim == y.ndim == 2:
        if x.__class__ is y.__class__ is np.ndarray and x.dtype is y.dtype:
            if shape[0] * shape[1] * x.itemsize >= SMALLEST:
                return np.matmul(x, y, out=room(shape, x.dtype))
        return x @ y
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    wanted = (1,) * (len(batch) + 2 - len(shape)) + tuple(shape[:-2])
    summed = [k for k, (n, m) in enumerate(zip(batch, wanted, strict=True)) if n != m]
    if not summed:
        c = x @ y
    else:
        free = [k for k in range(len(batch)) if k not in summed]
        kept = tuple([batch[k] for k in free])
        i, j = len(batch), len(batch) + 1
        x = np.transpose(np.broadcast_to(x, (*batch, *x.shape[-2:])), (*free, i, *summed, j))
        y = np.transpose(np.broadcast_to(y, (*batch, *y.shape[-2:])), (*free, *summed, i, j))
        terms = prod(x.shape[len(free) + 1 :])
        c = np.reshape(x, (*kept, shape[-2], terms)) @ np.reshape(y, (*kept, terms, shape[-1]))
    return c if c.shape == shape else np.reshape(c, shape)


def matmul_by_x(g: Any, y: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of x in x @ y."""
    if y.ndim == 1:
        return g * y if len(shape) == 1 else unbroadcast(g[..., None] * y, shape)
    if len(shape) == 1:
        return unbroadcast((y @ g[..., None])[..., 0], shape)
    return product(g, mT(y), shape)


def matmul_by_y(g: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of y in x @ y."""
    if x.ndim == 1:
        return g * x if len(shape) == 1 else unbroadcast(x[:, None] * g[..., None, :], shape)
    if len(shape) == 1:
        if x.ndim == 2:
            return g @ x
        return unbroadcast((mT(x) @ g[..., None])[..., 0], shape)
    return product(mT(x), g, shape)


matmul_row = bilinear(
    operator.matmul,
    matmul_by_x,
    matmul_by_y,
    name="matmul",
    functions=[np.matmul, np.linalg.matmul],
    pattern=patterns.multiplied,
)


def matmul(x: ArrayLike, y: ArrayLike, /, **unknown: Never) -> Tensor:
    """The matrix product ``x @ y``; NumPy's ``matmul``, with stacks of matrices and vectors."""
    if unknown:
        ensure_known("matmul", unknown)
    return matmul_row(x, y)


matmul.row = matmul_row.row  # type: ignore[attr-defined]


def pairs_work(op: costs.Performed) -> costs.Work:
    """A product for each combination of the indices."""
    sizes: dict[str, int] = {}
    for letters, shape in zip(op.params["subscripts"].split("->")[0].split(","), op.shapes, strict=True):
        sizes.update(zip(letters, shape, strict=True))
    total = prod(sizes.values())
    return costs.Work(mults=total, adds=total - op.writes)


# ------------------------------------------------------------------ einsum
def _alone(x: Any, subscripts: str) -> Any:
    return np.einsum(subscripts, x)


def _alone_back(g: Any, shape: tuple[int, ...], subscripts: str) -> Any:
    """The adjoint of a diagonal, a sum and a transpose in one: multiply by deltas and ones."""
    source, target = subscripts.split("->")
    sizes = dict(zip(source, shape, strict=True))
    distinct = "".join(dict.fromkeys(source))
    missing = [c for c in distinct if c not in target]
    back = np.einsum(f"{target}->{''.join(c for c in distinct if c in target)}", g)
    for k, c in enumerate(distinct):
        if c in missing:
            back = np.expand_dims(back, k)
    back = np.broadcast_to(back, tuple(sizes[c] for c in distinct))
    if len(distinct) == len(source):
        return back
    # Repeated indices: the cotangent sits on the diagonal of zeros.
    return scatter(back, index=diagonal_index(source, distinct, shape), basic=False, to=shape)


def diagonal_index(source: str, target: str, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Where the elements lie in an array of indices ``source`` that indices ``target`` without repetitions name."""
    sizes = dict(zip(source, shape, strict=True))
    grids = np.ogrid[tuple(slice(sizes[c]) for c in target)]
    return tuple(grids[target.index(c)] for c in source)


einsum_1 = linear(
    _alone,
    _alone_back,
    name="einsum_1",
    internal=True,
    work=costs.summation,
    pattern=patterns.contracted,
)


def einsum_alone(x: Any, subscripts: str) -> Any:
    """The einsum of one operand: where nothing is summed, a view of it."""
    arg = {"subscripts": subscripts}
    y = einsum_1(x, **arg)
    source, target = subscripts.split("->")
    return y if set(source) - set(target) else link_if_shared(y, x, EINSUM, arg)


def put_einsum(owner: Tensor, arg: Any, view: Tensor) -> None:
    """Pass a write into a diagonal or a transpose on to its owner."""
    source, target = arg["subscripts"].split("->")
    if len(source) == len(target):
        give(owner, einsum_1(view, subscripts=f"{target}->{source}"), by=view)
    else:
        write(owner, diagonal_index(source, target, owner.shape), view, view._node.value, view)


EINSUM = kind_of(einsum_1, put_einsum)


def contract(subscripts: str, x: Any, y: Any) -> Any:
    """A contraction of two operands, as products of matrices where that pays for finding them."""
    sources, _, target = subscripts.partition("->")
    sizes = dict(zip(sources.replace(",", ""), (*x.shape, *y.shape), strict=True))
    large = len(sizes) > len(target) and prod(sizes.values()) > 2**14
    return np.einsum(subscripts, x, y, optimize=large)


def _pair_back(g: Any, other: Any, shape: tuple[int, ...], subscripts: str, first: bool) -> Any:
    """The cotangent of one operand: contract the result with the other; indices that were only summed spread out."""
    sources, target = subscripts.split("->")
    x, y = sources.split(",")
    mine, theirs = (x, y) if first else (y, x)
    there = [c for c in mine if c in theirs or c in target]
    back = contract(f"{target},{theirs}->{''.join(there)}", g, other)
    if len(there) == len(mine):
        return back
    back = np.reshape(back, tuple(n if c in there else 1 for c, n in zip(mine, shape, strict=True)))
    return np.broadcast_to(back, shape)


einsum_2 = bilinear(
    lambda x, y, subscripts: contract(subscripts, x, y),
    lambda g, y, shape, subscripts: _pair_back(g, y, shape, subscripts, True),
    lambda g, x, shape, subscripts: _pair_back(g, x, shape, subscripts, False),
    name="einsum_2",
    work=costs.bilinear(pairs_work),
    pattern=patterns.contracted,
)


def parse(subscripts: str, operands: list[Any]) -> tuple[list[str], str]:
    """The index letters of each operand and of the result, with ellipses spelled out."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {subscripts!r} has {len(terms)} terms for {len(operands)} operands")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in text]
    longest = 0
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            longest = max(longest, np.ndim(x) - len(term) + 3)
    dots = "".join(free[:longest])
    spelled = []
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            n = np.ndim(x) - len(term) + 3
            term = term.replace("...", dots[longest - n :] if n else "")
        if len(term) != np.ndim(x):
            raise ValueError(
                f"einsum: the term {term!r} of {subscripts!r} does not fit an operand of {np.ndim(x)} axes"
            )
        spelled.append(term)
    if arrow:
        return spelled, right.replace("...", dots)
    letters = "".join(spelled)
    once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return spelled, dots + "".join(once)


def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: Any,
    out: None = None,
    optimize: bool | str | Sequence[Any] = False,
    **kwargs: Any,
) -> Tensor:
    """Products of arrays, summed over the indices that the result does not name; NumPy's ``einsum``.

    Args:
        subscripts: such as ``"ij,jk->ik"``, or NumPy's alternating form of operands and index lists.
        *operands: arrays.
        out: not supported (a Tensor never changes).
        optimize: accepted; three and more operands are always contracted in pairs, in NumPy's greedy order.
        **kwargs: NumPy's other keywords, which must be at their defaults.

    Returns:
        A Tensor.
    """
    if out is not None:
        raise TypeError("einsum: out= is not supported, since a Tensor never changes; use the returned Tensor")
    if not isinstance(subscripts, str):
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        listed = [subscripts, *operands]

        def spell(ks: Any) -> str:
            return "".join("..." if k is Ellipsis else letters[k] for k in ks)

        spelled = ",".join(spell(ks) for ks in listed[1::2])
        right = f"->{spell(listed[-1])}" if len(listed) % 2 else ""
        return einsum(spelled + right, *listed[: 2 * len(listed[1::2]) : 2])
    items = [as_array(operand(a)) for a in operands]
    terms, target = parse(subscripts, items)
    sizes: dict[str, int] = {}
    for k, (term, x) in enumerate(zip(terms, items, strict=True)):
        # Take diagonals first, and stretch axes of length 1 by leaving them out: what follows sees plain contractions.
        for c, n in zip(term, np.shape(x), strict=True):
            if sizes.setdefault(c, n) not in (n, 1) and n != 1:
                raise ValueError(f"einsum: index {c!r} of {subscripts!r} has lengths {sizes[c]} and {n}")
            sizes[c] = max(sizes[c], n)
        distinct = "".join(dict.fromkeys(term))
        if distinct != term:
            items[k], terms[k] = einsum_alone(as_array(x), f"{term}->{distinct}"), distinct
    for k, (term, x) in enumerate(zip(terms, items, strict=True)):
        full = tuple(sizes[c] for c in term)
        if np.shape(x) != full:
            items[k] = np.broadcast_to(x, full)
    while len(items) > 2:
        path = np.einsum_path(
            ",".join(terms) + "->" + target, *(np.empty(np.shape(x)) for x in items), optimize="greedy"
        )[0]
        i, j = sorted(path[1])[:2] if len(path[1]) > 1 else (0, 1)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        needed = set(target).union(*rest)
        keep = "".join(dict.fromkeys(c for c in terms[i] + terms[j] if c in needed))
        pair = einsum_2(items[i], items[j], subscripts=f"{terms[i]},{terms[j]}->{keep}")
        items = [x for k, x in enumerate(items) if k not in (i, j)] + [pair]
        terms = [*rest, keep]
    if len(items) == 2:
        return einsum_2(items[0], items[1], subscripts=f"{terms[0]},{terms[1]}->{target}")
    result = einsum_alone(as_array(items[0]), f"{terms[0]}->{target}")
    return result if isinstance(result, Tensor) else operand_tensor(result)


def as_array(x: Any) -> Any:
    """A Tensor as it is, anything else as an array."""
    return x if isinstance(x, Operand) else np.asarray(x)


def operand_tensor(x: Any) -> Any:
    """A Tensor made of a plain result."""
    return fresh(x)


# ------------------------------------------------------------------ the rest are contractions
def tensordot(x: ArrayLike, y: ArrayLike, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2) -> Tensor:
    """The sum of products over axes of both arrays; NumPy's ``tensordot``.

    Args:
        x: an array.
        y: an array.
        axes: how many last axes of x and first of y, or a pair of axis lists.

    Returns:
        A Tensor.
    """
    x, y = operand(x), operand(y)
    n, m = np.ndim(x), np.ndim(y)
    if isinstance(axes, (int, np.integer)):
        ax, ay = list(range(n - int(axes), n)), list(range(int(axes)))
    else:
        ax, ay = ([int(a)] if isinstance(a, (int, np.integer)) else [int(k) for k in a] for a in axes)
    ax, ay = [a % n for a in ax], [a % m for a in ay]
    sx, sy = np.shape(x), np.shape(y)
    if [sx[a] for a in ax] != [sy[a] for a in ay]:
        raise ValueError(f"tensordot: axes {axes} of shapes {sx} and {sy} differ in length")
    fx = [k for k in range(n) if k not in ax]
    fy = [k for k in range(m) if k not in ay]
    inner_size = prod(sx[a] for a in ax)
    left = np.reshape(np.transpose(x, (*fx, *ax)), (prod(sx[k] for k in fx), inner_size))
    right = np.reshape(np.transpose(y, (*ay, *fy)), (inner_size, prod(sy[k] for k in fy)))
    return np.reshape(matmul_row(left, right), (*(sx[k] for k in fx), *(sy[k] for k in fy)))  # type: ignore[return-value]


def dot(x: ArrayLike, y: ArrayLike, out: None = None) -> Tensor:
    """The dot product over the last axis of x and the last but one of y; NumPy's ``dot``.

    Args:
        x: an array.
        y: an array.
        out: not supported (a Tensor never changes).

    Returns:
        A Tensor.
    """
    if out is not None:
        raise TypeError("dot: out= is not supported, since a Tensor never changes; use the returned Tensor")
    x, y = as_array(operand(x)), as_array(operand(y))  # here a Python number decides the dtype, as in NumPy
    n, m = np.ndim(x), np.ndim(y)
    if n == 0 or m == 0:
        return multiply(x, y)
    if m <= 2:
        return matmul_row(x, y)
    return tensordot(x, y, ([n - 1], [m - 2]))


def inner(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The sum of products over the last axis of both; NumPy's ``inner``."""
    x, y = operand(x), operand(y)
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        return dot(x, y)
    return tensordot(x, y, ([-1], [-1]))


def vdot(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The dot product of the flat arrays, the first conjugated; NumPy's ``vdot``."""
    return matmul_row(np.reshape(np.conjugate(operand(x)), (-1,)), np.reshape(operand(y), (-1,)))


def vecdot(x: ArrayLike, y: ArrayLike, /, axis: int = -1) -> Tensor:
    """The sum of products along one axis, the first factor conjugated; NumPy's ``vecdot``."""
    return np.sum(multiply(np.conjugate(operand(x)), y), axis=axis)


def outer(x: ArrayLike, y: ArrayLike, out: None = None) -> Tensor:
    """All products of elements of the flat arrays; NumPy's ``outer``."""
    if out is not None:
        raise TypeError("outer: out= is not supported, since a Tensor never changes; use the returned Tensor")
    if not has_operand(x, y):
        return operand_tensor(np.outer(x, y))  # type: ignore[arg-type]
    return np.reshape(operand(x), (-1, 1)) * np.reshape(operand(y), (1, -1))  # type: ignore[return-value]


def has_operand(*xs: Any) -> bool:
    """Whether any argument is, or holds, a Tensor."""
    return any(isinstance(operand(x), Tensor) for x in xs)


def kron(x: ArrayLike, y: ArrayLike) -> Tensor:
    """The Kronecker product; NumPy's ``kron``."""
    x, y = as_array(operand(x)), as_array(operand(y))
    n = max(np.ndim(x), np.ndim(y))
    sx = (1,) * (n - np.ndim(x)) + np.shape(x)
    sy = (1,) * (n - np.ndim(y)) + np.shape(y)
    a = np.reshape(x, tuple(m for s in sx for m in (s, 1)))
    b = np.reshape(y, tuple(m for s in sy for m in (1, s)))
    return np.reshape(multiply(a, b), tuple(p * q for p, q in zip(sx, sy, strict=True)))  # type: ignore[return-value]


register(einsum, np.einsum, "einsum")
register(tensordot, np.tensordot, np.linalg.tensordot, "tensordot")
register(dot, np.dot, "dot")
register(inner, np.inner, "inner")
register(vdot, np.vdot, "vdot")
register(vecdot, np.vecdot, np.linalg.vecdot, "vecdot")
register(outer, np.outer, np.linalg.outer, "outer")
register(kron, np.kron, "kron")
register(matmul_row, "matmul")

for _cls in (Tensor, Operand):
    _cls.__matmul__ = matmul_row  # type: ignore[method-assign]
    _cls.__rmatmul__ = lambda y, x: matmul_row(x, y)  # type: ignore[method-assign]
Tensor.__imatmul__ = in_place(matmul_row)  # type: ignore[attr-defined]
