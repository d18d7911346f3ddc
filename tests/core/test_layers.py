"""Layers of vectors and activations: what they start from, what they return, and the arguments they refuse."""

import math
from typing import Any

import numpy as np
import pytest

from tinytorch.core.layers import Dropout, Embedding, Flatten, Linear
from tinytorch.core.random import generator_from, manual_seed
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize(
    ("layer", "shapes", "fan_in"),
    [
        (Linear(300, 40, seed=3), [(300, 40), (40,)], 300),
        (Conv2d(8, 64, (3, 5), groups=2, seed=0), [(64, 4, 3, 5), (64,)], 4 * 3 * 5),
        (Conv2d(9, 20, 9, bias=False, seed=0), [(20, 9, 9, 9)], 9**3),
        (Linear(300, 40, bias=False, seed=0), [(300, 40)], 300),
    ],
    ids=repr,
)
def test_layers_start_uniform_in_the_fan_in(layer: Any, shapes: list[tuple[int, ...]], fan_in: int) -> None:
    assert [parameter.shape for parameter in layer.parameters()] == shapes
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        assert parameter.dtype == np.float32
        # The largest of n uniform numbers is within a tenth of the bound but for a chance of 0.9**n.
        assert 0.9 * bound < np.abs(parameter.data).max() <= bound
    # Six standard errors of the variance of uniform numbers, which is bound**2 / 3.
    weight = layer.weight.data
    assert abs(weight.var() / (bound**2 / 3) - 1) < 6 * math.sqrt(0.8 / weight.size)


def test_seeds_reproduce_and_the_processes_generator_restarts() -> None:
    np.testing.assert_array_equal(Linear(3, 2, seed=1).weight.data, Linear(3, 2, seed=1).weight.data)
    assert not np.array_equal(Linear(3, 2, seed=1).weight.data, Linear(3, 2, seed=2).weight.data)
    shared = np.random.default_rng(1)
    first, second = Linear(3, 2, seed=shared), Linear(3, 2, seed=shared)
    np.testing.assert_array_equal(first.weight.data, Linear(3, 2, seed=1).weight.data)
    assert not np.array_equal(first.weight.data, second.weight.data)
    manual_seed(9)
    one = Linear(3, 2).weight.data
    assert not np.array_equal(one, Linear(3, 2).weight.data)
    manual_seed(9)
    np.testing.assert_array_equal(one, Linear(3, 2).weight.data)
    assert generator_from(shared) is shared


def test_embedding() -> None:
    layer = Embedding(500, 40, std=0.02, seed=0)
    # Six standard errors of the standard deviation of 20,000 normal numbers.
    assert abs(layer.weight.data.std() / 0.02 - 1) < 6 / math.sqrt(40_000)
    indices = np.array([[3, 3], [0, 499]])
    for given in (indices, Tensor(indices), indices.tolist()):
        np.testing.assert_array_equal(layer(given).data, layer.weight.data[indices])


def test_dropout_drops_in_train_mode_only_and_by_its_seed() -> None:
    layer = Dropout(0.25, seed=4)
    x = Tensor(np.ones((100, 200), np.float32))
    first, second = layer(x).data, layer(x).data
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(Dropout(0.25, seed=4)(x).data, first)
    assert set(np.unique(first)) == {0, np.float32(4 / 3)}
    # Six standard deviations of a binomial distribution.
    assert abs((first == 0).mean() - 0.25) < 6 * math.sqrt(0.25 * 0.75 / 20_000)
    assert layer.eval()(x) is x
    assert Dropout(0)(x) is x


def test_flatten() -> None:
    assert Flatten()(Tensor(np.zeros((2, 3, 4, 5)))).shape == (2, 60)
