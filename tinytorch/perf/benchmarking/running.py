"""A run: fresh processes one after the other, a reference beside each, kept at once and continued if interrupted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Json, Plan, Results, differences
from tinytorch.perf.host.identity import identity
from tinytorch.perf.measuring.codec import from_json
from tinytorch.perf.measuring.fresh import answer_of

_STEPS = 800


def reference_work() -> Callable[[], None]:
    """Return a function of some hundred microseconds: a float32 product, operations on its result, a Python loop.

    What it computes is of no use. It belongs to no model, so that a change of the code under test does not move it;
    what the machine does to all programs, such as another clock or a busy neighbour, does.
    """
    draw = np.random.default_rng(0)
    left, right = draw.random((64, 256), dtype=np.float32), draw.random((256, 256), dtype=np.float32)
    product, rest = np.empty((64, 256), np.float32), np.empty((64, 256), np.float32)

    def work() -> None:
        np.matmul(left, right, out=product)
        np.maximum(product, 0, out=rest)
        np.sqrt(rest, out=rest)
        np.add(rest, product, out=rest)
        sum(range(_STEPS))

    return work


#: Called with the results so far after each process.
Keep = Callable[[Results], None]
#: What measures in a fresh process.
WORKER_MODULE = "tinytorch.perf.benchmarking.worker"


@dataclass(frozen=True)
class Side:
    """One of the runs that are measured together: what is to be kept, and the checkout whose package runs.

    ``folder`` holds the folder ``tinytorch``; None is the package that is imported here.
    """

    results: Results
    keep: Keep
    folder: Path | None = None


def started(plan: Plan, code: Json) -> Results:
    """Return the results of a run on this machine that has measured nothing yet."""
    return Results(plan, {}, 0, identity().to_json(), code)


def continued(before: Results, plan: Plan, code: Json) -> Results:
    """Return ``before``, an interrupted run, ready to go on as ``plan``, which may ask for more processes.

    Raises:
        ValueError: if it was planned otherwise, on another machine, or measured other code: its times would not belong
            to those that follow.
    """
    fresh = started(plan, code)
    if replace(before.plan, processes=plan.processes) != plan:
        raise ValueError("the run to resume was started with different options: give the same options again")
    changed = differences(before, fresh)
    if changed:
        raise ValueError(
            f"the run to resume is of another machine or environment ({'; '.join(changed)}): start a new run"
        )
    if before.code != code:
        raise ValueError("the code has changed since the run to resume was started: start a new run")
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
    told = progress or (lambda *_: None)
    made = [side.results for side in sides]
    planned = sum(each.plan.processes for each in made)
    order = np.random.default_rng(made[0].plan.seed)
    for number in range(max(each.plan.processes for each in made)):
        for index in order.permutation(len(sides)):
            told(sum(each.done for each in made), planned)
            results = made[index]
            if results.done <= number < results.plan.processes:
                made[index] = extended(results, _process(results, number, sides[index].folder))
                sides[index].keep(made[index])
    told(sum(each.done for each in made), planned)
    return made


def extended(results: Results, measured: Sequence[Performance]) -> Results:
    """Return ``results`` with the times of one more process.

    Raises:
        RuntimeError: if it measured other variants than those before it.
    """
    before = results.performances
    if before and [*before] != [one.name for one in measured]:
        raise RuntimeError(f"a process measured {[one.name for one in measured]}, those before it {[*before]}")
    after = {one.name: replace(one, run=results.run) for one in measured}
    for name, one in before.items():
        times, reference = (
            {size: kept[size] + new[size] for size in kept}
            for kept, new in ((one.times, after[name].times), (one.reference, after[name].reference))
        )
        after[name] = replace(one, times=times, reference=reference)
    return replace(results, performances=after, done=results.done + 1)


def _process(results: Results, number: int, folder: Path | None) -> list[Performance]:
    """Return what a fresh process measured; the first of a run also measures memory and accuracy."""
    asked = {"plan": asdict(results.plan), "number": number, "whole": not results.performances}
    try:
        measured = answer_of(WORKER_MODULE, asked, folder)
    except RuntimeError as error:
        raise RuntimeError(f"a process of the benchmark failed: {error}") from None
    return [from_json(one, Performance, "variant") for one in measured]
