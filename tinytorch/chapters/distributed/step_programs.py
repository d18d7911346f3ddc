"""Programs of ranks for `step_times`: training steps of a model of the zoo, timed in turns or weighed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import largest, rounds_within
from tinytorch.perf.distributed.ranks.turns import Step, Stopwatch, Turns
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.updates import MakeOptimizer
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

#: Of the order of turns.
SEED = 0
#: A step: ranks, examples of all together, and options of `DataParallel`, or None for each rank by itself.
Case = tuple[int, int, dict[str, Any] | None]


def step_times(
    communicator: Communicator, name: str, cases: Sequence[Case], repeats: int, at_most_seconds: float
) -> dict[str, Any]:
    """Return, on rank 0, the samples of training steps of a model of the zoo, which all take turns."""
    turns = Turns(communicator, sorted({count for count, _, _ in cases}))
    watches = {
        case: Stopwatch(turns.groups[count], _step(name, batch, turns.groups[count], how))
        for case, (count, batch, how) in enumerate(cases)
        if count in turns.groups
    }

    def one_round(number: int, act: Callable[[Stopwatch], None]) -> None:
        for case in np.random.default_rng((SEED, number)).permutation(len(cases)).tolist():
            turns.take(cases[case][0], lambda _, case=case: act(watches[case]))  # type: ignore[misc]

    with collector_off():
        one_round(0, Stopwatch.prepare)
        for done in rounds_within(communicator, repeats, FEWEST_FOR_INTERVAL, at_most_seconds):
            one_round(done + 1, Stopwatch.take)
    told = [watch.told() for watch in watches.values()]
    idle = turns.used / turns.slept if turns.slept else 0.0
    return {"steps": told, "idle_cpu_share": float(largest(communicator, [idle])[0])}


def kept_memory(communicator: Communicator, name: str, batch: int) -> dict[str, Any]:
    """Return the bytes that this rank keeps after a step, without and with sharded state, by way and kind."""
    found: dict[str, Any] = {}
    for way, sharded in (("whole", False), ("sharded", True)):
        trainer = data_parallel(name, communicator, sharded=sharded)
        trainer.step(share(name, batch, communicator))
        parameters = trainer.model.parameters()
        found[way] = {
            "parameters": owned_bytes([parameter.data for parameter in parameters]),
            "gradients": owned_bytes([parameter.grad for parameter in parameters if parameter.grad is not None]),
            "optimizer_state": owned_bytes(list(trainer.optimizer.state_arrays())),
        }
    return found


def owned_bytes(arrays: Sequence[Array]) -> int:
    """Return the bytes of the arrays that own the memory of ``arrays``, each counted once however many look into it."""
    owners: dict[int, int] = {}
    for array in arrays:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        owners[id(owner)] = owner.nbytes
    return sum(owners.values())


def check_batch(batch: int, ranks: int) -> None:
    """Raise ValueError unless there are several ranks and an example for each."""
    if not 2 <= ranks <= batch:
        raise ValueError(f"ranks must be at least 2, and batch leave each an example, not {ranks} and {batch}")


def share(name: str, batch: int, group: Communicator) -> tuple[Any, Array]:
    """Return this rank's inputs and targets of a batch."""
    entry = models.entry(name)
    own = slice(batch * group.rank // group.size, batch * (group.rank + 1) // group.size)
    return models.as_input(entry.example_input(batch)[own]), entry.example_target(batch)[own]


def data_parallel(
    name: str, group: Communicator, make_optimizer: MakeOptimizer = AdamW, **options: Any
) -> DataParallel:
    """Return the data-parallel training of a model of the zoo."""
    model, terms = models.entry(name).make(0).train(), counted_targets(datasets.IGNORED)
    return DataParallel(model, make_optimizer, models.loss_function(), group, terms=terms, **options)


def _step(name: str, batch: int, group: Communicator, how: dict[str, Any] | None) -> Step:
    own = share(name, batch, group)
    if how is not None:
        return partial(data_parallel(name, group, **how).step, own)
    model = models.entry(name).make(0).train()
    return partial(train_step, model, *own, models.loss_function(), AdamW(model.parameters()))
