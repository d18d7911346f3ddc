"""A run: fresh processes one after the other, each kept as soon as it is done, and continued after an interruption."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Json, Plan, Results, differences
from tinytorch.perf.benchmarking.results_json import performance_from_json
from tinytorch.perf.identity import identity

#: Called with the results so far after each process.
Keep = Callable[[Results], None]
_WORKER = "tinytorch.perf.benchmarking.worker"


@dataclass(frozen=True)
class Side:
    """One of the runs that are measured together: what is to be kept, and the checkout whose package runs.

    ``folder`` holds the folder ``tinytorch``; None is the package that is imported here.
    """

    results: Results
    keep: Keep
    folder: Path | None = None


def started(plan: Plan, code: Json) -> Results:
    """Return the results of a run that has measured nothing yet, on this machine.

    Raises:
        ValueError: if a number of the plan is out of its range.
    """
    counts = {"processes": plan.processes, "repeats": plan.repeats, "threads": plan.threads}
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    if not plan.at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {plan.at_most_seconds}")
    if not plan.batches or min(plan.batches) < 1:
        raise ValueError(f"batches must be whole numbers above 0, not {plan.batches}")
    return Results(plan, {}, 0, identity().to_json(), code)


def continued(before: Results, plan: Plan, code: Json) -> Results:
    """Return ``before``, an interrupted run, ready to go on as ``plan``, which may ask for more processes.

    Raises:
        ValueError: if it was planned otherwise, on another machine, or measured other code: its times would not belong
            to those that follow.
    """
    fresh = started(plan, code)
    if replace(before.plan, processes=plan.processes) != plan:
        raise ValueError("the run to resume was planned otherwise: give the options it was started with")
    changed = differences(before, fresh)
    if changed:
        raise ValueError(f"the run to resume was of another machine or environment ({'; '.join(changed)}): start anew")
    if before.code != code:
        raise ValueError("the run to resume measured other code than is here now: start anew")
    return replace(before, plan=plan)


def run(sides: Sequence[Side], progress: Callable[[int, int], None] | None = None) -> list[Results]:
    """Measure what is left of the plans and return the results of each side.

    With several sides, such as a change and its base, their processes alternate in an order drawn for each turn, so
    that what the machine does over time hits all alike.

    Args:
        sides: what to measure; each is kept after each of its processes.
        progress: called with the processes that are done and planned, of all sides.

    Raises:
        RuntimeError: if a process fails; its last line of error is the message.
        KeyboardInterrupt: as it comes; what was measured has been kept.
    """
    told = progress or _silent
    made = [side.results for side in sides]
    planned = sum(each.plan.processes for each in made)
    order = np.random.default_rng(made[0].plan.seed)
    for number in range(max(each.plan.processes for each in made)):
        for index in order.permutation(len(sides)):
            told(sum(each.done for each in made), planned)
            results = made[index]
            if results.done <= number < results.plan.processes:
                made[index] = _extended(results, _process(results, number, sides[index].folder))
                sides[index].keep(made[index])
    told(sum(each.done for each in made), planned)
    return made


def _silent(done: int, planned: int) -> None:
    del done, planned


def _extended(results: Results, measured: Sequence[Performance]) -> Results:
    """Return ``results`` with the times of one more process."""
    before = results.performances
    if before and [*before] != [one.name for one in measured]:
        raise RuntimeError(f"a process measured {[one.name for one in measured]}, those before it {[*before]}")
    after = {one.name: _joined(before.get(one.name), one, results.run) for one in measured}
    return replace(results, performances=after, done=results.done + 1)


def _joined(before: Performance | None, one: Performance, run: str) -> Performance:
    if before is None:
        return replace(one, run=run)
    return replace(before, times=_both(before.times, one.times), reference=_both(before.reference, one.reference))


def _both(before: Mapping[int, tuple[Any, ...]], after: Mapping[int, tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    return {size: before[size] + after[size] for size in before}


def _process(results: Results, number: int, folder: Path | None) -> list[Performance]:
    """Return what a fresh process measured; the first of a run also measures memory and accuracy."""
    path = [str(folder), *sys.path] if folder else sys.path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in path if each)}
    asked = json.dumps({"plan": asdict(results.plan), "number": number, "whole": not results.performances})
    command = [sys.executable, "-m", _WORKER]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"a process of the benchmark failed: {lines[-1]}")
    return [performance_from_json(one, results.run) for one in json.loads(done.stdout.splitlines()[-1])]
