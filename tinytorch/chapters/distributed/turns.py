"""Turns of ranks: in one launch the first 1, 2, ... of them work one after another, and who is not in a turn sleeps.

A rank that waits in a call of MPI keeps its core busy, and a busy core slows the others: they share its power, and
often its caches. One rank would then be measured in a worse place than a program that runs alone. So ranks outside of a
turn sleep, wake up now and then to ask whether it is over, and say how much of their core that took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from tinytorch.perf.distributed.ranks.communicator import Communicator

#: Seconds between two questions of a rank that is not in the turn, and the tag of the message that it is over.
_PAUSE, _OVER = 5e-3, 72


class Turns:
    """Groups of the first ranks of a communicator; all ranks make it together.

    Attributes:
        groups: the group of the first ranks by their number, on the ranks that are in it.
        slept, used: seconds that this rank spent outside of turns, and of CPU meanwhile.

    Raises:
        ValueError: if a count is no number of the communicator's ranks, or there is none.
    """

    def __init__(self, communicator: Communicator, counts: Sequence[int]) -> None:
        if not counts or min(counts) < 1 or max(counts) > communicator.size:
            raise ValueError(f"counts must be 1 to {communicator.size}, at least one, not {list(counts)}")
        self._communicator = communicator
        made = {count: communicator.split(int(communicator.rank >= count)) for count in counts}
        self.groups = {count: group for count, group in made.items() if communicator.rank < count}
        self.slept = self.used = 0.0

    def take(self, count: int, work: Callable[[Communicator], None]) -> None:
        """Run ``work`` on the first ``count`` ranks, with their group; the others sleep until it is done there."""
        communicator = self._communicator
        if communicator.rank >= count:
            self._sleep()
            return
        work(self.groups[count])
        self.groups[count].barrier()
        if communicator.rank == 0:
            for rank in range(count, communicator.size):
                communicator.raw.Send(np.empty(0, np.uint8), rank, _OVER)

    def _sleep(self) -> None:
        raw = self._communicator.raw
        wall, cpu = time.perf_counter(), time.process_time()
        while not raw.Iprobe(0, _OVER):
            time.sleep(_PAUSE)
        raw.Recv(np.empty(0, np.uint8), 0, _OVER)
        self.slept += time.perf_counter() - wall
        self.used += time.process_time() - cpu
