"""Functions that are timed anew in several fresh processes, and compared.

Where memory lies, which core ran it and what was loaded before differ from process to process and are the same for
all pairs in one, so the pairs of a single process look surer than they are.
Source: T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.measuring import Measurement, blas_threads, interleave
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.comparison import Comparison, judged
from tinytorch.perf.measuring.conditions import of_processes, of_sides
from tinytorch.perf.measuring.fresh import function_at, output_of, reference_to, with_our_path
from tinytorch.perf.measuring.measurement import Seconds, require_paired
from tinytorch.perf.measuring.planning import rounds_within
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

#: Makes the functions that a process times, by name, with all that they need.
Maker = Callable[[], Mapping[str, Callable[[], Any]]]


@dataclass(frozen=True)
class Fresh:
    """What one fresh process timed.

    Attributes:
        first: seconds of the first calls of the first function, one by one, from before anything was warm.
        times: seconds of each function, by name, in turns and warm.
    """

    first: tuple[float, ...]
    times: Mapping[str, Seconds]


def fresh_processes(
    maker: Maker, *, processes: int = 10, at_most_seconds: float = math.inf, rounds: int = 20, first: int = 0
) -> list[Fresh]:
    """Return what each of several fresh processes timed of the functions that ``maker`` makes anew in it.

    Each takes its own ``rounds`` with `interleave`, in an order drawn from its number, with the BLAS
    threads of this process. None is started, of six on, when ``at_most_seconds`` have passed.

    Args:
        maker: a function at the top level of a module that a new process can import.
        processes: how many are started, one after the other.
        at_most_seconds: time limit for all processes.
        rounds: of samples in turns, in each.
        first: calls of the first function that are timed one by one before all else.

    Raises:
        ValueError: if ``maker`` cannot be imported by name, or a count is out of its range.
        RuntimeError: if a process fails; its last line of error is the message.

    Examples:
        >>> from tinytorch.perf.measuring.processes import fresh_processes
        >>> fresh_processes(lambda: {"call": lambda: None})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: maker must be a function at the top level of a module that a new process can import, not ...
    """
    if processes < 1 or rounds < 1 or first < 0:
        raise ValueError(
            f"processes and rounds must be at least 1 and first at least 0, not {processes}, {rounds} and {first}"
        )
    reference = reference_to("maker", maker)
    numbers = rounds_within(at_most_seconds, processes, FEWEST_FOR_INTERVAL)
    return [_run(reference, rounds, first, number) for number in numbers]


def ratio_of_processes(
    baseline: Sequence[Measurement], candidate: Sequence[Measurement], names: tuple[str, str]
) -> Measurement:
    """Return baseline / candidate of times in turns, a sample from each process: the median of the ratios of its pairs.

    Args:
        baseline, candidate: times, one measurement from each process.
        names: what the two are called.

    Raises:
        ValueError: if a process did not take the times of both in turns.
    """
    medians = []
    for old, new in zip(baseline, candidate, strict=True):
        require_paired(old, new)
        medians.append(math.exp(np.median(np.log(old.samples) - np.log(new.samples))))
    sides = {"baseline": baseline, "candidate": candidate}
    conditions = of_sides({name: of_processes(one.conditions for one in times) for name, times in sides.items()})
    return Measurement(" / ".join(names), tuple(medians), "", conditions)


def compare_in_processes(
    found: Sequence[Fresh], baseline: str, candidate: str, matters: float, *, together: int = 1
) -> Comparison:
    """Return the comparison of two functions whose unit is the process: one ratio, the median of its pairs, from each.

    The interval is that of the median of these ratios.

    Args:
        found: of `fresh_processes`.
        baseline, candidate: names of functions.
        matters, together: those of `compare_paired`.
    """
    before, after = ([each.times[name] for each in found] for name in (baseline, candidate))
    names = baseline, candidate
    return judged(ratio_of_processes(before, after, names).together(together), names, matters)


def _run(reference: str, rounds: int, first: int, seed: int) -> Fresh:
    """Return what one fresh process timed."""
    arguments = ("-m", __name__, reference, str(rounds), str(first), str(seed), str(thread_limit()))
    printed = output_of(arguments, environment=with_our_path())
    return from_json(json.loads(printed.splitlines()[-1]), Fresh, "a fresh process")


def _timed(reference: str, rounds: int, first: int, seed: int, threads: int) -> Fresh:
    """Return what this process times."""
    calls = []
    with blas_threads(threads):
        functions = function_at(reference)()
        foremost = next(iter(functions.values()))
        for _ in range(first):
            start = time.perf_counter_ns()
            foremost()
            calls.append((time.perf_counter_ns() - start) * 1e-9)
        return Fresh(tuple(calls), interleave(functions, repeats=rounds, seed=seed))


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(to_json(_timed(sys.argv[1], *map(int, sys.argv[2:6])))))
