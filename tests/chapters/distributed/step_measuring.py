"""What the tests of the page's steps run on several ranks, as new processes import it by name."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_programs import Turns
from tinytorch.chapters.distributed.step_recording import record_on_rank
from tinytorch.perf.distributed.ranks.communicator import Communicator


def busy(seconds: float) -> None:
    """Keep a core busy."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        np.sqrt(np.arange(100.0))


def take_turns(pair: Communicator) -> dict[str, Any]:
    """Return what turns of one and of two ranks saw."""
    turns = Turns(pair, [1, 2])
    present: list[list[int]] = []
    for count in (2, 1, 2):
        turns.take(count, lambda group: present.append([group.size, group.rank]))
    turns.take(1, lambda _: busy(0.2))
    return {"present": present, "slept": turns.slept, "used": turns.used}


def measure(pair: Communicator) -> dict[str, Any]:
    """Return what two ranks time, weigh and record of steps."""
    plan: dict[str, Any] = {"repeats": 6, "at_most_seconds": 1e-9, "fewest": 6, "seed": 0}
    return {
        **take_turns(pair),
        "scaling": step_programs.scaling_times(pair, "mlp", [(False, 8), (True, 4)], [1, 2], **plan),
        "overlap": step_programs.overlap_times(pair, "mlp", 8, 2**16, **plan),
        "memory": step_programs.kept_memory(pair, "mlp", 7),
        **record_on_rank(pair, "mlp", 8, steps=2, bucket_bytes=2**14, products=1, burdened=1, seed=3),
    }
