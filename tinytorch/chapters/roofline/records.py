"""The records of the page on rooflines: numbers, words, tables, figures and claims, from what was placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinytorch.chapters.roofline.figure import placed_table, roofline_figure
from tinytorch.perf.events.stream import OpKey
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.roofline.bounds import best_bandwidth
from tinytorch.perf.roofline.placement import Placed, ridge
from tinytorch.report import Page, line, subplots, verdict_between, verdict_of_all

#: What lies above its roof by more than this was held against ceilings from a slow moment, or had nearer operands.
_ABOVE = 1.05
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
        list(placed.values()),
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
        page.number(f"time-{key}", one.seconds)
        page.word(f"bound-{key}", one.verdict.sentence_word, because=one.verdict.because, numbers=[f"time-{key}"])


def _key(name: str) -> str:
    """Return the part of a record's key that names an operation."""
    return name.lower().replace(" × ", "-").replace(" ", "-")


def record_bounds(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record which operations beat their roof, and the claims on what bounds large and small ones."""
    above = [name for name, one in placed.items() if one.of_roof.interval.low > _ABOVE]
    page.word(
        "above-roof",
        ", ".join(above) or "none of them",
        because="it names what beats its roof by more than a twentieth, interval included: then the ceilings were "
        "measured in a slow moment, or the operands live nearer than their size says",
        numbers=[f"of-roof-{_key(name)}" for name in placed],
    )
    near = [verdict_between(placed[name].of_roof, low=0.5) for name in ("add", "GELU", "softmax", "matrix × matrix")]
    page.claim(
        "elementwise-memory-bound",
        statement="Elementwise operations are memory-bound and matrix products are compute-bound.",
        source="A. Ivanov et al., Data Movement Is All You Need, MLSys 2021",
        source_url="https://arxiv.org/abs/2007.00072",
        verdict=verdict_of_all(near),
        evidence="Of what their bytes allow, add, GELU and softmax of a million numbers reached {of-roof-add}, "
        "{of-roof-gelu} and {of-roof-softmax}, the matrix product {of-roof-matrix-matrix} of what its arithmetic "
        "allows. What reaches less than half of its roof is bound by something else.",
    )
    small = placed["add of 4 numbers"].verdict.bottleneck
    page.claim(
        "small-tensors",
        statement="Small tensors are bound neither by arithmetic nor by memory, but by the overhead of the call.",
        source="H. He, Making Deep Learning Go Brrrr From First Principles, 2022",
        source_url="https://horace.io/brrr_intro.html",
        verdict={"overhead": "supported", "unclear": "cannot tell here"}.get(small, "refuted"),
        evidence="An addition of four numbers took {time-add-of-4-numbers}; at the roof it would have taken "
        "{of-roof-add-of-4-numbers} of that.",
    )


def record_crossing(page: Page, crossing: Sequence[Placed], machine: Ceilings) -> None:
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
    roof = [Measurement("roof", (one.attainable,), "FLOP/s") for one in crossing]
    line(ax, intensities, roof, quantity="rate", variant="modelled", label="roof", modelled=True)
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
    peak = machine.fp32_peak.median
    first, last = (
        one.attained.scaled(1 / peak, "%", f"share of the peak, {one.name}") for one in (crossing[0], crossing[-1])
    )
    page.number("first-share", first)
    page.number("last-share", last)
    page.number("first-intensity", crossing[0].intensity, unit="FLOP/B", what="intensity of the product of one row")
    page.number("last-intensity", crossing[-1].intensity, unit="FLOP/B", what="intensity of the product of 512 rows")
    page.claim(
        "ridge-point",
        statement="A kernel can reach the peak only right of the ridge point.",
        source="S. Williams, A. Waterman and D. Patterson, Roofline, Communications of the ACM, 2009",
        source_url="https://doi.org/10.1145/1498765.1498785",
        verdict=_verdict_on_ridge(first, last),
        evidence="At {first-intensity} the product reached {first-share} of the peak, at {last-intensity} "
        "{last-share}; the test asks for less than four fifths on the left, and for more on the right.",
    )


def _verdict_on_ridge(left: Measurement, right: Measurement) -> str:
    """Return the verdict on the claim from the shares of the peak that were reached left and right of the ridge."""
    low, high = verdict_between(left, high=_MOST_OF_THE_PEAK), verdict_between(right, low=_MOST_OF_THE_PEAK)
    if low == "refuted":
        return "refuted"
    return "supported" if low == high == "supported" else "cannot tell here"


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
        list(wholes.values()),
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
    ridges = {level.name: ridge(machine, level).median for level in machine.levels}
    right = [one for one in crossing if one.intensity >= ridges[one.level]]
    rows = int((right[0] if right else crossing[-1]).name.split()[0])
    page.number("q-gelu-intensity", placed["GELU"].intensity, unit="FLOP/B", what="intensity of GELU")
    page.number("q-rows", rows, unit="rows", what="fewest measured rows right of the ridge")
    for key, name in (("q-gain-matrix", "matrix × matrix"), ("q-gain-vector", "matrix × vector")):
        gain = _gain_of_twice_the_bandwidth(placed[name], machine)
        page.number(key, gain, unit="", what="predicted speedup with twice the bandwidth", modelled=True)
    page.number("q-floor", gpt.roof_seconds, unit="s", what="sum of the roofs of the GPT's operations", modelled=True)
    page.number("q-gpt-time", gpt.seconds)
    farthest = min(by_op.values(), key=lambda one: one.of_roof.median)
    most = max(by_op.values(), key=_above_roof)
    page.number("q-farthest-share", farthest.of_roof)
    page.number(
        "q-most-seconds",
        _above_roof(most),
        unit="s",
        what=f"time of {most.name} above its roof in one pass",
    )
    page.word("q-farthest", farthest.name, because="it reaches {q-farthest-share} of its roof")
    page.word("q-most-to-gain", most.name, because="it spends {q-most-seconds} above its roof")


def _above_roof(one: Placed) -> float:
    """Return the seconds that it takes longer than at its roof."""
    return one.seconds.median - one.roof_seconds


def _gain_of_twice_the_bandwidth(one: Placed, machine: Ceilings) -> float:
    """Return the speedup that the model predicts for what lives in memory, if memory were twice as fast."""
    arithmetic = one.demand.operations / machine.fp32_peak.median
    traffic = one.demand.bytes / best_bandwidth(machine.levels[-1]).median
    return max(arithmetic, traffic) / max(arithmetic, traffic / 2)
