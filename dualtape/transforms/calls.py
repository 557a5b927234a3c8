"""One call of a user's function as one operation, with a row of its own whose rules run the user's rules on Tensors.

A rule that is missing is the transpose of the one that is there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from dualtape.core import recorders
from dualtape.core.calls import record
from dualtape.core.cotangents import cast_back
from dualtape.core.edges import Together
from dualtape.core.recorders import Recorder, Stack
from dualtape.core.standin import Standin
from dualtape.core.sweep import Cotangents, any_singular, sweep
from dualtape.core.tensor import SCALARS, Node, Operand, Tensor, operand, raw, tensor, wrap
from dualtape.facts import costs
from dualtape.modes.constant import constant
from dualtape.modes.structure import flatten
from dualtape.ops.shaping import identity
from dualtape.transforms.arguments import recorded
from dualtape.transforms.handles import taken


class Like(NamedTuple):
    """The shape and dtype of an array, without the array."""

    shape: tuple[int, ...]
    dtype: Any


# (operands, cotangents of the results, raw) -> cotangents of the operands, and likewise for tangents. Zeros are filled
# in. Raw: nobody outside records, so that values kept from the call itself will do.
Rule = Callable[[list[Tensor], list[Any], bool], Sequence[Any]]


class Call(Together):
    """One call of a function with rules of its own, for all operands at once.

    A rule that is missing is None here, and not the method that derives it: the row would be part of a cycle, and
    each call would wait for the garbage collector with all that its rules hold.
    """

    __slots__ = ("back", "forward", "held", "ins", "outs")

    def __init__(self, name: str, ins: list[Like], outs: list[Like], back: Rule | None, forward: Rule | None) -> None:
        super().__init__(name, len, kind="custom", outputs=len(outs), work=costs.moves)
        self.kernel = self.call = untold
        self.ins, self.outs = ins, outs
        # What the rules themselves keep alive, as far as it is known.
        self.held: tuple[Node, ...] = ()
        self.back, self.forward = back, forward

    def from_back(self, primals: list[Tensor], ts: list[Any], raw: bool) -> list[Any]:
        back = self.back
        assert back is not None
        return transposed(lambda gs: back(primals, gs, raw), self.outs, ts)

    def from_forward(self, primals: list[Tensor], gs: list[Any], raw: bool) -> list[Any]:
        forward = self.forward
        assert forward is not None
        return transposed(lambda ts: forward(primals, ts, raw), self.ins, gs)

    def shared(self, operands: Any, out: Any, params: Any) -> Any:
        return operands

    def likes(self) -> tuple[Any, Any]:
        return self.ins, self.outs

    def pull(self, entry: Any, g: Any, cotangents: Any, raw: bool) -> None:
        _, ids, operands = entry
        gs = g if self.outputs > 1 else [g]
        REACHED.set(None if cotangents.reach is None else cotangents.reach.later(cotangents.at))
        found = self.applied(self.back or self.from_forward, operands, gs, self.outs, raw)
        for k, (i, c) in enumerate(zip(ids, found, strict=True)):
            if i and c is not None:
                c = fitting(c, self.ins[k], f"{self.name}: gradient {k}")
                cotangents.add(i, cast_back(c, self.ins[k].dtype))

    def push(self, entry: Any, tangents: Any, raw: bool) -> Any:
        ts = self.applied(self.forward or self.from_back, entry[2], tangents, self.ins, raw)
        found = [
            fitting(np.zeros((), y.dtype) if t is None else t, y, f"{self.name}: tangent {k}")
            for k, (t, y) in enumerate(zip(ts, self.outs, strict=True))
        ]
        return tuple(found) if self.outputs > 1 else found[0]

    def applied(self, rule: Rule, operands: Any, given: Any, likes: list[Any], raw: bool) -> Sequence[Any]:
        """What a rule gives; under no recorder if its values are to be raw."""
        filled = [
            wrap(c._node)
            if c.__class__ is Tensor
            else tensor(np.zeros(like.shape, like.dtype)[()] if c is None else c)
            for c, like in zip(given, likes, strict=True)
        ]
        with recorders.under(recorders.listeners()) if raw else nullcontext():
            found = rule([wrap(n) for n in operands], filled, raw)
            return [None if c is None else loose(operand(c)) for c in found]

    def kept(self, entry: Any) -> Any:
        return (*super().kept(entry), *self.held)


def untold(*arrays: Any) -> Any:
    """The kernel of a call, which nobody calls: what was computed is told."""
    raise TypeError("a function with rules of its own cannot be replayed from its row")


def loose(x: Any) -> Any:
    """A Tensor as a rule passes it on: plain unless somebody follows it."""
    return x._node.value if x.__class__ is Tensor and not recorders.is_tracked(x._node) else x


def fitting(c: Any, like: Any, name: str) -> Any:
    """A derivative that a user's rule returned, in the shape it must have."""
    if not hasattr(c, "dtype"):
        c = np.asarray(c)[()]
    if c.shape == like.shape:
        return c
    try:
        return np.broadcast_to(c, like.shape)
    except ValueError:
        raise ValueError(f"{name} has shape {c.shape}, but must have shape {like.shape}") from None


def connect(
    name: str,
    operands: list[Node],
    outs: list[Tensor],
    back: Rule | None = None,
    forward: Rule | None = None,
    held: Any = None,
) -> list[Tensor]:
    """Fresh results, connected with the operands by the rules alone. Rules see only results that carry derivatives."""
    fresh = [Node(y._node.value) for y in outs]
    carried = [n for n in fresh if n.value.dtype.kind in "fc"]
    if carried and operands:
        row = Call(name, likes(operands), likes(carried), back, forward)
        row.held = tuple([x for x in flatten(held)[0] if x.__class__ is Node])
        record(row, tuple(operands), tuple(carried), {})
    return [wrap(n) for n in fresh]


def likes(nodes: Sequence[Node]) -> list[Like]:
    """Shapes and dtypes."""
    return [Like(n.value.shape, n.value.dtype) for n in nodes]


def nodes_of(xs: Sequence[Tensor]) -> list[Node]:
    """What the handles are on now."""
    return [x._node for x in xs]


def all_results(gs: Sequence[Any], outs: Sequence[Like]) -> list[Any]:
    """Cotangents for all results: those given, for the ones that carry derivatives, and zeros for the others."""
    it = iter(gs)
    return [next(it) if y.dtype.kind in "fc" else tensor(np.zeros(y.shape, y.dtype)[()]) for y in outs]


def transposed(linear: Callable[[list[Any]], Sequence[Any]], likes: list[Any], seeds: list[Any]) -> list[Any]:
    """The transpose of a linear function of arrays like ``likes``, applied to ``seeds``.

    The function runs once on arguments that do not matter, under a tape, and the sweep back over what it did is
    its transpose (conjugate transpose, for complex arrays). Under outer recorders all of this is recorded.
    """
    rng = np.random.default_rng(0)  # no zeros: rules may leave out what a zero would meet
    dummies = [tensor(rng.uniform(0.5, 1.0, x.shape).astype(x.dtype)[()]) for x in likes]

    def run() -> list[Any]:
        # (Rules may write into what they are given, but not into what a tape watches.)
        return [None if y is None else operand(y) for y in linear([identity(x) for x in dummies])]

    outs, entries = recorded(run, (), {}, dummies)
    found = swept(entries, outs, seeds, dummies)
    ensure_adjoint(outs, seeds, found, dummies)
    return found


def ensure_adjoint(outs: Sequence[Any], seeds: Sequence[Any], found: Sequence[Any], dummies: Sequence[Any]) -> None:
    """Refuse the transpose of a function that is not linear, or that cuts its argument off: <A d, s> is <d, A' s>."""
    sides, scale, rough = [0.0, 0.0], 0.0, 0.0
    for k, pairs in enumerate((zip(outs, seeds, strict=True), zip(found, dummies, strict=True))):
        for a, b in pairs:
            x, y = raw(loose(a)), raw(loose(b))
            if isinstance(x, Standin) or isinstance(y, Standin):
                return
            if x is None or y is None or np.shape(x) != np.shape(y) or np.asarray(x).dtype.kind not in "fc":
                continue
            products = np.real(np.conj(x) * y)
            sides[k] += float(np.sum(products))
            scale += float(np.sum(np.abs(products)))
            rough = max(rough, float(np.finfo(np.asarray(x).dtype).eps))
    # Rules may be approximate, the result of an iteration perhaps; one that is not linear is off by its own size.
    if np.isfinite(scale) and abs(sides[0] - sides[1]) > max(1e-3, rough**0.5) * scale:
        raise ValueError(
            "a rule is missing, and the one that is given has no transpose: it is not linear in its cotangents (or "
            "tangents), or it cuts them off (.numpy(), stop_gradient, rounding). Give both rules: custom_vjp with "
            "defjvp, or a custom_jvp"
        )


# While a call is passed, what gives the marks (``core/reached.py``) of its cotangents; read before any user code.
REACHED: ContextVar[Callable[[], Any] | None] = ContextVar("dualtape_reached", default=None)


def swept(
    entries: Any, outs: Sequence[Any], seeds: Sequence[Any], wanted: Sequence[Tensor], reached: Any = None
) -> list[Any]:
    """The cotangents of ``wanted`` by a sweep that starts from ``outs``; ``reached`` gives the marks of the seeds."""
    cotangents = Cotangents()
    for y, g in zip(outs, seeds, strict=True):
        if y.__class__ is Tensor and g is not None:
            g = fitting(loose(g), y, "a cotangent")
            cotangents.add(y._node.id, cast_back(g, y.dtype))
    cotangents.owned.clear()
    if reached is not None and any_singular(entries) and (marks := reached()) is not None:
        each = marks if len(outs) > 1 else [marks]
        cotangents.told({y._node.id: m for y, m in zip(outs, each, strict=True) if y.__class__ is Tensor}, True)
    return sweep(entries, cotangents, [x._node.id for x in wanted], True, True)


# ------------------------------------------------------------------ arguments and bodies
class Given:
    """The arguments of a call, taken apart: all leaves, and among them the operands, which recorders follow."""

    def __init__(self, args: Any, outer: Stack) -> None:
        self.args = args
        self.leaves, self.rebuild = flatten(args)
        # (Whole numbers too, an axis, a count: they are passed on as they are, and have a place among the gradients.)
        self.places = [k for k, leaf in enumerate(self.leaves) if is_array(leaf)]
        self.variables = {id(leaf) for leaf in self.leaves}
        self.slots: list[int] = []
        self.operands: list[Node] = []
        for k in self.places:
            leaf = self.leaves[k]
            if isinstance(leaf, (int, np.integer)):
                continue
            # A node of our own: the caller may give his handle a new value, and write into his array, before the rules
            # run; and the function may write into what it is given.
            x = operand(leaf)
            self.leaves[k] = node = (x if x.__class__ is Tensor else constant(x))._node
            if node.value.dtype.kind in "fc" and any([r.tracks(node) for r in outer]):
                self.slots.append(k)
                self.operands.append(node)

    def filled(self, values: Sequence[Any], others: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
        """The arguments under handles of their own, with ``values`` for the operands."""
        leaves = [others(wrap(leaf) if leaf.__class__ is Node else leaf) for leaf in self.leaves]
        for k, value in zip(self.slots, values, strict=True):
            leaves[k] = value
        return self.rebuild(iter(leaves))

    def own(self) -> list[Tensor]:
        """The operands under identities of their own; recorders see the step to them."""
        return [identity(wrap(n)) for n in self.operands] if recorders.live() else self.apart()

    def apart(self) -> list[Tensor]:
        """The operands under identities of their own, which nobody follows."""
        return [wrap(Node(n.value)) for n in self.operands]

    def picked(self, found: Any, name: str) -> list[Any]:
        """The gradients of the operands among those returned for all arguments, flat or in their structure."""
        entries = found if isinstance(found, (tuple, list)) else (found,)
        if len(entries) != len(self.places) or any([isinstance(c, (tuple, list, dict)) for c in entries]):
            whole = len(self.args) == 1 != len(entries) and parts_of(self.args[0]) is not None
            entries = paired(self.args, (found,) if whole else entries, name)
        by_place = dict(zip(self.places, entries, strict=True))
        return [taken(by_place[k]) for k in self.slots]


def no_tangent(leaf: Any) -> Any:
    """The tangent of an argument that is not followed."""
    if not is_array(leaf):
        return 0.0
    kind = leaf.dtype if isinstance(leaf, Operand) else np.result_type(leaf)
    return constant(np.zeros(np.shape(leaf), kind if kind.kind in "fc" else float))


def is_array(leaf: Any) -> bool:
    """Whether a leaf of an argument has its place among the gradients."""
    return isinstance(leaf, (Operand, np.ndarray, *SCALARS))


def parts_of(structure: Any) -> list[Any] | None:
    """The parts of a list, tuple, dict or dataclass; None for a leaf."""
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        return [getattr(structure, field.name) for field in dataclasses.fields(structure)]
    if isinstance(structure, dict):
        return list(structure.values())
    return list(structure) if isinstance(structure, (list, tuple)) else None


def paired(args: Any, found: Any, name: str) -> list[Any]:
    """One entry of ``found`` for each array in ``args``; None stands for a part that has no gradient."""
    count = sum([is_array(leaf) for leaf in flatten(args)[0]])
    parts = parts_of(args)
    if found is None or parts is None:
        if found is None or count == 1:
            return [found] * count
        raise ValueError(f"{name}: the argument {args!r} is not an array; return None in place of its gradient")
    if isinstance(args, dict) and isinstance(found, dict):
        found = {k: found.get(k) for k in args}
    grads = parts_of(found)
    if grads is None or len(grads) != len(parts):
        got = 1 if grads is None else len(grads)
        raise ValueError(f"{name} returned {got} gradient(s) for {len(parts)} argument(s)")
    return [c for part, grad in zip(parts, grads, strict=True) for c in paired(part, grad, name)]


class Body(Recorder):
    """Stands for the recorders outside while a function runs; notes what is taken from there, or refuses it."""

    __slots__ = ("foreign", "inside", "names", "outer", "refuse", "variables")

    def __init__(self, outer: Stack, inside: Sequence[Node], refuse: str = "") -> None:
        super().__init__(None)
        self.outer, self.refuse, self.inside = outer, refuse, {n.id for n in inside}
        self.foreign: dict[int, Node] = {}
        self.variables, self.names = dict[int, Any](), dict[int, str]()  # names of all Variables, for messages

    def tracks(self, node: Node) -> bool:
        known = self.live and not self.refuse
        return known and (node.id in self.inside or any([r.tracks(node) for r in self.outer]))

    def access(self, variable: Any) -> None:
        for r in self.outer:
            r.access(variable)
        self.names[variable._node.id] = variable.name
        if variable.trainable:
            self.variables.setdefault(variable._node.id, (variable, variable._node))

    def see(self, row: Any, entry: Any, nodes: Any, operands: Any, outs: Any, params: Any, stack: Stack) -> None:
        self.hear(operands)
        if get_ident() != self.owner:  # what another thread follows itself is its own matter
            own = [r for r in recorders.everybody() if r.owner == get_ident()]
            nodes = [a for a in nodes if a is None or not any([r.tracks(a) for r in own])]
        if any([self.takes(a) for a in nodes if a is not None]):
            self.inside.update([out.id for out in outs])

    def takes(self, node: Node) -> bool:
        """Whether a derivative by ``node`` is asked for, noting it if it comes from outside."""
        if node.id in self.inside:
            return True
        if not any([r.tracks(node) for r in self.outer]):
            return False
        if self.refuse:
            raise from_outside(self.refuse, node, self.names)
        self.foreign[node.id] = node
        return True

    def run(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The result of ``f`` under this recorder alone."""
        recorders.join(self)
        with recorders.under((self,)):
            try:
                return f(*args, **kwargs)
            finally:
                recorders.leave(self)


def from_outside(name: str, node: Node, names: dict[int, str]) -> TypeError:
    """The error for a derivative that a function with rules of its own would lose."""
    used = f"the Variable {names[node.id]!r}" if node.id in names else "a Tensor"
    return TypeError(
        f"{name} uses {used} {node.value.shape} from outside that a recorder follows, which "
        "its rules say nothing about: make it an argument, or pass it through dualtape.stop_gradient"
    )


class Bound:
    """A function that also works as a method."""

    def __init__(self, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f)
        self.f = f
        self.name = getattr(f, "__name__", type(f).__name__)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self.call, (owner,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call((), *args, **kwargs)

    @property
    def rules(self) -> dict[str, str]:
        """``"given"`` or ``"derived"`` (from the other one) for ``"jvp"`` and ``"vjp"``; empty if there is no rule."""
        return {}

    def call(self, owner: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        """The function, of the object it is a method of (if it is one) and its arguments."""
        raise NotImplementedError
