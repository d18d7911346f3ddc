"""Updates of parameters from summed gradients: each rank all of them, or each rank its shard of every bucket.

Parameters lie side by side in buckets, so that a few large messages carry what many small ones would. Sharded state is
stage 1 of S. Rajbhandari et al., ZeRO, 2020 (arXiv:1910.02054): gradients are summed with a reduce-scatter, each rank
changes its shard with the only copy of that shard's state, and an all-gather hands the new parameters round. A rank
keeps 1 / ranks of the state, and gradients of a whole bucket only while they are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.optimizers import Optimizer
from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending

#: Makes the optimizer of the parameters that it is given.
MakeOptimizer = Callable[[Sequence[Parameter]], Optimizer]
#: Settings that training itself changes; all others must be the same where it continues.
CHANGING = frozenset({"lr"})


@dataclass(frozen=True)
class Bucket:
    """Parameters of one dtype, side by side.

    Attributes:
        parameters: in the order in which they lie.
        starts: where each begins, in elements.
        length: elements, with the padding at the end that makes it a multiple of the ranks.
    """

    parameters: tuple[Parameter, ...]
    starts: tuple[int, ...]
    length: int

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Of its parameters."""
        return self.parameters[0].dtype

    def views(self, flat: Array) -> Iterator[tuple[Parameter, Array]]:
        """Yield each parameter and its part of ``flat`` (length,), in the parameter's shape."""
        for parameter, start in zip(self.parameters, self.starts, strict=True):
            yield parameter, flat[start : start + parameter.size].reshape(parameter.shape)

    def shard(self, flat: Array, rank: int, size: int) -> Array:
        """Return the part of ``flat`` (length,) that belongs to a rank."""
        part = self.length // size
        return flat[rank * part : (rank + 1) * part]


def bucketed(parameters: Sequence[Parameter], nbytes: int, ranks: int) -> list[Bucket]:
    """Return the parameters in buckets, the last ones first, as a backward makes their gradients about in that order.

    A bucket is closed when it holds ``nbytes`` or more, or the dtype changes. Each is padded to a multiple of ``ranks``
    elements.

    Raises:
        ValueError: if ``nbytes`` is below 1.
    """
    if nbytes < 1:
        raise ValueError(f"bucket_bytes must be at least 1, not {nbytes}")
    groups: list[list[Parameter]] = []
    held = 0
    for parameter in reversed(parameters):
        if not groups or held >= nbytes or groups[-1][0].dtype != parameter.dtype:
            groups.append([])
            held = 0
        groups[-1].append(parameter)
        held += parameter.nbytes
    return [_bucket(group, ranks) for group in groups]


def _bucket(group: list[Parameter], ranks: int) -> Bucket:
    ends = np.cumsum([parameter.size for parameter in group]).tolist()
    return Bucket(tuple(group), (0, *ends[:-1]), -(-ends[-1] // ranks) * ranks)


def slots(optimizer: Optimizer) -> list[list[Array]]:
    """Return the state's own arrays, one list a slot (velocity; first and second moment), in the parameters' order.

    Raises:
        ValueError: if the optimizer does not keep the same slots for every parameter, each of the parameter's shape.
    """
    arrays, parameters = list(optimizer.state_arrays()), optimizer.parameters
    made = [arrays[start : start + len(parameters)] for start in range(0, len(arrays), len(parameters))]
    shapes = [parameter.shape for parameter in parameters]
    if any([array.shape for array in slot] != shapes for slot in made):
        raise ValueError(f"optimizer must keep the same arrays for each parameter, of the shapes {shapes}")
    return made


def settings(optimizer: Optimizer) -> dict[str, Any]:
    """Return the optimizer's class and its numbers by name, as JSON gives them back."""
    numbers = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(optimizer).items()
        if isinstance(value, (int, float, tuple))
    }
    return {"class": type(optimizer).__name__, **numbers}


def check_settings(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Raise ValueError unless all settings but those that training changes are the ``saved`` ones."""
    own = settings(optimizer)
    for name in sorted(own.keys() | saved.keys()):
        if name not in CHANGING and own.get(name) != saved.get(name):
            raise ValueError(
                f"the optimizer's {name} must be {saved.get(name)!r}, as in the checkpoint, not {own.get(name)!r}"
            )


def restore_settings(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    """Set the numbers that training changes."""
    for name in CHANGING & settings(optimizer).keys():
        setattr(optimizer, name, saved[name])


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

    def steps(self) -> dict[int, int]:
        """Return the steps that each parameter has made, by its id."""
        return dict(zip(map(id, self._parameters), self.optimizer.steps, strict=True))

    def restore_steps(self, steps: Mapping[int, int]) -> None:
        """Take over what `steps` returned."""
        self.optimizer.steps = [steps[id(parameter)] for parameter in self._parameters]

    def restore_state(self, state: Sequence[Mapping[int, Array]]) -> None:
        """Restore the state that `gather_state` returned, on any number of ranks."""
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
        unused = [each.shape for bucket in self._buckets for each in bucket.parameters if id(each) not in used]
        if unused:
            raise ValueError(
                f"a parameter of shape {unused[0]} got no gradient on any rank, and a shard cannot leave it out: train "
                "without sharded state"
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

    def steps(self) -> dict[int, int]:
        """Return the steps that each parameter has made, by its id: those of its bucket."""
        pairs = zip(self._buckets, self.optimizer.steps, strict=True)
        return {id(parameter): count for bucket, count in pairs for parameter in bucket.parameters}

    def restore_steps(self, steps: Mapping[int, int]) -> None:
        """Take over what `steps` returned.

        Raises:
            ValueError: if parameters of one bucket have made different numbers of steps.
        """
        found = [sorted({steps[id(parameter)] for parameter in bucket.parameters}) for bucket in self._buckets]
        for counts in found:
            if len(counts) > 1:
                raise ValueError(
                    f"parameters that share a bucket must have made as many steps, not {counts}: train without sharded "
                    "state"
                )
        self.optimizer.steps = [count for (count,) in found]

    def gather_state(self) -> list[dict[int, Array]]:
        """Return each slot of the optimizer's state, whole, by the id of the parameter; all ranks call it."""
        state = []
        for slot in slots(self.optimizer):
            flats = [np.zeros(bucket.length, own.dtype) for bucket, own in zip(self._buckets, slot, strict=True)]
            for bucket, flat, own in zip(self._buckets, flats, slot, strict=True):
                self._own(bucket, flat)[...] = own
            self._hand_round(flats)
            views = (view for bucket, flat in zip(self._buckets, flats, strict=True) for view in bucket.views(flat))
            state.append({id(parameter): part for parameter, part in views})
        return state

    def restore_state(self, state: Sequence[Mapping[int, Array]]) -> None:
        """Restore the state that `gather_state` returned, on any number of ranks."""
        for slot, saved in zip(slots(self.optimizer), state, strict=True):
            for bucket, own in zip(self._buckets, slot, strict=True):
                flat = np.zeros(bucket.length, own.dtype)
                for parameter, part in bucket.views(flat):
                    part[...] = saved[id(parameter)]
                own[...] = self._own(bucket, flat)
