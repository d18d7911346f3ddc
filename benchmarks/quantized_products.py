"""Products of 8-bit integers: a quantized linear layer of ours against NumPy's float32, PyTorch and ONNX Runtime.

    python -m benchmarks.quantized_products [name ...]

All quantize the input, multiply, rescale and add a bias, in one process pinned to one core, one thread each, in turns.
The targets are a speed against NumPy's float32 product on the CPU's best BLAS, and 0.95 of the faster peer's speed.
In turns means cold: the others' weights and code have taken the caches. What that costs is told beside, by the same
calls again and again, each alone.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.int8.matmul import fastest_dot
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.quantization import QuantizedLinear

#: The least part of the faster peer's speed.
PEER_TARGET = 0.95
#: PyTorch's engines of quantized products.
ENGINES = ("fbgemm", "onednn")

Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A product (rows, depth) times (depth, columns), everyone who makes it, and the least speedup over float32."""

    name: str
    runs: dict[str, Run]
    target: float


def onnx_session(weight: Any, bias: Any) -> onnxruntime.InferenceSession:
    """Return a session that quantizes x per tensor and multiplies by an int8 weight with a scale for each column."""
    scale = (np.abs(weight).max(0) / 127).astype(np.float32)
    constants = {
        "weight": np.rint(weight / scale).astype(np.int8),
        "scale": scale,
        "zero": np.zeros(len(scale), np.int8),
        "bias": bias,
    }
    nodes = [
        ("DynamicQuantizeLinear", ["x"], ["codes", "step", "offset"]),
        ("MatMulInteger", ["codes", "weight", "offset", "zero"], ["sums"]),
        ("Cast", ["sums"], ["floats"]),
        ("Mul", ["step", "scale"], ["steps"]),
        ("Mul", ["floats", "steps"], ["product"]),
        ("Add", ["product", "bias"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(kind, inputs, outputs, **({"to": onnx.TensorProto.FLOAT} if kind == "Cast" else {}))
            for kind, inputs, outputs in nodes
        ],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", len(weight)])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", len(scale)])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def pytorch_run(engine: str, linear: torch.nn.Linear, x: torch.Tensor) -> Run:
    """Return a call of PyTorch's dynamic quantized layer on one of its engines."""
    torch.backends.quantized.engine = engine
    layer = torch.ao.nn.quantized.dynamic.Linear.from_float(_configured(linear))

    def run() -> Any:
        torch.backends.quantized.engine = engine
        with torch.no_grad():
            return layer(x)

    return run


def _configured(linear: torch.nn.Linear) -> torch.nn.Linear:
    """Give the layer what PyTorch asks for: weights per channel."""
    linear.qconfig = torch.ao.quantization.per_channel_dynamic_qconfig
    return linear


def square_case(rows: int, columns: int, depth: int, target: float) -> Case:
    """Return dynamic int8 against float32, with weights per channel and a bias."""
    layer = Linear(depth, columns, seed=0)
    quantized = QuantizedLinear(layer)
    assert layer.bias is not None
    x, weight, bias = np.random.default_rng(0).standard_normal((rows, depth), np.float32), layer.weight.data, layer.bias
    twin = torch.nn.Linear(depth, columns)
    with torch.no_grad():
        twin.weight.copy_(torch.from_numpy(weight.T))
        twin.bias.copy_(torch.from_numpy(bias.data))
    session, ours = onnx_session(weight, bias.data), Tensor(x)
    runs: dict[str, Run] = {
        "ours": lambda: quantized(ours),
        "float32": lambda: np.dot(x, weight) + bias.data,
        "ONNX Runtime": lambda: session.run(None, {"x": x}),
    }
    for engine in ENGINES:
        runs[f"PyTorch {engine}"] = pytorch_run(engine, twin, torch.from_numpy(x))
    return Case(f"int8 ({rows}, {columns}, {depth})", runs, target)


def cases() -> Iterator[Case]:
    """Yield every case, made from seeds."""
    yield square_case(1024, 1024, 1024, 3.0)
    yield square_case(126, 3072, 768, 4.5)
    yield square_case(32, 2048, 2048, 8.0)


def hot(case: Case) -> list[str]:
    """Return a table's row: our time and float32's, each alone, and their ratio."""
    alone = {who: interleave({who: case.runs[who]}, repeats=25, at_most_seconds=4)[who] for who in ("ours", "float32")}
    times = [f"{alone[who].median * 1e3:.3f}" for who in ("ours", "float32")]
    return [case.name, *times, f"{alone['float32'].median / alone['ours'].median:.2f}"]


def verdict(speed: Measurement, target: float) -> str:
    """Return what the interval of a ratio of speeds says of a least one."""
    interval = speed.interval
    return "met" if interval.low >= target else "missed" if interval.high < target else "unclear"


def main(wanted: list[str]) -> int:
    """Print times and speeds; return 1 if one lies wholly below its target."""
    times = Table("case", "who", "ms", "GOP/s")
    speeds = Table("case", "speed against", "ratio", "target", "verdict")
    alone = Table("case", "ours (ms)", "float32 (ms)", "ratio", title="hot: each alone, again and again")
    missed = 0
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", module="torch")
    with one_core() as conditions, no_grad():
        for case in cases():
            if wanted and not any(name in case.name for name in wanted):
                continue
            made = interleave(case.runs, repeats=25, at_most_seconds=20)
            rows, columns, depth = (int(number) for number in case.name[6:-1].split(", "))
            for who, each in made.items():
                rate = 2e-9 * rows * columns * depth / each.median
                times.add_row(case.name, who, f"{each.median * 1e3:.3f}", f"{rate:.0f}")
            alone.add_row(*hot(case))
            peer = min((name for name in made if name not in ("ours", "float32")), key=lambda name: made[name].median)
            for against, target in (("float32", case.target), (peer, PEER_TARGET)):
                speed = ratio(made[against], made["ours"])
                word = verdict(speed, target)
                missed += word == "missed"
                shown = f"{speed.median:.2f} [{speed.interval.low:.2f}, {speed.interval.high:.2f}]"
                speeds.add_row(case.name, against, shown, f"{target:.2f}", word)
    console = Console(width=110)
    console.print(conditions, f"Our instruction: {fastest_dot().name}.")
    console.print(f"PyTorch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}, one thread each.")
    console.print(times)
    console.print(speeds)
    console.print(alone)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
