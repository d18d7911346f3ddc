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
from tinytorch.chapters.machine import multiplies_bytes
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.greedy_search import Calls, ops_of, replayed
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, decided, verdict_between, verdict_of_all
from tinytorch.perf.onnx.runtime import Settings
from tinytorch.perf.onnx.runtime_profile import made_inputs, side_by_side
from tinytorch.perf.profiling.breakdown import predicted_speedup
from tinytorch.perf.profiling.shares import share_in_turns
from tinytorch.perf.quantization.convert import relative_error, stored_bytes
from tinytorch.perf.quantization.layers import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, bandwidth_at, verdict

#: Columns, or rows of the weight, with which a product is next to nothing and what surrounds it still all there.
FEW = 16
_FLOAT, _NEAR = "float32", "one layer"


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


def layer_gain(rows: int, depth: int, columns: int, repeats: int = 24) -> dict[str, Any]:
    """Return what a linear layer in dynamic eight bits gains, costs and may gain ``at_most``, and shares of its time.

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
    with no_grad():
        error = relative_error(layer(x).data, coded(x).data)
    return {
        "speedup": ratio(seconds[_FLOAT], seconds["whole"], f"float32 over int8, ({rows}, {depth}) times {columns}"),
        "stored": _stored(coded).over(_stored(layer), "bytes of those in float32", "%"),
        "error": Counted(error, "%", "relative error of the outputs"),
        "quantize": quantize,
        "product": product,
        "rescale": rescale,
        "at_most": Modelled.by("Amdahl's law", alone),
    }


@dataclass(frozen=True)
class OneRow:
    """One row through growing stacks of equal layers, with float32 weights and with fewer bits.

    Attributes:
        depths: rows by the number of layers and format, with the bytes of all float weights (``floats``), the speed
            over float32 as found (``gain``), and as ``predicted`` by the bytes.
        shallow, deep: of these, one layer and the most layers with codes of eight bits.
        over_near: time of the most layers over that of one layer that the row passes as often, whose codes stay near.
        near: speed of that one layer over the most layers in float32.
        smaller: bytes in float32 over those in eight bits.
        four: time of eight bits over that of four, of the most layers.
        is_memory_bound: whether the most layers wait for their float weights; open if they do not.
    """

    depths: Sequence[dict[str, Any]]
    shallow: dict[str, Any]
    deep: dict[str, Any]
    over_near: Measurement
    near: Measurement
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
    (eight, four), last, layer = plans, depths[-1], Linear(width, width, seed=0)
    layers: dict[str, Any] = {_FLOAT: layer} | {name: QuantizedLinear(layer, plan) for name, plan in plans.items()}
    apart = dict.fromkeys(layers, last) | {_FLOAT: math.ceil(4.4 * _held(machine) / _streamed(width, 32)) or last}
    copies = {name: [copy.deepcopy(layer) for _ in range(min(apart[name], last))] for name, layer in layers.items()}
    stacks = {name: [each[at % len(each)] for at in range(last)] for name, each in copies.items()}
    near = {_NEAR: [stacks[eight][0]] * last}
    times = {
        depth: _passes({name: stack[:depth] for name, stack in stacks.items()} | (near if depth == last else {}), width)
        for depth in depths
    }
    stored = {name: Counted(8 * stored_bytes(layers[name]) / width**2, "1", "bits of a weight") for name in plans}
    found = {
        (depth, name): {
            "floats": Counted(_streamed(width, 32) * depth, "B", f"float32 weights of {depth} layers"),
            "weights": name,
            "predicted": streaming_speedup(width * width * depth, round(stored[name].value), machine),
            "gain": ratio(times[depth][_FLOAT], times[depth][name], f"float32 over {name}, one row, {depth} layers"),
        }
        for depth in depths
        for name in plans
    }
    most = times[last]
    return OneRow(
        [*found.values()],
        found[depths[0], eight],
        found[last, eight],
        ratio(most[eight], most[_NEAR], f"{last} layers over one layer {last} times, {eight}"),
        ratio(most[_FLOAT], most[_NEAR], f"{last} layers in float32 over one layer {last} times in {eight}"),
        Counted(32, "1", "bits of a float").over(stored[eight], "bytes of floats over those in eight bits"),
        ratio(most[eight], most[four], "8 bits over 4 bits, one row through the most layers"),
        _memory_bound(width, last, most[_FLOAT], machine),
    )


def _passes(stacks: Mapping[str, Sequence[Any]], width: int) -> dict[str, Measurement]:
    """Return the times of one row through each stack of layers, in turns."""
    x = _input(1, width)

    def through(stack: Sequence[Any]) -> Callable[[], object]:
        return lambda: [layer(x) for layer in stack]

    with no_grad():
        return interleave({name: through(stack) for name, stack in stacks.items()}, repeats=30, warmup_seconds=0.1)


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
        (decided(abs(found.smaller.value - 4) <= bytes_within), verdict_between(found.deep["gain"], at_least))
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
        "the bytes, at the bandwidth",
        quotient(bandwidth_at(narrow, machine), bandwidth_at(wide, machine), name).scaled(wide / narrow),
    )


def _streamed(width: int, bits: int) -> int:
    """Return the bytes of a square weight with so many bits for each number."""
    return width * width * bits // 8


def _stored(layer: Any) -> Counted:
    return Counted(stored_bytes(layer), "B", "bytes of the layer")


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
