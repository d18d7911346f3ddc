"""Ranks that fail, die, hang or leave: the run ends, soon, and says which one it was and what it did last."""

import re
import time

import psutil
import pytest

from tests.perf.distributed.ranks import fault_programs
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.distributed.ranks.watch import RankState, blame

#: Seconds that a rank may keep others waiting, and what a start of processes may take on a busy machine.
LONGEST, START = 2.0, 60.0


def runs(process: int) -> bool:
    """Return whether there is such a process, and it is more than an entry that nobody has asked for yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_end(processes: list[int]) -> bool:
    """Return whether all end by themselves: a killed one may be on its way out for seconds on a busy machine."""
    until = time.monotonic() + START
    while any(map(runs, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(runs, processes))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", r"rank 1 \(.*\) failed with ZeroDivisionError: no reason; .*last op was all_reduce \(forward\)"),
        ("die", r"rank 1 \(.*\) died of SIGKILL; .* last op was all_reduce \(forward\)"),
        ("hang", r"rank 1 \(.*\) keeps the others waiting: .* in all_reduce, call 3, .* of rank 1 \(.*\): .* last op"),
        ("stop", r"rank 1 \(.*\) gave no sign of life for 2"),
        ("leave", r"all ranks wait for one another.* rank 0 \(.*\): it is in receive, .* in barrier, call 3"),
    ],
)
def test_a_rank_that_stops_ends_the_run_by_its_name(how: str, told: str) -> None:
    before = time.monotonic()
    with pytest.raises(RankError, match=told) as caught:
        launch(fault_programs.fails, 2, {"rank": 1, "how": how}, longest_wait=LONGEST, timeout=START, threads=1)
    assert time.monotonic() - before < START, "the watch ended it, not the clock of the whole run"
    assert ("no reason" in caught.value.trace) == (how == "raise")
    processes = re.findall(r"process (\d+)", str(caught.value))
    assert processes
    assert all_end([int(process) for process in processes])


def test_a_run_that_takes_too_long_is_killed_and_says_what_each_rank_did() -> None:
    with pytest.raises(RankError, match=r"did not end within 3 s and was killed: (rank 0 .*; rank 1 |no rank began)"):
        launch(fault_programs.fails, 2, {"rank": 1, "how": "hang"}, longest_wait=30, timeout=3, threads=1)


def state(rank: int, talking: str = "", unchanged: float = 0.0, calls: int = 3, finished: bool = False) -> RankState:
    name = f"rank {rank} (host, process {100 + rank})"
    return RankState(rank, 100 + rank, name, 1, talking, calls, 9, "linear (forward) of 0", unchanged, finished)


def test_who_works_is_not_blamed_however_long_others_wait_but_who_hangs_or_has_ended_is() -> None:
    waiting, working = state(0, "all_reduce", unchanged=9), state(1, unchanged=0.1)
    assert blame([waiting, working], [0, 0], 2) is None
    hanging = state(1, unchanged=9, calls=2)
    told = blame([waiting, hanging, state(2, unchanged=9, calls=4)], [0, 0, 0], 2) or ""
    assert re.match(r"rank 1 \(host, process 101\).*linear \(forward\) of 0$", told)
    assert "its program has ended" in (blame([waiting, state(1, finished=True)], [0, 50], 2) or "")


def test_a_program_that_a_process_cannot_import_is_refused_before_any_starts() -> None:
    with pytest.raises(ValueError, match="program"):
        launch(lambda communicator: None, 2)
    with pytest.raises(ValueError, match="threads"):
        launch(fault_programs.answers, 0)
    with pytest.raises(TypeError, match="values"):
        launch(fault_programs.answers, 2, {"array": {1, 2}, "number": 1})
