"""Recordings: waits of made calls are those of the closed form, and those of real ranks those of their events."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.perf.distributed import programs
from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.recording import RankCall, RankRecording, Timeline, recorded


def call(
    arrival: int, *blocked: tuple[int, int], sequence: int = 1, size: int = 2, root: bool = False, kind: str = "all"
) -> RankCall:
    return RankCall(("world", sequence), kind, size, root, arrival, list(blocked))


@pytest.mark.parametrize(
    ("ranks", "found"),
    [
        # Rank 1 comes 150 ns late.
        (([call(100, (100, 300))], [call(250, (250, 300))]), [(1, {0: 150})]),
        # A call that was begun blocks only while the rank waits for it.
        (([call(100, (200, 260))], [call(240, (250, 260))]), [(1, {0: 40})]),
        # A message that is on its way before its receiver comes; one whose receiver comes first.
        (([call(50, (50, 60))], [call(90, (90, 100))]), []),
        (([call(100, (150, 160))], [call(10, (10, 170))]), [(0, {1: 90})]),
        # A broadcast waits for its root alone, and its root for nobody.
        (
            ([call(0, (0, 100), size=3)], [call(60, (60, 80), size=3, root=True)], [call(90, (90, 100), size=3)]),
            [(1, {0: 60})],
        ),
        # One rank's call began before the recording.
        (([], [call(10, (10, 20))]), []),
        # The costliest comes first; each collective has a rank of its own that is late.
        (
            ([call(0, (0, 30)), call(40, (40, 90), sequence=2)], [call(20, (20, 30)), call(80, (80, 90), sequence=2)]),
            [(1, {0: 40}), (1, {0: 20})],
        ),
    ],
)
def test_who_comes_first_waits_for_who_comes_last(
    ranks: tuple[list[RankCall], ...], found: list[tuple[int, dict[int, int]]]
) -> None:
    timeline = Timeline((), tuple(map(tuple, ranks)))
    delays = [(one.rank, {rank: round(s * 1e9) for rank, s in one.waited.items()}) for one in timeline.delays()]
    assert delays == found
    whole = sum(sum(waited.values()) for _, waited in found)
    assert sum(timeline.stragglers().values()) == pytest.approx(whole * 1e-9)


def test_the_straggler_that_cost_most_is_the_first() -> None:
    zero = [call(0, (0, 9)), call(300, (300, 310), sequence=2), call(320, (320, 390), sequence=3)]
    one = [call(8, (8, 9)), call(200, (200, 310), sequence=2), call(380, (380, 390), sequence=3)]
    found = Timeline((), (tuple(zero), tuple(one))).stragglers()
    assert [*found] == [0, 1]
    assert [*found.values()] == pytest.approx([100e-9, 68e-9])


def test_two_groups_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"collective 1 of group 'world' twice.*Communicator\.duplicate"):
        Timeline((), ((call(0), call(5)), (call(0), call(5)))).delays()


def test_a_rank_waits_for_as_long_as_the_other_comes_later() -> None:
    found = launch(programs.record_rounds, 2, threads=1)[0]
    zero, one = found["events"]
    assert [op for op, _, _ in zero] == [op for op, _, _ in one] == ["barrier", "all_reduce"] * programs.ROUNDS
    expected: list[list[Any]] = []
    for pair in zip(zero, one, strict=True):
        (op, *_), starts, ends = pair[0], [start for _, start, _ in pair], [end for _, _, end in pair]
        early = int(starts[1] < starts[0])
        apart = starts[1 - early] - starts[early]
        if 0 < apart <= ends[early] - starts[early]:
            expected.append([1 - early, op, [[early, pytest.approx(apart * 1e-9)]]])
    assert len(found["delays"]) == len(expected)
    assert all(delay in expected for delay in found["delays"])
    assert {*found["stragglers"]} == {late for late, *_ in expected}


def test_each_call_is_told_by_what_all_its_ranks_know() -> None:
    shared = [  # behind the barrier of the launch and the call that began before the recording
        [["world", 3], "all_reduce", 2, 1],
        [["world.2", 1], "all_reduce", 2, 1],
        [["world.2", 2], "reduce_scatter", 2, 1],
        [["world", 4], "broadcast", 2, 1],
    ]
    messages = [[["world", *ends, 0, number], "message", 2, 1] for ends in ((0, 1), (1, 0)) for number in (1, 2)]
    for rank, calls in enumerate(launch(programs.record_talks, 2, threads=1)[0]["calls"]):
        own = [[f"world.1:{rank}", 1], "all_reduce", 1, 1]
        assert sorted(calls) == sorted([*shared, own, *messages])


def test_ranks_unpickle_nothing_and_what_is_gathered_is_what_was_recorded() -> None:
    for rank, found in enumerate(launch(programs.unpickle_nothing, 2, threads=1)):
        assert found["exchanged"] == ["", "ä"]
        assert (found["gathered"], found["same"]) == ((None, None) if rank else ([0, 1], True))
        assert found["few"] == 6
        assert [differ for _, differ, _ in found["bits"].values()] == [0, 0, 0]


def test_what_has_not_ended_is_not_gathered_and_hosts_have_clocks_of_their_own() -> None:
    with pytest.raises(RuntimeError, match="after the body"):
        RankRecording(SimpleNamespace(), []).gather()  # type: ignore[arg-type]
    places = [Place(rank, f"host {rank}", rank, (0,)) for rank in range(2)]
    group: Any = SimpleNamespace(places=places)
    with pytest.raises(ValueError, match=r"one host.*'host 0', 'host 1'"), recorded(group):
        pass
