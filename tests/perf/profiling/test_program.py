"""A script under the profiler: it runs as Python runs it, and all of its time is recorded."""

import builtins
import sys
from pathlib import Path

import pytest

from tinytorch.perf.profiling.breakdown import NOT_NAMED
from tinytorch.perf.profiling.program import IMPORT, profile_program

pytestmark = pytest.mark.usefixtures("made_machine")

SCRIPT = """
import sys
import numpy as np
from beside_of_the_test import SIZE
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.profiling import region

print(__name__, *sys.argv[1:])
layer = Linear(SIZE, 2, seed=0)
with region("augment"):
    x = np.ones((3, SIZE), np.float32)
layer(Tensor(x))
if "fail" in sys.argv:
    raise KeyError("lost")
if "leave" in sys.argv:
    sys.exit(3)
if "say" in sys.argv:
    sys.exit("no such thing")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "beside_of_the_test.py").write_text("SIZE = 4\n")
    monkeypatch.delitem(sys.modules, "beside_of_the_test", raising=False)
    return str(tmp_path / "train.py")


def test_a_script_runs_as_the_main_module_with_its_arguments(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = (sys.argv, list(sys.path), builtins.__import__)
    done = profile_program(script, ["--epochs", "3"])
    assert capsys.readouterr().out == "__main__ --epochs 3\n"
    assert (sys.argv, list(sys.path), builtins.__import__) == before
    assert (done.exit_code, done.name) == (0, f"{script} --epochs 3")
    rows = {row.op: row for row in done.profiler.attribution()}
    assert rows.keys() >= {"linear", "augment", IMPORT, NOT_NAMED}
    assert rows["augment"].calls == 1
    assert rows["linear"].flops == 2 * 3 * 4 * 2
    assert sum(row.share or 0 for row in rows.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("argument", "code", "said"), [("fail", 1, "KeyError: 'lost'"), ("leave", 3, ""), ("say", 1, "no such thing")]
)
def test_what_ran_until_an_error_is_recorded(
    script: str, argument: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = profile_program(script, [argument])
    assert done.exit_code == code
    assert said in capsys.readouterr().err
    assert [event.op for event in done.profiler.run.events] == ["linear"]


def test_memory_takes_a_second_run(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = profile_program(script, memory=True)
    assert capsys.readouterr().out.count("__main__") == 2
    assert done.profiler.memory.highest["parameters"] == 4 * (4 * 2 + 2)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file"):
        profile_program(str(tmp_path / "nothing.py"))
