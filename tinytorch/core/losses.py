"""Losses as modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor


class MSELoss(Module):
    """Mean of the squared differences."""

    def forward(self, prediction: Tensor, target: Any) -> Tensor:
        """Return the loss, shape (), of two tensors of one shape."""
        return apply(ops.mean_squared_error, prediction, target if isinstance(target, Tensor) else Tensor(target))


class CrossEntropyLoss(Module):
    """Mean of -log softmax(logits)[target]; targets equal to ``ignore_index`` do not count."""

    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        """Return the loss, shape (), of logits (..., classes) and integer targets (...)."""
        labels = np.asarray(target.data if isinstance(target, Tensor) else target)
        return apply(ops.cross_entropy, logits, labels, ignore_index=self.ignore_index)
