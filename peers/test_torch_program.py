"""Programs of PyTorch under the profiler, and modules that are read by `from_torch`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from peers.test_onnx import Bert, Residual, Vit, images, mask_of, tokens
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.onnx import from_torch
from tinytorch.perf.profiling import inside
from tinytorch.perf.profiling.inside import TorchOps
from tinytorch.perf.profiling.program import profile_program

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SCRIPT = """
import torch
from torch import nn
a, layer = torch.ones(64, 32), nn.Linear(32, 16)
def step():
    layer(a).sum().backward()
for _ in range(7):
    step()
"""


def test_operations_of_pytorch_have_rows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = profile_program(str(tmp_path / "train.py"), ops=True)
    assert done.inside is not None
    (product,) = [row for row in done.inside.torch_rows if row["op"] == "aten::addmm"]
    assert product["calls"] == 7
    assert product["flops"] == 7 * 2 * 64 * 32 * 16
    assert product["with_inner"] >= product["seconds"] > 0
    calls = [call for call in done.inside.torch_calls if call.op == "aten::addmm"]
    assert len(calls) == 7
    assert all(done.inside.start < call.start < call.end for call in calls), "on the clock of the run"
    assert any(event["name"] == "aten::addmm" for event in done.trace_events())


def test_recording_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Mock()
    monkeypatch.setattr(inside, "threading", SimpleNamespace(Timer=timer))
    ops = TorchOps(longest=3)
    torch.ones(3).mul(2)
    seconds, function, arguments = timer.call_args.args
    function(*arguments)
    while not ops.remarks:  # the interpreter calls back at a jump like this one's
        pass
    torch.ones(3).sub(2)
    ops.stop()
    recorded = {row["op"] for row in ops.rows}
    assert (seconds, "aten::mul" in recorded, "aten::sub" in recorded) == (3, True, False)


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
