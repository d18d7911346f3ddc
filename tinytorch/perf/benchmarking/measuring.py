"""Measure models in this process: times in turns, then memory, then the whole test set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.variants import Task, Variant, task_of, variant_of, variants_of
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.measuring.memory import MemoryTracker
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

BATCHES = (1, 64)


def measure_performance(
    model: Any,
    data: Any,
    *,
    batches: Sequence[int] = BATCHES,
    repeats: int = 30,
    at_most_seconds: float = 5.0,
    seed: int = 0,
    name: str = "model",
) -> Performance:
    """Return time, throughput, peak memory, size and accuracy of one model; ``time, memory, accuracy = ...`` works.

    Args:
        model: a Module or a `Variant`; it is put into eval mode.
        data: what to run it on: a name of the zoo, a `Task`, a `datasets.Split`, (inputs, targets), or inputs alone.
            The accuracy is that of all examples.
        batches: how many inputs a timed call takes, several sizes.
        repeats: samples of each batch size, fewer if ``at_most_seconds`` are over, never below six.
        at_most_seconds: for the samples of one batch size.
        seed: of the order of the samples.
        name: what it is called in tables.

    Raises:
        TypeError: if ``model`` or ``data`` is of another type.
        ValueError: if ``data`` holds no examples or a number is out of range.
    """
    return benchmark_suite(
        {name: variant_of(name, model)},
        data,
        batches=batches,
        repeats=repeats,
        at_most_seconds=at_most_seconds,
        seed=seed,
    )[name]


def benchmark_suite(
    models: Mapping[str, Any],
    test_data: Any,
    *,
    batches: Sequence[int] = BATCHES,
    repeats: int = 30,
    at_most_seconds: float = 20.0,
    seed: int = 0,
) -> dict[str, Performance]:
    """Return the `Performance` of each model, by name; their times are taken in turns, so that drift hits all alike.

    Args:
        models: modules or variants by name; the first is the one that tables compare the others with.
        test_data: see ``data`` of `measure_performance`.
        batches, repeats, at_most_seconds, seed: as of `measure_performance`; the seconds are for all together.

    Raises:
        TypeError, ValueError: as `measure_performance` does; also if ``models`` is empty.
    """
    task, variants = task_of(test_data), variants_of(models)
    sizes = checked_batches(batches)
    run = uuid.uuid4().hex
    times = timed(task, variants, sizes, repeats=repeats, at_most_seconds=at_most_seconds, seed=seed)
    return {
        name: Performance(
            name,
            task.name,
            {size: (times[size][name],) for size in sizes},
            peak_memory(task, variant, sizes),
            variant.stored_bytes,
            variant.correct(task),
            run,
        )
        for name, variant in variants.items()
    }


def checked_batches(batches: Sequence[int]) -> tuple[int, ...]:
    """Return the batch sizes, smallest first, or raise ValueError if there are none or one is not above 0."""
    sizes = tuple(sorted(set(batches)))
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise ValueError(f"batches must be whole numbers above 0, such as (1, 64), not {tuple(batches)}")
    return sizes


def timed(
    task: Task,
    variants: Mapping[str, Variant],
    batches: Sequence[int],
    *,
    repeats: int,
    at_most_seconds: float,
    seed: int,
    beside: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[int, dict[str, Measurement]]:
    """Return, by batch size and name, seconds of a call of each variant and of the functions ``beside``, in turns."""
    contexts = {name: variant.running for name, variant in variants.items()}
    made = {}
    for size in batches:
        inputs = task.batch(size)
        calls = {name: partial(variant.call, task, inputs) for name, variant in variants.items()}
        made[size] = interleave(
            {**calls, **(beside or {})},
            repeats=repeats,
            at_most_seconds=at_most_seconds,
            warmup_seconds=0.3,
            seed=seed,
            within=contexts,
        )
    return made


def peak_memory(task: Task, variant: Variant, batches: Sequence[int]) -> dict[int, Measurement]:
    """Return, by batch size, bytes of the model's state and the most that one call allocates, six calls.

    What tracemalloc sees: NumPy's arrays and Python's objects to the byte, not the work space of BLAS.
    """
    measured = {}
    for size in batches:
        inputs = task.batch(size)
        peaks = []
        with variant.running():
            variant.call(task, inputs)  # what is compiled or kept at the first call is no part of a call
            for _ in range(FEWEST_FOR_INTERVAL):
                with MemoryTracker() as tracked:
                    variant.call(task, inputs)
                peaks.append(float(variant.stored_bytes + tracked.peak_bytes))
        how = {"by": "tracemalloc", "batch": size, "state_bytes": variant.stored_bytes}
        measured[size] = Measurement(f"peak memory of {variant.name}", tuple(peaks), "B", how)
    return measured
