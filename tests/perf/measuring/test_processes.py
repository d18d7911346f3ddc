"""Fresh processes: each is new, its ratio is one sample, and what cannot be started is said."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from tests.perf import replicated
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.first_calls import first_calls, over_steady_state, steady_state
from tinytorch.perf.measuring.fresh import answer_of
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes, fresh_processes


@pytest.fixture(scope="module")
def twice() -> list[Fresh]:
    return fresh_processes(replicated.twice_the_work, processes=6, rounds=8, first=5)


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
        fresh_processes(lambda: replicated.twice_the_work())
    with pytest.raises(ValueError, match="processes"):
        fresh_processes(replicated.twice_the_work, processes=0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fresh_processes(replicated.broken, processes=1)


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
