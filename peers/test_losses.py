"""Losses against PyTorch's, value and gradient."""

import numpy as np
import pytest
import torch
from torch import nn

from peers.agreement import assert_close, drawn, theirs
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.tensor import Tensor


def test_mean_squared_error_and_both_gradients() -> None:
    prediction, target = (Tensor(drawn(6, 5, seed=seed), requires_grad=True) for seed in range(2))
    their_prediction, their_target = theirs(prediction.data), theirs(target.data)
    loss, expected = MSELoss()(prediction, target), nn.MSELoss()(their_prediction, their_target)
    loss.backward()
    expected.backward()
    assert_close(loss, expected)
    assert_close(prediction.grad, their_prediction.grad)
    assert_close(target.grad, their_target.grad)


@pytest.mark.parametrize("scale", [1, 50])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(ignored: int | None, scale: int) -> None:
    logits = Tensor(drawn(40, 7) * scale, requires_grad=True)
    labels = np.random.default_rng(0).integers(0, 7, 40)
    if ignored == -100:
        labels[::3] = -100
    their_logits = theirs(logits.data)
    loss = CrossEntropyLoss(ignore_index=ignored)(logits, labels)
    other = nn.CrossEntropyLoss() if ignored is None else nn.CrossEntropyLoss(ignore_index=ignored)
    expected = other(their_logits, torch.tensor(labels))
    loss.backward()
    expected.backward()
    assert_close(loss, expected)
    assert_close(logits.grad, their_logits.grad)
