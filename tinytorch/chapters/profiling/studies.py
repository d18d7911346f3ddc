"""Experiments of the page on profiling: where time goes in calls, models, steps and blocks, and what a batch gains."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.profiling.costs import attention_share
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.events.stream import Event
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Judgement, largest, verdict_between, verdict_of_all
from tinytorch.perf.measuring.measurement import derived, difference
from tinytorch.perf.profiling.breakdown import NOT_NAMED, between_rows
from tinytorch.perf.profiling.shares import recorded_runs, recordings, shares, time_between_ops

#: `spread_of_means_over_medians` of blocks of many samples with normal noise, of which the mean is the steadier one.
NORMAL_SPREAD = Modelled(
    math.sqrt(2 / math.pi),
    "",
    "spread of means of normal noise over that of medians of the same samples",
    "normal noise",
)


def tail_over_median(single: Measurement) -> Derived:
    """Return where the slowest hundredth of single calls begins, over their median."""
    tail, what = single.percentile(99) / single.median, "99th percentile over median of warm calls"
    return Derived(tail, "", what, (single,), "both are of the same samples")


def shares_by_model(
    trained: Mapping[str, Module],
    inputs: Mapping[str, Any],
    kinds: Mapping[str, Callable[[Event], bool]],
    repeats: int = 21,
) -> dict[str, dict[str, Measurement]]:
    """Return, for each model, `shares.shares` of the kinds of ops in its forward pass, no gradients."""
    with no_grad():
        return {name: shares(partial(model, inputs[name]), kinds, repeats=repeats) for name, model in trained.items()}


def shown_shares(by_model: Mapping[str, Mapping[str, Measurement]], above: float) -> list[dict[str, Any]]:
    """Return the shares of kinds of ops that are ``above`` so much as rows, the largest of each model first."""
    return [
        {"label": f"{name.upper()}: {kind}", "kind": kind, "share": share}
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
class Program:
    """A model that is to run so many times without gradients."""

    model: Module
    inputs: Any
    passes: int

    def __call__(self) -> None:
        """Run it."""
        with no_grad():
            for _ in range(self.passes):
                self.model(self.inputs)


@dataclass(frozen=True)
class SlowedByLooking:
    """What two profilers cost a program.

    Attributes:
        each: time of the program for each operation that it runs.
        traced, sampled: time of the program under the profiler over that without.
        recording: what tracing adds for each operation.
        predicted: ``traced`` by what an operation's recording cost the first program.
        compared: sampling beside tracing.
    """

    label: str
    each: Measurement
    traced: Measurement
    sampled: Measurement
    recording: Measurement
    predicted: Modelled
    compared: Comparison


def slowed_by_looking(
    looking: Mapping[str, Mapping[str, Measurement]], labels: Mapping[str, str], programs: Mapping[str, Program]
) -> dict[str, SlowedByLooking]:
    """Return what looking costs each program, by its times "alone", "traced" and "sampled"."""
    operations = {name: len(recordings(run, repeats=1)[0].events) for name, run in programs.items()}
    first = next(iter(looking))
    added = {name: difference(times["traced"], times["alone"], "recording") for name, times in looking.items()}
    found = {}
    for name, times in looking.items():
        alone, more = times["alone"], operations[name] / operations[first]
        found[name] = SlowedByLooking(
            labels[name],
            alone.scaled(1 / operations[name], name=f"time of an operation, {labels[name]}"),
            ratio(times["traced"], alone, f"time traced over time alone, {labels[name]}"),
            ratio(times["sampled"], alone, f"time sampled over time alone, {labels[name]}"),
            added[name].scaled(1 / operations[name], name=f"recording of an operation, {labels[name]}"),
            Modelled.by("a cost for each operation", _slowed(alone, added[first], more)),
            compare_paired(times["traced"], times["sampled"], matters=0.1),
        )
    return found


def _slowed(alone: Measurement, added: Measurement, times: float) -> Measurement:
    """Return by which factor a program becomes slower to which so many times ``added`` is added."""
    name = "time traced over time alone, by law"
    return derived(name, lambda own, more: 1 + times * more / own, alone, added, statistic="by the medians")


def order_of_models(seconds: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Return the time of the CNN over the MLP's, and that of the GPT over the CNN's."""
    return {
        slower: ratio(seconds[slower], seconds[faster], f"time of the {slower.upper()} over the {faster.upper()}'s")
        for faster, slower in (("mlp", "cnn"), ("cnn", "gpt"))
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


def attention_shares(by_width: Mapping[int, Mapping[int, Measurement]]) -> list[dict[str, Any]]:
    """Return attention's share of a block's time and of its arithmetic as rows, by the width and positions over it."""
    return [
        {
            "width": f"{width} wide",
            "ratio": positions / width,
            "time": time,
            "arithmetic": Modelled(
                attention_share(positions, width).value, "%", f"share at {positions} positions", "arithmetic"
            ),
        }
        for width, by_length in by_width.items()
        for positions, time in by_length.items()
    ]


def passes_through(by_length: Mapping[int, Measurement], share: float) -> Judgement:
    """Return whether the share is below this one at the first length and above it at the last."""
    found = list(by_length.values())
    return verdict_of_all(
        [
            verdict_between(found[0], high=share, strict=True),
            verdict_between(found[-1], low=share, strict=True),
        ]
    )


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


def seconds_by_law(few: tuple[int, Measurement], more: tuple[int, Measurement], batch: int) -> Measurement | None:
    """Return what a larger ``batch`` takes if time grows by as much with each example; None if that may be nothing.

    ``few`` and ``more`` are two smaller batches, each with its seconds.
    """
    (small, low), (middle, high) = few, more
    far = (batch - small) / (middle - small)

    def line(one: Any, other: Any) -> Any:
        return far * other - (far - 1) * one

    made = derived(f"{batch} examples by law", line, low, high, unit="s", statistic="by the line through two medians")
    return made if made.interval.low > 0 else None


def half_batch(few: tuple[int, Measurement], more: tuple[int, Measurement]) -> Measurement | None:
    """Return the batch whose examples take as long as the call itself; None if either may take nothing.

    With r, the time of ``more`` over that of ``few``, it is (more - few r) / (r - 1).
    """
    (small, low), (middle, high) = few, more
    grown = quotient(high, low, "time of more examples over that of few")
    if not grown.interval.low > 1 or not grown.interval.high < middle / small:
        return None

    def half(times: Any) -> Any:
        return np.where(times > 1, np.maximum(middle - small * times, 0) / (times - 1), np.inf)

    return derived("half of the limit", half, grown, unit="examples", statistic="from a quotient of two medians")


@dataclass(frozen=True)
class Rate:
    """Throughput of a model at one batch, and what the law of two parts says of it."""

    model: str
    batch: int
    rate: Measurement
    law: Modelled | Unmeasured


@dataclass(frozen=True)
class Throughput:
    """Rates of a model by batch; the law's at the largest, and the batch at which it gives half of its limit.

    ``over_law`` is the rate at the largest batch over that by the law.
    """

    rates: Sequence[Rate]
    law: Modelled | Unmeasured
    over_law: Measurement | Unmeasured
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
        return Throughput([Rate(label, batch, rate, none) for batch, rate in rates.items()], none, none, none)
    each, law = (seconds[more].median - seconds[few].median) / (more - few), "the law of two parts"
    call, by = seconds[few].median - few * each, f"from the times of {few} and {more}"
    return Throughput(
        [
            Rate(label, batch, rate, Modelled(batch / (call + batch * each), "items/s", "throughput", law))
            for batch, rate in rates.items()
        ],
        Modelled.by(law, last.per(many, "items/s"), f"throughput of the {label} in a batch of {many}, {by}"),
        quotient(last, seconds[many], f"throughput of the {label} in a batch of {many} over that by the law"),
        Modelled.by(law, half, f"batch at which the {label} reaches half of its limit, {by}"),
    )


def per_flop(times: Measurement, flops: Counted) -> Measurement:
    """Return how many times as long the CNN takes for each FLOP as the MLP, by that ratio of times and of FLOPs."""
    return times.scaled(1 / flops.value, name="time of the CNN for each FLOP over the MLP's")
