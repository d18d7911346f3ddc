"""What the tests of recordings run on ranks: top-level functions, as a new process imports them by name."""

import json
import time
from typing import Any

import numpy as np

from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.recording.clocks import align
from tinytorch.perf.distributed.recording.timeline import Timeline, recorded
from tinytorch.perf.measuring.codec import to_json

#: Of the clock that each rank is given: nanoseconds ahead of its own, and faster by as many in a million.
AHEAD, FASTER = 10**12, 300
#: Rounds in which ranks wait for one another, and sum.
ROUNDS = 5


def wrong(when: int, rank: int) -> int:
    """Return what the wrong clock of a rank shows."""
    return when + rank * AHEAD + when * rank * FASTER // 10**6


def all_recordings(communicator: Communicator) -> dict[str, Any]:
    """Return what the tests look at; recordings are those of rank 0."""
    found = {"rounds": record_rounds(communicator), "comm_info": record_talks(communicator)}
    found["clocks"] = read_clocks(communicator)
    return found


def read_clocks(communicator: Communicator) -> dict[str, Any]:
    """Return readings of true and of wrong clocks, and what rank 0's wrong clock shows at rank 1's reading."""
    rank = communicator.rank
    true = align(communicator)
    first = align(communicator, clock=lambda: wrong(time.perf_counter_ns(), rank))
    last = align(communicator, clock=lambda: wrong(time.perf_counter_ns(), rank))
    clocks = first.followed_by(last)
    now = time.perf_counter_ns()
    before = last.readings[1][0].at
    return {
        "true": [(reading.offset, reading.error) for (reading,) in true.readings],
        "told": [int(clocks.on_rank_0(1, [at])[0]) for at in (first.readings[1][0].at, before)],
        "shown": [first.readings[1][0].at, before],
        "errors": [reading.error for reading in clocks.readings[1]],
        "now": now,
    }


def record_rounds(communicator: Communicator) -> Any:
    """Return the timeline of rounds in which ranks wait for one another, and sum."""
    row = np.ones(1024)
    with recorded(communicator) as recording:
        for _ in range(ROUNDS):
            communicator.barrier()
            communicator.all_reduce(row)
    return as_text(recording.gather())


def record_talks(communicator: Communicator) -> Any:
    """Return the timeline of every kind of call, in several groups."""
    rank, size = communicator.rank, communicator.size
    own = communicator.split(rank)
    apart = communicator.duplicate()
    row = np.arange(2.0 * size)
    late = communicator.begin_all_reduce(row)
    with recorded(communicator) as recording:
        late.wait()
        communicator.all_reduce(row)
        pending = apart.begin_all_reduce(row)
        while not pending.done():
            pass
        pending.wait()
        apart.begin_reduce_scatter(row).wait()
        communicator.broadcast(row, size - 1)
        own.all_reduce(row)
        sent = [communicator.begin_send(np.full(number, rank), (rank + 1) % size) for number in (1, 2)]
        for _ in sent:
            communicator.receive((rank - 1) % size)
        for each in sent:
            each.wait()
        communicator.barrier()
    try:
        timeline = recording.gather()
    finally:
        communicator.barrier()
    return as_text(timeline)


def as_text(timeline: Timeline | None) -> Any:
    """Return what a launch can carry."""
    return None if timeline is None else json.dumps(to_json(timeline))
