"""The page's plan: a forward pass op by op and called once, and what each of its steps takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

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
        inside: seconds inside of each op, in their order: medians of passes that were recorded.
        op_by_op, planned: seconds of a pass.
        call: seconds of an op on one element through the seam: a call and nothing else.
        steps: what each step of the plan takes.
    """

    inside: tuple[float, ...]
    op_by_op: Measurement
    planned: Measurement
    call: Measurement
    steps: tuple[StepTime, ...]


def study_plan(model: Any, planned: Plan, example: Any, repeats: int = 15) -> PlanStudy:
    """Return a forward pass of ``model`` on the kernels op by op, and by its plan, in turns."""
    run = with_kernels(forward_pass(model, example))
    run()
    # All passes in one recording: the first of each runs with cold caches.
    with recording() as recorded:
        for _ in range(repeats):
            run()
    one = Tensor(np.ones(1, np.float32))
    ways: dict[str, Callable[[], Any]] = {
        "op by op": run,
        "plan": forward_pass(planned, example),
        "call": lambda: apply(ops.add, one, one),
    }
    with no_grad():
        times = interleave(ways, repeats=repeats, at_most_seconds=4, warmup_seconds=0.2)
    each = np.reshape([event.self_ns * 1e-9 for event in recorded.profile.events], (repeats, -1))
    inside = tuple(np.median(each, axis=0).tolist())
    return PlanStudy(inside, times["op by op"], times["plan"], times["call"], tuple(planned.step_times(example)))


def record_plan(page: Page, study: PlanStudy) -> None:
    """Record what the plan takes beside what one call and its steps predict, draw both, and list its longest steps."""
    inside = sum(step.seconds for step in study.steps)
    page.number("plan-calls", len(study.inside), unit="operations", what="operations of one sequence through the GPT")
    page.number("plan-steps", len(study.steps), unit="steps", what="steps of its plan")
    page.number("plan-inside", inside, unit="s", what="time inside of all steps of the plan, each by its median")
    page.number("plan-call", study.call)
    page.number(
        "plan-predicted", inside + study.call.median, unit="s", what="the time inside of the steps and one call"
    )
    page.number("plan-time", study.planned)
    page.number("plan-op-by-op", study.op_by_op)
    between = _between(study.op_by_op.median, study.inside)
    page.number("plan-between", between[0], unit="s", what="time between two operations of a pass op by op, on average")
    page.number("plan-gain", ratio(study.op_by_op, study.planned, "time op by op on the kernels over that of the plan"))
    figure, ax = subplots(height=1.9)
    steps = [step.seconds for step in study.steps]
    _draw(ax, "plan", steps, [max(study.planned.median - inside, 0.0)] + [0.0] * (len(steps) - 1))
    _draw(ax, "op by op", study.inside, between)
    ax.set_xlabel("time (µs)")
    page.figure(
        "plan-times",
        figure,
        caption="A pass of the GPT over one sequence, to scale: inside of operations, filled, and between them, empty. "
        "Op by op the time between operations is shared out evenly.",
        alt="Two bars over time. Op by op, a gap before each of many short pieces; by the plan one gap, and then the "
        "pieces without gaps.",
    )
    longest = sorted(study.steps, key=lambda step: -step.seconds)[:_SHOWN]
    rows = [{"step": step.name, "where": step.path or "the model", "seconds": step.seconds} for step in longest]
    page.table(
        "plan-steps-table",
        rows,
        STEPS,
        caption="The longest steps of the plan, by a clock that is read inside of the compiled loop.",
    )


def _between(whole: float, inside: Sequence[float]) -> list[float]:
    """Return what is left of ``whole`` beside the ops, shared out evenly."""
    return [max(whole - sum(inside), 0.0) / len(inside)] * len(inside)


def _draw(ax: Axes, name: str, inside: Sequence[float], before: Sequence[float]) -> None:
    """Draw pieces of time in µs, each behind the gap before it."""
    ends = np.cumsum(np.add(before, inside)) * 1e6
    widths = np.multiply(inside, 1e6)
    ax.barh(name, float(ends[-1]), height=0.5, fill=False, edgecolor=color("baseline"))
    ax.barh([name] * len(widths), widths, left=ends - widths, height=0.5, color=color("compiled"))
