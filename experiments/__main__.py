"""`python -m experiments`."""

import sys

from .catalogue import CATALOGUE
from .harness.cli import main

if __name__ == "__main__":
    sys.exit(main(CATALOGUE))
