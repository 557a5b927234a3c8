"""Rules of one's own for a function (custom_gradient, custom_jvp, custom_vjp), stop_gradient."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dualtape.core import recorders
from dualtape.core.families import nondifferentiable
from dualtape.core.tensor import Tensor, wrap
from dualtape.modes.structure import changed, map_structure
from dualtape.transforms.arguments import ensure_callable, results
from dualtape.transforms.calls import (
    Body,
    Bound,
    Given,
    all_results,
    connect,
    from_outside,
    likes,
    no_tangent,
    nodes_of,
    paired,
)
from dualtape.transforms.handles import lent, settled, taken

__all__ = ["custom_gradient", "custom_jvp", "custom_vjp", "stop_gradient"]

stopped = nondifferentiable(lambda x: x, name="stop_gradient")


def stop_gradient(x: Any) -> Any:
    """``x`` as a constant: no derivative passes through, in any mode.

    Args:
        x: an array, or a nested structure of arrays.

    Returns:
        Tensors of the same value, in the same structure.

    Example:
        >>> import dualtape as dt
        >>> dt.grad(lambda x: x * dt.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    return map_structure(stopped, x)


# ------------------------------------------------------------------ TensorFlow's form
def custom_gradient(f: Callable[..., Any]) -> Any:
    """A function that brings its own reverse rule along; a decorator, for methods as well.

    Args:
        f: a function of arrays or nested structures of them that returns ``(y, grad_fn)``. ``grad_fn`` takes a
            cotangent for each array in ``y``, of its shape, and returns one for each array among the positional
            arguments, flat or in their structure (a single one as it is), of their shapes; None where there is none.
            If ``f`` reads trainable Variables that are not arguments, ``grad_fn`` is called with them as
            ``variables=[...]`` and returns a pair: the gradients of the arguments, and a list with each Variable's.

    Returns:
        A function with the arguments of ``f`` that returns ``y``, of Tensors. Keyword arguments are not differentiated.
        ``dualtape.testing.check_rule`` checks it.

    Raises:
        TypeError: if ``f`` does not return such a pair, reads Variables and ``grad_fn`` does not take ``variables``, or
            uses a Tensor from outside that a recorder follows.
        ValueError: (when differentiating) if the number of gradients, or a shape, is wrong.

    Mathematics:
        What ``grad_fn`` computes is taken to be linear in the cotangents, g -> J^H g. Its transpose, found by reverse
        mode, is t -> J t: that is the forward rule. Both are differentiated as they stand for higher orders.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.custom_gradient
        ... def log1pexp(x):
        ...     e = np.exp(x)
        ...     return np.log(1 + e), lambda g: g * (1 - 1 / (1 + e))
        >>> dt.grad(log1pexp)(100.0)
        np.float64(1.0)
    """
    ensure_callable("custom_gradient", f)
    return Gradient(f)


class Gradient(Bound):
    """A function made by ``custom_gradient``."""

    @property
    def rules(self) -> dict[str, str]:
        """Which of the two rules was given, and which is derived from the other one."""
        return {"jvp": "derived", "vjp": "given"}

    def call(self, owner: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        outer = recorders.live()
        given = Given(args, outer)
        reads = Body(outer, given.operands)
        recorders.enter(reads)
        # Under the recorders outside: what grad_fn holds on to is then differentiable itself.
        try:
            returned = self.f(*owner, *given.filled([wrap(n) for n in given.operands]), **kwargs)
            if not (isinstance(returned, (tuple, list)) and len(returned) == 2 and callable(returned[1])):
                got = type(returned).__name__
                raise TypeError(f"custom_gradient: {self.name} returns a pair (y, grad_fn), got {got}")
            value, grad_fn = returned
            outs, rebuild = results(value)  # in here, since a Variable among them is read
        finally:
            recorders.leave(reads)
        for y in outs:
            reads.takes(y._node)
        for i, node in reads.foreign.items():
            if i not in reads.variables:
                raise from_outside(f"custom_gradient: {self.name}", node, reads.names)
        used = [(v, node) for _, (v, node) in sorted(reads.variables.items()) if id(v) not in given.variables]
        if used and not takes_variables(grad_fn):
            names = ", ".join(repr(v.name) for v, _ in used)
            raise TypeError(
                f"custom_gradient: {self.name} reads the Variables {names}, so its gradient function must take them "
                "as a keyword, variables=, and return (gradients of the arguments, gradients of the variables)"
            )
        shapes, rule = likes(nodes_of(outs)), f"custom_gradient: the gradient function of {self.name}"

        def back(primals: list[Tensor], gs: list[Any], raw: bool) -> Sequence[Any]:
            every = all_results(gs, shapes)
            if not used:
                return given.picked(grad_fn(*every), rule)
            found, more = pair_of(grad_fn(*every, variables=[v for v, _ in used]), f"{rule} returns two lists")
            more = list(more) if isinstance(more, (tuple, list)) else [more]
            if len(more) != len(used):
                raise ValueError(f"{rule} returned {len(more)} gradients for {len(used)} Variables")
            return [*given.picked(found, rule), *map(taken, more)]

        operands = [*given.operands, *[node for _, node in used]]
        return rebuild(iter(connect(self.name, operands, outs, back)))


def takes_variables(grad_fn: Callable[..., Any]) -> bool:
    """Whether a gradient function has the keyword ``variables``."""
    parameters = inspect.signature(grad_fn).parameters.values()
    return any(
        p.kind is p.VAR_KEYWORD or (p.name == "variables" and p.kind is not p.VAR_POSITIONAL) for p in parameters
    )


# ------------------------------------------------------------------ JAX's forms
def custom_jvp(f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> Any:
    """A function whose forward rule is given by hand; a decorator.

    The rule is set with ``f.defjvp(rule)``: ``rule(primals, tangents)`` takes two tuples, one entry for each argument,
    and returns ``(value, tangent)``. The body of ``f`` sees arguments that nobody follows.

    Args:
        f: a function of arrays or nested structures of them.
        nondiff_argnums: positions of arguments that are not differentiated; the rule takes them first, one by one.

    Returns:
        A function with the arguments of ``f`` that returns its result, of Tensors, with ``defjvp`` and ``defvjp``, and
        with ``rules``, which says of each side whether it is given or derived.

    Raises:
        TypeError: (when called) if it has no rule, or if ``f`` uses a Tensor from outside that a recorder follows.

    Mathematics:
        The rule is taken to be linear in the tangents, t -> J t. Its transpose, found by reverse mode, is g -> J^H g:
        that is the reverse rule, unless ``defvjp`` gives one.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.custom_jvp
        ... def cube(x):
        ...     return x**3
        >>> cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
        >>> dt.grad(dt.grad(cube))(2.0)
        np.float64(12.0)
    """
    ensure_callable("custom_jvp", f)
    return f if isinstance(f, Ruled) else Ruled(f, nondiff_argnums)


def custom_vjp(f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> Any:
    """A function whose reverse rule is given by hand; a decorator.

    The rule is set with ``f.defvjp(fwd, bwd)``: ``fwd`` takes the arguments of ``f`` and returns ``(value, kept)``;
    ``bwd(kept, cotangent)`` returns a tuple of cotangents, one for each argument, None where there is none. For
    derivatives of higher order ``fwd`` runs again under the outer recorders.

    Args:
        f: a function of arrays or nested structures of them.
        nondiff_argnums: positions of arguments that are not differentiated; ``bwd`` takes them first, one by one.

    Returns:
        A function with the arguments of ``f`` that returns its result, of Tensors, with ``defvjp`` and ``defjvp``, and
        with ``rules``, which says of each side whether it is given or derived.

    Raises:
        TypeError: (when called) if it has no rule, or if ``f`` uses a Tensor from outside that a recorder follows.
        ValueError: (when differentiating) if the number of cotangents, or a shape, is wrong.

    Mathematics:
        As for ``custom_gradient``; the forward rule is the transpose of the reverse rule, unless ``defjvp`` gives one.

    Example:
        >>> import numpy as np, dualtape as dt
        >>> @dt.custom_vjp
        ... def clipped(x):
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda kept, g: (np.clip(g, -1.0, 1.0),))
        >>> dt.grad(lambda x: clipped(x) ** 2)(3.0)
        np.float64(1.0)
    """
    ensure_callable("custom_vjp", f)
    return f if isinstance(f, Ruled) else Ruled(f, nondiff_argnums)


class Ruled(Bound):
    """A function made by ``custom_jvp`` or ``custom_vjp``."""

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int]) -> None:
        super().__init__(f)
        self.fixed = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.jvp: Callable[..., Any] | None = None
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    @property
    def rules(self) -> dict[str, str]:
        """Which of the two rules was given, and which is derived from the other one."""
        given = {"jvp": self.jvp is not None, "vjp": self.bwd is not None}
        return {name: "given" if g else "derived" for name, g in given.items()} if any(given.values()) else {}

    def defjvp(self, jvp: Callable[..., Any]) -> None:
        """Set the forward rule, ``jvp(primals, tangents) -> (value, tangent)``."""
        ensure_callable("defjvp", jvp)
        self.jvp = jvp

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the reverse rule, ``fwd(*args) -> (value, kept)`` and ``bwd(kept, cotangent) -> cotangents``."""
        ensure_callable("defvjp", fwd)
        ensure_callable("defvjp", bwd)
        self.fwd, self.bwd = fwd, bwd

    def call(self, owner: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        jvp, fwd, bwd = self.jvp, self.fwd, self.bwd
        if jvp is None and bwd is None:
            raise TypeError(f"{self.name} has no rule yet: set one with {self.name}.defjvp or {self.name}.defvjp")
        args = (*owner, *args)
        if kwargs:
            bound = inspect.signature(self.f).bind(*args, **kwargs)
            bound.apply_defaults()
            if bound.kwargs:
                raise TypeError(f"{self.name}: its rules cannot take keyword-only arguments, {sorted(bound.kwargs)}")
            args = bound.args
        fixed = [args[k] for k in self.fixed]
        others = [k for k in range(len(args)) if k not in {j % len(args) for j in self.fixed}]
        outer = recorders.live()
        given = Given(tuple([args[k] for k in others]), outer)

        def all_of(values: Sequence[Any]) -> list[Any]:
            every = list(args)
            for k, arg in zip(others, given.filled(values), strict=True):
                every[k] = arg
            return every

        if not given.operands:
            outs, rebuild = results(self.f(*all_of([])))
            return rebuild(iter([wrap(n) for n in nodes_of(outs)]))
        own = given.apart()
        body = Body(outer, nodes_of(own), refuse=self.name)
        # What fwd keeps is for first derivatives; the nodes in it are followed by nobody.
        kept: tuple[Any, ...] = ()
        if fwd is not None and (jvp is None or any([r.entries is not None for r in outer])):
            value, residuals = pair_of(body.run(fwd, *all_of(own)), f"{self.name}: fwd returns (value, kept)")
            kept = (changed(settled, residuals),)
        else:
            value = body.run(self.f, *all_of(own))
        outs, rebuild = results(value)
        for y in outs:
            body.takes(y._node)
        shapes = likes(nodes_of(outs))

        def back(primals: list[Tensor], gs: list[Any], raw: bool) -> Sequence[Any]:
            assert fwd is not None and bwd is not None
            if raw and kept:
                residuals = changed(lent, kept[0])
            else:
                residuals = pair_of(fwd(*all_of(primals)), f"{self.name}: fwd")[1]
            found = bwd(*fixed, residuals, rebuild(iter(all_results(gs, shapes))))
            return given.picked(found, f"{self.name}: bwd")

        def forward(primals: list[Tensor], ts: list[Any], raw: bool) -> Sequence[Any]:
            assert jvp is not None
            returned = jvp(*fixed, given.filled(primals), given.filled(ts, others=no_tangent))
            rule = f"{self.name}: the rule returns (value, tangent)"
            found = paired(rebuild(iter([0.0] * len(shapes))), pair_of(returned, rule)[1], rule)
            return [taken(t) for t, y in zip(found, shapes, strict=True) if y.dtype.kind in "fc"]

        rules = (None if bwd is None else back), (None if jvp is None else forward)
        return rebuild(iter(connect(self.name, given.operands, outs, *rules, held=kept)))


def pair_of(returned: Any, what: str) -> Any:
    """A pair, as a rule must return it."""
    if not (isinstance(returned, (tuple, list)) and len(returned) == 2):
        raise TypeError(f"{what}: a pair was expected, got {type(returned).__name__}")
    return returned
