"""Fresh processes: functions given by name, answers in JSON, and the same functions timed anew in several of them.

Where memory lies, which core ran it and what was loaded before differ from process to process and are the same for
all pairs in one, so the pairs of a single process look surer than they are.
Source: T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.measuring import Measurement, blas_threads, interleave
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.comparison import Comparison, judged
from tinytorch.perf.measuring.conditions import Conditions, of_processes, of_sides
from tinytorch.perf.measuring.measurement import Seconds
from tinytorch.perf.measuring.planning import PILOT_PROCESSES, carried_out, checked_resolve, planned, seconds_allowed
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL


def reference_to(argument: str, function: Callable[..., Any]) -> str:
    """Return ``module:name``, after checking that it leads back to ``function``.

    Args:
        argument: what the caller's caller knows the function as, for the error.

    Raises:
        ValueError: if a new process could not import it by that name.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    try:
        found = getattr(importlib.import_module(module), name) if module != "__main__" else None
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not function:
        raise ValueError(
            f"{argument} must be a function at the top level of a module that a new process can import, "
            f"not {function!r}"
        )
    return f"{module}:{name}"


def function_at(reference: str) -> Callable[..., Any]:
    """Return the function that `reference_to` named."""
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def output_of(
    arguments: Sequence[str],
    *,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
) -> str:
    """Return what a fresh process of Python prints.

    Args:
        arguments: of the interpreter, such as ``("-m", "module")``.
        python: the interpreter.
        environment: its variables; None for those of this process.
        given: what it can read from standard input.

    Raises:
        RuntimeError: if the process fails: the last line of its error, or the signal that it died of.
    """
    done = subprocess.run(
        [python, *arguments], input=given, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode < 0:
        raise RuntimeError(f"a fresh process died of {signal.Signals(-done.returncode).name}")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"a fresh process failed: {lines[-1]}")
    return done.stdout


def _with_our_path(folder: Path | None = None) -> dict[str, str]:
    """Return this process's variables, and where it finds modules, so that a fresh one finds the same."""
    path = [str(folder), *sys.path] if folder else sys.path
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in path if each)}


def answer_of(module: str, asked: Any, folder: Path | None = None) -> Any:
    """Return what ``module``, run in a fresh process, answers to ``asked``.

    It reads one JSON value from standard input and prints its answer as the last line. It has this thread's cores.

    Args:
        module: name of the module, run as ``python -m`` does.
        asked: a value that JSON can hold.
        folder: searched for the package first; None takes the package that is imported here.

    Raises:
        RuntimeError: as `output_of`.
    """
    printed = output_of(("-m", module), environment=_with_our_path(folder), given=json.dumps(asked))
    return json.loads(printed.splitlines()[-1])


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
    maker: Maker,
    *,
    processes: int | None = None,
    resolve: float | None = None,
    at_most_seconds: float = math.inf,
    rounds: int = 20,
    first: int = 0,
) -> list[Fresh]:
    """Return what each of several fresh processes timed of the functions that ``maker`` makes anew in it.

    Each takes its own ``rounds`` with `interleave`, in an order drawn from its number, with the BLAS
    threads of this process. None is started, of six on, when ``at_most_seconds`` are over.

    Args:
        maker: a function at the top level of a module that a new process can import.
        processes: how many are started, one after the other; 10 if neither this nor ``resolve`` is given.
        resolve: the relative difference between the first function and the others that matters, such as 0.03, in
            place of ``processes``: a pilot of eight, which are not in the result, tells how many find it, as those of
            `interleave` do; the conditions of the times say what was reached.
        at_most_seconds: for all processes.
        rounds: of samples in turns, in each.
        first: calls of the first function that are timed one by one before all else.

    Raises:
        ValueError: if ``maker`` cannot be imported by name, a count is out of its range, or both ``processes`` and
            ``resolve`` are given.
        RuntimeError: if a process fails; its last line of error is the message.

    Examples:
        >>> from tinytorch.perf.measuring.processes import fresh_processes
        >>> fresh_processes(lambda: {"call": lambda: None})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: maker must be a function at the top level of a module that a new process can import, not ...
    """
    if processes is not None and resolve is not None:
        raise ValueError("processes or resolve must be given, not both: a plan says how many processes it takes")
    count = 10 if processes is None else processes
    if count < 1 or rounds < 1 or first < 0:
        raise ValueError(
            f"processes and rounds must be at least 1 and first at least 0, not {count}, {rounds} and {first}"
        )
    reference, start = reference_to("maker", maker), time.perf_counter()

    def started(begin: int, count: int, seconds: float) -> list[Fresh]:
        found: list[Fresh] = []
        until = start + seconds_allowed(seconds)
        while len(found) < count and (len(found) < FEWEST_FOR_INTERVAL or time.perf_counter() < until):
            found.append(_run(reference, rounds, first, begin + len(found)))
        return found

    if resolve is None:
        return started(0, count, at_most_seconds)
    checked_resolve(resolve)
    plan = planned(_all_ratios(started(0, PILOT_PROCESSES, at_most_seconds)), resolve)
    found = started(PILOT_PROCESSES, plan.number, at_most_seconds)
    done = carried_out(plan, _all_ratios(found))

    def told(one: Measurement) -> Measurement:
        return replace(one, conditions=replace(one.conditions, planned=done))

    return [replace(one, times={name: told(each) for name, each in one.times.items()}) for one in found]


def _all_ratios(found: Sequence[Fresh]) -> list[Measurement]:
    """Return the first function's time over that of each other one, a sample from each process."""
    baseline, *others = found[0].times
    return [_ratio(found, baseline, other) for other in others]


def _ratio(found: Sequence[Fresh], baseline: str, candidate: str) -> Measurement:
    before, after = ([each.times[name] for each in found] for name in (baseline, candidate))
    pairs = zip(before, after, strict=True)
    medians = tuple(math.exp(np.median(np.log(old.samples) - np.log(new.samples))) for old, new in pairs)
    return Measurement(f"{baseline} / {candidate}", medians, "", of_process_pairs(before, after))


def compare_in_processes(
    found: Sequence[Fresh],
    baseline: str,
    candidate: str,
    matters: float,
    *,
    together: int = 1,
) -> Comparison:
    """Return the comparison of two functions whose unit is the process: one ratio, the median of its pairs, from each.

    The interval is that of the median of these ratios.

    Args:
        found: of `fresh_processes`.
        baseline, candidate: names of functions.
        matters, together: those of `compare_paired`.
    """
    return judged(_ratio(found, baseline, candidate).together(together), (baseline, candidate), matters)


def of_process_pairs(baseline: Sequence[Measurement], candidate: Sequence[Measurement]) -> Conditions:
    """Return the conditions of one number from each process, which timed both in turns."""
    sides = {"baseline": baseline, "candidate": candidate}
    return of_sides({name: of_processes(one.conditions for one in times) for name, times in sides.items()})


def _run(reference: str, rounds: int, first: int, seed: int) -> Fresh:
    """Return what one fresh process timed."""
    arguments = ("-m", __name__, reference, str(rounds), str(first), str(seed), str(thread_limit()))
    printed = output_of(arguments, environment=_with_our_path())
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
