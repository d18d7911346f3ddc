"""Models of the zoo: the phases of a training step in time, and its memory."""

from __future__ import annotations

import time

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.measuring import Measurement, from_turns, own_loop
from tinytorch.perf.profiling.shares import WARM_RUNS


def phases(name: str, batch: int, repeats: int = 30, model: Module | None = None) -> dict[str, Measurement]:
    """Return the wall time of forward, backward and optimizer step of a training step, in seconds.

    The three samples of one step stand at the same index of ``forward``, ``backward`` and ``update``; the loss
    belongs to the forward, the optimizer is AdamW. A ``model`` is trained in place of a fresh one of the zoo.
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
