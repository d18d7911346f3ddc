"""Ranks that stop in some way, as new processes import them by name: quickly, without the instruments."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator


def fails(communicator: Communicator, rank: int, how: str) -> None:
    """Have one rank stop in some way after an op, while the others wait for it."""
    Tensor(np.ones(3)).exp()
    communicator.all_reduce(np.ones(3))
    if communicator.rank == rank:
        if how == "raise":
            raise ZeroDivisionError("no reason")
        if how == "die":
            time.sleep(0.3)  # so that a state was written
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


def answers(communicator: Communicator, array: Any, number: float) -> dict[str, Any]:
    """Return what was given, and who this is."""
    return {"file": array * communicator.rank, "number": number, "rank": communicator.rank}
