"""Fresh processes: each is new, its ratio is one sample, and what cannot be started is said."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from tests.perf import replicated
from tinytorch.perf.measuring.conditions import Sample
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
