"""Ranks that stop in some way, as new processes import them by name: quickly, without the instruments."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.watch import read_states


def fails(communicator: Communicator, rank: int, how: str) -> None:
    """Have one rank stop in some way after an op, while the others wait for it."""
    Tensor(np.ones(3)).exp()
    communicator.all_reduce(np.ones(3))
    if communicator.rank == rank:
        if how == "raise":
            raise ZeroDivisionError("no reason")
        if how == "die":
            while not has_told(rank, "all_reduce"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        while how == "hang":
            time.sleep(0.01)
        if how == "leave":
            return
    if how == "leave":
        communicator.receive(rank)
    communicator.all_reduce(np.ones(3))


def has_told(rank: int, op: str) -> bool:
    """Return whether the state that a rank of this run wrote last names this op as its last one."""
    state = read_states(Path(sys.argv[1])).get(rank)
    return state is not None and state.last_op.startswith(op)


def answers(communicator: Communicator, array: Any, number: float) -> dict[str, Any]:
    """Return what was given, and who this is."""
    return {"file": array * communicator.rank, "number": number, "rank": communicator.rank}
