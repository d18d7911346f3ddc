"""The first calls of a fresh process, before anything is warm; run as a module, it is that process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.measuring import Measurement, blas_threads
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.fresh import output_of
from tinytorch.perf.measuring.planning import rounds_within


def first_calls(
    name: str, batch: int, calls: int, processes: int, at_most_seconds: float = 30.0
) -> dict[int, Measurement]:
    """Return the wall time of each of the first forward passes of a model of the zoo, a sample from each new process.

    Processes are started one after the other, and each times its calls one by one. If the time is over, no further
    one is started, but at least two run.
    """
    arguments = ("-m", __name__, name, str(batch), str(calls))
    runs: list[list[float]] = [json.loads(output_of(arguments)) for _ in rounds_within(at_most_seconds, processes, 2)]
    conditions = Conditions(
        sample=Sample.PROCESSES, warmup_runs=0, inner_loops=1, blas_threads=limited_blas_threads(1) or "unknown"
    )
    return {
        number: with_between_run_spread(
            Measurement(f"call {number} of {name}, batch {batch}, in a fresh process", samples, "s", conditions), 1
        )
        for number, samples in enumerate(zip(*runs, strict=True), start=1)
    }


def steady_state(calls: Mapping[int, Measurement], first: int = 20) -> Measurement:
    """Return each process's median over its calls after the ``first`` ones, in seconds."""
    medians = _medians(calls, first + 1, len(calls))
    return Measurement(f"calls {first + 1} to {len(calls)}", tuple(medians), "s", calls[len(calls)].conditions)


def over_steady_state(calls: Mapping[int, Measurement], begin: int, end: int, first: int = 20) -> Measurement:
    """Return, for each process, how many times as long as its `steady_state` its calls ``begin`` to ``end`` took.

    Of more than one call it is their median, in each process.
    """
    quotients = np.divide(_medians(calls, begin, end), steady_state(calls, first).samples)
    which = f"call {begin}" if begin == end else f"calls {begin} to {end}"
    return Measurement(f"{which} over settled calls", tuple(quotients), "", calls[begin].conditions)


def _medians(calls: Mapping[int, Measurement], begin: int, end: int) -> npt.NDArray[np.float64]:
    return np.asarray(np.median([calls[number].samples for number in range(begin, end + 1)], axis=0))


def _timed_calls(name: str, batch: int, calls: int) -> list[float]:
    """Return the seconds of each of the first calls in this process."""
    entry = models.entry(name)
    model, inputs = entry.make(0).eval(), models.as_input(entry.example_input(batch))
    seconds = []
    with blas_threads(1), no_grad():
        for _ in range(calls):
            start = time.perf_counter_ns()
            model(inputs)
            seconds.append((time.perf_counter_ns() - start) * 1e-9)
    return seconds


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_timed_calls(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
