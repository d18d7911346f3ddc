"""The records of the page on rooflines: numbers, words, tables, figures and claims, from what was placed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tinytorch.chapters import calls
from tinytorch.chapters.roofline.figure import placed_table, roofline_figure
from tinytorch.perf.events.stream import OpKey
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, Statistic, quotient
from tinytorch.perf.measuring.judge import CANNOT_TELL, REFUTED, SUPPORTED
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.roofline.bounds import Ceiling, best_bandwidth
from tinytorch.perf.roofline.placement import Placed, ridge
from tinytorch.report import Page, line, subplots, verdict_between, verdict_of_all

#: Share of the peak that right of the ridge is reached, and left of it is not.
_MOST_OF_THE_PEAK = 0.8


def record_ceilings(page: Page, machine: Ceilings) -> None:
    """Record the peak, the bandwidth of the memory, and the ridge point of each level."""
    page.number("peak", machine.fp32_peak)
    page.number("memory-bandwidth", best_bandwidth(machine.levels[-1]))
    for level in machine.levels:
        page.number(f"ridge-{level.name.lower()}", ridge(machine, level))


def show_operations(page: Page, placed: Mapping[str, Placed]) -> None:
    """Show the operations of the page as a table."""
    placed_table(
        page,
        "ops",
        [calls.on_a_million(one) for one in placed.values()],
        caption="Operations on 1024 × 1024 numbers, and one on four: what they do, how fast, how near to their roof, "
        "and what bounds them.",
    )


def record_operations(page: Page, placed: Mapping[str, Placed], machine: Ceilings) -> None:
    """Draw the roofline with the operations of the page, and record of each what bounds it."""
    page.figure(
        "roofline",
        roofline_figure(list(placed.values()), machine),
        caption="The roofline of one core of this machine: a slope for each level of the memory, a flat roof of floats "
        "and, where the processor multiplies 8-bit integers, one of theirs, and operations below them.",
        alt="Log-log plot of rate over arithmetic intensity: sloped lines for caches and memory meet flat lines; "
        "numbered points are the operations.",
    )
    for name, one in placed.items():
        key = _key(name)
        page.number(f"of-roof-{key}", one.of_roof)
        page.number(f"time-{key}", calls.on_a_million(one).seconds)
        page.word(f"bound-{key}", one.verdict.sentence_word, because=one.verdict.because, numbers=[f"time-{key}"])


def _key(name: str) -> str:
    """Return the part of a record's key that names an operation."""
    return name.lower().replace(" × ", "-").replace(" ", "-")


def record_bounds(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record which operations beat their roof, and the claims on what bounds large and small ones."""
    shares = {name: one.of_roof for name, one in placed.items()}
    above = [name for name, one in shares.items() if verdict_between(one, high=1, together=len(shares)) == REFUTED]
    page.word(
        "above-roof",
        ", ".join(above) or "none of them",
        because="it names what surely beats its roof, by the intervals of both: then the ceilings were measured in a "
        "slower moment, or the operands live nearer than their size says",
        numbers=[f"of-roof-{_key(name)}" for name in placed],
    )
    page.claim(
        "elementwise-memory-bound",
        statement="Elementwise operations are memory-bound and matrix products are compute-bound.",
        source="A. Ivanov et al., Data Movement Is All You Need, MLSys 2021",
        source_url="https://arxiv.org/abs/2007.00072",
        verdict=verdict_of_all(
            [
                *(_is_bound_by(placed[name], "memory") for name in ("add", "GELU", "softmax")),
                _is_bound_by(placed["matrix × matrix"], "compute"),
            ]
        ),
        evidence="The addition of a million numbers reached {of-roof-add} of its roof, and the product of matrices "
        "{of-roof-matrix-matrix}. GELU reached {of-roof-gelu}, softmax {of-roof-softmax}. A ceiling that explains "
        "less than half of the time does not bound it.",
    )
    page.claim(
        "small-tensors",
        statement="Small tensors are bound neither by arithmetic nor by memory, but by the overhead of the call.",
        source="H. He, Making Deep Learning Go Brrrr From First Principles, 2022",
        source_url="https://horace.io/brrr_intro.html",
        verdict=_is_bound_by(placed["add of 4 numbers"], "overhead"),
        evidence="An addition of four numbers took {time-add-of-4-numbers}; at the roof it would have taken "
        "{of-roof-add-of-4-numbers} of that.",
    )


def _is_bound_by(one: Placed, ceiling: Ceiling) -> str:
    """Return the verdict on whether ``ceiling`` bounds it."""
    return {ceiling: SUPPORTED, "unclear": CANNOT_TELL}.get(one.verdict.bottleneck, REFUTED)


def record_crossing(page: Page, crossing: Sequence[Placed]) -> None:
    """Record products of more and more rows with the same weights, and the claim on the ridge point."""
    figure, ax = subplots(height=3.0)
    intensities = [one.intensity for one in crossing]
    line(
        ax,
        intensities,
        [one.attained for one in crossing],
        quantity="rate",
        variant="measured",
        label="measured",
    )
    roofs = [one.attainable for one in crossing]
    line(ax, intensities, roofs, quantity="rate", variant="modelled", label="roof", modelled=True)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("arithmetic intensity (FLOP/B)")
    ax.legend()
    page.figure(
        "crossing",
        figure,
        caption="Products of more and more rows with the same weights, and the roof above each.",
        alt="Measured rate over intensity for 1 to 512 rows, with the roof at each intensity as a dashed line.",
    )
    first, last = (one.verdict.compute.share for one in (crossing[0], crossing[-1]))
    page.number("first-share", first, what=f"share of the peak, {crossing[0].name}")
    page.number("last-share", last, what=f"share of the peak, {crossing[-1].name}")
    page.number("first-intensity", crossing[0].intensity, unit="FLOP/B", what="intensity of the product of one row")
    page.number("last-intensity", crossing[-1].intensity, unit="FLOP/B", what="intensity of the product of 512 rows")
    page.claim(
        "ridge-point",
        statement="A kernel can reach the peak only right of the ridge point.",
        source="S. Williams, A. Waterman and D. Patterson, Roofline, Communications of the ACM, 2009",
        source_url="https://doi.org/10.1145/1498765.1498785",
        verdict=_verdict_on_ridge(first, last),
        evidence="At {first-intensity} the product reached {first-share} of the peak. At {last-intensity} it reached "
        "{last-share}; the test asks for less than four fifths on the left, and for at least that on the right.",
    )


def _verdict_on_ridge(left: Measurement, right: Measurement) -> str:
    """Return the verdict on the claim from the shares of the peak that were reached left and right of the ridge.

    What is reached on the left refutes it. What is not reached on the right does not: that is no promise.
    """
    below = verdict_between(left, high=_MOST_OF_THE_PEAK, strict=True)
    reached = verdict_between(right, low=_MOST_OF_THE_PEAK)
    if below == REFUTED or below == reached == SUPPORTED:
        return below
    return CANNOT_TELL


def show_gpt(page: Page, by_op: Mapping[OpKey, Placed]) -> None:
    """Show the operations of the GPT as a table."""
    placed_table(
        page,
        "gpt-ops",
        list(by_op.values()),
        caption="A forward pass of the GPT on 64 sequences, operation by operation: time of all calls in a pass, "
        "and its distance to the roof.",
    )


def record_models(page: Page, wholes: Mapping[tuple[str, int], Placed]) -> None:
    """Record whole forward passes, by the model's name and the batch."""
    placed_table(
        page,
        "models",
        [replace(one, seconds=calls.zoo_pass(one.seconds, name, batch)) for (name, batch), one in wholes.items()],
        caption="Whole forward passes, of one example and of 64, against the sum of the roofs of their operations.",
    )
    for (name, batch), one in wholes.items():
        page.number(f"{name}-{batch}-of-roof", one.of_roof)
        page.word(
            f"{name}-{batch}-bound",
            one.verdict.sentence_word,
            because=one.verdict.because,
            numbers=[f"{name}-{batch}-of-roof"],
        )


def record_answers(
    page: Page,
    machine: Ceilings,
    placed: Mapping[str, Placed],
    crossing: Sequence[Placed],
    gpt: Placed,
    by_op: Mapping[OpKey, Placed],
) -> None:
    """Record the answers to the page's questions.

    Args:
        page: that records.
        machine: its ceilings for one thread.
        placed: the operations of the page by name.
        crossing: products of more and more rows, whose names begin with how many.
        gpt: the forward pass of the GPT on 64 sequences.
        by_op: the operations of that pass.
    """
    right = [one for one in crossing if _is_right_of_the_ridge(one, together=len(crossing))]
    if right:
        rows = int(right[0].name.split()[0])
        page.number("q-rows", rows, unit="rows", what="fewest measured rows right of the ridge", derived=True)
    else:
        page.absent("q-rows", reason=f"of up to {crossing[-1].name} none is surely right of the ridge")
    page.number("q-gelu-intensity", placed["GELU"].intensity, unit="FLOP/B", what="intensity of GELU")
    for key, name in (("q-gain-matrix", "matrix × matrix"), ("q-gain-vector", "matrix × vector")):
        gain = _gain_of_twice_the_bandwidth(placed[name], machine)
        page.number(key, gain, unit="", what="predicted speedup with twice the bandwidth", modelled=True)
    page.number("q-floor", gpt.roof, what="sum of the roofs of the GPT's operations", modelled=True)
    page.number("q-gpt-time", calls.zoo_pass(gpt.seconds, "gpt", 64))
    farthest = sorted(by_op.values(), key=lambda one: one.of_roof.median)
    most = sorted(by_op.values(), key=lambda one: -_above_roof(one).median)
    page.number("q-farthest-share", farthest[0].of_roof)
    page.number("q-most-seconds", _above_roof(most[0]))
    page.word(
        "q-farthest",
        _first_and_alike(farthest, lambda one, other: quotient(other.of_roof, one.of_roof, "shares of roofs"), 1),
        because=f"by the medians it is {farthest[0].name}, with {{q-farthest-share}} of its roof; others are named "
        "where the intervals cannot tell them from it",
    )
    page.word(
        "q-most-to-gain",
        _first_and_alike(most, lambda one, other: _difference(_above_roof(one), _above_roof(other), "time"), 0),
        because=f"by the medians it is {most[0].name}, which spends {{q-most-seconds}} above its roof; others are "
        "named where the intervals cannot tell them from it",
    )


def _is_right_of_the_ridge(one: Placed, together: int) -> bool:
    """Return whether its arithmetic surely takes as long as its bytes, or longer."""
    arithmetic, traffic = one.verdict.compute.seconds, one.verdict.memory.seconds
    over = quotient(arithmetic, traffic, f"time of arithmetic over that of bytes, {one.name}")
    return verdict_between(over, low=1, together=together) == SUPPORTED


def _first_and_alike(ranked: Sequence[Placed], beyond: Callable[[Placed, Placed], Measurement], low: float) -> str:
    """Return the name of the first of ``ranked``, and of all that it is not surely ahead of.

    Args:
        ranked: by medians.
        beyond: how far the first is ahead of another.
        low: what that is where they are alike.
    """
    first, *others = ranked
    names = [first.name]
    names += [
        other.name
        for other in others
        if verdict_between(beyond(first, other), low=low, strict=True, together=len(others)) != SUPPORTED
    ]
    return " or ".join(names)


def _above_roof(one: Placed) -> Statistic:
    """Return the seconds that it takes longer than at its roof."""
    return _difference(one.seconds, one.roof, f"time of {one.name} above its roof")


def _difference(more: Measurement, less: Measurement, name: str) -> Statistic:
    """Return ``more - less`` of two that were not measured in turns, with the intervals of both in quadrature."""
    value = more.median - less.median
    down = math.hypot(more.median - more.interval.low, less.interval.high - less.median)
    up = math.hypot(more.interval.high - more.median, less.median - less.interval.low)
    return Statistic(
        name,
        tuple(sample - less.median for sample in more.samples),
        more.unit,
        {**more.how, "statistic": "difference of two medians"},
        value=value,
        bounds=Interval(value - down, value + up, 0.95),
    )


def _gain_of_twice_the_bandwidth(one: Placed, machine: Ceilings) -> float:
    """Return the speedup that the model predicts for what lives in memory, if memory were twice as fast."""
    arithmetic = one.demand.operations / machine.fp32_peak.median
    traffic = one.demand.bytes / best_bandwidth(machine.levels[-1]).median
    return max(arithmetic, traffic) / max(arithmetic, traffic / 2)
