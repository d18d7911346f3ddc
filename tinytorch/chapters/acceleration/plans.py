"""The page's plan: a forward pass op by op and called once, and what each of its steps takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import Plan, StepTime
from tinytorch.perf.acceleration.techniques import forward_pass, with_kernels
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.report import Column, Page, color, subplots

#: Steps that the table shows.
_SHOWN = 8
STEPS = (Column("step", "Step"), Column("where", "In"), Column("seconds", "Takes", "s"))


@dataclass(frozen=True)
class PlanStudy:
    """A forward pass in two ways.

    Attributes:
        calls: ops that the model runs.
        op_by_op, planned: seconds of a pass.
        call: seconds of an op on one element through the seam: a call and nothing else.
        steps: what each step of the plan takes.
    """

    calls: int
    op_by_op: Measurement
    planned: Measurement
    call: Measurement
    steps: tuple[StepTime, ...]


def study_plan(model: Any, planned: Plan, example: Any, repeats: int = 15) -> PlanStudy:
    """Return a forward pass of ``model`` on the kernels op by op, and by its plan, in turns."""
    run = with_kernels(forward_pass(model, example))
    with recording(timed=False) as recorded:
        run()
    one = Tensor(np.ones(1, np.float32))
    ways: dict[str, Callable[[], Any]] = {
        "op by op": run,
        "plan": forward_pass(planned, example),
        "call": lambda: apply(ops.add, one, one),
    }
    with no_grad():
        times = interleave(ways, repeats=repeats, at_most_seconds=4, warmup_seconds=0.2)
    calls = len(recorded.profile.events)
    return PlanStudy(calls, times["op by op"], times["plan"], times["call"], tuple(planned.step_times(example)))


def record_plan(page: Page, study: PlanStudy) -> None:
    """Record what the plan takes beside what one call and its steps predict, draw both, and list its longest steps."""
    inside = sum(step.seconds for step in study.steps)
    page.number("plan-calls", study.calls, unit="operations", what="operations of one sequence through the GPT")
    page.number("plan-steps", len(study.steps), unit="steps", what="steps of its plan")
    page.number("plan-inside", inside, unit="s", what="time inside of all steps of the plan, each by its median")
    page.number("plan-call", study.call)
    page.number(
        "plan-predicted", inside + study.call.median, unit="s", what="the time inside of the steps and one call"
    )
    page.number("plan-time", study.planned)
    page.number("plan-op-by-op", study.op_by_op)
    between = (study.op_by_op.median - inside) / study.calls
    what = "time of a pass op by op, less that inside of the plan's steps, for each operation"
    page.number("plan-between", between, unit="s", what=what)
    page.number("plan-gain", ratio(study.op_by_op, study.planned, "time op by op on the kernels over that of the plan"))
    figure, ax = subplots(height=1.9)
    for name, whole in (("plan", study.planned), ("op by op", study.op_by_op)):
        ax.barh(name, inside * 1e6, height=0.5, color=color("compiled"))
        ax.barh(name, (whole.median - inside) * 1e6, left=inside * 1e6, height=0.5, color=color("baseline"))
    ax.set_xlabel("time (µs)")
    page.figure(
        "plan-times",
        figure,
        caption="A pass of the GPT over one sequence, medians: the time inside of the plan's steps (amber), and all "
        "that comes on top (grey), which is one call by the plan and a call for each operation without it.",
        alt="Two bars of time, by the plan and op by op: an amber part, the same for both, and a grey one up to the "
        "median of the whole.",
    )
    longest = sorted(study.steps, key=lambda step: -step.seconds)[:_SHOWN]
    rows = [{"step": step.name, "where": step.path or "the model", "seconds": step.seconds} for step in longest]
    page.table(
        "plan-steps-table",
        rows,
        STEPS,
        caption="The longest steps of the plan, by a clock that is read inside of the compiled loop.",
    )
