"""Codes of the page on quantization: the ruler, exact products of integers, and what one outlier does to the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.ops.affine import Quantized, Scheme, decode, encode, quantize, quantize_int8
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.accuracy import paired_difference_interval
from tinytorch.perf.quantization.convert import decibels, relative_error
from tinytorch.perf.quantization.observers import MeanSquaredErrorObserver, RangeObserver
from tinytorch.report import Column, Page, color, subplots

CODES = (
    Column("x", "Number", "1"),
    Column("code", "Code", "1"),
    Column("back", "Comes back as", "1"),
    Column("error", "Error", "1"),
)
OBSERVERS = (
    Column("observer", "Observer"),
    Column("low", "Range from", "1"),
    Column("high", "to", "1"),
    Column("step", "Step", "1"),
    Column("rest", "Signal to noise of the rest", "dB"),
    Column("became", "The 50 became", "1"),
)
#: The observer that minimizes the squared error, as the page calls it.
ERROR_BASED = "mean squared error"


@dataclass(frozen=True)
class Outlier:
    """Result of an observer on normal numbers with one outlier among them.

    Attributes:
        low, high: the range that it found.
        step: the scale.
        rest_db: signal-to-noise ratio of the numbers that count, by default all but the outlier, in dB.
        became: the number that stands for the outlier.
    """

    low: float
    high: float
    step: float
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
    numbers: Array,
    observers: Mapping[str, Callable[[Scheme], RangeObserver]],
    bits: int = 8,
    batches: int = 10,
    counted: npt.NDArray[np.bool_] | None = None,
) -> dict[str, Outlier]:
    """Return what each observer, shown flat ``numbers`` in so many batches, does to the largest and to the rest.

    Codes are affine, one scale for all. ``counted`` says which numbers are the rest: all but the largest if None.

    Raises:
        ValueError: if the numbers are none that an observer takes.
    """
    scheme = Scheme(bits, symmetric=False)
    largest = int(np.argmax(np.abs(numbers)))
    rest = np.arange(len(numbers)) != largest if counted is None else counted
    found = {}
    for name, make in observers.items():
        observer = make(scheme)
        for batch in np.array_split(numbers, batches):
            observer.observe(batch)
        low, high = observer.range()
        scale, zero_point = observer.parameters()
        back = decode(encode(numbers, scale, zero_point, scheme), scale, zero_point)
        found[name] = Outlier(
            float(low), float(high), float(scale), decibels(numbers[rest], back[rest]), float(back[largest])
        )
    return found


def _squared_error(step: float, count: int) -> float:
    """Return the mean squared error on N(0, 1) of ``count`` levels, ``step`` apart and symmetric about 0."""
    levels = step * (np.arange(count) - (count - 1) / 2)
    edges = (levels[1:] + levels[:-1]) / 2
    heights = np.exp(-(edges**2) / 2) / np.sqrt(2 * np.pi)
    density = np.concatenate([[0.0], heights, [0.0]])
    moment = np.concatenate([[0.0], edges * heights, [0.0]])
    mass = np.diff(ndtr(edges), prepend=0.0, append=1.0)
    return float((mass * (1 + levels**2) - np.diff(moment) + 2 * levels * np.diff(density)).sum())


def normal_optimum(bits: int) -> tuple[float, float]:
    """Return the best step of ``2**bits`` even levels on N(0, 1), and the signal to noise with it in decibels.

    The step is the minimum of the closed form of the error, as J. Max set it up (Quantizing for minimum distortion,
    IRE Transactions on Information Theory 6, 1960); his table ends at 36 levels.

    Raises:
        ValueError: if ``bits`` is not from 1 to 16.
    """
    if not 1 <= bits <= 16:
        raise ValueError(f"bits must be from 1 to 16, not {bits}")
    from scipy.optimize import minimize_scalar  # takes longer to import than all else here

    count = 2**bits
    # Levels never reach beyond 8 standard deviations, where hardly one number in 1e15 lies.
    best = minimize_scalar(_squared_error, bounds=(1 / count, 16 / count), args=(count,), method="bounded")
    return float(best.x), float(-10 * np.log10(best.fun))


def record_codes(page: Page, x: Tensor, q: Tensor, scale: float, back: Tensor) -> None:
    """Show numbers, their codes and what these stand for, and the staircases of two, four and eight bits."""
    errors = np.abs(back.data - x.data)
    page.table(
        "codes",
        [
            {"x": float(a), "code": int(c), "back": float(b), "error": float(e)}
            for a, c, b, e in zip(x.data, q.data, back.data, errors, strict=True)
        ],
        CODES,
        caption="Six numbers, their codes, and what the codes stand for.",
    )
    page.number("half-step", scale / 2, unit="1", what="half of the scale")
    page.number("worst-error", float(errors.max()), unit="1", what="largest error of the six")
    ruler = np.linspace(-1, 1.6, 400, dtype=np.float32)
    figure, ax = subplots(height=2.8)
    for bits, variant in ((2, "2-bit"), (4, "4-bit"), (8, "8-bit")):
        stairs = quantize(ruler, Scheme(bits, symmetric=False)).dequantize()
        ax.plot(ruler, stairs, color=color(variant), label=f"{bits} bits")
    ax.set_xlabel("number (unitless)")
    ax.set_ylabel("comes back as (unitless)")
    ax.legend(loc="upper left")
    page.figure(
        "staircase",
        figure,
        caption="What a number comes back as: a staircase whose steps are one scale wide. Each bit less doubles the "
        "steps.",
        alt="Three staircases of what a number comes back as over the number: four wide steps for 2 bits, sixteen for "
        "4, nearly a straight line for 8.",
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
        relative_error(expected, sums * a.scale * b.scale),
        unit="%",
        what="relative error of the product of codes, rescaled",
    )
    page.number(
        "numpy-wrong",
        float(((a.codes @ b.codes) != exact).mean()),
        unit="%",
        what="elements that NumPy's product of int8 matrices gets wrong, because its sums are int8, too",
    )


def record_outliers(page: Page, numbers: Array, found: Mapping[str, Outlier]) -> None:
    """Show what each observer made of ``numbers``, the middle one an outlier, beside the best without it.

    Args:
        page: where to.
        numbers: flat, of `normals_with_outlier`.
        found: what `by_observer` says of them, `ERROR_BASED` among the observers.
    """
    page.table(
        "outliers",
        [
            {
                "observer": name,
                "low": each.low,
                "high": each.high,
                "step": each.step,
                "rest": each.rest_db,
                "became": each.became,
            }
            for name, each in found.items()
        ],
        OBSERVERS,
        caption="One outlier among 100,000 normal numbers, in eight bits: what each observer makes of it, and of the "
        "rest.",
    )
    calm = np.delete(numbers, len(numbers) // 2)
    without = by_observer(calm, {"mse": MeanSquaredErrorObserver}, counted=np.ones(len(calm), bool))
    worst, best = (choose(found, key=lambda name: found[name].rest_db) for choose in (min, max))
    signal = "signal to noise of the rest"
    page.number("rest-worst", found[worst].rest_db, unit="dB", what=f"{signal}, {worst}")
    page.number("rest-best", found[best].rest_db, unit="dB", what=f"{signal}, {best}")
    page.number("rest-error-based", found[ERROR_BASED].rest_db, unit="dB", what=f"{signal}, {ERROR_BASED}")
    page.number(
        "no-outlier",
        without["mse"].rest_db,
        unit="dB",
        what=f"signal to noise without the outlier, {ERROR_BASED}",
    )
    page.number(
        "even-levels",
        normal_optimum(8)[1],
        unit="dB",
        modelled=True,
        what="signal to noise of the best evenly spaced levels on normal numbers, eight bits, by the closed form of "
        "their error",
    )
    page.word("best-observer", best, because="it leaves the rest {rest-best}, the most of the five")
    page.word("worst-observer", worst, because="it leaves the rest {rest-worst}, the least of the five")


def record_answers(page: Page, product: Measurement, digits: int) -> None:
    """Record the answers to the questions at the end.

    Args:
        page: where to.
        product: share of the integer product in the time of the layer that question 4 asks about, 0 to 1.
        digits: examples in the test set of the digits.
    """
    seven = 7_000_000_000
    stored = "seven billion weights in"
    page.number("q-float", 4 * seven, unit="B", what=f"{stored} float32", modelled=True)
    page.number("q-eight", seven, unit="B", what=f"{stored} eight bits", modelled=True)
    four = seven // 2 + 4 * seven // 32
    page.number("q-four", four, unit="B", what=f"{stored} four bits, scales included", modelled=True)
    _, scale, zero = quantize_int8(Tensor(np.array([-1, 3], np.float32)))
    page.number("q-scale", scale, unit="1", what="scale of the range -1 to 3")
    page.number("q-zero", zero, unit="1", what="zero point of the range -1 to 3")
    page.number("q-error", scale / 2, unit="1", what="half of that scale")
    page.number("q-overflow", GREATEST_DEPTH, unit="terms", what="products of codes whose sum an int32 always holds")
    page.number("q-exact", EXACT_DEPTH, unit="terms", what="products of codes whose sum a float32 always holds exactly")
    share = min(max(product.median, 0.0), 0.99)
    limit = "Amdahl's limit for the product of the second layer"
    page.number("q-limit", amdahl(share, 1e9), unit="", what=limit, modelled=True)
    page.number(
        "q-examples",
        enough_examples(0.005),
        unit="examples",
        what="unchanged examples that exclude a loss of half a point",
    )
    page.number("q-digits", digits, unit="examples", what="test digits")


def enough_examples(loss: float) -> int:
    """Return on how few test examples nothing must change, so that a loss of that share is excluded.

    It is excluded with 95 % confidence on one side, and never below ten examples.
    """
    return next(n for n in count(10) if -paired_difference_interval(0, 0, n, confidence=0.9).low < loss)
