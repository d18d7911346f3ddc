"""The data: shapes, ranges, and test parts that training never sees."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tinytorch import datasets


def test_digits_are_scikit_learns_split_once_and_for_all() -> None:
    data = datasets.digits()
    bunch = load_digits()
    images = np.concatenate([data.train_inputs, data.test_inputs])
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    assert images.min() == 0
    assert images.max() == 1
    # The same multiset of images with their labels, in another order.
    ours = sorted(
        (int(label), (image * 16).astype(int).tobytes())
        for image, label in zip(images, np.concatenate([data.train_targets, data.test_targets]), strict=True)
    )
    theirs = sorted(
        (int(label), image.astype(int).tobytes()) for image, label in zip(bunch.images, bunch.target, strict=True)
    )
    assert ours == theirs


def test_each_digit_has_its_fifth_in_the_test_part() -> None:
    data = datasets.digits()
    train = np.bincount(data.train_targets, minlength=10)
    test = np.bincount(data.test_targets, minlength=10)
    np.testing.assert_allclose(test / (train + test), 0.2, atol=0.005)


def test_the_data_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        datasets.digits().test_inputs[0] = 0


def test_shifted_digits_move_by_one_pixel_and_let_nothing_in() -> None:
    images, labels = datasets.shifted_digits()
    original = datasets.digits().train_inputs
    count = len(original)
    assert images.shape == (5 * count, 1, 8, 8)
    np.testing.assert_array_equal(labels, np.tile(datasets.digits().train_targets, 5))
    np.testing.assert_array_equal(images[:count], original)
    up, down, left, right = (images[part * count : (part + 1) * count] for part in range(1, 5))
    np.testing.assert_array_equal(up[:, :, :-1], original[:, :, 1:])
    np.testing.assert_array_equal(down[:, :, 1:], original[:, :, :-1])
    np.testing.assert_array_equal(left[..., :-1], original[..., 1:])
    np.testing.assert_array_equal(right[..., 1:], original[..., :-1])
    for edge in (up[:, :, -1], down[:, :, 0], left[..., -1], right[..., 0]):
        assert not edge.any()


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
