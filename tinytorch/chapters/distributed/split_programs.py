"""Programs of ranks that validate predictions: parts of a step on one rank alone, and whole steps split in each way.

All of it takes turns in one launch, so that a machine that is busy meanwhile slows all alike.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tinytorch.chapters.distributed.step_programs import Turns
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW, Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import largest, least, rounds_within
from tinytorch.perf.distributed.training.data_parallel import DataParallel
from tinytorch.perf.distributed.training.pipeline import GPTStage, Pipeline
from tinytorch.perf.distributed.training.tensor_parallel import tensor_parallel

#: Rounds of warm-up before those that are told.
WARMUP = 2
#: In the name of a split whose gradients travel while the backward runs.
OVERLAPPED = "overlapped"
Shape = Sequence[int]


class _Watched:
    """Something that ranks of a group run together: this rank's seconds of each round, and its CPU time meanwhile."""

    def __init__(
        self, group: Communicator, run: Callable[[], Any], before: Callable[[], Any] | None = None, state: int = 0
    ) -> None:
        self._group, self._run, self._before = group, run, before or run
        self.seconds: list[float] = []
        self.state = state
        self._cpu = 0.0

    def take(self, counts: bool) -> None:
        """Run it warm from a barrier on; ``counts`` says whether the time is kept."""
        self._before()
        self._group.barrier()
        cpu, start = time.process_time(), time.perf_counter()
        self._run()
        if counts:
            self.seconds.append(time.perf_counter() - start)
            self._cpu += time.process_time() - cpu

    def told(self) -> dict[str, Any]:
        """Return the slowest rank's seconds of each round, the least CPU time over wall time, and the largest state."""
        group = self._group
        return {
            "seconds": largest(group, self.seconds).tolist(),
            "cpu_per_wall": least(group, self._cpu / sum(self.seconds)),
            "state": int(largest(group, [self.state])[0]),
            "oversubscribed": group.oversubscribed,
        }


Watches = dict[str, _Watched]


def _loss() -> CrossEntropyLoss:
    return CrossEntropyLoss()


def _optimizer(parameters: Iterable[Parameter]) -> AdamW:
    return AdamW(parameters, lr=1e-4)


def _model(shape: Shape) -> GPT:
    vocabulary, width, blocks, heads, positions = shape
    return GPT(vocabulary, width, blocks, heads, positions, seed=0)


def _batch(shape: Shape, examples: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(0)
    tokens = draw.integers(shape[0], size=(examples, shape[4] + 1))
    return tokens[:, :-1], tokens[:, 1:]


def validation_times(
    communicator: Communicator,
    counts: list[int],
    shape: list[int],
    batches: list[int],
    examples: int,
    micro: int,
    bucket_bytes: int,
    rounds: int,
    fewest: int,
    at_most_seconds: float,
) -> dict[str, Any]:
    """Return, on rank 0, what the parts of a step take on one rank and what steps take on more, in turns.

    Args:
        counts: numbers of ranks to split a step over, each above 1 and at most those that run.
        shape: vocabulary, width, blocks, heads, positions of a `GPT`.
        batches: numbers of examples to time each part with.
        examples: of the whole batch.
        micro: micro-batches of a pipeline. bucket_bytes: of gradients that are sent together.
        rounds: samples of each; fewer, but at least ``fewest``, when ``at_most_seconds`` are over.

    Returns:
        ``parts`` by name: forward and backward of "block n", "cut n" (what a tensor split cuts of a block) and "model
        n" for n of ``batches``; "forward" and "backward" of the whole batch, "update", and the whole "step".
        ``splits`` by number of ranks and name: "data" with "sharded" and "overlapped", "tensor", "pipeline" and, from
        four ranks on, "data and tensor", as far as the model lets. Each of both holds seconds, CPU time over wall time
        and bytes of optimizer state.
        ``kept`` bytes of activations of an example, of "block", "cut" and "model".
    """
    turns = Turns(communicator, [1, *counts])
    watches: dict[int, Watches] = {}
    for count, group in turns.groups.items():
        if count == 1:
            watches[1] = _parts(group, shape, batches, examples)
    for count in counts:  # those that are not in a group wait here, and only here, for the making of its models
        if count in turns.groups:
            watches[count] = _splits(turns.groups[count], shape, examples, micro, bucket_bytes)
        communicator.barrier()

    def one_round(number: int) -> None:
        for count in (1, *counts):
            turns.take(count, lambda group: _take_all(watches[group.size], number))

    gc.collect()
    gc.disable()  # for the rest of this process, which ends soon; perf.timing would bring SciPy to every rank
    for number in range(-WARMUP, 0):
        one_round(number)
    for number in rounds_within(communicator, rounds, fewest, at_most_seconds):
        one_round(number)
    told = {str(count): {name: watch.told() for name, watch in found.items()} for count, found in watches.items()}
    if communicator.rank:
        return {}
    return {"parts": told.pop("1"), "splits": told, "kept": _kept(_model(shape), shape, batches[-1])}


def _take_all(watches: Watches, number: int) -> None:
    """Take one sample of each, in another order in each round; negative rounds do not count."""
    order = list(watches)
    start = number % len(order)
    for name in [*order[start:], *order[:start]]:  # so that none always follows the same one
        watches[name].take(number >= 0)


def _parts(group: Communicator, shape: Shape, batches: Sequence[int], examples: int) -> Watches:
    """Return what is timed on one rank."""
    model = _model(shape)
    optimizer, loss = _optimizer(model.parameters()), _loss()
    inputs, targets = _batch(shape, examples)

    values: list[Tensor] = []

    def step() -> None:
        train_step(model, inputs, targets, loss, optimizer)

    def forward() -> None:
        model.zero_grad()
        values[:] = [loss(model(inputs), targets)]

    def backward() -> None:
        values.pop().backward()

    def both() -> None:
        forward()
        backward()

    watches = {
        "step": _Watched(group, step, state=optimizer.state_nbytes()),
        "forward": _Watched(group, forward),
        "backward": _Watched(group, backward, before=forward),
        "update": _Watched(group, optimizer.step, before=both),
    }
    for count in batches:
        steps = _part_steps(model, loss, shape, count)
        watches |= {name: _Watched(group, step) for name, step in steps.items()}
    return watches


def _part_steps(model: GPT, loss: CrossEntropyLoss, shape: Shape, count: int) -> dict[str, Callable[[], Any]]:
    """Return what is timed of a model with ``count`` examples."""
    block = model.blocks[0]
    inputs, targets = _batch(shape, count)
    flow = np.random.default_rng(1).normal(size=(count, shape[4], shape[1])).astype(np.float32)

    def both_ways(*parts: Module) -> None:
        model.zero_grad()
        for part in parts:
            part(Tensor(flow, requires_grad=True)).backward(flow)

    def whole() -> None:
        model.zero_grad()
        loss(model(inputs), targets).backward()

    return {
        f"block {count}": lambda: both_ways(block),
        f"cut {count}": lambda: both_ways(block.attention, block.mlp),
        f"model {count}": whole,
    }


def _kept(model: GPT, shape: Shape, count: int) -> dict[str, float]:
    """Return the bytes of an example that a forward leaves for its backward, by what Python's allocators were asked."""
    block = model.blocks[0]
    inputs, targets = _batch(shape, count)
    flow = Tensor(np.ones((count, shape[4], shape[1]), np.float32), requires_grad=True)
    forwards: dict[str, Callable[[], Any]] = {
        "block": lambda: block(flow),
        "cut": lambda: (block.attention(flow), block.mlp(flow)),
        "model": lambda: _loss()(model(inputs), targets),
    }
    found = {}
    for name, forward in forwards.items():
        forward()
        tracemalloc.start()
        result = forward()
        found[name] = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
        del result
    return found


def _splits(group: Communicator, shape: Shape, examples: int, micro: int, bucket_bytes: int) -> Watches:
    """Return a step split over a group in every way that this package can and the model allows."""
    made = (
        *_data_steps(group, shape, examples, bucket_bytes),
        *_tensor_steps(group, shape, examples, bucket_bytes),
        *_pipeline_steps(group, shape, examples, micro),
    )
    return {name: _Watched(group, step, state=optimizer.state_nbytes()) for name, step, optimizer in made}


Made = list[tuple[str, Callable[[], Any], Optimizer]]


def _part_of_batch(shape: Shape, examples: int, part: int, parts: int) -> tuple[Array, Array]:
    inputs, targets = _batch(shape, examples)
    own = slice(part * examples // parts, (part + 1) * examples // parts)
    return inputs[own], targets[own]


def _data_step(
    model: Module, communicator: Communicator, batch: tuple[Array, Array], **how: Any
) -> tuple[Callable[[], float], Optimizer]:
    trainer = DataParallel(model, _optimizer, _loss(), communicator, **how)
    return (lambda: trainer.step(batch)), trainer.optimizer


def _data_steps(communicator: Communicator, shape: Shape, examples: int, bucket_bytes: int) -> Made:
    """Return the ways of a data split; none if the batch cannot be shared out."""
    if examples % communicator.size:
        return []
    batch = _part_of_batch(shape, examples, communicator.rank, communicator.size)
    made: Made = []
    for sharded in (False, True):
        for overlap in (False, True):
            name = " ".join(["data", *["sharded"] * sharded, *[OVERLAPPED] * overlap])
            how = {"sharded": sharded, "overlap": overlap, "bucket_bytes": bucket_bytes}
            made.append((name, *_data_step(_model(shape), communicator, batch, **how)))
    return made


def _tensor_steps(communicator: Communicator, shape: Shape, examples: int, bucket_bytes: int) -> Made:
    """Return the tensor split over all ranks, and beside two data parts; none where heads cannot be shared out."""
    heads, size = shape[3], communicator.size
    made: Made = []
    if heads % size == 0:
        model, loss = tensor_parallel(_model(shape), communicator), _loss()
        optimizer = _optimizer(model.parameters())
        batch = _batch(shape, examples)
        made.append(("tensor", lambda: train_step(model, *batch, loss, optimizer), optimizer))
    if size >= 4 and size % 2 == 0 and heads % (size // 2) == 0 and examples % 2 == 0:
        near = size // 2
        part, column = divmod(communicator.rank, near)
        row = tensor_parallel(_model(shape), communicator.split(part))
        own = _part_of_batch(shape, examples, part, 2)
        how = {"overlap": False, "bucket_bytes": bucket_bytes}
        made.append(("data and tensor", *_data_step(row, communicator.split(column), own, **how)))
    return made


def _pipeline_steps(communicator: Communicator, shape: Shape, examples: int, micro: int) -> Made:
    """Return the pipeline; none where there are fewer blocks than ranks."""
    if communicator.size > shape[2]:
        return []
    stage = GPTStage(_model(shape), communicator.rank, communicator.size)
    optimizer = _optimizer(stage.parameters())
    pipeline = Pipeline(stage, _loss(), communicator, micro=micro, tied=stage.tied)
    batch = _batch(shape, examples)
    return [("pipeline", lambda: pipeline.step(optimizer, *batch), optimizer)]
