"""Speed of products of codes: NumPy's own integers, what the instruction promises, whole layers, and one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.calls import in_turns
from tinytorch.chapters.machine import multiplies_bytes
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.perf.measuring.measurement import Statistic
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


def instruction(one: Ceilings) -> str:
    """Return the word for the fastest way in which this CPU multiplies bytes."""
    if multiplies_bytes(one):
        return "a dot-product instruction"
    if one.int8_from == "multiply":
        return "neither, but products of integers of 32 bits"
    return "the steps, without a dot-product instruction"


def with_instruction(one: Ceilings) -> Judgement | Unmeasured:
    """Return that the CPU multiplies bytes by an instruction, on which speed depends by the source's own words."""
    if not multiplies_bytes(one):
        return Unmeasured(
            "this CPU has no instruction that multiplies bytes, and the source says that the gain depends on it"
        )
    return decided(True)


@dataclass(frozen=True)
class LayerGain:
    """A linear layer in float32 and in codes, in shares of their peaks; and, of the time in codes, `layer_parts`."""

    float_share: Measurement
    coded_share: Measurement
    speedup: Measurement
    stored: Derived
    error: Counted
    parts: Mapping[str, Measurement]


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
    return LayerGain(
        quotient(float_rate, machine.fp32_peak, f"share of the peak, {name}", "%"),
        quotient(coded_rate, machine.int8_peak, f"share of the peak, {name}", "%"),
        ratio(seconds["float32"], seconds["quantized"], f"float32 over int8, {name}"),
        _stored(layers["quantized"]).over(_stored(layers["float32"]), "bytes of those in float32", "%"),
        Counted(relative_error(whole, coded), "%", "relative error of the outputs"),
        layer_parts(rows, depth, columns, plan, repeats),
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
    """One row through a square layer, its weights in a format: speed over float32, by bytes and as found, and error."""

    floats: Counted
    weights: str
    bits: Counted
    predicted: Modelled
    gain: Measurement
    error: Counted


@dataclass(frozen=True)
class OneRow:
    """One row through square layers of growing width, with float32 weights and with fewer bits.

    Attributes:
        widths: by width and format; ``largest``, those of the largest width by format.
        explained: time of reading the largest float weights once, over the measured time.
        floats_from, codes_from: the level of memory that the largest floats and their codes come from.
        smaller: bytes in float32 over those in eight bits.
        four: time of eight bits over that of four.
        is_memory_bound: whether the largest layer waits for its float weights; open if it does not.
    """

    widths: Sequence[Width]
    largest: Mapping[str, Width]
    explained: Measurement
    floats_from: str
    codes_from: str
    smaller: Derived
    four: Measurement
    is_memory_bound: Judgement


def one_row(widths: Sequence[int], plans: Mapping[str, Plan], machine: Ceilings, repeats: int = 30) -> OneRow:
    """Return how one row fares in square layers of each width, rising, with weights by ``plans`` of 8 and of 4 bits.

    Weights are used again and again, as of the only layer of a model: what fits a cache stays there.
    """
    (eight, four), found, seconds = plans, [], {}
    for width in widths:
        layers, x = _twins(width, width, plans), _input(1, width)
        seconds = in_turns(layers, x, repeats)
        found += [_at_width(width, name, seconds, layers, x, machine) for name in plans]
    side, last = widths[-1], {each.weights: each for each in found[-len(plans) :]}
    wide, narrow = _streamed(side, 32), _streamed(side, 8)
    read = bandwidth_at(wide, machine).per(wide, "s")
    what = "time of reading the float weights once, over the measured time of the largest layer"
    return OneRow(
        found,
        last,
        quotient(read, seconds["float32"], what, "%"),
        slope_at(wide, machine).levels,
        slope_at(narrow, machine).levels,
        Counted(32, "1", "bits of a float").over(last[eight].bits, "bytes of the float layer over those in eight bits"),
        ratio(seconds[eight], seconds[four], "8 bits over 4 bits, one row through the largest layer"),
        _memory_bound(side, seconds["float32"], machine),
    )


def _at_width(
    width: int, name: str, seconds: Mapping[str, Measurement], layers: Mapping[str, Any], x: Tensor, machine: Ceilings
) -> Width:
    bits = 8 * stored_bytes(layers[name]) / width**2
    with no_grad():
        error = relative_error(layers["float32"](x).data, layers[name](x).data)
    return Width(
        Counted(4 * width**2, "B", "float32 weights of the layer"),
        name,
        Counted(bits, "1", "bits of a weight, scales included"),
        Modelled.by(_BYTES, streaming_speedup(width, round(bits), machine)),
        ratio(seconds["float32"], seconds[name], f"float32 over {name}, one row, {width} wide"),
        Counted(error, "%", "relative error of the outputs"),
    )


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
        (decided(abs(found.smaller.value - 4) <= bytes_within), verdict_between(found.largest["8 bits"].gain, at_least))
    )


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
