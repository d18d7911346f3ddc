"""A program of PyTorch under the profiler: its operations by name, as often as they ran and with their arithmetic."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from tinytorch.perf.profiling import inside
from tinytorch.perf.profiling.inside import TorchOps
from tinytorch.perf.profiling.program import profile_program

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
