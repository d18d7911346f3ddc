"""Experiments that more than one page or reader runs: shares of ops, phases of a training step, noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.events.array_life import MemoryProfile, recording_memory
from tinytorch.perf.events.stream import Event, Profile, recording
from tinytorch.perf.measuring import Measurement, collector_off, current_blas_threads, interleave, ratio

#: Runs before the first that counts.
_WARM = 3


def shares(
    run: Callable[[], Any], parts: Mapping[str, Callable[[Event], bool]], repeats: int = 15
) -> dict[str, Measurement]:
    """Return, for each part, the share (0 to 1) of the ops' time that the events it accepts take.

    Each of ``repeats`` runs is recorded anew and gives one sample. The time between ops belongs to no part.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    profiles, how = _recorded(run, repeats)
    found: dict[str, Measurement] = {}
    for name, accepts in parts.items():
        samples = [
            sum(event.self_ns for event in profile.events if accepts(event)) * 1e-9 / profile.op_seconds
            for profile in profiles
        ]
        found[name] = Measurement(f"share of {name}", tuple(samples), "%", how)
    return found


def time_between_ops(run: Callable[[], Any], repeats: int = 15) -> Measurement:
    """Return the share (0 to 1) of a run's wall time that passes outside of ops: Python, the seam, the recorder.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    profiles, how = _recorded(run, repeats)
    samples = [1 - profile.op_seconds / profile.wall_seconds for profile in profiles]
    return Measurement("share of the time between ops", tuple(samples), "%", how)


def _recorded(run: Callable[[], Any], repeats: int) -> tuple[list[Profile], dict[str, Any]]:
    """Return `recordings` of a run, and the conditions under which they were taken."""
    start = _cpu_and_wall()
    profiles = recordings(run, repeats)
    how = {"runs": repeats, "warmup_runs": _WARM, "blas_threads": current_blas_threads()}
    return profiles, {**how, "cpu_per_wall": _cpu_per_wall(start)}


def _cpu_and_wall() -> tuple[int, int]:
    """Return nanoseconds of this process's CPU time and of the clock."""
    return time.process_time_ns(), time.perf_counter_ns()


def _cpu_per_wall(start: tuple[int, int]) -> float:
    """Return CPU time over wall time since ``start``: 1 is a whole core, to three digits."""
    cpu, wall = (now - then for now, then in zip(_cpu_and_wall(), start, strict=True))
    return float(f"{cpu / wall:.3g}")


def _one_by_one(start: tuple[int, int]) -> dict[str, Any]:
    """Return the conditions of calls that were timed one by one since ``start``."""
    return {
        "warmup_runs": _WARM,
        "inner_loops": 1,
        "garbage_collector": "off",
        "blas_threads": current_blas_threads(),
        "cpu_per_wall": _cpu_per_wall(start),
    }


def recordings(run: Callable[[], Any], repeats: int = 15) -> list[Profile]:
    """Return ``repeats`` recordings of a run, after three runs that are not recorded.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    for _ in range(_WARM):
        run()
    profiles = []
    for _ in range(repeats):
        with recording() as recorded:
            run()
        if not recorded.profile.events:
            raise ValueError("run must make at least one op through the seam, but made none")
        profiles.append(recorded.profile)
    return profiles


def phases(name: str, batch: int, repeats: int = 25, model: Module | None = None) -> dict[str, Measurement]:
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
        began = _cpu_and_wall()
        for _ in range(_WARM + repeats):
            optimizer.zero_grad()
            start = time.perf_counter_ns()
            value = loss(model(inputs), targets)
            forward_end = time.perf_counter_ns()
            value.backward()
            backward_end = time.perf_counter_ns()
            optimizer.step()
            readings.append((start, forward_end, backward_end, time.perf_counter_ns()))
        how = {**_one_by_one(began), "interleaved_with": ["forward", "backward", "update"]}
    times = np.diff(np.array(readings[_WARM:]), axis=1) * 1e-9
    return {
        phase: Measurement(phase, tuple(times[:, index]), "s", how)
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


def same_against_same(function: Callable[[], Any], repeats: int = 60, seed: int = 0) -> Measurement:
    """Return the ratios of a function's time to its own, from pairs of neighbouring samples.

    Nothing differs between the two, so every departure from 1 is the noise that any comparison here meets.
    """
    both = interleave({"once": function, "again": function}, repeats=repeats, seed=seed)
    return ratio(both["once"], both["again"], "the same code against itself")


def single_calls(function: Callable[[], Any], name: str, calls: int) -> Measurement:
    """Return the wall time of each of ``calls`` calls in a row, in seconds, one by one, after a few that are not.

    Nothing is averaged, so the tail that a caller would meet is all there.

    Raises:
        ValueError: if ``calls`` is below 1.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1, not {calls}")
    seconds = []
    with collector_off():
        for _ in range(_WARM):
            function()
        began = _cpu_and_wall()
        for _ in range(calls):
            start = time.perf_counter_ns()
            function()
            seconds.append((time.perf_counter_ns() - start) * 1e-9)
        how = _one_by_one(began)
    return Measurement(name, tuple(seconds), "s", how)


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
