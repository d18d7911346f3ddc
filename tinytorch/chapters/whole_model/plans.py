"""The page's plan, and the cost of calls: a pass op by op and called once, and a sum by a loop and by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import Plan, StepTime, together
from tinytorch.perf.acceleration.techniques import forward_pass, with_kernels
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import added, at_cost
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, difference, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.report import Page, color
from tinytorch.report.figures import INK, subplots
from tinytorch.report.numbers import interval_of


@dataclass(frozen=True)
class PlanStudy:
    """A forward pass in two ways.

    Attributes:
        calls: ops that the model runs.
        op_by_op, planned: seconds of a pass.
        call: seconds of an op on one element through the seam: a call and nothing else.
        steps: what each step of the plan takes.
        product: operations of a linear layer's product, in the median of all that the model runs.
    """

    calls: int
    op_by_op: Measurement
    planned: Measurement
    call: Measurement
    steps: tuple[StepTime, ...]
    product: float


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
        times = interleave(ways, repeats=repeats, at_most_seconds=1, warmup_seconds=0.05)
    events, steps = recorded.profile.events, tuple(planned.step_times(example))
    product = median(each.flops or 0 for each in events if each.op == "linear")
    return PlanStudy(len(events), times["op by op"], times["plan"], times["call"], steps, product)


def record_plan(page: Page, study: PlanStudy, machine: Ceilings) -> None:
    """Record what the plan takes beside what one call and its steps predict, and draw both.

    Args:
        page: where to.
        study: what `study_plan` returned.
        machine: ceilings of one thread, in whose operations the price of a call is told.
    """
    steps = together(study.steps, "time inside of all steps of the plan")
    page.number("plan-calls", study.calls, unit="operations", what="operations of one sequence through the GPT")
    page.number("plan-steps", len(study.steps), unit="steps", what="steps of its plan")
    page.number("plan-inside", steps)
    for key, count in (("plan-predicted", 1), ("plan-op-predicted", study.calls)):
        law = f"the time inside of the steps, and calls: {count}"
        page.number(key, Modelled.by(law, added([at_cost(1, steps), at_cost(count, study.call)]).statistic(law)))
    what = "time of a pass op by op beyond that of the plan, for each operation"
    each = difference(study.op_by_op, study.planned, what).scaled(1 / study.calls)
    page.number("plan-each", each)
    what = "operations at the peak in what each operation takes beyond the plan"
    page.number(
        "plan-worth",
        Modelled.by("the operations, at the peak", each.scaled(machine.fp32_peak.median, "operations", what)),
    )
    what = "operations of a product of the GPT for one sequence, in the median of its linear layers"
    page.number("plan-product", Counted(study.product, "operations", what))
    page.number("plan-call", study.call)
    page.number("plan-time", study.planned)
    page.number("plan-op-by-op", study.op_by_op)
    page.number("plan-gain", ratio(study.op_by_op, study.planned, "time op by op on the kernels over that of the plan"))
    figure, ax = subplots(height=1.9)
    inside = steps.median
    for name, whole in (("plan", study.planned), ("op by op", study.op_by_op)):
        ax.barh(name, inside * 1e6, height=0.5, color=color("compiled"))
        ax.barh(name, max(whole.median - inside, 0) * 1e6, left=inside * 1e6, height=0.5, color=color("baseline"))
        interval = interval_of(whole)
        if interval is not None:
            ends = [[(whole.median - interval.low) * 1e6], [(interval.high - whole.median) * 1e6]]
            ax.errorbar([whole.median * 1e6], [name], xerr=ends, fmt="none", ecolor=INK, elinewidth=1.2, capsize=3)
    ax.set_xlabel("time (µs)")
    page.figure(
        "plan-times",
        figure,
        caption="A pass of the GPT over one sequence, medians: the time inside of the plan's steps (amber), and all "
        "that comes on top (grey): one call by the plan; without it a call for each operation, the arrays between "
        "them, and what the plan joins and packs. The line at the end of a bar is the interval of the whole.",
        alt="Two bars of time, by the plan and op by op: an amber part, the same for both, and a grey one up to the "
        "median of the whole, with its interval.",
    )


def calls_by_size(sizes: Sequence[int] = (4, 16, 64, 256, 1024, 4096)) -> dict[int, dict[str, Measurement]]:
    """Return, for each number of elements, the time of ``x * y + z`` as a "loop" over lists and "vectorized" by NumPy.

    A call of NumPy costs the same for one element as for a hundred, so that below some size the loop wins.

    Raises:
        ValueError: if a size is below 1.
    """
    found: dict[int, dict[str, Measurement]] = {}
    for size in sizes:
        if size < 1:
            raise ValueError(f"sizes must be at least 1, not {size}")
        fresh = partial(_loop_and_vectorized, size)
        found[size] = interleave(fresh, repeats=20, at_most_seconds=0.4, warmup_seconds=0.02)
    return found


def _loop_and_vectorized(size: int) -> dict[str, Callable[[], Any]]:
    """Return ``x * y + z`` in both ways, of numbers that lie elsewhere each time."""
    arrays = np.random.default_rng(size).standard_normal((3, size), dtype=np.float32)
    lists = arrays.tolist()
    return {
        "loop": lambda: [x * y + z for x, y, z in zip(*lists, strict=True)],
        "vectorized": lambda: arrays[0] * arrays[1] + arrays[2],
    }


def record_calls(page: Page, times: Mapping[int, Mapping[str, Measurement]]) -> None:
    """Record from how many elements on a call of NumPy should be faster than a loop, and from how many on it is.

    Args:
        page: where to.
        times: what `calls_by_size` returned.
    """
    few, many = min(times), max(times)
    page.compare("call-few", compare_paired(times[few]["loop"], times[few]["vectorized"], matters=0.1))
    call, each = times[few]["vectorized"], times[many]["loop"].scaled(1 / many, "s", "a turn of the loop")
    page.number("call-numpy", call)
    page.number("call-turn", each)
    what = "numbers whose turns of a loop take as long as both calls of NumPy for a few"
    page.number(
        "call-predicted",
        Modelled.by("a call that costs the same for any number", quotient(call, each, what, "numbers")),
    )
    faster = {
        size: compare_paired(one["loop"], one["vectorized"], matters=0.05).verdict == Verdict.FASTER
        for size, one in times.items()
    }
    paying = [size for size in times if all(faster[other] for other in times if other >= size)]
    if not paying:
        page.absent("call-measured", reason="for no number of elements is NumPy proven to be faster")
        return
    what = "smallest number of elements tried from which on NumPy is proven to be faster than a loop"
    page.number(
        "call-measured",
        Derived(
            paying[0],
            "numbers",
            what,
            tuple(one[way] for one in times.values() for way in one),
            "it is one of the numbers tried",
        ),
    )
