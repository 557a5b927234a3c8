"""Bundle adjustment of ADBench: residuals of all observations at once, and their sparse Jacobian by both modes.

Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, section on BA; the order of parameters and of entries is that of the
Jacobian which the benchmark's tests expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dualtape as dt

from ..shared import adbench_data

Array = NDArray[np.float64]

CAMERA, POINT = 11, 3  # rotation 3, centre 3, focal length, principal point 2, radial distortion 2; position 3
INPUTS = CAMERA + POINT + 1  # of one observation: with its weight


@dataclass(frozen=True)
class Scene:
    """Cameras, points, and weights and features of observations; observation i joins camera and point i (mod n, m)."""

    cameras: Array  # n x 11
    points: Array  # m x 3
    weights: Array  # p
    features: Array  # p x 2

    @property
    def joins(self) -> tuple[Any, Any]:
        """The camera and the point of each observation."""
        i = np.arange(len(self.weights))
        return i % len(self.cameras), i % len(self.points)

    @property
    def parameters(self) -> Array:
        """Cameras, points and weights in one vector: the columns of the Jacobian."""
        return np.concatenate([self.cameras.ravel(), self.points.ravel(), self.weights])


def load(name: str, observations: int | None = None) -> Scene:
    """Read `n m p` and one camera, point, weight and feature, which stand for all; of the observations the first."""
    head, *lines = adbench_data.read(name).split("\n")
    n, m, p = map(int, head.split())
    p = min(p, observations or p)
    camera, point, weight, feature, rest = np.split(np.array(" ".join(lines).split(), dtype=float), [11, 14, 15, 17])
    if rest.size:
        raise ValueError(f"{name}: {rest.size} numbers more than one observation takes")
    return Scene(np.tile(camera, (n, 1)), np.tile(point, (m, 1)), np.full(p, weight[0]), np.tile(feature, (p, 1)))


def drawn(n: int, m: int, p: int, rng: np.random.Generator) -> Scene:
    """A scene whose observations all differ, near one that a camera would see."""

    def near(count: int, *middle: float) -> Array:
        return np.array(middle) + 0.1 * rng.normal(size=(count, len(middle)))

    cameras = near(n, 0.3, -0.2, 0.5, 0.1, 0.2, -8.0, 2.0, 0.1, -0.1, 0.1, -0.02)
    return Scene(cameras, near(m, 0.4, -0.3, 1.0), near(p, 0.8)[:, 0], near(p, 0.2, 0.1))


# ---------------------------------------------------------------------------------------------------------------------
# The function.


def residual(features: Any, *inputs: Any) -> tuple[Any, Any, Any]:
    """Both reprojection errors and the weight's own term, of each observation, by its 15 inputs (arrays of p).

        w (distort(kappa, project(rodrigues(r, X - C))) f + x0 - feature)    and    1 - w^2

    with project(x) = (x_1, x_2) / x_3, distort(kappa, u) = u (1 + kappa_1 |u|^2 + kappa_2 |u|^4), and Rodrigues'
    rotation v cos a + (e x v) sin a + e (e . v) (1 - cos a) about e = r / a, a = |r|.
    """
    r1, r2, r3, c1, c2, c3, focal, x0, y0, kappa1, kappa2, p1, p2, p3, weight = inputs
    v1, v2, v3 = p1 - c1, p2 - c2, p3 - c3
    angle = np.sqrt(r1 * r1 + r2 * r2 + r3 * r3)
    e1, e2, e3 = r1 / angle, r2 / angle, r3 / angle
    cosine, sine = np.cos(angle), np.sin(angle)
    along = (e1 * v1 + e2 * v2 + e3 * v3) * (1.0 - cosine)
    depth = v3 * cosine + (e1 * v2 - e2 * v1) * sine + e3 * along
    x = (v1 * cosine + (e2 * v3 - e3 * v2) * sine + e1 * along) / depth
    y = (v2 * cosine + (e3 * v1 - e1 * v3) * sine + e2 * along) / depth
    square = x * x + y * y
    scale = (1.0 + square * (kappa1 + kappa2 * square)) * focal
    errors = [weight * (z * scale + z0 - feature) for z, z0, feature in ((x, x0, features[0]), (y, y0, features[1]))]
    return errors[0], errors[1], 1.0 - weight * weight


def gather(scene: Scene, cameras: Any, points: Any, weights: Any) -> list[Any]:
    """The 15 inputs of each observation."""
    camera, point = scene.joins
    return [*cameras.T[:, camera], *points.T[:, point], weights]


def objective(scene: Scene) -> Any:
    """All residuals, by all parameters in one vector: both errors of each observation in turn, then the weights'."""
    (n, _), (m, _), features = scene.cameras.shape, scene.points.shape, scene.features.T

    def residuals(parameters: Any) -> Any:
        cameras = parameters[: CAMERA * n].reshape(n, CAMERA)
        points = parameters[CAMERA * n : CAMERA * n + POINT * m].reshape(m, POINT)
        weights = parameters[CAMERA * n + POINT * m :]
        x, y, of_weight = residual(features, *gather(scene, cameras, points, weights))
        return np.concatenate([np.stack([x, y], axis=1).ravel(), of_weight])

    return residuals


# ---------------------------------------------------------------------------------------------------------------------
# The Jacobian: 15 entries in each row of an error, one in that of a weight. Each observation has 31, wherever they are.


def structure(scene: Scene) -> tuple[Any, Any]:
    """Column numbers and ends of rows: they depend on who sees what alone."""
    (n, m), p = (len(scene.cameras), len(scene.points)), len(scene.weights)
    camera, point = scene.joins
    start = CAMERA * n + POINT * m
    columns = np.empty((p, INPUTS), np.int32)
    columns[:, :CAMERA] = CAMERA * camera[:, None] + np.arange(CAMERA)
    columns[:, CAMERA:-1] = CAMERA * n + POINT * point[:, None] + np.arange(POINT)
    columns[:, -1] = start + np.arange(p)
    indices = np.concatenate([np.repeat(columns, 2, axis=0).ravel(), columns[:, -1]])
    ends = np.cumsum(np.concatenate([[0], np.full(2 * p, INPUTS), np.ones(p, int)]), dtype=np.int32)
    return indices, ends


def matrix(scene: Scene, data: Array) -> csr_array:
    """The Jacobian with these entries, 3p x (11n + 3m + p)."""
    indices, ends = structure(scene)
    return csr_array((data, indices, ends), shape=(3 * len(scene.weights), scene.parameters.size))


def inputs_of(scene: Scene) -> list[Any]:
    return gather(scene, scene.cameras, scene.points, scene.weights)


def filled(p: int) -> tuple[Array, Array, Array]:
    """Room for the entries, and where those of the errors (p x 2 x 15) and of the weights' rows (p) are in it."""
    data = np.empty((2 * INPUTS + 1) * p)
    return data, data[: 2 * INPUTS * p].reshape(p, 2, INPUTS), data[2 * INPUTS * p :]


def forward_sweeps(features: Any, *inputs: Any) -> list[tuple[Any, ...]]:
    """What 15 tangents make of the residuals: the derivatives of all three rows by one input after the other."""
    _, push = dt.linearize(lambda *xs: residual(features, *xs), *inputs)
    zero, one = np.zeros_like(inputs[0]), np.ones_like(inputs[0])
    return [push(*[one if k == j else zero for k in range(INPUTS)]) for j in range(INPUTS)]


def reverse_sweeps(features: Any, *inputs: Any) -> list[tuple[Any, ...]]:
    """What a cotangent of each row makes: the derivatives of both errors by all inputs, and of the weight's term."""
    _, pull = dt.vjp(lambda *xs: residual(features, *xs), *inputs)
    one = np.ones_like(inputs[0])
    return [pull(tuple(one if k == j else None for k in range(3))) for j in range(3)]


def forward(scene: Scene) -> Array:
    """The entries of the Jacobian in the order of its rows, by 15 tangents."""
    data, errors, weights = filled(len(scene.weights))
    columns = forward_sweeps(scene.features.T, *inputs_of(scene))
    for j, (x, y, _) in enumerate(columns):
        errors[:, 0, j], errors[:, 1, j] = x, y
    weights[:] = columns[-1][2]
    return data


def reverse(scene: Scene) -> Array:
    """The same by two cotangents, and a third one for the rows of the weights, which are one operation deep."""
    data, errors, weights = filled(len(scene.weights))
    *both, last = reverse_sweeps(scene.features.T, *inputs_of(scene))
    for k, row in enumerate(both):
        for j, entries in enumerate(row):
            errors[:, k, j] = entries
    weights[:] = last[-1]
    return data


MODES = {"forward": (forward, forward_sweeps), "reverse": (reverse, reverse_sweeps)}
