"""The claims of the page on rooflines: each in its source's words, and tested as these have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinytorch.chapters import sources
from tinytorch.chapters.roofline.records import key_of, rows_of
from tinytorch.perf.measuring import Measurement, Statistic, quotient, ratio
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed
from tinytorch.report import Page, verdict_between, verdict_between_all, verdict_of_all

#: The share of the peak that the course calls extremely low, and the most that doubled sizes may add by Horace He.
_LOW, _DOUBLED = 0.05, 1.1


def record_claims(
    page: Page,
    crossings: Mapping[int, Sequence[Placed]],
    additions: Mapping[int, Placed],
    placed: Mapping[str, Placed],
    squares: Mapping[int, Placed],
) -> None:
    """Record all claims of the page, whose numbers are recorded.

    Args:
        page: that records.
        crossings: products of more and more rows by the width of their weights.
        additions: by how many numbers they add.
        placed: the operations of the page by name.
        squares: products of square matrices by their width.
    """
    claim_ridge(page, crossings)
    claim_doubling(page, additions)
    claim_intensity_of_add(page, placed["add"])
    claim_large_products(page, squares)
    claim_low_rate(page, placed)
    claim_large_models(page, crossings[max(crossings)])
    claim_elementwise(page, placed)


def _is_bound_by(one: Placed, bound: Bottleneck) -> Judgement:
    """Return the verdict on whether ``bound`` is the largest."""
    found = one.verdict
    if bound not in found.candidates:
        return Judgement(Verdict.REFUTED, found.said.tests)
    return Judgement(Verdict.OPEN if found.bottleneck is Bottleneck.OPEN else Verdict.SUPPORTED, found.said.tests)


def claim_ridge(page: Page, crossings: Mapping[int, Sequence[Placed]]) -> None:
    """Record the claim on the ridge point: nothing that is surely left of it reaches the peak."""
    left = {
        f"{rows_of(one)} × {width:,}": one.verdict.compute.share
        for width, crossing in crossings.items()
        for one in crossing
        if _is_left_of_the_ridge(one)
    }
    scattered = [
        name for name, share in left.items() if verdict_between(share, high=1, strict=True).verdict == Verdict.OPEN
    ]
    left_open = f" The times that scatter too much to tell are those of (rows × width) {', '.join(scattered)}."
    page.claim(
        "ridge-point",
        statement="A kernel can reach the peak only right of the ridge point.",
        quote="The x-coordinate of the ridge point is the minimum operational intensity required to achieve maximum "
        "performance.",
        source="S. Williams, A. Waterman and D. Patterson, Roofline, Communications of the ACM, 2009",
        source_url="https://doi.org/10.1145/1498765.1498785",
        verdict=verdict_between_all(left.values(), high=1, strict=True),
        evidence="With weights 1,024 wide one row, at {intensity-first-1024}, reached {of-peak-first-1024} of the "
        "peak. The most rows, at {intensity-last-1024}, reached {of-peak-last-1024}. The test asks whether any "
        "product whose bytes surely take longer than its arithmetic reached the peak; it asks nothing of those on the "
        "right, as a minimum promises nothing beyond it." + (left_open if scattered else ""),
        numbers=["of-peak-first-4096"],
    )


def _is_left_of_the_ridge(one: Placed) -> bool:
    arithmetic, traffic = one.verdict.compute.seconds, one.verdict.memory.seconds
    over = quotient(arithmetic, traffic, f"time of arithmetic over that of bytes, {one.name}")
    return verdict_between(over, high=1, strict=True).verdict == Verdict.SUPPORTED


def claim_doubling(page: Page, additions: Mapping[int, Placed]) -> None:
    """Record the claim on what takes hardly longer on twice the data, tested on the smallest addition and its double.

    Where doubling adds more than a tenth, the source's condition is not met, and the test says nothing.
    """
    least = min(additions)
    longer = ratio(additions[2 * least].seconds, additions[least].seconds)
    is_met = verdict_between(longer, high=_DOUBLED)
    page.claim(
        "small-tensors",
        statement="What takes at most a tenth longer on twice the data is likely bound by overhead.",
        quote="since overhead generally doesn't scale with problem size (while compute and memory do), the easiest way "
        "to tell is to simply increase the size of your data. […] For example, if you double your batch size but "
        "your runtime only increases by 10%, you're likely overhead bound.",
        source="H. He, Making Deep Learning Go Brrrr From First Principles, 2022",
        source_url="https://horace.io/brrr_intro.html",
        verdict=_is_bound_by(additions[least], Bottleneck.OVERHEAD)
        if is_met.verdict is Verdict.SUPPORTED
        else replace(is_met, verdict=Verdict.OPEN),
        evidence="An addition of eight numbers took {doubled} the time of one of four. That one took "
        "{time-add-of-4-numbers}; the least cost of a call, measured beforehand, is {call-cost}. The source speaks of "
        "a GPU; this is one core.",
    )


def claim_intensity_of_add(page: Page, add: Placed) -> None:
    """Record the course's intensity of an addition, which shapes decide."""
    page.claim(
        "add-intensity",
        statement="An element-wise addition has an intensity of 0.33 FLOP/B.",
        quote="Compared to element-wise addition (0.33 FLOPs/byte)",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(_counted(add.demand.intensity), low=0.33, high=0.34),
        evidence="One operation for three numbers of four bytes is {intensity-add}. A third is the operations for each "
        "number moved. The course's exercise multiplies by four bytes, its question does not; nor does its formula for "
        "a product, 2N/3, which in bytes is N/6.",
        counted=True,
    )


def _counted(value: float) -> Measurement:
    """Return a value that shapes decide, as a measurement without doubt."""
    return Statistic("counted", (value,), "FLOP/B", value=value, bounds=Interval(value, value, 1.0))


def claim_large_products(page: Page, products: Mapping[int, Placed]) -> None:
    """Record what the course says of large products, tested at the largest size of its exercise."""
    page.claim(
        "large-products",
        statement="Bandwidth becomes the limit of large matrix products.",
        quote="Large matrices: Memory bandwidth becomes limiting factor",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=_is_bound_by(products[max(products)], Bottleneck.MEMORY),
        evidence="The largest product of the exercise reached {of-peak-2048} of the arithmetic peak, the smallest "
        f"on this page, {min(products)} wide, {{of-peak-{min(products)}}}. Intensity grows with the width: the larger "
        "the product, the less its bytes count.",
    )


def claim_low_rate(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record what the course concludes from a low rate, tested on all operations of so low a share of the peak."""
    low = {
        name: one
        for name, one in placed.items()
        if verdict_between(one.verdict.compute.share, high=_LOW).verdict == Verdict.SUPPORTED
    }
    page.claim(
        "low-rate",
        statement="An operation that reaches 5 % of the peak is memory-bound.",
        quote="A model achieves 5 GFLOP/s on hardware with 100 GFLOP/s peak compute. The memory bandwidth is 50 GB/s. "
        "Is this workload compute-bound or memory-bound? […] This extremely low efficiency suggests the workload is "
        "memory-bound.",
        source=sources.COURSE_QUESTIONS,
        source_url=sources.COURSE_QUESTIONS_URL,
        verdict=verdict_of_all(_is_bound_by(one, Bottleneck.MEMORY) for one in low.values()),
        evidence="The addition of a million numbers reached {of-peak-add} of the peak and GELU {of-peak-gelu}. That of "
        "four numbers reached {of-peak-add-of-4-numbers}. The test takes each operation of this page that surely "
        "reached a twentieth at most, and asks whether memory explains its time.",
        numbers=[f"of-peak-{key_of(name)}" for name in low],
    )


def claim_large_models(page: Page, crossing: Sequence[Placed]) -> None:
    """Record what the course says of large models, tested on a layer of one: few rows, and many."""
    page.claim(
        "large-models",
        statement="Large models are memory-bound, not compute-bound.",
        quote="Memory bandwidth matters: Large models are memory-bound, not compute-bound",
        source=sources.COURSE_PROFILING,
        source_url=sources.COURSE_PROFILING_URL,
        verdict=verdict_of_all(_is_bound_by(one, Bottleneck.MEMORY) for one in (crossing[0], crossing[-1])),
        evidence="A layer with weights 4,096 wide stands for the model. One row reached {of-peak-first-4096} of the "
        "peak, the most rows {of-peak-last-4096}. By the formula such a product is compute-bound from about twice the "
        "ridge point on, in rows: the batch decides, and not the size.",
    )


def claim_elementwise(page: Page, placed: Mapping[str, Placed]) -> None:
    """Record what the course calls memory-bound, on a million numbers and on four."""
    page.claim(
        "elementwise-memory-bound",
        statement="Element-wise operations and small tensors are memory-bound.",
        quote="Memory Bound Operations: […] When: Element-wise operations, small tensors",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_of_all(
            _is_bound_by(placed[name], Bottleneck.MEMORY) for name in ("add", "GELU", "add of 4 numbers")
        ),
        evidence="In NumPy on one core an addition of a million numbers reached {of-roof-add} of its roof and GELU "
        "{of-roof-gelu}. An addition of four numbers reached {of-roof-add-of-4-numbers}. By the roofline the words fit "
        "what goes over large arrays once; they leave out several passes, slow instructions and the cost of a call.",
    )
