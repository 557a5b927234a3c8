"""Views: slices and reshapes that share their elements with the array they were cut from, as NumPy's do.

A Tensor's value never changes, but its handle may be given a new one. So that a program that writes through a slice,
or reads a slice after its array was written, computes what it computes with NumPy, the two handles know of each
other: a write into a view is passed on to its owner, and a write into the owner cuts its living views anew. The new
cuts are ordinary operations, recorded like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from dualtape.core.standin import Standin, laid
from dualtape.core.tensor import Node, Tensor

ndarray = np.ndarray


class Kind(NamedTuple):
    """A way to cut a view: ``cut(owner, arg)`` makes it, ``put(owner, arg, view)`` writes its value back."""

    cut: Callable[[Tensor, Any], Any]
    put: Callable[[Tensor, Any, Tensor], None]
    # The same cut of a plain value: the elements that the view stands for, as they lie in memory.
    region: Callable[[Any, Any], Any]


def kind_of(call: Any, put: Callable[[Tensor, Any, Tensor], None]) -> Kind:
    """The views that an operation makes; the argument of the cut are its keywords."""
    row = call.row
    return Kind(lambda owner, arg: call(owner, **arg), put, lambda value, arg: row.kernel(value, **arg))


def read_only(*_: Any) -> None:
    """The ``put`` of views that NumPy does not let be written."""
    raise ValueError("this view is read-only, as it is in NumPy; write into the array it was cut from, or into a copy")


def undecided(*_: Any) -> Any:
    """Of results of which only the memory of each single example could tell whether they are views."""
    raise ValueError(
        "under a batch it is not known whether reshape or ravel made a view or a copy here, which depends on the order "
        "in memory; write into a copy, and reshape a copy of what is written later: np.copy(x)"
    )


UNDECIDED = Kind(undecided, undecided, lambda value, arg: value)


# The slots themselves: where one is unset, looking it up as an attribute would cost a call of __getattr__.
base_slot: Any = Tensor.__dict__["_base"].__get__
views_slot: Any = Tensor.__dict__["_views"].__get__
former_slot: Any = Tensor.__dict__["_former"].__get__


def base_of(x: Tensor) -> tuple[Tensor, Kind, Any] | None:
    """The owner a view was cut from, its kind, and the argument of the cut; None for a Tensor of its own."""
    try:
        return base_slot(x)
    except AttributeError:
        return None


def link(view: Tensor, owner: Tensor, kind: Kind, arg: Any) -> None:
    """Let a view and its owner know of each other."""
    view._base = owner, kind, arg
    try:
        views = views_slot(owner)
    except AttributeError:
        owner._views = [ref(view)]
        return
    views.append(ref(view))
    if len(views) & 63 == 0:
        forget_dead(views)


def forget_dead(views: list[Any]) -> None:
    """Drop the references to views that are gone; if many are alive, only now and then."""
    n = len(views)
    if n < 1024 or not n & (n - 1):
        views[:] = [r for r in views if r() is not None]


def memory(value: Any) -> Any:
    """The array whose memory a value lies in, or None."""
    return value.memory() if isinstance(value, Standin) else value


def link_if_shared(view: Tensor, owner: Any, kind: Kind, arg: Any) -> Tensor:
    """``link`` the result of an operation if it shares memory with its operand."""
    if owner.__class__ is Tensor:
        value, whole = view._node.value, owner._node.value
        if value.__class__ is not np.ndarray:
            value, whole = memory(value), memory(whole)
            if value is None:  # a stand-in without memory: what may be a view is taken for one
                link(view, owner, kind, arg)
                return view
        if value.__class__ is ndarray and np.may_share_memory(value, whole):
            link(view, owner, kind, arg)
    return view


def give(x: Tensor, result: Tensor, by: Tensor | None = None, written: Callable[[Any], Any] | None = None) -> None:
    """Give the handle ``x`` the value of ``result``: its owner is written, its living views are cut anew.

    ``by`` is the view through which it is written, which has the new value already, or x itself, if it is cut anew.
    ``written`` gives the part of a plain array that changed; all of it, if None.
    """
    before, node = x._node, result._node
    value, i = node.value, before.id
    moved = value is not before.value and by is not x
    if moved:
        strides = before.value.strides if before.value.__class__ is ndarray else strides_of(before.value)
    del before  # and with it, if nobody else holds it, a view that would keep the owner from being written in place
    base = base_of(x) if by is not x else None
    if base is not None:
        ensure_writable(base)
    try:
        x._former = former_slot(x)[0], i
    except AttributeError:
        x._former = i, i
    x._node = node
    if base is not None:
        owner, kind, arg = base
        kind.put(owner, arg, x)
    if moved and strides is not None:
        if (value.strides if value.__class__ is ndarray else strides_of(value)) != strides:
            # The elements stay where they lay in memory: as the owner has them now, or in the order they had.
            lie(x, kind.region(owner._node.value, arg) if base is not None else laid(value, strides))
    try:
        views = views_slot(x)
    except AttributeError:
        return
    if views:
        value = x._node.value
        # (Which elements of a stand-in were written is not asked: all its views are cut anew.)
        known = value.__class__ is ndarray
        part = value if written is None or not known else written(value)
        for r in list(views):
            view = r()
            if view is None or view is by:
                continue
            _, kind, arg = view._base
            if not known or np.may_share_memory(kind.region(value, arg), part):
                give(view, kind.cut(x, arg), by=view)


def ensure_writable(base: tuple[Tensor, Kind, Any] | None) -> None:
    """Refuse a view, or a view of a view, that cannot be written, before anything is."""
    while base is not None:
        if base[1].put is read_only or base[1] is UNDECIDED:
            base[1].put(*base)
        base = base_of(base[0])


def strides_of(value: Any) -> tuple[int, ...] | None:
    """How a value (of a batch, one example) lies in memory; None if that is not known, or it is a number."""
    whole = memory(value)
    return whole.strides[whole.ndim - len(value.shape) :] if whole.__class__ is ndarray else None


def lie(x: Tensor, value: Any) -> None:
    """The value of a handle as it lies in memory; its identity, and what hangs on it, stay."""
    node = x._node
    x._node = Node(value, node.id)
    x._node.tangents = node.tangents


def root(x: Tensor) -> list[Tensor]:
    """A Tensor and all the owners it was cut from, one from the other."""
    chain = [x]
    while (base := base_of(chain[-1])) is not None:
        chain.append(base[0])
    return chain
