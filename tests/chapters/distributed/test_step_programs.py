"""Steps of the zoo on ranks: timed, weighed and recorded in one launch, and what their plans refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.chapters.distributed import step_measuring
from tinytorch import models
from tinytorch.chapters.distributed import step_programs, step_recording, step_times
from tinytorch.chapters.distributed.step_programs import owned_bytes
from tinytorch.chapters.distributed.step_recording import record_steps, typical
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.host.pinned_threads import usable_cores

Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told() -> Told:
    return launch(step_measuring.measure, 2, threads=1, pinned=True)


def test_only_who_is_in_a_turn_works_and_the_others_sleep(told: Told) -> None:
    assert told[0]["present"] == [[2, 0], [1, 0], [2, 0]]
    assert told[1]["present"] == [[2, 1], [2, 1]]
    assert told[0]["slept"] == 0
    assert told[1]["slept"] >= 0.2
    assert told[1]["used"] < 0.2 * told[1]["slept"]  # whoever waits in a call of MPI uses all that it gets


def test_steps_of_all_counts_are_measured_in_turns(told: Told) -> None:
    cases = told[0]["scaling"]["cases"]
    assert [list(counts) for counts in cases] == [["1", "2"]] * 2
    assert [list(counts) for counts in told[1]["scaling"]["cases"]] == [["2"]] * 2
    for counts, others in zip(cases, told[1]["scaling"]["cases"], strict=True):
        assert counts["2"]["seconds"] == others["2"]["seconds"]
        assert all(len(one["seconds"]) == 6 and min(one["seconds"]) > 0 for one in counts.values())
        assert counts["1"]["oversubscribed"] is False
        assert counts["2"]["oversubscribed"] == (len(usable_cores()) < 2)
    assert cases[0]["2"]["seconds"] != cases[1]["2"]["seconds"]
    assert 0 <= told[0]["scaling"]["idle_cpu_share"] < 0.5
    ways = told[0]["overlap"]
    assert {way: len(one["seconds"]) for way, one in ways.items()} == {"overlapped": 6, "apart": 6, "alone": 6}


def test_a_rank_keeps_its_shard_of_the_state_and_no_gradients(told: Told) -> None:
    parameters = sum(4 * parameter.size for parameter in models.mlp().parameters())
    for rank in (0, 1):
        memory = told[rank]["memory"]
        assert memory["replicated"]["parameters"] == parameters
        for name, whole in (("gradients", parameters), ("optimizer_state", 2 * parameters)):
            assert whole <= memory["replicated"][name] < 1.01 * whole  # buckets are padded
        assert parameters <= memory["sharded"]["parameters"] < 1.01 * parameters
        assert memory["sharded"]["gradients"] == 0
        assert parameters <= memory["sharded"]["optimizer_state"] < 1.01 * parameters
        assert min(way["step_peak"] for way in memory.values()) > 0
        made = step_times.RankMemory(**memory["sharded"])
        assert made.kept == memory["sharded"]["parameters"] + memory["sharded"]["optimizer_state"]


def test_memory_that_several_arrays_look_into_counts_once_and_whole() -> None:
    whole, other = np.zeros(10, np.float32), np.zeros(3)
    assert owned_bytes([whole[2:4], whole[5:].reshape(5, 1), other, other]) == 40 + 24
    assert owned_bytes([]) == 0


def test_each_way_of_scaling_gets_its_own_times_and_batch(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def launched(program: Any, ranks: int, arguments: Mapping[str, Any], **how: Any) -> list[Any]:
        asked.update(arguments, program=program, ranks=ranks, **how)
        return [told[0]["scaling"], {}]

    monkeypatch.setattr(step_times, "launch", launched)
    strong, weak = step_times.scaling("mlp", [("strong", 8), ("weak", 4)], [1, 2], repeats=6)
    assert asked["program"] is step_programs.scaling_times
    assert (asked["ranks"], asked["cases"], asked["pinned"]) == (2, [[False, 8], [True, 4]], True)
    assert [(one.way, one.batch, one.counts) for one in (strong, weak)] == [("strong", 8, (1, 2)), ("weak", 4, (1, 2))]
    for one, counts in zip((strong, weak), told[0]["scaling"]["cases"], strict=True):
        assert one.times[2].samples == tuple(counts["2"]["seconds"])
        assert one.times[1].conditions.interleaved_with == (one.times[2].name,)


def test_steps_are_recorded_with_and_without_overlap(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def launched(program: Any, ranks: int, arguments: Mapping[str, Any], **how: Any) -> list[Any]:
        asked.update(arguments, program=program, ranks=ranks, **how)
        return [told[0], {}]

    monkeypatch.setattr(step_recording, "launch", launched)
    steps = record_steps(2, model="mlp", batch=8, steps=2, burdened=1, products=1)
    assert asked["program"] is step_recording.record_on_rank
    assert (asked["ranks"], asked["threads"], asked["pinned"]) == (2, 1, True)
    for timeline, begun_early in ((steps.overlapped[0], True), (steps.afterwards[1], False)):
        backward_ends = max(e.end for e in timeline.tracks[0].profile.events if e.phase == "backward")
        gradients = [
            call for m in timeline.matched_calls for call in m.calls if call.rank == 0 and call.info.group != "world"
        ]
        assert len(gradients) > 1, "several buckets"
        assert (min(call.arrival for call in gradients) < backward_ends) == begun_early
        assert {event.op for event in timeline.tracks[1].profile.events} >= {"linear", "cross_entropy"}
        assert all(matched.whole for matched in timeline.matched_calls)
    for rank, more in ((0, 0), (1, 1)):
        plain, burdened = (
            sum(event.op == "matmul" for event in timeline.tracks[rank].profile.events)
            for timeline in (steps.overlapped[0], steps.burdened[0])
        )
        assert burdened - plain == more, "one product on the burdened rank alone"
    assert typical(steps.overlapped).wall_seconds == min(each.wall_seconds for each in steps.overlapped)


def test_wrong_plans_are_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="repeats must be at least 1, not 0"):
        step_times.scaling("mlp", [("strong", 8)], repeats=0)
    with pytest.raises(ValueError, match="counts must be numbers of ranks with 1 among them"):
        step_times.scaling("mlp", [("weak", 8)], [2])
    with pytest.raises(ValueError, match="batch must leave each of 4 ranks an example, but is 3"):
        step_times.scaling("mlp", [("weak", 3), ("strong", 3)], [1, 4])
    with pytest.raises(ValueError, match="name must be one of"):
        step_times.scaling("vgg", [("strong", 8)])
    with pytest.raises(ValueError, match="cases must be at least one way of scaling"):
        step_times.scaling("mlp", [])
    with pytest.raises(ValueError, match="ranks must be at least 2, as one has nothing to send"):
        step_times.overlap("mlp", 8, 1)
    with pytest.raises(ValueError, match="bucket_bytes must be at least 1"):
        step_times.overlap("mlp", 8, 2, bucket_bytes=0)
    with pytest.raises(ValueError, match="ranks must be at least 2, as one has nobody to share with"):
        step_times.sharded_memory("mlp", 8, 1)


def test_wrong_recordings_are_refused() -> None:
    for wrong, said in (
        ({"ranks": 1, "burdened": 0}, "ranks must be at least 2"),
        ({"ranks": 2, "batch": 3, "burdened": 0}, "batch must be a multiple of 2 ranks, not 3"),
        ({"ranks": 2, "burdened": 2}, "burdened must be one of the ranks 0 to 1, not 2"),
        ({"ranks": 2, "model": "gtp", "burdened": 0}, "name must be one of mlp, cnn, gpt"),
    ):
        with pytest.raises(ValueError, match=said):
            record_steps(**wrong)
    with pytest.raises(ValueError, match="at least one"):
        typical([])
