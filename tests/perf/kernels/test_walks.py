"""Ways through memory: what they add up, follow and write, against NumPy."""

import numpy as np
import pytest

from tinytorch.perf.kernels import walks

MATRIX = np.random.default_rng(0).integers(-1000, 1000, (7, 24), np.int32)


@pytest.mark.parametrize("view", [MATRIX, MATRIX.T, MATRIX[:, ::3], MATRIX[:, :5].T], ids=str)
def test_all_of_a_view_is_added_up(view: np.ndarray) -> None:
    assert walks.add_up(view) == view.sum()


def test_chains_are_followed_side_by_side() -> None:
    following = np.random.default_rng(1).permutation(50).astype(np.uint64)
    places = np.array([3, 40], np.uint64)
    truth = places.copy()
    for _ in range(9):
        truth = following[truth.astype(int)]
    walks.follow(following, places, 9)
    assert np.array_equal(places, truth)


def test_numbers_are_overwritten_and_updated() -> None:
    numbers = np.arange(5, dtype=np.float32)
    walks.update(numbers, np.float32(2))
    assert np.array_equal(numbers, np.arange(2, 7))
    walks.overwrite(numbers, np.float32(3))
    assert np.array_equal(numbers, np.full(5, 3))
