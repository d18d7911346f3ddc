"""Recordings of real ranks: every call finds its partners, clocks agree, and who does more work is named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.distributed.recording import recording_programs
from tests.perf.distributed.recording.test_timeline import events_of, holds
from tinytorch.chapters.distributed import step_recording
from tinytorch.chapters.distributed.step_recording import record_steps, shares_over, typical
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording.clocks import Clocks, Reading, align
from tinytorch.perf.distributed.recording.timeline import RankRecording, Timeline
from tinytorch.perf.host.blas import limited_blas_threads

WHOLE = 8 * 2 * 2


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace") / "trace.json"


@pytest.fixture(scope="module")
def found(trace: Path) -> dict[str, Any]:
    """Return what rank 0 recorded, of one launch for all tests."""
    return launch(recording_programs.all_recordings, 2, {"trace": str(trace)}, threads=1)[0]


def test_processes_of_one_machine_have_one_clock_and_the_error_holds_it(found: Mapping[str, Any]) -> None:
    (zero, one) = found["clocks"]["true"]
    assert zero == [0, 0]
    assert abs(one[0]) <= one[1], "both read the clock of the machine"


def test_a_clock_that_is_ahead_and_fast_is_set_right(found: Mapping[str, Any]) -> None:
    read = found["clocks"]
    ahead, faster = recording_programs.AHEAD, recording_programs.FASTER * 1e-6
    for told, shown, error in zip(read["told"], read["shown"], read["errors"], strict=True):
        assert abs(told - (shown - ahead) / (1 + faster)) <= error * (1 + faster) + 1
    rate, error = read["drift"]
    assert abs(rate + faster / (1 + faster)) <= error


def test_the_rank_that_does_more_work_is_named_with_it(found: Mapping[str, Any]) -> None:
    timeline = Timeline.from_json(found["straggler"])
    straggler = timeline.stragglers()[0]
    assert straggler.rank == 1
    assert str(straggler.mostly) == str(straggler.most_excess) == "matmul in Burden"
    assert straggler.worst.kind == "all_reduce"
    for matched in timeline.matched_calls:
        zero, one = (call.parts[0].event for call in matched.calls)
        waits = {call.rank: matched.waiting(call, call.parts[0]) for call in matched.calls}
        late = int(one.start > zero.start)
        apart = abs(one.start - zero.start)
        assert waits[late] == 0
        assert waits[1 - late] == (apart if (zero, one)[1 - late].end >= (zero, one)[late].start else 0)
    rows = {row.kind: row for row in timeline.communication(0)}
    assert rows["all_reduce"].calls == rows["barrier"].calls == recording_programs.ROUNDS
    assert rows["all_reduce"].bytes == recording_programs.ROUNDS * 8 * 1024
    (products,) = [row for row in timeline.key_averages(1) if row.op == "matmul"]
    assert products.calls == recording_programs.ROUNDS * recording_programs.PRODUCTS
    assert [row.path for row in timeline.by_layer(1)] == ["Burden", ""]


def test_each_call_finds_its_partners(found: Mapping[str, Any]) -> None:
    timeline = Timeline.from_json(found["comm_info"])
    matched_calls = Counter(
        (matched.kind, matched.calls[0].info.group, len(matched.calls)) for matched in timeline.matched_calls
    )
    alone = {("all_reduce", f"world.1:{rank}", 1): 1 for rank in range(2)}
    assert matched_calls == {
        ("", "world", 2): 1,
        ("all_reduce", "world", 2): 1,
        ("all_reduce", "world.2", 2): 1,
        ("reduce_scatter", "world.2", 2): 1,
        ("broadcast", "world", 2): 1,
        ("message", "world", 2): 4,
        ("barrier", "world", 2): 1,
        **alone,
    }
    assert timeline.unmatched == 1, "what began before"
    for matched in timeline.matched_calls:
        assert len({call.bytes for call in matched.calls}) == 1, "what one sends the other receives"
    sizes = sorted(matched.calls[0].bytes for matched in timeline.matched_calls if matched.kind == "message")
    assert sizes == [8, 8, 16, 16]
    assert len({id(part.event) for m in timeline.matched_calls for call in m.calls for part in call.parts}) == sum(
        len(track.comm_info) for track in timeline.tracks
    )
    for shares in timeline.shares():
        parts = (shares.computing_seconds, shares.waiting_seconds, shares.moving_seconds, shares.between_seconds)
        assert sum(parts) == pytest.approx(shares.wall_seconds)
        assert shares.computing_seconds == 0


def test_the_trace_of_real_ranks_opens_and_its_arrows_land_on_calls(found: Mapping[str, Any], trace: Path) -> None:
    timeline = Timeline.from_json(found["comm_info"])
    events = events_of(trace)
    calls = [e for e in events if e.get("cat") == "communication"]
    assert len(calls) == sum(len(track.comm_info) for track in timeline.tracks)
    arrows = [e for e in events if e["ph"] in "sf"]
    assert arrows
    for arrow in arrows:
        assert any(call["pid"] == arrow["pid"] and holds(call, arrow["ts"]) for call in calls)


def test_steps_are_recorded_with_and_without_overlap(found: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def launched(program: Any, ranks: int, arguments: Mapping[str, Any], **how: Any) -> list[Any]:
        asked.update(arguments, program=program, ranks=ranks, **how)
        return [found["steps"], {}]

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
        assert {row.op for row in timeline.key_averages(1)} >= {"matmul", "linear", "cross_entropy"}
        assert timeline.unmatched == 0
    shares = shares_over(steps.overlapped)
    used = [sum(t.tracks[rank].cpu_ns for t in steps.overlapped) for rank in range(2)]
    took = [sum(t.tracks[rank].profile.wall_seconds for t in steps.overlapped) for rank in range(2)]
    least = min(cpu * 1e-9 / wall for cpu, wall in zip(used, took, strict=True))
    assert shares[0]["wall"].how["cpu_per_wall"] == pytest.approx(least, rel=0.01)
    assert least > 0
    assert shares[0]["wall"].how["blas_threads"] == limited_blas_threads(1)
    assert [len(parts["computing"].samples) for parts in shares] == [2, 2]
    for rank, parts in enumerate(shares):
        for index, timeline in enumerate(steps.overlapped):
            one = timeline.shares()[rank]
            assert parts["wall"].samples[index] == one.wall_seconds
            assert parts["exposed"].samples[index] == pytest.approx(
                (one.waiting_seconds + one.moving_seconds) / one.wall_seconds
            )
            assert 0 < parts["update"].samples[index] < parts["between"].samples[index]
    assert typical(steps.overlapped).wall_seconds == min(each.wall_seconds for each in steps.overlapped)


def test_wrong_recordings_are_refused() -> None:
    for wrong, said in (
        ({"ranks": 1}, "ranks must be at least 2"),
        ({"ranks": 2, "batch": 3}, "batch must be a multiple of 2 ranks, not 3"),
        ({"ranks": 2, "burdened": 2}, "burdened must be one of the ranks 0 to 1 or None, not 2"),
        ({"ranks": 2, "model": "gtp"}, "name must be one of mlp, cnn, gpt"),
    ):
        with pytest.raises(ValueError, match=said):
            record_steps(**wrong)
    for function in (typical, shares_over):
        with pytest.raises(ValueError, match="at least one"):
            function([])
    with pytest.raises(ValueError, match="trips must be at least 1"):
        align(None, trips=0)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="after the body of"):
        _ = RankRecording(None, Clocks(((Reading(0, 0.0, 0.0),),))).track  # type: ignore[arg-type]


def test_a_timeline_prints_its_tables_and_how_well_clocks_agree(
    found: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    timeline = Timeline.from_json(json.loads(json.dumps(found["straggler"])))
    timeline.print_shares()
    timeline.print_communication()
    timeline.print_stragglers()
    printed = capsys.readouterr().out
    assert "matmul in Burden" in printed
    assert printed.count("clocks of two ranks agree to") == 3
    assert "rank 1's clock drifts by" in printed
    assert np.isfinite(timeline.error_seconds)
