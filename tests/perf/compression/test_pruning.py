"""N:M sparsity: the largest of each group stay, and the compact form gives back the weight."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.quantization.small_zoo import make
from tinytorch.core.layers import Linear
from tinytorch.core.spatial import Conv2d
from tinytorch.perf.compression import compact_n_m, measure_sparsity, n_m_prune
from tinytorch.perf.compression.pruning import MaskedParameter


@given(
    st.integers(1, 9).flatmap(lambda m: st.tuples(st.integers(1, m), st.just(m))), st.integers(1, 5), st.integers(0, 5)
)
@settings(max_examples=40, deadline=None)
def test_each_group_keeps_its_largest_and_comes_back(n_m: tuple[int, int], groups: int, seed: int) -> None:
    n, m = n_m
    layer = Linear(groups * m, 3, seed=seed)
    pruned: Any = n_m_prune(layer, n, m)
    before, after = (each.weight.data.T.reshape(-1, m) for each in (layer, pruned))
    for full, left in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.sort(np.abs(left))[m - n :], np.sort(np.abs(full))[m - n :])
        assert np.count_nonzero(left) == n
    stored = compact_n_m(pruned.weight.data, n, m)
    np.testing.assert_array_equal(stored.dense(), pruned.weight.data)


def test_two_of_four_take_half_the_numbers_and_two_bits_for_the_place_of_each() -> None:
    pruned: Any = n_m_prune(Linear(64, 32, seed=0))
    stored = compact_n_m(pruned.weight.data)
    assert stored.nbytes == 64 * 32 // 2 * 4 + 64 * 32 // 2 * 2 // 8
    assert isinstance(pruned.weight, MaskedParameter)
    assert measure_sparsity(pruned) == 50


def test_channels_of_convolutions_and_ties() -> None:
    convolution: Any = n_m_prune(Conv2d(8, 3, 3, seed=0), 1, 4)
    by_input = convolution.weight.data.transpose(0, 2, 3, 1).reshape(-1, 4)
    assert (np.count_nonzero(by_input, axis=1) == 1).all()
    np.testing.assert_array_equal(compact_n_m(convolution.weight.data, 1, 4).dense(), convolution.weight.data)
    layer = Linear(4, 1, seed=0)
    layer.weight.data[...] = 1
    tied: Any = n_m_prune(layer)
    np.testing.assert_array_equal(tied.weight.data[:, 0], [0, 0, 1, 1])


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="divide"):
        n_m_prune(make("cnn"))
    assert measure_sparsity(n_m_prune(make("cnn"), keep=["0"])) > 49
    for n, m in ((0, 4), (5, 4), (1, 300), (True, 4), (2.0, 4)):
        with pytest.raises(ValueError, match="must"):
            n_m_prune(make("mlp"), n, m)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numbers"):
        compact_n_m(np.ones((8, 2), np.float32))
    with pytest.raises(ValueError, match="divide"):
        compact_n_m(np.zeros((6, 2), np.float32))
    with pytest.raises(ValueError, match="convolution"):
        compact_n_m(np.zeros(4, np.float32))
