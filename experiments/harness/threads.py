"""The number of threads, which can only be asked for before NumPy is imported: nothing here may import it."""

from __future__ import annotations

import os
import sys

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def set_threads(threads: int | None) -> None:
    """Ask BLAS for this many threads (None: leave it alone); works only before NumPy is imported."""
    if threads is None or "numpy" in sys.modules:
        return
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
