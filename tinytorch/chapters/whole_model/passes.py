"""Passes of whole models: the climb to kernels, the cost of calls, a plan, and what techniques and situations ask."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import techniques
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.acceleration.greedy_search import Chosen, Climb, Kept, ops_of, replayed, under
from tinytorch.perf.acceleration.plans import ModulePlan, plan, together
from tinytorch.perf.acceleration.techniques import Tried, forward_pass, with_kernels
from tinytorch.perf.engines.ours import references, training
from tinytorch.perf.engines.protocol import AdamWSettings
from tinytorch.perf.engines.workloads import subject
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.registry import accelerated, kernel_implementations
from tinytorch.perf.kernels.runtime.compiling import compile_seconds
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import added, at_cost
from tinytorch.perf.measuring import (
    Counted,
    Derived,
    Measurement,
    Modelled,
    Unmeasured,
    difference,
    interleave,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.comparison import Comparison, proven_from
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.measuring.values import as_measurement
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, INTERVAL, subplots
from tinytorch.report.numbers import interval_of


def whole_passes(model: Module, inputs: Any, loops: Chosen) -> dict[str, Measurement]:
    """Return the seconds of a forward pass by "loops", by "NumPy", by "kernels" and by a "plan", in turns."""
    run = forward_pass(model, inputs)
    ways = {"loops": under(run, loops), "NumPy": techniques.with_references(run), "kernels": with_kernels(run)}
    ways["plan"] = forward_pass(plan(model, inputs), inputs)
    return interleave(ways, repeats=36, at_most_seconds=4.0, warmup_seconds=0.05)


def kept_moves(climbed: Climb, words: Mapping[str, str]) -> dict[str, Kept]:
    """Return the moves that were kept, by what ``words`` call their ops and implementations."""

    def said(name: str) -> str:
        return words.get(name, name)

    return {f"{said(one.move.op)}: {said(one.move.before)} to {said(one.move.after)}": one for one in climbed.kept}


def reached(steps: Mapping[str, Kept], last: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Return how many times as fast as what came first each step is: moves that were kept, then ``last``."""
    return {name: one.so_far for name, one in steps.items()} | dict(last)


def whole_gain(share: float, speedup: float = math.inf) -> Modelled:
    """Return how many times as fast the whole is if a part of it is, at most 99 % of its time."""
    return Modelled(amdahl(min(max(share, 0.0), 0.99), speedup), "", "Amdahl's law", "Amdahl's law")


def calls_by_size(sizes: Sequence[int] = (4, 16, 64, 256, 1024, 4096)) -> dict[int, dict[str, Measurement]]:
    """Return, for each number of elements, the time of ``x * y + z`` as a "loop" over lists and "vectorized" by NumPy.

    A call of NumPy costs the same for one element as for a hundred, so that below some size the loop wins.
    """

    def both(size: int) -> dict[str, Callable[[], Any]]:
        arrays = np.random.default_rng(size).standard_normal((3, size), dtype=np.float32)
        lists = arrays.tolist()
        return {
            "loop": lambda: [x * y + z for x, y, z in zip(*lists, strict=True)],
            "vectorized": lambda: arrays[0] * arrays[1] + arrays[2],
        }

    plan: dict[str, Any] = {"repeats": 20, "at_most_seconds": 0.4, "warmup_seconds": 0.02}
    return {size: interleave(partial(both, size), **plan) for size in sizes}


def border(times: Mapping[int, Mapping[str, Measurement]]) -> tuple[Measurement, Modelled, Derived | Unmeasured]:
    """Return a turn of the loop, and from how many numbers on NumPy is faster than it, as predicted and as found."""
    few, many = min(times), max(times)
    turn = times[many]["loop"].scaled(1 / many, "s", "a turn of the loop")
    what = "numbers whose turns of a loop take as long as both calls of NumPy for a few"
    predicted = quotient(times[few]["vectorized"], turn, what, "numbers")
    what = "smallest number of elements tried from which on NumPy is proven to be faster than a loop"
    pairs = {size: (each["loop"], each["vectorized"]) for size, each in times.items()}
    found = proven_from(pairs, 0.05, what, "numbers")
    return (
        turn,
        Modelled.by("a call that costs the same for any number", predicted),
        found or Unmeasured("for no number of elements is NumPy proven to be faster"),
    )


@dataclass(frozen=True)
class PlanStudy:
    """A forward pass op by op on the kernels, with what follows one another joined, the kernels alone, and its plan.

    Beside them stand what calls and steps predict. ``each`` is what an op costs beyond the plan, ``worth`` that in
    operations, and ``product`` those of a linear layer.
    """

    calls: int
    joined_calls: int
    steps: int
    joined: Measurement
    bare: Measurement
    call: Measurement
    inside: Measurement
    op_by_op: Measurement
    op_by_op_predicted: Modelled
    planned: Measurement
    planned_predicted: Modelled
    each: Measurement
    worth: Modelled
    product: Counted

    @property
    def planned_over_predicted(self) -> Measurement:
        """How many times as long as predicted the plan takes."""
        return quotient(self.planned, as_measurement(self.planned_predicted), "time of the plan over its prediction")

    @property
    def op_by_op_over_predicted(self) -> Measurement:
        """How many times as long as predicted a pass op by op takes."""
        what = "time op by op over its prediction"
        return quotient(self.op_by_op, as_measurement(self.op_by_op_predicted), what)


def study_plan(model: Any, planned: ModulePlan, example: Any, machine: Ceilings, repeats: int = 60) -> PlanStudy:
    """Return a forward pass of ``model`` on the kernels op by op, and by its plan, in turns."""
    run = with_kernels(forward_pass(model, example))
    with recording(timed=False) as recorded:
        run()
    joined = with_kernels(forward_pass(fuse(model), example))
    with recording(timed=False) as fewer:
        joined()
    one = Tensor(np.ones(1, np.float32))
    compiled, calls = kernel_implementations(), ops_of(run)
    kernels = [replayed(compiled.get(op, op.reference), each) for op, each in calls.items()]

    def bare() -> None:
        for kernel in kernels:
            kernel()

    ways = {"op by op": run, "joined": joined, "kernels alone": bare, "plan": forward_pass(planned, example)}
    ways["call"] = lambda: apply(ops.add, one, one)
    with no_grad():
        times = interleave(ways, repeats=repeats, at_most_seconds=3, warmup_seconds=0.05)
    events, steps = recorded.profile.events, planned.step_times(example)
    inside = together(steps, "time inside of all steps of the plan")

    def predicted(count: int) -> Modelled:
        law = f"the time inside of the steps, and calls: {count}"
        return Modelled.by(law, added([at_cost(1, inside), at_cost(count, times["call"])]).measurement(law))

    what = "time of a pass op by op beyond that of the plan, for each operation"
    each = difference(times["op by op"], times["plan"], what).scaled(1 / len(events))
    what = "operations at the peak in what each operation takes beyond the plan"
    worth = each.scaled(machine.fp32_peak.median, "operations", what)
    what = "operations of a product of the GPT for one sequence, in the median of its linear layers"
    return PlanStudy(
        len(events),
        len(fewer.profile.events),
        len(steps),
        times["joined"],
        times["kernels alone"],
        times["call"],
        inside,
        times["op by op"],
        predicted(len(events)),
        times["plan"],
        predicted(1),
        each,
        Modelled.by("the operations, at the peak", worth),
        Counted(median(each.flops or 0 for each in events if each.op == "linear"), "operations", what),
    )


#: Ops whose second operand is a matrix of weights.
_WEIGHTED = ("linear", "conv2d")


def reuse(model: Module, inputs: Any) -> Counted:
    """Return the reuse of the layer in which the median operation of a pass lies.

    A layer from k to n numbers makes kn multiply-adds for each k + n numbers that pass it: a reuse of kn / (k + n).
    """
    with recording(timed=False) as recorded:
        forward_pass(model, inputs)()
    layers = []
    for event in recorded.profile.events:
        if event.op in _WEIGHTED:
            shape = event.inputs[1].shape
            # A linear layer has its inputs first, a convolution its outputs.
            deep, wide = (shape[0], shape[1]) if event.op == "linear" else (math.prod(shape[1:]), shape[0])
            wide = 1 if event.op == "conv2d" and shape[1] == 1 < event.inputs[0].shape[1] else wide
            layers.append((deep * wide / (deep + wide), event.flops or 0))
    layers.sort()
    half = sum(flops for _, flops in layers) / 2
    found = next(each for at, (each, _) in enumerate(layers, 1) if sum(flops for _, flops in layers[:at]) >= half)
    return Counted(found, "1", "multiply-adds for each number that passes the median layer")


@dataclass(frozen=True)
class Rule:
    """A rule drawn from some workloads: their reuse by name, and the border between plans and 8-bit layers."""

    reuse: Mapping[str, Counted]
    tried: Sequence[Tried]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each workload with its reuse, what plan and 8-bit layers gained, and the fastest."""
        return [
            {
                "workload": one.workload,
                "reuse": self.reuse[one.workload],
                "plan": one.gained[techniques.FUSED].estimate,
                "codes": one.gained[techniques.CODES].estimate,
                "fastest": one.fastest_named,
            }
            for one in self.tried
        ]

    @property
    def border(self) -> Derived | Unmeasured:
        """The reuse halfway, in ratio, between the workloads whose fastest is a plan and those of 8-bit layers."""
        plans = [self.reuse[one.workload].value for one in self.tried if one.fastest[0] == techniques.FUSED]
        codes = [self.reuse[one.workload].value for one in self.tried if one.fastest[0] == techniques.CODES]
        if not plans or not codes or max(plans) >= min(codes):
            return Unmeasured("in this build reuse does not part plans from 8-bit layers")
        named = tuple(each for one in self.tried for each in one.times.values())
        what = "reuse between that of plans and that of 8-bit layers"
        return Derived(math.sqrt(max(plans) * min(codes)), "1", what, named, "it lies between numbers of the table")

    def choice(self, model: Module, inputs: Any) -> str | Unmeasured:
        """What the rule chooses for a model that it has not seen."""
        border = self.border
        if isinstance(border, Unmeasured):
            return border
        return techniques.CODES if reuse(model, inputs).value > border.value else techniques.FUSED

    @staticmethod
    def holds(choice: str | Unmeasured, tried: Tried) -> Judgement | Unmeasured:
        """Return whether the choice is proven to be the fastest; open where it is one of several that may be."""
        if isinstance(choice, Unmeasured):
            return choice
        found = fastest(tried)
        verdict = found.verdict if choice in tried.fastest else Verdict.REFUTED
        return replace(found, verdict=verdict, word="")


def draw_passes(passes: Mapping[str, Measurement], inside: Measurement, *, xlabel: str) -> Figure:
    """Return a bar for each pass: what all have ``inside``, and up to the median of the whole what comes on top."""
    figure, ax = subplots(height=1.9)
    work = inside.median * 1e6
    for name, whole in passes.items():
        end = whole.median * 1e6
        ax.barh(name, work, height=0.5, color=color("measured"))
        ax.barh(name, max(end - work, 0), left=work, height=0.5, color=color("highlight"))
        if (reach := interval_of(whole)) is not None:
            ends = [[end - reach.low * 1e6], [reach.high * 1e6 - end]]
            ax.errorbar([end], [name], xerr=ends, fmt="none", ecolor=INK, **INTERVAL)
    ax.set_xlabel(xlabel)
    return figure


def training_steps() -> dict[str, Measurement]:
    """Return the seconds of a training step of 64 sequences of the GPT by "NumPy", and fused on the "kernels"."""
    gpt = subject("gpt-64")
    steps = {
        name: training(setting, gpt.make(), gpt.batch(), gpt.loss, AdamWSettings()).step
        for name, setting in (("NumPy", "numpy"), ("kernels", "fused"))
    }
    within = {"NumPy": references, "kernels": accelerated}
    return interleave(steps, resolve=0.1, at_most_seconds=6.0, warmup_seconds=0.1, within=within)


def batched_gain() -> Measurement:
    """Return sequences a second of the GPT in a batch of 64 over one at a time, by NumPy."""
    runs = {str(batch): forward_pass(models.trained("gpt"), models.example("gpt", batch)) for batch in (1, 64)}
    pair = interleave(runs, repeats=21, at_most_seconds=1.5, warmup_seconds=0.05)
    called = "sequences a second in a batch of 64 over one at a time, GPT, NumPy"
    return ratio(pair["1"], pair["64"]).scaled(64, "", called)


def compiling() -> Measurement:
    """Return the seconds that it took to compile all kernels."""
    taken = sum(compile_seconds().values())
    return Measurement("compile time of all kernels of this state of the sources", (taken,), "s")


def payback(steps: Mapping[str, Measurement], gain: Comparison, compiled: Measurement) -> Modelled | Unmeasured:
    """Return after how many of the `training_steps` the kernels have saved what it took to compile them."""
    saved = difference(steps["NumPy"], steps["kernels"], "seconds that a step saves")
    if gain.verdict is not Verdict.FASTER or saved.interval.low <= 0:
        return Unmeasured("in this build no training step is proven to gain anything")
    what = "training steps of 64 sequences after which all compile time is paid back"
    return Modelled.by("a gain that each step has", saved.per(compiled.median, "steps", what))


def fused_or_numpy(gain: Comparison) -> Judgement:
    """Return "fused kernels" where they are proven to be faster than NumPy, else NumPy."""
    faster = gain.verdict is Verdict.FASTER
    tests = verdict_between(gain.estimate, low=1.0, strict=True).tests
    return Judgement(Verdict.SUPPORTED, tests, "fused kernels" if faster else techniques.BASELINE)


def fastest(tried: Tried) -> Judgement:
    """Return the technique that is proven to be the fastest; open, with all names, where several may be."""
    gains = [verdict_between(one.estimate, low=1.0, strict=True) for one in tried.gained.values()]
    tests = tuple(test for gain in gains for test in gain.tests)
    verdict = Verdict.SUPPORTED if len(tried.fastest) == 1 else Verdict.OPEN
    return Judgement(verdict, tests, tried.fastest_named)


#: What each technique costs, and those that are no technique of a forward pass.
PRICES = {
    techniques.BASELINE: "none",
    techniques.KERNELS: "compiling once",
    "fused kernels": "compiling once",
    techniques.FUSED: "one shape, copied weights",
    techniques.CODES: "an error",
}


def priced(choice: Judgement, names: Sequence[str]) -> Judgement:
    """Return the prices of the techniques that a choice names, on which the same tests decide."""
    return replace(choice, word=" or ".join(dict.fromkeys(PRICES[name] for name in names)))
