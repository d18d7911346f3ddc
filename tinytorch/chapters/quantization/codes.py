"""Codes of the page on quantization: the ruler, exact products of integers, and what one outlier does to the rest."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, read_seconds
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Derived, Modelled
from tinytorch.perf.measuring.statistics import PairedShares, interval_of_law
from tinytorch.perf.ops.affine import Granularity, Quantized, Scheme, decode, encode, quantize, quantize_int8, spread
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
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


def codes_of(x: Tensor, q: Tensor, scale: float, back: Tensor) -> tuple[list[Code], Counted, Counted]:
    """Return numbers ``x`` with their codes ``q``, half of the step between these, and the numbers' largest error."""
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
    half = Counted(scale / 2, "1", "half of the scale")
    return numbers, half, Counted(errors.max(), "1", "largest error of the numbers")


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
    """The range and step of an observer, signal to noise of all but one outlier, and what that became."""

    high: Counted
    step: Counted
    predicted: Modelled
    rest: Counted
    became: Counted


@dataclass(frozen=True)
class Observed:
    """Observers on the same numbers, by name, and which of them leave the rest the most signal and the least."""

    by_name: Mapping[str, Outlier]
    best: str
    most: Counted
    worst: str
    least: Counted


def normals_with_outlier(count: int, outlier: float) -> Array:
    """Return ``count`` float32 numbers of N(0, 1), the middle one replaced by ``outlier``."""
    numbers = np.random.default_rng(0).standard_normal(count, dtype=np.float32)
    numbers[count // 2] = outlier
    return numbers


def by_observer(
    numbers: Array, observers: Mapping[str, Callable[[Scheme], RangeObserver]], bits: int = 8, batches: int = 10
) -> Observed:
    """Return what each observer, shown ``numbers`` in so many batches, does to the largest and to the rest.

    Codes are affine, one scale for all.
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
    worst, *_, best = sorted(found, key=lambda name: found[name].rest.value)
    return Observed(found, best, found[best].rest, worst, found[worst].rest)


@dataclass(frozen=True)
class Shared:
    """A matrix with one outlier: numbers that share its step, signal to noise of the rest, and bits of a number."""

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
    """A product of codes, held against the exact one and against that of the floats; ``wrapped`` are in eight bits."""

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
class Shifted:
    """The product with unsigned codes of one side: wrong sums after the correction, and by sums of 16 bits.

    ``saturated`` is the share of the sums that an instruction gets wrong which adds each two products in 16 bits.
    """

    inexact: Counted
    saturated: Counted


def check_unsigned(a: Quantized, b: Quantized) -> Shifted:
    """Return how far the product is right if the codes of ``a`` are stored 128 higher, as unsigned bytes."""
    left, right = a.codes.astype(np.int32) + 128, b.codes.astype(np.int32)
    exact = a.codes.astype(np.int64) @ b.codes.astype(np.int64)
    corrected = left.astype(np.int64) @ right - 128 * right.sum(axis=0)
    beyond = np.zeros(exact.shape, bool)
    for at in range(0, len(right), 2):  # each two neighbouring products, as the instruction adds them
        pair = left[:, at, None] * right[at] + left[:, at + 1, None] * right[at + 1]
        beyond |= np.abs(pair + 0.5) > 2**15
    return Shifted(
        Counted(int((corrected != exact).sum()), "1", "sums of unsigned times signed codes, corrected, that are wrong"),
        Counted(float(beyond.mean()), "%", "sums in which two neighbouring products do not fit 16 bits"),
    )


def bytes_of(weights: int) -> tuple[Modelled, Modelled, Modelled]:
    """Return the bytes of weights in float32, in 8 bits, and in 4 bits with a float32 scale for each group of 32."""
    named = f"{weights:,} weights in"
    return (
        Modelled(4 * weights, "B", f"{named} float32", "arithmetic"),
        Modelled(weights, "B", f"{named} eight bits", "arithmetic"),
        Modelled(weights // 2 + weights // 8, "B", f"{named} four bits, scales included", "arithmetic"),
    )


def ruler(low: float, high: float) -> tuple[Counted, Counted, Counted]:
    """Return scale and zero point of eight affine bits over a range, and the largest error of what lies in it."""
    _, scale, zero = quantize_int8(Tensor(np.array([low, high], np.float32)))
    over = f"the range {low:g} to {high:g}"
    return (
        Counted(scale, "1", f"scale of {over}"),
        Counted(zero, "1", f"zero point of {over}"),
        Counted(scale / 2, "1", "half of that scale"),
    )


#: How many products of codes a sum of 32 bits always holds, and a sum in float32 always holds exactly.
INTEGER_DEPTH = Counted(GREATEST_DEPTH, "terms", "products of codes whose sum an int32 always holds")
FLOAT_DEPTH = Counted(EXACT_DEPTH, "terms", "products of codes whose sum a float32 always holds exactly")


def coded_gpt2_step(machine: Ceilings) -> tuple[Counted, Modelled, Derived]:
    """Return what a step of GPT-2 reads in codes, its least time, and how many times as fast it is at most."""
    read = Counted(GPT2.coded_bytes, "B", "what a step of GPT-2 reads, in eight-bit codes")
    seconds = read_seconds(GPT2.coded_bytes, machine).measurement("GPT-2's weights in codes, read once")
    whole = Counted(GPT2.step_bytes, "B", "what a step of GPT-2 reads, in float32")
    gain = whole.over(read, "times as fast, by the bytes")
    return read, Modelled.by("the bytes, at the bandwidth", seconds), gain


def enough_examples(loss: float) -> Counted:
    """Return on how few test examples nothing must change, so that a loss of that share is excluded.

    It is excluded with 95 % confidence on one side, and never below ten examples.
    """
    fewest = next(n for n in count(10) if -interval_of_law(PairedShares(0, 0, n), 0.9).low < loss)
    return Counted(fewest, "examples", f"unchanged examples that exclude a loss of {loss:.1%}")
