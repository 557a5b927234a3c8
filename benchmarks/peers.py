"""How other libraries compute what a problem asks for, each in the way its manual recommends; none is required."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

from .dual import rows
from .problem import Problem

Thunk = Callable[[], tuple[Any, ...]]


def mapped(convert: Callable[[Any], Any], data: Any) -> Any:
    """`data` with its floating arrays converted."""
    if isinstance(data, (list, tuple)):
        return type(data)(mapped(convert, item) for item in data)
    return convert(data) if isinstance(data, np.ndarray) and data.dtype.kind == "f" else data


class Peer:
    """A library: how to prepare a derivative (not timed) and the call that computes it (timed)."""

    name: str
    distribution: str

    def __init__(self, threads: int | None) -> None:
        """Import the library, and set its number of threads where it has a setting of its own."""

    @property
    def version(self) -> str:
        return metadata.version(self.distribution)

    def can(self, problem: Problem) -> bool:
        """Whether the problem's text is one this library can run."""
        return True

    def derivative(self, problem: Problem) -> Thunk:
        """A call that returns the derivative as a flat tuple of the library's own arrays."""
        raise NotImplementedError

    def numpy(self, x: Any) -> Any:
        """One of those arrays as NumPy has it."""
        return np.asarray(x)


class Autograd(Peer):
    """HIPS autograd: reverse mode over wrapped NumPy; the Hessian-vector product is the gradient of a product."""

    name, distribution = "autograd", "autograd"

    def __init__(self, threads: int | None) -> None:
        self.lib = import_module("autograd")
        self.xp = import_module("autograd.numpy")

    def derivative(self, problem: Problem) -> Thunk:
        text, args, data = problem.text(self.name), problem.args, problem.data
        every = tuple(range(len(args)))

        def f(*xs: Any) -> Any:
            return text(self.xp, data, *xs)

        if problem.derivative == "gradient":
            gradient = self.lib.value_and_grad(f, argnum=every)
            return lambda: tuple(gradient(*args)[1])
        if problem.derivative == "hessian":
            hessian = self.lib.hessian(f)
            return lambda: (hessian(*args),)
        if problem.derivative == "jacobian":  # a sweep for each element
            jacobian = self.lib.jacobian(f)
            return lambda: (jacobian(*args),)
        if problem.derivative == "hvp":
            product = self.lib.hessian_vector_product(f)
            return lambda: (product(args[0], data[0]),)
        cotangents = rows(problem)
        make = self.lib.make_vjp(f, argnum=every)

        def sweeps() -> tuple[Any, ...]:
            pullback, _ = make(*args)
            return tuple(g for c in cotangents for g in pullback(c))

        return sweeps


class TorchNames:
    """PyTorch under the names the problems use."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.max = torch.amax
        self.transpose = torch.permute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


class Torch(Peer):
    """PyTorch, eager: `autograd.grad`; its functional Hessian; HVP by two reverse sweeps."""

    name, distribution = "torch", "torch"

    def __init__(self, threads: int | None) -> None:
        self.lib = import_module("torch")
        if threads:
            self.lib.set_num_threads(threads)
        self.xp = TorchNames(self.lib)

    def derivative(self, problem: Problem) -> Thunk:
        torch = self.lib
        text, data = problem.text(self.name), mapped(torch.from_numpy, problem.data)
        xs = [torch.from_numpy(a.copy()).requires_grad_() for a in problem.args]

        def f(*xs: Any) -> Any:
            return text(self.xp, data, *xs)

        if problem.derivative == "gradient":
            return lambda: torch.autograd.grad(f(*xs), xs)
        if problem.derivative == "hessian":
            return lambda: (torch.autograd.functional.hessian(f, xs[0]),)
        if problem.derivative == "jacobian":
            jacobian = (torch.func.jacfwd if problem.order == "f" else torch.func.jacrev)(f)
            return lambda: (jacobian(xs[0].detach()),)
        if problem.derivative == "hvp":

            def product() -> tuple[Any, ...]:
                (g,) = torch.autograd.grad(f(*xs), xs, create_graph=True)
                return tuple(torch.autograd.grad(g, xs, grad_outputs=data[0]))

            return product
        cotangents = mapped(torch.from_numpy, rows(problem))

        def sweeps() -> tuple[Any, ...]:
            y = f(*xs)
            found: list[Any] = []
            for c in cotangents:
                found += torch.autograd.grad(y, xs, grad_outputs=c, retain_graph=c is not cotangents[-1])
            return tuple(found)

        return sweeps

    def numpy(self, x: Any) -> Any:
        return x.detach().numpy()


class Jax(Peer):
    """JAX, compiled: what `jit` takes to compile is not timed. HVP forward over reverse."""

    name, distribution = "jax", "jax"

    def __init__(self, threads: int | None) -> None:
        self.lib = import_module("jax")
        self.lib.config.update("jax_enable_x64", True)
        self.xp = import_module("jax.numpy")

    def derivative(self, problem: Problem) -> Thunk:
        jax = self.lib
        text = problem.text(self.name)
        args = [self.xp.asarray(a) for a in problem.args]
        # Arrays are arguments of the compiled function, or the compiler would try to compute with them in advance.
        arrays, fill = taken_apart(problem.data, self.xp.asarray)
        every = tuple(range(1, 1 + len(args)))

        def f(arrays: Any, *xs: Any) -> Any:
            return text(self.xp, fill(arrays), *xs)

        if problem.derivative == "gradient":
            call = jax.jit(jax.value_and_grad(f, argnums=every))
            return lambda: jax.block_until_ready(call(arrays, *args))[1]
        if problem.derivative == "hessian":
            call = jax.jit(jax.hessian(f, argnums=1))
        elif problem.derivative == "jacobian":
            call = jax.jit((jax.jacfwd if problem.order == "f" else jax.jacrev)(f, argnums=1))
        elif problem.derivative == "hvp":
            gradient = jax.grad(f, argnums=1)
            call = jax.jit(lambda arrays, x: jax.jvp(lambda x: gradient(arrays, x), (x,), (arrays[0],))[1])
        else:
            cotangents = [self.xp.asarray(c) for c in rows(problem)]

            def sweeps(arrays: Any, *xs: Any) -> Any:
                _, pullback = jax.vjp(lambda *xs: f(arrays, *xs), *xs)
                return tuple(g for c in cotangents for g in pullback(c))

            several = jax.jit(sweeps)
            return lambda: jax.block_until_ready(several(arrays, *args))
        return lambda: (jax.block_until_ready(call(arrays, *args)),)


def taken_apart(data: Any, convert: Callable[[Any], Any]) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The floating arrays in `data`, converted, and how to put others in their places."""
    arrays: list[Any] = []
    mapped(lambda a: arrays.append(convert(a)), data)

    def fill(values: list[Any]) -> Any:
        it = iter(values)
        return mapped(lambda a: next(it), data)

    return arrays, fill


class CasadiNames:
    """CasADi under the names the problems use."""

    def __init__(self, casadi: Any) -> None:
        self._casadi = casadi

    def __getattr__(self, name: str) -> Any:
        return getattr(self._casadi, name)

    def sum(self, x: Any) -> Any:
        return self._casadi.sum1(x)

    def stack(self, items: Any) -> Any:
        return self._casadi.vertcat(*items)


class Casadi(Peer):
    """CasADi: a graph of scalar operations, made in advance and then run by its virtual machine."""

    name, distribution = "casadi", "casadi"

    def __init__(self, threads: int | None) -> None:
        self.lib = import_module("casadi")
        self.xp = CasadiNames(self.lib)

    def can(self, problem: Problem) -> bool:
        return problem.casadi

    def derivative(self, problem: Problem) -> Thunk:
        casadi = self.lib
        x = casadi.SX.sym("x", problem.args[0].size)
        data = mapped(casadi.DM, problem.data)
        y = problem.text(self.name)(self.xp, data, x)
        if problem.derivative == "hvp":
            product = casadi.jtimes(casadi.gradient(y, x), x, data[0])
            call = casadi.Function("derivative", [x], [y, product])
        else:
            call = casadi.Function("derivative", [x], [y, casadi.gradient(y, x)])
        value = problem.args[0]
        return lambda: call(value)[1:]

    def numpy(self, x: Any) -> Any:
        return np.asarray(x).ravel()


PEERS: tuple[type[Peer], ...] = (Autograd, Torch, Jax, Casadi)


def names() -> list[str]:
    """All libraries that are known here."""
    return [peer.name for peer in PEERS]


def installed(wanted: list[str], threads: int | None) -> Iterator[Peer]:
    """Those of `wanted` that are installed, imported and set up."""
    for peer in PEERS:
        if peer.name in wanted and find_spec(peer.name) is not None:
            yield peer(threads)
