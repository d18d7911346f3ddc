"""Watch over ranks: one that dies, hangs or fails ends the whole run within a stated time, and is named.

MPI waits for ever for a rank that does not come. So a thread of each rank writes what its rank does to a folder that
all see (on a cluster, one on a shared file system), and reads what the others do. The first that finds that ranks have
waited for longer than ``longest`` seconds writes one sentence and ends the run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.op import Array, Call, Saved
from tinytorch.perf.distributed.ranks.communicator import FAILED, Communicator, abort
from tinytorch.perf.measuring.atomic_io import write_whole

#: Seconds between two looks at the others, as a share of the longest wait, and at most.
_SHARE, _AT_MOST = 0.1, 0.5
FAILURE = "failure.json"


@dataclass(frozen=True)
class RankState:
    """One rank at one moment.

    Attributes:
        rank, process: its number and its process's. name: how messages call it.
        beat: counts the writings of this state; it stands still when the process does.
        in_call: the op of communication that it is in, or "". calls: how many of these it began.
        ops, last_op: how many ops it ended, and the last one.
        unchanged: seconds for which it has not begun or ended anything.
        finished: whether its program has ended.
    """

    rank: int
    process: int
    name: str
    beat: int
    in_call: str
    calls: int
    ops: int
    last_op: str
    unchanged: float
    finished: bool = False

    def told(self) -> str:
        """Return what it does, as the second half of a sentence."""
        ended = f"its last op was {self.last_op}" if self.last_op else "no op of it has ended"
        if self.finished:
            return f"its program has ended; {ended}"
        between = f"it is between calls, {self.calls} of them made"
        return f"{f'it is in {self.in_call}, call {self.calls}' if self.in_call else between}; {ended}"


def write_state(folder: Path, state: RankState) -> None:
    """Write a rank's state, whole."""
    write_whole(folder / f"rank-{state.rank}.state.json", json.dumps(asdict(state)))


def read_states(folder: Path) -> dict[int, RankState]:
    """Return the states that lie in ``folder``, by rank."""
    found = [RankState(**json.loads(path.read_text("utf-8"))) for path in folder.glob("rank-*.state.json")]
    return {state.rank: state for state in sorted(found, key=lambda state: state.rank)}


def blame(states: Sequence[RankState], still: Sequence[float], longest: float) -> str | None:
    """Return one sentence on the rank that keeps the others waiting, or None if nobody waits for too long.

    Args:
        states: of all ranks.
        still: seconds for which each of them was not written anew.
        longest: seconds that a rank may be silent, and may be waited for without doing anything.
    """
    for state, silent in zip(states, still, strict=True):
        if silent > longest and not state.finished:
            return (
                f"{state.name} gave no sign of life for {silent:.1f} s: it was killed, or is in code that lets no "
                f"other thread run; {state.told()}"
            )
    waiting = [state for state in states if state.in_call and state.unchanged > longest]
    if not waiting:
        return None
    absent = [state for state in states if not state.in_call and (state.finished or state.unchanged > longest)]
    if absent:
        state = min(absent, key=lambda state: state.calls)
        waits = waiting[0]
        return (
            f"{state.name} keeps the others waiting: {waits.name} has been in {waits.in_call}, call {waits.calls}, for "
            f"{waits.unchanged:.1f} s; of {state.name}: {state.told()}"
        )
    if len(waiting) == len(states):
        each = "; ".join(f"{state.name}: {state.told()}" for state in states)
        return f"all ranks wait for one another, so they do not make the same calls: {each}"
    return None


def interval(longest: float) -> float:
    """Return the seconds between two looks."""
    return min(_AT_MOST, _SHARE * longest)


class LastOp(Observer):
    """Remembers which op ended last."""

    def __init__(self) -> None:
        self.ops, self.when = 0, time.monotonic()
        self._call: Call | None = None

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Remember the call."""
        del inputs, outputs, saved
        self._call = call
        self.ops += 1
        self.when = time.monotonic()

    @property
    def name(self) -> str:
        """Name, phase and module of the last op, or "" before there is one."""
        call = self._call
        if call is None:
            return ""
        place = f" of {call.path}" if call.path else ""
        return f"{call.op.name} ({call.phase}){place}"


class Watch:
    """One rank's view: what it does itself, and since when each other one has been silent."""

    def __init__(self, communicator: Communicator, folder: Path, longest: float) -> None:
        self.communicator, self.folder, self.longest = communicator, folder, longest
        self.last = LastOp()
        self._beat = 0
        self._seen: dict[int, tuple[int, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_often, daemon=True, name="watch")

    def state(self, finished: bool = False) -> RankState:
        """Return what this rank does now."""
        activity, last, rank = self.communicator.activity, self.last, self.communicator.rank
        place, unchanged = self.communicator.places[rank], time.monotonic() - max(activity.since, last.when)
        working = (activity.now, activity.calls, last.ops, last.name, unchanged)
        return RankState(rank, place.process, str(place), self._beat, *working, finished)

    def start(self) -> None:
        """Write the first state and begin to look."""
        write_state(self.folder, self.state())
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and say that this rank's program has ended."""
        self._stop.set()
        self._thread.join()
        self._beat += 1
        write_state(self.folder, self.state(finished=True))

    def _look_often(self) -> None:
        while not self._stop.wait(interval(self.longest)):
            self._beat += 1
            write_state(self.folder, self.state())
            if (sentence := self.look()) is not None:
                self.end_run({"message": sentence})

    def look(self) -> str | None:
        """Return what is wrong, or None. Ranks that have not written yet are not judged."""
        now = time.monotonic()
        states = read_states(self.folder)
        for state in states.values():
            beat, since = self._seen.get(state.rank, (-1, now))
            self._seen[state.rank] = (state.beat, since if beat == state.beat else now)
        return blame(list(states.values()), [now - self._seen[rank][1] for rank in states], self.longest)

    def end_run(self, failure: dict[str, str]) -> None:
        """Write down why, unless another rank did already, and end all ranks."""
        path = self.folder / FAILURE
        if not path.exists():
            write_whole(path, json.dumps(failure))
            sys.stderr.write(f"\n{failure['message']}\n")
            sys.stderr.flush()
        # Abort asks the MPI to end the other ranks. Where it cannot answer, this process ends, and that ends them.
        threading.Thread(target=abort, args=(self.communicator.raw,), daemon=True).start()
        time.sleep(interval(self.longest))
        os._exit(FAILED)


@contextmanager
def watched(communicator: Communicator, folder: str | Path, longest: float = 30.0) -> Iterator[Watch]:
    """Run the body so that no rank waits for ever for another.

    The run ends, with exit code 70, at once where the body raises an error, and within ``longest`` seconds
    where a rank gives no sign of life, or keeps others waiting without ending an op or a call, for ``longest`` seconds.
    Where a process dies, most MPI libraries end the run themselves. One sentence on standard error and in
    ``failure.json`` names the rank and its last op. All ranks must enter together, and ``longest`` must be above what
    the longest single op of the program takes.

    Args:
        folder: exists, is empty, and is seen by all ranks.

    Raises:
        ValueError: if ``longest`` is not above 0, or the folder does not exist or holds another run's states.

    Examples:
        >>> from tinytorch.perf.distributed import watched, world
        >>> with watched(world(), "no such folder"):  # doctest: +ELLIPSIS
        ...     pass
        Traceback (most recent call last):
        ValueError: folder 'no such folder' must exist and hold no other run's states: give a new one to each run
    """
    place = Path(folder)
    if not longest > 0:
        raise ValueError(f"longest must be above 0 seconds, not {longest}")
    if not place.is_dir() or any(place.glob("rank-*.state.json")):
        raise ValueError(
            f"folder {str(folder)!r} must exist and hold no other run's states: give a new one to each run"
        )
    communicator.barrier()  # or a fast rank's state would be taken for another run's
    watch = Watch(communicator, place, longest)
    watch.start()
    communicator.activity.watched = True
    try:
        with observed_by(watch.last):
            yield watch
            communicator.barrier()
    except BaseException as error:
        watch.end_run(_told(watch, error))
    communicator.activity.watched = False
    watch.stop()


def _told(watch: Watch, error: BaseException) -> dict[str, str]:
    state = watch.state()
    message = f"{state.name} failed with {type(error).__name__}: {error}; {state.told()}"
    return {"message": message, "trace": "".join(traceback.format_exception(error))}
