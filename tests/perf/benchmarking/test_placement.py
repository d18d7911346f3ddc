"""Where processes were when they measured: what it changes in verdicts, comparisons, resumptions and histories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.perf.benchmarking.made import performance, results
from tinytorch.chapters.benchmarking.report import markdown_report
from tinytorch.perf.benchmarking import (
    Results,
    compare,
    compare_results,
    continued,
    differences,
    pareto_front,
)
from tinytorch.perf.benchmarking.performance import WORKER, Performance
from tinytorch.perf.benchmarking.placement import numbers_done, place_words, placed, workers_at_once
from tinytorch.perf.benchmarking.running import open_numbers


def place(number: int, workers: int = 2, oversubscribed: bool = False) -> dict[str, Any]:
    """Return where process ``number`` was."""
    return {
        "process": number,
        "rank": number % workers,
        "host": "node",
        "cores": [number % workers],
        "workers": workers,
        "pinned": True,
        "oversubscribed": oversubscribed,
        "shares_core": False,
    }


def at(one: Performance, workers: int = 2, oversubscribed: bool = False, missing: int | None = None) -> Performance:
    """Return ``one`` as workers measured it, one process of which may have failed."""
    count = len(one.times[1])
    numbers = [number for number in range(count + (missing is not None)) if number != missing]
    parts = [
        placed(
            replace(one, times={1: one.times[1][i : i + 1]}, reference={1: one.reference[1][i : i + 1]}),
            place(numbers[i], workers, oversubscribed),
        )
        for i in range(count)
    ]
    return replace(
        one,
        times={1: tuple(part.times[1][0] for part in parts)},
        reference={1: tuple(part.reference[1][0] for part in parts)},
    )


def test_times_of_too_many_workers_support_no_verdict() -> None:
    slow, fast = performance("slow", 2e-3), performance("fast", 1e-3, seed=1)
    assert compare(slow, fast).speedup.verdict == "faster"
    assert compare(at(slow), at(fast)).speedup.verdict == "faster"
    told = compare(at(slow, oversubscribed=True), at(fast, oversubscribed=True)).speedup
    assert told.verdict == "cannot tell"
    assert told.because == "more workers than cores took these times"
    crowded = {one.name: at(one, oversubscribed=True) for one in (slow, fast)}
    assert pareto_front(crowded).front == ("slow", "fast")
    base = results(slow, fast)
    changed = compare_results(base, results(*crowded.values()))
    assert {change.speedup.verdict for change in changed.changes.values()} == {"cannot tell"}
    assert changed.geometric_mean.verdict == "cannot tell"


def test_the_number_of_workers_is_a_condition_of_the_times() -> None:
    alone, beside = results(performance("a")), results(at(performance("a")))
    assert differences(alone, beside) == ["workers at a time: 1 and 2"]
    assert differences(alone, replace(beside, performances={}, done=0)) == []
    assert workers_at_once(alone.performances) == 1
    with pytest.raises(ValueError, match="was measured by 2 at a time on one host, and would go on with 1: give as"):
        continued(beside, beside.plan, beside.code)
    assert continued(beside, beside.plan, beside.code, workers=2) == beside
    with pytest.raises(ValueError, match="was measured by 1 at a time"):
        continued(alone, alone.plan, alone.code, workers=2)


def made(missing: int | None) -> Results:
    """Return a run of eight processes that a ninth belongs to."""
    whole = results(at(performance("a"), missing=missing))
    return replace(whole, plan=replace(whole.plan, processes=9))


@pytest.mark.parametrize("missing", [None, 0, 3, 7])
def test_the_process_that_failed_is_the_one_left_open(missing: int | None) -> None:
    run = made(missing)
    assert open_numbers(run) == [8 if missing is None else missing]
    assert numbers_done({}, 0) == set()
    assert open_numbers(replace(results(performance("a")), plan=run.plan)) == [8]


def test_reports_say_where_processes_ran_and_pooled_times_do_not_name_one_worker() -> None:
    one = at(performance("a"), oversubscribed=True)
    assert place_words({"a": one}) == [
        "measured on node by 2 workers at a time, kept on cores 0, 1",
        "more workers than cores took these times: they support no verdict",
    ]
    assert place_words({"a": performance("a")}) == []
    assert "- measured on node by 2 workers" in markdown_report([results(one)])
    assert WORKER not in one.time.how
