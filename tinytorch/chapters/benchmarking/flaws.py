"""Parts of flawed experiments, in which published speedups go wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.host.identity import caches
from tinytorch.perf.measuring import Derived, Measurement, blas_threads, sample
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.planning import rounds_within

#: Runs from which a flawed experiment makes its one number, and how often it is done.
_RUNS, _TIMES = 5, 7
#: Bytes that are read at the most to empty the caches, which the memory of a page allows.
_MOST_SWEPT = 256 * 2**20
#: Bytes that a last cache is taken to hold where the system does not report it: more than Apple's M1 Ultra has, 96 MB.
#: Source: https://eclecticlight.co/2024/03/06/apple-silicon-memory-and-internal-storage.
_ASSUMED_CACHE = 128 * 2**20


def typed_gelu(x: Array) -> Array:
    """Return the GELU of a float32 array by the formula as papers print it; the result is float64, and slow."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def framework_gelu(x: Array) -> Array:
    """Return the GELU of an array, calculated by the framework's own operation."""
    with no_grad():
        return apply(ops.gelu, x).data


def larger_than_caches() -> Array:
    """Return an array that leaves nothing else in the caches once it was read, or as much as memory allows."""
    last = max((one.level for one in caches()), default=0)
    largest = max((one.size for one in caches() if one.level == last), default=_ASSUMED_CACHE)
    return np.ones(2 * min(largest, _MOST_SWEPT // 2) // 4, np.float32)


def seconds(function: Callable[[], Any], threads: int = 1) -> float:
    """Return the median seconds of a few runs of ``function``, timed on its own."""
    with blas_threads(threads):
        return sample(function, "timed alone", warmup=2, runs=_RUNS).median


def repeated(experiment: Callable[[], float]) -> Measurement:
    """Return the speedups that several repeats of a flawed experiment publish.

    As its author would, each repeat is taken as independent of the others, and nothing is known of other runs.
    """
    published = tuple(experiment() for _ in rounds_within(3.0, _TIMES, fewest=2))
    name = f"published speedup: {experiment.__name__.replace('_', ' ')}"
    return Measurement(name, published, "", Conditions(sample=Sample.TRIALS))


def differences_not_there(published: Sequence[Measurement]) -> Derived:
    """Return how many of the experiments with one function publish an interval that does not hold 1."""
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    there = sum(1.0 not in one.interval for one in published)
    return Derived(there, "1", what, tuple(published), "it counts verdicts")
