"""The rungs of a ladder beside one another: speed, memory and answers of each, from one run in turns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from tinytorch.chapters.capstone.configuration import Configuration
from tinytorch.chapters.capstone.ladder import in_turns
from tinytorch.chapters.capstone.workload import Workload, correct, peak_bytes, task
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.measuring import blas_threads


def performances(
    workload: Workload,
    configurations: Mapping[str, Configuration],
    *,
    resolve: float = 0.02,
    at_most_seconds: float = 3.0,
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
        times = in_turns(workload, every, resolve=resolve, at_most_seconds=at_most_seconds)
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
