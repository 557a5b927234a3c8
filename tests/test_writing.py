"""Arrays that are written to: random programs of views, writes, loops and reductions, against NumPy itself.

A program is a text. It runs on Tensors, in both modes, and on plain NumPy object arrays of hyper-dual numbers, which
carry first and second derivatives through any program: there NumPy alone decides what is a view and what is a copy, and
in which order the elements lie in memory.

Length: an oracle, a generator, and what is compared in each way of running a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as dt
from dualtape.batching.batch import Batch
from dualtape.batching.level import Level
from dualtape.core.tensor import tensor
from dualtape.ops import shaping
from dualtape.ops.views import root


# ------------------------------------------------------------------ the oracle
class HyperDual:
    """a + b e + c d + k e d with e^2 = d^2 = 0: a value, its slopes along two directions, and what is mixed of them."""

    __slots__ = ("a", "b", "c", "k")

    def __init__(self, a: float, b: float = 0.0, c: float = 0.0, k: float = 0.0) -> None:
        self.a, self.b, self.c, self.k = a, b, c, k

    def through(self, f: float, df: float, ddf: float) -> HyperDual:
        """A function of it, by its value and derivatives."""
        return HyperDual(f, df * self.b, df * self.c, df * self.k + ddf * self.b * self.c)

    def __add__(self, other: Any) -> HyperDual:
        o = as_hyper(other)
        return HyperDual(self.a + o.a, self.b + o.b, self.c + o.c, self.k + o.k)

    def __mul__(self, other: Any) -> HyperDual:
        o = as_hyper(other)
        k = self.a * o.k + self.k * o.a + self.b * o.c + self.c * o.b
        return HyperDual(self.a * o.a, self.a * o.b + self.b * o.a, self.a * o.c + self.c * o.a, k)

    def __neg__(self) -> HyperDual:
        return HyperDual(-self.a, -self.b, -self.c, -self.k)

    def __sub__(self, other: Any) -> HyperDual:
        return self + -as_hyper(other)

    def __rsub__(self, other: Any) -> HyperDual:
        return as_hyper(other) + -self

    def __truediv__(self, other: Any) -> HyperDual:
        o = as_hyper(other)
        return self * o.through(1 / o.a, -1 / o.a**2, 2 / o.a**3)

    def __rtruediv__(self, other: Any) -> HyperDual:
        return as_hyper(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, n: Any) -> HyperDual:
        n = as_hyper(n).a
        return self.through(self.a**n, n * self.a ** (n - 1), n * (n - 1) * self.a ** (n - 2))

    def __gt__(self, other: Any) -> bool:
        return self.a > as_hyper(other).a

    def __lt__(self, other: Any) -> bool:
        return self.a < as_hyper(other).a

    def sin(self) -> HyperDual:
        return self.through(math.sin(self.a), math.cos(self.a), -math.sin(self.a))

    def cos(self) -> HyperDual:
        return self.through(math.cos(self.a), -math.sin(self.a), -math.cos(self.a))

    def tanh(self) -> HyperDual:
        y = math.tanh(self.a)
        return self.through(y, 1 - y * y, -2 * y * (1 - y * y))

    def exp(self) -> HyperDual:
        y = math.exp(self.a)
        return self.through(y, y, y)

    def conjugate(self) -> HyperDual:
        return self


def as_hyper(x: Any) -> HyperDual:
    return x if isinstance(x, HyperDual) else HyperDual(float(x))


def zeros_of(shape: Any) -> Any:
    z = np.empty(shape, object)
    for place in np.ndindex(z.shape):
        z[place] = HyperDual(0.0)
    return z


# ------------------------------------------------------------------ programs
class Writer:
    """Writes a program line by line, carrying each out on floats, so that it knows shapes and keeps numbers tame."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        shape = [(4,), (2, 3), (3, 3), (2, 3, 2), (6,), (1, 4), (3, 2, 2)][self.draw(7)]
        u = self.rng.uniform(0.5, 1.5, shape)
        self.u = [u, np.asfortranarray(u), np.ascontiguousarray(u.T).T][self.draw(3)]
        self.lines = ["a0 = u * 1.0"]
        self.names = ["a0"]
        self.refused = ""
        self.here = self.run()

    def draw(self, n: int) -> int:
        return int(self.rng.integers(n))

    def pick(self, *choices: Any) -> Any:
        return choices[self.draw(len(choices))]

    def run(self, lines: Any = None) -> dict[str, Any]:
        return carried_out(self.lines if lines is None else lines, self.u.copy("K"), np.zeros)

    def shape(self, name: str) -> tuple[int, ...]:
        return np.shape(self.here[name])

    # ---- parts of lines
    def name(self, axes: int = 0) -> str:
        """A variable, of so many axes at least if there is one."""
        fit = [n for n in self.names if len(self.shape(n)) >= axes] or self.names
        return fit[self.draw(len(fit))]

    def integer(self, n: int) -> int:
        return self.draw(2 * n) - n if n else 0

    def cut(self, n: int) -> str:
        return str(
            self.pick(":", ":", f"{self.integer(n)}:", f":{self.integer(n)}", "::2", "1:", ":-1", "::-1", "1::2")
        )

    def basic(self, shape: Any) -> str:
        """A basic index."""
        parts = [str(self.integer(n)) if self.draw(3) == 0 and n else self.cut(n) for n in shape]
        parts = parts[: self.draw(len(parts) + 1)] if self.draw(3) == 0 else parts
        if self.draw(4) == 0:
            parts.insert(self.draw(len(parts) + 1), self.pick("None", "...", "..."))
        return ", ".join(parts) or "..."

    def advanced(self, shape: Any) -> str:
        """An index with arrays in it."""
        parts = []
        for n in shape:
            some = f"[{self.integer(n)}, {self.integer(n)}]" if n else ":"
            parts.append(self.pick(some, some, self.cut(n), str(self.integer(n))))
        if self.draw(4) == 0:
            parts.insert(self.draw(len(parts) + 1), self.pick("None", "..."))
        return ", ".join(parts)

    def axis(self, shape: Any) -> int:
        return self.draw(max(len(shape), 1))

    def view(self, a: str) -> str:
        """An expression that NumPy makes a view of, or a copy, as the order in memory says."""
        s = self.shape(a)
        n, size, k = len(s), int(np.prod(s)), self.axis(s)
        order = self.pick("C", "C", "F", "A")
        to = self.pick((-1,), (size,), s[::-1], (*s, 1), (1, *s), (2, -1), (-1, 2), (-1, 3), (3, -1), (2, 2, -1))
        forms = [
            f"{a}[{self.basic(s)}]", f"{a}[{self.basic(s)}]", f"{a}[{self.basic(s)}]",
            f"{a}.reshape({to}, order={order!r})", f"np.reshape({a}, {to})", f"{a}.reshape({to})",
            f"{a}.ravel({order!r})", f"np.ravel({a})", f"{a}.ravel('K')",
            f"{a}.T", f"np.flip({a})", f"np.flip({a}, {k})", f"np.squeeze({a})", f"np.expand_dims({a}, {k})",
            f"np.atleast_{self.draw(3) + 1}d({a})", f"np.array_split({a}, 2, {k})[{self.draw(2)}]",
            f"np.real({a})", f"{a}.real",
        ]  # fmt: skip
        if n:
            forms.append(f"np.broadcast_arrays({a}, {a})[0]")
        if n > 1:
            j = self.axis(s)
            forms += [
                f"np.swapaxes({a}, {k}, {j})", f"np.moveaxis({a}, {k}, {j})", f"np.rot90({a}, {self.draw(5)})",
                f"np.diagonal({a})", f"{a}.mT", f"np.transpose({a})",
            ]  # fmt: skip
        if n == 2:
            forms += [f"np.diag({a})", f"np.einsum('ij->ji', {a})", f"np.einsum('ij', {a})"]
            if s[0] == s[1]:
                forms += [f"np.einsum('ii->i', {a})", f"np.einsum('ii->i', {a})"]
        return str(self.pick(*forms))

    def value(self, a: str) -> str:
        """An expression of new values in the shape of a."""
        b, c = self.name(), self.pick("0.5", "1.25", "-0.75")
        return str(
            self.pick(
                f"np.sin({a})", f"np.cos({a}) * {c}", f"np.tanh({a})", f"{a} * {c}", f"{a} + {b}", f"{a} * {b}",
                f"{c} - {a}", f"{a} / (2.0 + {a} * {a})", f"np.exp({a} * 0.1)", f"np.where({a} > 0.9, {a}, {c} * {a})",
                f"{a} - {b} * {c}", f"1.0 / (1.5 + {a} ** 2)",
            )
        )  # fmt: skip

    def copy(self, a: str) -> str:
        s = self.shape(a)
        k, order = self.axis(s), self.pick("C", "F", "A", "K")
        forms = [
            f"{a}.copy()", f"{a}.copy({order!r})", f"np.copy({a})", f"{a}.flatten()", f"{a}.flatten({order!r})",
            f"{a}.astype({a}.dtype)", f"np.reshape({a}, (-1,), copy=True)", f"np.concatenate([{a}, {a}], {k})",
            f"np.stack([{a}, {a}], {k})", f"np.tile({a}, 2)", f"np.repeat({a}, 2, {k})", f"np.roll({a}, 1, {k})",
            f"np.cumsum({a}, {k}) * 0.5", f"np.sum({a}, {k})", f"np.mean({a}, {k})", f"{a}[{self.advanced(s)}]",
            f"np.take({a}, [0, -1], {k})", f"np.outer({a}, {self.name()})", f"np.meshgrid({a}, {a})[{self.draw(2)}]",
            f"np.pad({a}, 1) + 0.25",
        ]  # fmt: skip
        if len(s) > 1:
            forms += [f"{a} @ np.ones({(s[-1], 2)})", f"np.tril({a})", f"np.einsum('ij->i', {a})"]
        return str(self.pick(*forms))

    def source(self, a: str) -> str:
        """What is written: a number, other arrays, parts of the array itself."""
        b = self.name()
        text = self.pick(
            "num(0.25)", "num(0.0)", f"{b}", f"{a}", f"np.flip({a})", f"{a}[::-1]", f"{b} * 0.5", f"np.sin({b})",
            f"np.sum({b})", f"{a} + {b}", f"{a}.T", f"{a}[0]", f"{b}[-1]", f"{a}[{self.basic(self.shape(a))}]",
        )  # fmt: skip
        try:
            found = eval(text, dict(self.here))
        except (IndexError, ValueError):
            return str(text)  # NumPy will refuse the line
        # (An object array without axes that is written into itself makes NumPy count references wrongly, and crash.)
        return "num(0.25)" if isinstance(found, np.ndarray) and not found.shape else str(text)

    def write(self) -> list[str]:
        """Lines that write."""
        a = self.name(1)
        s = self.shape(a)
        i = self.basic(s)
        sign, numbers = self.pick("+", "-", "*"), f"np.arange(1.0, {int(np.prod(s)) + 1}).reshape({s}) * 0.25"
        return list(
            self.pick(
                [f"{a}[{i}] = {self.source(a)}"],
                [f"{a}[{i}] = {self.source(a)}"],
                [f"{a}[{i}] {sign}= {self.source(a)}"],
                [f"{a}[{self.advanced(s)}] = {self.source(a)}"],
                [f"{a}[{self.advanced(s)}] {sign}= {self.source(a)}"],
                [f"{a}[{a} > {self.pick(0.5, 0.9, 1.1)}] {self.pick('', sign)}= {self.pick('num(0.5)', 'num(-0.25)')}"],
                [f"{a}[None] = np.flip({a})"],
                [f"{a} {sign}= {self.source(a)}"],
                [f"{a} {sign}= {self.value(a)}"],
                [f"{a} /= 2.0 + {a} * {a}"],
                [f"{a} **= 2"],
                [f"{a} *= {numbers}"],
                [f"{self.view(a)}[...] = {self.source(a)}"],
                [f"{self.view(a)}[...] = {self.source(a)}"],
                [f"{self.view(a)}[0] {sign}= {self.source(a)}"],
                [f"v = {self.view(a)}", f"v {sign}= {self.source(a)}"],
                [f"v = {self.view(a)}", f"v {sign}= {self.value(a)}"],
                [f"np.{self.pick('multiply', 'add', 'subtract')}({a}, {self.source(a)}, out={a})"],
                [f"np.{self.pick('multiply', 'add')}({a}[1:], {a}[:-1], out={a}[{self.pick('1:', ':-1')}])"],
                [f"np.sin({a}, out={self.view(a)})"],
                [f"np.{self.pick('add', 'multiply')}.at({a}, {self.pick([0, 0], [-1, 0, -1], [0])}, {self.source(a)})"],
                [f"np.add.at({a}, {self.pick('[0, 0]', '[-1, -1]')}, {a}[:2])"],
                [f"np.fill_diagonal({a}, {self.pick('num(0.5)', f'np.sum({a})')})"],
                [f"for row in {a}: row {sign}= {self.pick('0.5', self.name(), 'row')}"],
                [f"for k in range(1, {s[0] if s else 1}): {a}[k] {sign}= {a}[k - 1] * 0.5"],
                [f"for k in range({s[0] if s else 1}): {a}[k] = {a}[-1 - k] * {self.pick(0.5, 1.0)}"],
                [f"{a}[0], {a}[-1] = {a}[-1], {a}[0]"],
                [f"{a} @= np.full({(s[-1:] * 2)}, 0.25)"],
                [f"w = {self.view(a)}", "v = w.T", f"v {sign}= 0.5", "w[0] = num(0.25)"],
            )
        )

    def step(self) -> None:
        """One more line or two, if NumPy takes them."""
        new = f"a{len(self.names)}"
        choice = self.draw(10)
        if choice < 3 and len(self.names) < 9:
            lines, names = [f"{new} = {self.view(self.name())}"], [new]
        elif choice < 4 and len(self.names) < 9:
            lines, names = [f"{new} = {self.pick(self.copy, self.value)(self.name(1))}"], [new]
        elif choice < 5 and len(self.names) < 9:
            s = self.shape(self.name())
            lines, names = [f"{new} = {self.pick(f'zeros({s})', self.name())}"], [new]
        else:
            lines, names = self.write(), []
        program = self.lines + lines
        try:
            here = self.run(program)
        except Exception as error:
            if "read-only" in str(error):
                self.refused = self.refused or "\n".join(program)
            return
        if ".at(" in lines[-1] and not getattr(here[lines[-1].split("(")[1].split(",")[0]].flags, "writeable", True):
            return  # ufunc.at forgets to ask
        values = [here[n] for n in self.names + names]
        if all(np.size(v) <= 64 and np.ndim(v) <= 4 and np.size(v) and np.all(np.abs(v) < 30) for v in values):
            self.lines, self.names, self.here = program, self.names + names, here


def carried_out(lines: Any, u: Any, zeros: Any, num: Any = float) -> dict[str, Any]:
    here: dict[str, Any] = {"np": np, "u": u, "zeros": zeros, "num": num}
    exec("\n".join(lines), here)
    return here


def outcome(here: dict[str, Any], names: list[str]) -> Any:
    """A number to which every element of every variable contributes in its own way."""
    total: Any = 0.0
    for j, name in enumerate(names):
        shape = np.shape(here[name])
        weights = np.cos(np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape) + j)
        total = total + np.sum(here[name] * weights)
    return total


def strides(a: Any) -> Any:
    """Of what can be written, those that mean something."""
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] if isinstance(a, np.ndarray) else None


def written(seed: int, length: int = 12, kind: Any = Writer) -> Any:
    w = kind(seed)
    for _ in range(length):
        w.step()
    return w


def compare(w: Writer) -> bool:
    """Value, both modes, second order and the order in memory of a program, on Tensors and on hyper-dual numbers."""
    n = w.u.size
    v, d = (w.rng.normal(size=n).reshape(w.u.shape) for _ in range(2))
    hyper = np.empty_like(w.u, dtype=object)
    for place in np.ndindex(w.u.shape):
        hyper[place] = HyperDual(w.u[place], v[place], d[place])
    try:
        right = as_hyper(outcome(carried_out(w.lines, hyper, zeros_of, HyperDual), w.names))
    except (AttributeError, TypeError):  # an object array has numbers in it that are none of ours
        return False

    def f(u: Any) -> Any:
        return outcome(carried_out(w.lines, u, dt.zeros), w.names)

    value, slope = dt.value_and_grad(f)(w.u)
    push = dt.jvp(f, (w.u,), (v,))[1]
    curved = dt.hvp(f, w.u, v)
    found = float(value), float(np.sum(np.asarray(slope) * v)), float(push), float(np.sum(np.asarray(curved) * d))
    wanted = right.a, right.b, right.b, right.k
    assert np.allclose(found, wanted, rtol=1e-8, atol=1e-8), (found, wanted)
    here = carried_out(w.lines, dt.copy(dt.constant(w.u)), dt.zeros)
    for name in w.names:
        mine, its = here[name].numpy(), w.here[name]
        assert np.allclose(mine, its), name
        assert strides(np.asarray(mine)) == strides(np.asarray(its)), (name, np.asarray(mine).strides, its.strides)
    return True


# ------------------------------------------------------------------ complex numbers: real and imaginary parts are views
class ComplexWriter(Writer):
    """The same of complex numbers, whose parts are written too."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.lines = ["a0 = u * (1.0 + 0.5j)"]
        self.here = self.run()

    def view(self, a: str) -> str:
        parts = f"{a}.real", f"{a}.imag", f"np.real({a})", f"np.imag({a})", f"{a}.conj()"
        return str(self.pick(*parts, super().view(a)))

    def value(self, a: str) -> str:
        b = self.name()
        return str(
            self.pick(
                f"np.conj({a})", f"{a} * 0.5j", f"{a} + {b}", f"{a} * {b}", f"np.sin({a})", f"0.5 - {a} * 1j",
                f"np.exp(0.1 * {a})", f"np.abs({a}) ** 2",
            )
        )  # fmt: skip

    def source(self, a: str) -> str:
        b = self.name()
        return str(self.pick("num(0.25)", f"{b}.real", f"{b}.imag * 0.5", f"{a}[0]", f"{b}", f"np.conj({b})"))


def size_of(here: dict[str, Any], names: list[str]) -> Any:
    """``outcome`` for complex variables."""
    return outcome({n: np.real(here[n]) + 0.5 * np.imag(here[n]) for n in names}, names)


def compare_complex(w: Writer) -> None:
    """Value and both modes against five-point differences of the program on arrays."""

    def f(u: Any, zeros: Any = dt.zeros) -> Any:
        return size_of(carried_out(w.lines, u, zeros), w.names)

    def at(step: float) -> float:
        u = w.u.copy("K")
        u += step * v
        return float(f(u, np.zeros))

    v, h = w.rng.normal(size=w.u.size).reshape(w.u.shape), 1e-3
    right = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    value, slope = dt.value_and_grad(f)(w.u)
    push = dt.jvp(f, (w.u,), (v,))[1]
    assert np.allclose(float(value), at(0.0)), (value, at(0.0))
    found = float(np.sum(np.asarray(slope) * v)), float(push)
    assert np.allclose(found, right, rtol=1e-6, atol=1e-6), (found, right)
    here = carried_out(w.lines, dt.copy(dt.constant(w.u)), dt.zeros)
    for name in w.names:
        mine, its = np.asarray(here[name].numpy()), w.here[name]
        assert np.allclose(mine, its) and mine.dtype == its.dtype, name
        assert strides(mine) == strides(np.asarray(its)), (name, mine.strides, its.strides)


# ------------------------------------------------------------------ under a batch
def compare_batched(w: Writer) -> None:
    """A program under vmap, with the tape inside and around it, against one example after the other."""
    X = np.stack([(w.u.T if w.u.flags.f_contiguous else w.u) * c for c in (1.0, 1.01, 0.98)])
    X = X.transpose(0, *range(w.u.ndim, 0, -1)) if w.u.flags.f_contiguous else X

    def f(u: Any) -> Any:
        return outcome(carried_out(w.lines, u, dt.zeros), w.names)

    values, slopes = [float(f(dt.constant(x))) for x in X], [np.asarray(dt.grad(f)(x)) for x in X]
    assert np.allclose(np.asarray(dt.vmap(f)(X)), values, rtol=1e-7, atol=1e-7)
    assert np.allclose(np.asarray(dt.vmap(dt.grad(f))(X)), slopes, rtol=1e-7, atol=1e-7)
    assert np.allclose(np.asarray(dt.grad(lambda X: np.sum(dt.vmap(f)(X)))(X)), slopes, rtol=1e-7, atol=1e-7)


# ------------------------------------------------------------------ all of them
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(
    ("kind", "check"), [(Writer, compare), (ComplexWriter, compare_complex), (Writer, compare_batched)]
)
def test_random_programs(kind: Any, check: Callable[[Any], Any], seed: int) -> None:
    w = written(seed, 12, kind)
    if check is not compare and any(" > " in line for line in w.lines):
        return  # a mask that differs from example to example; complex numbers have no order
    try:
        check(w)
    except Exception as error:
        told = [f"{error}", *w.lines, f"u of shape {w.u.shape}, strides {w.u.strides}"]
        raise AssertionError("\n".join(told)) from error
    if w.refused:
        with pytest.raises(ValueError):
            carried_out(w.refused.split("\n"), dt.copy(dt.constant(w.u)), dt.zeros)


def test_the_programs_are_of_many_kinds() -> None:
    """The generator writes what it says it does."""
    lines = "\n".join([line for seed in range(30) for line in written(seed).lines])
    for word in ("reshape", "ravel", ".T", "einsum", "out=", ".at(", "for ", "flip", "*=", "@=", "copy(", "None"):
        assert word in lines, word


def test_a_wrong_alias_is_found(monkeypatch: Any) -> None:
    """A library that takes every transpose for a copy does not pass."""
    monkeypatch.setattr(shaping, "link_if_shared", lambda view, *_: view)
    wrong = 0
    for seed in range(20):
        try:
            compare(written(seed))
        except AssertionError:
            wrong += 1
    assert wrong > 2


# ------------------------------------------------------------------ programs that were wrong
X = np.array([1.5, 2.5, 3.25, 4.0])
M = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
PROGRAMS: dict[str, tuple[str, Any]] = {
    "ravel of a strided part is a copy": ("z = u * 1.0; c = z[::2].ravel(); c *= 0.0", X),
    "copy of a transpose is C ordered": ("z = np.outer(u, u).T.copy(); z.reshape(-1)[1] = 7.0", X),
    "argument in Fortran order": ("z = u * 1.0; r = z.ravel(); r *= 0.0", np.asfortranarray(M)),
    "layout after a write through a view": (
        "z = np.outer(u, u); t = z.T; t *= z; r = np.ravel(t); r *= 0.0", X,
    ),
    "view of no axes": ("z = u * 1.0; v = z[0, ...]; v += 10.0 * u[1]", X),
    "matmul in place": ("P = np.outer(u, u); z = P; P @= np.full((4, 4), 0.1)", X),
    "reshape asked to copy": ("z = u * 1.0; r = np.reshape(z, (2, 2), copy=True); r *= 0.0", X),
    "meshgrid copies": ("a = u * 1.0; P, Q = np.meshgrid(a, a); a *= 0.0; z = P + Q", X),
    "diagonal of a matrix is a view": ("a = np.outer(u, u); z = np.diag(a); a[0, 0] = 5.0", X),
    "einsum diagonal is a view": ("z = np.outer(u, u); np.einsum('ii->i', z)[...] = 1.0", X),
    "real part is a view": ("a = u + 1j * u; a.real[0] = 0.0; z = np.abs(a) ** 2", X),
    "imaginary part is a view": ("a = u + 1j * u; v = a.imag; v *= u; a[1] = 2.0; z = np.abs(a) ** 2 + v", X),
    "parts that are assigned": ("a = u + 1j * u; a.real = u * u; a.imag = a.real + 1.0; z = np.abs(a) ** 2", X),
    "real of a real array is itself": ("z = u * 1.0; np.real(z)[0] = 0.0", X),
    "conjugate of a real array is itself": ("z = u * 1.0; z.conj()[0] = 0.0; np.conj(z)[1] = 0.0", X),
    "rotation by nothing": ("z = np.outer(u, u); np.rot90(z, 0)[0] = 0.0", X),
    "write of a flipped self": ("z = u * 1.0; z[None] = np.flip(z)", X),
    "ufunc.at with a view of the target": ("z = u * 1.0; np.multiply.at(z, [-3, -3, -1, -1], z[:4])", X),
    "add.at with a view of the target": (
        "z = u * 1.0; np.add.at(z, [0, 0, 1], z[:3]); np.add.at(z[::-1], [0, 1], z[1:3])", X,
    ),
    "out= is a view of an operand": ("z = u * 1.0; np.multiply(z[1:], z[:-1], out=z[1:])", X),
    "out= of more axes": ("z = np.outer(u, u); np.sin(u, out=z)", X),
    "value of more axes than its place": ("z = u * u; z[1:] = np.outer(u, u)[None, :1, 1:]", X),
    "average over axes in another order": (
        "z = np.average(np.outer(u, u).reshape(2, 4, 2), axis=(2, 0), weights=np.array([[1.0, 2.0], [3.0, 5.0]]))", X,
    ),
    "full can be written": ("z = u * np.ones((4, 4)); z[0] = u; z *= np.full_like(z, 0.5)", X),
}  # fmt: skip


def program(text: str) -> Callable[[Any], Any]:
    def f(u: Any) -> Any:
        here = {"np": np, "u": u}
        exec(text, here)
        z: Any = here["z"]
        return np.sum(z * np.cos(np.arange(1.0, np.size(z) + 1).reshape(np.shape(z))))

    return f


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_write(name: str) -> None:
    """The right value is NumPy's, the right gradient five-point differences of it."""
    text, x = PROGRAMS[name]
    f = program(text)
    slope, h = np.empty(x.shape), 1e-3
    for k in np.ndindex(x.shape):

        def at(s: float, k: Any = k) -> float:
            y = x.copy("K")
            y[k] += s * h
            return float(f(y))

        slope[k] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h)
    value, g = dt.value_and_grad(f)(x)
    assert np.allclose(float(value), float(f(x.copy("K"))), rtol=1e-13)
    assert np.allclose(np.asarray(g), slope, rtol=1e-8, atol=1e-8)
    assert np.allclose(float(dt.jvp(f, (x,), (np.ones(x.shape),))[1]), slope.sum(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "cut",
    [
        lambda z: np.broadcast_to(z, (2, 4, 4)),
        np.diagonal,
        np.diag,
        np.imag,
        lambda z: np.diag(z)[1:],
        lambda z: np.broadcast_to(z[:1], (4, 4)).T,
    ],
)
def test_what_cannot_be_written_stays_as_it_was(cut: Callable[[Any], Any]) -> None:
    z = dt.constant(np.outer(X, X)) * 1.0
    v = cut(z)
    before = v.numpy().copy()

    def times(v: Any) -> None:
        v *= 2.0

    for write in (lambda: v.__setitem__(0, 1.0), lambda: times(v)):
        with pytest.raises(ValueError, match="read-only"):
            write()
        assert np.array_equal(v.numpy(), before) and np.array_equal(z.numpy(), np.outer(X, X))


def test_separated_indices_under_a_batch() -> None:
    """An ellipsis that stands for no axis still separates arrays of an index; NumPy then puts their axes first."""
    at, x = np.array([0, 1]), np.arange(24.0).reshape(2, 2, 2, 3)
    for f in (lambda x: x[:, at, ..., 1], lambda x: x[at, ..., at], lambda x: x[None, at, ..., 1]):
        assert np.array_equal(dt.vmap(f)(x), [f(a) for a in x])
    each = np.array([[0, 1], [1, 1]])
    for g in (lambda x, i: x[:, i, ..., 1], lambda x, i: x[..., :, i, 1], lambda x, i: x[i, ..., i, 1]):
        assert np.array_equal(dt.vmap(g)(x, each), [g(a, i) for a, i in zip(x, each, strict=True)])


def test_scalars_and_arrays_without_axes_under_a_batch() -> None:
    """x[0] is a number, which += gives a new value; x[0, ...] is a view, which it writes."""

    def f(x: Any) -> Any:
        y = x * 1.0
        v, s = y[0, ...], y[1]
        v[...] = 10.0
        v += x[1]
        s += 1.0
        return y * s

    x = np.array([[2.0, 3.0], [5.0, 7.0]])
    assert dt.vmap(f)(x).tolist() == [[13.0 * 4.0, 3.0 * 4.0], [17.0 * 8.0, 7.0 * 8.0]]  # by hand


def test_what_memory_alone_would_tell_is_found_for_each_example() -> None:
    """Of examples that lie between each other it is not known whether a reshape of one by itself is a view; a write
    into it is refused for all at once, and vmap runs one after the other."""

    def f(x: Any) -> Any:
        y = x * 1.0
        r = y.reshape(-1)
        r *= 2.0
        return np.sum(y * y)

    def loss(X: Any) -> Any:
        found, told = dt.vmap(f, in_axes=2, explain=True)(X)
        assert "the function itself" in told
        return np.sum(found)

    x = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(dt.grad(loss)(x), 8.0 * x)  # the sum of (2 x)^2
    level = Level(2)
    y = tensor(Batch(level, np.ones((3, 4, 2)).transpose(2, 0, 1)))
    r = y.reshape(-1)
    before = level.enter()
    try:
        with pytest.raises(ValueError, match="under a batch"):
            r *= 2.0
    finally:
        level.leave(before)


def test_why_there_is_no_gradient_by_what_was_written_since() -> None:
    x = dt.constant(X)
    with dt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
        part = y[1:]
        z = np.sum(y * y) + np.sum(part**2)
    before = dt.identity(y)
    y[0] = 0.0
    y[1] = 5.0
    x += 1.0
    for source in (x, y, part):
        assert tape.gradient(z, source) is None
        assert "written in place" in tape.why(z, source)
    assert "written" not in tape.why(z, before)
    z -= 1.0
    with dt.GradientTape() as tape:
        tape.watch(x)
        z = x * 2.0
    z += 1.0
    assert tape.gradient(z, x) is None or "target was written in place" in tape.why(z, x)


# ------------------------------------------------------------------ order in memory
def layouts(make: Callable[[Any], Any]) -> dict[str, Any]:
    """An array of shape (4, 6), in some ways to lie in memory."""
    a = np.random.default_rng(5).uniform(0.5, 1.5, (4, 6))
    return {
        "C": make(a),
        "F": make(np.asfortranarray(a)),
        "strided": make(np.tile(a, (2, 2)))[::2, ::2],
        "backwards": make(np.asfortranarray(a))[::-1],
        "stretched": np.broadcast_to(make(a[0]), (4, 6)),
    }


FUNCTIONS: list[Callable[[Any], Any]] = [
    *(np.ravel, np.copy, np.transpose, np.flip, np.rot90, np.sin, np.zeros_like, np.diag, np.tril, np.cumsum),
    *(lambda x, o=o: x.copy(o) for o in "CFAK"),
    *(lambda x, o=o: x.flatten(o) for o in "CFA"),
    *(lambda x, o=o: x.ravel(o) for o in "CFA"),
    *(lambda x, o=o: x.astype(np.float32, order=o) for o in "CFK"),
    *(lambda x, a=a: np.take(x, [0, 2], a) for a in (0, 1)),
    *(lambda x, a=a: np.sort(x, a) for a in (0, 1)),
    *(lambda x, a=a: np.repeat(x, 2, a) for a in (0, 1)),
    *(lambda x, a=a: np.roll(x, 1, a) for a in (0, 1, None)),
    *(lambda x, a=a: np.concatenate([x, x], a) for a in (0, 1)),
    *(lambda x, a=a: np.stack([x, x], a) for a in (0, 1, 2)),
    *(lambda x, a=a: np.cumsum(x, a) for a in (0, 1)),
    *(lambda x, m=m: np.pad(x, 1, mode=m) for m in ("constant", "edge", "reflect")),
    lambda x: np.pad(x, 1, constant_values=3.0),
    *(lambda x, i=i: x[i] for i in ([0, 1], (slice(None), [0, 1]), ([0, 1], [0, 1]), ([[0], [1]], [0, 1]))),
    lambda x: x * 2.0,
    lambda x: x + x[0],
    lambda x: x + x[:, :1],
    lambda x: np.where(x > 1.0, x, 0.0),
    lambda x: np.full_like(x, 2.0),
    lambda x: np.tile(x, (2, 1)),
    lambda x: x @ x.T,
    lambda x: np.tensordot(x, x, ([0], [0])),
    lambda x: np.einsum("ij,kj->ki", x, x),
    lambda x: np.reshape(x, (2, 12), copy=True),
    lambda x: np.reshape(x, (2, 12), order="A"),
    lambda x: np.meshgrid(x[0], x[1])[0],
    lambda x: np.linspace(x, x * 2.0, 3),
    lambda x: np.average(x.reshape(2, 2, 6), axis=(2, 0), weights=np.ones((6, 2))),
]


@pytest.mark.parametrize("layout", layouts(np.asarray))
def test_results_lie_in_memory_as_those_of_numpy(layout: str) -> None:
    """And share memory with their operand where those do."""
    for k, f in enumerate(FUNCTIONS):
        its, mine = layouts(np.asarray)[layout], layouts(dt.constant)[layout]
        right, found = f(its), f(mine)
        assert np.allclose(found.numpy(), right), k
        assert strides(np.asarray(found.numpy())) == strides(np.asarray(right)), k
        assert any(r is mine for r in root(found)) == np.shares_memory(right, its), k
