"""Passes of whole models: the climb to kernels, the cost of calls, a plan, and what techniques and situations ask."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.acceleration.tiles import PEAK, limits
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import techniques
from tinytorch.perf.acceleration.greedy_search import Chosen, Climb, Kept, ops_of, replayed, under
from tinytorch.perf.acceleration.plans import ModulePlan, plan
from tinytorch.perf.acceleration.techniques import Tried, forward_pass, with_kernels
from tinytorch.perf.engines.ours import references, training
from tinytorch.perf.engines.protocol import AdamWSettings
from tinytorch.perf.engines.workloads import subject
from tinytorch.perf.events.stream import recording
from tinytorch.perf.kernels.registry import accelerated, kernel_implementations
from tinytorch.perf.kernels.runtime.compiling import compile_seconds
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_paired, proven_from
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between
from tinytorch.perf.measuring.measurement import derived
from tinytorch.perf.profiling.breakdown import amdahl


def whole_passes(model: Module, inputs: Any, loops: Chosen) -> dict[str, Measurement]:
    """Return the seconds of a forward pass by "loops", by "NumPy", by "kernels" and by a "plan", in turns."""
    run = forward_pass(model, inputs)
    ways = {"loops": under(run, loops), "NumPy": techniques.with_references(run), "kernels": with_kernels(run)}
    ways["plan"] = forward_pass(plan(model, inputs), inputs)
    return interleave(ways, repeats=30, at_most_seconds=2.0, warmup_seconds=0.05)


def kept_moves(climbed: Climb, words: Mapping[str, str]) -> dict[str, Kept]:
    """Return the moves that were kept, by what ``words`` call their ops and implementations."""

    def said(name: str) -> str:
        return words.get(name, name)

    return {f"{said(one.move.op)}: {said(one.move.before)} to {said(one.move.after)}": one for one in climbed.kept}


def whole_gain(share: float, speedup: float = math.inf) -> Modelled:
    """Return how many times as fast the whole is if a part of it is, at most 99 % of its time."""
    return Modelled(amdahl(min(max(share, 0.0), 0.99), speedup), "", "Amdahl's law", "Amdahl's law")


def calls_by_size(sizes: Sequence[int] = (4, 16, 64, 256, 1024)) -> dict[int, dict[str, Measurement]]:
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


@dataclass(frozen=True)
class Border:
    """From how many elements on NumPy is faster than a loop.

    Attributes:
        turn: time of the loop for an element.
        predicted: elements for which the loop takes as long as NumPy's calls for a few.
        found: smallest number of elements tried from which on NumPy is proven faster.
        over_predicted: the found number over the predicted one.
    """

    turn: Measurement
    predicted: Modelled
    found: Derived | Unmeasured
    over_predicted: Measurement | Unmeasured


def border(times: Mapping[int, Mapping[str, Measurement]]) -> Border:
    """Return the border between the loop and NumPy that the ``times`` of `calls_by_size` predict and show."""
    few, many = min(times), max(times)
    turn = times[many]["loop"].scaled(1 / many, "s", "time of the loop for an element")
    what = "elements for which a loop takes as long as both calls of NumPy for a few"
    predicted = quotient(times[few]["vectorized"], turn, what, "elements")
    by_call = Modelled.by("a call that costs the same for any number", predicted)
    what = "smallest number of elements tried from which on NumPy is proven to be faster than a loop"
    pairs = {size: (each["loop"], each["vectorized"]) for size, each in times.items()}
    found = proven_from(pairs, 0.05, what, "elements")
    if found is None:
        lacks = Unmeasured("for no number of elements is NumPy proven to be faster")
        return Border(turn, by_call, lacks, lacks)
    over = derived("border found over predicted", partial(_over, found=found.value), predicted)
    return Border(turn, by_call, found, over)


def _over(predicted: Any, found: float) -> Any:
    return found / predicted


@dataclass(frozen=True)
class PlanStudy:
    """A forward pass on the kernels "op by op", by the "kernels alone" and by its "plan", in turns with the smallest
    "call" and with the loop of the peak, whose operations are ``peak``.

    ``calls`` and ``steps`` are the numbers of ops and of the plan's steps. ``row`` are the operations that the median
    linear layer does for a row of its input.
    """

    times: Mapping[str, Measurement]
    peak: int
    calls: int
    steps: int
    row: Counted

    def gain(self, before: str, after: str) -> Measurement:
        """Return the time of one way over that of another."""
        return ratio(self.times[before], self.times[after], f"time of {before} over {after}")

    @property
    def predicted(self) -> Modelled:
        """How many times as fast the plan is if each of the calls that it saves costs as much as the smallest."""
        gain = derived(
            "op by op over a plan", partial(_gain_without, calls=self.calls - 1), self.gain("op by op", "call")
        )
        return Modelled.by("the smallest call for each call that is saved", gain)

    @property
    def each(self) -> Measurement:
        """What an op takes beyond the plan, in smallest calls."""
        return self._each("call", 1, "time of an op beyond the plan, over that of the smallest call", "calls")

    @property
    def border(self) -> Measurement:
        """How many rows the median linear layer does at the peak in the time that an op takes beyond the plan."""
        what = "rows of a product at the peak in what an op takes beyond the plan"
        return self._each(PEAK, self.peak / self.row.value, what, "rows")

    def _each(self, unit: str, worth: float, what: str, named: str) -> Measurement:
        beyond = partial(_beyond, factor=worth / self.calls)
        return derived(what, beyond, self.gain("op by op", "plan"), self.gain("plan", unit), unit=named)


def _gain_without(in_calls: Any, calls: int) -> Any:
    return 1 / (1 - calls / in_calls)


def _beyond(gain: Any, length: Any, factor: float) -> Any:
    return (gain - 1) * length * factor


def study_plan(model: Any, planned: ModulePlan, example: Any, repeats: int = 300) -> PlanStudy:
    """Return a forward pass of ``model`` on the kernels op by op, and by its plan, in turns.

    Rounds are short: a few of them are over before the machine changes its pace, and a single change of pace looks like
    noise that has no level.
    """
    run = with_kernels(forward_pass(model, example))
    with recording(timed=False) as recorded:
        run()
    one = Tensor(np.ones(1, np.float32))
    compiled, calls = kernel_implementations(), ops_of(run)
    kernels = [replayed(compiled.get(op, op.reference), each) for op, each in calls.items()]

    def bare() -> None:
        for kernel in kernels:
            kernel()

    (loops, operations), events = limits(), recorded.profile.events
    ways = {"op by op": run, "kernels alone": bare, "plan": forward_pass(planned, example), PEAK: loops[PEAK]}
    ways["call"] = lambda: apply(ops.add, one, one)
    with no_grad():
        times = interleave(ways, repeats=repeats, at_most_seconds=2, warmup_seconds=0.05)
    products = [each.flops or 0 for each in events if each.op == "linear"]
    row = Counted(median(products) / np.size(example), "operations", "operations of the median linear layer for a row")
    return PlanStudy(times, operations[PEAK], len(events), len(planned.step_times(example)), row)


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
        """Each workload with its reuse, what each technique gains, and the fastest."""
        return [
            {
                "workload": one.workload,
                "reuse": self.reuse[one.workload],
                "gained": {name: gain.estimate for name, gain in one.gained.items()},
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


def training_gain() -> Comparison:
    """Return what fused kernels gain for a training step of 64 sequences of the GPT over NumPy."""
    gpt = subject("gpt-64")
    steps = {
        name: training(setting, gpt.make(), gpt.batch(), gpt.loss, AdamWSettings()).step
        for name, setting in (("NumPy", "numpy"), ("kernels", "fused"))
    }
    within = {"NumPy": references, "kernels": accelerated}
    times = interleave(steps, resolve=0.1, at_most_seconds=2.0, warmup_seconds=0.1, within=within)
    return compare_paired(times["NumPy"], times["kernels"], matters=0.1)


def batched_gain() -> Measurement:
    """Return sequences a second of the GPT in a batch of 64 over one at a time, by NumPy."""
    runs = {str(batch): forward_pass(models.trained("gpt"), models.example("gpt", batch)) for batch in (1, 64)}
    pair = interleave(runs, repeats=60, at_most_seconds=1.5, warmup_seconds=0.05)
    called = "sequences a second in a batch of 64 over one at a time, GPT, NumPy"
    return ratio(pair["1"], pair["64"]).scaled(64, "", called)


def compiling() -> Measurement:
    """Return the seconds that it took to compile all kernels."""
    taken = sum(compile_seconds().values())
    return Measurement("compile time of all kernels of this state of the sources", (taken,), "s")


def fastest(tried: Tried) -> Judgement:
    """Return the technique that is proven to be the fastest; open, with all names, where several may be."""
    gains = [verdict_between(one.estimate, low=1.0, strict=True) for one in tried.gained.values()]
    tests = tuple(test for gain in gains for test in gain.tests)
    verdict = Verdict.SUPPORTED if len(tried.fastest) == 1 else Verdict.OPEN
    return Judgement(verdict, tests, tried.fastest_named)
