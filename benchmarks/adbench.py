"""Three problems of ADBench, vectorised: Gaussian mixtures, bundle adjustment and an LSTM.

Formulas after Srajer, Kukelova & Fitzgibbon, "A Benchmark of Selected Algorithmic Differentiation Tools", Optimization
Methods and Software 33 (2018); constants and the LSTM's added 2 follow the values that the benchmark's tests expect.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import multigammaln

from experiments.shared import gmm

from .problem import Array, Problem

DATA = Path(__file__).resolve().parent / "data"


# ---------------------------------------------------------------------------------------------------------------------
# Gaussian mixture: log-likelihood and prior by weights, means and Cholesky factors of the precisions.


def logsumexp(xp: Any, a: Any) -> Any:
    """log sum exp over the first axis, shifted so that nothing overflows."""
    top = xp.max(a, axis=0)
    return xp.log(xp.sum(xp.exp(a - top), axis=0)) + top


def mixture_value(xp: Any, data: tuple[Any, ...], alphas: Any, means: Any, factors: Any) -> Any:
    points, index, padding, gamma, m, constant = data
    k, d = means.shape
    n = points.shape[1]
    logs, strict = factors[:, :d], factors[:, d:]
    diagonal, log_dets = xp.exp(logs), xp.sum(logs, axis=1)
    q = xp.concatenate([diagonal, strict, padding], axis=1)[:, index]
    # Q_k x_i - Q_k mu_k for all i and k in one matrix product: the points have a row of ones.
    affine = xp.transpose(xp.concatenate([q, -(q @ means.reshape(k, d, 1))], axis=2), (1, 0, 2))
    distances = xp.sum(xp.square(affine.reshape(d * k, d + 1) @ points).reshape(d, k, n), axis=0)
    weights = (alphas + log_dets).reshape(k, 1)
    likelihood = xp.sum(logsumexp(xp, weights - 0.5 * distances)) - n * logsumexp(xp, alphas)
    squares = xp.sum(xp.square(diagonal)) + xp.sum(xp.square(strict))
    return constant + likelihood + 0.5 * gamma**2 * squares - m * xp.sum(log_dets)


def mixture_hand(data: tuple[Any, ...], alphas: Array, means: Array, factors: Array) -> tuple[Array, ...]:
    points, index, padding, gamma, m, _ = data
    k, d = means.shape
    n = points.shape[1]
    logs, strict = factors[:, :d], factors[:, d:]
    diagonal = np.exp(logs)
    q = np.concatenate([diagonal, strict, padding], axis=1)[:, index]
    affine = np.concatenate([q, -(q @ means[:, :, None])], axis=2).transpose(1, 0, 2).reshape(d * k, d + 1)
    z = (affine @ points).reshape(d, k, n)
    scores = (alphas + logs.sum(axis=1))[:, None] - 0.5 * np.square(z).sum(axis=0)
    p = np.exp(scores - scores.max(axis=0))
    p /= p.sum(axis=0)
    prior = np.exp(alphas - alphas.max())
    counts = p.sum(axis=1)
    g = (-(z * p).reshape(d * k, n) @ points.T).reshape(d, k, d + 1).transpose(1, 0, 2)
    gq = g[:, :, :d] - g[:, :, d:] * means[:, None, :]
    g_means = -(g[:, :, d][:, None, :] @ q)[:, 0, :]
    # Each entry of the factors stands in one place of the triangle.
    rows, columns = np.nonzero(index < factors.shape[1])
    g_factors = np.empty(factors.shape)
    g_factors[:, index[rows, columns]] = gq[:, rows, columns]
    g_factors[:, :d] = g_factors[:, :d] * diagonal + counts[:, None] + gamma**2 * diagonal**2 - m
    g_factors[:, d:] += gamma**2 * strict
    return counts - n * prior / prior.sum(), g_means, g_factors


def triangle(d: int) -> Any:
    """Where each entry of a lower triangle stands in (diagonal, strict part by columns, 0)."""
    index = np.full((d, d), d * (d + 1) // 2)
    index[np.diag_indices(d)] = np.arange(d)
    columns, rows = np.triu_indices(d, 1)
    index[rows, columns] = d + np.arange(len(rows))
    return index


def mixture(file: str = "", d: int = 0, k: int = 0, n: int = 0) -> Problem:
    """From a file of the benchmark, or random numbers of that size."""
    if file:
        found = gmm.load(file)
    else:
        rng = np.random.default_rng(6)
        points, alphas, means = rng.standard_normal((n, d)), rng.standard_normal(k), rng.standard_normal((k, d))
        found = gmm.Mixture(points, alphas, means, rng.standard_normal((k, d * (d + 1) // 2)), 1.0, 0)
    (n, d), k = found.points.shape, len(found.alphas)
    wishart = d + found.m + 1
    constant = -n * d / 2 * np.log(2 * np.pi) - k * (
        wishart * d * (np.log(found.gamma) - np.log(2) / 2) - float(multigammaln(wishart / 2, d))
    )
    columns = np.concatenate([found.points.T, np.ones((1, n))])
    data = (columns, triangle(d), np.zeros((k, 1)), found.gamma, found.m, float(constant))
    return Problem(mixture_value, (found.alphas, found.means, found.factors), data, mixture_hand)


# ---------------------------------------------------------------------------------------------------------------------
# Bundle adjustment: reprojection errors of many observations at once, each by its own 15 inputs.


def projection_value(
    xp: Any, data: tuple[Any], turn: Any, centre: Any, focal: Any, principal: Any, radial: Any, point: Any, weight: Any
) -> Any:
    """Two rows of residuals: w (distort(kappa, (R(r)(X - C))_{1:2} / (.)_3) f + x0 - feature)."""
    rx, ry, rz = turn[0], turn[1], turn[2]
    px, py, pz = point[0] - centre[0], point[1] - centre[1], point[2] - centre[2]
    # Rodrigues' formula: v cos a + (axis x v) sin a + axis (axis . v) (1 - cos a), the angle a being |r|.
    angle = xp.sqrt(rx * rx + ry * ry + rz * rz)
    cosine, sine = xp.cos(angle), xp.sin(angle)
    ux, uy, uz = rx / angle, ry / angle, rz / angle
    along = (ux * px + uy * py + uz * pz) * (1.0 - cosine)
    x = px * cosine + (uy * pz - uz * py) * sine + ux * along
    y = py * cosine + (uz * px - ux * pz) * sine + uy * along
    z = pz * cosine + (ux * py - uy * px) * sine + uz * along
    u, v = x / z, y / z
    square = u * u + v * v
    scale = (1.0 + square * (radial[0] + radial[1] * square)) * focal
    feature = data[0]
    return xp.stack(
        [
            weight * (u * scale + principal[0] - feature[0]),
            weight * (v * scale + principal[1] - feature[1]),
        ]
    )


def projection_hand(data: tuple[Array], *args: Array) -> tuple[Array, ...]:
    """One row of derivatives for u and one for v; only the way from (u, v) to the residual differs between them."""
    turn, centre, focal, principal, radial, point, weight = args
    offset = point - centre
    angle = np.sqrt((turn * turn).sum(axis=0))
    cosine, sine = np.cos(angle), np.sin(angle)
    axis = turn / angle
    dot = (axis * offset).sum(axis=0)
    across = cross(axis, offset)
    rotated = offset * cosine + across * sine + axis * (dot * (1.0 - cosine))
    uv = rotated[:2] / rotated[2]
    square = (uv * uv).sum(axis=0)
    factor = 1.0 + square * (radial[0] + radial[1] * square)
    scale = factor * focal
    plain = uv * scale + principal - data[0]
    found: list[Array] = []
    for k in (0, 1):
        g_factor = weight * uv[k] * focal
        g_square = g_factor * (radial[0] + 2.0 * radial[1] * square)
        g_uv = 2.0 * g_square * uv
        g_uv[k] += weight * scale
        g_rotated = np.concatenate([g_uv, -(g_uv * uv).sum(axis=0)[None]]) / rotated[2]
        back = (axis * g_rotated).sum(axis=0)
        g_offset = g_rotated * cosine - cross(axis, g_rotated) * sine + axis * (back * (1.0 - cosine))
        g_angle = (g_rotated * (across * cosine - offset * sine)).sum(axis=0) + back * dot * sine
        g_axis = cross(offset, g_rotated) * sine + (1.0 - cosine) * (dot * g_rotated + back * offset)
        g_turn = (g_axis - axis * (axis * g_axis).sum(axis=0)) / angle + axis * g_angle
        g_principal = np.zeros_like(principal)
        g_principal[k] = weight
        g_radial = np.stack([g_factor * square, g_factor * square * square])
        found += [g_turn, -g_offset, weight * uv[k] * factor, g_principal, g_radial, g_offset, plain[k]]
    return tuple(found)


def cross(a: Array, b: Array) -> Array:
    """The vector product of columns."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def projection(observations: int) -> Problem:
    rng = np.random.default_rng(7)

    def near(*middle: float) -> Array:
        return np.array(middle)[:, None] + 0.1 * rng.standard_normal((len(middle), observations))

    # Inputs of the size of the benchmark's, all observations different.
    camera = near(0.3, -0.2, 0.5), near(0.1, 0.2, -8.0), near(2.0)[0], near(0.1, -0.1), near(0.1, -0.02)
    return Problem(
        projection_value, (*camera, near(0.4, -0.3, 1.0), near(0.8)[0]), (near(0.2, 0.1),), projection_hand, "rows"
    )


# ---------------------------------------------------------------------------------------------------------------------
# LSTM: a character model whose gates are elementwise products, and the mean log-loss of its predictions.


def lstm_value(xp: Any, data: tuple[Any, ...], main: Any, extra: Any) -> Any:
    state, characters, targets = data
    layers, b = len(state) // 2, targets.shape[1]
    weights = [(main[2 * k], main[2 * k + 1]) for k in range(layers)]
    into = extra[0]
    hidden, cell = list(state[0::2]), list(state[1::2])
    found = []
    for character in characters:
        x = character * into
        for k, (weight, bias) in enumerate(weights):
            h = hidden[k]
            z = xp.concatenate([x, h, x, h]) * weight + bias
            gates = 1.0 / (1.0 + xp.exp(-z[: 3 * b]))
            cell[k] = gates[:b] * cell[k] + gates[b : 2 * b] * xp.tanh(z[3 * b :])
            hidden[k] = x = gates[2 * b :] * xp.tanh(cell[k])
        found.append(x)
    y = xp.stack(found) * extra[1] + extra[2]
    logs = xp.log(2.0 + xp.sum(xp.exp(y), axis=1))
    return xp.mean(targets * (logs[:, None] - y))


def lstm_jax(xp: Any, data: tuple[Any, ...], main: Any, extra: Any) -> Any:
    """The same with JAX's own loop over the characters."""
    from jax import lax

    state, characters, targets = data
    layers, b = len(state) // 2, targets.shape[1]

    def step(carry: Any, character: Any) -> Any:
        hidden, cell = list(carry[0]), list(carry[1])
        x = character * extra[0]
        for k in range(layers):
            h = hidden[k]
            z = xp.concatenate([x, h, x, h]) * main[2 * k] + main[2 * k + 1]
            gates = 1.0 / (1.0 + xp.exp(-z[: 3 * b]))
            cell[k] = gates[:b] * cell[k] + gates[b : 2 * b] * xp.tanh(z[3 * b :])
            hidden[k] = x = gates[2 * b :] * xp.tanh(cell[k])
        return (hidden, cell), x

    _, found = lax.scan(step, (list(state[0::2]), list(state[1::2])), xp.stack(characters))
    y = found * extra[1] + extra[2]
    logs = xp.log(2.0 + xp.sum(xp.exp(y), axis=1))
    return xp.mean(targets * (logs[:, None] - y))


def lstm_hand(data: tuple[Any, ...], main: Array, extra: Array) -> tuple[Array, ...]:
    state, characters, targets = data
    layers, b = len(state) // 2, targets.shape[1]
    hidden, cell = list(state[0::2]), list(state[1::2])
    kept, found = [], []
    for character in characters:
        x = character * extra[0]
        for k in range(layers):
            inputs = np.concatenate([x, hidden[k], x, hidden[k]])
            z = inputs * main[2 * k] + main[2 * k + 1]
            gates, change = 1.0 / (1.0 + np.exp(-z[: 3 * b])), np.tanh(z[3 * b :])
            before, cell[k] = cell[k], gates[:b] * cell[k] + gates[b : 2 * b] * change
            top = np.tanh(cell[k])
            hidden[k] = x = gates[2 * b :] * top
            kept.append((inputs, gates, change, before, top))
        found.append(x)
    outputs = np.stack(found)
    y = outputs * extra[1] + extra[2]
    e = np.exp(y)
    gy = (targets.sum(axis=1, keepdims=True) * e / (2.0 + e.sum(axis=1, keepdims=True)) - targets) / targets.size
    g_main, g_extra = np.zeros_like(main), np.stack([np.zeros(b), (gy * outputs).sum(axis=0), gy.sum(axis=0)])
    g_hidden, g_cell = [np.zeros(b)] * layers, [np.zeros(b)] * layers
    for character, g in zip(reversed(characters), (gy * extra[1])[::-1], strict=True):
        for k in reversed(range(layers)):
            inputs, gates, change, before, top = kept.pop()
            gh = g_hidden[k] + g
            gc = g_cell[k] + gh * gates[2 * b :] * (1.0 - top * top)
            g_gates = np.concatenate([gc * before, gc * change, gh * top]) * gates * (1.0 - gates)
            gz = np.concatenate([g_gates, gc * gates[b : 2 * b] * (1.0 - change * change)])
            g_cell[k] = gc * gates[:b]
            g_main[2 * k] += gz * inputs
            g_main[2 * k + 1] += gz
            back = (gz * main[2 * k]).reshape(4, b)
            g, g_hidden[k] = back[0] + back[2], back[1] + back[3]
        g_extra[0] += g * character
    return g_main, g_extra


def published(name: str) -> str:
    """The text of a data file of the benchmark."""
    return gzip.decompress((DATA / name).read_bytes()).decode("ascii")


def lstm(characters: int) -> Problem:
    """The benchmark's two layers of fourteen bits, cut to so many characters."""
    head, *lines = published("lstm_l2_c1024.txt.gz").split("\n")
    layers, _, b = map(int, head.split())
    numbers = np.array(" ".join(lines).split(), dtype=float)
    main, extra, state, rows = np.split(numbers, np.cumsum([8 * layers * b, 3 * b, 2 * layers * b]))
    rows = rows.reshape(-1, b)[:characters]
    # Lists of rows: every library reads them one by one, without an operation of its own for that.
    data = (list(state.reshape(-1, b)), list(rows[:-1]), rows[1:])
    return Problem(
        lstm_value, (main.reshape(2 * layers, 4 * b), extra.reshape(3, b)), data, lstm_hand, versions={"jax": lstm_jax}
    )
