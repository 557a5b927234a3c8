"""The relative times that were published: derivative over function in the same language, on one machine of 2018.

Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, LaTeX source, where the tables of relative times are commented out and
those of absolute times are printed. None: the tool crashed, or did not finish.
"""

from __future__ import annotations

Times = dict[str, tuple[float | None, ...]]

# Gaussian mixtures with 10,000 points: dimensions and components, with K (1 + D + D (D + 1) / 2) parameters.
GMM_SIZES = ((2, 5), (10, 5), (2, 200), (10, 50), (64, 5), (64, 10), (64, 25), (64, 200))
GMM: Times = {
    "Manual (C++)": (1.88, 2.94, 2.18, 3.13, 5.48, 5.97, 6.16, 7.21),
    "Tapenade (C)": (3.74, 7.69, 4.09, 7.93, 13.4, 12.1, 13.3, 15.5),
    "Adept (C++)": (10.9, 21.7, 8.05, 25.2, 36.1, 39.9, 45.4, None),
    "ADOL-C": (13.1, 18.7, 13.2, 20.8, 27.7, None, None, None),
    "Theano (vector)": (3.01, 3.82, 3.26, 4.06, 7.24, 8.17, 8.75, None),
    "Autograd": (22.2, None, None, None, None, None, None, None),
    "Autograd (split)": (34.5, 89.8, 34.3, 107, None, None, None, None),
}

# Bundle adjustment: numbers of observations.
BA_SIZES = (31843, 204472, 287451, 563734)
BA: Times = {
    "Manual (C++)": (6.72, 7.23, 6.46, 7.04),
    "Tapenade (C)": (8.78, 8.68, 8.54, 8.41),
    "Adept (C++)": (25.4, 25.2, 25.5, 25.3),
    "ADOL-C": (288, 306, 319, 309),
    "Theano": (9.24, 9.61, 9.41, 8.38),
    "Autograd": (67.2, 58.4, 72.5, 64.5),
    "MuPAD": (1.72, 2.18, 2.27, 2.35),
    "Differences": (16.0, 16.0, 16.0, 16.0),
}


def parameters(d: int, k: int) -> int:
    """The number of parameters of a mixture."""
    return k * (1 + d + d * (d + 1) // 2)


def name_of(d: int, k: int) -> str:
    return f"10k, d{d} K{k}"
