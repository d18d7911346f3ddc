"""DataLoader: every example once, in an order that a seed reproduces."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.dataloader import DataLoader
from tinytorch.core.tensor import Tensor


@settings(max_examples=60, deadline=None, derandomize=True)
@given(count=st.integers(1, 40), batch_size=st.integers(1, 50), shuffle=st.booleans())
def test_an_epoch_has_each_example_once_with_its_target(count: int, batch_size: int, shuffle: bool) -> None:
    inputs = np.arange(count, dtype=np.float32)[:, None]
    loader = DataLoader(inputs, Tensor(np.arange(count) * 10), batch_size=batch_size, shuffle=shuffle, seed=0)
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == len(loader) == int(np.ceil(count / batch_size))
        assert {len(x) for x, _ in batches[:-1]} <= {batch_size}
        x = np.concatenate([x.data for x, _ in batches])
        y = np.concatenate([y.data for _, y in batches])
        assert (x.dtype, y.dtype) == (np.dtype(np.float32), np.dtype(np.int64))
        np.testing.assert_array_equal(y, x[:, 0] * 10)
        np.testing.assert_array_equal(np.sort(y), np.arange(count) * 10)
        if not shuffle:
            np.testing.assert_array_equal(x, inputs)


def _order(loader: DataLoader) -> list[Any]:
    return [value for (batch,) in loader for value in batch.data.tolist()]


def test_seeds_reproduce_and_each_epoch_has_a_new_order() -> None:
    data = np.arange(50)
    one, same, other = (DataLoader(data, batch_size=8, shuffle=True, seed=seed) for seed in (1, 1, 2))
    first = _order(one)
    assert first == _order(same)
    assert first != _order(other)
    assert first != list(range(50))
    second = _order(one)
    assert second != first
    assert second == _order(same)
