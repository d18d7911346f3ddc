"""Losses as modules: the targets that they take."""

import numpy as np
import scipy.special

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.tensor import Tensor


def test_mean_squared_error_of_tensors_arrays_and_lists() -> None:
    for target in (Tensor([1.0, 4.0]), np.array([1, 4], np.float32), [1, 4]):
        prediction = Tensor([3.0, 3.0], requires_grad=True)
        loss = MSELoss()(prediction, target)
        assert (loss.shape, loss.item()) == ((), 2.5)
        loss.backward()
        np.testing.assert_array_equal(gradient_of(prediction), [2, -1])


def test_a_float64_target_leaves_the_gradient_float32() -> None:
    prediction = Tensor([3.0, 3.0], requires_grad=True)
    MSELoss()(prediction, np.array([1.0, 4.0])).backward()
    assert gradient_of(prediction).dtype == np.float32


def test_cross_entropy_of_tensors_arrays_and_lists() -> None:
    logits = normal(2, 3, 5)
    labels = np.array([[0, 4, 2], [1, 1, 3]])
    expected = -np.log(np.take_along_axis(scipy.special.softmax(logits, axis=-1), labels[..., None], -1)).mean()
    for target in (labels, Tensor(labels), labels.tolist(), labels.astype(np.uint8), Tensor(labels.tolist())):
        np.testing.assert_allclose(CrossEntropyLoss()(Tensor(logits), target).item(), expected, rtol=1e-12)


def test_ignored_targets_count_neither_in_the_sum_nor_in_the_mean() -> None:
    logits, labels = normal(4, 5), np.array([0, -1, 2, -1])
    some = CrossEntropyLoss()(Tensor(logits[[0, 2]]), labels[[0, 2]]).item()
    np.testing.assert_allclose(CrossEntropyLoss(ignore_index=-1)(Tensor(logits), labels).item(), some, rtol=1e-12)
