"""Hand tracking of ADBench: distances of measured points from a hand model that is posed by 26 parameters.

Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129, section on HT: linear blend skinning. Which parameter turns which bone,
and about which axis, is the benchmark's implementation, with whose expected values it is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dualtape as dt

from ..shared import adbench_data

Array = NDArray[np.float64]

POSE = 26  # rotation 3, translation 3, and 4 angles for each finger
BOTTOM = np.array([[[0.0, 0.0, 0.0, 1.0]]])  # of a 4 x 4 matrix that moves rigidly


@dataclass(frozen=True)
class Hand:
    """Bones in the order of the file, parents first, and the skin that hangs on them."""

    parents: tuple[int, ...]
    relative: Array  # B x 3 x 4: where a bone is, seen from its parent
    skin: Array  # 4 B x M: each vertex seen from each bone at rest, times the weight with which it hangs there
    triangles: NDArray[np.intp]  # T x 3


@dataclass(frozen=True)
class Fit:
    """Measured points, each with a vertex or a place on a triangle of the hand, and a pose."""

    hand: Hand
    points: Array  # N x 3
    vertices: NDArray[np.intp]  # N, or N x 3 corners
    places: Array | None  # N x 2 barycentric coordinates, if a point belongs to a triangle
    pose: Array  # 26

    @property
    def parameters(self) -> Array:
        """Places, if there are any, and pose in one vector, in the benchmark's order."""
        return self.pose if self.places is None else np.concatenate([self.places.ravel(), self.pose])


@cache
def model(folder: str = "hand/model") -> Hand:
    """Read bones, vertices and triangles, whose fields are separated by colons."""
    bones, vertices, triangles = [
        [line.split(":") for line in adbench_data.read(f"{folder}/{name}").split("\n") if line]
        for name in ("bones.txt", "vertices.txt.gz", "triangles.txt")
    ]
    numbers = np.array([bone[2:34] for bone in bones], dtype=float).reshape(-1, 2, 4, 4)
    weights, positions = np.zeros((len(bones), len(vertices))), np.ones((4, len(vertices)))
    for j, vertex in enumerate(vertices):
        positions[:3, j] = [float(number) for number in vertex[:3]]
        for bone, weight in zip(vertex[9::2], vertex[10::2], strict=True):
            weights[int(bone), j] = float(weight)
    at_rest = numbers[:, 1] @ positions
    return Hand(
        tuple(int(bone[1]) for bone in bones),
        numbers[:, 0, :3],
        (at_rest * weights[:, None]).reshape(4 * len(bones), -1),
        np.array(triangles, dtype=np.intp),
    )


def load(name: str) -> Fit:
    """Read `N 26`, N lines `index x y z`, in the complicated problem N places, and the pose."""
    head, *lines = adbench_data.read(name).split("\n")
    n, pose = map(int, head.split())
    numbers = np.array(" ".join(lines).split(), dtype=float)
    index, points = np.split(numbers[: 4 * n].reshape(n, 4), [1], axis=1)
    places, hand, number = numbers[4 * n : -pose], model(), index[:, 0].astype(np.intp)
    if places.size:
        return Fit(hand, points, hand.triangles[number], places.reshape(n, 2), numbers[-pose:])
    return Fit(hand, points, number, None, numbers[-pose:])


# ---------------------------------------------------------------------------------------------------------------------
# The function.


@cache
def levels(parents: tuple[int, ...]) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Bones as far from the root as each other, with the places of their parents among those before."""
    depth = [0] * len(parents)
    for bone, parent in enumerate(parents):
        depth[bone] = depth[parent] + 1 if parent >= 0 else 0
    found, before = [], {-1: 0}
    for level in range(max(depth) + 1):
        bones = [bone for bone in range(len(parents)) if depth[bone] == level]
        found.append((np.array(bones), np.array([before[parents[bone]] for bone in bones])))
        before = {bone: place for place, bone in enumerate(bones)}
    return tuple(found)


def turned(bones: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of 21 numbers, 0 and the 20 angles, turns each bone about x, and which about z.

    Of the four bones of a finger the first is stiff; the second has two angles, the others bend by one each.
    """
    about_x, about_z = np.zeros(bones, np.intp), np.zeros(bones, np.intp)
    for finger in range(5):
        bone, angle = 2 + 4 * finger, 1 + 4 * finger
        about_x[bone : bone + 3] = angle, angle + 2, angle + 3
        about_z[bone] = angle + 1
    return about_x, about_z


def about_axis(r: Any) -> Any:
    """The rotation about r by |r|: cos a I + sin a [e]_x + (1 - cos a) e e^T (Rodrigues)."""
    angle = np.sqrt(np.sum(r * r))
    e = r / angle
    cosine, sine = np.cos(angle), np.sin(angle)
    cross = np.array([[0, 0, 0, 0, 0, -1, 0, 1, 0], [0, 0, 1, 0, 0, 0, -1, 0, 0], [0, -1, 0, 1, 0, 0, 0, 0, 0]])
    outer = e.reshape(3, 1) * e
    return cosine * np.eye(3) + sine * (e @ cross).reshape(3, 3) + (1.0 - cosine) * outer


def posed(hand: Hand, angles: Any) -> Any:
    """Where all bones are, 3 x 4 B: their own turn, R_z R_x, seen from their parent, and so on to the root."""
    about_x, about_z = turned(len(hand.parents))
    every = np.concatenate([np.zeros(1), angles])
    cosines, sines = np.cos(every), np.sin(every)
    cx, sx, cz, sz = cosines[about_x], sines[about_x], cosines[about_z], sines[about_z]
    zero = np.zeros(len(hand.parents))
    rows = np.stack([cz, -sz * cx, sz * sx, sz, cz * cx, -cz * sx, zero, sx, cx], axis=1)
    turns = hand.relative[:, :, :3] @ rows.reshape(-1, 3, 3)
    own = np.concatenate([turns, hand.relative[:, :, 3:]], axis=2)
    above, found, order = np.eye(4)[None, :3], [], []
    for bones, parents in levels(hand.parents):
        rigid = np.concatenate([own[bones], np.broadcast_to(BOTTOM, (len(bones), 1, 4))], axis=1)
        above = above[parents] @ rigid
        found.append(above)
        order.append(bones)
    back = np.argsort(np.concatenate(order))
    return np.concatenate(found)[back].transpose(1, 0, 2).reshape(3, -1)


def skinned(hand: Hand, pose: Any) -> Any:
    """All vertices, 3 x M: sum over bones of weight times what the bone makes of the vertex; then the hand's place."""
    return about_axis(pose[:3]) @ (posed(hand, pose[6:]) @ hand.skin) + pose[3:6].reshape(3, 1)


def objective(fit: Fit) -> Callable[[Any], Any]:
    """The 3 N distances, points one after the other: y - v, or y - (u_1 v_1 + u_2 v_2 + (1 - u_1 - u_2) v_3)."""
    n, free = len(fit.points), 0 if fit.places is None else 2 * len(fit.points)

    def distances(parameters: Any) -> Any:
        vertices = skinned(fit.hand, parameters[free:])
        if free:
            u = parameters[:free].reshape(n, 2)
            first, second, third = (vertices[:, corner] for corner in fit.vertices.T)
            there = third + u[:, 0] * (first - third) + u[:, 1] * (second - third)
        else:
            there = vertices[:, fit.vertices]
        return (fit.points - there.T).ravel()

    return distances


# ---------------------------------------------------------------------------------------------------------------------
# The Jacobian. That of the places is block diagonal, 3 x 2 a point, so that two tangents are enough for all of them.


def seeds(fit: Fit) -> Array:
    """The tangents: one for each of the two places of all points at once, if there are any; one a pose parameter."""
    free = fit.parameters.size - POSE
    rows = np.zeros((POSE + (2 if free else 0), fit.parameters.size))
    rows[len(rows) - POSE :, free:] = np.eye(POSE)
    if free:
        rows[0, :free:2] = rows[1, 1:free:2] = 1.0
    return rows


def forward(fit: Fit, directions: Any) -> Any:
    """Compressed Jacobian, 3 N x 26, or 28 with two columns for the places: one tangent a column, linearised once."""
    return dt.jacfwd(lambda seed: objective(fit)(fit.parameters + seed @ directions))(np.zeros(len(directions)))


def reverse(fit: Fit) -> Any:
    """The whole Jacobian, 3 N x (2 N + 26): one cotangent a row."""
    return dt.jacrev(objective(fit))(fit.parameters)


def decompressed(fit: Fit, columns: Array) -> csr_array:
    """The sparse Jacobian that compressed columns stand for: row i has the places of point i div 3, and the pose."""
    rows, free = len(columns), fit.parameters.size - POSE
    pose = np.broadcast_to(free + np.arange(POSE), (rows, POSE))
    point = np.arange(rows)[:, None] // 3
    own = np.concatenate([2 * point, 2 * point + 1, pose], axis=1) if free else pose
    ends = own.shape[1] * np.arange(rows + 1)
    return csr_array((np.ravel(columns), np.ravel(own), ends), shape=(rows, fit.parameters.size))
