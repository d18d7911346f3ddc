"""Errors of rounding, by the formula and as found, exact integer products, and what one outlier does."""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

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
Row = dict[str, Any]


def predicted_decibels(numbers: Array, steps: Array | float) -> float:
    """Return the signal to noise of rounded numbers if each error lies anywhere within half a step with equal chance.

    Such an error has the mean square step² / 12; nothing is clipped.
    """
    signal = np.mean(numbers.astype(np.float64) ** 2)
    return float(10 * np.log10(signal / np.mean(np.square(steps, dtype=np.float64) / 12)))


def _by_formula(value: float, what: str = "signal to noise", unit: str = "dB") -> Modelled:
    return Modelled(value, unit, what, _EVEN_ERRORS)


def by_bits(
    measure: Callable[[Array, int], float], values: Mapping[str, Array], bits: Iterable[int]
) -> dict[tuple[str, int], Row]:
    """Return the signal to noise of values after rounding, ``predicted`` by the formula and ``found`` by ``measure``.

    The keys are the name of the values and the bits. The step is the range of the values over 2**bits - 1.
    """
    return {
        (name, each): {
            "values": name,
            "bits": each,
            "predicted": _by_formula(predicted_decibels(x, float(np.ptp(x)) / (2**each - 1))),
            "found": Counted(measure(x, each), "dB", f"signal to noise, {name} values, {each} bits"),
        }
        for name, x in values.items()
        for each in bits
    }


def normals_with_outlier(count: int, outlier: float) -> Array:
    """Return ``count`` float32 numbers of N(0, 1), the middle one replaced by ``outlier``."""
    numbers = np.random.default_rng(0).standard_normal(count, dtype=np.float32)
    numbers[count // 2] = outlier
    return numbers


def by_observer(numbers: Array, observers: Mapping[str, Callable[[Scheme], RangeObserver]]) -> dict[str, Row]:
    """Return what the range of each observer, shown ``numbers`` in ten batches, does to the largest and to the rest.

    Codes are affine, of eight bits, with one scale for all numbers. By name: the ``step``, the signal to noise of the
    rest, ``predicted`` and found (``rest``), and what the largest number ``became``.
    """
    scheme = Scheme(8, symmetric=False)
    largest = int(np.argmax(np.abs(numbers)))
    rest = np.arange(len(numbers)) != largest
    found = {}
    for name, make in observers.items():
        observer = make(scheme)
        for batch in np.array_split(numbers, 10):
            observer.observe(batch)
        scale, zero_point = observer.parameters()
        back = decode(encode(numbers, scale, zero_point, scheme), scale, zero_point)
        found[name] = {
            "step": Counted(float(scale), "1", "step of the codes"),
            "predicted": _by_formula(predicted_decibels(numbers[rest], float(scale))),
            "rest": Counted(decibels(numbers[rest], back[rest]), "dB", f"signal to noise of the rest, {name}"),
            "became": Counted(float(back[largest]), "1", "what the outlier became"),
        }
    return found


def confined(weight: Array, per: Granularity) -> Row:
    """Return what the largest number of a matrix does to the others in eight symmetric bits.

    That is the share of numbers that it has ``reached``, with which it shares a step, the signal to noise of the
    others, ``predicted`` and found (``rest``), and the ``bits`` of a number with its share of the scales.
    """
    scheme = Scheme(8, per=per)
    made = quantize(weight, scheme)
    steps = np.broadcast_to(spread(made.scale, made.zero_point, weight.shape, scheme)[0], weight.shape)
    largest = np.unravel_index(np.argmax(np.abs(weight)), weight.shape)
    rest = np.ones(weight.shape, bool)
    rest[largest] = False
    return {
        "reached": Counted(float((steps == steps[largest]).mean()), "%", "numbers that share the outlier's step"),
        "predicted": _by_formula(predicted_decibels(weight[rest], steps[rest])),
        "rest": Counted(decibels(weight[rest], made.dequantize()[rest]), "dB", "signal to noise"),
        "bits": Counted(8 * made.nbytes / weight.size, "1", "bits of a number, scales included"),
    }


def check_product(x: Array, weight: Array, a: Quantized, b: Quantized, sums: Array) -> Row:
    """Return how far ``sums``, the integer product of the codes, are from the exact one and from the float product.

    That is the number of ``sums``, those that are ``inexact``, the ``error`` of the rescaled product with what is
    ``predicted`` of it, and the share of sums that would be ``wrapped`` in eight bits and ``clipped`` in pairs of
    16 bits.
    """
    exact = a.codes.astype(np.int64) @ b.codes.astype(np.int64)
    noise = [10 ** (-predicted_decibels(x.dequantize(), x.scale) / 10) for x in (a, b)]
    what = "relative error of the product of codes, rescaled"
    wrapped = (a.codes @ b.codes) != exact
    return {
        "sums": Counted(sums.size, "1", "sums of the product"),
        "inexact": Counted(int((sums != exact).sum()), "1", "integer sums that differ from the product in 64 bits"),
        "error": Counted(relative_error(x @ weight, sums * a.scale * b.scale), "%", what),
        "predicted": _by_formula(math.sqrt(sum(noise)), f"{what}, where errors add in squares", "%"),
        "wrapped": Counted(
            float(wrapped.mean()), "%", "sums that NumPy's product of int8 matrices, in int8, gets wrong"
        ),
        "clipped": Counted(clipped_share(a, b), "%", "sums in which two neighbouring products do not fit 16 bits"),
    }


def clipped_share(a: Quantized, b: Quantized) -> float:
    """Return the share of sums that an instruction gets wrong which adds each two products in 16 bits.

    It multiplies unsigned by signed bytes, so the codes of ``a`` are taken 128 higher.
    """
    left, right = a.codes.astype(np.int32) + 128, b.codes.astype(np.int32)
    beyond = np.zeros((len(left), right.shape[1]), bool)
    for at in range(0, len(right), 2):
        pair = left[:, at, None] * right[at] + left[:, at + 1, None] * right[at + 1]
        beyond |= np.abs(pair + 0.5) > 2**15
    return float(beyond.mean())


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
