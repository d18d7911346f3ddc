"""A ring all-reduce made of messages, there to teach: `Communicator.all_reduce`, the library's, is there to use."""

from __future__ import annotations

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.communicator import Communicator

#: Tag of the ring's messages.
TAG = 71


def ring_all_reduce(array: Array, communicator: Communicator) -> Array:
    """Return the sum of every rank's ``array``, elementwise, by passing parts of it around a ring.

    Each rank sends 2 (ranks - 1) messages, each 1/ranks of the array: 2 (ranks - 1) / ranks of its bytes, however many
    ranks there are. Source: P. Patarasuk and X. Yuan, 2009 (doi:10.1016/j.jpdc.2008.09.002).
    """
    rank, size = communicator.rank, communicator.size
    total = array.flatten()
    parts = np.array_split(total, size)  # views: what is written to a part is in the total
    for step in range(size - 1):  # reduce-scatter: a part grows with each rank that it visits
        parts[(rank - step - 1) % size] += passed_on(parts[(rank - step) % size], communicator)
    for step in range(size - 1):  # all-gather: the whole sums go round
        parts[(rank - step) % size][:] = passed_on(parts[(rank - step + 1) % size], communicator)
    return total.reshape(array.shape)


def passed_on(part: Array, communicator: Communicator) -> Array:
    """Send ``part`` to the next rank of the ring and return what the one before sends meanwhile."""
    rank, size = communicator.rank, communicator.size
    sending = communicator.begin_send(part, (rank + 1) % size, TAG)
    received = communicator.receive((rank - 1) % size, TAG)
    sending.wait()
    return received
