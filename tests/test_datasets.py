"""The data: shapes, ranges, and test parts that training never sees."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tinytorch import datasets


def test_digits_are_scikit_learns_split_once_and_for_all() -> None:
    data, bunch = datasets.digits(), load_digits()
    images = np.concatenate([data.train_inputs, data.test_inputs])
    labels = np.concatenate([data.train_targets, data.test_targets])
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    # The same multiset of images with their labels, in another order.
    ours, theirs = np.column_stack([labels, images.reshape(-1, 64) * 16]), np.column_stack([bunch.target, bunch.data])
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])
    test = np.bincount(data.test_targets, minlength=10)
    np.testing.assert_allclose(test / np.bincount(labels), 0.2, atol=0.005)
    with pytest.raises(ValueError, match="read-only"):
        data.test_inputs[0] = 0


def test_shifted_digits_move_by_one_pixel_and_let_nothing_in() -> None:
    images, labels = datasets.shifted_digits()
    original = datasets.digits().train_inputs
    np.testing.assert_array_equal(labels, np.tile(datasets.digits().train_targets, 5))
    framed = np.pad(original, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = np.split(images, 5)
    for part, (down, right) in zip(parts, ((1, 1), (2, 1), (0, 1), (1, 2), (1, 0)), strict=True):
        np.testing.assert_array_equal(part, framed[:, :, down : down + 8, right : right + 8])


def test_sorting_asks_for_the_sorted_digits_behind_the_separator() -> None:
    inputs, targets = datasets.sorting_examples(50, seed=3, length=4)
    assert inputs.shape == targets.shape == (50, 8)
    for tokens, wanted in zip(inputs, targets, strict=True):
        assert tokens[4] == datasets.SEPARATOR
        assert list(wanted[:4]) == [datasets.IGNORED] * 4
        assert list(wanted[4:]) == sorted(tokens[:4])
        assert list(tokens[5:]) == sorted(tokens[:4])[:-1]


def test_no_question_of_the_test_part_was_trained_on() -> None:
    data = datasets.sorting()
    trained = {row.tobytes() for row in np.asarray(data.train_inputs)[:, : datasets.SORT_LENGTH]}
    asked = [row.tobytes() for row in np.asarray(data.test_inputs)[:, : datasets.SORT_LENGTH]]
    assert len(asked) == 2000
    assert not trained.intersection(asked)


def test_nothing_to_make_is_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        datasets.sorting_examples(0, seed=0)
