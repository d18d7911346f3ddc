"""Tensor: what it takes, which dtype it has, how it compares, and what it says when refused."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.core.gradients import gradient_of
from tinytorch.core.tensor import Tensor


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
