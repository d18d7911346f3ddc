"""Modules of PyTorch, read by `from_torch`: they answer as PyTorch does, for another batch too, and stay unchanged."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from peers.test_onnx import Bert, Residual, Vit, images, mask_of, tokens
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.onnx import from_torch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Two(nn.Module):  # type: ignore[misc]
    """Two inputs, two outputs, and a dropout that an answer shows if it is left on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = self.dropout(self.linear(x)) + y
        return both, both.relu()


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "gelu": (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)), (torch.randn(3, 4),)),
    "two": (Two(), (torch.randn(2, 4), torch.randn(2, 3))),
    "residual": (Residual(3, 8, 2), (images(2, 3, 16, 16),)),
    "vit": (Vit(), (images(2, 3, 16, 16),)),
    "bert": (Bert(), (tokens(2, 10, 50), mask_of(2, 10), tokens(2, 10, 2))),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_answers_as_the_module_does(name: str) -> None:
    module, example = CASES[name]
    modes = [part.training for part in module.train().modules()]
    model = from_torch(module, example if len(example) > 1 else example[0])
    assert [part.training for part in module.modules()] == modes
    twice = tuple(torch.cat([each, each.flip(0)]) for each in example)
    with torch.no_grad(), no_grad():
        expected: Any = module.eval()(*twice)
        found: Any = model(*(each.numpy() for each in twice))
    for ours, theirs in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("module", "example"), [(3, torch.zeros(1)), (nn.Linear(1, 1), 3), (nn.Linear(1, 1), ())])
def test_what_is_none_of_torch_is_refused_by_name(module: Any, example: Any) -> None:
    with pytest.raises(TypeError, match=r"module|example"):
        from_torch(module, example)
