"""What the tests run on several ranks: top-level functions, as a new process imports them by name."""

import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.core.cases import Recorder
from tinytorch.chapters.distributed.step_programs import compared_sums
from tinytorch.core.dispatch import observed_by
from tinytorch.core.layers import Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.optimizers import SGD
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.collectives.timing import KINDS, ring_all_reduce, time_collectives
from tinytorch.perf.distributed.ranks.collective_ops import load_mpi
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.watch import read_states
from tinytorch.perf.distributed.recording import recorded
from tinytorch.perf.distributed.training.data_parallel import DataParallel
from tinytorch.perf.host.pinned_threads import allowed_cores


def talks(communicator: Communicator) -> dict[str, Any]:
    """Make every call once and return what it gave, and the events that an observer saw."""
    rank, size = communicator.rank, communicator.size
    row = np.arange(2 * size, dtype=np.float64) + rank
    found: dict[str, Any] = {}
    seen = Recorder()
    with observed_by(seen):
        found["all_reduce"] = communicator.all_reduce(row)
        found["all_reduce in place"] = row.copy()
        communicator.all_reduce(found["all_reduce in place"], out=found["all_reduce in place"])
        pending = communicator.begin_all_reduce(row)
        while not pending.done():
            pass
        found["begun all_reduce"] = pending.wait()
        found["begun reduce_scatter"] = communicator.begin_reduce_scatter(row).wait()
        found["begun all_gather"] = communicator.begin_all_gather(row[None]).wait()
        whole = np.zeros((size, row.size))
        whole[rank] = row
        found["all_gather in place"] = communicator.begin_all_gather(whole[rank : rank + 1], out=whole).wait()
        found["broadcast"] = communicator.broadcast(np.array([rank]), size - 1)
        found["around"] = passed_around(communicator)
        communicator.barrier()
    calls = [call for call in seen.calls if call.op.name != "poll"]
    found["events"] = [[call.op.name, call.traffic, call.work.elementwise] for call in calls]
    found["exchange"] = communicator.exchange({"rank": rank, "text": "ä" * rank})
    found["groups"] = [communicator.duplicate().group, communicator.split(rank % 2).size, communicator.group]
    found["oversubscribed"] = communicator.oversubscribed
    return found


def cores(communicator: Communicator) -> dict[str, Any]:
    """Return the cores that this rank may run on."""
    del communicator
    return {"cores": allowed_cores()}


def passed_around(communicator: Communicator) -> Any:
    """Return what the rank before sent: an array of a shape that only it knew."""
    rank, size = communicator.rank, communicator.size
    pending = communicator.begin_send(np.full((rank + 1, 2, 1), rank, np.int16), (rank + 1) % size, tag=3)
    received = communicator.receive((rank - 1) % size, tag=3)
    pending.wait()
    return received


def refusals(communicator: Communicator) -> dict[str, str]:
    """Return what each wrong call is told, none of which may hang."""
    row, three = np.ones(communicator.size), np.ones(3)
    calls: dict[str, Callable[[], Any]] = {
        "dtype": lambda: communicator.all_reduce(np.ones(2, np.float16)),
        "truth": lambda: communicator.all_reduce(np.ones(2, bool)),
        "truth, begun": lambda: communicator.begin_all_reduce(np.ones(2, bool)),
        "truth, scattered": lambda: communicator.begin_reduce_scatter(np.ones(2, bool)),
        "byte order": lambda: communicator.all_reduce(np.ones(2, ">f4")),
        "room": lambda: communicator.all_reduce(row, out=np.ones(communicator.size, np.float32)),
        "overlap": lambda: communicator.all_reduce(three[:2], out=three[1:]),
        "part": lambda: communicator.begin_reduce_scatter(np.ones(communicator.size + 1)),
        "axis": lambda: communicator.begin_all_gather(np.array(1.0)),
        "root": lambda: communicator.broadcast(row, communicator.size),
        "self": lambda: communicator.begin_send(row, communicator.rank),
        "order": lambda: communicator.broadcast(np.ones((2, 3)).T),
        "axes": lambda: communicator.begin_send(np.ones((1,) * 9), (communicator.rank + 1) % communicator.size),
        "shapes": lambda: data_parallel(communicator, width=4 + communicator.rank, bucket_bytes=8),
        "settings": lambda: data_parallel(communicator, width=4, bucket_bytes=8 + communicator.rank),
        "rates": lambda: data_parallel(communicator, width=4, bucket_bytes=8, rate=0.1 + communicator.rank),
    }
    told = {}
    for name, call in calls.items():
        try:
            call()
        except (TypeError, ValueError) as error:
            told[name] = f"{type(error).__name__}: {error}"
    return told


def disagreement(communicator: Communicator, call: str, what: str) -> dict[str, str]:
    """Give to a collective what the other rank does not give; return what this one is told."""
    size, odd = communicator.size, bool(communicator.rank)
    calls: dict[str, Callable[[Any], Any]] = {
        "all_reduce": communicator.all_reduce,
        "broadcast": communicator.broadcast,
        "begin_all_reduce": lambda array: communicator.begin_all_reduce(array).wait(),
        "begin_reduce_scatter": lambda array: communicator.begin_reduce_scatter(array).wait(),
        "begin_all_gather": lambda array: communicator.begin_all_gather(array).wait(),
    }
    shape: Any = {"length": size * (2 + odd), "shape": (size, 2) if odd else (2 * size,)}.get(what, size)
    array = np.ones(shape, np.int32 if odd and what == "dtype" else np.float32)
    try:
        if what == "root":
            communicator.broadcast(array, communicator.rank)
        elif what == "call" and odd:
            communicator.broadcast(array)
        else:
            calls[call](array)
    except ValueError as error:
        return {"told": str(error)}
    return {"told": ""}


def data_parallel(communicator: Communicator, width: int, bucket_bytes: int, rate: float = 0.1) -> DataParallel:
    model = Linear(width, 2, seed=0)
    return DataParallel(
        model, lambda parameters: SGD(parameters, lr=rate), MSELoss(), communicator, bucket_bytes=bucket_bytes
    )


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


def measure(communicator: Communicator) -> dict[str, Any]:
    """Return what a ring gives, and the times of small collectives."""
    given = np.arange(5.0) + communicator.rank
    return {
        "ring": ring_all_reduce(given, communicator),
        "collectives": as_json(time_collectives(communicator, KINDS, [8, 300], 7, math.inf, 6, 3)),
        "few": len(time_collectives(communicator, ["all-reduce"], [8], 50, 1e-9, 6, 0)["seconds"][0]),
    }


def unpickle_nothing(communicator: Communicator) -> dict[str, Any]:
    """Exchange values, record, time and compare where mpi4py raises if it would unpickle what another rank sent.

    Return what was exchanged and gathered, and whether the own profile and calls came back as they were.
    """

    def refuse(data: bytes) -> None:
        raise AssertionError(f"a rank would unpickle {data!r}")

    load_mpi().pickle.__init__(loads=refuse)
    with recorded(communicator) as recording:
        Linear(4, 2, seed=0)(Tensor(np.ones((3, 4), np.float32)))
        communicator.all_reduce(np.ones(3))
    timeline = recording.gather()
    return {
        "exchanged": communicator.exchange("ä" * communicator.rank),
        "gathered": communicator.gather(communicator.rank),
        "same": timeline and (timeline.profiles[0], list(timeline.calls[0])) == (recording.profile, recording._calls),
        "few": len(time_collectives(communicator, ["all-reduce"], [8], 50, 1e-9, 6, 0)["seconds"][0]),
        "bits": compared_sums(communicator),
    }


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


#: Rounds in which ranks wait for one another, and sum.
ROUNDS = 5


def record_rounds(communicator: Communicator) -> dict[str, Any]:
    """Return op, start and end of the events of each rank, the delays, and who kept others waiting."""
    with recorded(communicator) as recording:
        for _ in range(ROUNDS):
            communicator.barrier()
            communicator.all_reduce(np.ones(1024))
    timeline = recording.gather()
    if timeline is None:
        return {}
    delays = [(late, op, list(waited.items())) for late, op, waited in timeline.delays()]
    events = [[(event.op, event.start, event.end) for event in profile.events] for profile in timeline.profiles]
    return {"events": events, "delays": delays, "stragglers": list(timeline.stragglers())}


def record_talks(communicator: Communicator) -> dict[str, Any]:
    """Return key, kind, size and number of waits of every kind of call on each rank, in several groups."""
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
