"""Timelines made up by hand, of which every share, wait and arrow is known in closed form."""

import json
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.distributed.recording.made_tracks import Made, made_timeline
from tests.perf.trace_events import events_of
from tinytorch.perf.distributed.recording.blocked_time import Shares
from tinytorch.perf.distributed.recording.clocks import Clocks, Reading
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.timeline_trace import timeline_trace
from tinytorch.perf.distributed.recording.tracks import on_rank_0
from tinytorch.perf.measuring.codec import from_json, to_json

NANO = 1e-9


def parts_of(shares: Shares) -> Counter[str]:
    """Return the parts of a rank's time in ns."""
    times = {each.name.removesuffix("_seconds"): getattr(shares, each.name) for each in fields(shares)[1:-1]}
    return Counter({name: round(seconds / NANO) for name, seconds in times.items()})


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
    early, late = map(parts_of, timeline.shares())
    assert early == Counter(computing=100, waiting=150, moving=50, between=20)
    assert late == Counter(computing=245, moving=50, between=25)
    (straggler,) = timeline.stragglers()
    assert straggler.rank == 1
    assert straggler.cost_seconds == pytest.approx(150 * NANO)
    assert straggler.share == pytest.approx(150 / 320)
    assert [(str(doing), round(doing.seconds / NANO)) for doing in straggler.excess] == [
        ("matmul backward in GPT.mlp", 200),
        ("add", 45),
        ("between ops", 5),
    ]
    (delay,) = straggler.delays
    assert delay.kind == "all_reduce"
    assert delay.waited == {0: pytest.approx(150 * NANO)}


def test_a_wait_within_the_error_of_the_clocks_names_nobody() -> None:
    assert len(made_timeline(blocking(), error=149).stragglers()) == 1
    doubtful = made_timeline(blocking(), error=151)
    assert doubtful.stragglers() == []
    assert [delay.certain for delay in doubtful.delays()] == [False]
    assert doubtful.error_seconds == pytest.approx(151 * NANO)


def test_what_is_in_flight_while_a_rank_computes_is_hidden() -> None:
    timeline = made_timeline(begun())
    first, second = map(parts_of, timeline.shares())
    # Rank 1 computes from 204 to 220; from 200 to 204 it asks.
    assert first == Counter(computing=90, moving=70, unserved=16, between=140, hidden_waiting=40, hidden_moving=50)
    assert second == Counter(computing=56, moving=54, between=150, hidden_moving=56)
    assert [call.flight for call in timeline.matched_calls[0].calls] == [(110, 260), (160, 260)]
    (delay,) = timeline.delays()
    assert delay.rank == 1
    assert delay.waited == {0: pytest.approx(16 * NANO)}


def test_a_poll_that_finds_a_call_complete_ends_its_flight() -> None:
    ranks = begun()
    second = ranks[1]
    second.comm_info[2] = second.comm_info[4]
    parts = parts_of(made_timeline(ranks).shares()[1])
    assert parts["hidden_waiting"] + parts["hidden_moving"] == 40


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
    shares = timeline.shares()
    assert [parts_of(one)["waiting"] for one in shares] == [0, 40]
    assert parts_of(shares[1])["unserved"] == 20, "from 130 to 150, while the sender is in no call"
    arrows = [e for e in timeline_trace(timeline.tracks, timeline.matched_calls)["traceEvents"] if e["ph"] in "sf"]
    assert [(e["ph"], e["pid"], e["ts"]) for e in arrows] == [
        ("s", 1, 0.05),
        ("f", 2, 0.05),
        ("s", 1, 0.1),
        ("f", 2, 0.13),
    ]


def test_a_broadcast_waits_for_its_root_alone() -> None:
    ranks = [Made(rank, 120, size=3) for rank in range(3)]
    ranks[0].say("broadcast", 0, 100, 1, 1, root=1)
    ranks[1].say("broadcast", 60, 80, 1, 1, root=1)
    ranks[2].say("broadcast", 90, 100, 1, 1, root=1)
    timeline = made_timeline(ranks)
    assert [parts_of(one)["waiting"] for one in timeline.shares()] == [60, 0, 0]
    assert [straggler.rank for straggler in timeline.stragglers()] == [1]
    assert made_timeline(ranks, error=7).error_seconds == pytest.approx(14 * NANO), "the clocks of ranks 1 and 2"


def test_what_began_before_the_recording_is_told_and_not_guessed() -> None:
    ranks = [Made(rank, 100) for rank in range(2)]
    for made in ranks:
        made.op("matmul", 0, 30)
        made.say("wait", 30, 90 - made.rank, -1, 7)
    timeline = made_timeline(ranks)
    assert [matched.whole for matched in timeline.matched_calls] == [False]
    assert parts_of(timeline.shares()[0]) == Counter(computing=30, moving=60, between=10)


def test_what_is_no_timeline_is_refused() -> None:
    twice = [Made(rank, 100) for rank in range(2)]
    for made in twice:
        made.say("barrier", 0, 1, 1, 1)
        made.say("barrier", 2, 3, 2, 1)
    with pytest.raises(ValueError, match="collective"):
        made_timeline(twice).shares()
    with pytest.raises(ValueError, match="order"):
        made_timeline([Made(1, 10)])
    timeline = made_timeline(blocking())
    with pytest.raises(ValueError, match="clocks"):
        Timeline(timeline.tracks, Clocks(timeline.clocks.readings[:1]), oversubscribed=False)


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
        for rank in range(ranks):
            made[rank].op("matmul", now[rank], now[rank] + lengths[rank])
            now[rank] += lengths[rank] + 1
        arrivals = list(now)
        if not blocks:
            for rank in range(ranks):
                made[rank].say("begin_all_reduce", now[rank], now[rank] + 3, number, number, size=size)
                made[rank].op("add", now[rank] + 3, now[rank] + 3 + lengths[rank + 3])
                now[rank] += 4 + lengths[rank + 3]
        for rank in range(ranks):
            end = max(now[rank], max(arrivals)) + 5
            name = "all_reduce" if blocks else "wait"
            made[rank].say(name, now[rank], end, number, number, size=size)
            now[rank] = end
    for rank in range(ranks):
        made[rank].end = now[rank] + rank
    return made


@given(st.integers(2, 3), STEPS, st.lists(st.integers(-(10**15), 10**15), min_size=3, max_size=3))
def test_parts_make_up_the_time_whatever_the_clocks_show(ranks: int, steps: Any, shifts: list[int]) -> None:
    made = run(ranks, steps)
    timeline = made_timeline(made)
    shares = timeline.shares()
    for one, each in zip(made, shares, strict=True):
        parts = parts_of(each)
        assert parts["computing"] + parts["waiting"] + parts["moving"] + parts["between"] == one.end
        assert parts["computing"] == sum(event.total_ns for event in one.events if event.op in ("matmul", "add"))
        assert 0 <= parts["unserved"] <= parts["moving"]
        hideable = [event.total_ns for event in one.events if event.op == "add"]
        small = [size < 1024 for blocks, size, _ in steps if not blocks]
        hidden = parts["hidden_waiting"] + parts["hidden_moving"]
        assert hidden == sum(ns for ns, tiny in zip(hideable, small, strict=True) if not tiny)
    still = sum(each.waiting_seconds + each.unserved_seconds for each in shares)
    assert sum(delay.cost_seconds for delay in timeline.delays()) == pytest.approx(still)
    assert sum(straggler.cost_seconds for straggler in timeline.stragglers()) == pytest.approx(still)

    shifted = Clocks(tuple((Reading(0, float(shift), 0.0),) for shift in shifts[:ranks]))
    tracks = tuple(on_rank_0(track, shifted) for track in timeline.tracks)
    back = Clocks(tuple((Reading(0, float(-shift), 0.0),) for shift in shifts[:ranks]))
    moved = Timeline(tuple(on_rank_0(track, back) for track in tracks), timeline.clocks, oversubscribed=False)
    assert moved == timeline
    assert from_json(json.loads(json.dumps(to_json(timeline))), Timeline, "timeline") == timeline


def holds(slice_: dict[str, Any], when: float) -> bool:
    return bool(slice_["ts"] <= when <= slice_["ts"] + slice_["dur"])


def test_the_trace_has_a_process_for_each_rank_and_an_arrow_from_whom_it_waited_for(tmp_path: Path) -> None:
    timeline = made_timeline(blocking())
    events = events_of(timeline.export_chrome_trace(tmp_path / "trace.json"))
    assert [(e["ts"], e["dur"]) for e in events if e.get("cat") == "run"] == [(0.0, 0.32), (0.0, 0.32)]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {1: "rank 0 (host, process 100)", 2: "rank 1 (host, process 101)"}
    comm_info = [e for e in events if e.get("cat") == "communication"]
    assert [(e["name"], e["pid"], e["ts"], e["dur"]) for e in comm_info] == [
        ("all_reduce", 1, 0.1, 0.2),
        ("all_reduce", 2, 0.25, 0.05),
    ]
    assert [(e["args"]["waiting (us)"], e["args"]["sequence"]) for e in comm_info] == [(0.15, 1), (0.0, 1)]
    (tail,) = [e for e in events if e["ph"] == "s"]
    (head,) = [e for e in events if e["ph"] == "f"]
    assert (tail["pid"], head["pid"]) == (2, 1)
    assert tail["id"] == head["id"]
    assert tail["ts"] <= head["ts"]
    assert holds(comm_info[1], tail["ts"])
    assert holds(comm_info[0], head["ts"])


@given(st.integers(2, 3), STEPS)
def test_every_arrow_and_flight_of_a_trace_has_two_ends(ranks: int, steps: Any) -> None:
    made = run(ranks, steps)
    timeline = made_timeline(made)
    events = timeline_trace(timeline.tracks, timeline.matched_calls)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    for first, second in (("s", "f"), ("b", "e")):
        starts = {e["id"]: e for e in events if e["ph"] == first}
        ends = {e["id"]: e for e in events if e["ph"] == second}
        assert starts.keys() == ends.keys()
        assert all(starts[number]["ts"] <= ends[number]["ts"] for number in starts)
        asked = (ranks - 1) * len(steps) if first == "s" else ranks * sum(not blocks for blocks, _, _ in steps)
        assert len(starts) == asked
    for arrow in (e for e in events if e["ph"] in "sf"):
        assert any(holds(s, arrow["ts"]) for s in slices if s["pid"] == arrow["pid"] and s["cat"] == "communication")
    ops = [e for e in slices if e["cat"] in ("communication", "forward", "backward")]
    assert [e["dur"] for e in ops] == [event.total_ns / 1e3 for one in made for event in one.events]
    np.testing.assert_allclose([e["ts"] for e in ops], [event.start / 1e3 for one in made for event in one.events])
