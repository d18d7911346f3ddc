"""Experiments of the page on profiling: the models under study, phases and memory of a training step, its samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import AdamW
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Measurement, Statistic, from_turns, interleave, own_loop, quotient
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Sample, of_sides
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import NOT_NAMED, between_rows
from tinytorch.perf.profiling.passes import count_flops, count_parameters
from tinytorch.perf.profiling.shares import (
    WARM_RUNS,
    recorded_runs,
    shares,
    time_between_ops,
)

#: Width of the transformer of `architectures`, and of the hidden layer of its MLP.
TRANSFORMER_WIDTH, MLP_WIDTH = 32, 128
#: `spread_of_means_over_medians` of blocks of many samples with normal noise, of which the mean is the steadier one.
NORMAL_SPREAD = math.sqrt(2 / math.pi)


@dataclass(frozen=True, slots=True)
class StudiedModel:
    """A trained model of the zoo in numbers.

    Attributes:
        parameters: how many numbers training changed.
        flops: of contractions in a forward pass of one example.
        score: share (0 to 1) of ``examples`` held-out ones that it gets right.
        score_name: what the score is called.
    """

    parameters: int
    flops: int
    score: float
    examples: int
    score_name: str


def studied(trained: Mapping[str, Module]) -> dict[str, StudiedModel]:
    """Return each of the ``trained`` models of the zoo in numbers, scored on examples that it has not seen."""
    found = {}
    for name, model in trained.items():
        right = models.correct(model, name)
        entry = models.entry(name)
        flops = count_flops(model, entry.example_input(1).shape)
        found[name] = StudiedModel(count_parameters(model), flops, float(right.mean()), len(right), entry.score)
    return found


def shares_by_model(
    trained: Mapping[str, Module],
    inputs: Mapping[str, Any],
    kinds: Mapping[str, Callable[[Event], bool]],
    repeats: int = 21,
) -> dict[str, dict[str, Measurement]]:
    """Return, for each model, `shares.shares` of the kinds of ops in its forward pass, no gradients."""
    found = {}
    with no_grad():
        for name, model in trained.items():
            found[name] = shares(partial(model, inputs[name]), kinds, repeats=repeats)
    return found


def between_ops(gpt: Module) -> dict[int, Measurement]:
    """Return, for 64 sequences and for one, `shares.time_between_ops` of the GPT's forward pass."""
    found = {}
    with no_grad():
        for batch in (64, 1):
            found[batch] = time_between_ops(partial(gpt, models.example("gpt", batch)))
    return found


def training_shares(training: Callable[[], object], repeats: int = 12) -> dict[str, Measurement]:
    """Return which share of a training loop's time ops take, its regions and modules, and what has no name."""
    found: dict[str, list[float]] = {"operations": [], "between": [], "unnamed": []}
    profiles, conditions = recorded_runs(training, repeats)
    for profile in profiles:
        shares_of = {row.op: row.share or 0.0 for row in between_rows(profile)}
        unnamed, between = shares_of[NOT_NAMED], sum(shares_of.values())
        for part, share in zip(found, (1 - between, between - unnamed, unnamed), strict=True):
            found[part].append(share)
    conditions = replace(conditions, part_of="the run's time")
    return {
        part: with_between_run_spread(Measurement(f"share of {part}", tuple(each), "%", conditions))
        for part, each in found.items()
    }


def phases(name: str, batch: int, repeats: int = 30, model: Module | None = None) -> dict[str, Measurement]:
    """Return the wall time of forward, backward and optimizer step of a training step, in seconds.

    The three samples of one step stand at the same index of ``forward``, ``backward`` and ``update``; the loss
    belongs to the forward, the optimizer is AdamW.

    Args:
        name: the model of the zoo whose data and loss are used.
        batch: examples in a step.
        repeats: steps that are timed, after three that are not.
        model: trained in place of a fresh one of the zoo.
    """
    entry = models.entry(name)
    model = (entry.make(0) if model is None else model).train()
    inputs, targets = models.as_input(entry.example_input(batch)), entry.example_target(batch)
    loss, optimizer = models.loss_function(), AdamW(model.parameters())
    readings: list[tuple[int, int, int, int]] = []
    with own_loop(WARM_RUNS) as loop:
        for _ in range(WARM_RUNS + repeats):
            optimizer.zero_grad()
            start = time.perf_counter_ns()
            value = loss(model(inputs), targets)
            forward_end = time.perf_counter_ns()
            value.backward()
            backward_end = time.perf_counter_ns()
            optimizer.step()
            readings.append((start, forward_end, backward_end, time.perf_counter_ns()))
    times = np.diff(np.array(readings[WARM_RUNS:]), axis=1) * 1e-9
    turns = dict(zip(("forward", "backward", "update"), times.T, strict=True))
    return from_turns(turns, sample="steps", conditions=loop.conditions)


def training_memory(name: str, batch: int) -> MemoryProfile:
    """Return the memory of one whole training step of a model of the zoo, after one that is not recorded.

    The optimizer is AdamW; parameters and the optimizer's state stand before the step begins.
    """
    entry = models.entry(name)
    model = entry.make(0).train()
    inputs, targets = models.as_input(entry.example_input(batch)), entry.example_target(batch)
    loss, optimizer = models.loss_function(), AdamW(model.parameters())
    train_step(model, inputs, targets, loss, optimizer)
    optimizer.zero_grad()
    with recording_memory(model, optimizer) as memory:
        train_step(model, inputs, targets, loss, optimizer)
    return memory.profile


def inference_memory(name: str, batches: Sequence[int]) -> dict[int, int]:
    """Return, by batch, the most bytes that stood at one moment of a forward pass of a trained model, no gradients.

    Parameters and the input count with it; each batch runs once before the run that is recorded.
    """
    model, found = models.trained(name), {}
    with no_grad():
        for batch in batches:
            inputs = models.example(name, batch)
            model(inputs)
            with recording_memory(model) as memory:
                model(inputs)
            found[batch] = memory.profile.peak
    return found


def busiest_fifth(
    trained: Mapping[str, Module], inputs: Mapping[str, Any], repeats: int = 15
) -> dict[str, Measurement]:
    """Return, for each model, the share of the ops' time that the busiest fifth of its calls of ops take.

    A fifth of a number of calls that five does not divide is rounded up. Each run of ``repeats`` is one sample.
    """
    found = {}
    with no_grad():
        for name, model in trained.items():
            samples = []
            profiles, conditions = recorded_runs(partial(model, inputs[name]), repeats)
            for profile in profiles:
                spent = sorted((event.self_ns for event in profile.events), reverse=True)
                samples.append(sum(spent[: -(-len(spent) // 5)]) / sum(spent))
            conditions = replace(conditions, part_of="the time in operations")
            taken = Measurement(f"share of the busiest fifth of calls, {name}", tuple(samples), "%", conditions)
            found[name] = with_between_run_spread(taken)
    return found


def architectures(side: int) -> dict[str, tuple[Module, Tensor]]:
    """Return an MLP, a CNN and a transformer, untrained, each with an input of ``side`` x ``side`` numbers.

    The MLP has one hidden layer, the CNN two convolutions. To the transformer each number is a position: a linear layer
    widens it, and one block follows.
    """
    count, draw = side * side, np.random.default_rng(0)
    image = Tensor(draw.standard_normal((1, 1, side, side), np.float32))
    mlp = Sequential(Flatten(), Linear(count, MLP_WIDTH, seed=0), ReLU(), Linear(MLP_WIDTH, 10, seed=0))
    cnn = Sequential(
        Conv2d(1, 16, 3, padding=1, seed=0),
        ReLU(),
        Conv2d(16, 16, 3, padding=1, seed=0),
        ReLU(),
        Flatten(),
        Linear(16 * count, 10, seed=0),
    )
    transformer = Sequential(
        Linear(1, TRANSFORMER_WIDTH, seed=0),
        TransformerBlock(TRANSFORMER_WIDTH, 4, seed=0),
        Linear(TRANSFORMER_WIDTH, 10, seed=0),
    )
    positions = Tensor(image.data.reshape(1, count, 1))
    made = {"mlp": (mlp, image), "cnn": (cnn, image), "transformer": (transformer, positions)}
    return {name: (model.eval(), inputs) for name, (model, inputs) in made.items()}


@dataclass(frozen=True, slots=True)
class Grown:
    """Three architectures on an input of one size: FLOPs and seconds of a forward pass, by name."""

    flops: Mapping[str, int]
    seconds: Mapping[str, Measurement]


def growing_inputs(sides: Sequence[int]) -> dict[int, Grown]:
    """Return, by the count of numbers in the input, what `architectures` of these sides cost, all taken in turns."""
    made = {side: architectures(side) for side in sides}
    with no_grad():
        seconds = interleave(
            {
                f"{name} {side}": partial(model, inputs)
                for side, models in made.items()
                for name, (model, inputs) in models.items()
            }
        )
    return {
        side * side: Grown(
            {name: count_flops(model, inputs.shape) for name, (model, inputs) in models.items()},
            {name: seconds[f"{name} {side}"] for name in models},
        )
        for side, models in made.items()
    }


def attention_of_training(length: int, repeats: int = 6) -> Measurement:
    """Return the share of attention, projections included, in the time of ops of a training step.

    The step is forward and backward of one block of BERT-base's size, 768 wide with 12 heads, on one sequence.
    """
    block = TransformerBlock(768, 12, seed=0)
    inputs = Tensor(np.ones((1, length, 768), np.float32), requires_grad=True)
    found = shares(
        lambda: block(inputs).sum().backward(), {"module": lambda e: ".attention" in e.path}, repeats=repeats
    )
    return found["module"]


def spread_of_means_over_medians(samples: Sequence[float], block: int = 20, groups: int = 60) -> Measurement:
    """Return how much more means of ``block`` samples scatter than medians of the same samples.

    The samples are cut into ``groups``; in each the standard deviation of its blocks' means over that of its
    blocks' medians is one sample of the result. Above 1 the median is the steadier of the two in the middle group.
    What shifts whole blocks, such as drift, shifts both alike and takes the ratio towards 1.

    Two things ask for groups. The ratio has to be known: of normal noise mean and median have the squared correlation
    2/π, and so the log of two spreads of k blocks the standard deviation √((1 - 2/π) / (k - 1)), 0.2 for ten. The
    median of n such groups is known to 1.96 · 1.25 · 0.2 / √n, less than the log of `NORMAL_SPREAD`, 0.23, from five
    groups on. And the judge has to rule out noise that wanders: of independent series it passes about one half at 15
    groups, 98 of 100 at 40, and all of 400 that were tried at 60.

    Raises:
        ValueError: if there are not enough samples for two blocks in each group.
    """
    blocks = len(samples) // (block * groups)
    if blocks < 2:
        raise ValueError(f"samples must be at least {2 * block * groups} for {groups} groups, not {len(samples)}")
    cut = np.asarray(samples)[: groups * blocks * block].reshape(groups, blocks, block)
    means, medians = cut.mean(axis=2).std(axis=1), np.median(cut, axis=2).std(axis=1)
    name = f"spread of means of {block} over spread of medians"
    return Measurement(name, tuple(means / medians), "", Conditions(sample=Sample.BLOCKS))


def seconds_by_law(few: tuple[int, Measurement], more: tuple[int, Measurement], batch: int) -> Statistic | None:
    """Return what a larger ``batch`` takes if time grows by as much with each example; None if that may be nothing.

    Args:
        few, more: two smaller batches, each with its seconds.
        batch: examples, more than of the others.
    """
    (small, low), (middle, high) = few, more
    far = (batch - small) / (middle - small)
    value = far * high.median - (far - 1) * low.median
    longer = math.hypot(far * (high.interval.high - high.median), (far - 1) * (low.median - low.interval.low))
    shorter = math.hypot(far * (high.median - high.interval.low), (far - 1) * (low.interval.high - low.median))
    if shorter >= value:
        return None
    known = min(low.interval.confidence, high.interval.confidence)
    sides = {"more": high.conditions, "few": low.conditions}
    conditions = of_sides(sides).within_bounds("by the line through two medians")
    bounds = Interval(value - shorter, value + longer, known)
    return Statistic(f"{batch} examples by law", (value,), "s", conditions, value=value, bounds=bounds)


def half_batch(few: tuple[int, Measurement], more: tuple[int, Measurement]) -> Statistic | None:
    """Return the batch whose examples take as long as the call itself; None if either may take nothing.

    With r, the time of ``more`` over that of ``few``, it is (more - few r) / (r - 1).
    """
    (small, low), (middle, high) = few, more
    grown = quotient(high, low, "time of more examples over that of few")
    ends = [
        (middle - small * times) / (times - 1) if times > 1 else math.inf
        for times in (grown.median, grown.interval.low, grown.interval.high)
    ]
    value, most, least = ends
    if math.inf in ends or value <= 0:
        return None
    bounds = Interval(max(least, 0.0), most, grown.interval.confidence)
    conditions = grown.conditions.within_bounds("from a quotient of two medians")
    return Statistic("half of the limit", (value,), "examples", conditions, value=value, bounds=bounds)
