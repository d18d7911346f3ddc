"""How parameters are changed from summed gradients: each rank all of them, or each rank its shard.

Sharded optimizer state is stage 1 of S. Rajbhandari et al., ZeRO, 2020 (arXiv:1910.02054): gradients are summed with a
reduce-scatter, each rank changes its shard with the only copy of that shard's state, and an all-gather hands the new
parameters round. A rank keeps 1 / ranks of the state, and gradients of a whole bucket only while they are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.optimizers import Optimizer
from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending
from tinytorch.perf.distributed.training.buckets import Bucket
from tinytorch.perf.distributed.training.optimizer_state import slots

#: Makes the optimizer of the parameters that it is given.
MakeOptimizer = Callable[[Sequence[Parameter]], Optimizer]


class Replicated:
    """Every rank keeps all of the optimizer's state and makes the same step."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        buckets: Sequence[Bucket],
        make: MakeOptimizer,
        communicator: Communicator,
    ) -> None:
        self._parameters, self._buckets, self._communicator = parameters, buckets, communicator
        self._flats = [np.zeros(bucket.length, bucket.dtype) for bucket in buckets]
        self.optimizer = make(parameters)

    def room(self, number: int) -> Array:
        """Return the flat array of a bucket's gradients, the same in every step."""
        return self._flats[number]

    def begin(self, number: int, flat: Array) -> Pending:
        """Begin the all-reduce of a bucket, in place."""
        del number
        return self._communicator.begin_all_reduce(flat, out=flat)

    def apply(self, sums: Sequence[Array], used: set[int]) -> None:
        """Make the step, given each bucket's sum and the ids of the parameters that have a gradient on any rank."""
        for bucket, flat in zip(self._buckets, sums, strict=True):
            for parameter, part in bucket.views(flat):
                parameter.grad = part if id(parameter) in used else None
        self.optimizer.step()

    def gather_state(self) -> list[dict[int, Array]]:
        """Return each slot of the optimizer's state, by the id of the parameter."""
        return [dict(zip(map(id, self._parameters), slot, strict=True)) for slot in slots(self.optimizer)]

    def restore_state(self, state: Sequence[Mapping[int, Array]]) -> None:
        """Take over what `gather_state` returned, on any number of ranks."""
        for slot, saved in zip(slots(self.optimizer), state, strict=True):
            for parameter, array in zip(self._parameters, slot, strict=True):
                array[...] = saved[id(parameter)]


class Sharded:
    """Every rank keeps the optimizer's state of its shard of each bucket."""

    def __init__(self, buckets: Sequence[Bucket], make: MakeOptimizer, communicator: Communicator) -> None:
        self._buckets, self._communicator = buckets, communicator
        self._flats = [np.zeros(bucket.length, bucket.dtype) for bucket in buckets]
        self._shards = []
        for bucket, flat in zip(buckets, self._flats, strict=True):
            for parameter, part in bucket.views(flat):
                part[...] = parameter.data
                parameter.data = part
            shard = Parameter(np.empty(0, bucket.dtype))
            shard.data = self._own(bucket, flat)
            self._shards.append(shard)
        self.optimizer = make(self._shards)

    def _own(self, bucket: Bucket, flat: Array) -> Array:
        return bucket.shard(flat, self._communicator.rank, self._communicator.size)

    def room(self, number: int) -> Array:
        """Return a flat array for a bucket's gradients, which lives until its sum is there."""
        return np.zeros(self._buckets[number].length, self._buckets[number].dtype)

    def begin(self, number: int, flat: Array) -> Pending:
        """Begin the reduce-scatter of a bucket."""
        del number
        return self._communicator.begin_reduce_scatter(flat)

    def apply(self, sums: Sequence[Array], used: set[int]) -> None:
        """Change the own shards, then gather all.

        Raises:
            ValueError: if a parameter has no gradient on any rank; no parameter is changed then.
        """
        for bucket in self._buckets:
            for parameter in bucket.parameters:
                if id(parameter) not in used:
                    raise ValueError(
                        f"a parameter of shape {parameter.shape} got no gradient on any rank, and a shard cannot leave "
                        "it out: train without sharded state"
                    )
        for shard, own in zip(self._shards, sums, strict=True):
            shard.grad = own
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._hand_round(self._flats)

    def _hand_round(self, flats: Sequence[Array]) -> None:
        """Fill every bucket's flat array with each rank's shard of it."""
        pairs = list(zip(self._buckets, flats, strict=True))
        begun = [self._communicator.begin_all_gather(self._own(bucket, flat), out=flat) for bucket, flat in pairs]
        for pending in begun:
            pending.wait()

    def gather_state(self) -> list[dict[int, Array]]:
        """Return each slot of the optimizer's state, whole, by the id of the parameter; all ranks call it."""
        state = []
        for slot in slots(self.optimizer):
            flats = [np.zeros(bucket.length, bucket.dtype) for bucket in self._buckets]
            for bucket, flat, own in zip(self._buckets, flats, slot, strict=True):
                self._own(bucket, flat)[...] = own
            self._hand_round(flats)
            state.append(
                {
                    id(parameter): part
                    for bucket, flat in zip(self._buckets, flats, strict=True)
                    for parameter, part in bucket.views(flat)
                }
            )
        return state

    def restore_state(self, state: Sequence[Mapping[int, Array]]) -> None:
        """Take over what `gather_state` returned, on any number of ranks."""
        for slot, saved in zip(slots(self.optimizer), state, strict=True):
            for bucket, own in zip(self._buckets, slot, strict=True):
                flat = np.zeros(bucket.length, bucket.dtype)
                for parameter, part in bucket.views(flat):
                    part[...] = saved[id(parameter)]
                own[...] = self._own(bucket, flat)
