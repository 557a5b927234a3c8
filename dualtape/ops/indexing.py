"""Rows that read and write parts of arrays: indexing, scattering, item assignment, gathering along an axis.

Reading x[i] in a loop stays linear because the cotangents of all reads go into one buffer that the sweep owns;
writing x[i] = v stays linear because an array that nobody else holds is written in place.

Length: reading and writing are each other's reverse rules, and share one reading of what an index means.
"""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from dualtape.batching import indices as batches
from dualtape.batching.batch import Batch
from dualtape.batching.physical import is_batched, physical, repeated, top
from dualtape.core.absent import Following, any_tensor, holds, lifted, noded, still, unfolded, unfollowed
from dualtape.core.calls import record
from dualtape.core.cotangents import cast_back, unbroadcast
from dualtape.core.edges import Together
from dualtape.core.families import linear
from dualtape.core.lookup import register
from dualtape.core.recorders import STACK
from dualtape.core.standin import OPEN, Standin
from dualtape.core.table import Edge, Row, publish
from dualtape.core.tangents import TangentRecorder
from dualtape.core.tensor import Node, Operand, Tensor, among, new, new_id, operand, raw, tensor, wrap
from dualtape.facts import costs, patterns
from dualtape.ops import elementwise as elementary
from dualtape.ops import nondifferentiable as absent
from dualtape.ops.shaping import arranged
from dualtape.ops.shaping import as_tensor as as_tensor
from dualtape.ops.views import Kind, base_of, forget_dead, give, root, views_slot

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["take", "take_along_axis"]

stack_now = STACK.get
ndarray = np.ndarray
BASIC = (int, slice, type(Ellipsis), type(None), np.int64)


def normal_index(index: Any) -> tuple[Any, bool]:
    """An index without Tensors, and whether it is basic (it selects each element at most once, as a view)."""
    if index.__class__ in BASIC:
        return index, True
    if index.__class__ is tuple:
        if all([i.__class__ in BASIC for i in index]):
            return index, True
        parts = [normal_index(i) for i in index]
        return tuple([i for i, _ in parts]), all([basic for _, basic in parts])
    if isinstance(index, (np.integer, slice)):
        return index, True
    value = index._value() if isinstance(index, Operand) else index.value if index.__class__ is Node else index
    if isinstance(value, Standin):  # of a batch: an index for each example
        if value.dtype.kind not in "iub":
            raise IndexError(f"an index is an integer, a slice or an array of integers or booleans, not {value!r}")
        return value, False
    if isinstance(value, (list, np.ndarray)):
        # A copy: the caller may change the array before the sweep.
        value = np.array(value)
        if value.size == 0 and value.dtype.kind == "f" and not isinstance(index, np.ndarray):
            value = value.astype(np.intp)
    if np.ndim(value) == 0 and not isinstance(value, (bool, np.bool_)) and np.asarray(value).dtype.kind in "iu":
        return int(value), True
    if np.asarray(value).dtype.kind not in "iub":
        raise IndexError(f"an index is an integer, a slice or an array of integers or booleans, not {value!r}")
    return value, False


def told_index(index: Any, key: Any) -> Any:
    """An index as recorders of facts are told it: nodes in the place of Tensors. (``key`` is the normal one.)"""
    if index.__class__ is tuple and key.__class__ is tuple:
        return tuple([told_index(i, k) for i, k in zip(index, key, strict=True)])
    if isinstance(index, Operand):
        return index._read()._node if index.dtype.kind in "iub" else key
    return index if index.__class__ is Node else key


def asked(index: Any, key: Any) -> Any:
    """The normal index ``key`` of what Python goes on with, telling recorders that it did."""
    for i in index if index.__class__ is tuple else (index,):
        if isinstance(i, Operand):
            i.numpy()
    return key


class Getitem(Edge):
    """The x of x[index]. Its cotangents are added into one buffer per array, so that a loop over elements is linear.

    It keeps the index and whether it is basic.
    """

    __slots__ = ()

    moves = True

    def along(self, t: Any, like: Any, kept: Any, raw: bool) -> Any:
        if OPEN[0] and t.__class__ is ndarray:  # a stand-in may be in the index
            return self.row.kernel(t, index=kept[0], basic=kept[1])
        return t[kept[0]]

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, i, (shape, dtype), (index, basic) = entry
        if not (cotangents.cut if basic else cotangents.masked):
            cotangents.leave_out(raw) if basic else cotangents.select(raw)
        before = cotangents.get(i)
        if (
            g.__class__ is Tensor
            or before.__class__ is Tensor
            or isinstance(g, Standin)
            or isinstance(before, Standin)
            or (not basic and OPEN[0] and among((index,)) is not None)
        ):
            if basic and not g.shape and before.__class__ is Tensor and i in cotangents.owned:
                # One element: added where it belongs, so that a loop over elements is linear at every order.
                total = before[index] + g
                write(before, index, total, total._node.value, None)
                return
            c = scatter(g, index=index, basic=basic, to=shape)
            if before is None:
                cotangents.owned.add(i)
            cotangents.add(i, cast_back(c, dtype))
            return
        if g.dtype is not dtype:
            g = cast_back(g, dtype)
        if before is None and basic:
            cotangents[i] = buffer = np.zeros(shape, dtype)
            cotangents.owned.add(i)
            buffer[index] = g
            return
        buffer = before if i in cotangents.owned else cotangents.buffer(i, shape, dtype)
        if buffer.__class__ is not ndarray:  # 0-d arrays become scalars under arithmetic
            cotangents[i] = buffer = np.asarray(buffer)
        if not basic:
            np.add.at(buffer, index, g)
        else:
            part = buffer[index]
            if part.__class__ is ndarray:
                part += g
            else:
                buffer[index] = part + g


def pull_read(entry: Any, g: Any, cotangents: Any, raw: bool) -> bool:
    """The way back to x for a batch: into a buffer of all examples, if nobody records."""
    _, i, (shape, dtype), (index, basic) = entry
    before = cotangents.get(i)
    level = top([g, index, before])
    if not raw or level is None or level.marker is not None:
        return False
    if is_batched(level, before) and before.physical.__class__ is ndarray and i in cotangents.owned:
        buffer = before.physical
    else:
        buffer = np.zeros((level.size, *shape), dtype)
        if before is not None:
            before = repeated(level, before)
            if before.__class__ is not ndarray:
                return False
            buffer = buffer + before
    g = cast_back(repeated(level, g), dtype)
    if g.__class__ is not ndarray:
        return False
    cotangents.leave_out(raw) if basic else cotangents.select(raw)
    key, part = batches.placed(level, g, index, len(shape))
    if basic:
        buffer[key] += part
    else:
        np.add.at(buffer, key, part)
    cotangents[i] = Batch(level, buffer)
    cotangents.owned.add(i)
    return True


def _scatter(g: Any, index: Any, basic: bool, to: tuple[int, ...]) -> Any:
    out = np.zeros(to, g.dtype)
    if basic:
        out[index] = g
    else:
        np.add.at(out, index, g)
    return out


def scatter_batch(level: Any, g: Any, index: Any, basic: bool, to: tuple[int, ...]) -> Any:
    """What was read by an index, put at its place in zeros."""
    p = repeated(level, g)
    out = np.zeros((level.size, *to), p.dtype)
    key, p = batches.placed(level, p, index, len(to))
    if p.__class__ is not np.ndarray:
        return Batch(level, scatter(p, index=key, basic=basic, to=out.shape))
    if basic:
        out[key] = p
    else:
        np.add.at(out, key, p)
    return Batch(level, out)


# g put at x[index] of zeros; what falls on one element is added up.
scatter_call = linear(
    _scatter,
    lambda g, shape, index, basic, to: read(g, index=index, basic=basic),
    name="scatter",
    internal=True,
    pattern=patterns.scattered,
    batch=scatter_batch,
)
scatter_row = scatter_call.row


def scatter(g: Any, index: Any, basic: bool, to: tuple[int, ...]) -> Any:
    """g at x[index] of zeros, for an index that may hold Tensors: a plain array of plain ones."""
    if index.__class__ in BASIC or not holds(index):
        return scatter_call(g, index=index, basic=basic, to=to)
    g = g._node if g.__class__ is Tensor else g
    params = {"index": normal_index(index)[0], "basic": basic, "to": to}
    out = Node(scatter_row.kernel(g.value if g.__class__ is Node else g, **params))
    record(scatter_row, (g,), (out,), params, params | {"index": noded(index)})
    return wrap(out)


scatter_row.call = scatter
scatter.row = scatter_row  # type: ignore[attr-defined]
getitem_edge = Getitem(("index", "basic"))
getitem_row = Row(
    "getitem",
    lambda x, index, basic: x[index],
    [getitem_edge],
    kind="linear",
    work=costs.reading,
    pattern=patterns.moved,
    batch=lambda level, x, index, basic: batches.getitem(level, x, index),
    pull_batch=pull_read,
)


def read(x: Any, index: Any, basic: bool) -> Any:
    """x[index] for a normal index, of a Tensor or a plain array."""
    return getitem(x, index) if x.__class__ is Tensor or any_tensor(index) else x[index]


publish(getitem_row, read, (), "x[index].")


def getitem(x: Any, index: Any) -> Any:
    """``x[index]``: basic, integer and boolean indexing, as NumPy has it.

    A slice is a view, as in NumPy: writing into it writes into the array it was cut from, and the other way round.
    """
    if x.__class__ is not Tensor:
        x = operand(x)
    basic = True
    key = told = index
    if index.__class__ not in BASIC:
        key, basic = normal_index(index)
        told = key if key is index else told_index(index, key)
    n = x._node
    value = n.value
    out = new(Node)
    out.value = found = value[key] if value.__class__ is ndarray else getitem_row.kernel(value, index=key, basic=basic)
    out.id = new_id()
    out.tangents = None
    sealed = False
    stack = stack_now()
    if stack:
        edge, like, kept = getitem_edge, (value.shape, value.dtype), (key, basic)
        if told is not key:
            if isinstance(value, Standin):
                unfollowed(told)
            elif any([r.facts for r in stack]):
                edge, kept = FOLLOWING, (told, basic)
        for r in stack:
            known = r.entries
            if known is None:
                params = {"index": told if r.facts else key, "basic": basic}
                r.see_one(edge, n, like, kept, (n,), out, params, stack)
            elif n.id in known:
                if r.sealed and known[n.id] is None:
                    sealed = True
                known[out.id] = (edge, n.id, like, kept)
    result = new(Tensor)
    result._node = out
    if basic and (
        found.__class__ is ndarray
        or (value.__class__ is not ndarray and isinstance(found, Standin) and (found.shape or has_ellipsis(key)))
    ):
        result._base = x, SLICE, told  # not the index as given: a Tensor in it may be written later
        if sealed:  # an argument of a transform: nobody can write into it, so it need not know its views
            return result
        try:  # as views.link does, without the call
            views = views_slot(x)
        except AttributeError:
            views = x._views = []
        views.append(ref(result))
        if len(views) & 63 == 0:
            forget_dead(views)
    return result


FOLLOWING: Any = Following(getitem_edge)


def has_ellipsis(key: Any) -> bool:
    """Whether an index makes an array also of a single element, and no number."""
    return any([k is Ellipsis for k in (key if key.__class__ is tuple else (key,))])


# ------------------------------------------------------------------ assignment
class Assign(Together):
    """x with x[index] replaced by v. Its rules write in place where nobody else holds the array."""

    __slots__ = ()

    moves = places = True

    def shared(self, operands: Any, out: Any, params: Any) -> Any:
        x, v = [a.value if a.__class__ is Node else np.asarray(a) for a in operands]
        return out.id, (x.shape, x.dtype), (v.shape, v.dtype), params

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, (i, j), (out, like_x, like_v, params) = entry
        index, basic = params["index"], params["basic"]
        if index.__class__ not in BASIC and holds(index):
            params = params | {"index": (index := unfolded(index, raw))}
            g = lifted(g, index)
        plain = not (g.__class__ is Tensor or isinstance(g, Standin))
        if not cotangents.masked:
            cotangents.select(raw)
        if j:
            c = read(g, index, basic)
            if not basic:
                c = c * last_written(index, g.shape)
            elif plain and i and c.__class__ is np.ndarray:
                c = c.copy()  # the place is cleared below
            shape, dtype = like_v
            if c.shape != shape:
                # (NumPy lets a value have more axes than its place, if they are of length 1.)
                c = unbroadcast(c, shape[max(len(shape) - len(c.shape), 0) :])
                c = c if c.shape == shape else c.reshape(shape)
            cotangents.add(j, cast_back(c, dtype))
        if not i:
            return
        if not plain:
            zero = np.zeros((), g.dtype)[()]
            left = replaced(g, zero, params) if g.__class__ is Tensor else assigned(g, zero, index, basic)
            cotangents.add(i, cast_back(left, like_x[1]))
            return
        if out not in cotangents.owned:
            g = np.array(g)
        g[index] = 0
        if i in cotangents:
            cotangents.add(i, g)
        else:
            cotangents[i] = g
            cotangents.owned.add(i)

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        _, (shape, dtype), _, params = entry[2]
        index = params["index"]
        if index.__class__ not in BASIC and holds(index):
            params = params | {"index": (index := unfolded(index, raw))}
        t, s = tangents
        if s is None:
            s = np.zeros((), dtype)
        if t.__class__ is Tensor or s.__class__ is Tensor or any_tensor(index):
            return replaced(tensor(np.zeros(shape, dtype)) if t is None else t, s, params)
        if t is None:
            t = np.zeros(shape, dtype)
        if isinstance(t, Standin) or isinstance(s, Standin):
            return assigned(t, s, index, params["basic"])
        if not (params.get("alone") and getrefcount(t) <= TANGENT_REFERENCES and writable(t)):
            t = np.array(t)
        t[index] = s
        return t


def last_written(index: Any, shape: tuple[int, ...]) -> Any:
    """1 for each written element that stays, 0 for one that a later one overwrites (an index that repeats)."""
    place: Any = np.full(shape, -1)
    if any_tensor(index):
        place = tensor(place)
    there = read(place, index, False)
    numbers = np.arange(there.size).reshape(there.shape)
    if place.__class__ is Tensor:
        place = replaced(place, numbers, {"index": index, "basic": False})
    else:
        place[index] = numbers
    return (read(place, index, False) == numbers).astype(float)[()]


def assign_batch(level: Any, x: Any, v: Any, index: Any, basic: bool = True, alone: bool = False) -> Any:
    """x with x[index] replaced by v."""
    p = repeated(level, x)
    written = np.empty(rank_shape(level, x, index))
    q = physical(level, v)
    if is_batched(level, v):
        q = q.reshape((q.shape[0], *(1,) * (written.ndim - v.ndim), *q.shape[1:]))
        q = np.broadcast_to(q, (q.shape[0], *written.shape))
    else:
        q = np.broadcast_to(q, (level.size, *written.shape))
    key, q = batches.placed(level, q, index, np.ndim(x))
    if p.__class__ is Tensor or q.__class__ is Tensor:
        return Batch(level, replaced(p, q, {"index": key, "basic": basic}))
    if isinstance(p, Batch) or isinstance(q, Batch):
        return Batch(level, assigned(p, q, key, basic))
    p = np.array(p)
    p[key] = q
    return Batch(level, p)


def rank_shape(level: Any, x: Any, index: Any) -> tuple[int, ...]:
    """The shape of x[index] for one example."""
    y: Any = batches.getitem(level, Batch(level, np.broadcast_to(np.zeros(()), (level.size, *np.shape(x)))), index)
    return y.shape


assign_row = Assign(
    "setitem",
    lambda x, v, index, basic, alone=False: _assigned(x, v, index),
    kind="linear",
    work=costs.moves,
    pattern=patterns.moved,
    batch=assign_batch,
)


def assigned(x: Any, v: Any, index: Any, basic: bool) -> Any:
    """x with x[index] replaced by v, neither of them a Tensor."""
    return assign_row.kernel(x, v, index=index, basic=basic)


def _assigned(x: Any, v: Any, index: Any) -> Any:
    x = np.array(x)
    x[index] = v
    return x


def replaced(x: Any, v: Any, params: dict[str, Any], alone: bool = False) -> Tensor:
    """x with x[index] = v, recorded; written in place if nobody else holds the array."""
    operands = (x._node if x.__class__ is Tensor else x, v._node if v.__class__ is Tensor else v)
    old, new = raw(x), raw(v)
    told = None
    if params["index"].__class__ not in BASIC and holds(params["index"]):
        told = params | {"index": noded(params["index"]), "alone": alone}
        params = params | {"index": normal_index(params["index"])[0]}
    if alone and not isinstance(new, Standin):
        old[params["index"]] = new
    else:
        old = assign_row.kernel(old, new, **params)
    out = Node(old)
    if STACK.get():
        record(assign_row, operands, (out,), {**params, "alone": alone}, told)
    return wrap(out)


publish(assign_row, lambda x, v, **params: replaced(x, v, params), (), "x with x[index] replaced by v.")


def writable(a: Any) -> bool:
    """Whether an array owns memory that may be written."""
    return a.__class__ is np.ndarray and a.flags.owndata and a.flags.writeable


def holders(x: Tensor) -> tuple[int, int]:
    """References to a Tensor's node and to its array, those of this function included."""
    node = x._node
    return getrefcount(node), getrefcount(node.value)


def is_alone(counts: tuple[int, int]) -> bool:
    """Whether nobody but the handle holds the node, and nobody but the node the array."""
    return counts[0] <= ALONE[0] and counts[1] <= ALONE[1]


def setitem(x: Tensor, index: Any, v: Any) -> None:
    """``x[index] = v``: the handle x gets a new value; whatever was computed from the old one keeps it.

    Raises:
        ValueError: if x is a source watched by a tape, or v does not fit.
        TypeError: if x is of an integer dtype and v is not.
    """
    if v.__class__ is Tensor:
        base = base_of(v)
        if base is not None and base[0] is x and base[1] is SLICE and base[2] is index:
            return  # x[i] += v: the in-place operation on the view x[i] has already written through
        new = v._node.value
    else:
        v = operand(v)
        new = v._node.value if v.__class__ is Tensor else np.asarray(v)
    check_unwatched(x)
    write(x, index, v, new, None)


def put_slice(owner: Tensor, index: Any, view: Tensor) -> None:
    """Pass a write into a slice on to its owner."""
    write(owner, index, view, view._node.value, view)


# A slice x[index]; the argument is the index.
SLICE = Kind(
    lambda owner, index: getitem(owner, index),
    put_slice,
    lambda value, index: getitem_row.kernel(value, index=normal_index(index)[0], basic=True),
)


def write(x: Tensor, index: Any, v: Any, new: Any, by: Tensor | None) -> None:
    """Write v (of the plain value ``new``) into x[index], through the view ``by`` if there is one."""
    key = told = index
    basic = True
    if index.__class__ not in BASIC:
        key, basic = normal_index(index)
        told = key if key is index else told_index(index, key)
    where = x._node.value
    if new.dtype is not where.dtype and new.dtype != where.dtype:
        if not np.can_cast(new.dtype, where.dtype, "same_kind"):
            raise TypeError(
                f"cannot assign values of dtype {new.dtype} into a Tensor of dtype {where.dtype}; convert x with astype"
            )
        v = (v if v.__class__ is Tensor else new).astype(where.dtype)
    try:
        alone = is_alone(holders(x)) and writable(where)
        result = replaced(x, v, {"index": told, "basic": basic}, alone)
    except ValueError as error:
        raise ValueError(
            f"cannot assign a value of shape {new.shape} into x[index] of a Tensor {where.shape}: {error}"
        ) from None
    give(x, result, by, (lambda value: part(value, key)) if basic else None)


def part(value: Any, key: Any) -> Any:
    """value[key] as an array, also where it is a single element."""
    keys = key if key.__class__ is tuple else (key,)
    return value[keys if has_ellipsis(keys) else (*keys, ...)]


def check_unwatched(x: Tensor) -> None:
    """A watched source must stay what it is: after a write, the gradient by it would be ambiguous."""
    stack = STACK.get()
    if not stack:
        return
    for handle in root(x):
        i = handle._node.id
        for r in stack:
            if r.entries is not None and i in r.entries and r.entries[i] is None:
                raise ValueError(
                    "this Tensor, or the one it is a view of, is watched as a source of a gradient and cannot be "
                    "written into; write into a copy of it: y = dualtape.copy(x)"
                )


def in_place(call: Any) -> Any:
    """``x += y`` and its like: the handle gets the new value, and so does the array a view was cut from."""

    def method(x: Any, y: Any) -> Any:
        # (No name is left bound to the value: the owner's memory is written in place, if nobody else holds it.)
        if not x._node.value.shape and not is_array(x):
            return call(x, y)  # a number is rebound, as NumPy's are
        result = call(x, y)
        store(x, result)
        return x

    return method


def unwritable(name: str, target: Any) -> TypeError:
    """The error for what a Tensor cannot be written into."""
    if isinstance(target, Operand):
        return TypeError(f"{name}: a {type(target).__name__} cannot be written into; Variables have the method assign")
    return TypeError(
        f"{name}: a Tensor cannot be written into a {type(target).__name__}, which would lose its derivative (out=, an "
        "operator such as +=, a function that writes into its argument); start from dualtape.zeros_like or "
        "dualtape.asarray instead of an ndarray"
    )


def is_array(x: Tensor) -> bool:
    """Whether what has no axes can be written, as an array, or is a number."""
    value = x._node.value
    return value.__class__ is ndarray or (isinstance(value, Standin) and base_of(x) is not None)


def store(x: Tensor, result: Tensor) -> None:
    """Make ``result`` the value of the handle x, in x's dtype, as an operation with ``out=x`` does."""
    check_unwatched(x)
    if result.shape != x.shape:
        raise ValueError(f"a result of shape {result.shape} does not fit into a Tensor of shape {x.shape} in place")
    if result.dtype != x.dtype:
        if not np.can_cast(result.dtype, x.dtype, "same_kind"):
            raise TypeError(
                f"a result of dtype {result.dtype} cannot be stored in a Tensor of dtype {x.dtype} in place"
            )
        result = result.astype(x.dtype)
    give(x, result)


# ------------------------------------------------------------------ gathering
def take(x: ArrayLike, indices: ArrayLike, /, axis: int | None = None, out: None = None, mode: str = "raise") -> Tensor:
    """Elements of ``x`` at integer positions along an axis (of the flat array if None); NumPy's ``take``.

    Args:
        x: an array.
        indices: integers, of any shape.
        axis: an int or None.
        out: not supported (a Tensor never changes).
        mode: "raise", "wrap" or "clip", for positions out of range.

    Returns:
        A Tensor.
    """
    if out is not None:
        raise TypeError("take: out= is not supported, since a Tensor never changes; use the returned Tensor")
    x = operand(x)
    if axis is None:
        x, axis = np.reshape(x, (-1,)), 0
    shape = np.shape(x)
    index = positions(indices)
    if mode != "raise":
        n = shape[axis]
        index = index % n if mode == "wrap" else np.clip(index, 0, n - 1)
    key = (slice(None),) * (axis % len(shape)) + (index,)
    return arranged(as_tensor(x)[key], "C")


def positions(indices: Any) -> Any:
    """Indices without derivative: an array, or a stand-in (of a batch: each example has its own)."""
    index = still(operand(indices))
    return index if isinstance(index, Standin) or index.__class__ is Tensor else np.asarray(index)


def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Tensor:
    """Elements of ``x`` at positions that differ from line to line along an axis; NumPy's ``take_along_axis``."""
    x = operand(x)
    if axis is None:
        x, axis = np.reshape(x, (-1,)), 0
    index = positions(indices)
    axis %= np.ndim(x)
    shape = np.shape(x)
    if index.ndim != len(shape):
        raise ValueError(f"take_along_axis: indices of {index.ndim} axes for an array of {len(shape)}")
    key: list[Any] = []
    for k, n in enumerate(shape):
        if k == axis:
            key.append(index)
        else:
            key.append(np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))]))
    return as_tensor(x)[tuple(key)]


register(take, np.take, "take")
register(take_along_axis, np.take_along_axis, "take_along_axis")


def methods() -> dict[str, Any]:
    """Python's item protocol and the in-place operators."""
    return {
        "__getitem__": getitem,
        "__imod__": in_place(elementary.remainder),
        "__ifloordiv__": in_place(absent.floor_divide),
        "__iand__": in_place(absent.bitwise_and),
        "__ior__": in_place(absent.bitwise_or),
        "__ixor__": in_place(absent.bitwise_xor),
        "__ilshift__": in_place(absent.bitwise_left_shift),
        "__irshift__": in_place(absent.bitwise_right_shift),
        "__iadd__": in_place(elementary.add),
        "__isub__": in_place(elementary.subtract),
        "__imul__": in_place(elementary.multiply),
        "__itruediv__": in_place(elementary.divide),
        "__ipow__": in_place(elementary.pow),
    }


for _name, _method in methods().items():
    setattr(Tensor, _name, _method)
Operand.__getitem__ = getitem  # type: ignore[method-assign]
Tensor.__setitem__ = setitem  # type: ignore[method-assign]


def _calibrate() -> tuple[int, int]:
    """The counts inside ``setitem`` when only the caller's handle holds the node."""
    seen: list[tuple[int, int]] = []

    def like_setitem(x: Tensor) -> None:
        where = x._node.value
        seen.append(holders(x))
        del where

    like_setitem(tensor(np.zeros(2)))
    return seen[0]


def _calibrate_tangent() -> int:
    """The references to a tangent inside ``Assign.push`` when only its node holds it."""
    seen: list[int] = []

    class Probe(Assign):
        __slots__ = ()

        def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
            t, _ = tangents
            seen.append(getrefcount(t))
            return t

    node, out, recorder = Node(np.zeros(2)), Node(np.zeros(2)), TangentRecorder(0)
    node.tangents = {0: np.zeros(2)}
    probe = Probe("probe", assign_row.kernel, kind="linear")
    operands, params = (node, np.zeros(())), {"index": 0, "basic": True}
    entry, nodes = probe.entry(operands, out, params), probe.nodes(operands)
    recorder.see(probe, entry, nodes, operands, (out,), params, (recorder,))
    return seen[0]


ALONE = _calibrate()
TANGENT_REFERENCES = _calibrate_tangent()
