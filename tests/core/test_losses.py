"""Losses against SciPy, of each kind of target that they take."""

import numpy as np
import pytest
import scipy.special

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4)])
def test_mean_squared_error(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape).astype(np.float32), normal(*shape, seed=1)
    for target in (Tensor(b), b, b.tolist()):
        prediction = Tensor(a, requires_grad=True)
        loss = MSELoss()(prediction, target)
        loss.backward()
        assert loss.shape == ()
        np.testing.assert_allclose(loss.item(), np.sum((a - b) ** 2) / a.size, rtol=1e-6)
        np.testing.assert_allclose(gradient_of(prediction), 2 * (a - b) / a.size, rtol=1e-5)
        assert gradient_of(prediction).dtype == np.float32


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(ignored: int | None, scale: int) -> None:
    logits, labels = scale * normal(2, 3, 4), np.array([[0, 2, 3], [1, 2, -100 if ignored == -100 else 3]])
    counted = labels != ignored
    rows = scipy.special.log_softmax(logits[counted], axis=-1)
    expected = -np.mean([row[label] for row, label in zip(rows, labels[counted], strict=True)])
    for target in (labels, Tensor(labels), labels.tolist(), labels.astype(np.int16), Tensor(labels.tolist())):
        loss = CrossEntropyLoss(ignore_index=ignored)(Tensor(logits), target)
        np.testing.assert_allclose(loss.item(), expected, rtol=1e-12)
