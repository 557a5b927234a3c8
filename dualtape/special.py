"""Special functions under SciPy's names (``scipy.special``), differentiable in both modes."""
# ruff: noqa: F403 - the names are those that the rows' module lists

from __future__ import annotations

from typing import TYPE_CHECKING

from dualtape.names import missing
from dualtape.ops.special import *
from dualtape.ops.special import __all__ as __all__

__dir__ = __all__.copy
if not TYPE_CHECKING:
    __getattr__ = missing("special")
