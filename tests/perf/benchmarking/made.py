"""Performances and results with times that a test chooses, and a small model that a fresh process can make."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.perf.benchmarking import Performance, Results
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.host.identity import identity
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.conditions import Conditions


def factory() -> Module:
    """Return a model with a test set of its own: 12 examples, of which it gets some right."""
    model: Any = Sequential(Linear(4, 3, seed=0))
    model.example_input = np.random.default_rng(0).random((12, 4), dtype=np.float32)
    model.example_target = np.zeros(12, np.int64)
    return cast(Module, model)


def two() -> dict[str, Module]:
    """Return two models, the first of them with an input."""
    return {"one": factory(), "other": factory()}


def times(seconds: float, processes: int, seed: int, spread: float = 0.005, samples: int = 9) -> list[Measurement]:
    """Return one measurement from each process, whose level differs from the others' by about ``spread``."""
    draw = np.random.default_rng(seed)
    levels = seconds * np.exp(spread * draw.standard_normal(processes))
    conditions = Conditions(interleaved_with=("made",))
    return [
        Measurement("made", tuple(level * np.exp(0.002 * draw.standard_normal(samples))), "s", conditions)
        for level in levels
    ]


def performance(
    name: str = "model",
    seconds: float = 1e-3,
    *,
    processes: int = 8,
    seed: int = 0,
    memory: float = 1000.0,
    wrong: Sequence[int] = (),
    run: str = "run",
    reference: float = 1e-4,
) -> Performance:
    """Return a performance at batch 1 with chosen level, memory and wrong examples of 400."""
    correct = np.ones(400, np.bool_)
    correct[list(wrong)] = False
    made = tuple(times(seconds, processes, seed))
    beside = tuple(times(reference, processes, seed + 1000, spread=0.0))
    return Performance(
        name, "made", {1: made}, {1: Counted(memory, "B", "made")}, int(memory), correct, run, {1: beside}
    )


def results(*performances: Performance, created: str = "2026-01-01T00:00:00+00:00", commit: str = "c0ffee") -> Results:
    done = min(len(times) for one in performances for times in one.times.values())
    plan = Plan("tests.perf.benchmarking.made:factory", (1,), processes=done)
    named = {one.name: replace(one, run="run") for one in performances}
    return Results(plan, named, done, identity().to_json(), {"commit": commit}, created, "run")
