"""Programs of ranks that validate predictions: parts of the GPT's step on one rank, and steps that are split, in turns.

All of it runs in one launch, so that a machine that is busy meanwhile slows all alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.measuring import rounds_within
from tinytorch.perf.distributed.ranks.turns import Step, Stopwatch, Turns
from tinytorch.perf.distributed.training.data_parallel import DataParallel
from tinytorch.perf.distributed.training.pipeline import GPTStage, Pipeline
from tinytorch.perf.distributed.training.tensor_parallel import tensor_parallel
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

#: Rounds of warm-up before those that are told.
WARMUP = 2
#: In the name of a split: whose gradients travel while the backward runs, and whose state is shared out.
OVERLAPPED, SHARDED = "overlapped", "sharded"


def _optimizer(parameters: Iterable[Parameter]) -> AdamW:
    return AdamW(parameters, lr=1e-4)


def _batch(examples: int, part: int = 0, parts: int = 1) -> tuple[Array, Array]:
    """Return inputs and targets of one of the parts of a batch of random tokens, over all positions of the GPT."""
    model = models.gpt()
    tokens = np.random.default_rng(0).integers(model.vocab_size, size=(examples, model.max_seq_len + 1))
    own = tokens[part * examples // parts : (part + 1) * examples // parts]
    return own[:, :-1], own[:, 1:]


def validation_times(
    communicator: Communicator,
    counts: list[int],
    batches: list[int],
    examples: int,
    micro: int,
    bucket_bytes: int,
    rounds: int,
    at_most_seconds: float,
) -> dict[str, Any]:
    """Return, on rank 0, what the parts of a step take on one rank and what steps take on more, in turns.

    The ``parts`` are, forward and backward, "block n", "cut n", what a tensor split cuts of it, and "model n" for n of
    ``batches``; and of the whole batch "forward", "backward", "update" and "step". The ``splits`` are those of
    `_splits` by number of ranks.
    """
    turns = Turns(communicator, [1, *counts])
    watches: dict[int, dict[str, Stopwatch]] = {}
    if 1 in turns.groups:
        watches[1] = _parts(turns.groups[1], batches, examples)
    for count in counts:  # those that are not in a group wait here, and only here, for the making of its models
        if count in turns.groups:
            made = _splits(turns.groups[count], examples, micro, bucket_bytes)
            watches[count] = {name: Stopwatch(turns.groups[count], step) for name, step in made}
        communicator.barrier()

    def one_round(number: int) -> None:
        for count in (1, *counts):
            turns.take(count, lambda group: _take_all(watches[group.size], number))

    with collector_off():
        for number in range(-WARMUP, 0):
            one_round(number)
        for watch in (watch for found in watches.values() for watch in found.values()):
            watch.forget()
        for number in rounds_within(communicator, rounds, FEWEST_FOR_INTERVAL, at_most_seconds):
            one_round(number)
    told = {str(count): {name: watch.told() for name, watch in found.items()} for count, found in watches.items()}
    return {} if communicator.rank else {"parts": told.pop("1"), "splits": told}


def _take_all(watches: dict[str, Stopwatch], number: int) -> None:
    """Take one sample of each, in another order in each round, so that none always follows the same one."""
    order = list(watches)
    start = number % len(order)
    for name in [*order[start:], *order[:start]]:
        watches[name].take()


def _parts(group: Communicator, batches: Sequence[int], examples: int) -> dict[str, Stopwatch]:
    """Return what is timed on one rank."""
    model, loss = models.gpt(), CrossEntropyLoss()
    optimizer, batch = _optimizer(model.parameters()), _batch(examples)
    values: list[Tensor] = []

    def forward() -> None:
        model.zero_grad()
        values[:] = [loss(model(batch[0]), batch[1])]

    def backward() -> None:
        values.pop().backward()

    def both() -> None:
        forward()
        backward()

    watches = {
        "step": Stopwatch(group, partial(train_step, model, *batch, loss, optimizer)),
        "forward": Stopwatch(group, forward),
        "backward": Stopwatch(group, backward, before=forward),
        "update": Stopwatch(group, optimizer.step, before=both),
    }
    for count in batches:
        watches |= {f"{what} {count}": Stopwatch(group, run) for what, run in _part_steps(model, loss, count).items()}
    return watches


def _part_steps(model: GPT, loss: CrossEntropyLoss, count: int) -> dict[str, Step]:
    """Return forward and backward of a block, of what a tensor split cuts of it, and of a model, of some examples."""
    block, (inputs, targets) = model.blocks[0], _batch(count)
    shape = (count, model.max_seq_len, model.embed_dim)
    flow = np.random.default_rng(1).normal(size=shape).astype(np.float32)

    def both_ways(*parts: Module) -> None:
        model.zero_grad()
        for part in parts:
            part(Tensor(flow, requires_grad=True)).backward(flow)

    def whole() -> None:
        model.zero_grad()
        loss(model(inputs), targets).backward()

    return {"block": partial(both_ways, block), "cut": partial(both_ways, block.attention, block.mlp), "model": whole}


def _splits(group: Communicator, examples: int, micro: int, bucket_bytes: int) -> Iterator[tuple[str, Step]]:
    """Yield a step split over a group in every way that this package can and the model allows."""
    size, rank, heads, loss = group.size, group.rank, models.gpt().blocks[0].attention.num_heads, CrossEntropyLoss()
    if examples % size == 0:
        for sharded in (False, True):
            for overlap in (False, True):
                name = " ".join(["data", *[SHARDED] * sharded, *[OVERLAPPED] * overlap])
                how = {"sharded": sharded, "overlap": overlap, "bucket_bytes": bucket_bytes}
                trainer = DataParallel(models.gpt(), _optimizer, loss, group, **how)  # type: ignore[arg-type]
                yield name, partial(trainer.step, _batch(examples, rank, size))
    if heads % size == 0:
        model = tensor_parallel(models.gpt(), group)
        yield "tensor", partial(train_step, model, *_batch(examples), loss, _optimizer(model.parameters()))
    if size >= 4 and size % 2 == 0 and heads % (size // 2) == 0 and examples % 2 == 0:
        part, column = divmod(rank, size // 2)
        row, across = tensor_parallel(models.gpt(), group.split(part)), group.split(column)
        trainer = DataParallel(row, _optimizer, loss, across, overlap=False, bucket_bytes=bucket_bytes)
        yield "data and tensor", partial(trainer.step, _batch(examples, part, 2))
    if size <= len(models.gpt().blocks):
        stage = GPTStage(models.gpt(), rank, size)
        pipeline = Pipeline(stage, loss, group, micro=micro, tied=stage.tied)
        yield "pipeline", partial(pipeline.step, _optimizer(stage.parameters()), *_batch(examples))
