"""What the page on profiling counts and measures: models, attention, boxes of a trace, tracing, and batches."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.events.array_life import CATEGORIES, Category, MemoryProfile
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict, verdict_between, verdict_of_all
from tinytorch.perf.measuring.measurement import derived
from tinytorch.perf.profiling.passes import count_flops, count_parameters
from tinytorch.perf.profiling.shares import recorded_runs
from tinytorch.report.colors import color
from tinytorch.report.figures import subplots

#: `spread_of_means_over_medians` of blocks of many samples with normal noise, of which the mean is the steadier one.
NORMAL_SPREAD = Modelled(
    math.sqrt(2 / math.pi),
    "",
    "spread of means of normal noise over that of medians of the same samples",
    "normal noise",
)


def studied(trained: Mapping[str, Module]) -> dict[str, dict[str, Any]]:
    """Return each of the ``trained`` models of the zoo in numbers: its score is on examples that it has not seen."""
    found = {}
    for name, model in trained.items():
        entry, label, right = models.entry(name), name.upper(), models.correct(model, name)
        flops = count_flops(model, entry.example_input(1).shape)
        found[name] = {
            "label": label,
            "parameters": Counted(count_parameters(model), "parameters", f"parameters of the {label}"),
            "flops": Counted(flops, "FLOP", f"contractions of one forward pass of the {label}"),
            "score": Counted(right.mean(), "%", f"{entry.score} of {len(right)}"),
        }
    return found


def forward_times(trained: Mapping[str, Module], batch: int) -> dict[str, Measurement]:
    """Return the seconds of a forward pass of each model without gradients, taken in turns."""
    with no_grad():
        calls = {name: partial(model, models.example(name, batch)) for name, model in trained.items()}
        return interleave(calls, repeats=20, warmup_seconds=0.2)


def attention_share(length: int, width: int) -> Modelled:
    """Return attention's share of a block's arithmetic, with its four projections: (2d + n) / (6d + n)."""
    what = f"attention's share of a block's arithmetic at {length} positions, projections included"
    return Modelled((2 * width + length) / (6 * width + length), "%", what, "arithmetic")


def attention_shares(by_width: Mapping[int, Mapping[int, Measurement]]) -> list[dict[str, Any]]:
    """Return attention's share of a block's time and of its arithmetic as rows, by the width and positions over it."""
    return [
        {"width": f"{width} wide", "ratio": n / width, "time": time, "arithmetic": attention_share(n, width)}
        for width, by_length in by_width.items()
        for n, time in by_length.items()
    ]


def length_with_share(by_length: Mapping[int, Measurement], share: float) -> Modelled | Unmeasured:
    """Return the length at which a share that grows with the length is ``share``, on lines between measured lengths."""
    lengths = [*by_length]
    first, *_, last = by_length.values()
    ends = [verdict_between(first, high=share, strict=True), verdict_between(last, low=share, strict=True)]
    if verdict_of_all(ends).verdict is not Verdict.SUPPORTED:
        return Unmeasured(f"the share does not pass {share:.0%} between the lengths that were measured")

    def crossing(*drawn: Any) -> Any:
        rising = np.maximum.accumulate(np.array(drawn, float), axis=0)
        return np.apply_along_axis(lambda column: np.interp(share, column, lengths), 0, rising)

    name = f"length at which the share is {share:.0%}"
    return Modelled.by("straight lines", derived(name, crossing, *by_length.values(), unit="positions"))


def boxes(run: Callable[[], object], yardstick: str, repeats: int = 10) -> dict[str, dict[str, Any]]:
    """Return the ops of a run that modules inside its outermost one make, in their order, by the modules' names.

    A row has the ``share`` of the time and the ``flops``, all arithmetic included; and ``over``, the time over that
    which the arithmetic would take at the rate of the op in the module whose path ends in ``yardstick``, None for this.
    """
    profiles, conditions = recorded_runs(run, repeats)
    events = profiles[0].events
    known = next(place for place, event in enumerate(events) if event.path.endswith(yardstick))
    arithmetic = [(event.flops or 0) + (event.elementwise or 0) for event in events]
    found = {}
    for place, event in enumerate(events):
        if "." not in event.path:
            continue
        module = event.path.rpartition(".")[2]
        label = f"{module}: {event.op}"
        name = f"time of {label} over its prediction"
        spent = tuple(each.events[place].self_ns * 1e-9 for each in profiles)
        shares = tuple(part / each.op_seconds for part, each in zip(spent, profiles, strict=True))
        rate = arithmetic[known] / arithmetic[place]
        over = tuple(
            rate * part / (each.events[known].self_ns * 1e-9) for part, each in zip(spent, profiles, strict=True)
        )
        of_time = replace(conditions, part_of="the time in operations")
        found[module] = {
            "label": label,
            "flops": Counted(arithmetic[place], "FLOP", f"all arithmetic of {label}"),
            "share": with_between_run_spread(Measurement(f"share of {label}", shares, "%", of_time)),
            "over": None if place == known else with_between_run_spread(Measurement(name, over, "", conditions)),
        }
    return found


def backward_parts(name: str, batch: int, repeats: int = 10) -> dict[str, Measurement]:
    """Return the time of the backward pass over that of the forward pass and the loss, by part, for a model of the zoo.

    The parts are the ``products``, ops that multiply matrices, with attention; and all ``other`` ops.
    """
    entry = models.entry(name)
    model, loss = entry.make(0).train(), models.loss_function()
    inputs, targets = models.as_input(entry.example_input(batch)), entry.example_target(batch)

    def both_passes() -> None:
        model.zero_grad()
        loss(model(inputs), targets).backward()

    profiles, conditions = recorded_runs(both_passes, repeats)
    found = {}
    for part in ("products", "other"):
        spent = {
            phase: np.array(
                [
                    sum(e.self_ns for e in each.events if e.phase == phase and bool(e.flops) == (part == "products"))
                    for each in profiles
                ]
            )
            for phase in ("forward", "backward")
        }
        ratios = tuple(spent["backward"] / spent["forward"])
        over = Measurement(f"time of {part}, backward over forward", ratios, "", conditions)
        found[part] = with_between_run_spread(over)
    return found


def slowed_by_tracing(slowed: Measurement, longer: Measurement) -> Measurement:
    """Return by which factor tracing slows a run that takes ``longer`` times as long as one that it slowed by this."""
    name = "time traced over time alone, by the formula"
    return derived(name, lambda factor, times: 1 + (factor - 1) / times, slowed, longer)


def limit_without_operations(outside: Measurement) -> Modelled | Unmeasured:
    """Return Amdahl's limit if ops take no time, by the share of the time ``outside`` of them."""
    if outside.interval.low < 0.05:
        return Unmeasured("the time outside of operations was lost in the noise: a quieter machine would tell it")
    name = "speedup if operations took no time"
    return Modelled.by("Amdahl's law", derived(name, lambda rest: 1 / np.clip(rest, 0.01, 1), outside))


def growth_of_flops(block: TransformerBlock, width: int, length: int) -> dict[str, Counted]:
    """Return how much the FLOPs of ``attention`` without projections and of the whole ``block`` grow as length doubles.

    They are counted on the ops that run.
    """
    found = []
    for positions in (length, 2 * length):
        with no_grad(), recording() as recorded:
            block(Tensor(np.ones((1, positions, width), np.float32)))
        events = recorded.profile.events
        attention = sum(event.flops or 0 for event in events if event.op == "self_attention")
        found.append((attention, sum(event.flops or 0 for event in events)))
    once, twice = found
    return {
        name: Counted(after / before, "", f"growth of the FLOPs of {name}")
        for name, before, after in zip(("attention", "block"), once, twice, strict=True)
    }


def step_memory(memory: Mapping[str, MemoryProfile], doubled: Mapping[str, MemoryProfile]) -> dict[str, dict[str, Any]]:
    """Return what a training step of each model holds, on a batch and on one twice as large.

    A row has the most bytes of each kind, the activations of the ``doubled`` batch and their ``growth``; ``gradients``
    for each byte of parameters; and the ``share`` of activations at the moment at which all kinds together hold most.
    """
    found = {}
    kinds: tuple[Category, ...] = ("parameters", "gradients", "optimizer", "activations")
    for name, profile in memory.items():
        label, highest = name.upper(), profile.highest
        once, twice = highest["activations"], doubled[name].highest["activations"]
        at_peak = max(({k: step.live[CATEGORIES.index(k)] for k in kinds} for step in profile.steps), key=_total)
        what = f"activations of parameters, gradients, optimizer state and activations of the {label} at their peak"
        found[name] = {
            "label": label,
            "held": {kind: Counted(highest[kind], "B", f"{kind} of the {label}") for kind in kinds},
            "doubled": Counted(twice, "B", f"activations of the {label}, the batch doubled"),
            "growth": Counted(twice / once, "", f"activations of the doubled batch over the batch, {label}"),
            "gradients": Counted(highest["gradients"] / highest["parameters"], "", "gradients over parameters"),
            "share": Counted(at_peak["activations"] / _total(at_peak), "%", what),
        }
    return found


def _total(held: Mapping[Category, int]) -> int:
    return sum(held.values())


def memory_timeline(found: MemoryProfile, variants: Mapping[Category, str], xlabel: str, ylabel: str) -> Figure:
    """Return stacked areas of the mebibytes that are alive after each op, those of the first category lowest."""
    figure, ax = subplots(height=2.8)
    live = np.array([step.live for step in found.steps]) / 2**20
    below = np.zeros(len(live))
    for category, variant in variants.items():
        above = below + live[:, CATEGORIES.index(category)]
        ax.fill_between(range(len(live)), below, above, color=color(variant), label=category, linewidth=0)
        below = above
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.set_ylim(0, 1.05 * float(below.max()))
    ax.legend()
    return figure


def busiest_fifth(trained: Mapping[str, Module], inputs: Mapping[str, Any], repeats: int = 8) -> dict[str, Measurement]:
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


def throughput(label: str, times: Mapping[str, Measurement]) -> dict[str, Any]:
    """Return the ``gains`` in throughput over a batch of one, as rows, and what the law of two parts says of them.

    The smallest batch, which is 1, and the middle one give the two parts of a call's time: one that each call costs
    and one that each example costs. The law follows from these: its gain ``by_law`` in the largest batch, ``over_law``
    of the measured one, and the ``half_batch`` at which throughput is half of its limit. If noise leaves nothing of one
    of the parts, these are `Unmeasured`.

    Args:
        label: of the model.
        times: seconds of a call by batch, all taken in turns.
    """
    seconds = {int(batch): each for batch, each in times.items()}
    batches = [*seconds]
    middle, most = batches[len(batches) // 2], batches[-1]
    grown = ratio(seconds[middle], seconds[1], f"time of {middle} examples over that of one")
    gains = {
        batch: ratio(seconds[1], each).scaled(batch, name=f"gain in throughput of the {label}, batch of {batch}")
        for batch, each in seconds.items()
        if batch > 1
    }
    found: dict[str, Any] = {"gain": gains[most]}
    if not 1 < grown.interval.low <= grown.interval.high < middle:
        found |= dict.fromkeys(
            ("by_law", "over_law", "half_batch"),
            Unmeasured(
                "the time of a call was not larger than that of its examples here: a quieter machine would tell them "
                "apart"
            ),
        )
        laws: dict[int, Modelled | Unmeasured] = dict.fromkeys(gains, found["by_law"])
    else:
        told = f"from the times of 1 and {middle}"

        def gain_of(batch: int) -> Measurement:
            name = f"gain in throughput of the {label} in a batch of {batch}, {told}"
            examples = (batch - 1) / (middle - 1)
            return derived(name, lambda times: batch / (1 + examples * np.maximum(times - 1, 0)), grown)

        half = derived(
            f"batch at which the {label} reaches half of its limit, {told}",
            lambda times: np.where(times > 1, np.maximum(middle - times, 0) / (times - 1), np.inf),
            grown,
            unit="examples",
        )
        laws = {batch: Modelled.by("the law of two parts", gain_of(batch)) for batch in gains}
        found |= {
            "by_law": laws[most],
            "over_law": quotient(gains[most], gain_of(most), f"gain of the {label} over that by the law"),
            "half_batch": Modelled.by("the law of two parts", half),
        }
    found["gains"] = [
        {"model": label, "batch": batch, "gain": gain, "law": laws[batch]} for batch, gain in gains.items()
    ]
    return found
