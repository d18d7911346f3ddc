"""The timer: functions are warmed up and sampled, alone or in turns, and the samples are kept."""

from tinytorch.perf.blas import current_blas_threads
from tinytorch.perf.timing.conditions import blas_threads, collector_off, limit_blas_threads
from tinytorch.perf.timing.measurement import Measurement, Statistic, quantity
from tinytorch.perf.timing.pairs import checked_neighbours, difference, ratio
from tinytorch.perf.timing.sampling import clock_resolution, interleave, measure, sample
from tinytorch.perf.timing.timer import Timer

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
    "ratio",
    "sample",
]
