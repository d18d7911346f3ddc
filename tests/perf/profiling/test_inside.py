"""What a run from inside leaves in a file is what the process that started it reads."""

import json
from pathlib import Path

import numpy as np
import pytest

from tinytorch import Linear, Profiler, Sequential, Tensor
from tinytorch.core.activations import ReLU
from tinytorch.perf.measuring.atomic_io import write_arrays
from tinytorch.perf.profiling.inside import Inside, TorchCall, read_inside, write_inside


def recorded(memory: bool) -> Profiler:
    """Return a profiler of a pass and its backward, with a cut by a slice, a number and a call on integers."""
    model, x = Sequential(Linear(6, 5), ReLU(), Linear(5, 3)), Tensor(np.ones((4, 6), np.float32))
    with Profiler(memory=memory) as made:
        (model(x)[1:, ::2] * 2.0).sum().backward()
    return made


@pytest.mark.parametrize("memory", [False, True])
def test_operations_and_memory_are_read_as_they_were_recorded(memory: bool, tmp_path: Path) -> None:
    called = ({"function": "spin", "file": "a.py", "line": 3, "calls": 7, "seconds": 0.25, "share": 1 / 3},)
    rows = ({"op": "aten::addmm", "calls": 2, "seconds": 0.125, "flops": 640}, {"op": "aten::t", "flops": None})
    calls = (TorchCall(5, 9, "aten::t", 1), TorchCall(6, 7, "aten::addmm", 2), TorchCall(8, 9, "aten::t", 2))
    made = Inside(recorded(memory), not memory, rows, calls, called, 12345, ("a remark",))
    write_inside(tmp_path / "left", made)
    found = read_inside(tmp_path / "left")
    assert found._replace(profiler=None) == made._replace(profiler=None)
    assert found.profiler is not None
    assert made.profiler is not None
    assert found.profiler.run == made.profiler.run
    assert len(found.profiler.run.events) > 5
    assert len(found.profiler.run.spans) == 4
    assert found.profiler.module_call == made.profiler.module_call
    assert found.profiler.has_memory == memory
    if memory:
        assert found.profiler.memory == made.profiler.memory
    assert found.to_json() == made.to_json()


def test_a_run_that_recorded_no_operation_is_read(tmp_path: Path) -> None:
    with Profiler(memory=True) as nothing:
        pass
    write_inside(tmp_path / "left", Inside(nothing, False, (), (), (), 1, ()))
    found = read_inside(tmp_path / "left")
    assert found.has_memory
    assert not found.ran_ops


def test_a_run_that_left_nothing_says_so(tmp_path: Path) -> None:
    assert "left no result" in read_inside(tmp_path / "left").remarks[0]


@pytest.mark.parametrize("left", [b"", b"cos\nsystem\n(S'touch ran'\ntR.", b"PK\x03\x04"])
def test_what_is_no_result_is_refused_and_not_run(left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "left").write_bytes(left)
    with pytest.raises(ValueError, match="no complete file of arrays"):
        read_inside(tmp_path / "left")
    assert not (tmp_path / "ran").exists()


def test_a_document_without_a_field_is_refused_by_its_name(tmp_path: Path) -> None:
    document = np.frombuffer(json.dumps({"run": None}).encode(), np.uint8)
    write_arrays(tmp_path / "left", {"document": document})
    with pytest.raises(ValueError, match=r"the field .kinds. is missing"):
        read_inside(tmp_path / "left")
