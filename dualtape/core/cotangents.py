"""Tangents and cotangents in the shape and dtype of what they belong to: broadcasting and its adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np

Fit = tuple[tuple[int, ...], Any, tuple[int, ...], Any]


def fit(x: Any, out: Any) -> Fit | None:
    """What it takes to turn an array like ``out`` into one like ``x``; None if they are alike."""
    dtype = x.dtype
    if (dtype is out.dtype or dtype == out.dtype) and x.shape == out.shape:
        return None
    return x.shape, x.dtype, out.shape, out.dtype


def fitted(c: Any, like: Fit) -> Any:
    """A cotangent of a broadcast, converted operand, in the shape and dtype of the operand."""
    shape, dtype, _, _ = like
    if c.dtype != dtype:
        c = cast_back(c, dtype)
    return unbroadcast(c, shape) if c.shape != shape else c


def unbroadcast(c: Any, shape: tuple[int, ...]) -> Any:
    """The adjoint of broadcasting to ``c.shape``: the sum over the axes that were added or stretched."""
    extra = len(c.shape) - len(shape)
    if extra < 0 or any(n != m and n != 1 for n, m in zip(shape, c.shape[extra:], strict=True)):
        return np.broadcast_to(c, shape)  # the cotangent itself was smaller: it still stands for all elements
    axes = tuple(range(extra)) + tuple(
        k + extra for k, (n, m) in enumerate(zip(shape, c.shape[extra:], strict=True)) if n == 1 and m != 1
    )
    c = np.add.reduce(c, axis=axes, keepdims=True) if axes else c
    return c.reshape(shape) if c.shape != shape else c


def cast_back(c: Any, dtype: Any) -> Any:
    """A cotangent in the dtype of its operand; of a complex cotangent of a real operand, the real part."""
    dtype = np.dtype(dtype)
    if c.dtype == dtype or dtype.kind not in "fc":
        return c
    if c.dtype.kind == "c" and dtype.kind == "f":
        c = c.real
    if c.dtype == dtype:
        return c
    return c.astype(dtype)


def stretched(t: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A tangent of a broadcast, converted operand, in the shape and dtype of the result."""
    if t.dtype != dtype and dtype.kind in "fc":
        t = t.astype(dtype)
    return np.broadcast_to(t, shape) if t.shape != shape else t


def seed(target: Any, cotangent: Any, name: str) -> Any:
    """A given cotangent, checked against its target and broadcast to it."""
    shape, dtype = target.shape, target.dtype
    c = cotangent
    if c.shape != shape:
        try:
            fits = np.broadcast_shapes(c.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{name} has shape {c.shape}, which does not broadcast to its target's shape {shape}")
        c = np.broadcast_to(c, shape)
    return cast_back(c, dtype)

