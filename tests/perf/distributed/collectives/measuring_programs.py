"""What the tests of measuring run on several ranks, as new processes import it by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tinytorch.perf.distributed.collectives.ring import ring_all_reduce
from tinytorch.perf.distributed.collectives.timing import KINDS, time_collectives
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import Turns


def measure(communicator: Communicator) -> dict[str, Any]:
    """Return what a ring gives, what turns saw, and the times of small collectives."""
    given = np.arange(5.0) + communicator.rank
    turns = Turns(communicator, [1, 2])
    present: list[list[int]] = []
    for count in (2, 1, 2):
        turns.take(count, lambda group: present.append([group.size, group.rank]))
    turns.take(1, lambda _: busy(0.2))
    found = {"ring": ring_all_reduce(given, communicator), "slept": turns.slept, "used": turns.used}
    return {
        **found,
        "present": present,
        "collectives": as_json(time_collectives(communicator, KINDS, [8, 300], 7, 60.0, 6, 3)),
        "few": len(time_collectives(communicator, ["all-reduce"], [8], 50, 1e-9, 6, 0)["seconds"][0]),
    }


def busy(seconds: float) -> None:
    """Keep a core busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        np.sqrt(np.arange(100.0))


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
