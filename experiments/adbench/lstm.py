"""The LSTM of ADBench: a model of characters whose gates are products by elements, and its loss in plain NumPy.

microsoft/ADBench, whose paper (Srajer, Kukelova & Fitzgibbon, arXiv:1807.10129) does not have this problem. The 2 that
is added to the sum of the normaliser is the benchmark's implementation: the values that its tests expect require it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dualtape as dt

from ..shared import adbench_data

Array = NDArray[np.float64]

ADDED = 2.0  # to the sum of the normaliser, see above


@dataclass(frozen=True)
class Model:
    """A network of l layers of b units with the text it is to predict."""

    main: Array  # 2 l x 4 b: weights and bias of each layer
    extra: Array  # 3 x b: weights of the input, weights and bias of the output
    state: Array  # 2 l x b: hidden units and cells that each layer starts with
    text: Array  # c x b: the bits of each character

    @property
    def parameters(self) -> Array:
        """What the loss is differentiated by, in the benchmark's order."""
        return np.concatenate([self.main.ravel(), self.extra.ravel()])


def load(name: str, characters: int | None = None) -> Model:
    """Read `l c b`, then main parameters, extra parameters, state and characters, of which the first ones are kept."""
    head, *lines = adbench_data.read(name).split("\n")
    layers, c, b = map(int, head.split())
    numbers = np.array(" ".join(lines).split(), dtype=float)
    sizes = (8 * layers * b, 3 * b, 2 * layers * b, c * b)
    main, extra, state, text, rest = np.split(numbers, np.cumsum(sizes))
    if rest.size:
        raise ValueError(f"{name}: {rest.size} numbers more than {layers} layers and {c} characters take")
    text = text.reshape(c, b)[:characters]
    return Model(main.reshape(2 * layers, 4 * b), extra.reshape(3, b), state.reshape(2 * layers, b), text)


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def layer(x: Any, hidden: Any, cell: Any, weight: Any, bias: Any) -> tuple[Any, Any]:
    """One step of one layer, of hidden units and cells to the next ones.

    The gates are (x, h, x, h) * weight + bias by elements, in the order forget, in, out, change:

        c' = sigmoid(forget) c + sigmoid(in) tanh(change),    h' = sigmoid(out) tanh(c')
    """
    b = hidden.shape[0]
    gates = np.concatenate([x, hidden, x, hidden]) * weight + bias
    open_ = sigmoid(gates[: 3 * b])
    cell = open_[:b] * cell + open_[b : 2 * b] * np.tanh(gates[3 * b :])
    return open_[2 * b :] * np.tanh(cell), cell


def python_loop(step: Callable[[Any, Any], tuple[Any, Any]], state: Any, xs: Any) -> tuple[Any, Any]:
    """What `dt.scan` does, with one operation for each one of each step."""
    found = []
    for x in xs:
        state, y = step(state, x)
        found.append(y)
    return state, np.stack(found)


def objective(model: Model, loop: Callable[..., tuple[Any, Any]] = dt.scan) -> Callable[[Any], Any]:
    """The mean, over characters and bits, of t (log(2 + sum_j exp y_j) - y), t being the next character.

    y = x e_1 + e_2 with the last layer's x, whose first one gets the character times e_0.
    """
    layers, b = len(model.main) // 2, model.text.shape[1]
    state = [(model.state[2 * k], model.state[2 * k + 1]) for k in range(layers)]
    given, wanted = model.text[:-1], model.text[1:]

    def lstm(parameters: Any) -> Any:
        main = parameters[: model.main.size].reshape(2 * layers, 4 * b)
        into, out, bias = parameters[model.main.size :].reshape(3, b)
        weights = [(main[2 * k], main[2 * k + 1]) for k in range(layers)]

        def step(state: Any, character: Any) -> tuple[Any, Any]:
            x, after = character * into, []
            for (hidden, cell), weight in zip(state, weights, strict=True):
                x, cell = layer(x, hidden, cell, *weight)
                after.append((x, cell))
            return after, x

        _, found = loop(step, state, given)
        y = found * out + bias
        logs = np.log(ADDED + np.sum(np.exp(y), axis=1, keepdims=True))
        return np.mean(wanted * (logs - y))

    return lstm
