"""Tensor: what it takes, how it compares, what it refuses; and integers, halves and sums of very many addends."""

import operator
from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.core.cases import gradient_of
from tinytorch.core import activations, ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Dropout, Embedding, LayerNorm, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.op import Array
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_])
def test_an_array_keeps_its_dtype_and_is_not_copied(kind: Any) -> None:
    array = np.ones((2, 3), kind)
    tensor = Tensor(array)
    assert tensor.data is array
    assert tensor.dtype == kind
    assert tensor.nbytes == array.nbytes
    assert (tensor.shape, tensor.ndim, tensor.size, len(tensor)) == ((2, 3), 2, 6, 2)


@pytest.mark.parametrize("data", [3, 2.5, [1, 2], [[1.5], [2]], (1, 2), True, range(3)])
def test_anything_else_becomes_float32(data: Any) -> None:
    assert Tensor(data).dtype == np.float32
    np.testing.assert_array_equal(Tensor(data).data, np.array(data, np.float32))


def test_numpy_scalars_keep_their_dtype_and_dtype_converts() -> None:
    assert Tensor(np.float64(3)).dtype == np.float64
    assert Tensor([1, 2], dtype=np.int8).dtype == np.int8
    assert Tensor(np.array([1.5]), dtype=np.float32).dtype == np.float32
    assert Tensor(Tensor([1, 2], dtype=np.int32)).dtype == np.int32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "data must be numeric, not NoneType"),
        ([1, None], "data must be numeric, not list"),
        ("1.5", "data must be numeric, not str"),
        (["1", "2"], "data must be numeric, not list"),
        ([[1, 2], [3]], "data must be numbers in a regular shape, not list"),
        (np.array([1j]), "data must be numeric, not ndarray of dtype complex128"),
        (np.array(["2020"], "datetime64[Y]"), "data must be numeric"),
        ({"a": 1}, "data must be numeric, not dict"),
    ],
)
def test_data_that_is_not_numbers_is_refused(data: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Tensor(data)


def test_item_is_of_one_element() -> None:
    assert Tensor([[2.5]]).item() == 2.5
    assert isinstance(Tensor(np.array(3)).item(), int)
    with pytest.raises(ValueError, match="element"):
        Tensor([1, 2]).item()


def test_comparisons_are_elementwise_and_make_no_tensor() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        for other in (Tensor(b), b, 2):
            made = compare(Tensor(a, requires_grad=True), other)
            assert isinstance(made, np.ndarray)
            np.testing.assert_array_equal(made, compare(a, b))
    x, y = Tensor(a), Tensor(a)
    assert len({x, y, x}) == 2


def test_operators_are_numpys_on_both_sides() -> None:
    a, b = np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 7.0])
    for operate in (operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul):
        for left, right in ((Tensor(a), Tensor(b)), (Tensor(a), b), (a, Tensor(b)), (Tensor(a), b.tolist())):
            made = operate(left, right)
            assert isinstance(made, Tensor)
            np.testing.assert_allclose(made.data, operate(a, b), rtol=1e-15)
    np.testing.assert_array_equal((2 - Tensor(a)).data, 2 - a)
    np.testing.assert_array_equal((2 / Tensor(a)).data, 2 / a)
    np.testing.assert_array_equal((Tensor(a) ** 2).data, a * a)
    np.testing.assert_array_equal(Tensor(a).matmul(b).data, 41)


def _outcome(function: Callable[[Any], Any], operand: Any) -> Any:
    """Return what a function makes of an array or Tensor, as lists, or the class of its error."""
    try:
        made = function(operand)
    except (TypeError, ValueError) as error:
        return type(error)
    made = [each.data if isinstance(each, Tensor) else each for each in made] if isinstance(made, list) else made
    return np.asarray(made.data if isinstance(made, Tensor) else made).tolist()


#: What Python and NumPy ask of an array, and of a Tensor alike.
ASKED: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "list": list,
    "reversed": lambda x: list(reversed(x)),
    "2 in": lambda x: 2 in x,
    "5 in": lambda x: 5 in x,
    "sum()": sum,
    "max()": max,
    "abs": abs,
    "2 **": lambda x: 2**x,
    "list **": lambda x: [2, 3] ** x,
    "** array": lambda x: x ** np.array([2.0, 3.0]),
    "** list": lambda x: x ** [2, 3],
    "np.sum": np.sum,
    "np.sum, rows": lambda x: np.sum(x, axis=0, keepdims=True),
    "np.sum, float64": lambda x: np.sum(x, dtype=np.float64),
    "np.mean": np.mean,
    "np.max": np.max,
    "np.transpose": np.transpose,
}


#: What is asked of which values; of none NumPy warns where the framework refuses a mean and a maximum.
ASKED_OF: list[tuple[str, Any]] = [
    (asked, values)
    for asked in ASKED
    for values in (3.0, 0.0, [2.0], [0.0], [[0.0]], [1.0, 2.0], [[1.0, -2.0], [0.5, 4.0]], [])
    if values != [] or asked not in ("np.mean", "np.max", "max()")
]


@pytest.mark.parametrize(("asked", "values"), ASKED_OF, ids=str)
def test_a_tensor_answers_as_an_array_does(asked: str, values: Any) -> None:
    array = np.array(values, np.float32)
    assert _outcome(ASKED[asked], Tensor(array)) == _outcome(ASKED[asked], array)


def test_numpy_s_sums_are_recorded_and_take_no_out() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    np.sum(2**x * abs(x)).backward()
    np.testing.assert_allclose(gradient_of(x), [2 + 2 * np.log(2), 4 + 8 * np.log(2)], rtol=1e-6)
    with pytest.raises(TypeError, match="out"):
        np.sum(x, out=np.zeros(()))


def test_powers_are_flat_at_nought() -> None:
    x, y = (Tensor(np.array(values), requires_grad=True) for values in ([0.0, 0.0, 2.0], [0.0, 2.0, 0.0]))
    (x**y).sum().backward()
    assert gradient_of(x).tolist() == [0, 0, 0]
    np.testing.assert_allclose(gradient_of(y), [0, 0, np.log(2)])


def test_transpose_and_reshape() -> None:
    x = Tensor(np.arange(24.0).reshape(2, 3, 4))
    assert x.T.shape == (4, 3, 2)
    assert x.transpose().shape == (4, 3, 2)
    assert x.transpose(0, 2).shape == (4, 3, 2)
    assert x.transpose(1, 2, 0).shape == (3, 4, 2)
    for axes in ((-2, -1), (0, 1), (1, 0)):
        for ndim in (2, 3, 4):
            square = np.arange(3.0**ndim).reshape((3,) * ndim)
            np.testing.assert_array_equal(Tensor(square).transpose(*axes).data, np.swapaxes(square, *axes))
    np.testing.assert_array_equal(Tensor(x.data[0]).transpose((0, 1)).data, x.data[0])
    assert x.reshape(6, 4).shape == x.reshape((6, -1)).shape == (6, 4)
    assert np.shares_memory(x.T.data, x.data)
    assert np.shares_memory(x.reshape(-1).data, x.data)


def test_astype_copies_and_passes_gradients_between_floating_dtypes_only() -> None:
    x = Tensor([1.5, 2.5], requires_grad=True)
    wide = x.astype(np.float64)
    assert wide.dtype == np.float64
    (wide * 3).backward([1.0, 1.0])
    assert x.grad is not None
    assert x.grad.dtype == np.float32
    np.testing.assert_array_equal(x.grad, [3, 3])
    whole = x.astype(np.int32)
    assert whole.dtype == np.int32
    assert not whole.requires_grad
    with pytest.raises(TypeError, match="requires_grad"):
        Tensor(whole.data, requires_grad=True)
    assert not np.shares_memory(x.astype(np.float32).data, x.data)


def test_detach_shares_the_array_and_forgets_the_graph() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x * 2
    assert y.detach().data is y.data
    assert not y.detach().requires_grad
    assert y.numpy() is y.data


def test_numpy_sees_the_numbers() -> None:
    x = Tensor([[1.0, 2.0]])
    np.testing.assert_array_equal(np.asarray(x), [[1, 2]])
    assert np.asarray(x, np.float64).dtype == np.float64
    assert repr(Tensor([1.0], requires_grad=True)) == "Tensor([1.], dtype=float32, requires_grad=True)"


Layer = Callable[[Tensor], Tensor]
ROWS, IMAGES, HEADS = (3, 8), (2, 4, 6, 6), (1, 2, 3, 4)
LAYERS: dict[str, tuple[Callable[[], Layer], tuple[int, ...]]] = {
    **{
        name: (getattr(activations, name), ROWS)
        for name in ("ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "LeakyReLU", "Softmax")
    },
    "log_softmax": (lambda: lambda x: apply(ops.log_softmax, x), ROWS),
    "exp": (lambda: lambda x: apply(ops.exp, Tensor(np.minimum(x.data, x.data.dtype.type(5)))), ROWS),
    "log": (lambda: lambda x: Tensor(np.maximum(x.data, x.data.dtype.type(1))).log(), ROWS),
    "sqrt": (lambda: lambda x: Tensor(np.maximum(x.data, x.data.dtype.type(0))).sqrt(), ROWS),
    "Linear": (lambda: Linear(8, 4, seed=0), ROWS),
    "LayerNorm": (lambda: LayerNorm(8), ROWS),
    "Dropout": (lambda: Dropout(0.5, seed=0), ROWS),
    "MultiHeadAttention": (lambda: MultiHeadAttention(8, 2, seed=0), (1, *ROWS)),
    "attention": (lambda: lambda x: apply(ops.attention, x, x, x, causal=True), HEADS),
    "Conv2d": (lambda: Conv2d(4, 4, 3, padding=1, seed=0), IMAGES),
    "BatchNorm2d": (lambda: BatchNorm2d(4), IMAGES),
    "BatchNorm2d in eval mode": (lambda: BatchNorm2d(4).eval(), IMAGES),
    "MaxPool2d": (lambda: MaxPool2d(3, padding=1), IMAGES),
    "AvgPool2d": (lambda: AvgPool2d(3, padding=1), IMAGES),
    "AdaptiveAvgPool2d": (lambda: AdaptiveAvgPool2d(4), IMAGES),
    "MSELoss": (lambda: lambda x: MSELoss()(x, Tensor(x.data[::-1])), ROWS),
    "MSELoss of integer targets": (lambda: lambda x: MSELoss()(Tensor(x.data * np.float32(0.5)), x), ROWS),
    "CrossEntropyLoss": (lambda: lambda x: CrossEntropyLoss()(x, [0, 3, 7]), ROWS),
}
#: Smallest and largest number that is drawn.
DTYPES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-300, 300), "int64": (-300, 300), "bool": (0, 1)}


def drawn(shape: tuple[int, ...], low: int, high: int) -> Array:
    numbers = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    numbers.flat[:2] = low, high
    return numbers


@pytest.mark.parametrize("kernels", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    # NumPy has no difference of truth values.
    [one for one in product(LAYERS, [*DTYPES, "float16"]) if one != ("MSELoss", "bool")],
)
def test_a_layer_gives_of_integers_and_halves_what_it_gives_of_floats(
    name: str, dtype: str, kernels: Callable[[], Any]
) -> None:
    make, shape = LAYERS[name]
    given = drawn(shape, *DTYPES.get(dtype, (-300, 300))).astype(dtype)
    expected = make()(Tensor(given.astype(np.float64 if name != "Dropout" else np.float32))).data
    with kernels():
        found = make()(Tensor(given)).data
    if name == "Dropout":  # kernels draw others: what is kept is scaled alike
        kept = found != 0
        np.testing.assert_array_equal(found[kept], 2 * given.astype(np.float32)[kept])
        return
    assert found.dtype.kind == "f" or name in ("ReLU", "MaxPool2d")
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 2e-5, atol=2e-3)


@pytest.mark.parametrize(
    ("layer", "shape"), [(LayerNorm(4096), (4, 4096)), (BatchNorm2d(1), (2, 1, 200, 200))], ids=repr
)
def test_a_normalization_of_halves_neither_overflows_nor_forgets(layer: Any, shape: tuple[int, ...]) -> None:
    for parameter in layer.parameters():
        parameter.data = parameter.data.astype(np.float16)
    x = (np.random.default_rng(0).normal(size=shape) * 400 + 3000).astype(np.float16)
    given = Tensor(x, requires_grad=True)
    output = layer(given)
    axes = -1 if len(shape) == 2 else (0, 2, 3)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
    assert output.dtype == np.float16
    np.testing.assert_allclose(output.data, expected, atol=3e-3)
    (output * output).mean().backward()
    assert all(each.grad is not None and np.isfinite(each.grad).all() for each in (given, layer.weight))


@pytest.mark.parametrize(
    ("dtype", "pair"),
    [("int8", (100, -100)), ("uint8", (0, 200)), ("int64", (2**40 + 1, 2**40)), ("float16", (2**15, -(2**14) * 0.83))],
)
def test_squared_errors_of_narrow_numbers_are_exact(dtype: str, pair: tuple[float, float]) -> None:
    one, other = (np.array([each]).astype(dtype) for each in pair)
    exact = (float(one[0]) - float(other[0])) ** 2
    np.testing.assert_allclose(MSELoss()(Tensor(one), Tensor(other)).item(), exact, rtol=1e-6)


#: Ones that float32 cannot count one by one: it stops at 2**24.
ADDENDS = 2**24 + 2**20


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def slope(operand: Tensor, make: Callable[[Tensor], Tensor]) -> Array:
    operand.requires_grad = True
    make(operand).sum().backward()
    return gradient_of(operand)


def weight_gradient(layer: Any, x: Any, name: str = "weight") -> Array:
    layer(x).sum().backward()
    return gradient_of(getattr(layer, name))


def running_variance() -> Array:
    layer, x = BatchNorm2d(2, momentum=1.0), np.random.default_rng(0).random((1, 2, 2048, 2048), dtype=np.float32)
    layer(Tensor(x))
    return layer.running_var.data / x.astype(np.float64).var(axis=(0, 2, 3))


WIDE = np.where(np.arange(2**20) % 2, 3.1, 1.1).astype(np.float32)[None]
SUMS: dict[str, tuple[Callable[[], Any], float]] = {
    "sum of rows": (lambda: ones(ADDENDS, 1).sum(axis=0), ADDENDS),
    "sum of rows and columns": (lambda: ones(2, ADDENDS // 4, 2).sum(axis=(1, 2)), ADDENDS // 2),
    "sum of a part of each row": (lambda: Tensor(np.ones((ADDENDS, 2), np.float32)[:, :1]).sum(), ADDENDS),
    "mean of rows": (lambda: ones(ADDENDS, 1).mean(axis=0), 1),
    "mean of halves": (lambda: Tensor(np.full((70_000, 1), 2, np.float16)).mean(axis=0), 2),
    "sum of halves": (lambda: Tensor(np.ones((30_000, 1), np.float16)).sum(axis=0), 30_000),
    "row added to each": (lambda: slope(ones(1), lambda row: ones(ADDENDS, 1) + row), ADDENDS),
    "number times each": (lambda: slope(Tensor(np.float32(1)), lambda one: ones(ADDENDS, 1) * one), ADDENDS),
    "bias": (lambda: weight_gradient(Linear(1, 2), ones(ADDENDS, 1), "bias"), ADDENDS),
    "weight of one output": (lambda: weight_gradient(Linear(2, 1), ones(ADDENDS, 2)), ADDENDS),
    "matmul with a column": (lambda: slope(ones(2, 1), lambda column: ones(ADDENDS, 2) @ column), ADDENDS),
    "bias of a convolution": (lambda: weight_gradient(Conv2d(1, 2, 1), ones(17, 1, 1024, 1024), "bias"), 17 * 2**20),
    "row of a table": (lambda: weight_gradient(Embedding(1, 1), np.zeros(ADDENDS, np.int64)), ADDENDS),
    "element picked often": (lambda: slope(ones(1), lambda row: row[np.zeros(ADDENDS, np.int64)]), ADDENDS),
    "bias of a normalization": (lambda: weight_gradient(LayerNorm(1), ones(ADDENDS, 1), "bias"), ADDENDS),
    "ties of a maximum": (lambda: slope(ones(ADDENDS, 1), lambda x: x.max(axis=0))[:1], 1 / ADDENDS),
    "softmax along rows": (lambda: apply(ops.softmax, ones(ADDENDS, 1), axis=0).data[:1], 1 / ADDENDS),
    "squared error": (lambda: MSELoss()(Tensor(np.full(ADDENDS, 1.1, np.float32)), np.zeros(ADDENDS)).item(), 1.1**2),
    "variance of channels": (running_variance, 1),
    "variance of a wide row": (lambda: LayerNorm(2**20)(Tensor(WIDE)).data[0, 1], 1 / np.sqrt(1 + 1e-5)),
}


@pytest.mark.parametrize(("make", "expected"), SUMS.values(), ids=[*SUMS])
def test_sums_of_many_addends(make: Callable[[], Any], expected: float) -> None:
    np.testing.assert_allclose(np.asarray(make()), expected, rtol=1e-5)
