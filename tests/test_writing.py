"""Arrays that are written to: random programs of views, writes, loops and reductions, against NumPy itself.

A program is a text. It runs on Tensors, in both modes, and on plain NumPy object arrays of hyper-dual numbers, which carry
first and second derivatives through any program: there NumPy alone decides what is a view and what is a copy, and in which
order the elements lie in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualtape as dt


# ------------------------------------------------------------------ the oracle
class HyperDual:
    """a + b e + c d + k e d with e^2 = d^2 = 0: of a function its value, two slopes, and their mixed second derivative."""

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
            self.pick(":", ":", f"{self.integer(n)}:", f":{self.integer(n)}", "::2", "1:", ":-1", "::-1", "::-2", "1::2")
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
            forms += [f"{a} @ np.ones({(s[-1], 2)})", f"np.tril({a})", f"np.einsum('ij->i', {a})", f"{a} @ {a}.T * 0.25"]
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
                [f"np.{self.pick('add', 'multiply', 'subtract')}.at({a}, {self.pick([0, 0], [-1, 0, -1], [0])}, {self.source(a)})"],
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


def written(seed: int, length: int = 12) -> Writer:
    w = Writer(seed)
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
    assert np.allclose(found, (right.a, right.b, right.b, right.k), rtol=1e-8, atol=1e-8), (found, right.a, right.b, right.k)
    here = carried_out(w.lines, dt.copy(dt.constant(w.u)), dt.zeros)
    for name in w.names:
        mine, its = here[name].numpy(), w.here[name]
        assert np.allclose(mine, its), name
        assert strides(np.asarray(mine)) == strides(np.asarray(its)), (name, np.asarray(mine).strides, its.strides)
    return True


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed: int) -> None:
    w = written(seed)
    try:
        compare(w)
    except Exception as error:
        raise AssertionError("\n".join([f"{error}", *w.lines, f"u of shape {w.u.shape}, strides {w.u.strides}"])) from error
