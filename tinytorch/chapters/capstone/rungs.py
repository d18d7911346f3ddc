"""The rungs of a ladder beside one another: speed, memory and answers of each, from one run in turns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration
from tinytorch.chapters.capstone.ladder import in_turns
from tinytorch.chapters.capstone.steps import Step, taken_by_itself
from tinytorch.chapters.capstone.workload import Workload, correct, peak_bytes, task
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.measuring.comparison import Comparison, compare_paired

#: Name of the configuration that has every part of a product.
COMBINED = "all of them"


def performances(
    workload: Workload,
    configurations: Mapping[str, Configuration],
    *,
    repeats: int = 60,
    at_most_seconds: float = 4.0,
) -> dict[str, Performance]:
    """Return what was measured of each configuration, by name: times in turns, bytes, and answers to all questions.

    ``model_bytes`` is that of the weights; ``memory`` holds weights, cache and the most that a call allocates.

    Raises:
        ValueError: if there are none.
    """
    if not configurations:
        raise ValueError("configurations must name at least one")
    every = {name: workload.ready(each) for name, each in configurations.items()}
    with blas_threads(1):
        times = in_turns(workload, every, repeats=repeats, at_most_seconds=at_most_seconds)
        memory = {name: peak_bytes(workload, made) for name, made in every.items()}
    run, size = uuid.uuid4().hex, workload.questions
    return {
        name: Performance(
            name,
            task().name,
            {size: (times[name],)},
            {size: memory[name]},
            made.weight_bytes,
            correct(made.configuration),
            run,
        )
        for name, made in every.items()
    }


def product_configurations(steps: Sequence[Step]) -> dict[str, Configuration]:
    """Return the plain start, each of ``steps`` by itself, and all of them together as `COMBINED`.

    Raises:
        ValueError: if there are fewer than two steps, or one cannot be taken by itself or after the others.
    """
    if len(steps) < 2:
        raise ValueError(f"steps must be at least two, for a product, not {len(steps)}")
    made, together = {"plain": PLAIN}, PLAIN
    for step in steps:
        alone, after = taken_by_itself(step), step.after(together)
        if alone is None or after is None:
            raise ValueError(f"steps must each work alone and with the others, but {step.name!r} does not")
        made[step.name], together = alone, after
    return {**made, COMBINED: together}


def on_all_cores(workload: Workload, configuration: Configuration, repeats: int = 100) -> Comparison | None:
    """Return the same configuration on every core that this process may use, against one; None if there is one only."""
    cores = len(usable_cores())
    if cores < 2:
        return None
    every = {
        "one core": workload.ready(configuration),
        "all cores": workload.ready(replace(configuration, threads=cores)),
    }
    with blas_threads(1):
        times = in_turns(workload, every, repeats=repeats, at_most_seconds=1.0)
    return compare_paired(times["one core"], times["all cores"], delta=0.02)
