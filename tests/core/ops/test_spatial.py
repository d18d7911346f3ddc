"""Convolution against SciPy's correlation, pooling against windows that are cut out one by one."""

from typing import Any

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import Case, convolution, normal
from tests.core.gradients import gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor


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
