"""Recordings of real ranks: every call finds its partners, clocks agree, and who comes first waits."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.perf.distributed.recording import recording_programs
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording.clocks import Clocks, Reading
from tinytorch.perf.distributed.recording.timeline import RankRecording, Timeline
from tinytorch.perf.measuring.codec import from_json


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """Return what rank 0 recorded, of one launch for all tests."""
    return launch(recording_programs.all_recordings, 2, threads=1)[0]


def timeline_in(carried: Any) -> Timeline:
    return from_json(json.loads(carried), Timeline, "timeline")


def test_processes_of_one_machine_have_one_clock_and_the_error_holds_it(found: Mapping[str, Any]) -> None:
    (zero, one) = found["clocks"]["true"]
    assert zero == [0, 0]
    assert abs(one[0]) <= one[1], "both read the clock of the machine"


def test_a_clock_that_is_ahead_and_fast_is_set_right(found: Mapping[str, Any]) -> None:
    read = found["clocks"]
    ahead, faster = recording_programs.AHEAD, recording_programs.FASTER * 1e-6
    for told, shown, error in zip(read["told"], read["shown"], read["errors"], strict=True):
        assert abs(told - (shown - ahead) / (1 + faster)) <= error * (1 + faster) + 1


def test_a_rank_waits_for_as_long_as_the_other_comes_later(found: Mapping[str, Any]) -> None:
    timeline = timeline_in(found["rounds"])
    for matched in timeline.matched_calls:
        zero, one = (call.parts[0].event for call in matched.calls)
        waits = {call.rank: matched.waiting(call, call.parts[0]) for call in matched.calls}
        late = int(one.start > zero.start)
        apart = abs(one.start - zero.start)
        assert waits[late] == 0
        assert waits[1 - late] == (apart if (zero, one)[1 - late].end >= (zero, one)[late].start else 0)
    sizes = Counter((matched.kind, matched.calls[0].bytes) for matched in timeline.matched_calls)
    assert sizes == {("barrier", 0): recording_programs.ROUNDS, ("all_reduce", 8 * 1024): recording_programs.ROUNDS}


def test_each_call_finds_its_partners(found: Mapping[str, Any]) -> None:
    timeline = timeline_in(found["comm_info"])
    kinds = [(matched.kind, matched.calls[0].info.group, len(matched.calls)) for matched in timeline.matched_calls]
    groups = {"": 1, "all_reduce": 1, "broadcast": 1, "message": 4, "barrier": 1}
    assert Counter(kinds) == {
        **{(kind, "world", 2): count for kind, count in groups.items()},
        **{(kind, "world.2", 2): 1 for kind in ("all_reduce", "reduce_scatter")},
        **{("all_reduce", f"world.1:{rank}", 1): 1 for rank in range(2)},
    }
    assert sum(not matched.whole for matched in timeline.matched_calls) == 1, "what began before"
    for matched in timeline.matched_calls:
        assert len({call.bytes for call in matched.calls}) == 1, "what one sends the other receives"
    sizes = sorted(matched.calls[0].bytes for matched in timeline.matched_calls if matched.kind == "message")
    assert sizes == [8, 8, 16, 16]
    parts = {id(part.event) for matched in timeline.matched_calls for call in matched.calls for part in call.parts}
    assert len(parts) == sum(len(track.comm_info) for track in timeline.tracks)


def test_a_recording_that_has_not_ended_is_not_gathered() -> None:
    with pytest.raises(RuntimeError, match="after"):
        RankRecording(None, Clocks(((Reading(0, 0.0, 0.0),),))).gather()  # type: ignore[arg-type]
