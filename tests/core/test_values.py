"""Values of each op against NumPy's own loops, SciPy and the formulas of papers, over shapes that hypothesis draws."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices, integer_array_indices, mutually_broadcastable_shapes

from tests.core.cases import Case, check_gradients, convolution, gradient_of, normal, positive
from tinytorch.core import activations, ops
from tinytorch.core.activations import Softmax
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.tensor import Tensor

X = np.concatenate([np.linspace(-40, 40, 161), [0.0, 1e-8, -1e-8, 300.0, -300.0]])


def gelu(x: Array) -> Array:
    """tanh form of arXiv:1606.08415, as written there."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


CLOSED_FORMS: list[tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = [
    (lambda x: -x, lambda x: 0 - x),
    (lambda x: apply(ops.absolute, x), lambda x: np.sqrt(x * x)),
    (activations.Tanh(), lambda x: 2 * scipy.special.expit(2 * x) - 1),
    (activations.Sigmoid(), scipy.special.expit),
    (activations.ReLU(), lambda x: (x + np.abs(x)) / 2),
    (activations.LeakyReLU(), lambda x: np.where(x > 0, x, 0.01 * x)),
    (activations.LeakyReLU(0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    (activations.SiLU(), lambda x: x * scipy.special.expit(x)),
    (activations.GELU(), gelu),
    (activations.Softmax(), scipy.special.softmax),
    (lambda x: x**2, lambda x: x * x),
    (lambda x: x**0, np.ones_like),
    (lambda x: x.astype(np.float64), np.copy),
]


@pytest.mark.parametrize(("function", "expected"), CLOSED_FORMS, ids=lambda value: repr(value)[:20])
def test_values_are_those_of_the_closed_form(function: Any, expected: Callable[[Array], Array]) -> None:
    # The sigmoid is exact to rounding of 1, not of itself: (1 + tanh) / 2 cancels far below 0.
    rounding = 1e-15 * (np.abs(X) if isinstance(function, activations.SiLU) else 1)
    error = np.abs(function(Tensor(X)).data - expected(X))
    assert (error <= 1e-13 * np.abs(expected(X)) + rounding).all()


def test_exp_log_sqrt_and_fractional_powers() -> None:
    x = np.linspace(0.01, 30, 50)
    made = [Tensor(x).exp(), Tensor(x).log(), Tensor(x).sqrt(), Tensor(x) ** 1.5]
    expected = [[math.exp(value), math.log(value), math.sqrt(value), math.pow(value, 1.5)] for value in x]
    np.testing.assert_allclose([each.data for each in made], np.transpose(expected), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("op", [ops.sigmoid, ops.tanh, ops.silu, ops.gelu, ops.relu])
def test_large_float32_inputs_neither_warn_nor_break(op: Any) -> None:
    x = Tensor(np.array([-1e4, -100, 0, 100, 1e4], np.float32), requires_grad=True)
    output = apply(op, x)
    output.backward(np.ones(5))
    assert np.isfinite([output.data, gradient_of(x)]).all()


@pytest.mark.parametrize("size", [BLOCK, 2 * BLOCK + 5])
def test_gelu_in_blocks_covers_every_element(size: int) -> None:
    values = np.random.default_rng(0).normal(size=size)
    x = Tensor(values, requires_grad=True)
    output = apply(ops.gelu, x)
    output.backward(np.ones(size))
    np.testing.assert_allclose(output.data, gelu(values), rtol=1e-12, atol=1e-15)
    step = 1e-5
    slope = (gelu(values + step) - gelu(values - step)) / (2 * step)
    np.testing.assert_allclose(gradient_of(x), slope, atol=1e-8)


def test_slopes_at_the_kinks() -> None:
    """0 at 0 for ReLU and |x|, the lower slope for the leaky one, and halves where a maximum is a tie."""
    for op, params, expected in (
        (ops.relu, {}, 0),
        (ops.absolute, {}, 0),
        (ops.leaky_relu, {"slope": 0.25}, 0.25),
        (ops.power, {"exponent": 0}, 0),
        (ops.power, {"exponent": 1}, 1),
        (ops.power, {"exponent": 2}, 0),
    ):
        x = Tensor(np.zeros(2), requires_grad=True)
        apply(op, x, **params).backward(np.ones(2))
        np.testing.assert_array_equal(x.grad, [expected, expected])
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    apply(ops.maximum, a, b).backward(np.ones(2))
    np.testing.assert_array_equal([a.grad, b.grad], np.full((2, 2), 0.5))


@pytest.mark.parametrize("integer", [np.int8, np.int32, np.int64])
def test_integers_keep_their_type_where_the_result_is_whole(integer: Any) -> None:
    x = Tensor(np.array([-3, 0, 5], integer))
    for made in (x + x, x - 1, x * 2, -x, apply(ops.relu, x), x**2, apply(ops.maximum, x, 1), apply(ops.absolute, x)):
        assert made.dtype == integer
    np.testing.assert_array_equal(apply(ops.relu, x).data, [0, 0, 5])
    np.testing.assert_array_equal((x * 2).data, [-6, 0, 10])
    np.testing.assert_allclose((x / 2).data, [-1.5, 0, 2.5])
    np.testing.assert_allclose(apply(ops.leaky_relu, x, slope=0.1).data, [-0.3, 0, 5])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("number", [2.0, np.float64(2), np.int64(2)])
def test_numbers_of_python_and_numpy_leave_the_dtype(number: Any, dtype: Any) -> None:
    x = Tensor(np.array([1.0, 2.0], dtype))
    operators = [x + number, number - x, x * number, number / x, x**number, x / np.sqrt(64)]
    applied = [
        apply(ops.maximum, x, number),
        apply(ops.where, x > 1, x, number),
        activations.LeakyReLU(np.float64(0.1))(x),
    ]
    assert {made.dtype for made in operators + applied} == {np.dtype(dtype)}
    np.testing.assert_array_equal([made.data for made in operators[1:4]], [[1, 0], [2, 4], [2, 1]])


def test_where_takes_any_condition_that_is_true_or_false() -> None:
    a, b = (Tensor(np.array([1.0, 2.0]), requires_grad=True) for _ in range(2))
    output = apply(ops.where, np.array([0, 7]), a, b * 10)
    np.testing.assert_array_equal(output.data, [10, 2])
    output.backward(np.ones(2))
    np.testing.assert_array_equal(a.grad, [0, 1])
    np.testing.assert_array_equal(b.grad, [10, 0])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3),
    op=st.sampled_from([ops.add, ops.subtract, ops.multiply, ops.divide]),
)
def test_broadcast_gradients(shapes: Any, op: Any) -> None:
    generator = np.random.default_rng(2)
    first, second = shapes.input_shapes
    a = Tensor(generator.normal(size=first), requires_grad=True)
    b = Tensor(generator.uniform(0.5, 2, second), requires_grad=True)
    reference = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}[op.name]
    np.testing.assert_array_equal(apply(op, a, b).data, reference(a.data, b.data))
    check_gradients(lambda *both: apply(op, *both), a, b)


CUBE = np.random.default_rng(0).normal(size=(2, 3, 4))
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (-1, -2), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_sum_mean_and_max(axis: Any, keepdims: bool) -> None:
    x = Tensor(CUBE)
    add: Any = np.add
    maximum: Any = np.maximum
    for made, ufunc in ((x.sum(axis, keepdims), add), (x.max(axis, keepdims), maximum)):
        expected = np.asarray(ufunc.reduce(CUBE, axis=axis, keepdims=keepdims))
        assert made.shape == expected.shape
        np.testing.assert_allclose(made.data, expected, rtol=1e-13)
    total = np.asarray(add.reduce(CUBE, axis=axis, keepdims=keepdims))
    np.testing.assert_allclose(x.mean(axis, keepdims).data, total / (CUBE.size / total.size), rtol=1e-13)


def test_sums_of_small_integers_do_not_overflow() -> None:
    assert Tensor(np.array([100, 100], np.int8)).sum().item() == 200
    assert Tensor(np.array([True, True, False])).sum().item() == 2


def test_ties_of_a_maximum_share_its_gradient() -> None:
    x = Tensor(np.array([[1.0, 3, 3], [2, 2, 2]]), requires_grad=True)
    x.max(axis=1).backward([6.0, 6.0])
    np.testing.assert_array_equal(x.grad, [[0, 3, 3], [2, 2, 2]])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_its_logarithm(axis: int) -> None:
    for scale in (1, 1000):
        x = scale * CUBE
        np.testing.assert_allclose(
            Softmax(dim=axis)(Tensor(x)).data, scipy.special.softmax(x, axis=axis), rtol=1e-10, atol=1e-300
        )
        np.testing.assert_allclose(
            apply(ops.log_softmax, Tensor(x), axis=axis).data,
            scipy.special.log_softmax(x, axis=axis),
            rtol=1e-12,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["mean", "max"])
def test_nothing_has_no_mean_and_no_maximum(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} needs at least one element, but the tensor's shape is \(0, 3\)"):
        getattr(Tensor(np.zeros((0, 3))), name)()
    assert Tensor(np.zeros((0, 3))).sum().item() == 0


some = settings(max_examples=80, deadline=None, derandomize=True)


def counted(shape: tuple[int, ...]) -> Tensor:
    """Return 0, 1, 2, ... in ``shape``, so that each element has a name."""
    return Tensor(np.arange(math.prod(shape), dtype=np.float64).reshape(shape), requires_grad=True)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_transpose_and_its_gradient_are_inverse(data: Any, shape: tuple[int, ...]) -> None:
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    x = counted(shape)
    made = apply(ops.transpose, x, axes=axes)
    np.testing.assert_array_equal(made.data, np.transpose(x.data, axes))
    made.backward(made.data.copy())
    np.testing.assert_array_equal(x.grad, x.data)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_reshape_and_its_gradient_are_inverse(data: Any, shape: tuple[int, ...]) -> None:
    lengths = list(data.draw(st.permutations(shape)))
    if data.draw(st.booleans()):
        lengths[data.draw(st.integers(0, len(lengths) - 1))] = -1
    x = counted(shape)
    made = x.reshape(*lengths)
    np.testing.assert_array_equal(made.data.reshape(-1), np.arange(x.size))
    made.backward(made.data.copy())
    np.testing.assert_array_equal(x.grad, x.data)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_gradient_of_an_index_counts_how_often_each_element_was_picked(data: Any, shape: tuple[int, ...]) -> None:
    index = data.draw(basic_indices(shape, allow_newaxis=True) | integer_array_indices(shape))
    x = counted(shape)
    made = x[index]
    np.testing.assert_array_equal(made.data, x.data[index])
    made.backward(np.ones(made.shape))
    names, counts = np.unique(made.data, return_counts=True)
    expected = np.zeros(x.size)
    expected[names.astype(int)] = counts
    np.testing.assert_array_equal(x.grad, expected.reshape(shape))


def test_repeats_count_also_in_tuples_and_tensors() -> None:
    twice: Any
    for twice in ((np.array([0, 0]), Tensor(np.array([1, 1]))), ((0, 0), (1, 1)), ([0, 0], np.array([1, 1]))):
        x = counted((2, 2))
        x[twice].backward([1.0, 1.0])
        np.testing.assert_array_equal(x.grad, [[0, 2], [0, 0]])


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, max_side=3))
def test_concatenate_takes_apart_what_it_joined(data: Any, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = [counted((*shape[: axis % len(shape)], n, *shape[axis % len(shape) + 1 :])) for n in lengths]
    joined = apply(ops.concatenate, *parts, axis=axis)
    np.testing.assert_array_equal(joined.data, np.concatenate([part.data for part in parts], axis))
    joined.backward(joined.data.copy())
    for part in parts:
        np.testing.assert_array_equal(part.grad, part.data)


@some
@given(rows=st.lists(st.integers(0, 4), max_size=12))
def test_embedding_is_a_product_with_one_hot_rows(rows: list[int]) -> None:
    indices = np.array(rows, np.int64)
    one_hot = np.eye(5)[indices]
    table = counted((5, 3))
    made = apply(ops.embedding, indices, table)
    np.testing.assert_array_equal(made.data, one_hot @ table.data)
    made.backward(made.data.copy())
    np.testing.assert_array_equal(table.grad, one_hot.T @ made.data)


#: Two shapes of NumPy's matmul: vectors, matrices and stacks that broadcast.
shapes_of_a_product = mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, max_side=3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shapes=shapes_of_a_product)
def test_matmul_over_all_shapes(shapes: Any) -> None:
    generator = np.random.default_rng(1)
    a, b = (Tensor(generator.normal(size=shape), requires_grad=True) for shape in shapes.input_shapes)
    made = a @ b
    assert made.shape == shapes.result_shape
    wide_a = a.data if a.ndim > 1 else a.data[None]
    wide_b = b.data if b.ndim > 1 else b.data[:, None]
    expected = (wide_a[..., :, :, None] * wide_b[..., None, :, :]).sum(axis=-2)
    np.testing.assert_allclose(made.data, expected.reshape(made.shape), rtol=1e-12, atol=1e-13)
    check_gradients(lambda *both: apply(ops.matmul, *both), a, b)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(lead=st.lists(st.integers(1, 3), max_size=3), bias=st.booleans())
def test_linear_is_the_affine_map(lead: list[int], bias: bool) -> None:
    generator = np.random.default_rng(1)
    x, weight, shift = (generator.normal(size=shape) for shape in ((*lead, 3), (3, 4), (4,)))
    operands = (x, weight, shift) if bias else (x, weight)
    made = apply(ops.linear, *[Tensor(operand) for operand in operands])
    expected = np.zeros((*lead, 4))
    for row in np.ndindex(*lead):
        for column in range(4):
            expected[row][column] = sum(x[row][k] * weight[k, column] for k in range(3)) + bias * shift[column]
    np.testing.assert_allclose(made.data, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (5, 4), (2, 3, 4), (BLOCK // 4 + 3, 4), (2, BLOCK + 1), (3, 1)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, weight, bias = 3 * normal(*shape) + 7, positive(shape[-1]), normal(shape[-1])
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * weight + bias
    made = apply(ops.layer_norm, Tensor(x), Tensor(weight), Tensor(bias), epsilon=1e-5)
    assert made.shape == shape
    np.testing.assert_allclose(made.data, expected, rtol=1e-9, atol=1e-9)


def test_layer_norm_gradient_in_blocks() -> None:
    """Many rows at once give the rows' own gradients, and the sums of those of weight and bias."""
    count, width = BLOCK // 4 + 3, 4
    rows, weight, bias, down = normal(count, width), positive(width), normal(width), normal(count, width, seed=1)
    tensors = [Tensor(array, requires_grad=True) for array in (rows, weight, bias)]
    apply(ops.layer_norm, *tensors, epsilon=1e-5).backward(down)
    deviation = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
    normalized = (rows - rows.mean(axis=1, keepdims=True)) / deviation
    inner = down * weight
    projected = inner - inner.mean(1, keepdims=True) - normalized * (inner * normalized).mean(1, keepdims=True)
    np.testing.assert_allclose(gradient_of(tensors[0]), projected / deviation, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient_of(tensors[1]), (down * normalized).sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient_of(tensors[2]), down.sum(axis=0), rtol=1e-9, atol=1e-9)


def _normalized(x: Array, mean: Array, variance: Array, weight: Array, bias: Array) -> Array:
    shape = (1, -1, 1, 1)
    scaled = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-5)
    return scaled * weight.reshape(shape) + bias.reshape(shape)


def test_batch_norm_by_its_own_and_by_given_statistics() -> None:
    x, weight, bias = 3 * normal(4, 3, 2, 5) + 7, positive(3), normal(3)
    tensors = Tensor(x), Tensor(weight), Tensor(bias)
    statistics: list[Array] = []
    own = apply(ops.batch_norm, *tensors, epsilon=1e-5, statistics=statistics)
    mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    np.testing.assert_allclose(own.data, _normalized(x, mean, variance, weight, bias), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(statistics, [mean, x.var(axis=(0, 2, 3), ddof=1)], rtol=1e-12)
    mean, variance = normal(3, seed=1), positive(3, seed=1)
    given = apply(ops.batch_norm, *tensors, mean, variance, epsilon=1e-5)
    np.testing.assert_allclose(given.data, _normalized(x, mean, variance, weight, bias), rtol=1e-10, atol=1e-10)


def attended(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """The formula of arXiv:1706.03762, one query at a time."""
    output = np.zeros(q.shape)
    for image, head, query in np.ndindex(q.shape[:3]):
        last = k.shape[2] - q.shape[2] + query + 1 if causal else k.shape[2]
        scores = [q[image, head, query] @ k[image, head, key] / np.sqrt(q.shape[3]) for key in range(last)]
        output[image, head, query] = scipy.special.softmax(scores) @ v[image, head, :last]
    return output


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (1, 6), (3, 5)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = 2 * normal(2, 3, queries, 4), normal(2, 3, keys, 4, seed=1), normal(2, 3, keys, 4, seed=2)
    made = apply(ops.attention, Tensor(q), Tensor(k), Tensor(v), causal=causal)
    np.testing.assert_allclose(made.data, attended(q, k, v, causal), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_self_attention_takes_queries_keys_and_values_side_by_side(heads: int, causal: bool) -> None:
    packed = normal(2, 5, 18)
    q, k, v = (
        packed[:, :, 6 * part : 6 * (part + 1)].reshape(2, 5, heads, 6 // heads).transpose(0, 2, 1, 3)
        for part in range(3)
    )
    expected = attended(q, k, v, causal).transpose(0, 2, 1, 3).reshape(2, 5, 6)
    made = apply(ops.self_attention, Tensor(packed), heads=heads, causal=causal)
    np.testing.assert_allclose(made.data, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(3, 3, 128, 2), (2, 3, 256, 2), (1, 2, 600, 2)])
def test_attention_in_parts_is_attention(shape: tuple[int, ...], causal: bool) -> None:
    """Scores larger than what is held at a time: several images, some of the heads, one head; with their gradients."""
    q, k, v, down = (normal(*shape, seed=seed) for seed in range(4))
    scores = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(shape[3])
    if causal:
        scores = np.where(np.tri(shape[2], dtype=bool), scores, -np.inf)
    weights = scipy.special.softmax(scores, axis=-1)
    slope = np.einsum("bhtd,bhsd->bhts", down, v)
    slope = weights * (slope - (weights * slope).sum(axis=-1, keepdims=True)) / np.sqrt(shape[3])
    tensors = [Tensor(array, requires_grad=True) for array in (q, k, v)]
    made = apply(ops.attention, *tensors, causal=causal)
    made.backward(down)
    np.testing.assert_allclose(made.data, weights @ v, rtol=1e-10, atol=1e-12)
    expected = slope @ k, slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ down
    for tensor, gradient in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(gradient_of(tensor), gradient, rtol=1e-9, atol=1e-11)


def test_large_scores_do_not_overflow() -> None:
    q = Tensor(np.full((1, 1, 2, 4), 1e3, np.float32))
    made = apply(ops.attention, q, q, Tensor(normal(1, 1, 2, 4).astype(np.float32)), causal=False)
    assert np.isfinite(made.data).all()


def correlated(x: Array, weight: Array, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """Return the convolution of arrays by SciPy: each pair of maps correlated, summed, every stride-th kept."""
    wide = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    out, each, high, broad = weight.shape
    spread = np.zeros((out, each, (high - 1) * dilation[0] + 1, (broad - 1) * dilation[1] + 1))
    spread[:, :, :: dilation[0], :: dilation[1]] = weight
    images = []
    for image in wide:
        maps = []
        for channel in range(out):
            first = channel // (out // groups) * each
            whole = sum(
                scipy.signal.correlate(image[first + k], spread[channel, k], mode="valid", method="direct")
                for k in range(each)
            )
            maps.append(np.asarray(whole)[:: stride[0], :: stride[1]])
        images.append(maps)
    return np.array(images)


@st.composite
def convolutions(draw: Any, channels: int) -> Case:
    """Return a convolution of any stride, padding, dilation and groups, these of up to ``channels``."""
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, stride, dilation = draw(pairs), draw(pairs), draw(pairs)
    padding = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    groups, each, share = draw(st.integers(1, 3)), draw(st.integers(1, channels)), draw(st.integers(1, channels))
    least = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i]) for i in range(2)]
    size = tuple(length + draw(st.integers(0, 4)) for length in least)
    arrays = (normal(draw(st.integers(1, 3)), groups * each, *size), normal(groups * share, each, *kernel))
    bias = (normal(groups * share),) if draw(st.booleans()) else ()
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return Case("conv2d", ops.conv2d, (*arrays, *bias), params)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(case=convolutions(2))
def test_convolution_is_scipys_correlation(case: Case) -> None:
    """The output's size follows from SciPy's, too."""
    made = case(*case.tensors())
    expected = correlated(*case.operands[:2], **case.params)
    if len(case.operands) == 3:
        expected += case.operands[2][:, None, None]
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.data, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("count", "size"), [(9, 16), (2, 48)])
def test_convolution_of_many_images_is_that_of_each(count: int, size: int) -> None:
    """More windows than are unrolled at a time, with a smaller last part: values and gradients as one by one."""
    shapes = (count, 8, size, size), (4, 4, 3, 3), (4,)
    params = convolution(groups=2, padding=(1, 1))
    images, weight, bias = (Tensor(normal(*shape), requires_grad=True) for shape in shapes)
    made = apply(ops.conv2d, images, weight, bias, **params)
    down = normal(*made.shape, seed=1)
    made.backward(down)
    same_weight, same_bias = (Tensor(tensor.data, requires_grad=True) for tensor in (weight, bias))
    for index in range(count):
        image = Tensor(images.data[index : index + 1], requires_grad=True)
        alone = apply(ops.conv2d, image, same_weight, same_bias, **params)
        alone.backward(down[index : index + 1])
        np.testing.assert_allclose(made.data[index], alone.data[0], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(gradient_of(images)[index], gradient_of(image)[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(gradient_of(weight), gradient_of(same_weight), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gradient_of(bias), gradient_of(same_bias), rtol=1e-10, atol=1e-10)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), op=st.sampled_from([ops.max_pool2d, ops.avg_pool2d]))
def test_pools_reduce_each_window(data: Any, op: Any) -> None:
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(data.draw(st.integers(0, length // 2)) for length in kernel)
    size = tuple(kernel[i] + data.draw(st.integers(0, 4)) for i in range(2))
    x = normal(2, 3, *size)
    fill = -np.inf if op is ops.max_pool2d else 0.0
    wide = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(wide, kernel, (2, 3))[:, :, :: stride[0], :: stride[1]]
    expected = windows.max(axis=(4, 5)) if op is ops.max_pool2d else windows.mean(axis=(4, 5))
    made = apply(op, Tensor(x), kernel=kernel, stride=stride, padding=padding)
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.data, expected, rtol=1e-12, atol=1e-13)


def test_first_of_equal_maxima_gets_the_whole_gradient() -> None:
    x = Tensor(np.ones((1, 1, 4, 4)), requires_grad=True)
    apply(ops.max_pool2d, x, kernel=(2, 2), stride=(2, 2), padding=(0, 0)).backward(np.full((1, 1, 2, 2), 3.0))
    expected = np.zeros((4, 4))
    expected[::2, ::2] = 3
    np.testing.assert_array_equal(x.grad, expected[None, None])


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (3, 2), (5, 7), (6, 9)])
def test_adaptive_pool_averages_the_cells(size: tuple[int, int]) -> None:
    """Cell i of n over length L is floor(i L / n) up to ceil((i + 1) L / n)."""
    x = normal(2, 3, 5, 7)
    expected = np.zeros((2, 3, *size))
    for i, j in np.ndindex(*size):
        rows = slice(int(np.floor(i * 5 / size[0])), int(np.ceil((i + 1) * 5 / size[0])))
        columns = slice(int(np.floor(j * 7 / size[1])), int(np.ceil((j + 1) * 7 / size[1])))
        expected[:, :, i, j] = x[:, :, rows, columns].mean(axis=(2, 3))
    np.testing.assert_allclose(
        apply(ops.adaptive_avg_pool2d, Tensor(x), size=size).data, expected, rtol=1e-12, atol=1e-14
    )
