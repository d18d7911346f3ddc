"""Layers of images: shapes, running statistics against a closed form, and the arguments they refuse."""

from typing import Any

import numpy as np
import pytest

from tests.core.cases import normal
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Conv2d(4, 6, 3, seed=0), (2, 6, 7, 6)),
        (Conv2d(4, 6, (3, 1), stride=(2, 1), padding=(1, 0), seed=0), (2, 6, 5, 8)),
        (Conv2d(4, 8, 3, dilation=(2, 3), groups=4, seed=0), (2, 8, 5, 2)),
        (MaxPool2d(2), (2, 4, 4, 4)),
        (MaxPool2d((3, 2), stride=1, padding=(1, 1)), (2, 4, 9, 9)),
        (AvgPool2d(np.int64(3)), (2, 4, 3, 2)),  # type: ignore[arg-type]
        (AdaptiveAvgPool2d((3, 5)), (2, 4, 3, 5)),
        (BatchNorm2d(4), (2, 4, 9, 8)),
    ],
    ids=repr,
)
def test_output_shapes(layer: Any, expected: tuple[int, ...]) -> None:
    made = layer(Tensor(normal(2, 4, 9, 8).astype(np.float32)))
    assert made.shape == expected
    assert made.dtype == np.float32


def test_running_statistics_are_the_exponential_average() -> None:
    layer = BatchNorm2d(3, momentum=0.2)
    batches = [normal(4, 3, 2, 2, seed=seed) * (seed + 1) + seed for seed in range(5)]
    for batch in batches:
        layer(Tensor(batch.astype(np.float32)))
    shares = [0.2 * 0.8 ** (4 - index) for index in range(5)]
    mean = sum(share * batch.mean(axis=(0, 2, 3)) for share, batch in zip(shares, batches, strict=True))
    variance = sum(share * batch.var(axis=(0, 2, 3), ddof=1) for share, batch in zip(shares, batches, strict=True))
    np.testing.assert_allclose(layer.running_mean.data, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.data, variance + 0.8**5, rtol=1e-5)
    assert layer.running_mean.dtype == layer.running_var.dtype == np.float32
    layer.eval()
    kept = layer.running_mean.data.copy()
    x = normal(2, 3, 2, 2, seed=9)
    shape = (1, 3, 1, 1)
    expected = (x - layer.running_mean.data.reshape(shape)) / np.sqrt(layer.running_var.data.reshape(shape) + 1e-5)
    np.testing.assert_allclose(layer(Tensor(x.astype(np.float32))).data, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(layer.running_mean.data, kept)
