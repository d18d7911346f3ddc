"""Ranks that fail, die, hang or leave: the run ends, and says which one it was and what it did last."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.perf.distributed.ranks import fault_programs
from tinytorch.perf.distributed.ranks import launch
from tinytorch.perf.distributed.ranks.communicator import Activity, Place
from tinytorch.perf.distributed.ranks.launch import RankError
from tinytorch.perf.distributed.ranks.watch import RankState, Watch, blame, write_state


def runs(process: int) -> bool:
    """Return whether there is such a process, and it is more than an entry that nobody has asked for yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def error_of(how: str, **options: Any) -> RankError:
    """Return how a run ended in which rank 1 stops in some way, once all ranks have that it names."""
    with pytest.raises(RankError) as caught:
        launch.launch(fault_programs.fails, 2, {"rank": 1, "how": how}, threads=1, **options)
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
    told = str(launch._error(tmp_path, None, "", 3))
    assert re.search(r"rank 0 \(.*\): it is in all_reduce, call 3; .*; rank 1 \(.*\): it is between calls", told)


def state(
    rank: int,
    talking: str = "",
    unchanged: float = 0.0,
    calls: int = 3,
    finished: bool = False,
    silent: float = 0.0,
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
        ([state(0), state(1, silent=2.1)], r"rank 1 \(host, process 101\) gave no sign of life for 2.1 s"),
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
    assert told.startswith("rank 1 (host, process 101) gave no sign of life for ")


def test_a_program_that_a_process_cannot_import_is_refused_before_any_starts() -> None:
    with pytest.raises(ValueError, match="program"):
        launch.launch(lambda communicator: None, 2)
    with pytest.raises(ValueError, match="threads"):
        launch.launch(fault_programs.answers, 0)
    with pytest.raises(TypeError, match="values"):
        launch.launch(fault_programs.answers, 2, {"array": {1, 2}, "number": 1})
