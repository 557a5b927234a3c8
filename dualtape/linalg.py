"""Linear algebra under NumPy's names (``numpy.linalg``), differentiable in both modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualtape.names import missing
from dualtape.ops import diagonals
from dualtape.ops.chains import cross, matrix_power, multi_dot
from dualtape.ops.factorisations import QRResult, cholesky, qr
from dualtape.ops.linalg import (
    LinAlgError,
    SlogdetResult,
    det,
    inv,
    slogdet,
    solve,
)
from dualtape.ops.norms import cond, matrix_norm, matrix_rank, norm, tensorinv, tensorsolve, vector_norm
from dualtape.ops.products import matmul, outer, tensordot, vecdot
from dualtape.ops.shaping import matrix_transpose
from dualtape.ops.spectral import (
    EighResult,
    EigResult,
    SVDResult,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lstsq,
    pinv,
    svd,
    svdvals,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from dualtape.core.tensor import Tensor


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of the matrices in the last two axes; NumPy's ``linalg.diagonal``.

    Args:
        x: an array, shape (..., m, n).
        offset: which diagonal: above the main one if positive, below if negative.

    Returns:
        A Tensor whose last axis is the diagonal.
    """
    return diagonals.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the diagonals of the matrices in the last two axes; NumPy's ``linalg.trace``.

    Args:
        x: an array, shape (..., m, n).
        offset: which diagonal.
        dtype: the dtype to add in.

    Returns:
        A Tensor of shape (...).
    """
    return diagonals.trace(x, offset, -2, -1, dtype)


__all__ = [
    "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross",
    "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
__dir__ = __all__.copy
if not TYPE_CHECKING:  # or every misspelt name would be one to a type checker
    __getattr__ = missing("linalg")
