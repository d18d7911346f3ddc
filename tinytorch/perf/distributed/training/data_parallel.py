"""Data-parallel training: every rank has the model and a part of each batch, and gradients are summed over ranks.

Each rank scales its loss by its share of the batch, so that the sum of the ranks' gradients is the gradient of the mean
loss over the whole batch: the one that a single process would have. Loss and parameters are those of a single process
to rounding, which differs because sums are made in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.core.autograd import when_ready
from tinytorch.core.layers import Dropout
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending, check_agreement, model_facts
from tinytorch.perf.distributed.training.updates import (
    Bucket,
    MakeOptimizer,
    Replicated,
    Sharded,
    bucketed,
    settings,
    slots,
)

#: Loss of a prediction and its targets, a mean over the terms that `Terms` counts.
Loss = Callable[[Tensor, Any], Tensor]
#: How many terms the mean of a loss runs over, given the targets.
Terms = Callable[[Any], float]


def examples(targets: Any) -> float:
    """Return the length of the first axis: the terms of a loss that is a mean over examples of one size."""
    return float(len(targets))


def counted_targets(ignore_index: int) -> Terms:
    """Return the terms of `CrossEntropyLoss` with this ``ignore_index``: the targets that are another number.

    Examples:
        >>> from tinytorch.perf.distributed import counted_targets
        >>> counted_targets(-100)([2, -100, 0])
        2.0
    """

    def terms(targets: Any) -> float:
        given = np.asarray(targets._data if isinstance(targets, Tensor) else targets)
        return float(np.count_nonzero(given != ignore_index))

    return terms


class GradientSum:
    """One step's gradients on their way: `ready` hears of each one, `finish` returns when all sums are there.

    A bucket begins once all of its gradients are there and all buckets before it have begun: MPI takes the first call
    on one rank for the first on every other.
    """

    def __init__(self, buckets: Sequence[Bucket], update: Replicated | Sharded, overlap: bool) -> None:
        self._buckets, self._update, self._overlap = buckets, update, overlap
        self._place = {
            id(parameter): number for number, bucket in enumerate(buckets) for parameter in bucket.parameters
        }
        self._missing = [{id(parameter) for parameter in bucket.parameters} for bucket in buckets]
        self._begun: list[Pending] = []
        #: Ids of the parameters that had a gradient on this rank; complete after `finish`.
        self.used: set[int] = set()

    def ready(self, leaf: Tensor) -> None:
        """Hear that a leaf's gradient is whole; begin what can begin, and move on what has begun."""
        number = self._place.get(id(leaf))
        if number is None or not self._overlap:
            return
        self._missing[number].discard(id(leaf))
        while len(self._begun) < len(self._buckets) and not self._missing[len(self._begun)]:
            self._begin_next()
        for pending in self._begun:
            if not pending.arrived:
                pending.done()
                break  # they end in their order

    def finish(self) -> list[Array]:
        """Return each bucket's sum; begin those whose gradients did not all come, which count as zero."""
        while len(self._begun) < len(self._buckets):
            self._begin_next()
        return [pending.wait() for pending in self._begun]

    def _begin_next(self) -> None:
        number = len(self._begun)
        bucket = self._buckets[number]
        flat = self._update.room(number)
        for parameter, part in bucket.views(flat):
            if parameter.grad is None:
                part[...] = 0
            else:
                part[...] = parameter.grad
                self.used.add(id(parameter))
                parameter.grad = None  # its memory may serve the next layer's
        self._begun.append(self._update.begin(number, flat))


class DataParallel:
    """Trains ``model`` on the ranks of ``communicator``, which all make it the same way and call `step` together.

    Parameters and buffers of rank 0 are handed to all others first. A model with `BatchNorm2d` normalizes each rank's
    part by itself, which is not what one process does. A `Dropout` draws masks of its own on each rank.

    Args:
        make_optimizer: from parameters to an optimizer that treats each element for itself, as all of ours do.
        loss: a mean over the terms that ``terms`` counts.
        bucket_bytes: at which a bucket of gradients is sent off.
        overlap: begin to send while backward runs, and not after it.
        sharded: each rank keeps the optimizer's state of a shard only.
        terms: of the loss, given targets.

    Attributes:
        optimizer: this rank's; its ``lr`` may be changed between steps, on all ranks alike.

    Raises:
        ValueError: if the ranks do not agree on the model, the optimizer, a setting or a version, or the model has no
            parameters; on all ranks.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.core.losses import MSELoss
        >>> from tinytorch.core.optimizers import SGD
        >>> from tinytorch.perf.distributed import DataParallel, world
        >>> model = Linear(2, 1, seed=0)
        >>> trainer = DataParallel(model, lambda parameters: SGD(parameters, lr=0.01), MSELoss(), world())
        >>> batch = Tensor([[1, 2]]), Tensor([[3]])
        >>> first = trainer.step(batch)
        >>> trainer.step(batch) < first
        True
    """

    def __init__(
        self,
        model: Module,
        make_optimizer: MakeOptimizer,
        loss: Loss,
        communicator: Communicator,
        *,
        bucket_bytes: int = 2**20,
        overlap: bool = True,
        sharded: bool = False,
        terms: Terms = examples,
    ) -> None:
        self.model, self.loss = model, loss
        self._terms, self._overlap = terms, overlap
        self._communicator = communicator
        #: Buckets have a group of their own, so that they may begin between a model's own calls.
        self._apart = communicator.duplicate()
        self._parameters = model.parameters()
        chosen = {"bucket_bytes": bucket_bytes, "overlap": overlap, "sharded": sharded}
        check_agreement(communicator, {**chosen, **model_facts(model)})
        self._buckets = bucketed(self._parameters, bucket_bytes, communicator.size)
        for _, tensor in [*model.named_parameters(), *model.named_buffers()]:
            communicator.broadcast(tensor.data)
        self.update: Replicated | Sharded
        if sharded:
            self.update = Sharded(self._buckets, make_optimizer, self._apart)
        else:
            self.update = Replicated(self._parameters, self._buckets, make_optimizer, self._apart)
        check_agreement(
            communicator, {f"optimizer's {name}": value for name, value in settings(self.optimizer).items()}
        )
        draw_apart(model, communicator.rank)

    @property
    def optimizer(self) -> Optimizer:
        """This rank's optimizer."""
        return self.update.optimizer

    def step(self, batch: tuple[Any, ...]) -> float:
        """Make one step on this rank's (inputs, targets); return the mean loss over all ranks before it.

        A part without a term of the loss, such as one of padding alone, adds nothing. An error that only one rank has
        ends all of them; see ``Communicator.together``.

        Raises:
            ValueError: if no rank has a term of the loss, on all ranks.
            FloatingPointError: if the loss is not finite on some rank, on all ranks; no parameter is changed then.
        """
        with self._communicator.together():
            inputs, targets = batch
            count = self._terms(targets)
            counting = self._communicator.begin_all_reduce(np.array([count]))
            self.model.zero_grad()
            # A part without a term has no loss, but takes part in what the model's layers send to other ranks.
            output = self.model(inputs)
            value = self.loss(output, targets) if count else output
            total = float(counting.wait()[0])
        if not total > 0:
            raise ValueError("targets must have at least one term of the loss on some rank, but have none")
        with self._communicator.together():
            sums = GradientSum(self._buckets, self.update, self._overlap)
            with when_ready(sums.ready):
                value.backward(np.full(value.shape, count / total, value.dtype))
            flats = sums.finish()
            # The step is made once all ranks know the loss of all and which parameters have a gradient on any rank.
            part = value.item() * count / total if count else 0.0
            own = np.array([part, *(id(each) in sums.used for each in self._parameters)], np.float64)
            mean, *times = self._communicator.all_reduce(own).tolist()
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss became {mean}: lower lr, now {self.optimizer.lr}")
        self.update.apply(flats, {id(each) for each, ranks in zip(self._parameters, times, strict=True) if ranks})
        return float(mean)

    def gather_state(self) -> dict[str, Array]:
        """Return the state of model and optimizer by name; all ranks call it. Any number of ranks can restore it."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        state = {f"model/{name}": array for name, array in self.model.state_dict().items()}
        state |= {f"steps/{names[key]}": np.array(count) for key, count in self.update.steps().items()}
        for number, slot in enumerate(self.update.gather_state()):
            state |= {f"optimizer/{number}/{names[key]}": array for key, array in slot.items()}
        return state

    def check_state(self, state: Mapping[str, Array]) -> None:
        """Raise ValueError, before anything is changed, unless ``state`` has the names and shapes of `gather_state`."""
        shapes = {f"model/{name}": tensor.shape for name, tensor in self.model.named_buffers()}
        for name, parameter in self.model.named_parameters():
            numbers = range(len(slots(self.optimizer)))
            shapes |= dict.fromkeys([f"model/{name}", *(f"optimizer/{n}/{name}" for n in numbers)], parameter.shape)
            shapes[f"steps/{name}"] = ()
        missing, unknown = sorted(shapes.keys() - state.keys()), sorted(state.keys() - shapes.keys())
        if missing or unknown:
            raise ValueError(f"state does not fit: missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
        for name, shape in shapes.items():
            if state[name].shape != shape:
                raise ValueError(f"state[{name!r}] must have shape {shape}, not {state[name].shape}")

    def restore_state(self, state: Mapping[str, Array]) -> None:
        """Restore the state that `gather_state` returned, on any number of ranks.

        Raises:
            ValueError: if it does not fit the model or the optimizer; nothing is changed then.
        """
        self.check_state(state)
        parameters = list(self.model.named_parameters())
        self.update.restore_steps({id(parameter): int(state[f"steps/{name}"]) for name, parameter in parameters})
        self.model.load_state_dict(
            {name.removeprefix("model/"): array for name, array in state.items() if name.startswith("model/")}
        )
        numbers = range(len(slots(self.optimizer)))
        self.update.restore_state(
            [{id(parameter): state[f"optimizer/{n}/{name}"] for name, parameter in parameters} for n in numbers]
        )


def draw_apart(model: Module, rank: int) -> None:
    """Give each `Dropout` of a rank another part of its generator's stream: the same masks would repeat one another."""
    apart: dict[int, np.random.Generator] = {}
    for _, module in model.named_modules():
        if isinstance(module, Dropout) and rank:
            given = module.generator
            if id(given) not in apart:
                apart[id(given)] = np.random.Generator(given.bit_generator.jumped(rank))  # type: ignore[attr-defined]
            module.generator = apart[id(given)]
