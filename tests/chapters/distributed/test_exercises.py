"""The checks of the exercises on several ranks: they pass what is right, and fail what is nearly right."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tinytorch.chapters.distributed import exercises
from tinytorch.chapters.distributed.exercises import Entry
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster
from tinytorch.perf.distributed.cluster_model.prediction import Split, best_splits
from tinytorch.perf.distributed.cluster_model.workload import Workload

Trace = list[Entry]


def starts_by_call(trace: Trace) -> list[dict[int, float]]:
    calls: dict[int, dict[int, float]] = defaultdict(dict)
    for entry in trace:
        if entry.sequence:
            calls[entry.sequence][entry.rank] = entry.start
    return list(calls.values())


def straggler(trace: Trace) -> int:
    waited: dict[int, float] = defaultdict(float)
    for starts in starts_by_call(trace):
        last = max(starts, key=lambda rank: starts[rank])
        waited[last] += sum(starts[last] - start for start in starts.values())
    return max(waited, key=lambda rank: waited[rank])


def most_often_last(trace: Trace) -> int:
    last = [max(starts, key=lambda rank: starts[rank]) for starts in starts_by_call(trace)]
    return max(set(last), key=last.count)


def longest(trace: Trace) -> int:
    seconds: dict[int, float] = defaultdict(float)
    for entry in trace:
        if entry.sequence == 0:
            seconds[entry.rank] += entry.end - entry.start
    return max(seconds, key=lambda rank: seconds[rank])


def most_ranks(seconds: float, nbytes: float, alpha: float, beta: float, least: float) -> int:
    spare = seconds * (1 / least - 1)
    ranks = 1
    while ranks < 4096 and 2 * ranks * (alpha + nbytes * beta / (ranks + 1)) <= spare:
        ranks += 1
    return ranks


def without_latency(seconds: float, nbytes: float, alpha: float, beta: float, least: float) -> int:
    return most_ranks(seconds, nbytes, 0.0, beta, least)


def choose_split(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    found = best_splits(workload, cluster, ranks, memory_bytes=memory)
    return found[0].split if found else None


def whatever_the_memory(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    return best_splits(workload, cluster, ranks)[0].split


def data_if_it_fits(workload: Workload, cluster: Cluster, ranks: int, memory: float) -> Split | None:
    found = best_splits(workload, cluster, ranks, memory_bytes=memory)
    return max(found, key=lambda one: one.split.data).split if found else None


@pytest.mark.parametrize(
    ("check", "right"),
    [
        (exercises.check_straggler, straggler),
        (exercises.check_most_ranks, most_ranks),
        (exercises.check_choose_split, choose_split),
    ],
)
def test_right_answers_pass(check: Callable[[Any], str], right: Callable[..., Any]) -> None:
    assert ": passed" in check(right)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (exercises.check_straggler, most_often_last),
        (exercises.check_straggler, longest),
        (exercises.check_straggler, lambda trace: None),
        (exercises.check_most_ranks, without_latency),
        (exercises.check_most_ranks, lambda *_: 1),
        (exercises.check_choose_split, whatever_the_memory),
        (exercises.check_choose_split, data_if_it_fits),
        (exercises.check_choose_split, lambda workload, cluster, ranks, memory: None),
        (exercises.check_choose_split, lambda workload, cluster, ranks, memory: Split(ranks)),
    ],
)
def test_nearly_right_answers_fail(check: Callable[[Any], str], wrong: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError):
        check(wrong)
