"""A decoding step's product, (1, 4096) by (4096, 4096), with weights of 8 and 4 bits, against float32 and peers.

    python -m benchmarks.weight_only

All run in one process pinned to one core, one thread each, in turns. Float32 is NumPy's product on the best BLAS core
that the CPU has. "hot" uses one weight again and again, as much of it as the last cache keeps; "cold" goes round
several, more than the last cache holds, as a decoder goes through its layers. Targets: at least 3.5 times the speed of
float32 with 8 bits, 6 times with 4, and 0.95 of the faster peer's speed. Peers: PyTorch's weight-only products, which
take bfloat16 inputs where they are fast, and ONNX Runtime's MatMulNBits, exact (level 0) and with inputs rounded to
8 bits (level 4), blocks of 32. What they round ours does not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.quantization import Plan, QuantizedLinear, Scheme, quantize_model

onnx: Any = importlib.import_module("onnx")

SIDE = 4096
#: Weights in turn: of 8 bits these are 64 MiB, of 4 bits 32 MiB and more.
HOT, COLD = 1, 4
BLOCK = 32
#: Scheme, and target over float32, or None.
SCHEMES = {
    "8 bits per output": (Scheme(8, per="channel"), 3.5),
    "8 bits per output, affine": (Scheme(8, False, "channel"), None),
    "4 bits per output": (Scheme(4, per="channel"), 6.0),
    "4 bits, groups of 32": (Scheme(4, per="group", group=32), None),
    "4 bits, groups of 128": (Scheme(4, per="group", group=128), 6.0),
    "4 bits, groups of 32, affine": (Scheme(4, False, "group", group=32), None),
}
OF_PEER = 0.95

Run = Callable[[], Any]


def in_turn(runs: list[Run]) -> Run:
    """Return a call that makes one of the calls, then the next."""
    following = cycle(runs)
    return lambda: next(following)()


def ours(x: Any, count: int) -> Iterator[tuple[str, Run]]:
    """Yield the float32 product and each of our schemes, over ``count`` weights."""
    layers = [Linear(SIDE, SIDE, bias=False, seed=number) for number in range(count)]
    weights = [layer.weight.data for layer in layers]
    yield "float32, NumPy", in_turn([partial(np.dot, x, weight) for weight in weights])
    given = Tensor(x)
    for name, (scheme, _) in SCHEMES.items():
        made = [QuantizedLinear(layer, Plan("weight-only", scheme)) for layer in layers]
        yield name, in_turn([partial(layer, given) for layer in made])


def pytorch(x: Any, count: int) -> Iterator[tuple[str, Run]]:
    """Yield PyTorch's products of bfloat16 inputs with packed codes."""
    given = torch.tensor(x).to(torch.bfloat16)
    eight = [
        (torch.randint(-127, 128, (SIDE, SIDE), dtype=torch.int8), torch.rand(SIDE).to(torch.bfloat16))
        for _ in range(count)
    ]
    yield "PyTorch, 8 bits", in_turn([partial(torch._weight_int8pack_mm, given, *held) for held in eight])
    pack, product = torch.ops.aten._convert_weight_to_int4pack_for_cpu, torch.ops.aten._weight_int4pack_mm_for_cpu
    for group in (32, 128):
        runs: list[Run] = []
        for _ in range(count):
            codes = pack(torch.randint(0, 16, (SIDE, SIDE), dtype=torch.int32), 1)
            scales = torch.rand(SIDE // group, SIDE, 2).to(torch.bfloat16)
            runs.append(partial(product, given, codes, group, scales))
        yield f"PyTorch, 4 bits, groups of {group}", in_turn(runs)


def onnx_runtime(x: Any, count: int, level: int) -> Run:
    """Return ONNX Runtime's product with codes of 4 bits."""
    draw, helper = np.random.default_rng(0), onnx.helper
    runs: list[Run] = []
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    for _ in range(count):
        codes = draw.integers(0, 256, (SIDE, SIDE // BLOCK, BLOCK // 2), dtype=np.uint8)
        constants = {"codes": codes, "scales": draw.random(SIDE * SIDE // BLOCK, dtype=np.float32)}
        node = helper.make_node(
            "MatMulNBits", ["x", *constants], ["y"], domain="com.microsoft",
            K=SIDE, N=SIDE, bits=4, block_size=BLOCK, accuracy_level=level,
        )  # fmt: skip
        graph = helper.make_graph(
            [node],
            "product",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, SIDE])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        domains = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains)
        model.ir_version = 8
        held = model.SerializeToString()
        session = onnxruntime.InferenceSession(held, options, providers=["CPUExecutionProvider"])
        runs.append(partial(session.run, None, {"x": x}))
    return in_turn(runs)


def judged(speed: Measurement | None, target: float | None) -> list[str]:
    """Return the ratio with its interval, the target, and whether it is met."""
    if speed is None:
        return ["", "", ""]
    interval = speed.interval
    shown = f"{speed.median:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
    if target is None:
        return [shown, "", ""]
    verdict = "met" if interval.low >= target else "missed" if interval.high < target else "unclear"
    return [shown, f"{target:.2f}", verdict]


def products(count: int) -> tuple[Table, int]:
    """Return the table of all products over ``count`` weights in turn, and how many targets were missed."""
    x = np.random.default_rng(0).standard_normal((1, SIDE), dtype=np.float32)
    runs = dict([*ours(x, count), *pytorch(x, count)])
    runs |= {f"ONNX Runtime, 4 bits, level {level}": onnx_runtime(x, count, level) for level in (0, 4)}
    with no_grad():
        times = interleave(runs, repeats=20, at_most_seconds=25)
    title = "hot: one weight" if count == HOT else f"cold: {count} weights in turn"
    table = Table("product", "ms", "× float32", "target", "", "× faster peer", "target", "", title=title)
    missed = 0
    for name, time in times.items():
        over_float = over_peer = None
        target = None
        if name in SCHEMES:
            over_float, target = ratio(times["float32, NumPy"], time), SCHEMES[name][1]
            bits = f", {SCHEMES[name][0].bits} bits"
            peer = min((other for peer, other in times.items() if bits in peer), key=lambda other: other.median)
            over_peer = ratio(peer, time)
        elif name != "float32, NumPy":
            over_float = ratio(times["float32, NumPy"], time)
        row = [*judged(over_float, target), *judged(over_peer, OF_PEER)]
        missed += row.count("missed")
        table.add_row(name, f"{time.median * 1e3:.3f}", *row)
    return table, missed


def decoding() -> Table:
    """Return the table of one step of the zoo's GPT, which has no target: a small model is bound by its calls."""
    model = models.gpt().eval()
    tokens = np.random.default_rng(0).integers(0, 10, (1, 20))
    plans = {"8 bits": Plan("weight-only"), "4 bits, groups of 32": Plan("weight-only", Scheme(4, per="group"))}
    made = {"float32": model, **{name: quantize_model(model, plan=plan) for name, plan in plans.items()}}
    with no_grad():
        runs = {name: partial(each, tokens) for name, each in made.items()}
        times = interleave(runs, repeats=20, at_most_seconds=5)
    table = Table("GPT of the zoo, 20 positions", "ms", "× float32", title="a whole model")
    for name, time in times.items():
        over_float = None if name == "float32" else ratio(times["float32"], time)
        table.add_row(name, f"{time.median * 1e3:.3f}", judged(over_float, None)[0])
    return table


def main() -> int:
    """Print the tables; return 1 if the interval of one ratio lies wholly below its target."""
    console, missed = Console(width=150), 0
    with one_core() as conditions:
        torch.set_num_threads(1)
        console.print(conditions, f"PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}.")
        for count in (HOT, COLD):
            table, below = products(count)
            console.print(table)
            missed += below
        console.print(decoding())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
