"""What the tests of recordings run on ranks: top-level functions, as a new process imports them by name."""

from typing import Any

import numpy as np

from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.recording import recorded

#: Rounds in which ranks wait for one another, and sum.
ROUNDS = 5


def record_rounds(communicator: Communicator) -> dict[str, Any]:
    """Return op, start and end of the events of each rank, and the waits that were found."""
    with recorded(communicator) as recording:
        for _ in range(ROUNDS):
            communicator.barrier()
            communicator.all_reduce(np.ones(1024))
    timeline = recording.gather()
    if timeline is None:
        return {}
    delays = [[delay.rank, delay.kind, list(delay.waited.items())] for delay in timeline.delays()]
    events = [[(event.op, event.start, event.end) for event in profile.events] for profile in timeline.profiles]
    return {"events": events, "delays": delays, "stragglers": list(timeline.stragglers().items())}


def record_talks(communicator: Communicator) -> dict[str, Any]:
    """Return key and kind of every kind of call on each rank, in several groups."""
    rank, size = communicator.rank, communicator.size
    own, apart = communicator.split(rank), communicator.duplicate()
    row = np.arange(2.0 * size)
    before = communicator.begin_all_reduce(row)
    with recorded(communicator) as recording:
        before.wait()
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
    timeline = recording.gather()
    calls = () if timeline is None else timeline.calls
    return {"calls": [[(call.key, call.kind, call.size, len(call.blocked)) for call in own] for own in calls]}
