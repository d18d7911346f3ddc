"""What the tests of measuring run on several ranks, as new processes import it by name."""

import math
from typing import Any

import numpy as np

from tinytorch.perf.distributed.collectives.timing import KINDS, ring_all_reduce, time_collectives
from tinytorch.perf.distributed.ranks.communicator import Communicator


def measure(communicator: Communicator) -> dict[str, Any]:
    """Return what a ring gives, and the times of small collectives."""
    given = np.arange(5.0) + communicator.rank
    return {
        "ring": ring_all_reduce(given, communicator),
        "collectives": as_json(time_collectives(communicator, KINDS, [8, 300], 7, math.inf, 6, 3)),
        "few": len(time_collectives(communicator, ["all-reduce"], [8], 50, 1e-9, 6, 0)["seconds"][0]),
    }


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
