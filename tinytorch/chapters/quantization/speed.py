"""Speed of products of codes: NumPy's own integers, what the instruction promises, whole layers, and one row."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.calls import in_turns
from tinytorch.chapters.machine import multiplies_bytes
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.greedy_search import Calls, ops_of, replayed
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import at_rate
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, bandwidth_at, verdict

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
_BYTES, _FLOAT = "the bytes, at the bandwidth", "float32"


def numpy_slowdown(side: int, repeats: int = 9) -> Measurement:
    """Return how many times as long NumPy's square product of 32-bit integers takes as that of float32."""
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-128, 128, (side, side)) for _ in range(2))
    pairs = {str(np.dtype(kind)): (a.astype(kind), b.astype(kind)) for kind in (np.float32, np.int32)}

    def product(left: Any, right: Any) -> Callable[[], Any]:
        return lambda: left @ right

    seconds = interleave({kind: product(*pair) for kind, pair in pairs.items()}, repeats=repeats)
    return ratio(seconds["int32"], seconds["float32"], f"NumPy's int32 product over float32, {side} wide")


def instruction(one: Ceilings) -> str:
    """Return the fastest way in which this CPU multiplies bytes: "dot product", "widened bytes" or "plain integers"."""
    if multiplies_bytes(one):
        return "dot product"
    return "plain integers" if one.int8_from == "multiply" else "widened bytes"


def with_instruction(one: Ceilings) -> Judgement | Unmeasured:
    """Return that the CPU multiplies bytes by an instruction, on which speed depends by the source's own words."""
    if not multiplies_bytes(one):
        return Unmeasured(
            "this CPU has no instruction that multiplies bytes, and the source says that the gain depends on it"
        )
    return decided(True)


@dataclass(frozen=True)
class Replaced:
    """The ops of a model that its codes replace, alone: their share of a pass, and how many times as fast codes are.

    ``predicted`` is what that makes of the pass.
    """

    share: Measurement
    alone: Measurement
    predicted: Modelled


def replaced_ops(model: Module, coded: Module, inputs: Any, repeats: int = 30) -> Replaced:
    """Return what codes replace of a pass of ``model``, on the operands of a pass of it and of ``coded``, in turns."""
    runs = forward_pass(model, inputs), forward_pass(coded, inputs)
    floats, codes = ops_of(runs[0]), ops_of(runs[1])

    def only(calls: Mapping[Op, Calls], others: Mapping[Op, Calls]) -> Callable[[], Any]:
        parts = [replayed(op.default, each) for op, each in calls.items() if op not in others]
        return lambda: [part() for part in parts]

    ways = {"pass": runs[0], "in float": only(floats, codes), "in codes": only(codes, floats)}
    seconds = interleave(ways, repeats=repeats, at_most_seconds=4, warmup_seconds=0.1)
    share = ratio(seconds["in float"], seconds["pass"], "share of a pass that codes replace").scaled(1, "%")
    alone = ratio(seconds["in float"], seconds["in codes"], "what codes replace, in float over in codes")
    whole = predicted_speedup(share, alone, "speedup of a pass of which codes replace a share")
    return Replaced(share, alone, Modelled.by("Amdahl's law", whole))


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
class Depth:
    """One row through so many square layers, one after the other, their weights in a format.

    Attributes:
        floats: bytes of the weights of all layers in float32.
        predicted: speed over float32 by the bytes; `Unmeasured` near a capacity, where none can be told.
        gain: the same as found.
    """

    layers: Counted
    floats: Counted
    weights: str
    predicted: Modelled | Unmeasured
    gain: Measurement


@dataclass(frozen=True)
class Far:
    """The tallest stack in a format, beside one layer that a row passes as often: all but the codes' place is the same.

    Attributes:
        bits: of a weight, scales and bias included.
        reading: seconds that reading all codes takes, by the bytes.
        near, seconds: seconds with one layer, and with all; ``over_near``, these over those.
        gain: speed over float32.
    """

    bits: Counted
    reading: Modelled
    near: Measurement
    seconds: Measurement
    over_near: Measurement
    gain: Measurement
    error: Counted


@dataclass(frozen=True)
class OneRow:
    """One row through growing stacks of equal layers, with float32 weights and with fewer bits.

    Attributes:
        depths: by number of layers and format; ``shallow`` and ``deep``, those of one layer and of the most, by format.
        far: the most layers, by format.
        explained: time of reading the float weights of the most layers once, over the measured time.
        smaller: bytes in float32 over those in eight bits.
        four: time of eight bits over that of four, of the most layers.
        is_memory_bound: whether the most layers wait for their float weights; open if they do not.
    """

    depths: Sequence[Depth]
    shallow: Mapping[str, Depth]
    deep: Mapping[str, Depth]
    far: Mapping[str, Far]
    explained: Measurement
    smaller: Derived
    four: Measurement
    is_memory_bound: Judgement


def tallest_stack(width: int, machine: Ceilings, least: int = 160, most: int = 240) -> int:
    """Return how many square layers have codes of eight bits that take more than twice of what any cache holds.

    It is ``least`` where that would be more than ``most``, which fit the memory of a page in all formats.
    """
    enough = math.ceil(2.2 * _held(machine) / _streamed(width, 8))
    return max(least, enough) if enough <= most else least


def _held(machine: Ceilings) -> int:
    """Return the bytes that the largest cache holds, 0 if none is known."""
    return max((level.capacity or 0 for level in machine.levels), default=0)


def one_row(width: int, depths: Sequence[int], plans: Mapping[str, Plan], machine: Ceilings) -> OneRow:
    """Return how one row fares in stacks of square layers, rising from one, with weights by ``plans`` of 8 and 4 bits.

    A pass reads the weights of all layers, as that of a model does, before it comes back to the first: what fits a
    cache all together stays there. Nothing else changes with the number of layers.

    A stack whose floats take more than four times what any cache holds goes through these layers again, which costs
    the same time and no more memory.
    """
    (eight, four), last = plans, depths[-1]
    layers, x = _twins(width, width, plans), _input(1, width)
    apart = dict.fromkeys(layers, last) | {_FLOAT: math.ceil(4.4 * _held(machine) / _streamed(width, 32)) or last}
    copies = {name: [copy.deepcopy(layer) for _ in range(min(apart[name], last))] for name, layer in layers.items()}
    stacks = {name: [each[at % len(each)] for at in range(last)] for name, each in copies.items()}
    one = {_near(name): [stacks[name][0]] * last for name in plans}
    times = {
        depth: _passes({name: stack[:depth] for name, stack in stacks.items()} | (one if depth == last else {}), x, 30)
        for depth in depths
    }
    stored = {name: Counted(8 * stored_bytes(layers[name]) / width**2, "1", "bits of a weight") for name in plans}

    def at(depth: int, name: str) -> Depth:
        floats = Counted(_streamed(width, 32) * depth, "B", f"float32 weights of {depth} layers")
        gain = ratio(times[depth][_FLOAT], times[depth][name], f"float32 over {name}, one row, {depth} layers")
        predicted = streaming_speedup(width * width * depth, round(stored[name].value), machine)
        return Depth(Counted(depth, "1", "layers"), floats, name, predicted, gain)

    def far(name: str) -> Far:
        streamed, seconds = _streamed(width, round(stored[name].value)) * last, times[last]
        reading = at_rate(streamed, bandwidth_at(streamed, machine)).measurement(f"reading, {last} layers, {name}")
        with no_grad():
            error = relative_error(layers[_FLOAT](x).data, layers[name](x).data)
        return Far(
            stored[name],
            Modelled.by(_BYTES, reading),
            seconds[_near(name)],
            seconds[name],
            ratio(seconds[name], seconds[_near(name)], f"{last} layers over one {last} times, {name}"),
            ratio(seconds[_FLOAT], seconds[name], f"float32 over {name}, one row, {last} layers"),
            Counted(error, "%", "relative error of a layer's outputs"),
        )

    found = {(depth, name): at(depth, name) for depth in depths for name in plans}
    wide, most = _streamed(width, 32) * last, times[last]
    what = "time of reading the float weights once, over the measured time of the most layers"
    return OneRow(
        [*found.values()],
        {name: found[depths[0], name] for name in plans},
        {name: found[last, name] for name in plans},
        {name: far(name) for name in plans},
        quotient(at_rate(wide, bandwidth_at(wide, machine)).measurement(what), most[_FLOAT], what, "%"),
        Counted(32, "1", "bits of a float").over(stored[eight], "bytes of floats over those in eight bits"),
        ratio(most[eight], most[four], "8 bits over 4 bits, one row through the most layers"),
        _memory_bound(width, last, most[_FLOAT], machine),
    )


def _near(name: str) -> str:
    return f"{name}, one layer"


def _passes(stacks: Mapping[str, Sequence[Any]], x: Tensor, repeats: int) -> dict[str, Measurement]:
    """Return the times of one row through each stack of layers, in turns."""

    def through(stack: Sequence[Any]) -> Callable[[], object]:
        return lambda: [layer(x) for layer in stack]

    with no_grad():
        return interleave({name: through(stack) for name, stack in stacks.items()}, repeats=repeats, warmup_seconds=0.3)


def _memory_bound(width: int, depth: int, seconds: Measurement, machine: Ceilings) -> Judgement:
    """Return whether one row through such layers waits for their weights; open if it does not, as of what follows."""
    call = min(machine.calls.op.values(), key=lambda cost: cost.median)
    wide = _streamed(width, 32) * depth
    bound = verdict(Demand(2 * width**2 * depth, 0, wide, depth, wide, ((wide, 1),)), seconds, machine, call)
    holds = Verdict.SUPPORTED if bound.bottleneck is Bottleneck.MEMORY else Verdict.OPEN
    return Judgement(holds, bound.said.tests)


def quarter_and_half(found: OneRow, *, bytes_within: float, at_least: float) -> Judgement:
    """Return whether the most layers take a quarter of the bytes and gain ``at_least`` so much, if memory-bound."""
    if found.is_memory_bound.verdict is Verdict.OPEN:
        return found.is_memory_bound
    return verdict_of_all(
        (decided(abs(found.smaller.value - 4) <= bytes_within), verdict_between(found.deep["8 bits"].gain, at_least))
    )


def streaming_speedup(weights: int, bits: int, machine: Ceilings) -> Modelled | Unmeasured:
    """Return what the ladder of memory predicts: bytes over bandwidth, of float32 and of so many bits.

    Each weight is read once, as fast as the ladder ran with a working set of that size. None is told where either size
    is within a factor of two of what a cache holds: a little more or less of others' data would change it.
    """
    wide, narrow = (weights * each // 8 for each in (32, bits))
    ends = [level.capacity for level in machine.levels if level.capacity]
    if any(end / 2 < size < 2 * end for end in ends for size in (wide, narrow)):
        return Unmeasured("floats or codes are about as large as a cache, so that no bandwidth holds for them")
    name = f"bytes over measured bandwidth, float32 over {bits} bits"
    return Modelled.by(
        _BYTES, quotient(bandwidth_at(narrow, machine), bandwidth_at(wide, machine), name).scaled(wide / narrow)
    )


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
