"""Experiments of the page on profiling: where time goes in calls, models, steps and blocks, and what a batch gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.profiling.costs import attention_share
from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Sample, of_sides
from tinytorch.perf.measuring.judge import Judgement, largest, verdict_between, verdict_of_any
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import NOT_NAMED, LayerRow, between_rows
from tinytorch.perf.profiling.passes import count_flops
from tinytorch.perf.profiling.shares import recorded_runs, shares, time_between_ops

#: Width of the transformer of `architectures`, and of the hidden layer of its MLP.
TRANSFORMER_WIDTH, MLP_WIDTH = 32, 128
#: `spread_of_means_over_medians` of blocks of many samples with normal noise, of which the mean is the steadier one.
NORMAL_SPREAD = Modelled(
    math.sqrt(2 / math.pi),
    "",
    "spread of means of normal noise over that of medians of the same samples",
    "normal noise",
)


def scatter(single: Measurement) -> tuple[Derived, Derived, Derived]:
    """Return the mean of single calls, the slowest, and where the slowest hundredth begins over their median."""
    why_mean, why_slowest = "an interval of a mean holds for normal noise alone", "nothing bounds the slowest call"
    tail, what = single.percentile(99) / single.median, "99th percentile over median of warm calls"
    return (
        Derived(single.mean, "s", "mean of the same calls", (single,), why_mean),
        Derived(single.maximum, "s", "slowest of the same calls", (single,), why_slowest),
        Derived(tail, "", what, (single,), "both are of the same samples"),
    )


#: Sets a module one step in under the one that it is in; a page collapses plain spaces.
_INDENT = "\u00a0\u00a0"


@dataclass(frozen=True)
class ModuleTime:
    """A module of one recorded run: time with all that is in it, share of the run, and rate of its ops."""

    path: str
    total: Measurement
    share: Measurement
    flops: Counted | None
    rate: Measurement | None


def module_times(rows: Sequence[LayerRow], depth: int) -> list[ModuleTime]:
    """Return the modules of a timed run that lie in at most ``depth`` others."""
    named = [(row, row.path.split(".", 1)[-1] or "outside of modules") for row in rows if row.depth <= depth]
    return [
        ModuleTime(
            _INDENT * row.depth + name,
            Measurement(name, ((row.total_seconds or 0.0) + (row.between_seconds or 0.0),), "s"),
            Measurement(name, (row.share or 0.0,), "%"),
            None if row.flops is None else Counted(row.flops, "FLOP", f"arithmetic of {name}"),
            Measurement(name, (row.gflops_per_second * 1e9,), "FLOP/s") if row.gflops_per_second else None,
        )
        for row, name in named
    ]


def shares_by_model(
    trained: Mapping[str, Module],
    inputs: Mapping[str, Any],
    kinds: Mapping[str, Callable[[Event], bool]],
    repeats: int = 21,
) -> dict[str, dict[str, Measurement]]:
    """Return, for each model, `shares.shares` of the kinds of ops in its forward pass, no gradients."""
    with no_grad():
        return {name: shares(partial(model, inputs[name]), kinds, repeats=repeats) for name, model in trained.items()}


@dataclass(frozen=True)
class KindShare:
    """Share of a kind of op in the time of a model's ops."""

    label: str
    kind: str
    share: Measurement


def shown_shares(by_model: Mapping[str, Mapping[str, Measurement]], above: float) -> list[KindShare]:
    """Return the shares ``above`` so much, the largest of each model first."""
    return [
        KindShare(f"{name.upper()}: {kind}", kind, share)
        for name, found in by_model.items()
        for kind, share in sorted(found.items(), key=lambda item: -item[1].median)
        if share.median > above
    ]


def largest_kinds(by_model: Mapping[str, Mapping[str, Measurement]]) -> dict[str, Judgement]:
    """Return which kind of op with a name takes the largest share of each model's time."""
    return {
        name: largest({kind: share for kind, share in found.items() if kind != "other"})
        for name, found in by_model.items()
    }


def between_ops(gpt: Module) -> dict[int, Measurement]:
    """Return, for 64 sequences and for one, `shares.time_between_ops` of the GPT's forward pass."""
    with no_grad():
        return {batch: time_between_ops(partial(gpt, models.example("gpt", batch))) for batch in (64, 1)}


def training_shares(training: Callable[[], object], repeats: int = 12) -> dict[str, Measurement]:
    """Return what share of a training loop's time ops take, its regions and modules, and what has no name."""
    found: dict[str, list[float]] = {"operations": [], "between": [], "unnamed": []}
    profiles, conditions = recorded_runs(training, repeats)
    for profile in profiles:
        shares_of = {row.op: row.share or 0.0 for row in between_rows(profile)}
        unnamed, between = shares_of[NOT_NAMED], sum(shares_of.values())
        for part, share in zip(found, (1 - between, between - unnamed, unnamed), strict=True):
            found[part].append(share)
    conditions = replace(conditions, part_of="the run's time")
    return {
        part: with_between_run_spread(Measurement(f"share of {part}", tuple(each), "%", conditions))
        for part, each in found.items()
    }


@dataclass(frozen=True)
class TrainingStep:
    """Phases of a model's training step: seconds, and the backward over the forward pass in time and arithmetic."""

    label: str
    seconds: Mapping[str, Measurement]
    ratio: Measurement
    flops: Counted


def training_steps(
    steps: Mapping[str, Mapping[str, Measurement]],
    back: Mapping[str, Measurement],
    counted: Mapping[str, Mapping[str, Any]],
) -> dict[str, TrainingStep]:
    """Return the step of each model: its phases, the ratio of two of them, and ``profile_backward_pass`` of it."""
    what = "contractions of the backward over those of the forward pass"
    flops = {name: each["backward_flops"] / each["forward_flops"] for name, each in counted.items()}
    return {
        name: TrainingStep(name.upper(), steps[name], times, Counted(flops[name], "", f"{what}, {name.upper()}"))
        for name, times in back.items()
    }


def busiest_fifth(
    trained: Mapping[str, Module], inputs: Mapping[str, Any], repeats: int = 15
) -> dict[str, Measurement]:
    """Return, for each model, the share of the ops' time that the busiest fifth of its calls of ops take.

    A fifth of a number of calls that five does not divide is rounded up. Each run of ``repeats`` is one sample.
    """
    found = {}
    with no_grad():
        for name, model in trained.items():
            profiles, conditions = recorded_runs(partial(model, inputs[name]), repeats)
            spent = [sorted((event.self_ns for event in profile.events), reverse=True) for profile in profiles]
            samples = tuple(sum(each[: -(-len(each) // 5)]) / sum(each) for each in spent)
            conditions = replace(conditions, part_of="the time in operations")
            name_of = f"share of the busiest fifth of calls, {name}"
            found[name] = with_between_run_spread(Measurement(name_of, samples, "%", conditions))
    return found


def architectures(side: int) -> dict[str, tuple[Module, Tensor]]:
    """Return an MLP, a CNN and a transformer, untrained, each with an input of ``side`` x ``side`` numbers.

    The MLP has one hidden layer, the CNN two convolutions. To the transformer each number is a position: a linear layer
    widens it, and one block follows.
    """
    count, draw = side * side, np.random.default_rng(0)
    image = Tensor(draw.standard_normal((1, 1, side, side), np.float32))
    mlp = Sequential(Flatten(), Linear(count, MLP_WIDTH, seed=0), ReLU(), Linear(MLP_WIDTH, 10, seed=0))
    cnn = Sequential(
        Conv2d(1, 16, 3, padding=1, seed=0),
        ReLU(),
        Conv2d(16, 16, 3, padding=1, seed=0),
        ReLU(),
        Flatten(),
        Linear(16 * count, 10, seed=0),
    )
    width = TRANSFORMER_WIDTH
    transformer = Sequential(Linear(1, width, seed=0), TransformerBlock(width, 4, seed=0), Linear(width, 10, seed=0))
    positions = Tensor(image.data.reshape(1, count, 1))
    made = {"mlp": (mlp, image), "cnn": (cnn, image), "transformer": (transformer, positions)}
    return {name: (model.eval(), inputs) for name, (model, inputs) in made.items()}


@dataclass(frozen=True)
class Architecture:
    """Forward passes on growing inputs: seconds by size, over those of the architecture before, and the last growth."""

    label: str
    seconds: Mapping[str, Measurement]
    over: Mapping[str, Measurement]
    counted: Counted
    timed: Measurement


def growing_inputs(sides: Sequence[int]) -> dict[str, Architecture]:
    """Return what `architectures` of these sides cost, all taken in turns."""
    made = {side: architectures(side) for side in sides}
    with no_grad():
        turns = interleave(
            {
                f"{name} {side}": partial(model, inputs)
                for side, by_name in made.items()
                for name, (model, inputs) in by_name.items()
            }
        )
    labels = {"mlp": "MLP", "cnn": "CNN", "transformer": "Transformer"}
    before: dict[str, tuple[str, ...]] = {"mlp": (), "cnn": ("mlp",), "transformer": ("cnn",)}
    found = {}
    for name, label in labels.items():
        seconds = {side: turns[f"{name} {side}"] for side in sides}
        few, many = (count_flops(model, x.shape) for model, x in (made[side][name] for side in sides[-2:]))
        found[name] = Architecture(
            label,
            {str(side**2): each for side, each in seconds.items()},
            {
                str(side**2): ratio(
                    each,
                    turns[f"{faster} {side}"],
                    f"time of the {label} over the {labels[faster]}'s, {side**2} numbers",
                )
                for faster in before[name]
                for side, each in seconds.items()
            },
            Counted(many / few, "", "growth of the arithmetic"),
            ratio(seconds[sides[-1]], seconds[sides[-2]], f"growth of the time, {label}"),
        )
    return found


def attention_of_training(length: int, repeats: int = 6) -> Measurement:
    """Return the share of attention, projections included, in the time of ops of a training step.

    The step is forward and backward of one block of BERT-base's size, 768 wide with 12 heads, on one sequence.
    """
    block = TransformerBlock(768, 12, seed=0)
    inputs = Tensor(np.ones((1, length, 768), np.float32), requires_grad=True)
    found = shares(
        lambda: block(inputs).sum().backward(), {"module": lambda e: ".attention" in e.path}, repeats=repeats
    )
    return found["module"]


@dataclass(frozen=True)
class AttentionShare:
    """Share of a part of attention in a block, of its time and of its arithmetic, at a length."""

    part: str
    positions: int
    time: Measurement
    arithmetic: Modelled


def attention_shares(
    by_length: Mapping[int, Mapping[str, Measurement]], names: Mapping[str, str], width: int
) -> list[AttentionShare]:
    """Return the shares of the "module", projections included, and of its "core", each under the name given."""

    def by_arithmetic(part: str, length: int) -> Modelled:
        share = attention_share(length, width, projections=part == "module")
        return Modelled(share.value, "%", f"share of {part}", "arithmetic")

    return [
        AttentionShare(name, length, found[part], by_arithmetic(part, length))
        for part, name in names.items()
        for length, found in by_length.items()
    ]


def module_takes(by_length: Mapping[int, Mapping[str, Measurement]], low: float, high: float) -> Judgement:
    """Return whether the module's share lies between ``low`` and ``high`` at any length."""
    whole = [found["module"] for found in by_length.values()]
    return verdict_of_any(verdict_between(found, low, high, together=len(whole)) for found in whole)


def spread_of_means_over_medians(samples: Sequence[float], block: int = 20, groups: int = 60) -> Measurement:
    """Return how much more means of ``block`` samples scatter than medians of the same samples.

    The samples are cut into ``groups``; in each the standard deviation of its blocks' means over that of its
    blocks' medians is one sample of the result. Above 1 the median is the steadier of the two in the middle group.
    What shifts whole blocks, such as drift, shifts both alike and takes the ratio towards 1.

    Two things ask for groups. The ratio has to be known: of normal noise mean and median have the squared correlation
    2/π, and so the log of two spreads of k blocks the standard deviation √((1 - 2/π) / (k - 1)), 0.2 for ten. The
    median of n such groups is known to 1.96 · 1.25 · 0.2 / √n, less than the log of `NORMAL_SPREAD`, 0.23, from five
    groups on. And the judge has to rule out noise that wanders: of independent series it passes about one half at 15
    groups, 98 of 100 at 40, and all of 400 that were tried at 60.
    """
    blocks = len(samples) // (block * groups)
    cut = np.asarray(samples)[: groups * blocks * block].reshape(groups, blocks, block)
    means, medians = cut.mean(axis=2).std(axis=1), np.median(cut, axis=2).std(axis=1)
    name = f"spread of means of {block} over spread of medians"
    return Measurement(name, tuple(means / medians), "", Conditions(sample=Sample.BLOCKS))


def seconds_by_law(few: tuple[int, Measurement], more: tuple[int, Measurement], batch: int) -> Statistic | None:
    """Return what a larger ``batch`` takes if time grows by as much with each example; None if that may be nothing.

    ``few`` and ``more`` are two smaller batches, each with its seconds.
    """
    (small, low), (middle, high) = few, more
    far = (batch - small) / (middle - small)
    value = far * high.median - (far - 1) * low.median
    longer = math.hypot(far * (high.interval.high - high.median), (far - 1) * (low.median - low.interval.low))
    shorter = math.hypot(far * (high.median - high.interval.low), (far - 1) * (low.interval.high - low.median))
    if shorter >= value:
        return None
    known = min(low.interval.confidence, high.interval.confidence)
    sides = {"more": high.conditions, "few": low.conditions}
    conditions = of_sides(sides).within_bounds("by the line through two medians")
    bounds = Interval(value - shorter, value + longer, known)
    return Statistic(f"{batch} examples by law", (value,), "s", conditions, value=value, bounds=bounds)


def half_batch(few: tuple[int, Measurement], more: tuple[int, Measurement]) -> Statistic | None:
    """Return the batch whose examples take as long as the call itself; None if either may take nothing.

    With r, the time of ``more`` over that of ``few``, it is (more - few r) / (r - 1).
    """
    (small, low), (middle, high) = few, more
    grown = quotient(high, low, "time of more examples over that of few")
    ends = [
        (middle - small * times) / (times - 1) if times > 1 else math.inf
        for times in (grown.median, grown.interval.low, grown.interval.high)
    ]
    value, most, least = ends
    if math.inf in ends or value <= 0:
        return None
    bounds = Interval(max(least, 0.0), most, grown.interval.confidence)
    conditions = grown.conditions.within_bounds("from a quotient of two medians")
    return Statistic("half of the limit", (value,), "examples", conditions, value=value, bounds=bounds)


@dataclass(frozen=True)
class Rate:
    """Throughput of a model at one batch, and what the law of two parts says of it."""

    model: str
    batch: int
    rate: Measurement
    law: Modelled | Unmeasured


@dataclass(frozen=True)
class Throughput:
    """Rates of a model by batch; the law's at the largest, and the batch at which it gives half of its limit."""

    rates: Sequence[Rate]
    law: Modelled | Unmeasured
    half_batch: Modelled | Unmeasured


def throughput(seconds: Mapping[int, Mapping[str, Measurement]]) -> dict[str, Throughput]:
    """Return what ``seconds`` of a call, by batch and by model, make of throughput, and what two of them predict.

    The smallest batch and the middle one give the two parts of a call's time: one that each call costs, one that each
    example costs. Where noise leaves nothing of the former, there is no law.
    """
    names = next(iter(seconds.values()))
    return {name: _throughput(name.upper(), {batch: each[name] for batch, each in seconds.items()}) for name in names}


def _throughput(label: str, seconds: Mapping[int, Measurement]) -> Throughput:
    batches = [*seconds]
    few, more, many = batches[0], batches[len(batches) // 2], batches[-1]
    two = (few, seconds[few]), (more, seconds[more])
    half, last = half_batch(*two), seconds_by_law(*two, many)
    rates = {batch: each.per(batch, "items/s") for batch, each in seconds.items()}
    if half is None or last is None:
        none = Unmeasured(
            "the time of a call was not larger than that of its examples here: a quieter machine would tell them apart"
        )
        return Throughput([Rate(label, batch, rate, none) for batch, rate in rates.items()], none, none)
    each, law = (seconds[more].median - seconds[few].median) / (more - few), "the law of two parts"
    call, by = seconds[few].median - few * each, f"from the times of {few} and {more}"
    return Throughput(
        [
            Rate(label, batch, rate, Modelled(batch / (call + batch * each), "items/s", "throughput", law))
            for batch, rate in rates.items()
        ],
        Modelled.by(law, last.per(many, "items/s"), f"throughput of the {label} in a batch of {many}, {by}"),
        Modelled.by(law, half, f"batch at which the {label} reaches half of its limit, {by}"),
    )


def per_flop(times: Measurement, flops: Counted) -> Measurement:
    """Return how many times as long the CNN takes for each FLOP as the MLP, by that ratio of times and of FLOPs."""
    return times.scaled(1 / flops.value, name="time of the CNN for each FLOP over the MLP's")
