"""Tensor: a handle on a node, which is a value and an identity; answers NumPy's protocols and knows no mode.

Length: a third of it is declarations. The operators and array methods are attached by ``dualtape.ops``, and
type checkers only find what the class itself declares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from operator import index
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dualtape.core import recorders
from dualtape.core.lookup import ASKED, INSTEAD, TABLE, UFUNC_METHODS, find, unknown
from dualtape.core.standin import Standin
from dualtape.memory.reserve import copied_once

new = object.__new__
new_id = count(1).__next__


class Node:
    """A value and an identity; it never changes. Accumulators hang their tangents on it, under their own keys."""

    __slots__ = ("id", "tangents", "value")

    def __init__(self, value: Any, id: int | None = None) -> None:
        self.value = value
        self.id = new_id() if id is None else id
        self.tangents: dict[int, Any] | None = None


class Operand:
    """What Tensors and Variables share: attributes of an array, NumPy's protocols, conversions.

    The operators and the array methods are put here by the modules in ``dualtape.ops``; the declarations at the
    end are for type checkers.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # == is elementwise; use ref()
    # A column of pandas (3000; a frame 4000) leaves ``column * x`` to x, as it does ``x * column``.
    __pandas_priority__ = 5000

    _node: Any  # a slot of each subclass

    def _read(self) -> Tensor:
        raise NotImplementedError

    def _value(self) -> Any:
        """The value, without telling anyone it was read."""
        raise NotImplementedError

    # ---- what an array has
    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, a tuple of ints."""
        return self._value().shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return self._value().dtype  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value().ndim  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._value().size  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """The bytes of the value."""
        return self._value().nbytes  # type: ignore[no-any-return]

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self._value().itemsize  # type: ignore[no-any-return]

    @property
    def device(self) -> str:
        """Always ``"cpu"`` (the Array API asks)."""
        return "cpu"

    def numpy(self) -> Any:
        """The value as NumPy has it: a read-only array, or a scalar. The derivative is not carried along.

        Returns:
            An ndarray that cannot be written to, or a NumPy scalar for shape ().

        Example:
            >>> import dualtape as dt
            >>> dt.constant([1.0, 2.0]).numpy()
            array([1., 2.])
        """
        x = self._read()
        stack = recorders.STACK.get()
        if stack:
            x._tell("value", x._node.value, stack)
        return read_only(x._node.value)

    def ref(self) -> Reference:
        """A hashable stand-in for this object (``==`` on Tensors is elementwise); ``deref()`` gives it back."""
        return Reference(self)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of a 0-d Tensor")
        return shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        shape = self.shape
        if not shape:
            raise TypeError("iteration over a 0-d Tensor")
        x = self._read()
        return (x[i] for i in range(shape[0]))

    # ---- leaving the world of Tensors: only where nothing is lost
    def _leave(self, what: str, asked: str = "value") -> Any:
        x = self._read()
        stack = recorders.STACK.get()
        if not stack:
            return x._node.value
        if x.dtype.kind in "fc" and recorders.has_derivative(x._node):
            where = called_from()
            write = INSTEAD.get(where, "operations on Tensors (NumPy's functions, dualtape.special, dualtape.linalg)")
            raise TypeError(
                f"{what} of a Tensor of shape {x.shape}{where and ', in '}{where}, while a tape or accumulator follows "
                f"it, would lose its derivative. Use {write}; instead of writing it into an ndarray, start from "
                "dualtape.zeros_like or dualtape.asarray; join several with np.stack; or say .numpy() if the "
                "derivative is to end here"
            )
        x._tell(asked, ASKED[asked].kernel(x._node.value), stack)
        return x._node.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        x = self._read()
        standin = isinstance(x._node.value, Standin)
        followed = recorders.STACK.get() and x.dtype.kind in "fc" and recorders.is_tracked(x._node)
        if not x.shape and (standin or followed):
            # np.array([t1, t2]) asks each of its items for an array and would take the numbers alone. A 0-d object
            # array holding the Tensor itself keeps the derivative; operations stack such arrays again. Not so of
            # complex numbers: NumPy answers for .real, .imag and the order of objects without asking them.
            # (A function of scipy.special would go on with a ufunc that has no loop for objects.)
            asking = sys._getframe(1).f_globals.get("__name__", "")
            if (dtype is None or dtype_of(dtype) is OBJECT) and not asking.startswith("scipy.special"):
                if x.dtype.kind == "c":
                    raise TypeError(
                        "an array of objects that are complex Tensors would lose their values in .real, .imag, norms "
                        "and more of NumPy's, which do not ask them: join them with np.stack or dualtape.asarray"
                    )
                held = np.empty((), object)
                held[()] = x
                return held
        value = np.asarray(self._leave("conversion to an array"))
        if dtype is not None and dtype_of(dtype) != value.dtype:
            return value.astype(dtype)
        return value.copy() if copy else np.asarray(read_only(value))

    def __float__(self) -> float:
        return float(self._leave("float()"))

    def __int__(self) -> int:
        return int(self._leave("int()", "position"))

    def __complex__(self) -> complex:
        return complex(self._leave("complex()"))

    def __index__(self) -> int:
        found = index(self._value())
        stack = recorders.STACK.get()
        if stack:
            self._tell("position", found, stack)
        return found

    def __bool__(self) -> bool:
        found = bool(self._value())
        stack = recorders.STACK.get()
        if stack:
            self._tell("truth", found, stack)
        return found

    def _tell(self, asked: str, found: Any, stack: Any) -> None:
        """Tell recorders what Python goes on with."""
        for r in stack:
            if r.entries is None:
                node = getattr(self, "_node", None) or self._read()._node
                r.see(ASKED[asked], None, (), (node,), (), {"found": found}, stack)

    def _asked(self, question: Callable[[Any], bool], unknown: bool) -> bool:
        """What ``some``, ``every`` or ``finite`` say of it: not known, if the program is to be carried out again."""
        value = self._value()
        return unknown if not isinstance(value, Standin) and recorders.is_fact(self._node) else question(value)

    def item(self, *index: Any) -> Any:
        """One element as a Python scalar; raises while a recorder follows the Tensor."""
        return self._leave("item()").item(*index)

    def tolist(self) -> Any:
        """Nested Python lists; raises while a recorder follows the Tensor."""
        return self._leave("tolist()").tolist()

    def __format__(self, spec: str) -> str:
        value = self._value()
        return format(value if spec and not value.shape else str(self), "" if value.shape else spec)

    # ---- NumPy's protocols
    if not TYPE_CHECKING:  # or every misspelt attribute would pass

        def __getattr__(self, name: str) -> Any:
            # np.exp of an object array (what np.array([t1, t2]) is) calls the method "exp" of each element.
            if not name.startswith("_"):
                function = getattr(np, name, None)
                if isinstance(function, np.ufunc) and function in TABLE:
                    return lambda *others: TABLE[function](self, *others)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        call = TABLE.get(ufunc) or find(ufunc)
        if call is None:
            return unfollowed(getattr(ufunc, method), partial(unknown, ufunc), inputs, kwargs)
        if method == "__call__" and not kwargs:
            return call(*inputs)
        return UFUNC_METHODS[0](ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        call = TABLE.get(func) or find(func)
        if call is None:
            return unfollowed(func, partial(unknown, func), args, kwargs)
        if "a" in kwargs:  # NumPy's own name of the first operand
            args = (kwargs.pop("a"), *args)
        return call(*args, **kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return sys.modules["dualtape"]

    # ---- what dualtape.ops puts here
    if TYPE_CHECKING:

        def __add__(self, other: Any, /) -> Tensor: ...
        def __radd__(self, other: Any, /) -> Tensor: ...
        def __sub__(self, other: Any, /) -> Tensor: ...
        def __rsub__(self, other: Any, /) -> Tensor: ...
        def __mul__(self, other: Any, /) -> Tensor: ...
        def __rmul__(self, other: Any, /) -> Tensor: ...
        def __truediv__(self, other: Any, /) -> Tensor: ...
        def __rtruediv__(self, other: Any, /) -> Tensor: ...
        def __floordiv__(self, other: Any, /) -> Tensor: ...
        def __rfloordiv__(self, other: Any, /) -> Tensor: ...
        def __mod__(self, other: Any, /) -> Tensor: ...
        def __rmod__(self, other: Any, /) -> Tensor: ...
        def __pow__(self, other: Any, /) -> Tensor: ...
        def __rpow__(self, other: Any, /) -> Tensor: ...
        def __matmul__(self, other: Any, /) -> Tensor: ...
        def __rmatmul__(self, other: Any, /) -> Tensor: ...
        def __and__(self, other: Any, /) -> Tensor: ...
        def __rand__(self, other: Any, /) -> Tensor: ...
        def __or__(self, other: Any, /) -> Tensor: ...
        def __ror__(self, other: Any, /) -> Tensor: ...
        def __xor__(self, other: Any, /) -> Tensor: ...
        def __rxor__(self, other: Any, /) -> Tensor: ...
        def __lshift__(self, other: Any, /) -> Tensor: ...
        def __rlshift__(self, other: Any, /) -> Tensor: ...
        def __rshift__(self, other: Any, /) -> Tensor: ...
        def __rrshift__(self, other: Any, /) -> Tensor: ...
        def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]  # elementwise
        def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]  # elementwise
        def __lt__(self, other: Any, /) -> Tensor: ...
        def __le__(self, other: Any, /) -> Tensor: ...
        def __gt__(self, other: Any, /) -> Tensor: ...
        def __ge__(self, other: Any, /) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __floor__(self) -> Tensor: ...
        def __ceil__(self) -> Tensor: ...
        def __trunc__(self) -> Tensor: ...
        def __round__(self, decimals: int = 0, /) -> Tensor: ...
        def __getitem__(self, index: Any, /) -> Tensor: ...
        @property
        def T(self) -> Tensor: ...
        @property
        def mT(self) -> Tensor: ...
        @property
        def real(self) -> Tensor: ...
        @property
        def imag(self) -> Tensor: ...
        @property
        def flat(self) -> Iterator[Tensor]: ...
        def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> Tensor: ...
        def transpose(self, *axes: Any) -> Tensor: ...
        def astype(self, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor: ...
        def copy(self, order: str = "K", subok: bool = False) -> Tensor: ...
        def ravel(self, order: str = "C") -> Tensor: ...
        def flatten(self, order: str = "C") -> Tensor: ...
        def squeeze(self, axis: Any = None) -> Tensor: ...
        def swapaxes(self, axis1: int, axis2: int) -> Tensor: ...
        def repeat(self, repeats: Any, axis: int | None = None) -> Tensor: ...
        def take(self, indices: Any, /, axis: int | None = None, out: Any = None, mode: str = "raise") -> Tensor: ...
        def dot(self, y: Any, out: Any = None) -> Tensor: ...
        def conj(self) -> Tensor: ...
        def conjugate(self) -> Tensor: ...
        def clip(self, min: Any = None, max: Any = None) -> Tensor: ...
        def trace(
            self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
        ) -> Tensor: ...
        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor: ...
        def sum(
            self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
            where: Any = True
        ) -> Tensor: ...
        def mean(
            self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
        ) -> Tensor: ...
        def prod(
            self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
            where: Any = True
        ) -> Tensor: ...
        def max(
            self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
        ) -> Tensor: ...
        def min(
            self, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True
        ) -> Tensor: ...
        def var(
            self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
            correction: Any = None, where: Any = True
        ) -> Tensor: ...
        def std(
            self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
            correction: Any = None, where: Any = True
        ) -> Tensor: ...
        def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor: ...
        def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Tensor: ...
        def ptp(self, axis: Any = None, out: Any = None, keepdims: Any = False) -> Tensor: ...
        def round(self, decimals: int = 0) -> Tensor: ...
        def all(self, axis: Any = None, *, keepdims: Any = False) -> Tensor: ...
        def any(self, axis: Any = None, *, keepdims: Any = False) -> Tensor: ...
        def argmax(self, axis: Any = None, *, keepdims: Any = False) -> Tensor: ...
        def argmin(self, axis: Any = None, *, keepdims: Any = False) -> Tensor: ...
        def argsort(self, axis: int | None = -1, *, kind: Any = None) -> Tensor: ...
        def nonzero(self) -> tuple[Tensor, ...]: ...


class Tensor(Operand):
    """An immutable array that tapes and accumulators can follow; made by ``constant`` and by every operation.

    NumPy's functions, operators, indexing and array methods work on it and return Tensors. Item assignment
    gives this handle a new value; whatever was computed or recorded from the old one keeps it.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> x = dt.constant([0.0, 1.0])
        >>> np.exp(x) + 1
        Tensor([2.        , 3.71828183])
    """

    __slots__ = ("__weakref__", "_base", "_former", "_node", "_views")

    _node: Node
    if TYPE_CHECKING:  # see Operand

        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __iadd__(self, other: Any, /) -> Tensor: ...
        def __isub__(self, other: Any, /) -> Tensor: ...
        def __imul__(self, other: Any, /) -> Tensor: ...
        def __itruediv__(self, other: Any, /) -> Tensor: ...
        def __ipow__(self, other: Any, /) -> Tensor: ...

    # Of views: owner, kind and argument of the cut; of owners: weak references to their views (``ops/views.py``).
    # Both are unset on other Tensors.
    _base: tuple[Any, Any, Any]
    _views: list[Any]
    # Of what was written in place: the identities of its first value and of the one before this, for ``why``.
    _former: tuple[int, int]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        raise TypeError("make a Tensor with dualtape.constant(value)")

    def _read(self) -> Tensor:
        return self

    def _value(self) -> Any:
        return self._node.value

    def __repr__(self) -> str:
        if isinstance(self._node.value, Standin):
            return f"Tensor({self._node.value!r})"
        text = np.array2string(np.asarray(self._node.value), separator=", ", prefix="Tensor(")
        dtype = self.dtype
        return f"Tensor({text})" if dtype in (np.float64, np.bool_, np.int64) else f"Tensor({text}, dtype={dtype})"

    def __str__(self) -> str:
        return str(self._node.value)

    def __copy__(self) -> Tensor:
        return wrap(self._node)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return wrap(self._node)

    def __reduce__(self) -> Any:
        # (Often in a thread of a pool that feeds its processes.)
        what = "pickling (nothing follows it to another process: use threads, or differentiate over there)"
        return tensor, (np.array(self._leave(what))[()],)


def unfollowed(function: Callable[..., Any], refusal: Callable[[], str], args: Any, kwargs: Any) -> Any:
    """What NumPy itself does with the values of Tensors that nobody follows; others are refused."""

    def value_of(a: Any) -> Any:
        if isinstance(a, Operand):
            x = a._read()
            if isinstance(x._node.value, Standin) or recorders.is_tracked(x._node):
                raise TypeError(refusal())
            return x.numpy()
        return type(a)([value_of(b) for b in a]) if type(a) in (list, tuple) else a

    return function(*value_of(args), **{k: value_of(a) for k, a in kwargs.items()})


def called_from() -> str:
    """The function of SciPy's that was called and asked, by its public name; empty if none did."""
    frame: Any = sys._getframe(1)
    found = ""
    while frame is not None:
        library, *rest = frame.f_globals.get("__name__", "").split(".")
        if library == "scipy":  # (what begins with an underscore is inside)
            found = ".".join(["scipy", *[part for part in rest if part[0] != "_"], frame.f_code.co_name])
        elif library not in ("dualtape", "numpy", "functools", "contextlib"):
            break
        frame = frame.f_back
    return found


class Reference:
    """A hashable stand-in for a Tensor or Variable, equal to another when both stand for the same object."""

    __slots__ = ("_held",)

    def __init__(self, held: Operand) -> None:
        self._held = held

    def deref(self) -> Any:
        """The object it stands for."""
        return self._held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._held is self._held

    def __hash__(self) -> int:
        return id(self._held)

    def __repr__(self) -> str:
        return f"<Reference to {self._held!r}>"


def wrap(node: Node) -> Tensor:
    """A handle on ``node``."""
    t: Tensor = new(Tensor)
    t._node = node
    return t


def tensor(value: Any) -> Tensor:
    """A Tensor with an identity of its own on ``value`` as it stands (no copy: for arrays nobody else writes)."""
    n: Node = new(Node)
    n.value = value
    n.id = new_id()
    n.tangents = None
    t: Tensor = new(Tensor)
    t._node = n
    t._views = []  # arguments are sliced more often than not
    return t


def read_only(value: Any) -> Any:
    """A view that cannot be written through (scalars as they are)."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value.detached() if isinstance(value, Standin) else value


def frozen(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``value`` itself if nobody can write to its memory, else a copy: a tape must not see later changes."""
    base: Any = value
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return copied_once(value)
        base = base.base
    return value if base is None else copied_once(value)


def hold(kept: Any) -> Any:
    """What a tape keeps, as it may keep it: arrays and lists that somebody could still write to are copied."""
    if isinstance(kept, np.ndarray):
        return frozen(kept)
    kind = kept.__class__
    return kind([hold(a) for a in kept]) if kind is tuple or kind is list else kept


def has_tensor(value: Any) -> bool:
    """Whether nested sequences or an object array hold a Tensor or Variable."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(has_tensor(v) for v in value.flat)
    if isinstance(value, (list, tuple)):
        return any(has_tensor(v) for v in value)
    return isinstance(value, Operand)


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """A dtype as NumPy's functions read it: ``np.dtype`` itself takes the classes in ``np.dtypes`` for object."""
    return np.empty(0, dtype).dtype  # type: ignore[no-any-return]


OBJECT = np.dtype(object)
SCALARS = (float, int, bool, complex, np.generic)


def operand(value: Any) -> Any:
    """What an operation works on: a Tensor where a derivative may be carried, else a raw array or number."""
    kind = value.__class__
    if kind is Tensor or kind is float or kind is int:
        return value
    if kind is np.ndarray and value.dtype is not OBJECT:
        return value
    if isinstance(value, Operand):
        return value._read()
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask: pass its data, and its mask to np.where")
    if isinstance(value, np.ndarray):
        return joined(value.tolist()) if has_tensor(value) else np.asarray(value)  # no memory map, no matrix
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, (list, tuple)):
        return joined(value) if has_tensor(value) else np.asarray(value)
    if isinstance(value, Standin):
        return tensor(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise TypeError(f"expected a number, an array or a Tensor, got {type(value).__name__}")


def joined(value: Any) -> Any:
    """Nested sequences that hold Tensors, as one Tensor."""
    if isinstance(value, (list, tuple)):
        return np.stack([joined(v) for v in value]) if has_tensor(value) else np.asarray(value)
    return operand(value)


def raw(value: Any) -> Any:
    """The NumPy value behind a Tensor or Variable, or a stand-in followed by nobody; anything else as it is."""
    if value.__class__ is Tensor:
        value = value._node.value
    elif isinstance(value, Operand):
        value = value._value()
    else:
        return value
    return value.detached() if isinstance(value, Standin) else value


def among(values: Any, best: Any = None) -> Any:
    """The stand-in with the highest number in nested sequences and dicts, also in nodes and Tensors; or None."""
    for a in values:
        if a.__class__ is Tensor:
            a = a._node.value
        elif a.__class__ is Node:
            a = a.value
        if isinstance(a, Standin):
            if best is None or a.number > best.number:
                best = a
        elif isinstance(a, (tuple, list)):
            best = among(a, best)
        elif a.__class__ is dict:
            best = among(a.values(), best)
    return best


def opened(a: Any, raw: bool) -> Any:
    """What a rule sees of something an entry keeps: under outer recorders a Tensor, if one of them follows it."""
    if a.__class__ is Node:
        if not raw:
            for r in recorders.STACK.get():
                if r.tracks(a):
                    return wrap(a)
        return a.value
    if a.__class__ is tuple:
        return tuple([opened(b, raw) for b in a])
    return a


def masks(a: Any) -> bool:
    """Whether an operand is of booleans: a product with it selects, and an entry keeps it in a tuple to say so."""
    v = a.value if a.__class__ is Node else a
    return hasattr(v, "dtype") and v.dtype.kind == "b"
