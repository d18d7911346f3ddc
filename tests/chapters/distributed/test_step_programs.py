"""Steps of the zoo on ranks: weighed, compared and recorded in one launch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.chapters.distributed import step_measuring
from tinytorch import models
from tinytorch.chapters.distributed import step_recording, studies
from tinytorch.chapters.distributed.step_programs import differing, owned_bytes
from tinytorch.chapters.distributed.step_recording import named, record_steps, sent_early, typical
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording.stragglers import Straggler
from tinytorch.perf.measuring import Unmeasured

Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def told() -> Told:
    return launch(step_measuring.measure, 2, threads=1, pinned=True)


@pytest.fixture
def asked(told: Told, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let studies get what was told instead of starting ranks; return what they ask for."""
    found: dict[str, Any] = {}

    def launched(program: Any, ranks: int, arguments: Mapping[str, Any], **how: Any) -> Told:
        found.update(arguments, program=program, ranks=ranks, **how)
        return told

    monkeypatch.setattr(studies, "launch", launched)
    monkeypatch.setattr(step_recording, "launch", launched)
    return found


def test_a_rank_keeps_its_shard_of_the_state_and_no_gradients(told: Told) -> None:
    parameters = sum(4 * parameter.size for parameter in models.mlp().parameters())
    for one in told:
        whole, sharded = one["whole"], one["sharded"]
        assert whole["parameters"] == parameters
        for name, size in (("gradients", parameters), ("optimizer_state", 2 * parameters)):
            assert size <= whole[name] < 1.01 * size  # buckets are padded
        assert parameters <= sharded["parameters"] < 1.01 * parameters
        assert sharded["gradients"] == 0
        assert parameters <= sharded["optimizer_state"] < 1.01 * parameters


def test_memory_is_that_of_the_fullest_rank() -> None:
    ranks = [{"parameters": 1000, "gradients": 0, "optimizer_state": state} for state in (504, 500)]
    fullest = studies.RankMemory.fullest(ranks)
    assert (fullest.optimizer_state.value, fullest.kept.value) == (504, 1504)
    whole = studies.RankMemory.fullest([{"parameters": 1000, "gradients": 1000, "optimizer_state": 2000}])
    assert studies.Trained(whole, fullest, ()).ratio.value == pytest.approx(1504 / 4000)


def test_memory_that_several_arrays_look_into_counts_once_and_whole() -> None:
    whole, other = np.zeros(10, np.float32), np.zeros(3)
    assert owned_bytes([whole[2:4], whole[5:].reshape(5, 1), other, other]) == 40 + 24
    assert owned_bytes([]) == 0


def test_steps_are_recorded_with_and_without_overlap(asked: dict[str, Any]) -> None:
    steps = record_steps(2, model="mlp", batch=8, steps=2, burdened=1, products=1)
    assert (asked["program"], asked["threads"], asked["pinned"]) == (step_recording.record_on_rank, 1, True)
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
    assert 0 < sent_early(steps.overlapped).value <= 1
    assert sent_early(steps.afterwards).value == 0


def test_the_straggler_is_the_burdened_rank_or_another_or_none() -> None:
    for rank, said in ((1, "the burdened one"), (0, "another one")):
        found = named([Straggler(rank, 0.01, ())], 1)
        assert not isinstance(found, Unmeasured)
        assert (found.rank.value, found.said) == (rank, said)
    assert isinstance(named([], 1), Unmeasured)


def test_sums_of_two_are_exact_and_all_ranks_get_the_same(asked: dict[str, Any]) -> None:
    rows = {name: f"the {name}" for name in ("pair", "ring", "whole", "ranks", "sharded")}
    found = studies.trained("mlp", 7, 2, rows)
    assert (asked["ranks"], asked["batch"]) == (2, 7)
    assert [one.what for one in found.bits] == [*rows.values()]
    assert [one.differ.value for one in found.bits[:4]] == [0, 0, 0, 0], "two ranks know one order alone"
    assert found.bits[4].numbers.value == sum(parameter.size for parameter in models.mlp().parameters())
    assert found.bits[4].largest.value < 1e-5
    assert found.ratio.value < 1
    with pytest.raises(ValueError, match="ranks must be at least 2"):
        studies.trained("mlp", 8, 1, rows)


def test_differences_are_counted_and_weighed_by_the_largest_number() -> None:
    one, other = np.array([1, 2, -4], np.float32), np.array([1, 3, -4], np.float32)
    assert differing(one, other) == [3, 1, 0.25]
