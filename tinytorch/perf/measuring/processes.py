"""Fresh processes: functions given by name, answers in JSON, and replicas of one comparison in new processes.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.measuring import Measurement, blas_threads, interleave
from tinytorch.perf.measuring.comparison import Comparison, compare_paired, judged
from tinytorch.perf.measuring.measurement import conditions_of_processes


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


#: Makes the two functions to compare, baseline first, with all that they need.
Maker = Callable[[], tuple[Callable[[], Any], Callable[[], Any]]]


@dataclass(frozen=True)
class Replicas:
    """The same comparison in several fresh processes.

    Attributes:
        comparison: on the processes: one ratio, the median of its pairs, from each.
        pooled: on all pairs as if they came from one process: what leaving out the processes would claim.
        baseline, candidate: the times of each process, in seconds.
    """

    comparison: Comparison
    pooled: Comparison
    baseline: tuple[Measurement, ...]
    candidate: tuple[Measurement, ...]


def replicas(
    maker: Maker,
    *,
    processes: int = 10,
    pairs: int = 20,
    delta: float | None = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
    names: tuple[str, str] = ("baseline", "candidate"),
) -> Replicas:
    """Return the comparison of two functions that ``maker`` makes anew in each of several fresh processes.

    Each process times its own ``pairs`` with `interleave`, in an order drawn from ``seed`` and its number, with the
    BLAS threads of this process. The interval is that of the median of their medians.

    Args:
        maker: a function at the top level of a module that a new process can import; it returns the baseline and
            the candidate, both called without arguments.
        processes: how many are started, one after the other; verdicts take at least six.
        pairs: timed in each.
        delta, confidence: those of `compare_paired`.
        seed: of the orders.
        names: what the two are called.

    Raises:
        ValueError: if ``maker`` cannot be imported by name, or a count is below 1.
        RuntimeError: if a process fails; its last line of error is the message.
    """
    if processes < 1 or pairs < 1:
        raise ValueError(f"processes and pairs must be at least 1, not {processes} and {pairs}")
    reference = reference_to("maker", maker)
    runs = [_run(reference, pairs, seed + number) for number in range(processes)]
    before, after = zip(*runs, strict=True)
    logs = [np.log(one.samples) - np.log(other.samples) for one, other in runs]
    medians = tuple(math.exp(np.median(one)) for one in logs)
    pooled = compare_paired(
        np.concatenate([one.samples for one in before]),
        np.concatenate([one.samples for one in after]),
        delta,
        confidence=confidence,
    )
    how = {**conditions_of_processes(before, after), "pairs_per_process": pairs}
    ratios = Measurement(f"{names[0]} / {names[1]}", medians, "", how)
    comparison = judged(ratios, names, delta, confidence, pairs_are="processes")
    return Replicas(comparison, pooled, before, after)


def _run(reference: str, pairs: int, seed: int) -> tuple[Measurement, Measurement]:
    """Return the times of baseline and candidate from one fresh process."""
    arguments = ("-m", __name__, reference, str(pairs), str(seed), str(thread_limit()))
    printed = output_of(arguments, environment=_with_our_path())
    before, after = (
        Measurement(name, tuple(samples), "s", how) for name, samples, how in json.loads(printed.splitlines()[-1])
    )
    return before, after


def _timed_pairs(reference: str, pairs: int, seed: int, threads: int) -> list[tuple[str, list[float], dict[str, Any]]]:
    """Return name, samples and conditions of both functions, timed in this process."""
    with blas_threads(threads):
        baseline, candidate = function_at(reference)()
        both = interleave({"baseline": baseline, "candidate": candidate}, repeats=pairs, seed=seed)
    return [(one.name, list(one.samples), dict(one.how)) for one in both.values()]


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(_timed_pairs(sys.argv[1], *map(int, sys.argv[2:5]))))
