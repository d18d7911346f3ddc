"""Experiments of the page on profiling: the models under study, phases and memory of a training step, its samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.repeats import as_repeated
from tinytorch.perf.profiling.passes import count_flops, count_parameters
from tinytorch.perf.profiling.shares import WARM_RUNS, cpu_and_wall, one_by_one, shares, time_between_ops


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
    with collector_off():
        began = cpu_and_wall()
        for _ in range(WARM_RUNS + repeats):
            optimizer.zero_grad()
            start = time.perf_counter_ns()
            value = loss(model(inputs), targets)
            forward_end = time.perf_counter_ns()
            value.backward()
            backward_end = time.perf_counter_ns()
            optimizer.step()
            readings.append((start, forward_end, backward_end, time.perf_counter_ns()))
        how = {**one_by_one(began), "interleaved_with": ["forward", "backward", "update"]}
    times = np.diff(np.array(readings[WARM_RUNS:]), axis=1) * 1e-9
    return {
        phase: as_repeated(Measurement(phase, tuple(times[:, index]), "s", how))
        for index, phase in enumerate(("forward", "backward", "update"))
    }


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


def spread_of_means_over_medians(samples: Sequence[float], block: int = 20, groups: int = 15) -> Measurement:
    """Return how much more means of ``block`` samples scatter than medians of the same samples.

    The samples are cut into ``groups``; in each the standard deviation of its blocks' means over that of its
    blocks' medians is one sample of the result. Above 1 the median is the steadier of the two.

    Raises:
        ValueError: if there are not enough samples for two blocks in each group.
    """
    blocks = len(samples) // (block * groups)
    if blocks < 2:
        raise ValueError(f"samples must be at least {2 * block * groups} for {groups} groups, not {len(samples)}")
    cut = np.asarray(samples)[: groups * blocks * block].reshape(groups, blocks, block)
    means, medians = cut.mean(axis=2).std(axis=1), np.median(cut, axis=2).std(axis=1)
    name = f"spread of means of {block} over spread of medians"
    return Measurement(name, tuple(means / medians), "", {"block": block, "groups": groups})
