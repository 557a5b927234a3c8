"""Rows, by family. Importing this package fills the table, except the families that need SciPy."""

from dualtape.ops import (
    chains,
    creation,
    diagonals,
    elementwise,
    factorisations,
    indexing,
    linalg,
    nondifferentiable,
    norms,
    products,
    protocols,
    reductions,
    shaping,
    sorting,
)

__all__ = [
    "chains",
    "creation",
    "diagonals",
    "elementwise",
    "factorisations",
    "indexing",
    "linalg",
    "nondifferentiable",
    "norms",
    "products",
    "protocols",
    "reductions",
    "shaping",
    "sorting",
]
