"""What ranks of one machine show exactly: sums and weights to the last bit, and bytes by sharding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.perf.distributed.collectives.timing import ring_all_reduce
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.measuring import Counted, Derived

#: Training steps of each way, and numbers of each rank whose sums are compared.
_STEPS, _NUMBERS = 3, 100_000


def trained(name: str, batch: int, ranks: int, rows: Mapping[str, str]) -> tuple[Derived, list[dict[str, Any]]]:
    """Return the share of bytes that a rank keeps with the optimizer's state shared out, and which bits differ.

    The model is the zoo's ``name``; ranks need no core for each. ``rows`` names the comparisons of `compared_sums` and
    "sharded", the weights of both trainings.
    """
    found = launch(kept_memory, ranks, {"name": name, "batch": batch}, threads=1)
    whole, sharded = (
        Counted(max(one[way] for one in found), "B", f"what the fullest rank keeps, {way}")
        for way in ("whole", "sharded")
    )
    told = {words: found[0]["bits"][key] for key, words in rows.items()}
    return sharded.over(whole, "bytes kept with the state shared out", "%"), [
        {
            "what": words,
            "numbers": Counted(numbers, "1", "numbers compared"),
            "differ": Counted(differ / numbers, "%", "share of the numbers whose bits differ"),
            "largest": Counted(largest, "1", "largest difference, relative to the largest number"),
        }
        for words, (numbers, differ, largest) in told.items()
    ]


def compared_sums(communicator: Communicator) -> dict[str, list[float]]:
    """Return how many numbers there are, how many bits of them differ and by how much, in rings of float32.

    "pair" is the sum of the first two ranks beside a + b, "ring" that of all beside a sum in the order of ranks, and
    "ranks" the ring's sum on the last rank beside the first one's.
    """
    draws = [np.random.default_rng(rank).standard_normal(_NUMBERS, np.float32) for rank in range(communicator.size)]
    rank, size = communicator.rank, communicator.size
    pair = communicator.split(int(rank > 1))
    by_pair = ring_all_reduce(draws[rank], pair) if rank < 2 else draws[rank]
    by_ring = ring_all_reduce(draws[rank], communicator)
    copies = np.empty((size, _NUMBERS), by_ring.dtype) if rank == 0 else None
    communicator.raw.Gather(by_ring, copies)
    return {
        "pair": differing(by_pair, draws[0] + draws[1]),
        "ring": differing(by_ring, sum(draws[1:], draws[0])),
        "ranks": differing(by_ring if copies is None else copies[-1], by_ring),
    }


def differing(one: Array, other: Array) -> list[float]:
    """Return how many numbers there are, how many differ, and the largest difference over the largest number."""
    apart = np.abs(one.astype(np.float64) - other)
    return [float(one.size), float(np.count_nonzero(apart)), float(apart.max() / np.abs(other).max())]


def kept_memory(communicator: Communicator, name: str, batch: int) -> dict[str, Any]:
    """Return the bytes that this rank keeps after steps, "whole" and "sharded", padding included, and `bits`.

    These are `compared_sums`, and "sharded", the weights of the two ways beside each other.
    """
    found: dict[str, Any] = {}
    weights = []
    entry, rank, size = models.entry(name), communicator.rank, communicator.size
    own = slice(batch * rank // size, batch * (rank + 1) // size)
    inputs, targets = models.as_input(entry.example_input(batch)[own]), entry.example_target(batch)[own]
    for way in ("whole", "sharded"):
        model, terms = entry.make(0).train(), counted_targets(datasets.IGNORED)
        trainer = DataParallel(
            model, AdamW, models.loss_function(), communicator, terms=terms, sharded=way == "sharded"
        )
        for _ in range(_STEPS):
            trainer.step((inputs, targets))
        parameters = trainer.model.parameters()
        kept = [parameter.data for parameter in parameters], [each.grad for each in parameters if each.grad is not None]
        found[way] = sum(map(owned_bytes, (*kept, list(trainer.optimizer.state_arrays()))))
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
