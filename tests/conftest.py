"""Settings that every test shares: one BLAS thread a worker, and the same examples in every run."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

# Before NumPy is imported: parallel workers with a thread pool each would wait for one another.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

# No deadline: the first call of a SciPy function imports its module. No database: runs do not depend on earlier ones.
hypothesis.settings.register_profile("dualtape", deadline=None, derandomize=True, database=None, max_examples=50)
hypothesis.settings.load_profile("dualtape")

from dualtape.core import recorders  # noqa: E402  (NumPy comes with it)


@pytest.fixture(autouse=True)
def _nothing_is_left_open() -> Iterator[None]:
    """Each test leaves the stack of recorders as it found it: empty."""
    yield
    stack = recorders.STACK.get()
    recorders.STACK.set(recorders.OTHERS)
    assert stack is recorders.OTHERS
