"""The timer: functions are warmed up and sampled, alone or in turns, and the samples are kept."""

from tinytorch.perf.host.blas import current_blas_threads
from tinytorch.perf.measuring.measurement import (
    Measurement,
    Statistic,
    checked_neighbours,
    difference,
    quantity,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.sampling import (
    blas_threads,
    clock_resolution,
    collector_off,
    interleave,
    limit_blas_threads,
    measure,
    sample,
)
from tinytorch.perf.measuring.timer import Timer

__all__ = [
    "Measurement",
    "Statistic",
    "Timer",
    "blas_threads",
    "checked_neighbours",
    "clock_resolution",
    "collector_off",
    "current_blas_threads",
    "difference",
    "interleave",
    "limit_blas_threads",
    "measure",
    "quantity",
    "quotient",
    "ratio",
    "sample",
]
