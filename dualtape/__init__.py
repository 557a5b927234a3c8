"""Forward- and reverse-mode automatic differentiation for people who write NumPy and SciPy."""

__version__ = "0.1.0"
