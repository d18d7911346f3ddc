"""Programs of ranks for `step_times`: steps of a model of the zoo, timed or weighed."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import largest, least, rounds_within
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.host.memory_pages import minor_page_faults
from tinytorch.perf.measuring import collector_off

#: A turn's sample lasts this long at least, in seconds.
SAMPLE_SECONDS = 20e-3
#: Steps before the first turn, and at the beginning of each, that do not count.
_WARM, _WARM_TURN = 3, 1
#: Seconds between two questions of a rank that is not in the turn, and the tag of the message that it is over.
_PAUSE, _OVER = 5e-3, 72
_Step = Callable[[], Any]


class Turns:
    """Groups of the first ranks of a communicator, which work one after another; all ranks make it together.

    A rank that waits in a call of MPI keeps its core busy, and a busy core slows the others: they share its power, and
    often its caches. One rank would then be measured in a worse place than a program that runs alone. So ranks outside
    of a turn sleep, wake up now and then to ask whether it is over, and say how much of their core that took.

    Attributes:
        groups: the group of the first ranks by their number, on the ranks that are in it.
        slept, used: seconds that this rank spent outside of turns, and of CPU meanwhile.

    Raises:
        ValueError: if a count is no number of the communicator's ranks, or there is none.
    """

    def __init__(self, communicator: Communicator, counts: Sequence[int]) -> None:
        if not counts or min(counts) < 1 or max(counts) > communicator.size:
            raise ValueError(f"counts must be 1 to {communicator.size}, at least one, not {list(counts)}")
        self._communicator = communicator
        made = {count: communicator.split(int(communicator.rank >= count)) for count in counts}
        self.groups = {count: group for count, group in made.items() if communicator.rank < count}
        self.slept = self.used = 0.0

    def take(self, count: int, work: Callable[[Communicator], None]) -> None:
        """Run ``work`` on the first ``count`` ranks, with their group; the others sleep until it is done there."""
        communicator = self._communicator
        if communicator.rank >= count:
            self._sleep()
            return
        work(self.groups[count])
        self.groups[count].barrier()
        if communicator.rank == 0:
            for rank in range(count, communicator.size):
                communicator.raw.Send(np.empty(0, np.uint8), rank, _OVER)

    def _sleep(self) -> None:
        raw = self._communicator.raw
        wall, cpu = time.perf_counter(), time.process_time()
        while not raw.Iprobe(0, _OVER):
            time.sleep(_PAUSE)
        raw.Recv(np.empty(0, np.uint8), 0, _OVER)
        self.slept += time.perf_counter() - wall
        self.used += time.process_time() - cpu


class _Stopwatch:
    """A step on the ranks of a group: this rank's seconds of each turn, its CPU seconds and its page faults."""

    def __init__(self, group: Communicator, step: _Step) -> None:
        self.group, self._step = group, step
        self.loops = 1
        self.seconds: list[float] = []
        self.cpu = self.wall = 0.0
        self.faults = 0

    def take(self) -> None:
        """Take one sample: steps in a row, from a barrier on."""
        for _ in range(_WARM_TURN):
            self._step()
        self.group.barrier()
        faults, cpu, start = minor_page_faults(), time.process_time(), time.perf_counter_ns()
        for _ in range(self.loops):
            self._step()
        wall = (time.perf_counter_ns() - start) * 1e-9
        self.faults += minor_page_faults() - faults
        self.cpu += time.process_time() - cpu
        self.wall += wall
        self.seconds.append(wall / self.loops)

    def prepare(self) -> None:
        """Warm up and set the number of steps of a sample, alike on all ranks of the group."""
        for _ in range(_WARM):
            self.take()
        self.loops = math.ceil(SAMPLE_SECONDS / self.longest().min())
        self.seconds.clear()
        self.cpu = self.wall = 0.0
        self.faults = 0

    def longest(self) -> Array:
        """Return the slowest rank's seconds of each turn."""
        return largest(self.group, self.seconds)

    def told(self) -> dict[str, Any]:
        """Return what a measurement needs, the same on all ranks of the group."""
        return {
            "seconds": self.longest().tolist(),
            "loops": self.loops,
            "cpu_per_wall": least(self.group, self.cpu / self.wall),
            "faults": float(largest(self.group, [self.faults / (len(self.seconds) * self.loops)])[0]),
            "oversubscribed": self.group.oversubscribed,
        }


def scaling_times(
    communicator: Communicator,
    name: str,
    cases: Sequence[tuple[bool, int]],
    counts: Sequence[int],
    repeats: int,
    at_most_seconds: float,
    fewest: int,
    seed: int,
) -> dict[str, Any]:
    """Return, on rank 0, the samples of training steps on the first 1, 2, ... ranks; all cases and counts take turns.

    One rank trains without a communicator, as a program for one process does.

    Args:
        cases: of each, whether it is weak scaling, and examples: those of each rank if it is, else of all together.
    """
    turns = Turns(communicator, counts)
    watches = {
        (case, count): _Stopwatch(group, scaled_step(name, batch * count if weak else batch, group))
        for case, (weak, batch) in enumerate(cases)
        for count, group in turns.groups.items()
    }
    taken = [(case, count) for case in range(len(cases)) for count in counts]

    def act_in(case: int, act: Callable[[_Stopwatch], None]) -> Callable[[Communicator], None]:
        return lambda group: act(watches[case, group.size])

    def rounds(number: int, act: Callable[[_Stopwatch], None]) -> None:
        for index in np.random.default_rng((seed, number)).permutation(len(taken)):
            case, count = taken[index]
            turns.take(count, act_in(case, act))

    with collector_off():
        rounds(0, _Stopwatch.prepare)
        for done in rounds_within(communicator, repeats, fewest, at_most_seconds):
            rounds(done + 1, _Stopwatch.take)
    told: list[dict[str, Any]] = [{} for _ in cases]
    for (case, count), watch in watches.items():
        told[case][str(count)] = watch.told()
    idle = turns.used / turns.slept if turns.slept else 0.0
    return {"cases": told, "idle_cpu_share": float(largest(communicator, [idle])[0])}


def overlap_times(
    communicator: Communicator,
    name: str,
    batch: int,
    bucket_bytes: int,
    repeats: int,
    at_most_seconds: float,
    fewest: int,
    seed: int,
) -> dict[str, Any]:
    """Return the samples of steps whose gradients go during the backward, after it, or nowhere, in turns."""
    steps = {
        "overlapped": _parallel_step(name, batch, communicator, bucket_bytes=bucket_bytes, overlap=True),
        "apart": _parallel_step(name, batch, communicator, bucket_bytes=bucket_bytes, overlap=False),
        "alone": _plain_step(name, *_share(name, batch, communicator)),
    }
    watches = {way: _Stopwatch(communicator, step) for way, step in steps.items()}
    with collector_off():
        for watch in watches.values():
            watch.prepare()
        order = np.random.default_rng(seed)
        for _ in rounds_within(communicator, repeats, fewest, at_most_seconds):
            for way in order.permutation(list(watches)):
                watches[way].take()
    return {way: watch.told() for way, watch in watches.items()}


def kept_memory(communicator: Communicator, name: str, batch: int) -> dict[str, Any]:
    """Return the bytes that this rank keeps after a step, without and with sharded state, by way and kind."""
    found: dict[str, Any] = {}
    for way, sharded in (("replicated", False), ("sharded", True)):
        trainer, inputs, targets = _trainer(name, batch, communicator, sharded=sharded)
        trainer.step((inputs, targets))
        found[way] = {**_kept(trainer), "step_peak": _peak_of(partial(trainer.step, (inputs, targets)))}
    return found


def scaled_step(name: str, batch: int, group: Communicator) -> _Step:
    """Return a training step of ``batch`` examples on a group's ranks; plain, without communication, on one rank."""
    if group.size == 1:
        return _plain_step(name, *_share(name, batch, group))
    return _parallel_step(name, batch, group)


def checked_batch(batch: int, ranks: int) -> None:
    """Raise ValueError unless there is an example for each rank."""
    if batch < ranks:
        raise ValueError(f"batch must leave each of {ranks} ranks an example, but is {batch}")


def _share(name: str, batch: int, group: Communicator) -> tuple[Any, Array]:
    """Return this rank's inputs and targets of a batch."""
    entry = models.entry(name)
    own = slice(batch * group.rank // group.size, batch * (group.rank + 1) // group.size)
    return models.as_input(entry.example_input(batch)[own]), entry.example_target(batch)[own]


def _plain_step(name: str, inputs: Any, targets: Array) -> _Step:
    model = models.entry(name).make(0).train()
    loss, optimizer = models.loss_function(), AdamW(model.parameters())
    return lambda: train_step(model, inputs, targets, loss, optimizer)


def _trainer(name: str, batch: int, group: Communicator, **options: Any) -> tuple[DataParallel, Any, Array]:
    model: Module = models.entry(name).make(0).train()
    terms = counted_targets(datasets.IGNORED)
    trainer = DataParallel(model, AdamW, models.loss_function(), group, terms=terms, **options)
    return trainer, *_share(name, batch, group)


def _parallel_step(name: str, batch: int, group: Communicator, **options: Any) -> _Step:
    trainer, inputs, targets = _trainer(name, batch, group, **options)
    return lambda: trainer.step((inputs, targets))


def _kept(trainer: DataParallel) -> dict[str, int]:
    """Return the bytes of the arrays that lie behind parameters, their gradients and the optimizer's state."""
    parameters = trainer.model.parameters()
    return {
        "parameters": owned_bytes([parameter.data for parameter in parameters]),
        "gradients": owned_bytes([parameter.grad for parameter in parameters if parameter.grad is not None]),
        "optimizer_state": owned_bytes(list(trainer.optimizer.state_arrays())),
    }


def owned_bytes(arrays: Sequence[Array]) -> int:
    """Return the bytes of the arrays that own the memory of ``arrays``, each counted once however many look into it."""
    owners: dict[int, int] = {}
    for array in arrays:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        owners[id(owner)] = owner.nbytes
    return sum(owners.values())


def _peak_of(step: _Step) -> int:
    """Return by how many bytes a step's memory goes beyond what was there before it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before
