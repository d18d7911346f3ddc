"""Fresh processes: each is new, and its ratio is one sample; and files that are written whole."""

import os
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from tests.perf import small_models
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.atomic_io import read_arrays, read_values, write_arrays, write_values, write_whole
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.first_calls import first_calls, over_steady_state, steady_state
from tinytorch.perf.measuring.fresh import answer_of
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes, fresh_processes


@pytest.fixture(scope="module")
def twice() -> list[Fresh]:
    return fresh_processes(small_models.twice_the_work, processes=6, rounds=8, first=5)


def test_each_process_gives_its_first_calls_and_one_ratio_of_functions_in_turns(twice: list[Fresh]) -> None:
    assert [len(one.first) for one in twice] == [5] * 6
    assert min(min(one.first) for one in twice) > 0
    assert len({one.times["long"].samples for one in twice}) == 6
    found = compare_in_processes(twice, "long", "short", 0.05)
    assert (found.n, found.estimate.conditions.sample) == (6, Sample.PROCESSES)
    assert "6 processes" in found.sentence()
    for one, ratio in zip(twice, found.estimate.samples, strict=True):
        assert {name: times.n for name, times in one.times.items()} == {"long": 8, "short": 8}
        assert one.times["long"].conditions.interleaved_with == ("short",)
        logs = np.log(one.times["long"].samples) - np.log(one.times["short"].samples)
        assert ratio == pytest.approx(np.exp(np.median(logs)))


def test_what_a_new_process_cannot_import_is_refused() -> None:
    with pytest.raises(ValueError, match="process"):
        fresh_processes(lambda: small_models.twice_the_work())
    with pytest.raises(ValueError, match="processes"):
        fresh_processes(small_models.twice_the_work, processes=0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fresh_processes(small_models.broken, processes=1)


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("os.kill(os.getpid(), 11)", "a fresh process died of SIGSEGV"),
        ("raise ValueError('no reason')", "ValueError: no reason"),
        ("sys.exit(3)", "exit code 3"),
        ("print(json.dumps({'asked': asked}))", None),
    ],
)
def test_a_fresh_process_answers_in_json_whatever_it_printed_before_or_says_why_it_fails(
    does: str, told: str | None, tmp_path: Path
) -> None:
    begin = "import json, os, sys\nasked = json.loads(sys.stdin.read())\nprint('noise')\n"
    (tmp_path / "echo.py").write_text(begin + does)
    with pytest.raises(RuntimeError, match=told) if told else nullcontext():
        assert answer_of("echo", {"ä": [1, None]}, tmp_path) == {"asked": {"ä": [1, None]}}


def test_first_calls_come_from_as_many_processes_as_asked() -> None:
    calls = first_calls("mlp", batch=1, calls=4, processes=2)
    assert {number: call.n for number, call in calls.items()} == {1: 2, 2: 2, 3: 2, 4: 2}
    assert all(sample > 0 for call in calls.values() for sample in call.samples)


def test_first_calls_stop_at_two_processes_if_the_time_is_over() -> None:
    assert first_calls("mlp", batch=1, calls=1, processes=4, at_most_seconds=1e-9)[1].n == 2


def test_settled_calls_are_medians_within_a_process() -> None:
    calls = {i: Measurement(f"call {i}", (ms, ms / 10), "s") for i, ms in enumerate((30.0, 3.0, 1.0, 2.0), start=1)}
    assert steady_state(calls, first=1).samples == pytest.approx((2.0, 0.2))
    assert over_steady_state(calls, 1, 1, first=1).samples == pytest.approx((15.0, 15.0))
    assert over_steady_state(calls, 2, 4, first=1).samples == pytest.approx((1.0, 1.0))


def test_a_link_stays_one_and_its_target_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    real, link = tmp_path / "shared" / "real.json", tmp_path / "link.json"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to("shared/real.json")
    write_whole(link, "new")
    assert (link.is_symlink(), real.read_text(), stat.S_IMODE(real.stat().st_mode)) == (True, "new", 0o640)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link.json", "real.json", "shared"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE, text=True) as reader:
        write_whole(tmp_path / "pipe", "text")
        assert reader.communicate()[0] == "text"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="the system has no /dev/stdout")
def test_the_standard_output_is_written_to_where_it_stands(tmp_path: Path) -> None:
    code = "import sys; from tinytorch.perf.measuring.atomic_io import write_whole\n"
    code += "print('before'); write_whole('/dev/stdout', 'text\\n'); print('behind')"
    with open(tmp_path / "out", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "before\ntext\nbehind\n"


def test_what_utf_8_does_not_have_is_escaped(tmp_path: Path) -> None:
    assert write_whole(tmp_path / "odd", "a \udce9 é").read_text(encoding="utf-8") == "a \\udce9 é"


def test_arrays_come_back_by_any_name_and_what_would_be_pickled_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "arrays"
    arrays: dict[str, np.ndarray] = {"file": np.arange(3), "a/b": np.ones((2, 1), np.float32)}
    write_arrays(path, arrays)
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(path, {"file": np.array([None])})
    assert [*tmp_path.iterdir()] == [path], "nothing is left aside"
    back = read_arrays(path)
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype
    path.write_text("no arrays")
    with pytest.raises(ValueError, match="holds no complete file of arrays"):
        read_arrays(path)
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none")


def test_values_come_back_as_arrays_and_json_and_what_is_neither_is_refused_unwritten(tmp_path: Path) -> None:
    path = tmp_path / "values"
    with pytest.raises(TypeError, match=r"values must be arrays or what JSON can hold, but .* set"):
        write_values(path, {"array": np.ones(2), "set": {1, 2}})
    assert [*tmp_path.iterdir()] == []
    write_values(path, {"array": np.arange(4.0), "text": "ä", "nested": {"a": [1, None, 0.5]}, "file": True})
    back = read_values(path)
    np.testing.assert_array_equal(back.pop("array"), np.arange(4.0))
    assert back == {"text": "ä", "nested": {"a": [1, None, 0.5]}, "file": True}
    assert [*tmp_path.iterdir()] == [path]
