"""Measure models in this process: times in turns, then memory, then the whole test set."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from tinytorch.perf.benchmarking.performance import Performance, Performances, RunConditions
from tinytorch.perf.benchmarking.variants import Task, Variant, task_of, variant_of, variants_of, with_generation
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.blas import current_blas_threads
from tinytorch.perf.host.identity import machine_label
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.memory import MemoryTracker
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

BATCHES = (1, 64)
#: What the reference is called among the functions that take turns; no variant may have this name.
REFERENCE = "(reference)"


def measure_performance(
    model: Any,
    data: Any = None,
    *,
    batches: Sequence[int] = BATCHES,
    repeats: int = 30,
    at_most_seconds: float = 5.0,
    seed: int = 0,
    name: str = "model",
) -> Performance:
    """Return time, throughput, peak memory, size and accuracy of a model; it unpacks as ``time, memory, accuracy``.

    Compare two results by their numbers: ``baseline.time / optimized.time`` is a speedup (above 1 is faster),
    ``baseline.memory / optimized.memory`` is above 1 if the new version is smaller, and ``optimized.accuracy -
    baseline.accuracy`` is above 0 if it is better. Each has an interval and a verdict. Two calls of this function are
    not interleaved, so only larger differences are decided than in one `benchmark_suite`.

    Args:
        model: a Module, a GPT with its key-value cache, or a ``Variant``; it is put into eval mode.
        data: what to run it on: a name of the zoo, a ``Task``, a ``datasets.Split``, (inputs, targets), or inputs
            alone.
            The accuracy is that of all examples. Without it the model's own ``example_input`` and ``example_target``.
        batches: how many inputs a timed call takes, several sizes.
        repeats: samples of each batch size, fewer if ``at_most_seconds`` have passed, never below six.
        at_most_seconds: time limit for the samples of one batch size.
        seed: random seed for the order of the samples.
        name: what it is called in tables.

    Raises:
        TypeError: if ``model`` or ``data`` is of another type.
        ValueError: if ``data`` holds no examples or a number is out of range.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import measure_performance
        >>> x, labels = np.eye(3, dtype=np.float32), np.arange(3)
        >>> found = measure_performance(Linear(3, 3, seed=0), (x, labels), batches=(1,), repeats=6, at_most_seconds=0.1)
        >>> found.time.unit, found.size.median  # nine weights and three biases
        ('s', 48.0)
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
    test_data: Any = None,
    *,
    batches: Sequence[int] = BATCHES,
    repeats: int = 30,
    at_most_seconds: float = 20.0,
    seed: int = 0,
) -> Performances:
    """Return the `Performance` of each model by name; the times are interleaved, so drift affects all models alike.

    They print as a table. If one of the models is a GPT with its key-value cache, each timed call generates: it reads
    the first half of each sequence and generates as many tokens as the second half has. The accuracy stays that of the
    whole sequences.

    Args:
        models: modules or variants by name; the first is the one that tables compare the others with.
        test_data: see ``data`` of `measure_performance`.
        batches, repeats, seed: as of `measure_performance`.
        at_most_seconds: time limit for the samples of all models and batch sizes together.

    Raises:
        TypeError, ValueError: as `measure_performance` does; also if ``models`` is empty.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite
        >>> x = np.ones((8, 3), np.float32)
        >>> models = {"one": Linear(3, 3), "two": Linear(3, 3)}
        >>> list(benchmark_suite(models, x, batches=(1,), repeats=6, at_most_seconds=0.1))
        ['one', 'two']
    """
    variants = variants_of(models)
    task = with_generation(task_of(test_data, next(iter(variants.values())).model), variants)
    sizes = tuple(sorted(set(batches)))
    if not sizes or any(type(size) is not int or size < 1 for size in sizes):
        raise ValueError(f"batches must be whole numbers above 0, such as (1, 64), not {tuple(batches)}")
    run, neighbours = uuid.uuid4().hex, BackgroundLoad()
    with ExitStack() as left:
        for variant in variants.values():
            left.enter_context(variant.undisturbed())
        found = performances(task, variants, sizes, repeats=repeats, at_most_seconds=at_most_seconds, seed=seed)
        conditions = RunConditions(machine_label(), current_blas_threads(), neighbours.cores(), task.digest)
    return Performances({one.name: replace(one, run=run, conditions=conditions) for one in found})


def performances(
    task: Task,
    variants: Mapping[str, Variant],
    batches: Sequence[int],
    *,
    repeats: int,
    at_most_seconds: float,
    seed: int,
    reference: Callable[[], None] | None = None,
    whole: bool = True,
) -> list[Performance]:
    """Return what this process measures of each variant: their times, in turns, and if ``whole`` memory and accuracy.

    Args:
        task, variants, batches: what is measured.
        repeats, at_most_seconds, seed: those of `interleave`, for each batch size.
        reference: fixed work that is timed in turns with them.
        whole: whether to measure also what does not depend on the process.

    Raises:
        ValueError: if a variant is called as the reference is.
    """
    if REFERENCE in variants:
        raise ValueError(f"a variant must not be called {REFERENCE!r}: that is what the reference is called")
    times: dict[int, dict[str, Measurement]] = {}
    for size in batches:
        inputs = task.batch(size)
        calls: dict[str, Callable[[], Any]] = {
            name: partial(variant.call, task, inputs) for name, variant in variants.items()
        }
        times[size] = interleave(
            {**calls, **({REFERENCE: reference} if reference else {})},
            repeats=repeats,
            at_most_seconds=at_most_seconds,
            warmup_seconds=0.3,
            seed=seed,
            within={name: variant.running for name, variant in variants.items()},
        )
    return [
        Performance(
            name,
            task.name,
            {size: (times[size][name],) for size in batches},
            {size: _peak(task, variant, size) for size in batches} if whole else {},
            variant.stored_bytes,
            variant.correct(task) if whole else None,
            "",
            {size: (times[size][REFERENCE],) for size in batches} if reference else {},
        )
        for name, variant in variants.items()
    ]


def _peak(task: Task, variant: Variant, size: int) -> Measurement:
    call = partial(variant.call, task, task.batch(size))
    with variant.running():
        return peak_of_calls(call, variant.stored_bytes, "the model's state", f"peak memory of {variant.name}")


def peak_of_calls(call: Callable[[], object], held: int, what: str, name: str) -> Measurement:
    """Return ``held`` bytes, which are of ``what``, and the most that a call allocates beside them, six calls.

    What tracemalloc sees: NumPy's arrays and Python's objects to the byte, not the work space of BLAS.
    """
    call()  # what is compiled or kept at the first call is no part of a call
    peaks = []
    for _ in range(FEWEST_FOR_INTERVAL):
        with MemoryTracker() as tracked:
            call()
        peaks.append(float(held + tracked.peak_bytes))
    traced = Conditions(note=f"Traced by tracemalloc; {held:,} bytes of it are {what}.")
    return Measurement(name, tuple(peaks), "B", traced)
