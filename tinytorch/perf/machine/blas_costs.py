"""Costs of a BLAS that is slowed on this machine: kernels for a narrower CPU, and a busy neighbour."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import psutil

from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.identity import Identity, is_narrower
from tinytorch.perf.measuring import Measurement, blas_threads, collector_off
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.fresh import output_of
from tinytorch.perf.measuring.judge import Verdict, verdict_between
from tinytorch.perf.measuring.measurement import Ratio

#: Variables that choose the kernels or block sizes of a BLAS begin like this; those of thread counts do not matter.
_BLAS_VARIABLES = ("OPENBLAS_", "MKL_", "BLIS_", "VECLIB_", "GOTO_")
_THREAD_COUNT = "NUM_THREADS"
#: Side of the product: 2 GFLOP.
_SIDE = 1024
#: Pairs of runs: an odd number above the six that a 95 % interval needs.
_PAIRS = 7
#: What a new process runs: it prints the median seconds of a product, warm.
_PRODUCT = f"""
import statistics, time, numpy
a = numpy.random.default_rng(0).random(({_SIDE}, {_SIDE}), dtype=numpy.float32)
out = numpy.empty_like(a)
def timed():
    start = time.perf_counter_ns()
    numpy.matmul(a, a, out=out)
    return (time.perf_counter_ns() - start) * 1e-9
timed(); timed()
print(statistics.median(timed() for _ in range(7)))
"""
_SPIN = "print('busy', flush=True)\nwhile True: pass"
#: A sample beside a busy process spans many turns of the scheduler, which are milliseconds long.
_PRODUCTS_PER_SAMPLE = 10
_SETTLE_SECONDS = 0.01


@dataclass(frozen=True)
class Caution:
    """Something on this machine that makes measured speeds lower than they could be.

    ``what`` is "narrow BLAS" or "busy neighbour", ``sentence`` says it with its numbers, and ``cost`` is how many
    times as long a product takes because of it, None if that could not be measured.
    """

    what: str
    sentence: str
    cost: Ratio | None


def blas_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that choose kernels of a BLAS, sorted."""
    names = (name for name in environment if name.startswith(_BLAS_VARIABLES) and _THREAD_COUNT not in name)
    return sorted(names)


def without(names: list[str], pairs: int = _PAIRS) -> Measurement:
    """Return how many times as long a float32 product takes with the environment's variables ``names`` as without.

    Each sample is a pair of new processes, one after the other in an order drawn by a seed, one BLAS thread each.

    Raises:
        ValueError: if ``names`` is empty.
        RuntimeError: if a process fails; its last line of error is the message.
    """
    if not names:
        raise ValueError("names must hold at least one variable to leave out")
    given = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    freed = {name: value for name, value in given.items() if name not in names}
    order = np.random.default_rng(0)
    ratios = []
    for _ in range(pairs):
        seconds = {}
        for index in order.permutation(2):
            seconds[index] = _product_in_new_process((given, freed)[index])
        ratios.append(seconds[0] / seconds[1])
    conditions = Conditions(
        sample=Sample.PROCESS_PAIRS,
        blas_threads=limited_blas_threads(1) or "unknown",
        note=f"Without {', '.join(names)}.",
    )
    return Measurement("float32 product, time with the variables over without", tuple(ratios), "", conditions)


def _product_in_new_process(environment: Mapping[str, str]) -> float:
    return float(output_of(("-c", _PRODUCT), environment=environment))


def narrow_blas(machine: Identity, cost_of: Callable[[list[str]], Measurement] = without) -> Caution | None:
    """Return a caution if NumPy's BLAS uses narrower vectors than the CPU has, with what that costs; else None.

    The cost is `without` the variables that choose kernels; where none is set, it cannot be measured.
    """
    narrow = [one for one in machine.blas if one.of != "scipy" and is_narrower(one.vectors, machine.vectors)]
    if not narrow:
        return None
    kernels = f"{narrow[0].name} runs kernels for {narrow[0].core} ({narrow[0].vectors})"
    said = f"NumPy's {kernels} although this CPU has {machine.vectors}"
    names = blas_variables(machine.environment)
    if not names:
        return Caution("narrow BLAS", f"{said}; no variable chooses them, so the cost is not known.", None)
    cost = cost_of(names)
    return Caution(
        "narrow BLAS", f"{said}: a float32 product takes {_times(cost)} as without {', '.join(names)}.", cost
    )


@dataclass(frozen=True)
class BusyNeighbour:
    """A float32 product on ``threads`` threads beside one busy process.

    ``over_alone``: its time over that without the busy process. ``over_one_thread``: its time over that of the same
    product on one thread, also beside the process; above 1 the further threads do harm.
    """

    threads: int
    over_alone: Ratio
    over_one_thread: Ratio

    def sentence(self) -> str:
        """Return both in words."""
        return (
            f"Beside one other busy process a float32 product on {self.threads} threads takes "
            f"{_times(self.over_alone)} as alone, and {_times(self.over_one_thread)} as on one thread."
        )


def busy_neighbour(threads: int, pairs: int = _PAIRS) -> BusyNeighbour:
    """Return how a product on ``threads`` threads fares beside a process that only spins.

    The process is stopped for the runs alone and goes on for the others, in an order drawn by a seed.

    Raises:
        ValueError: if ``threads`` is below 2.
    """
    if threads < 2:
        raise ValueError(f"threads must be at least 2, as one thread does not wait for others, not {threads}")
    generator = np.random.default_rng(0)
    a = generator.random((_SIDE, _SIDE), dtype=np.float32)
    out = np.empty_like(a)

    def seconds(count: int) -> float:
        with blas_threads(count):
            np.matmul(a, a, out=out)
            start = time.perf_counter_ns()
            for _ in range(_PRODUCTS_PER_SAMPLE):
                np.matmul(a, a, out=out)
            return (time.perf_counter_ns() - start) * 1e-9 / _PRODUCTS_PER_SAMPLE

    plans = (("alone", threads), ("beside", threads), ("one thread beside", 1))
    taken: dict[str, list[float]] = {name: [] for name, _ in plans}
    with collector_off(), _spinning() as neighbour:
        for _ in range(pairs):
            for index in generator.permutation(len(plans)):
                name, count = plans[index]
                (neighbour.suspend if name == "alone" else neighbour.resume)()
                time.sleep(_SETTLE_SECONDS)
                taken[name].append(seconds(count))
    conditions = Conditions(
        blas_threads=limited_blas_threads(threads) or "unknown", inner_loops=_PRODUCTS_PER_SAMPLE, collector_off=True
    )

    def over(name: str, words: str) -> Measurement:
        return Measurement(words, tuple(np.divide(taken["beside"], taken[name]).tolist()), "", conditions)

    return BusyNeighbour(
        threads,
        over("alone", "product beside a busy process over alone"),
        over("one thread beside", "product on all threads over one thread, beside a busy process"),
    )


@contextmanager
def _spinning() -> Iterator[psutil.Process]:
    """Give a process that does nothing but use a core, until the exit."""
    with subprocess.Popen([sys.executable, "-c", _SPIN], stdout=subprocess.PIPE) as started:
        try:
            if started.stdout is None or not started.stdout.readline():
                raise RuntimeError("the busy process did not start")
            yield psutil.Process(started.pid)
        finally:
            started.kill()


def collapsing_blas(measured: BusyNeighbour) -> Caution | None:
    """Return a caution if threads of the BLAS surely do harm beside one busy process; else None."""
    if verdict_between(measured.over_one_thread, low=1, strict=True).verdict != Verdict.SUPPORTED:
        return None
    return Caution("busy neighbour", measured.sentence(), measured.over_alone)


def _times(ratio: Measurement) -> str:
    low, high = ratio.interval.low, ratio.interval.high
    return f"{ratio.median:.2f} times as long (between {low:.2f} and {high:.2f})"
