"""What each rank tells of itself in a folder that all ranks see, and which rank it is that the others wait for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tinytorch.perf.measuring.atomic_io import write_whole


@dataclass(frozen=True)
class RankState:
    """One rank at one moment.

    Attributes:
        rank, host, process: where it runs.
        beat: counts the writings of this state; it stands still when the process does.
        talking: the op of communication that it is in, or "".
        calls, ops: how many of these it began, and how many ops it ended; a rank that works makes these grow.
        last_op: the op that it ended last.
        unchanged: seconds for which it has not begun or ended anything.
        finished: whether its program has ended.
    """

    rank: int
    host: str
    process: int
    beat: int
    talking: str
    calls: int
    ops: int
    last_op: str
    unchanged: float
    finished: bool = False

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"rank {self.rank} ({self.host}, process {self.process})"

    def told(self) -> str:
        """Return what it does, as the second half of a sentence."""
        ended = f"its last op was {self.last_op}" if self.last_op else "no op of it has ended"
        if self.finished:
            return f"its program has ended; {ended}"
        where = (
            f"it is in {self.talking}, call {self.calls}"
            if self.talking
            else f"it is between calls, {self.calls} of them made"
        )
        return f"{where}; {ended}"


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
        states: of all ranks. still: seconds for which each of them was not written anew.
        longest: seconds that a rank may be silent, and may be waited for without doing anything.
    """
    for state, silent in zip(states, still, strict=True):
        if silent > longest and not state.finished:
            return (
                f"{state.name} gave no sign of life for {silent:.1f} s: it was killed, or is in code that lets no "
                f"other thread run; {state.told()}"
            )
    waiting = [state for state in states if state.talking and state.unchanged > longest]
    if not waiting:
        return None
    absent = [state for state in states if not state.talking and (state.finished or state.unchanged > longest)]
    if absent:
        state = min(absent, key=lambda state: state.calls)
        waits = waiting[0]
        return (
            f"{state.name} keeps the others waiting: {waits.name} has been in {waits.talking}, call {waits.calls}, for "
            f"{waits.unchanged:.1f} s; of {state.name}: {state.told()}"
        )
    if len(waiting) == len(states):
        each = "; ".join(f"{state.name}: {state.told()}" for state in states)
        return f"all ranks wait for one another, so they do not make the same calls: {each}"
    return None
