"""What ranks run to validate predictions: the parts of a step on one rank alone, and whole steps split in each way.

Top-level functions of a `Communicator`, as `launch` wants them. Each rank tells its own seconds of every round, and
what belongs together is timed in turns.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW, Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.communicator import Communicator
from tinytorch.perf.distributed.data_parallel import DataParallel
from tinytorch.perf.distributed.pipeline import Pipeline
from tinytorch.perf.distributed.stages import GPTStage
from tinytorch.perf.distributed.tensor_parallel import tensor_parallel

#: Rounds that are run before those that are told.
WARMUP = 3
#: In the name of a split whose gradients travel while the backward runs.
OVERLAPPED = "overlapped"
Shape = Sequence[int]
Steps = dict[str, Callable[[], Any]]


def _loss() -> CrossEntropyLoss:
    return CrossEntropyLoss()


def _optimizer(parameters: Any) -> AdamW:
    return AdamW(parameters, lr=1e-4)


def _model(shape: Shape) -> GPT:
    vocabulary, width, blocks, heads, positions = shape
    return GPT(vocabulary, width, blocks, heads, positions, seed=0)


def _batch(shape: Shape, examples: int) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    tokens = draw.integers(shape[0], size=(examples, shape[4] + 1))
    return tokens[:, :-1], tokens[:, 1:]


def _in_turns(steps: Mapping[str, Callable[[], Any]], rounds: int, communicator: Communicator) -> dict[str, Any]:
    """Return the seconds of each step in each round, (rounds,); all ranks begin a step together."""
    seconds = {name: np.empty(rounds) for name in steps}
    gc.collect()
    gc.disable()
    try:
        for number in range(-WARMUP, rounds):
            order = list(steps)
            start = number % len(order)
            for name in [*order[start:], *order[:start]]:  # so that none always follows the same one
                communicator.barrier()
                before = time.perf_counter()
                steps[name]()
                if number >= 0:
                    seconds[name][number] = time.perf_counter() - before
    finally:
        gc.enable()
    return seconds


def timed_parts(
    communicator: Communicator, shape: list[int], batches: list[int], examples: int, rounds: int
) -> dict[str, Any]:
    """Return what the parts of a step take on one rank alone, and what they keep.

    Args:
        shape: vocabulary, width, blocks, heads, positions of a `GPT`.
        batches: numbers of examples to time each part with.
        examples: of the whole batch.
        rounds: samples of each.

    Returns:
        ``seconds/...`` (rounds,) of forward and backward: "block n", "cut n" (what a tensor split cuts of a block),
        "model n" and "forward n" for n of ``batches``; of "update" and the whole "step". ``kept/...``: bytes of
        activations of an example, of "block", "cut" and "model".
    """
    model = _model(shape)
    optimizer, loss = _optimizer(model.parameters()), _loss()
    inputs, targets = _batch(shape, examples)
    train_step(model, inputs, targets, loss, optimizer)
    steps: Steps = {"step": lambda: train_step(model, inputs, targets, loss, optimizer)}
    for count in batches:
        steps |= _part_steps(model, loss, shape, count)
    seconds = _in_turns(steps, rounds, communicator)
    seconds["update"] = _update_seconds(model, optimizer, rounds, lambda: loss(model(inputs), targets).backward())
    kept = _kept(model, shape, batches[-1])
    return {f"seconds/{name}": values for name, values in seconds.items()} | {f"kept/{k}": v for k, v in kept.items()}


def _part_steps(model: GPT, loss: CrossEntropyLoss, shape: Shape, count: int) -> Steps:
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
        f"forward {count}": lambda: loss(model(inputs), targets),
    }


def _update_seconds(model: Module, optimizer: Optimizer, rounds: int, backward: Callable[[], Any]) -> Any:
    """Return the seconds of the optimizer's step, (rounds,), each after a backward, as in training."""
    seconds = np.empty(rounds)
    for number in range(rounds):
        model.zero_grad()
        backward()
        before = time.perf_counter()
        optimizer.step()
        seconds[number] = time.perf_counter() - before
    return seconds


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


def timed_splits(
    communicator: Communicator, shape: list[int], examples: int, micro: int, bucket_bytes: int, rounds: int
) -> dict[str, Any]:
    """Return what a step takes when all ranks share it out, in every way that this package can and the model allows.

    Args:
        shape, examples, rounds: as `timed_parts`.
        micro: micro-batches of a pipeline.
        bucket_bytes: of gradients that are sent together.

    Returns:
        ``seconds/...`` (rounds,) of this rank, and ``state/...``, the bytes of optimizer state that it keeps, by
        "data", "data overlapped", "data sharded", "data sharded overlapped", "tensor", "pipeline" and, from four ranks
        on, "data and tensor"; and whether the ranks are ``oversubscribed``.
    """
    steps: Steps = {}
    optimizers: dict[str, Optimizer] = {}
    for name, step, optimizer in (
        *_data_steps(communicator, shape, examples, bucket_bytes),
        *_tensor_steps(communicator, shape, examples, bucket_bytes),
        *_pipeline_steps(communicator, shape, examples, micro),
    ):
        steps[name], optimizers[name] = step, optimizer
    seconds = _in_turns(steps, rounds, communicator)
    return {
        **{f"seconds/{name}": values for name, values in seconds.items()},
        **{f"state/{name}": optimizer.state_nbytes() for name, optimizer in optimizers.items()},
        "oversubscribed": communicator.oversubscribed,
    }


Made = list[tuple[str, Callable[[], Any], Optimizer]]


def _part_of_batch(shape: Shape, examples: int, part: int, parts: int) -> tuple[Any, Any]:
    inputs, targets = _batch(shape, examples)
    own = slice(part * examples // parts, (part + 1) * examples // parts)
    return inputs[own], targets[own]


def _data_step(model: Module, communicator: Communicator, batch: tuple[Any, Any], **how: Any) -> tuple[Any, Optimizer]:
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
