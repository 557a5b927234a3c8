"""Rows, by family. Importing this package fills the table, except the families that are loaded when first used."""

from dualtape.ops import (
    control_flow,
    creation,
    elementwise,
    gathering,
    indexing,
    nondifferentiable,
    products,
    protocols,
    reductions,
    shaping,
    sorting,
)

__all__ = [
    "control_flow",
    "creation",
    "elementwise",
    "gathering",
    "indexing",
    "nondifferentiable",
    "products",
    "protocols",
    "reductions",
    "shaping",
    "sorting",
]
