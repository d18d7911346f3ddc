"""Programs of ranks for `studies`: sums whose bits are compared, and training steps that are weighed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.perf.distributed.collectives.timing import ring_all_reduce
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.updates import MakeOptimizer

#: Of the order of turns, and training steps of each way.
SEED, _STEPS = 0, 3
#: Numbers of each rank whose sums are compared.
_NUMBERS = 100_000


def compared_sums(communicator: Communicator) -> dict[str, list[float]]:
    """Return how many numbers there are, how many bits of them differ and by how much, in rings of float32.

    "pair" is the sum of the first two ranks beside a + b, "ring" that of all beside a sum in the order of ranks,
    "whole" the same of whole numbers, and "ranks" the ring's sum on the last rank beside the first one's.
    """
    draws = [np.random.default_rng(rank).standard_normal(_NUMBERS, np.float32) for rank in range(communicator.size)]
    rank, size = communicator.rank, communicator.size
    pair = communicator.split(int(rank > 1))
    by_pair = ring_all_reduce(draws[rank], pair) if rank < 2 else draws[rank]
    by_ring = ring_all_reduce(draws[rank], communicator)
    whole = [np.rint(1000 * draw) for draw in draws]
    copies = communicator.raw.gather(by_ring)
    by_whole = ring_all_reduce(whole[rank], communicator)
    return {
        "pair": differing(by_pair, draws[0] + draws[1]),
        "ring": differing(by_ring, sum(draws[1:], draws[0])),
        "whole": differing(by_whole, sum(whole[1:], whole[0])),
        "ranks": differing(copies[size - 1] if copies else by_ring, by_ring),
    }


def differing(one: Array, other: Array) -> list[float]:
    """Return how many numbers there are, how many differ, and the largest difference over the largest number."""
    apart = np.abs(one.astype(np.float64) - other)
    return [float(one.size), float(np.count_nonzero(apart)), float(apart.max() / np.abs(other).max())]


def kept_memory(communicator: Communicator, name: str, batch: int) -> dict[str, Any]:
    """Return the bytes that this rank keeps after steps, without and with sharded state, by way and kind, and `bits`.

    These are `compared_sums`, and "sharded", the weights of the two ways beside each other.
    """
    found: dict[str, Any] = {}
    weights = []
    for way, sharded in (("whole", False), ("sharded", True)):
        trainer = data_parallel(name, communicator, sharded=sharded)
        for _ in range(_STEPS):
            trainer.step(share(name, batch, communicator))
        parameters = trainer.model.parameters()
        found[way] = {
            "parameters": owned_bytes([parameter.data for parameter in parameters]),
            "gradients": owned_bytes([parameter.grad for parameter in parameters if parameter.grad is not None]),
            "optimizer_state": owned_bytes(list(trainer.optimizer.state_arrays())),
        }
        weights.append(np.concatenate([parameter.data.ravel() for parameter in parameters]))
    found["bits"] = {**compared_sums(communicator), "sharded": differing(*weights)}
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
