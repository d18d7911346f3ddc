"""Codes of the page on quantization: the ruler, exact products of integers, and what one outlier does to the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from tinytorch.chapters import sources
from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Statistic
from tinytorch.perf.measuring.judge import decided
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.ops.affine import Granularity, Quantized, Scheme, decode, encode, quantize, quantize_int8, spread
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.accuracy import PairedAccuracy, paired_difference_interval
from tinytorch.perf.quantization.convert import decibels, relative_error
from tinytorch.perf.quantization.observers import RangeObserver
from tinytorch.report import Column, Page

CODES = (
    Column("x", "Number", "1"),
    Column("code", "Code", "1"),
    Column("back", "Comes back as", "1"),
    Column("error", "Error", "1"),
)
SIGNAL = (
    Column("bits", "Bits", "1"),
    Column("codes", "Codes", "1"),
    Column("predicted", "Signal to noise, predicted", "dB", modelled=True),
    Column("found", "found", "dB"),
)
OBSERVERS = (
    Column("observer", "Observer"),
    Column("high", "Range up to", "1"),
    Column("step", "Step", "1"),
    Column("predicted", "The rest, predicted", "dB", modelled=True),
    Column("rest", "The rest, found", "dB"),
    Column("became", "The 50 became", "1"),
)
SHARED = (
    Column("per", "A scale for"),
    Column("reached", "Numbers that share the outlier's step", "%"),
    Column("predicted", "The rest, predicted", "dB", modelled=True),
    Column("rest", "The rest, found", "dB"),
    Column("bits", "Bits a number", "1"),
)
#: What shares a scale, as tables call it.
PER = {"tensor": "the whole tensor", "channel": "each channel", "group": "each group"}
#: The observer that minimizes the squared error, as the page calls it.
ERROR_BASED = "mean squared error"


def predicted_decibels(numbers: Array, steps: Array | float) -> float:
    """Return the signal to noise of rounded numbers if each error lies anywhere within half a step with equal chance.

    Such an error has the mean square step² / 12; nothing is clipped.
    """
    signal = np.mean(numbers.astype(np.float64) ** 2)
    return float(10 * np.log10(signal / np.mean(np.square(steps, dtype=np.float64) / 12)))


@dataclass(frozen=True)
class Outlier:
    """Result of an observer on normal numbers with one outlier among them.

    Attributes:
        high: the upper end of the range that it found.
        step: the scale.
        predicted_db: signal to noise of all but the outlier by `predicted_decibels`.
        rest_db: the same as found.
        became: the number that stands for the outlier.
    """

    high: float
    step: float
    predicted_db: float
    rest_db: float
    became: float


def normals_with_outlier(count: int, outlier: float, seed: int = 0) -> Array:
    """Return ``count`` float32 numbers of N(0, 1), the middle one replaced by ``outlier``.

    Raises:
        ValueError: if ``count`` is below 2.
    """
    if count < 2:
        raise ValueError(f"count must be at least 2, so that there is a rest, not {count}")
    numbers = np.random.default_rng(seed).standard_normal(count, dtype=np.float32)
    numbers[count // 2] = outlier
    return numbers


def by_observer(
    numbers: Array, observers: Mapping[str, Callable[[Scheme], RangeObserver]], bits: int = 8, batches: int = 10
) -> dict[str, Outlier]:
    """Return what each observer, shown flat ``numbers`` in so many batches, does to the largest and to the rest.

    Codes are affine, one scale for all.

    Raises:
        ValueError: if the numbers are none that an observer takes.
    """
    scheme = Scheme(bits, symmetric=False)
    largest = int(np.argmax(np.abs(numbers)))
    rest = np.arange(len(numbers)) != largest
    found = {}
    for name, make in observers.items():
        observer = make(scheme)
        for batch in np.array_split(numbers, batches):
            observer.observe(batch)
        scale, zero_point = observer.parameters()
        back = decode(encode(numbers, scale, zero_point, scheme), scale, zero_point)
        found[name] = Outlier(
            float(observer.range()[1]),
            float(scale),
            predicted_decibels(numbers[rest], float(scale)),
            decibels(numbers[rest], back[rest]),
            float(back[largest]),
        )
    return found


@dataclass(frozen=True)
class Shared:
    """A matrix with one outlier in eight bits, by what shares a scale.

    Attributes:
        reached: share of the numbers, 0 to 1, whose scale is the outlier's.
        predicted_db: signal to noise of all but the outlier by `predicted_decibels`; ``rest_db``, as found.
        bits: stored for each number, scales included.
    """

    reached: float
    predicted_db: float
    rest_db: float
    bits: float


def confined(weight: Array, per: Granularity) -> Shared:
    """Return what the largest number of a matrix does to the others in eight symmetric bits."""
    scheme = Scheme(8, per=per)
    made = quantize(weight, scheme)
    steps = np.broadcast_to(spread(made.scale, made.zero_point, weight.shape, scheme)[0], weight.shape)
    largest = np.unravel_index(np.argmax(np.abs(weight)), weight.shape)
    rest = np.ones(weight.shape, bool)
    rest[largest] = False
    return Shared(
        float((steps == steps[largest]).mean()),
        predicted_decibels(weight[rest], steps[rest]),
        decibels(weight[rest], made.dequantize()[rest]),
        8 * made.nbytes / weight.size,
    )


def record_codes(page: Page, x: Tensor, q: Tensor, scale: float, back: Tensor) -> None:
    """Show numbers, their codes and what these stand for."""
    errors = np.abs(back.data - x.data)
    page.table(
        "codes",
        [
            {
                "x": Counted(float(a), "1", "a number"),
                "code": int(c),
                "back": Counted(float(b), "1", "what its code stands for"),
                "error": Counted(float(e), "1", "difference of the two"),
            }
            for a, c, b, e in zip(x.data, q.data, back.data, errors, strict=True)
        ],
        CODES,
        caption="Six numbers, their codes, and what the codes stand for.",
    )
    page.number("half-step", Counted(scale / 2, "1", "half of the scale"))
    page.number("worst-error", Counted(float(errors.max()), "1", "largest error of the six"))


def record_signal(page: Page, found: Mapping[int, float]) -> None:
    """Show the signal to noise in dB of numbers spread evenly, by bits, eight among them, and the course's claim on it.

    Predicted is what errors spread evenly over a step leave of such numbers: (2**bits - 1)² times their square.
    """
    predicted = {bits: 20 * math.log10(2**bits - 1) for bits in found}
    page.table(
        "signal",
        [
            {
                "bits": bits,
                "codes": 2**bits,
                "predicted": Modelled(
                    predicted[bits], "dB", "signal to noise", "errors that lie anywhere within half a step"
                ),
                "found": Counted(each, "dB", "signal to noise"),
            }
            for bits, each in found.items()
        ],
        SIGNAL,
        caption="Numbers spread evenly over their range: signal to noise by the formula, and after rounding them.",
    )
    page.number("signal-eight", Counted(found[8], "dB", "signal to noise of evenly spread numbers in eight bits"))
    page.claim(
        "six-decibels",
        statement="Eight bits give a signal-to-noise ratio of about 48 dB.",
        source=sources.COURSE_QUANTIZATION,
        source_url=sources.COURSE_QUANTIZATION_URL,
        quote="For weights uniformly distributed … For 8-bit quantization, theoretical SNR is approximately 6 dB per "
        "bit × 8 bits = 48 dB.",
        verdict=decided(abs(found[8] - 48) <= 1),
        evidence="Rounded to eight bits, evenly spread numbers kept {signal-eight}. The test allows one decibel to "
        "either side.",
        counted=True,
    )


def record_integer_product(
    page: Page, expected: Array, a: Quantized, b: Quantized, sums: npt.NDArray[np.int32]
) -> None:
    """Record how far ``sums``, the integer product of the codes, are from the exact one and from the float product."""
    exact = a.codes.astype(np.int64) @ b.codes.astype(np.int64)
    wrong = int((sums != exact).sum())
    page.number("inexact-sums", wrong, unit="1", what="integer sums that differ from the product in 64 bits")
    page.number("all-sums", sums.size, unit="1", what="sums of the product")
    page.number(
        "product-error",
        Counted(
            relative_error(expected, sums * a.scale * b.scale), "%", "relative error of the product of codes, rescaled"
        ),
    )
    noise = [10 ** (-predicted_decibels(x.dequantize(), x.scale) / 10) for x in (a, b)]
    page.number(
        "product-error-predicted",
        Modelled(
            math.sqrt(sum(noise)),
            "%",
            "the same, if errors lie anywhere within half a step and add in squares",
            "errors that lie anywhere within half a step",
        ),
    )
    page.number(
        "numpy-wrong",
        Counted(
            float(((a.codes @ b.codes) != exact).mean()),
            "%",
            "elements that NumPy's product of int8 matrices gets wrong, because its sums are int8, too",
        ),
    )


def record_outliers(page: Page, found: Mapping[str, Outlier]) -> None:
    """Show what each observer made of normal numbers with an outlier, `ERROR_BASED` among the observers."""
    page.table(
        "outliers",
        [
            {
                "observer": name,
                "high": Counted(each.high, "1", "largest number of the range"),
                "step": Counted(each.step, "1", "step of the codes"),
                "predicted": Modelled(
                    each.predicted_db, "dB", "signal to noise", "errors that lie anywhere within half a step"
                ),
                "rest": Counted(each.rest_db, "dB", "signal to noise"),
                "became": Counted(each.became, "1", "what the outlier became"),
            }
            for name, each in found.items()
        ],
        OBSERVERS,
        caption="One outlier among normal numbers, in eight bits: the range that each observer chose, and the signal "
        "to noise of all other numbers.",
    )
    worst, best = (choose(found, key=lambda name: found[name].rest_db) for choose in (min, max))
    signal = "signal to noise of the rest"
    page.number("rest-worst", Counted(found[worst].rest_db, "dB", f"{signal}, {worst}"))
    page.number("rest-best", Counted(found[best].rest_db, "dB", f"{signal}, {best}"))
    page.number("rest-error-based", Counted(found[ERROR_BASED].rest_db, "dB", f"{signal}, {ERROR_BASED}"))
    page.word("best-observer", best, because="it leaves the rest {rest-best}, the most of the five")
    page.word("worst-observer", worst, because="it leaves the rest {rest-worst}, the least of the five")


def record_shared(page: Page, found: Mapping[str, Shared]) -> None:
    """Show how far an outlier's step reaches where a scale is shared by a tensor, a channel and a group."""
    page.table(
        "shared",
        [
            {
                "per": PER[per],
                "reached": Counted(each.reached, "%", "numbers that share the outlier's step"),
                "predicted": Modelled(
                    each.predicted_db, "dB", "signal to noise", "errors that lie anywhere within half a step"
                ),
                "rest": Counted(each.rest_db, "dB", "signal to noise"),
                "bits": Counted(each.bits, "1", "bits of a number, scales included"),
            }
            for per, each in found.items()
        ],
        SHARED,
        caption="The same numbers as a weight with one outlier, in eight symmetric bits: who shares its step, and the "
        "signal to noise of all others.",
    )


def record_answers(page: Page, product: Measurement, digits: PairedAccuracy, machine: Ceilings) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: where to.
        product: share of the integer product in the time of the layer that question 4 asks about, 0 to 1.
        digits: of a version of the MLP, on the test set of the digits.
        machine: ceilings of one thread.
    """
    seven = 7_000_000_000
    stored = "seven billion weights in"
    page.number("q-float", Modelled(4 * seven, "B", f"{stored} float32", "arithmetic"))
    page.number("q-eight", Modelled(seven, "B", f"{stored} eight bits", "arithmetic"))
    four = seven // 2 + 4 * seven // 32
    page.number("q-four", Modelled(four, "B", f"{stored} four bits, scales included", "arithmetic"))
    _, scale, zero = quantize_int8(Tensor(np.array([-1, 3], np.float32)))
    page.number("q-scale", Counted(scale, "1", "scale of the range -1 to 3"))
    page.number("q-zero", zero, unit="1", what="zero point of the range -1 to 3")
    page.number("q-error", Counted(scale / 2, "1", "half of that scale"))
    page.number("q-overflow", GREATEST_DEPTH, unit="terms", what="products of codes whose sum an int32 always holds")
    page.number("q-exact", EXACT_DEPTH, unit="terms", what="products of codes whose sum a float32 always holds exactly")
    page.number("q-limit", Modelled.by("Amdahl's law", limit_of(product)))
    page.number(
        "q-examples",
        enough_examples(0.005),
        unit="examples",
        what="unchanged examples that exclude a loss of half a point",
    )
    page.number("q-digits", digits.examples, unit="examples", what="test digits")
    _record_gpt2(page, machine)


def _record_gpt2(page: Page, machine: Ceilings) -> None:
    """Record what a step of GPT-2 reads in codes, its least time, and how many times as fast it is at most."""
    narrow = read_seconds(GPT2.coded_bytes, machine).statistic("GPT-2's weights in codes, read once")
    what = "bytes of GPT-2's weights in float32 over those in eight-bit codes"
    page.number("gpt2-coded-gain", Counted(GPT2.step_bytes / GPT2.coded_bytes, "", what))
    page.number("gpt2-coded-bytes", GPT2.coded_bytes, unit="B", what="what a step of GPT-2 reads, in eight-bit codes")
    page.number("gpt2-coded-step", Modelled.by("the bytes, at the bandwidth", narrow))


def limit_of(product: Measurement) -> Statistic:
    """Return how many times as fast a layer is at most, if its product, a share of its time, took none (Amdahl)."""

    def limit(share: float) -> float:
        return amdahl(min(max(share, 0.0), 0.99), 1e9)

    return Statistic(
        "Amdahl's limit for the product of the second layer",
        tuple(limit(share) for share in product.samples),
        "",
        product.conditions.within_bounds("limit at the median share"),
        value=limit(product.median),
        bounds=Interval(limit(product.interval.low), limit(product.interval.high), product.interval.confidence),
    )


def enough_examples(loss: float) -> int:
    """Return on how few test examples nothing must change, so that a loss of that share is excluded.

    It is excluded with 95 % confidence on one side, and never below ten examples.
    """
    return next(n for n in count(10) if -paired_difference_interval(0, 0, n, confidence=0.9).low < loss)
