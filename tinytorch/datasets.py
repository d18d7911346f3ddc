"""The real data that the zoo's models are trained and scored on."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

#: The digits as scikit-learn 1.9 ships them (BSD-3-Clause, sklearn/datasets/data/digits.csv.gz): a line each, 64 pixels
#: from 0 to 16 and the label. The data are CC BY 4.0: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten
#: Digits, UCI Machine Learning Repository, 1998, doi:10.24432/C50P49, the test part.
_DIGITS = "digits.csv.gz"
_DIGITS_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Inputs and targets to train on, and others to score on; the arrays are read-only."""

    train_inputs: npt.NDArray[Any]
    train_targets: Integers
    test_inputs: npt.NDArray[Any]
    test_targets: Integers

    def __post_init__(self) -> None:
        for array in (self.train_inputs, self.train_targets, self.test_inputs, self.test_targets):
            array.flags.writeable = False


@cache
def digits() -> Split:
    """Return 1,797 handwritten digits: images (N, 1, 8, 8) float32 in 0..1, labels int64.

    A fixed fifth of each digit is for scoring. Source: E. Alpaydin and C. Kaynak, UCI, 1998, doi:10.24432/C50P49 (CC BY
    4.0).

    Raises:
        ValueError: if the file that came with the package was changed.

    Examples:
        >>> from tinytorch.datasets import digits
        >>> data = digits()
        >>> data.train_inputs.shape, data.test_inputs.shape
        ((1442, 1, 8, 8), (355, 1, 8, 8))
    """
    packed = files("tinytorch").joinpath(_DIGITS).read_bytes()
    if hashlib.sha256(packed).hexdigest() != _DIGITS_SHA256:
        raise ValueError(f"{_DIGITS} must be the file that the package ships, but its SHA-256 is another")
    numbers = np.array(gzip.decompress(packed).replace(b"\n", b",").rstrip(b",").split(b","), np.float32)
    table = numbers.reshape(-1, 65)
    images, labels = (table[:, :64] / 16).reshape(-1, 1, 8, 8), table[:, 64].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    parts = [np.array_split(order[labels[order] == digit], [(labels == digit).sum() // 5]) for digit in range(10)]
    test, train = (np.sort(np.concatenate(part)) for part in zip(*parts, strict=True))
    return Split(images[train], labels[train], images[test], labels[test])


@cache
def shifted_digits() -> tuple[Floats, Integers]:
    """Return the training digits and, of each, the four copies that are moved by one pixel: (5 N, 1, 8, 8)."""
    data = digits()
    images = np.asarray(data.train_inputs, dtype=np.float32)
    moved = [images, *(np.roll(images, step, axis) for axis in (2, 3) for step in (-1, 1))]
    # What rolled over the edge comes from outside of the image, which is blank.
    for copy, edge in zip(moved[1:], (np.s_[:, :, -1], np.s_[:, :, 0], np.s_[..., -1], np.s_[..., 0]), strict=True):
        copy[edge] = 0
    return np.concatenate(moved), np.tile(data.train_targets, len(moved))


#: The sorting task: digits to sort, the token between question and answer, and targets that do not count.
SORT_LENGTH = 10
SEPARATOR = 10
IGNORED = -100


def sorting_examples(count: int, seed: int, length: int = SORT_LENGTH) -> tuple[Integers, Integers]:
    """Return ``count`` sequences of the sorting task, as a language model reads them.

    A sequence is ``length`` random digits, the separator, and the same digits in order. Inputs are all tokens
    but the last, targets all but the first, with -100, which the loss ignores, where the question still runs; both are
    int64 of shape (count, 2 * length).

    Raises:
        ValueError: if ``count`` or ``length`` is below 1.

    Examples:
        >>> from tinytorch.datasets import sorting_examples
        >>> inputs, targets = sorting_examples(1, seed=0, length=3)
        >>> inputs  # the separator is 10
        array([[ 8,  6,  5, 10,  5,  6]])
        >>> targets
        array([[-100, -100, -100,    5,    6,    8]])
    """
    if count < 1 or length < 1:
        raise ValueError(f"count and length must be at least 1, not {count} and {length}")
    question = np.random.default_rng(seed).integers(0, 10, (count, length))
    separator = np.full((count, 1), SEPARATOR)
    tokens = np.concatenate([question, separator, np.sort(question, axis=1)], axis=1)
    targets = tokens[:, 1:].copy()
    targets[:, :length] = IGNORED
    return tokens[:, :-1], targets


@cache
def sorting(train: int = 50_000, test: int = 2_000, test_seed: int = 2) -> Split:
    """Return the sorting task from fixed seeds: no question of the test part is in the training part.

    Other seeds than 2, and than 1 of the training part, draw other test questions.
    """
    train_inputs, train_targets = sorting_examples(train, seed=1)
    test_inputs, test_targets = sorting_examples(2 * test, seed=test_seed)
    seen = {row.tobytes() for row in train_inputs[:, :SORT_LENGTH]}
    unseen = np.array([row.tobytes() not in seen for row in test_inputs[:, :SORT_LENGTH]])
    return Split(train_inputs, train_targets, test_inputs[unseen][:test], test_targets[unseen][:test])
