"""Fresh processes: each is new, its ratio is one sample, and what cannot be started is said."""

import numpy as np
import pytest

from tests.perf import replicated
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes, fresh_processes


@pytest.fixture(scope="module")
def twice() -> list[Fresh]:
    return fresh_processes(replicated.twice_the_work, processes=6, rounds=8, first=5)


def test_each_process_gives_its_first_calls_and_all_functions_in_turns(twice: list[Fresh]) -> None:
    assert [len(one.first) for one in twice] == [5] * 6
    assert min(min(one.first) for one in twice) > 0
    for one in twice:
        assert {name: times.n for name, times in one.times.items()} == {"long": 8, "short": 8}
        assert one.times["long"].conditions.interleaved_with == ("short",)
    assert len({one.times["long"].samples for one in twice}) == 6


def test_each_process_gives_one_ratio(twice: list[Fresh]) -> None:
    found = compare_in_processes(twice, "long", "short", 0.05)
    assert found.n == 6
    assert float(found) > 1
    assert found.estimate.conditions.sample is Sample.PROCESSES
    assert "6 processes" in found.sentence()
    for one, ratio in zip(twice, found.estimate.samples, strict=True):
        logs = np.log(one.times["long"].samples) - np.log(one.times["short"].samples)
        assert ratio == pytest.approx(np.exp(np.median(logs)))


def test_what_a_new_process_cannot_import_is_refused() -> None:
    def local() -> replicated.Functions:
        return replicated.twice_the_work()

    for maker in (local, lambda: replicated.twice_the_work()):
        with pytest.raises(ValueError, match="process"):
            fresh_processes(maker)
    with pytest.raises(ValueError, match="processes"):
        fresh_processes(replicated.twice_the_work, processes=0)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fresh_processes(replicated.broken, processes=1)
