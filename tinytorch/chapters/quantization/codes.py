"""Codes of the page on quantization: the ruler, exact products of integers, and what one outlier does to the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.ops.affine import Granularity, Quantized, Scheme, decode, encode, quantize, quantize_int8, spread
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
from tinytorch.perf.profiling.breakdown import amdahl
from tinytorch.perf.quantization.accuracy import paired_difference_interval
from tinytorch.perf.quantization.convert import decibels, relative_error
from tinytorch.perf.quantization.observers import RangeObserver

#: What predicts an error of rounding.
_EVEN_ERRORS = "errors that lie anywhere within half a step"


def predicted_decibels(numbers: Array, steps: Array | float) -> float:
    """Return the signal to noise of rounded numbers if each error lies anywhere within half a step with equal chance.

    Such an error has the mean square step² / 12; nothing is clipped.
    """
    signal = np.mean(numbers.astype(np.float64) ** 2)
    return float(10 * np.log10(signal / np.mean(np.square(steps, dtype=np.float64) / 12)))


def _by_formula(value: float, what: str = "signal to noise", unit: str = "dB") -> Modelled:
    return Modelled(value, unit, what, _EVEN_ERRORS)


@dataclass(frozen=True)
class Code:
    """A number, its code, and what the code stands for."""

    number: Counted
    code: int
    back: Counted
    error: Counted


@dataclass(frozen=True)
class Codes:
    """Numbers in codes, half of the step between these, and the largest error of the numbers."""

    numbers: Sequence[Code]
    half_step: Counted
    worst: Counted


def codes_of(x: Tensor, q: Tensor, scale: float, back: Tensor) -> Codes:
    """Return numbers ``x`` with their codes ``q`` and what these stand for."""
    errors = np.abs(back.data - x.data)
    numbers = [
        Code(
            Counted(number, "1", "a number"),
            int(code),
            Counted(stands_for, "1", "what its code stands for"),
            Counted(error, "1", "difference of the two"),
        )
        for number, code, stands_for, error in zip(x.data, q.data, back.data, errors, strict=True)
    ]
    worst = Counted(errors.max(), "1", "largest error of the numbers")
    return Codes(numbers, Counted(scale / 2, "1", "half of the scale"), worst)


@dataclass(frozen=True)
class Signal:
    """Signal to noise of numbers that were rounded to so many bits, by the formula and as found."""

    bits: int
    codes: int
    predicted: Modelled
    found: Counted


def signal_by_bits(found: Mapping[int, float]) -> dict[int, Signal]:
    """Return the decibels that evenly spread numbers keep, by bits, beside the formula's.

    Predicted is what errors spread evenly over a step leave of such numbers: (2**bits - 1)² times their square.
    """
    return {
        bits: Signal(bits, 2**bits, _by_formula(20 * math.log10(2**bits - 1)), Counted(each, "dB", "signal to noise"))
        for bits, each in found.items()
    }


@dataclass(frozen=True)
class Outlier:
    """Result of an observer on normal numbers with one outlier among them.

    Attributes:
        high: the upper end of the range that it found.
        step: the scale.
        predicted: signal to noise of all but the outlier by `predicted_decibels`.
        rest: the same as found.
        became: the number that stands for the outlier.
    """

    high: Counted
    step: Counted
    predicted: Modelled
    rest: Counted
    became: Counted


@dataclass(frozen=True)
class Observed:
    """Results of observers on the same numbers, by name, and which leave the rest the most signal and the least."""

    by_name: Mapping[str, Outlier]

    @cached_property
    def best(self) -> str:
        """The observer that leaves the rest the most signal."""
        return max(self.by_name, key=lambda name: self.by_name[name].rest.value)

    @cached_property
    def worst(self) -> str:
        """The observer that leaves the rest the least signal."""
        return min(self.by_name, key=lambda name: self.by_name[name].rest.value)

    @property
    def most(self) -> Counted:
        """The most signal that the rest keeps."""
        return self.by_name[self.best].rest

    @property
    def least(self) -> Counted:
        """The least signal that the rest keeps."""
        return self.by_name[self.worst].rest


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
) -> Observed:
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
            Counted(float(observer.range()[1]), "1", "largest number of the range"),
            Counted(float(scale), "1", "step of the codes"),
            _by_formula(predicted_decibels(numbers[rest], float(scale))),
            Counted(decibels(numbers[rest], back[rest]), "dB", f"signal to noise of the rest, {name}"),
            Counted(float(back[largest]), "1", "what the outlier became"),
        )
    return Observed(found)


@dataclass(frozen=True)
class Shared:
    """A matrix with one outlier in eight bits, by what shares a scale.

    Attributes:
        reached: share of the numbers, 0 to 1, whose scale is the outlier's.
        predicted: signal to noise of all but the outlier by `predicted_decibels`; ``rest``, as found.
        bits: stored for each number, scales included.
    """

    reached: Counted
    predicted: Modelled
    rest: Counted
    bits: Counted


def confined(weight: Array, per: Granularity) -> Shared:
    """Return what the largest number of a matrix does to the others in eight symmetric bits."""
    scheme = Scheme(8, per=per)
    made = quantize(weight, scheme)
    steps = np.broadcast_to(spread(made.scale, made.zero_point, weight.shape, scheme)[0], weight.shape)
    largest = np.unravel_index(np.argmax(np.abs(weight)), weight.shape)
    rest = np.ones(weight.shape, bool)
    rest[largest] = False
    return Shared(
        Counted(float((steps == steps[largest]).mean()), "%", "numbers that share the outlier's step"),
        _by_formula(predicted_decibels(weight[rest], steps[rest])),
        Counted(decibels(weight[rest], made.dequantize()[rest]), "dB", "signal to noise"),
        Counted(8 * made.nbytes / weight.size, "1", "bits of a number, scales included"),
    )


@dataclass(frozen=True)
class IntegerProduct:
    """A product of codes, held against the exact one and against the product of the floats.

    Attributes:
        sums: how many there are; ``inexact``, how many of them differ from the product in 64 bits.
        error: of the rescaled product, relative; ``predicted`` from the scales of both sides.
        wrapped: share of the sums that eight bits cannot hold, which NumPy's product of int8 keeps them in.
    """

    sums: Counted
    inexact: Counted
    error: Counted
    predicted: Modelled
    wrapped: Counted


def check_product(x: Array, weight: Array, a: Quantized, b: Quantized, sums: Array) -> IntegerProduct:
    """Return how far ``sums``, the integer product of the codes, are from the exact one and from the float product."""
    exact = a.codes.astype(np.int64) @ b.codes.astype(np.int64)
    noise = [10 ** (-predicted_decibels(x.dequantize(), x.scale) / 10) for x in (a, b)]
    what = "relative error of the product of codes, rescaled"
    return IntegerProduct(
        Counted(sums.size, "1", "sums of the product"),
        Counted(int((sums != exact).sum()), "1", "integer sums that differ from the product in 64 bits"),
        Counted(relative_error(x @ weight, sums * a.scale * b.scale), "%", what),
        _by_formula(math.sqrt(sum(noise)), f"{what}, where errors add in squares", "%"),
        Counted(
            float(((a.codes @ b.codes) != exact).mean()),
            "%",
            "elements that NumPy's product of int8 matrices gets wrong, because its sums are int8, too",
        ),
    )


@dataclass(frozen=True)
class Bytes:
    """Bytes of weights in float32, in eight bits, and in four bits with a float32 scale for each group of 32."""

    whole: Modelled
    eight: Modelled
    four: Modelled


def bytes_of(weights: int) -> Bytes:
    """Return the bytes of so many weights."""
    each = (
        (4 * weights, "float32"),
        (weights, "eight bits"),
        (weights // 2 + weights // 8, "four bits, scales included"),
    )
    return Bytes(*(Modelled(size, "B", f"{weights:,} weights in {how}", "arithmetic") for size, how in each))


@dataclass(frozen=True)
class Ruler:
    """A ruler of eight affine bits: its step, its zero point, and the largest error of what lies on it."""

    scale: Counted
    zero_point: Counted
    error: Counted


def ruler(low: float, high: float) -> Ruler:
    """Return the ruler of eight affine bits over a range."""
    _, scale, zero = quantize_int8(Tensor(np.array([low, high], np.float32)))
    over = f"the range {low:g} to {high:g}"
    return Ruler(
        Counted(scale, "1", f"scale of {over}"),
        Counted(zero, "1", f"zero point of {over}"),
        Counted(scale / 2, "1", "half of that scale"),
    )


#: How many products of codes a sum of 32 bits always holds, and a sum in float32 always holds exactly.
INTEGER_DEPTH = Counted(GREATEST_DEPTH, "terms", "products of codes whose sum an int32 always holds")
FLOAT_DEPTH = Counted(EXACT_DEPTH, "terms", "products of codes whose sum a float32 always holds exactly")


@dataclass(frozen=True)
class CodedStep:
    """A step of GPT-2 with its matrices in eight-bit codes: bytes, seconds at the bandwidth, and what it gains."""

    read: Counted
    seconds: Modelled
    gain: Derived


def coded_gpt2_step(machine: Ceilings) -> CodedStep:
    """Return what a step of GPT-2 reads in codes, its least time, and how many times as fast it is at most."""
    read = Counted(GPT2.coded_bytes, "B", "what a step of GPT-2 reads, in eight-bit codes")
    seconds = read_seconds(GPT2.coded_bytes, machine).statistic("GPT-2's weights in codes, read once")
    whole = Counted(GPT2.step_bytes, "B", "what a step of GPT-2 reads, in float32")
    return CodedStep(
        read, Modelled.by("the bytes, at the bandwidth", seconds), whole.over(read, "times as fast, by the bytes")
    )


def limit_of(product: Measurement) -> Modelled:
    """Return how many times as fast a layer is at most, if its product, a share of its time, took none (Amdahl)."""

    def limit(share: float) -> float:
        return amdahl(min(max(share, 0.0), 0.99), 1e9)

    found = Statistic(
        "Amdahl's limit for the product of the layer",
        tuple(limit(share) for share in product.samples),
        "",
        product.conditions.within_bounds("limit at the median share"),
        value=limit(product.median),
        bounds=Interval(limit(product.interval.low), limit(product.interval.high), product.interval.confidence),
    )
    return Modelled.by("Amdahl's law", found)


def enough_examples(loss: float) -> Counted:
    """Return on how few test examples nothing must change, so that a loss of that share is excluded.

    It is excluded with 95 % confidence on one side, and never below ten examples.
    """
    fewest = next(n for n in count(10) if -paired_difference_interval(0, 0, n, confidence=0.9).low < loss)
    return Counted(fewest, "examples", f"unchanged examples that exclude a loss of {loss:.1%}")
