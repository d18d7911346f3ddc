"""Ranks: what they say to one another, how a run ends in which one fails, and recordings, whose waits are known."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from tests.perf.distributed import failing_programs, programs
from tinytorch.perf.distributed.ranks import collective_ops, communicator
from tinytorch.perf.distributed.ranks import launch as launching
from tinytorch.perf.distributed.ranks.collective_ops import MPIMissingError, load_mpi
from tinytorch.perf.distributed.ranks.communicator import Activity, Place
from tinytorch.perf.distributed.ranks.launch import RankError, launch, mpiexec
from tinytorch.perf.distributed.ranks.watch import RankState, Watch, blame, write_state
from tinytorch.perf.distributed.recording import RankCall, RankRecording, Timeline, recorded
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, usable_cores

RANKS = 3
WHOLE = 8 * 2 * RANKS
#: Op, bytes of the message, and additions of a rank at least.
EVENTS = [
    *[("all_reduce", WHOLE, 4)] * 2,
    *[("begin_all_reduce", WHOLE, 4), ("wait", 0, 0)],
    *[("begin_reduce_scatter", WHOLE, 4), ("wait", 0, 0)],
    *[("begin_all_gather", RANKS * WHOLE, 0), ("wait", 0, 0)] * 2,
    ("broadcast", 8, 0),
]


def test_each_call_gives_what_its_name_says_and_is_an_event_with_its_bytes() -> None:
    found = launch(programs.talks, RANKS, threads=1)
    rows = np.array([np.arange(2.0 * RANKS) + rank for rank in range(RANKS)])
    for rank, one in enumerate(found):
        for name in ("all_reduce", "all_reduce in place", "begun all_reduce"):
            np.testing.assert_array_equal(one[name], rows.sum(axis=0), err_msg=name)
        np.testing.assert_array_equal(one["begun reduce_scatter"], rows.sum(axis=0).reshape(RANKS, 2)[rank])
        for name in ("begun all_gather", "all_gather in place"):
            np.testing.assert_array_equal(one[name], rows, err_msg=name)
        assert one["broadcast"] == RANKS - 1
        before = (rank - 1) % RANKS
        assert one["around"].dtype == np.int16
        np.testing.assert_array_equal(one["around"], np.full((before + 1, 2, 1), before))
        around = [["begin_send", 4 * (rank + 1), 0], ["receive", 4 * (before + 1), 0], ["wait", 0, 0]]
        assert one["events"] == [*map(list, EVENTS), *around, ["barrier", 0, 0]]
        assert one["exchange"] == [{"rank": other, "text": "ä" * other} for other in range(RANKS)]
        assert one["groups"] == ["world.1", 2 if rank % 2 == 0 else 1, "world"]
        assert one["oversubscribed"] == (len(usable_cores()) < RANKS)


def test_ranks_are_kept_on_a_core_each_only_where_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = allowed_cores()
    found = [one["cores"] for one in launch(programs.cores, 2, threads=1, pinned=True)]
    assert found == ([[allowed[rank % len(allowed)]] for rank in range(2)] if may_pin() else [allowed] * 2)
    monkeypatch.setattr(launching, "may_pin", lambda: False)
    assert [one["cores"] for one in launch(programs.cores, 2, threads=1, pinned=True)] == [allowed] * 2


def test_wrong_calls_are_refused_on_every_rank() -> None:
    words = {
        "dtype": "i1, u1", "truth": "uint8", "truth, begun": "uint8", "truth, scattered": "uint8",
        "byte order": ">f4", "room": "float64", "overlap": "overlap", "part": "(3,)",
        "axis": "array[None]", "root": "root", "self": "another rank", "order": "C order", "axes": "8 axes",
        "shapes": "shape of weight", "settings": "bucket_bytes", "rates": "lr",
    }  # fmt: skip
    for one in launch(programs.refusals, 2, threads=1):
        assert one.keys() == words.keys()
        assert [name for name, word in words.items() if word not in one[name]] == []
        assert "[[4, 2], 'float32'] on rank 0 (" in one["shapes"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        *[(call, what) for call in ("all_reduce", "broadcast") for what in ("length", "shape", "dtype")],
        *[(f"begin_{call}", "dtype") for call in ("all_reduce", "reduce_scatter", "all_gather")],
        ("begin_all_gather", "length"),
        ("broadcast", "root"),
        ("all_reduce", "call"),
    ],
)
def test_ranks_that_give_different_arrays_are_refused_by_name(call: str, what: str) -> None:
    """Each says what the rank before it gives, and what it gives itself."""
    differ = {
        "dtype": ("float32", "int32"),
        "length": ("(4,)", "(6,)"),
        "shape": ("(4,)", "(2, 2)"),
        "root": ("root 0", "root 1"),
        "call": ("all_reduce", "broadcast"),
    }
    for one in launch(programs.disagreement, 2, {"call": call, "what": what}, threads=1):
        assert [word for word in ("rank 0 (", "rank 1 (", *differ[what]) if word not in one["told"]] == []


def test_without_mpi_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    load_mpi.cache_clear()
    with pytest.raises(MPIMissingError, match="install"):
        collective_ops.load_mpi()


def runs(process: int) -> bool:
    """Return whether there is such a process, and it is more than an entry that nobody has asked for yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def error_of(how: str, **options: Any) -> RankError:
    """Return how a run ended in which rank 1 stops in some way, once all ranks have that it names."""
    with pytest.raises(RankError) as caught:
        launch(programs.fails, 2, {"rank": 1, "how": how}, threads=1, **options)
    processes = [int(process) for process in re.findall(r"process (\d+)", str(caught.value))]
    while any(map(runs, processes)):  # a killed one may be on its way out for seconds on a busy machine
        time.sleep(0.05)
    return caught.value


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", r"rank 1 \(.*\) failed with ZeroDivisionError: no reason; .*last op was all_reduce \(forward\)"),
        ("die", r"rank 1 \(.*\) died of SIGKILL; .* last op was all_reduce \(forward\)"),
    ],
)
def test_a_rank_that_fails_or_dies_ends_the_run_by_its_name(how: str, told: str) -> None:
    error = error_of(how)
    assert re.search(told, str(error))
    assert ("no reason" in error.trace) == (how == "raise")


@pytest.mark.parametrize("how", ["hang", "stop", "leave"])
def test_a_rank_for_which_others_wait_in_vain_ends_the_run(how: str) -> None:
    """The watch ends it and not the clock of the whole run; a busy machine may let it find another one at fault."""
    assert re.match(r"rank \d \(|all ranks wait", str(error_of(how, longest_wait=2.0)))


def test_a_run_that_takes_too_long_is_killed_and_says_what_each_rank_did(tmp_path: Path) -> None:
    assert "did not end within 0.1 s and was killed" in str(error_of("hang", timeout=0.1))
    for each in (state(0, "all_reduce"), state(1)):
        write_state(tmp_path, each)
    told = str(launching._error(tmp_path, None, "", 3))
    assert re.search(r"rank 0 \(.*\): it is in all_reduce, call 3; .*; rank 1 \(.*\): it is between calls", told)


def state(
    rank: int, talking: str = "", unchanged: float = 0.0, calls: int = 3, finished: bool = False, silent: float = 0.0
) -> RankState:
    name = f"rank {rank} (host, process {100 + rank})"
    return RankState(rank, 100 + rank, name, talking, calls, "linear (forward) of 0", unchanged, finished, silent)


WAITING = state(0, "all_reduce", unchanged=9)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ([WAITING, state(1, unchanged=0.1)], "^$"),
        (
            [WAITING, state(1, unchanged=9, calls=2), state(2, unchanged=9, calls=4)],
            r"rank 1 \(host, process 101\) keeps the others waiting: .*all_reduce, call 3, for 9.0 s.* of 0$",
        ),
        ([WAITING, state(1, finished=True, silent=50)], "its program has ended"),
        ([WAITING, state(1, "barrier", unchanged=9)], "all ranks wait for one another.* rank 0 .* all_.* in barrier"),
        ([state(0), state(1, silent=2.1)], r"rank 1 \(host, process 101\) has not reported for 2.1 s"),
    ],
)
def test_who_works_is_not_blamed_however_long_others_wait_but_who_hangs_or_has_ended_is(
    states: list[RankState], told: str
) -> None:
    assert re.search(told, blame(states, 2) or "")


def test_a_watch_counts_seconds_of_silence(tmp_path: Path) -> None:
    group: Any = SimpleNamespace(rank=0, places=[Place(0, "host", 100, (0,))], activity=Activity())
    watch = Watch(group, tmp_path, longest=0.05)
    write_state(tmp_path, state(1))
    while (told := watch.look()) is None:
        write_state(tmp_path, watch.state())
    assert told.startswith("rank 1 (host, process 101) has not reported for ")


def test_a_program_that_a_process_cannot_import_is_refused_before_any_starts() -> None:
    with pytest.raises(ValueError, match="program"):
        launch(lambda communicator: None, 2)
    with pytest.raises(ValueError, match="threads"):
        launch(programs.cores, 0)
    with pytest.raises(TypeError, match="values must be arrays or what JSON can hold"):
        launch(programs.cores, 2, {"array": {1, 2}})


def run(way: str) -> subprocess.CompletedProcess[str]:
    command = [mpiexec(), "-n", "2", sys.executable, "-m", failing_programs.__name__, way]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["in the loss", "between steps"])
def test_one_ranks_error_ends_all_with_its_text(way: str) -> None:
    ended = run(way)
    assert ended.returncode == communicator.FAILED
    assert "rank one is broken" in ended.stderr
    assert "losses" not in ended.stdout


def test_a_part_without_targets_adds_nothing_to_what_one_process_computes() -> None:
    ended = run("without a fault")
    said = re.findall(r"losses ([\d.e-]+) ([\d.e-]+)", ended.stdout)  # mpiexec may put two ranks' words on one line
    found = [[float(number) for number in pair] for pair in said]
    assert len(found) == 2, ended.stderr
    np.testing.assert_allclose(found, [failing_programs.step_of_one_process()] * 2, rtol=1e-6)


@pytest.mark.parametrize(("read_at", "waits"), [(3, 3), (None, 100)])
def test_ranks_end_once_what_one_said_is_read_or_after_a_second(
    read_at: int | None, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher drops what its pipe still holds when ranks end, so nobody may end them before."""
    (ours, theirs), kept = os.pipe(), os.dup(2)
    slept: list[float] = []
    ended: list[int] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 200
        if len(slept) == read_at:
            os.read(ours, 9)

    monkeypatch.setattr(communicator, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=sleep))
    os.dup2(theirs, 2)
    try:
        os.write(2, b"why")
        communicator.abort(SimpleNamespace(Abort=ended.append))
    finally:
        os.dup2(kept, 2)
        for each in (ours, theirs, kept):
            os.close(each)
    assert ended == [communicator.FAILED]
    assert len(slept) == pytest.approx(waits, abs=1)


def test_a_rank_that_imports_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, tinytorch.perf.distributed, tinytorch.chapters.distributed.step_programs;"
        "sys.exit(any(name in sys.modules for name in ('scipy', 'numba', 'matplotlib', 'mpi4py.MPI')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
