"""Timelines made up by hand, of which every wait is known in closed form."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.distributed.recording.made_tracks import Made, made_timeline
from tinytorch.perf.distributed.recording.clocks import Clocks, Reading
from tinytorch.perf.distributed.recording.intervals import length
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.tracks import on_rank_0
from tinytorch.perf.measuring.codec import from_json, to_json

NANO = 1e-9


def still(timeline: Timeline) -> list[tuple[int, int]]:
    """Return the ns that each rank waited in calls and was not served."""
    own = [[each for each in timeline.blocked_times if each.rank == track.rank] for track in timeline.tracks]
    return [(sum(length(each.waiting) for each in of), sum(length(each.unserved) for each in of)) for of in own]


def blocking() -> list[Made]:
    """Rank 1 comes 150 ns late to an all-reduce, for a product."""
    early, late = Made(0, 320), Made(1, 320)
    early.op("matmul", 0, 100)
    early.say("all_reduce", 100, 300, 1, 1)
    late.op("matmul", 0, 200, "backward", "GPT.mlp")
    late.op("add", 200, 245)
    late.say("all_reduce", 250, 300, 1, 1)
    return [early, late]


def begun() -> list[Made]:
    """Both begin a call and compute on; rank 0 waits for it while rank 1 still computes."""
    first, second = Made(0, 300), Made(1, 260)
    first.say("begin_all_reduce", 100, 110, 1, 1)
    first.op("matmul", 110, 200)
    first.say("wait", 200, 260, 1, 1)
    second.say("begin_all_reduce", 150, 160, 1, 1)
    second.op("matmul", 160, 200)
    second.say("poll", 200, 204, 1, 1)
    second.op("matmul", 204, 220)
    second.say("wait", 220, 260, 1, 1)
    return [first, second]


def test_a_late_rank_is_waited_for_and_named_with_what_it_did() -> None:
    timeline = made_timeline(blocking())
    assert still(timeline) == [(150, 0), (0, 0)]
    (straggler,) = timeline.stragglers()
    assert straggler.rank == 1
    assert straggler.cost_seconds == pytest.approx(150 * NANO)
    (delay,) = straggler.delays
    assert delay.kind == "all_reduce"
    assert delay.waited == {0: pytest.approx(150 * NANO)}


def test_a_wait_within_the_error_of_the_clocks_names_nobody() -> None:
    assert len(made_timeline(blocking(), error=149).stragglers()) == 1
    doubtful = made_timeline(blocking(), error=151)
    assert doubtful.stragglers() == []
    assert [delay.certain for delay in doubtful.delays()] == [False]


def test_a_rank_that_computes_on_serves_nobody() -> None:
    timeline = made_timeline(begun())
    # Rank 1 computes from 204 to 220; from 200 to 204 it asks.
    assert still(timeline) == [(0, 16), (0, 0)]
    assert [call.flight for call in timeline.matched_calls[0].calls] == [(110, 260), (160, 260)]
    (delay,) = timeline.delays()
    assert delay.rank == 1
    assert delay.waited == {0: pytest.approx(16 * NANO)}


def test_a_receiver_waits_for_its_sender_and_messages_keep_their_order() -> None:
    sender, receiver = Made(0, 200), Made(1, 200)
    sender.say("send", 50, 60, 1, peer=1)
    sender.say("begin_send", 100, 104, 2, peer=1)
    sender.say("wait", 150, 160, 2)
    receiver.say("receive", 10, 70, 1, peer=0)
    receiver.say("receive", 130, 170, 2, peer=0)
    timeline = made_timeline([sender, receiver])
    assert [matched.kind for matched in timeline.matched_calls] == ["message", "message"]
    assert all(matched.whole for matched in timeline.matched_calls)
    assert still(timeline) == [(0, 0), (40, 20)], "not served from 130 to 150, while the sender is in no call"


def test_a_broadcast_waits_for_its_root_alone() -> None:
    ranks = [Made(rank, 120, size=3) for rank in range(3)]
    ranks[0].say("broadcast", 0, 100, 1, 1, root=1)
    ranks[1].say("broadcast", 60, 80, 1, 1, root=1)
    ranks[2].say("broadcast", 90, 100, 1, 1, root=1)
    timeline = made_timeline(ranks)
    assert still(timeline)[0][0] == 60
    assert [straggler.rank for straggler in timeline.stragglers()] == [1]


def test_what_began_before_the_recording_is_told_and_not_guessed() -> None:
    ranks = [Made(rank, 100) for rank in range(2)]
    for made in ranks:
        made.op("matmul", 0, 30)
        made.say("wait", 30, 90 - made.rank, -1, 7)
    timeline = made_timeline(ranks)
    assert [matched.whole for matched in timeline.matched_calls] == [False]
    assert still(timeline) == [(0, 0), (0, 0)]


def test_what_is_no_timeline_is_refused() -> None:
    twice = [Made(rank, 100) for rank in range(2)]
    for made in twice:
        made.say("barrier", 0, 1, 1, 1)
        made.say("barrier", 2, 3, 2, 1)
    with pytest.raises(ValueError, match="collective"):
        _ = made_timeline(twice).matched_calls
    with pytest.raises(ValueError, match="order"):
        made_timeline([Made(1, 10)])
    timeline = made_timeline(blocking())
    with pytest.raises(ValueError, match="clocks"):
        Timeline(timeline.tracks, Clocks(timeline.clocks.readings[:1]))


#: Of each collective: whether it blocks, bytes, and for each rank how long it computes before and after it begins.
STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([8, 4096]), st.lists(st.integers(1, 90), min_size=6, max_size=6)),
    min_size=1,
    max_size=5,
)


def run(ranks: int, steps: list[tuple[bool, int, list[int]]]) -> list[Made]:
    """Return ranks that compute and talk in turns; a collective ends on all ranks 5 ns after the last came to it."""
    made = [Made(rank, 0, size=ranks) for rank in range(ranks)]
    now = [0] * ranks
    for number, (blocks, size, lengths) in enumerate(steps, start=1):
        arrivals = [now[rank] + lengths[rank] + 1 for rank in range(ranks)]
        for rank, (one, start) in enumerate(zip(made, arrivals, strict=True)):
            one.op("matmul", now[rank], start - 1)
            if not blocks:
                one.say("begin_all_reduce", start, start + 3, number, number, size=size)
                one.op("add", start + 3, start + 3 + lengths[rank + 3])
                start += 4 + lengths[rank + 3]
            now[rank] = max(start, *arrivals) + 5
            one.say("all_reduce" if blocks else "wait", start, now[rank], number, number, size=size)
    for rank in range(ranks):
        made[rank].end = now[rank] + rank
    return made


@given(st.integers(2, 3), STEPS, st.lists(st.integers(-(10**15), 10**15), min_size=3, max_size=3))
def test_each_wait_costs_whom_it_was_for_whatever_the_clocks_show(ranks: int, steps: Any, shifts: list[int]) -> None:
    made = run(ranks, steps)
    timeline = made_timeline(made)
    waits = sum(sum(each) for each in still(timeline)) * NANO
    assert sum(delay.cost_seconds for delay in timeline.delays()) == pytest.approx(waits)
    assert sum(straggler.cost_seconds for straggler in timeline.stragglers()) == pytest.approx(waits)

    shifted = Clocks(tuple((Reading(0, float(shift), 0.0),) for shift in shifts[:ranks]))
    tracks = tuple(on_rank_0(track, shifted) for track in timeline.tracks)
    back = Clocks(tuple((Reading(0, float(-shift), 0.0),) for shift in shifts[:ranks]))
    moved = Timeline(tuple(on_rank_0(track, back) for track in tracks), timeline.clocks)
    assert moved == timeline
    assert from_json(json.loads(json.dumps(to_json(timeline))), Timeline, "timeline") == timeline
