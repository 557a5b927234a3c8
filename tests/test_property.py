"""Draws shapes, axes, indices and whole programs, and checks both modes against each other and against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dualtape as dt
from dualtape.testing import check_grads

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
SOME = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3)


def filled(shape: tuple[int, ...], seed: int, dtype: Any = float) -> Any:
    """Distinct numbers between 0.4 and 1.9 in no order: no kink, pole or edge of a domain is near."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    values = 0.4 + 1.5 * (rng.permutation(n) + 0.5) / max(n, 1)
    values = values if dtype is float else values * np.exp(1j * rng.uniform(-1.2, 1.2, n))
    return np.asarray(values.reshape(shape))


def adjoint(f: Any, args: tuple[Any, ...]) -> None:
    """<J^T w, v> = <w, J v>, and value, shapes and dtypes as NumPy's. Holds at empty and at rough points, too."""
    expected = np.asarray(f(*args))
    rng = np.random.default_rng(0)
    vs = tuple(np.asarray(rng.uniform(0.5, 1.5, x.shape).astype(x.dtype)) for x in args)
    value, tangent = dt.jvp(f, args, vs)
    again, pullback = dt.vjp(f, *args)
    for got in (value, again, tangent):
        assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    w = np.asarray(rng.uniform(0.5, 1.5, expected.shape).astype(expected.dtype))
    gradients = [np.asarray(g) for g in pullback(w)]
    for g, x in zip(gradients, args, strict=True):
        assert g.shape == x.shape and g.dtype == x.dtype
    left = sum(float(np.sum(np.real(np.conj(g) * v))) for g, v in zip(gradients, vs, strict=True))
    right = float(np.sum(np.real(np.conj(w) * np.asarray(tangent))))
    scale = sum(float(np.sum(np.abs(g * v))) for g, v in zip(gradients, vs, strict=True))
    assert abs(left - right) <= 1e-10 * scale


# ------------------------------------------------------------------ shapes and axes
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.power, np.arctan2, np.hypot, np.maximum, np.logaddexp]


@given(
    shapes=hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=3, min_side=0, max_side=3),
    op=st.sampled_from(BINARY),
)
def test_broadcasting_of_two(shapes: Any, op: Any) -> None:
    x, y = (filled(s, k) for k, s in enumerate(shapes.input_shapes))
    adjoint(op, (x, y))


@given(shapes=hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
def test_where_broadcasts_three(shapes: Any) -> None:
    a, b, c = shapes.input_shapes
    condition = filled(a, 3) > 1.1
    adjoint(lambda x, y: np.where(condition, x, y), (filled(b, 1), filled(c, 2)))


REDUCTIONS = [np.sum, np.mean, np.prod, np.max, np.min, np.var, np.std, dt.logsumexp]


@st.composite
def with_axis(draw: Any) -> Any:
    shape = draw(SOME)
    axis = draw(
        st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1), hnp.valid_tuple_axes(len(shape), min_size=1))
    )
    return shape, axis


@given(drawn=with_axis(), op=st.sampled_from(REDUCTIONS), keepdims=st.booleans(), complex_=st.booleans())
def test_reductions(drawn: Any, op: Any, keepdims: bool, complex_: bool) -> None:
    shape, axis = drawn
    assume(not (complex_ and op in (np.max, np.min)))
    x = filled(shape, 5, complex if complex_ else float)
    if op is np.std:
        x = x + 3 * np.arange(x.size).reshape(shape)  # away from constant lines, unless they are of one element
    adjoint(lambda t: op(t, axis=axis, keepdims=keepdims), (x,))


@given(drawn=with_axis(), op=st.sampled_from([np.cumsum, np.cumprod, np.sort, np.flip]))
def test_operations_along_an_axis(drawn: Any, op: Any) -> None:
    shape, axis = drawn
    axis = axis[0] if isinstance(axis, tuple) else axis
    adjoint(lambda t: op(t, axis=axis), (filled(shape, 6),))


@given(shape=SOME, data=st.data())
def test_rearrangements(shape: tuple[int, ...], data: Any) -> None:
    n = len(shape)
    x = filled(shape, 7)
    order = data.draw(st.permutations(range(n)))
    a, b = data.draw(st.integers(-n, n - 1)), data.draw(st.integers(-n, n - 1))
    width = data.draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=n, max_size=n))
    shift = data.draw(st.integers(-4, 4))
    reps = data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=4))
    for f in (
        lambda t: np.transpose(t, order),
        lambda t: np.moveaxis(t, a, b),
        lambda t: np.swapaxes(t, a, b),
        lambda t: np.expand_dims(t, a),
        lambda t: np.pad(t, width),
        lambda t: np.roll(t, shift, axis=a),
        lambda t: np.tile(t, reps),
        lambda t: np.repeat(t, 2, axis=a),
        lambda t: np.concatenate([t, t * t], axis=a),
        lambda t: np.stack([t, np.sin(t)], axis=b),
        lambda t: np.reshape(t, (-1,), order="F"),
    ):
        adjoint(f, (x,))


@st.composite
def contractions(draw: Any) -> Any:
    """An einsum of two or three operands over at most four indices, explicit or not."""
    letters = "abcd"
    sizes = {c: draw(st.integers(1, 3)) for c in letters}
    terms = draw(st.lists(st.text(letters, min_size=0, max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    out = draw(st.permutations(draw(st.lists(st.sampled_from(used), unique=True)))) if used else []
    arrow = "->" + "".join(out)
    return ",".join(terms) + arrow, [tuple(sizes[c] for c in t) for t in terms]


@given(drawn=contractions())
def test_einsum(drawn: Any) -> None:
    subscripts, shapes = drawn
    adjoint(lambda *xs: np.einsum(subscripts, *xs), tuple(filled(s, k) for k, s in enumerate(shapes)))


@given(
    shapes=hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, min_side=0, max_side=3),
    complex_=st.booleans(),
)
def test_matmul(shapes: Any, complex_: bool) -> None:
    x, y = shapes.input_shapes
    adjoint(np.matmul, (filled(x, 1, complex if complex_ else float), filled(y, 2)))


# ------------------------------------------------------------------ indices
@st.composite
def indexed(draw: Any) -> Any:
    shape = draw(SOME)
    basic = hnp.basic_indices(shape, allow_newaxis=True)
    integers = hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3, min_side=0))
    masks = hnp.arrays(bool, shape)
    return shape, draw(st.one_of(basic, integers, masks))


@given(drawn=indexed())
def test_reading_any_index(drawn: Any) -> None:
    shape, index = drawn
    adjoint(lambda x: x[index], (filled(shape, 1),))


@given(drawn=indexed(), add=st.booleans())
def test_writing_any_index(drawn: Any, add: bool) -> None:
    shape, index = drawn
    x = filled(shape, 1)
    v = filled(np.shape(x[index]), 2)

    def f(x: Any, v: Any) -> Any:
        y = x * 1.0
        if add:
            y[index] += v
        else:
            y[index] = v
        return y * y

    def result(x: Any, v: Any) -> Any:
        return f(dt.asarray(x), v) if isinstance(v, dt.Tensor) else f(x, v)

    adjoint(result, (x, v))


# ------------------------------------------------------------------ programs
# Each step takes two values of one shape and gives one of that shape, of a size that stays near 1.
STEPS: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - 0.5 * b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / (1.5 + b * b),
    "sin": lambda a, b: np.sin(a) + b,
    "exp": lambda a, b: np.exp(-a * a) * b,
    "tanh": lambda a, b: np.tanh(a * b),
    "sqrt": lambda a, b: np.sqrt(1.0 + a * a),
    "log": lambda a, b: np.log(2.0 + np.cos(a)) * b,
    "power": lambda a, b: (2.0 + np.sin(b)) ** a,
    "sum": lambda a, b: a - np.mean(a, axis=-1, keepdims=True) * b,
    "softmax": lambda a, b: np.exp(a - dt.logsumexp(a, axis=-1, keepdims=True)) + b,
    "reverse": lambda a, b: a[..., ::-1] * b,
    "gather": lambda a, b: a[..., [0, -1, 0]] + b[..., [1, 1, 0]] if np.shape(a)[-1] == 3 else a * 2.0,
    "transpose": lambda a, b: (
        np.transpose(a) @ b * 0.3 if np.ndim(a) == 2 and np.shape(a)[0] == np.shape(a)[1] else a + b
    ),
    "cumsum": lambda a, b: np.cumsum(a, axis=-1) * 0.4 + b,
    "stack": lambda a, b: np.stack([a, b, a * b]).sum(axis=0),
    "join": lambda a, b: (
        np.concatenate([a, b], axis=-1)[..., : np.shape(a)[-1]]
        * np.concatenate([b, a], axis=-1)[..., : np.shape(a)[-1]]
    ),
    "select": lambda a, b: np.where(np.arange(np.shape(a)[-1]) % 2 == 0, a, b * b),
    "write": lambda a, b: written(a, b),
    "number": lambda a, b: a * 0.7 + 1.1 - b / 2,
    "variance": lambda a, b: a / (1.0 + np.var(b)),
}


def written(a: Any, b: Any) -> Any:
    y = dt.asarray(a) * 1.0 if isinstance(b, dt.Tensor) else a * 1.0
    y[..., 0] = b[..., -1]
    y[..., -1] += a[..., 0] * b[..., 0]
    return y


@st.composite
def programs(draw: Any) -> Any:
    """Two arrays and up to eight steps, each on any two values there are: results are reused, or not used at all."""
    shape = draw(st.sampled_from([(3,), (2, 3), (3, 3), (1,), (2, 1, 3)]))
    steps = []
    for k in range(draw(st.integers(1, 8))):
        value = st.integers(0, k + 1)
        steps.append((draw(st.sampled_from(sorted(STEPS))), draw(value), draw(value)))
    return shape, steps


def run(steps: Any, *values: Any) -> Any:
    made = list(values)
    for name, i, j in steps:
        made.append(STEPS[name](made[i], made[j]))
    # The last value, and a little of each other one that no step may have used.
    return made[-1] + 0.1 * made[len(made) // 2]


@given(program=programs())
def test_programs_in_both_modes(program: Any) -> None:
    shape, steps = program
    point = (filled(shape, 1), filled(shape, 2) - 1.0)
    assume(np.max(np.abs(run(steps, *point))) < 1e3)
    adjoint(lambda x, y: run(steps, x, y), point)


@settings(max_examples=25)
@given(program=programs())
def test_programs_to_second_order(program: Any) -> None:
    """In the four nestings, against differences or complex steps."""
    shape, steps = program
    point = (filled(shape, 1), filled(shape, 2) - 1.0)
    assume(np.max(np.abs(run(steps, *point))) < 1e2)
    check_grads(lambda x, y: run(steps, x, y), point, rtol=1e-5, atol=1e-5)


@settings(max_examples=25)
@given(program=programs())
def test_transforms_agree_on_programs(program: Any) -> None:
    """Jacobians by columns and by rows, tapes and transforms, linearize and jvp, the four Hessian products."""
    shape, steps = program
    x, y = filled(shape, 1), filled(shape, 2) - 1.0
    assume(np.max(np.abs(run(steps, x, y))) < 1e2)

    def f(x: Any) -> Any:
        return run(steps, x, y)

    def g(x: Any) -> Any:
        return np.sum(np.sin(f(x)))

    columns, rows = dt.jacfwd(f)(x), dt.jacrev(f)(x)
    scale = 1.0 + np.max(np.abs(columns))
    np.testing.assert_allclose(columns, rows, rtol=1e-10, atol=1e-12 * scale)
    v = np.cos(np.arange(x.size)).reshape(shape)
    _, tangent = dt.jvp(f, (x,), (v,))
    _, push = dt.linearize(f, x)
    np.testing.assert_allclose(push(v), tangent, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(tangent, np.tensordot(columns, v, len(shape)), rtol=1e-10, atol=1e-12 * scale)
    t = dt.constant(x)
    with dt.GradientTape() as tape:
        tape.watch(t)
        z = g(t)
    gradient = tape.gradient(z, t)
    np.testing.assert_allclose(np.zeros(shape) if gradient is None else gradient, dt.grad(g)(x), rtol=1e-12)
    products = [dt.hvp(g, x, v, order=o) for o in ("fr", "rf", "rr", "ff")]
    for p in products[1:]:
        np.testing.assert_allclose(p, products[0], rtol=1e-9, atol=1e-11 * (1.0 + np.max(np.abs(products[0]))))


@given(shape=SHAPES, seed=st.integers(0, 5))
def test_single_precision_survives_any_shape(shape: tuple[int, ...], seed: int) -> None:
    x = filled(shape, seed).astype(np.float32)
    value, pullback = dt.vjp(lambda t: np.mean(np.exp(t) * 2.0 + t**2 / 3 - 1 / (1 + t)) if x.size else t * 2.0, x)
    assert value.dtype == np.float32
    (g,) = pullback(np.ones(value.shape, np.float32))
    assert g.dtype == np.float32 and g.shape == shape
