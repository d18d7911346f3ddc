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
from pathlib import Path
from typing import Any, NamedTuple

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.op import Array, Call, Saved
from tinytorch.perf.distributed.ranks.communicator import FAILED, Communicator, abort
from tinytorch.perf.measuring.atomic_io import write_whole

#: Seconds between two looks at the others, as a share of the longest wait, and at most.
_SHARE, _AT_MOST = 0.1, 0.5
FAILURE = "failure.json"


class RankState(NamedTuple):
    """One rank at one moment.

    Attributes:
        rank, process, name: its number, its process's, and what messages call it.
        in_call: the op of communication that it is in, or "". calls: how many of these it began.
        last_op: the op that ended last, or "".
        unchanged: seconds for which it has not begun or ended anything.
        finished: whether its program has ended.
        silent: seconds for which it has not written its state, as a reader of the state counts them.
    """

    rank: int
    process: int
    name: str
    in_call: str
    calls: int
    last_op: str
    unchanged: float
    finished: bool = False
    silent: float = 0.0

    def told(self) -> str:
        """Return what the rank does, as the second half of a sentence."""
        ended = f"its last op was {self.last_op}" if self.last_op else "no op of it has ended"
        if self.finished:
            return f"its program has ended; {ended}"
        between = f"it is between calls, {self.calls} of them made"
        return f"{f'it is in {self.in_call}, call {self.calls}' if self.in_call else between}; {ended}"


def write_state(folder: Path, state: RankState) -> None:
    """Write a rank's state, whole."""
    write_whole(folder / f"rank-{state.rank}.state.json", json.dumps(state))


def read_states(folder: Path) -> dict[int, RankState]:
    """Return the states that lie in ``folder``, by rank."""
    states = [RankState(*json.loads(path.read_text("utf-8"))) for path in folder.glob("rank-*.state.json")]
    return {state.rank: state for state in sorted(states)}


def blame(states: Sequence[RankState], longest: float) -> str | None:
    """Return one sentence on the rank that keeps the others waiting, or None if nobody waits for too long.

    Args:
        states: of all ranks.
        longest: seconds that a rank may be silent, and may be waited for without doing anything.
    """
    for state in states:
        if state.silent > longest and not state.finished:
            return (
                f"{state.name} has not reported for {state.silent:.1f} s: it was killed, or its code blocks its other "
                f"threads; {state.told()}"
            )
    waiting = [state for state in states if state.in_call and state.unchanged > longest]
    absent = [state for state in states if not state.in_call and (state.finished or state.unchanged > longest)]
    if waiting and absent:
        state, waits = min(absent, key=lambda state: state.calls), waiting[0]
        return (
            f"{state.name} keeps the others waiting: {waits.name} has been in {waits.in_call}, call {waits.calls}, for "
            f"{waits.unchanged:.1f} s; of {state.name}: {state.told()}"
        )
    if waiting and len(waiting) == len(states):
        each = "; ".join(f"{state.name}: {state.told()}" for state in states)
        return f"all ranks wait for one another, so they do not make the same calls: {each}"
    return None


class Watch(Observer):
    """One rank's view: what it does itself, and since when each other one has been silent."""

    def __init__(self, communicator: Communicator, folder: Path, longest: float) -> None:
        self.communicator, self.folder, self.longest = communicator, folder, longest
        self._pause = min(_AT_MOST, _SHARE * longest)
        self._last_op: Call | None = None
        self._ended_op = time.monotonic()
        self._seen: dict[int, tuple[RankState, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look_often, daemon=True, name="watch")

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Remember which op ended last."""
        del inputs, outputs, saved
        self._last_op, self._ended_op = call, time.monotonic()

    def state(self, finished: bool = False) -> RankState:
        """Return what this rank does now."""
        activity, call, rank = self.communicator.activity, self._last_op, self.communicator.rank
        place, unchanged = self.communicator.places[rank], time.monotonic() - max(activity.since, self._ended_op)
        last_op = ""
        if call is not None:
            last_op = f"{call.op.name} ({call.phase})" + (f" of {call.path}" if call.path else "")
        return RankState(rank, place.process, str(place), activity.now, activity.calls, last_op, unchanged, finished)

    def start(self) -> None:
        """Write the first state and begin to look."""
        write_state(self.folder, self.state())
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and say that this rank's program has ended."""
        self._stop.set()
        self._thread.join()
        write_state(self.folder, self.state(finished=True))

    def _look_often(self) -> None:
        while not self._stop.wait(self._pause):
            write_state(self.folder, self.state())
            if (sentence := self.look()) is not None:
                self.end_run({"message": sentence})

    def look(self) -> str | None:
        """Return what is wrong, or None. Ranks that have not written yet are not judged."""
        now, states = time.monotonic(), []
        for rank, state in read_states(self.folder).items():
            before, since = self._seen.get(rank, (None, now))
            # A rank that lives writes other seconds each time.
            self._seen[rank] = (state, since if state == before else now)
            states.append(state._replace(silent=now - self._seen[rank][1]))
        return blame(states, self.longest)

    def end_run(self, failure: dict[str, str]) -> None:
        """Write down why, unless another rank did already, and end all ranks."""
        path = self.folder / FAILURE
        if not path.exists():
            write_whole(path, json.dumps(failure))
            sys.stderr.write(f"\n{failure['message']}\n")
            sys.stderr.flush()
        # Abort asks the MPI to end the other ranks. Where it cannot answer, this process ends, and that ends them.
        threading.Thread(target=abort, args=(self.communicator.raw,), daemon=True).start()
        time.sleep(self._pause)
        os._exit(FAILED)


@contextmanager
def watched(communicator: Communicator, folder: str | Path, longest: float = 30.0) -> Iterator[Watch]:
    """Run the body so that no rank waits forever for another.

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
        with observed_by(watch):
            yield watch
            communicator.barrier()
    except BaseException as error:
        state = watch.state()
        message = f"{state.name} failed with {type(error).__name__}: {error}; {state.told()}"
        watch.end_run({"message": message, "trace": "".join(traceback.format_exception(error))})
    communicator.activity.watched = False
    watch.stop()
