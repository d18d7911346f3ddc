"""The timer: functions are warmed up and sampled, alone or in turns, and the samples are kept."""

from tinytorch.perf.host.blas import current_blas_threads
from tinytorch.perf.measuring.measurement import Measurement, derived, difference, of_rounds, quotient, ratio
from tinytorch.perf.measuring.own_loops import from_turns, own_loop
from tinytorch.perf.measuring.sampling import blas_threads, clock_resolution, collector_off, interleave, measure, sample
from tinytorch.perf.measuring.timer import Timer
from tinytorch.perf.measuring.values import Counted, Derived, Modelled, Quoted, Unmeasured

__all__ = [
    "Counted",
    "Derived",
    "Measurement",
    "Modelled",
    "Quoted",
    "Timer",
    "Unmeasured",
    "blas_threads",
    "clock_resolution",
    "collector_off",
    "current_blas_threads",
    "derived",
    "difference",
    "from_turns",
    "interleave",
    "measure",
    "of_rounds",
    "own_loop",
    "quotient",
    "ratio",
    "sample",
]
