"""Values that a measurement on ranks needs to have in common: the largest of theirs, and what rank 0 decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.mpi import load_mpi


def largest(communicator: Communicator, values: Any) -> Array:
    """Return the largest of all ranks' values, elementwise, float64, in the shape of what each gives."""
    array = np.array(values, np.float64)
    communicator.raw.Allreduce(load_mpi().IN_PLACE, array, op=load_mpi().MAX)
    return array


def least(communicator: Communicator, value: float) -> float:
    """Return the smallest of all ranks' values."""
    return -float(largest(communicator, [-value])[0])


def first_says(communicator: Communicator, value: bool) -> bool:
    """Return rank 0's ``value`` on every rank."""
    said = np.array([value])
    communicator.raw.Bcast(said, 0)
    return bool(said[0])
