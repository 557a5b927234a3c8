"""The Gaussian mixture problem of ADBench: its file format, and its objective in plain NumPy without a loop.

Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, section on GMM; the constant terms follow the benchmark's
implementation, which includes -N D/2 log(2 pi) and the normaliser of the Wishart prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import multigammaln

from . import adbench_data

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mixture:
    """Points, and the parameters at which the likelihood is differentiated."""

    points: Array  # N x D
    alphas: Array  # K
    means: Array  # K x D
    factors: Array  # K x (D + D(D-1)/2): log-diagonal, then the strictly lower triangle column by column
    gamma: float
    m: int

    @property
    def parameters(self) -> Array:
        """All parameters in one vector, in the benchmark's order."""
        return np.concatenate([self.alphas, self.means.ravel(), self.factors.ravel()])


def load(name: str) -> Mixture:
    """Read `D K N`, then alphas, means, factors, points, and `gamma m`."""
    head, *lines = adbench_data.read(name).split("\n")
    d, k, n = map(int, head.split())
    numbers = np.array(" ".join(lines).split(), dtype=float)
    ends = np.cumsum([k, k * d, k * (d + d * (d - 1) // 2), n * d])
    alphas, means, factors, points, (gamma, m) = np.split(numbers, ends)
    return Mixture(points.reshape(n, d), alphas, means.reshape(k, d), factors.reshape(k, -1), gamma, int(m))


def drawn(d: int, k: int, n: int, rng: np.random.Generator) -> Mixture:
    """A mixture of a published size, its numbers drawn here: points and parameters standard normal."""
    factors = rng.normal(size=(k, d + d * (d - 1) // 2))
    return Mixture(rng.normal(size=(n, d)), rng.normal(size=k), rng.normal(size=(k, d)), factors, 1.0, 0)


def by_loops(mixture: Mixture) -> float:
    """The objective as the formula stands, with loops over points, components, rows and columns."""
    (n, d), k = mixture.points.shape, len(mixture.alphas)
    gamma, m = mixture.gamma, mixture.m
    total = -n * d / 2 * np.log(2 * np.pi)
    matrices = []
    for factors in mixture.factors:
        q, place = np.diag(np.exp(factors[:d])), d
        for column in range(d):
            for row in range(column + 1, d):
                q[row, column] = factors[place]
                place += 1
        matrices.append(q)
    for x in mixture.points:
        terms = [
            alpha + np.sum(factors[:d]) - 0.5 * np.sum((q @ (x - mean)) ** 2)
            for alpha, mean, factors, q in zip(mixture.alphas, mixture.means, mixture.factors, matrices, strict=True)
        ]
        total += np.log(np.sum(np.exp(np.array(terms) - max(terms)))) + max(terms)
    total -= n * np.log(np.sum(np.exp(mixture.alphas)))
    for factors in mixture.factors:
        squares = np.sum(np.exp(factors[:d]) ** 2) + np.sum(factors[d:] ** 2)
        total += gamma**2 / 2 * squares - m * np.sum(factors[:d])
    wishart = d + m + 1
    total -= k * (wishart * d * (np.log(gamma) - np.log(2) / 2) - float(multigammaln(wishart / 2, d)))
    return float(total)


def _triangle(d: int) -> NDArray[np.intp]:
    """Where each entry of a D x D lower triangle stands in (diagonal, strict part by columns, 0)."""
    index = np.full((d, d), d + d * (d - 1) // 2)
    index[np.diag_indices(d)] = np.arange(d)
    columns, rows = np.triu_indices(d, 1)  # row by row above the diagonal is column by column below it
    index[rows, columns] = d + np.arange(len(rows))
    return index


def logsumexp(a: Any) -> Any:
    """log sum exp over the first axis, shifted so that nothing overflows."""
    top = np.max(a, axis=0)
    return np.log(np.sum(np.exp(a - top), axis=0)) + top


def objective(mixture: Mixture) -> Callable[[Any], Any]:
    """Log-likelihood plus prior, with the benchmark's signs, as a function of one parameter vector.

    With Q_k lower triangular, diagonal exp(q_k), strict part l_k, and n' = D + m + 1:

        F = -N D/2 log(2 pi) + sum_i logsumexp_k(alpha_k + sum(q_k) - |Q_k (x_i - mu_k)|^2 / 2) - N logsumexp(alpha)
            + sum_k [gamma^2/2 (|exp q_k|^2 + |l_k|^2) - m sum(q_k)]
            - K [n' D (log gamma - log(2)/2) - logGamma_D(n'/2)]
    """
    (n, d), (k, _) = mixture.points.shape, mixture.means.shape
    gamma, m = mixture.gamma, mixture.m
    # Axes in the order D, K, N, so that all sums run over leading axes; the row of ones takes the centres' offset.
    points = np.concatenate([mixture.points.T, np.ones((1, n))])
    index = _triangle(d)
    padding = np.zeros((k, 1))
    wishart = d + m + 1
    constant = -n * d / 2 * np.log(2 * np.pi)
    constant -= k * (wishart * d * (np.log(gamma) - np.log(2) / 2) - float(multigammaln(wishart / 2, d)))

    def gmm(parameters: Any) -> Any:
        alphas = parameters[:k]
        means = parameters[k : k + k * d].reshape(k, d, 1)
        factors = parameters[k + k * d :].reshape(k, -1)
        logs, strict = factors[:, :d], factors[:, d:]
        diagonal, log_dets = np.exp(logs), np.sum(logs, axis=1)
        q = np.concatenate([diagonal, strict, padding], axis=1)[:, index]
        # Q_k x_i - Q_k mu_k for all i and k: one matrix product, and no array of centred points.
        affine = np.concatenate([q, -(q @ means)], axis=2).transpose(1, 0, 2).reshape(d * k, d + 1)
        distances = np.sum(np.square(affine @ points).reshape(d, k, n), axis=0)
        weights = (alphas + log_dets).reshape(k, 1)
        likelihood = np.sum(logsumexp(weights - 0.5 * distances)) - n * logsumexp(alphas)
        squares = np.sum(np.square(diagonal)) + np.sum(np.square(strict))
        return constant + likelihood + 0.5 * gamma**2 * squares - m * np.sum(log_dets)

    return gmm
