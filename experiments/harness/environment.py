"""Where a result came from: versions, processor and thread settings - no user names, no host names, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import dualtape

from .threads import THREAD_VARIABLES


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str | None:
    """What git says of the source tree this file belongs to; None if it is no such tree, or there is no git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _changed() -> bool | None:
    """Whether the tree differs from its commit, in files that git follows or in new ones; None if nobody knows."""
    status = _git("status", "--porcelain")
    return None if status is None else bool(status)


def _blas() -> str:
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return " ".join(str(blas[key]) for key in ("name", "version") if blas.get(key)) or "unknown"


def record() -> dict[str, Any]:
    """The "environment" entry of a result file."""
    return {
        "dualtape": dualtape.__version__,
        "commit": _git("rev-parse", "HEAD"),
        "changed": _changed(),  # whether what ran is that commit, or something more
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": _blas(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "logical_cores": os.cpu_count(),
        "threads": {variable: os.environ.get(variable) for variable in THREAD_VARIABLES},
    }
