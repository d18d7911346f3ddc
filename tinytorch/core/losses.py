"""Losses as modules."""

from __future__ import annotations

from typing import Any

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import as_indices
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor


class MSELoss(Module):
    """Mean of the squared differences.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.losses import MSELoss
        >>> MSELoss()(Tensor([1, 2]), Tensor([1, 4])).item()
        2.0
    """

    def forward(self, prediction: Tensor, target: Any) -> Tensor:
        """Return the loss, shape (), of two tensors of one shape."""
        return apply(ops.mean_squared_error, prediction, target if isinstance(target, Tensor) else Tensor(target))


class CrossEntropyLoss(Module):
    """Mean of -log softmax(logits)[target]; targets equal to ``ignore_index`` do not count.

    Examples:
        >>> from tinytorch import Tensor
        >>> from tinytorch.core.losses import CrossEntropyLoss
        >>> loss = CrossEntropyLoss()(Tensor([[0, 0], [0, 0]]), [0, 1])
        >>> round(loss.item(), 4)  # of two equal logits: ln 2
        0.6931
    """

    def __init__(self, ignore_index: int | None = None) -> None:
        self.ignore_index = ignore_index

    def forward(self, logits: Tensor, target: Any) -> Tensor:
        """Return the loss, shape (), of logits (..., classes) and targets (...), whole numbers."""
        return apply(ops.cross_entropy, logits, as_indices(target, "target"), ignore_index=self.ignore_index)
