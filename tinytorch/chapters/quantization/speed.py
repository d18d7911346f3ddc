"""Speed of products of codes: what the instruction promises, whole layers, and one row."""

import copy
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tinytorch.chapters.calls import in_turns
from tinytorch.chapters.machine import multiplies_bytes, ratio_of_peaks
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.greedy_search import Calls, ops_of, replayed
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.perf.onnx.runtime import Settings
from tinytorch.perf.onnx.runtime_profile import made_inputs, side_by_side
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.profiling.shares import share_in_turns
from tinytorch.perf.quantization.convert import stored_bytes
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, bandwidth_at, verdict

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
_FLOAT = "float32"


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


def replaced_ops(
    model: Module, coded: Module, inputs: Any, repeats: int = 15
) -> tuple[Measurement, Measurement, Modelled]:
    """Return what codes replace of a pass of ``model``: its share, how many times as fast codes are, and the whole.

    The first two are measured on the operands of a pass of it and of ``coded``, in turns; what they make of the whole
    pass is predicted by Amdahl's law.
    """
    runs = forward_pass(model, inputs), forward_pass(coded, inputs)
    floats, codes = ops_of(runs[0]), ops_of(runs[1])

    def only(calls: Mapping[Op, Calls], others: Mapping[Op, Calls]) -> Callable[[], Any]:
        parts = [replayed(op.default, each) for op, each in calls.items() if op not in others]
        return lambda: [part() for part in parts]

    ways = {"pass": runs[0], "in float": only(floats, codes), "in codes": only(codes, floats)}
    seconds = interleave(ways, repeats=repeats, at_most_seconds=4, warmup_seconds=0.1)
    share = share_in_turns(seconds["in float"], seconds["pass"], "share of a pass that codes replace")
    alone = ratio(seconds["in float"], seconds["in codes"], "what codes replace, in float over in codes")
    whole = predicted_speedup(share, alone, "speedup of a pass of which codes replace a share")
    return share, alone, Modelled.by("Amdahl's law", whole)


def layer_gain(rows: int, depth: int, columns: int, machine: Ceilings, repeats: int = 24) -> dict[str, Any]:
    """Return what a linear layer in dynamic 8 bits gains and may gain ``at_most``, and shares of its time.

    Its ``expected`` speedup is the share of its product times the ratio of the peaks, as if the products in 8 bits and
    in float32 reached the same share of their peaks; ``over_expected`` is the speedup over that.

    The shares are to ``quantize`` its input, the ``product``, and to ``rescale`` the sums. A layer with few columns
    still has to quantize the whole input, and one with a shallow weight still has to rescale every output. These two
    are measured in turns with the whole layer; the product is what they leave. So what both of them share (the call,
    Python) counts twice, and the product's share is rather too small.
    """
    layer, x, thin = Linear(depth, columns, seed=0), _input(rows, depth), _input(rows, FEW)
    coded, narrow, shallow = (
        QuantizedLinear(each, Plan()) for each in (layer, Linear(depth, FEW, seed=0), Linear(FEW, columns, seed=0))
    )
    layers = {_FLOAT: layer, "whole": coded, "quantize": narrow}
    seconds = in_turns(layers, x, repeats, {"rescale": lambda: shallow(thin)}, warmup_seconds=0.2)
    quantize, rescale = (
        share_in_turns(seconds[part], seconds["whole"], f"share of {part}") for part in ("quantize", "rescale")
    )
    left = tuple((1 - np.add(quantize.samples, rescale.samples)).tolist())
    product = Measurement("share of product", left, "%", of_all((quantize.conditions, rescale.conditions)))
    alone = product.per(1, "", "speedup of the layer if nothing but its product took time")
    speedup = ratio(seconds[_FLOAT], seconds["whole"], f"float32 over int8, ({rows}, {depth}) times {columns}")
    expected = ratio_of_peaks(machine).median * product.median
    return {
        "speedup": speedup,
        "expected": Modelled(expected, "", "speedup of the layer", "the ratio of the peaks and the product's share"),
        "over_expected": speedup.scaled(1 / expected),
        "quantize": quantize,
        "product": product,
        "rescale": rescale,
        "at_most": Modelled.by("Amdahl's law", alone),
    }


@dataclass(frozen=True)
class OneRow:
    """One row through a stack of equal layers whose weights come from memory, and through one that stays in a cache.

    Attributes:
        formats: by "float32", "8-bit" and "4-bit" the ``weights``; the ``bytes`` of all layers; the time of
            ``reading`` them at the measured bandwidth; the times of a pass with weights that stay ``cached`` and of one
            that reads them ``from_memory``; what memory ``adds``, the second of these over the first; and the
            ``gain``, the speed from memory over that of float32. ``over_sum`` is the time from memory over the sum of
            the other two.
        cached_gain: speed of 8-bit over float32 weights in a cache.
        least, most: the gain of 8 bits from memory, if reading and calculating overlap for float32 alone, and if they
            do for 8 bits alone.
        is_between: whether the interval of the gain of 8 bits overlaps the range between these.
        smaller: bytes in float32 over those in 8 bits.
        four: time of 8 bits over that of 4, from memory.
        is_memory_bound: whether a pass waits for its float weights; open if it does not.
    """

    formats: dict[str, dict[str, Any]]
    cached_gain: Measurement
    least: Modelled | Unmeasured
    most: Modelled | Unmeasured
    is_between: bool | Unmeasured
    smaller: Derived
    four: Measurement
    is_memory_bound: Judgement


def tallest_stack(width: int, machine: Ceilings, least: int = 160, most: int = 320) -> int:
    """Return how many square layers have weights of 5 bits that take more than twice of what any cache holds.

    It is ``least`` where that would be more than ``most``, which fit in the memory of a page in all formats.
    """
    enough = math.ceil(2.2 * _held(machine) / _streamed(width, 5))
    return max(least, enough) if enough <= most else least


def _held(machine: Ceilings) -> int:
    """Return the bytes that the largest cache holds, 0 if none is known."""
    return max((level.capacity or 0 for level in machine.levels), default=0)


def one_row(width: int, depth: int, plans: Mapping[str, Plan], machine: Ceilings) -> OneRow:
    """Return the times of one row through square layers, as many as ``depth``, by ``plans`` of 8 and of 4 bits.

    A pass reads the weights of all layers before it comes back to the first, as that of a model does. For the weights
    that stay in a cache, the row passes one layer as many times. A stack whose floats take more than four times what
    any cache holds goes through these layers again, which costs the same time and no more memory.
    """
    (eight, four), layer = plans, Linear(width, width, seed=0)
    layers: dict[str, Any] = {_FLOAT: layer} | {name: QuantizedLinear(layer, plan) for name, plan in plans.items()}
    apart = dict.fromkeys(layers, depth) | {_FLOAT: math.ceil(4.4 * _held(machine) / _streamed(width, 32)) or depth}
    copies = {name: [copy.deepcopy(layer) for _ in range(min(apart[name], depth))] for name, layer in layers.items()}
    ways = {name: [each[at % len(each)] for at in range(depth)] for name, each in copies.items()}
    times = _passes(ways | {f"{name}, cached": [each[0]] * depth for name, each in copies.items()}, width)
    bits = {name: 8 * stored_bytes(each) / width**2 for name, each in layers.items()} | {_FLOAT: 32.0}

    def row(name: str) -> dict[str, Any]:
        read = round(width**2 * depth * bits[name] / 8)
        seconds, cached, reading = times[name], times[f"{name}, cached"], reading_time(read, machine)
        return {
            "weights": name,
            "bytes": Counted(read, "B", f"{name} weights of {depth} layers"),
            "reading": reading,
            "cached": cached,
            "from_memory": seconds,
            "over_sum": reading
            if isinstance(reading, Unmeasured)
            else seconds.scaled(1 / (reading.value + cached.median), "", f"{name}, found over both times together"),
            "adds": ratio(seconds, cached, f"{name} weights from memory over the same from a cache"),
            "gain": ratio(times[_FLOAT], seconds, f"float32 over {name}, one row, {depth} layers"),
        }

    rows = {name: row(name) for name in layers}

    least, most = _bounds(rows[_FLOAT], rows[eight])
    gain = rows[eight]["gain"].interval
    between: bool | Unmeasured = Unmeasured("the bounds are not known")
    if isinstance(least, Modelled) and isinstance(most, Modelled):
        between = gain.high >= least.value and gain.low <= most.value
    return OneRow(
        rows,
        ratio(times[f"{_FLOAT}, cached"], times[f"{eight}, cached"], f"float32 over {eight}, one row, from a cache"),
        least,
        most,
        between,
        Counted(32, "1", "bits of a float").over(Counted(bits[eight], "1", "bits of a weight"), "float32 over 8-bit"),
        ratio(times[eight], times[four], f"{eight} over {four}, one row, {depth} layers"),
        _memory_bound(width, depth, times[_FLOAT], machine),
    )


def _bounds(floats: Mapping[str, Any], codes: Mapping[str, Any]) -> tuple[Modelled | Unmeasured, Modelled | Unmeasured]:
    """Return the least and the most that codes can gain: a pass takes the larger of its two times, or their sum."""
    for row in (floats, codes):
        if isinstance(row["reading"], Unmeasured):
            return row["reading"], row["reading"]
    (float_low, float_high), (low, high) = (
        (max(row["reading"].value, row["cached"].median), row["reading"].value + row["cached"].median)
        for row in (floats, codes)
    )
    law = "times of reading and of calculating"
    return (
        Modelled(float_low / high, "", "speedup if only float32 overlaps", law),
        Modelled(float_high / low, "", "speedup if only 8 bits overlap", law),
    )


def _passes(stacks: Mapping[str, Sequence[Any]], width: int) -> dict[str, Measurement]:
    """Return the times of one row through each stack of layers, interleaved."""
    x = _input(1, width)

    def through(stack: Sequence[Any]) -> Callable[[], object]:
        return lambda: [layer(x) for layer in stack]

    with no_grad():
        return interleave({name: through(stack) for name, stack in stacks.items()}, repeats=20, warmup_seconds=0.1)


def _memory_bound(width: int, depth: int, seconds: Measurement, machine: Ceilings) -> Judgement:
    """Return whether one row through such layers waits for their weights; open if it does not, as of what follows."""
    call = min(machine.calls.op.values(), key=lambda cost: cost.median)
    wide = _streamed(width, 32) * depth
    bound = verdict(Demand(2 * width**2 * depth, 0, wide, depth, wide, ((wide, 1),)), seconds, machine, call)
    holds = Verdict.SUPPORTED if bound.bottleneck is Bottleneck.MEMORY else Verdict.OPEN
    return Judgement(holds, bound.said.tests)


def quarter_and_half(found: OneRow, *, bytes_within: float, at_least: float) -> Judgement:
    """Return whether 8-bit layers take a quarter of the bytes and gain ``at_least`` so much, if memory-bound."""
    if found.is_memory_bound.verdict is Verdict.OPEN:
        return found.is_memory_bound
    gain = found.formats["8-bit"]["gain"]
    return verdict_of_all((decided(abs(found.smaller.value - 4) <= bytes_within), verdict_between(gain, at_least)))


def reading_time(read: int, machine: Ceilings) -> Modelled | Unmeasured:
    """Return the time in which so many bytes are read once, as fast as the memory delivered so many.

    None is told within a factor of two of what a cache holds: a little more or less of others' data would change it.
    """
    if any(end / 2 < read < 2 * end for end in (level.capacity for level in machine.levels) if end):
        return Unmeasured("the weights are about as large as a cache, so no bandwidth holds for them")
    seconds = bandwidth_at(read, machine).per(read, "s", "weights, read once")
    return Modelled.by("the bytes, at the bandwidth", seconds)


def _streamed(width: int, bits: int) -> int:
    """Return the bytes of a square weight with so many bits for each number."""
    return width * width * bits // 8


def _input(rows: int, depth: int) -> Tensor:
    return Tensor(np.random.default_rng(1).standard_normal((rows, depth), dtype=np.float32))


def layer_in_onnx_runtime(rows: int, inputs: int, outputs: int) -> dict[str, Measurement]:
    """Return the seconds of a float32 layer in ONNX Runtime and, as "8 bits", of what its own tool makes of it.

    Both run on one thread, in turns. The tool is `onnxruntime.quantization.quantize_dynamic`: weights in 8 bits, and
    inputs with a scale for each call.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import quantize_dynamic

    weight = np.random.default_rng(0).standard_normal((inputs, outputs), np.float32)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, c]) for n, c in (("x", inputs), ("y", outputs)))
    product = helper.make_node("MatMul", ["x", "weight"], ["y"])
    graph = helper.make_graph([product], "layer", [x], [y], [numpy_helper.from_array(weight, "weight")])
    with TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.onnx" for name in ("float32", "8 bits")}
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), paths["float32"])
        logging.getLogger().addFilter(_quiet)
        try:
            quantize_dynamic(str(paths["float32"]), str(paths["8 bits"]))
        finally:
            logging.getLogger().removeFilter(_quiet)
        files = {name: (path, Settings(1)) for name, path in paths.items()}
        return dict(side_by_side(files, lambda _, declared: made_inputs(declared, {}), 4.0).times)


def _quiet(record: logging.LogRecord) -> bool:
    """Leave out the tool's advice to prepare a file, which this one does not need."""
    return record.levelno > logging.WARNING
