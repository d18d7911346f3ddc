"""Speed of products of codes: NumPy's own integers, what the instruction promises, whole layers, and one row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.calls import in_turns
from tinytorch.chapters.machine import multiplies_bytes, ratio_of_peaks
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import (
    Counted,
    Derived,
    Measurement,
    Modelled,
    Statistic,
    Unmeasured,
    interleave,
    quotient,
    ratio,
)
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, bandwidth_at, slope_at, verdict

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
_BYTES = "the bytes, at the bandwidth"


def numpy_slowdown(side: int, seed: int = 0, repeats: int = 9) -> Measurement:
    """Return how many times as long NumPy's square product of 32-bit integers takes as that of float32."""
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(-128, 128, (side, side)) for _ in range(2))
    pairs = {str(np.dtype(kind)): (a.astype(kind), b.astype(kind)) for kind in (np.float32, np.int32)}

    def product(left: Any, right: Any) -> Callable[[], Any]:
        return lambda: left @ right

    seconds = interleave({kind: product(*pair) for kind, pair in pairs.items()}, repeats=repeats)
    return ratio(seconds["int32"], seconds["float32"], f"NumPy's int32 product over float32, {side} wide")


@dataclass(frozen=True)
class Instruction:
    """How a CPU multiplies bytes: the word for its fastest way, and its rate over that of float32."""

    word: str
    over_float: Measurement


def instruction(one: Ceilings) -> Instruction:
    """Return how this CPU multiplies bytes, by the ceilings of one thread."""
    word = "the steps, without a dot-product instruction"
    if multiplies_bytes(one):
        word = "a dot-product instruction"
    elif one.int8_from == "multiply":
        word = "neither, but products of integers of 32 bits"
    return Instruction(word, ratio_of_peaks(one))


def with_instruction(one: Ceilings) -> Judgement | Unmeasured:
    """Return that the CPU multiplies bytes by an instruction, on which speed depends by the source's own words."""
    if not multiplies_bytes(one):
        return Unmeasured(
            "this CPU has no instruction that multiplies bytes, and the source says that the gain depends on it"
        )
    return decided(True)


@dataclass(frozen=True)
class LayerGain:
    """A linear layer in float32 and in codes, input quantized and sums rescaled: speed, bytes and error of one run.

    Attributes:
        float_share, coded_share: of their peaks, which the layer reaches in float32 and in codes.
        speedup: time in float32 over time in codes.
        stored: bytes in codes over those in float32.
        error: of the outputs.
        quantize, product, rescale: shares of the time in codes, of `layer_parts`.
    """

    float_share: Measurement
    coded_share: Measurement
    speedup: Measurement
    stored: Derived
    error: Counted
    quantize: Measurement
    product: Measurement
    rescale: Measurement


def layer_gain(
    rows: int, depth: int, columns: int, machine: Ceilings, plan: Plan | None = None, repeats: int = 30
) -> LayerGain:
    """Return what a quantized linear layer gains and costs, and where its time goes."""
    layers, x = _twins(depth, columns, {"quantized": plan or Plan()}), _input(rows, depth)
    seconds = in_turns(layers, x, repeats)
    name, work = f"({rows}, {depth}) times {columns}", 2 * rows * depth * columns
    with no_grad():
        whole, coded = (layer(x).data for layer in layers.values())
    float_rate = seconds["float32"].per(work, "FLOP/s", f"float32 layer, {name}")
    coded_rate = seconds["quantized"].per(work, "OP/s", f"8-bit layer, {name}")
    parts = layer_parts(rows, depth, columns, plan, repeats)
    return LayerGain(
        quotient(float_rate, machine.fp32_peak, f"share of the peak, {name}", "%"),
        quotient(coded_rate, machine.int8_peak, f"share of the peak, {name}", "%"),
        ratio(seconds["float32"], seconds["quantized"], f"float32 over int8, {name}"),
        _stored(layers["quantized"]).over(_stored(layers["float32"]), "bytes of those in float32", "%"),
        Counted(relative_error(whole, coded), "%", "relative error of the outputs"),
        parts["quantize"],
        parts["product"],
        parts["rescale"],
    )


def layer_parts(
    rows: int, depth: int, columns: int, plan: Plan | None = None, repeats: int = 30
) -> dict[str, Measurement]:
    """Return the shares of a quantized layer's time: ``quantize`` its input, ``product``, and ``rescale`` the sums.

    A layer with few columns still has to quantize the whole input, and one with a shallow weight still has to rescale
    every output. These two are measured in turns with the whole layer; the product is what they leave. So what both
    of them share (the call, Python) counts twice, and the product's share is rather too small.
    """
    plan = plan or Plan()
    whole, narrow, shallow = (_quantized(*shape, plan) for shape in ((depth, columns), (depth, FEW), (FEW, columns)))
    x, thin = _input(rows, depth), _input(rows, FEW)
    with no_grad():
        seconds = interleave(
            {"whole": lambda: whole(x), "quantize": lambda: narrow(x), "rescale": lambda: shallow(thin)},
            repeats=repeats,
        )
    quantize, rescale = (
        ratio(seconds[part], seconds["whole"], f"share of {part}").scaled(1.0, "%") for part in ("quantize", "rescale")
    )
    left = 1 - np.add(quantize.samples, rescale.samples)
    conditions = of_all((quantize.conditions, rescale.conditions))
    product = Measurement("share of product", tuple(left.tolist()), "%", conditions)
    return {"quantize": quantize, "product": product, "rescale": rescale}


@dataclass(frozen=True)
class Width:
    """One row through a square layer of one width, its weights in some format: speed, and what the ladder predicts.

    Attributes:
        mebibytes: of the weights in float32.
        weights: the format.
        gain: time in float32 over time in the format.
        predicted: the same, by bytes over bandwidth.
    """

    mebibytes: float
    weights: str
    gain: Measurement
    predicted: Modelled


@dataclass(frozen=True)
class Format:
    """Weights in one format at the largest width: what is stored, what it gains for one row, and what it costs."""

    bits: Counted
    predicted: Modelled
    gain: Measurement
    error: Counted


@dataclass(frozen=True)
class OneRow:
    """One row through square layers of growing width, with float32 weights and with fewer bits.

    Attributes:
        widths: by width and format.
        largest: by format, at the largest width.
        small, large: gain of eight bits at the smallest and the largest width; ``*_bytes`` of the weights in float32.
        explained: time of reading the largest float weights once, over the measured time.
        floats_from, codes_from: the level of memory that the largest floats and their codes come from.
        smaller: bytes in float32 over those in eight bits.
        reading: time of reading the codes of eight bits once, over the time of their layer.
        four: time of eight bits over that of four; ``four_predicted``, if only the reading shrinks.
        is_memory_bound: whether the largest layer waits for its float weights; open if it does not.
    """

    widths: Sequence[Width]
    largest: Mapping[str, Format]
    small: Measurement
    large: Measurement
    small_bytes: Counted
    large_bytes: Counted
    explained: Measurement
    floats_from: str
    codes_from: str
    smaller: Derived
    reading: Measurement
    four: Measurement
    four_predicted: Modelled | Unmeasured
    is_memory_bound: Judgement


def one_row(widths: Sequence[int], plans: Mapping[str, Plan], machine: Ceilings, repeats: int = 30) -> OneRow:
    """Return how one row fares in square layers of each width, rising, with weights by ``plans`` of 8 and of 4 bits.

    Weights are used again and again, as of the only layer of a model: what fits a cache stays there.
    """
    eight, four = plans
    found, layers = [], {}
    for width in widths:
        layers, x = _twins(width, width, plans), _input(1, width)
        seconds = in_turns(layers, x, repeats)
        found += [*_at_width(width, seconds, layers, machine)]
    with no_grad():
        expected = layers["float32"](x).data
        error = {name: relative_error(expected, layers[name](x).data) for name in plans}
    side, last = widths[-1], {each.weights: each for each in found[-len(plans) :]}
    bits = {
        name: Counted(8 * stored_bytes(layers[name]) / side**2, "1", "bits of a weight, scales included")
        for name in plans
    }
    wide, narrow = _streamed(side, 32), _streamed(side, 8)
    reading = quotient(
        bandwidth_at(narrow, machine).per(narrow, "s"),
        seconds[eight],
        "time of reading the codes of eight bits once, over the measured time of the largest layer",
        "%",
    )
    return OneRow(
        found,
        {
            name: Format(
                bits[name], each.predicted, each.gain, Counted(error[name], "%", "relative error of the outputs")
            )
            for name, each in last.items()
        },
        found[0].gain,
        last[eight].gain,
        Counted(4 * widths[0] ** 2, "B", "float32 weights of the layer"),
        Counted(4 * side**2, "B", "float32 weights of the layer"),
        quotient(
            bandwidth_at(wide, machine).per(wide, "s"),
            seconds["float32"],
            "time of reading the float weights once, over the measured time of the largest layer",
            "%",
        ),
        slope_at(wide, machine).levels,
        slope_at(narrow, machine).levels,
        Counted(32, "1", "bits of a float").over(bits[eight], "bytes of the float layer over those in eight bits"),
        reading,
        ratio(seconds[eight], seconds[four], "8 bits over 4 bits, one row through the largest layer"),
        _if_only_reading_shrinks(reading, bits[eight].value / bits[four].value),
        _memory_bound(side, seconds["float32"], machine),
    )


def _at_width(
    width: int, seconds: Mapping[str, Measurement], layers: Mapping[str, Any], machine: Ceilings
) -> Iterator[Width]:
    for name in [name for name in layers if name != "float32"]:
        gain = ratio(seconds["float32"], seconds[name], f"float32 over {name}, one row, {width} wide")
        bits = round(8 * stored_bytes(layers[name]) / width**2)
        yield Width(4 * width * width / 2**20, name, gain, Modelled.by(_BYTES, streaming_speedup(width, bits, machine)))


def _memory_bound(side: int, seconds: Measurement, machine: Ceilings) -> Judgement:
    """Return whether one row through a square layer waits for its weights; open if it does not, as of what follows."""
    call = min(machine.calls.op.values(), key=lambda cost: cost.median)
    wide = _streamed(side, 32)
    bound = verdict(Demand(2 * side**2, 0, wide, 1, wide, ((wide, 1),)), seconds, machine, call)
    holds = Verdict.SUPPORTED if bound.bottleneck is Bottleneck.MEMORY else Verdict.OPEN
    return Judgement(holds, bound.said.tests)


def quarter_and_half(found: OneRow, *, bytes_within: float, at_least: float) -> Judgement:
    """Return whether the largest layer takes a quarter of the bytes and gains ``at_least`` so much, if memory-bound."""
    if found.is_memory_bound.verdict is Verdict.OPEN:
        return found.is_memory_bound
    return verdict_of_all(
        (decided(abs(found.smaller.value - 4) <= bytes_within), verdict_between(found.large, at_least))
    )


def _if_only_reading_shrinks(reading: Measurement, fewer: float) -> Modelled | Unmeasured:
    """Return what so many times fewer bytes make of a layer of whose time ``reading`` is a share, by Amdahl's law."""
    if reading.interval.high > 1:
        return Unmeasured("reading the codes at the ladder's bandwidth may take as long as the layer took")
    exact = Statistic(
        "bytes in eight bits over those in four", (fewer,), "", value=fewer, bounds=Interval(fewer, fewer, 1)
    )
    what = "8 bits over 4 bits, if only the reading shrinks"
    return Modelled.by("Amdahl's law", predicted_speedup(reading, exact, what))


def streaming_speedup(width: int, bits: int, machine: Ceilings) -> Statistic:
    """Return what the ladder of memory predicts for one row: bytes over bandwidth, of float32 and of so many bits.

    Each weight is read once, as fast as the ladder ran with a working set of that size. Scales count where ``bits``
    does.
    """
    wide, narrow = _streamed(width, 32), _streamed(width, bits)
    name = f"bytes over measured bandwidth, float32 over {bits} bits"
    return quotient(bandwidth_at(narrow, machine), bandwidth_at(wide, machine), name).scaled(wide / narrow)


def _streamed(width: int, bits: int) -> int:
    """Return the bytes of a square weight with so many bits for each number."""
    return width * width * bits // 8


def _stored(layer: Any) -> Counted:
    return Counted(stored_bytes(layer), "B", "bytes of the layer")


def _input(rows: int, depth: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, depth), dtype=np.float32))


def _quantized(depth: int, columns: int, plan: Plan) -> QuantizedLinear:
    return QuantizedLinear(Linear(depth, columns, seed=0), plan)


def _twins(depth: int, columns: int, plans: Mapping[str, Plan]) -> dict[str, Any]:
    layer = Linear(depth, columns, seed=0)
    return {"float32": layer, **{name: QuantizedLinear(layer, plan) for name, plan in plans.items()}}
