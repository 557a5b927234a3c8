"""GradientTape: the reader of the table that records operations and sweeps back over them.

Length: a third of it says what each of TensorFlow's methods takes, returns and raises.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from dualtape.core import recorders
from dualtape.core.standin import OPEN, Refused, Standin
from dualtape.core.sweep import Entries, finished, kept_bytes, sweep
from dualtape.core.table import Row
from dualtape.core.tensor import Node, Operand
from dualtape.modes.constant import constant
from dualtape.modes.explain import UNREAD, described, spent, why
from dualtape.modes.indexed_slices import IndexedSlices
from dualtape.modes.jacobians import Recorded, batch_jacobian, jacobian, target_of
from dualtape.modes.seeds import seeds
from dualtape.modes.structure import flatten
from dualtape.modes.unconnected import UnconnectedGradients, wants_zero
from dualtape.modes.variable import Variable


class TapeRecorder(recorders.Recorder):
    """One activation of a tape: where its operations go, and which Variables and cuts it notes, if any."""

    __slots__ = ("cuts", "unread_here", "variables", "watches")

    def __init__(
        self,
        entries: Entries,
        variables: dict[int, Variable] | None = None,
        cuts: list[Any] | None = None,
        watches: bool = False,
    ) -> None:
        self.entries = entries
        self.live = True
        self.reads = {}
        self.variables = variables
        self.cuts = cuts
        self.watches = watches
        self.sealed = variables is None
        self.unread_here: set[int] = set()

    def access(self, variable: Variable) -> None:
        if self.live and self.watches and variable.trainable:
            self.watch_variable(variable)

    def watch_variable(self, variable: Variable) -> None:
        assert self.entries is not None and self.variables is not None
        self.variables.setdefault(variable._node.id, variable)
        if variable._node.value.dtype.kind in "fc":  # no integer has a derivative, however it was watched
            self.entries.setdefault(variable._node.id, None)

    def unread(self, variable: Node, out: Node) -> None:
        if self.cuts is not None and variable.id not in self.unread_here:
            self.unread_here.add(variable.id)  # once will do
            self.cuts.append((UNREAD, [variable.id], [out.id], caller()))

    def cut(self, row: Row, operands: Sequence[Any], outs: Sequence[Node]) -> None:
        known = self.entries
        if self.cuts is None or known is None:
            return
        ids = [a.id for a in operands if a.__class__ is Node and a.id in known]
        if ids:
            self.cuts.append((row.name, ids, [out.id for out in outs], caller()))


def caller() -> str:
    """The file and line of the user's code that is running, outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("dualtape", "numpy"):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class GradientTape:
    """Records operations, to differentiate a result by what it was computed from (reverse mode).

    Tensors are followed once they are watched; trainable Variables are watched when they are read. Tapes and
    accumulators nest: operations done by ``gradient`` are recorded by whatever is active around the call.

    Args:
        persistent: whether ``gradient`` may be called more than once.
        watch_accessed_variables: whether reading a trainable Variable watches it.

    Example:
        >>> import dualtape as dt
        >>> x = dt.constant(3.0)
        >>> with dt.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        Tensor(6.)
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watches = watch_accessed_variables
        self._entries: Entries = {}
        self._variables: dict[int, Variable] = {}
        self._cuts: list[Any] = []
        self._recorder: TapeRecorder | None = None
        self._spent = False

    # ---- recording
    def __enter__(self) -> Self:
        if self._recorder is not None:
            raise ValueError("this tape is already recording; leave it before entering it again")
        self._spent = False  # what a spent tape held is gone: it starts afresh
        self._recorder = TapeRecorder(self._entries, self._variables, self._cuts, self._watches)
        recorders.enter(self._recorder)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._recorder is not None:
            recorders.leave(self._recorder)
            self._recorder = None

    def _recording(self, what: str, error: type[Exception]) -> TapeRecorder:
        if self._recorder is None:
            raise error(f"{what} needs a tape that is recording: call it inside the tape's with block")
        return self._recorder

    def watch(self, tensor: Any) -> None:
        """Follow a Tensor or Variable, or each one in a nested structure.

        Args:
            tensor: Tensors and Variables of a floating or complex dtype, in any structure.

        Raises:
            ValueError: for ndarrays and numbers, which have no identity to follow.
        """
        for leaf in flatten(tensor)[0]:
            if not isinstance(leaf, Operand) or leaf.__class__ is IndexedSlices:
                raise ValueError(
                    f"cannot watch a {type(leaf).__name__}: a tape follows Tensors and Variables; "
                    "make one with dualtape.constant(value)"
                )
            if OPEN[0]:
                self._ensure_inside(leaf)
            if leaf.dtype.kind not in "fc":
                warnings.warn(
                    f"watching a Tensor of dtype {leaf.dtype}: only floating and complex dtypes have derivatives, "
                    "so its gradient will be None",
                    RuntimeWarning,
                    stacklevel=2,
                )
            elif isinstance(leaf, Variable):
                recorder = self._recorder or TapeRecorder(self._entries, self._variables, self._cuts, True)
                recorder.watch_variable(leaf)
                leaf._renew()  # what was read of it before is not followed
            else:
                self._entries.setdefault(leaf._read()._node.id, None)

    def stop_recording(self) -> AbstractContextManager[None]:
        """Pause this tape for the length of a ``with`` block.

        Raises:
            RuntimeError: if the tape is not recording.
        """
        return recorders.without(self._recording("stop_recording()", RuntimeError))

    def reset(self) -> None:
        """Forget everything recorded and watched so far.

        Raises:
            ValueError: if the tape is not recording.
        """
        recorder = self._recording("reset()", ValueError)
        self._stop()
        self._entries, self._variables, self._cuts, self._spent = {}, {}, [], False
        del recorder
        self.__enter__()

    def watched_variables(self) -> tuple[Variable, ...]:
        """The Variables watched so far, in the order of their creation."""
        return tuple(self._variables[k] for k in sorted(self._variables))

    # ---- what it holds
    def __len__(self) -> int:
        """The number of operations recorded."""
        return sum(1 for e in self._entries.values() if e and e[0].counts)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return described(self._recorder is not None, self._spent, self._persistent, len(self), self.nbytes)

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that are kept for the sweep, each buffer counted once.

        Tangents of accumulators count where they hang on something that is kept: they live as long.
        """
        return kept_bytes(self._entries)

    # ---- differentiating
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: str | UnconnectedGradients = "none",
    ) -> Any:
        """The gradient of the sum of the targets by each source.

        Args:
            target: a Tensor or Variable of any shape, or a nested structure of them, which are summed.
            sources: Tensors and Variables in any structure.
            output_gradients: a cotangent for each target, of a shape that broadcasts to the target's; ones if None.
            unconnected_gradients: ``"none"`` or ``"zero"``, what a source gets that no target depends on.

        Returns:
            Tensors (or None) in the structure of ``sources``, each with the shape and dtype of its source;
            ``IndexedSlices`` for a source that the target reads through ``gather`` alone. For complex sources, the
            conjugate of the holomorphic derivative.

        Raises:
            RuntimeError: on the second call, unless the tape is persistent.
            ValueError: for a cotangent that does not fit, or an unknown ``unconnected_gradients``.
            TypeError: if the target is None, or a source is not a Tensor or Variable.
        """
        zero = wants_zero(unconnected_gradients)
        if self._spent:
            raise RuntimeError(spent("gradient"))
        targets, _ = flatten(target)
        if target is None or (not targets and isinstance(target, (list, tuple)) and None in target):
            raise TypeError("gradient() needs a target, got None")
        found, rebuild = flatten(sources)
        for source in found:
            if not isinstance(source, Operand) or source.__class__ is IndexedSlices:
                raise TypeError(f"a source of a gradient is a Tensor or Variable, not {type(source).__name__}")
        if OPEN[0]:
            self._ensure_inside(*targets, *found)
        if not self._persistent:
            self._stop()
        cotangents = seeds(target, targets, output_gradients)
        self._spent = not self._persistent
        ids = cotangents.sparse = [s._node.id for s in found]
        everything = all(i in ids for i, e in self._entries.items() if e is None)
        result = sweep(self._entries, cotangents, ids, not self._persistent, everything)
        return rebuild(iter([finished(c, s, zero) for c, s in zip(result, found, strict=True)]))

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        *,
        chunk: int | None = None,
    ) -> Any:
        """The derivative of each element of the target by each element of the sources, by one sweep for all of them.

        Args:
            target: a Tensor or Variable.
            sources: Tensors and Variables in any structure.
            unconnected_gradients: ``"none"`` or ``"zero"``, what a source gets that the target does not depend on.
            parallel_iterations: TensorFlow's; it makes no difference.
            experimental_use_pfor: False for one sweep after the other, one for each element of the target; the tape
                must be persistent then.
            chunk: the number of elements of the target in one sweep. None: as many as fit into 256 MB, of which each
                takes as much as the tape keeps (``nbytes``), or as target and source if that is more.

        Returns:
            Tensors (or None) in the structure of ``sources``, of the target's shape followed by the source's: for each
            element of the target, what ``gradient`` returns for it.

        Raises:
            RuntimeError: on the second call, unless the tape is persistent.
            TypeError: if the target or a source is not a Tensor or Variable.

        Example:
            >>> import dualtape as dt
            >>> x = dt.constant([1.0, 2.0])
            >>> with dt.GradientTape() as tape:
            ...     tape.watch(x)
            ...     y = x * x
            >>> tape.jacobian(y, x)
            Tensor([[2., 0.],
                    [0., 4.]])
        """
        zero = wants_zero(unconnected_gradients)
        found, rebuild = flatten(sources)
        y = target_of("jacobian", target)
        recorded = self._recorded_for("jacobian", found, y, not experimental_use_pfor)
        blocks = jacobian(recorded, y, found, not experimental_use_pfor, chunk)
        self._used()
        return rebuild(
            iter(
                [
                    constant(np.zeros((*y.shape, *s.shape), s.dtype)) if block is None and zero else block
                    for block, s in zip(blocks, found, strict=True)
                ]
            )
        )

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        *,
        chunk: int | None = None,
    ) -> Any:
        """The Jacobian of each row of the target by the same row of the source, of which no other depends on it.

        Args:
            target: a Tensor or Variable of shape (b, ...).
            source: a Tensor or Variable of shape (b, ...).
            unconnected_gradients: as TensorFlow has it; unconnected derivatives are zeros in either case.
            parallel_iterations: TensorFlow's; it makes no difference.
            experimental_use_pfor: False for one sweep after the other; the tape must be persistent then.
            chunk: the number of elements of a row of the target in one sweep; as for ``jacobian``.

        Returns:
            A Tensor of the target's shape followed by that of a row of the source: (b, ..., ...).

        Raises:
            RuntimeError: on the second call, unless the tape is persistent.
            ValueError: for fewer than two axes, or first axes of different lengths.
            TypeError: if the target or the source is not a Tensor or Variable.

        Example:
            >>> import dualtape as dt
            >>> x = dt.constant([[1.0, 2.0], [3.0, 4.0]])
            >>> with dt.GradientTape() as tape:
            ...     tape.watch(x)
            ...     y = x * x
            >>> tape.batch_jacobian(y, x)
            Tensor([[[2., 0.],
                     [0., 4.]],
            <BLANKLINE>
                    [[6., 0.],
                     [0., 8.]]])
        """
        wants_zero(unconnected_gradients)
        y = target_of("batch_jacobian", target)
        recorded = self._recorded_for("batch_jacobian", [source], y, not experimental_use_pfor)
        found = batch_jacobian(recorded, y, source, not experimental_use_pfor, chunk)
        self._used()
        return found

    def _ensure_inside(self, *values: Any) -> None:
        """Refuse to look at single examples of a batch that this tape is around: it records all of them at once."""
        for x in values:
            value = x._value() if isinstance(x, Operand) else None
            if isinstance(value, Standin) and value.is_inside(self._recorder):
                raise Refused("a tape around vmap cannot be asked inside for the derivatives of single examples")

    def _recorded_for(
        self, what: str, sources: list[Any], target: Any, one_by_one: bool
    ) -> Recorded:
        """The entries of a tape that is about to be used, the identities of the sources, whether all watched are."""
        if self._spent:
            raise RuntimeError(spent(what))
        if one_by_one and not self._persistent:
            raise RuntimeError(
                f"{what}() with experimental_use_pfor=False sweeps over the tape many times: make it "
                "GradientTape(persistent=True), or leave the argument out"
            )
        for source in sources:
            if not isinstance(source, Operand) or isinstance(source, IndexedSlices):
                raise TypeError(f"a source of a derivative is a Tensor or Variable, not {type(source).__name__}")
        self._ensure_inside(target, *sources)
        if not self._persistent:
            self._stop()
        ids = [s._node.id for s in sources]
        return self._entries, ids, all(i in ids for i, e in self._entries.items() if e is None)

    def _used(self) -> None:
        """Let go of what was recorded, unless the tape is persistent."""
        if not self._persistent:
            self._spent = True
            self._entries.clear()

    def why(self, target: Any, source: Any) -> str:
        """Why the gradient of ``target`` by ``source`` is None (or that it is not).

        Args:
            target: a Tensor or Variable.
            source: a Tensor or Variable.

        Returns:
            A sentence naming the operation, and the source line, that cut the path. A tape that is not persistent
            can be asked before ``gradient``, which lets go of what it recorded.
        """
        return why(self._entries, self._cuts, self._spent and not self._persistent, target, source)
