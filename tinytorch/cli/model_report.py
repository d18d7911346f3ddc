"""What is said of a model above its tables: what it is, and on what it ran."""

import argparse
from collections.abc import Sequence
from datetime import datetime

from tinytorch.core.module import Module
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx import OnnxModel
from tinytorch.perf.profiling.model_profile import ModelProfile
from tinytorch.perf.quantization import stored_bytes
from tinytorch.perf.quantization.layers import is_quantizable
from tinytorch.perf.quantization.storage import QuantizedModule
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.provenance import Fact


def model_facts(done: ModelProfile, model: Module, inputs: Tensor, chosen: argparse.Namespace) -> list[Fact]:
    """Return what ran and what it took as a whole, in words."""
    keys = done.summary
    weights, peak = stored_bytes(model), done.profiler.memory.peak
    found = [
        Fact("parameters", f"{sum(each.size for each in model.parameters()):,}"),
        Fact("weights", format_number(weights, "B").text),
        *_inputs(model, inputs, bool(chosen.inputs)),
        Fact("batch", str(len(inputs.data) if inputs.ndim else 1)),
    ]
    if done.backward:
        found.append(Fact("FLOPs", f"{keys['total_flops']:,} of forward and backward"))
        times = {f"latency, {name}": getattr(keys["latency"], name) for name in ("forward", "backward", "total")}
    elif done.profiler.run.uncounted:
        found.append(Fact("FLOPs", f"not counted: there is no formula for {', '.join(done.profiler.run.uncounted)}"))
        times = {"latency": keys["latency"]}
    else:
        found.append(Fact("FLOPs", f"{keys['batch_flops']:,}, of one sample {keys['flops']:,}"))
        times = {"latency": keys["latency"]}
    for name, measured in times.items():
        found.append(Fact(name, f"{format_measurement(measured).cell_with_interval}, {measured.n} runs"))
    found.append(Fact("memory at its peak", format_number(peak, "B").text))
    if kept := _kept_float(model):
        found.append(Fact("stays float", kept))
    found += [Fact("command", chosen.line), Fact("date", datetime.now().astimezone().isoformat(" ", "minutes"))]
    return found


def _inputs(model: Module, inputs: Tensor, given: bool) -> list[Fact]:
    """Return shape and dtype of each input, and whether all its numbers are the same: time and answers depend on it."""
    named = {"": inputs}
    if isinstance(model, OnnxModel):
        names = [each.name for each in model.inputs]
        named = dict(zip(names, model.completed((inputs,)), strict=True))
    return [Fact(f"input {name}".strip(), _described(value, given)) for name, value in named.items()]


def _described(value: Tensor, given: bool) -> str:
    said = f"{value.shape} of {value.dtype}"
    if value.size < 2 or bool((value.data != value.data.flat[0]).any()):
        return said
    return f"{said}, all {value.data.flat[0]:g}" + ("" if given else ": --inputs FILE.npz gives others")


def _kept_float(model: Module) -> str:
    """Return which products and tables of a model in codes are computed in float; "" if all are in codes, or none."""
    modules = dict(model.named_modules())
    if not any(isinstance(each, QuantizedModule) for each in modules.values()):
        return ""
    kept = {name: each for name, each in modules.items() if is_quantizable(each)}
    grouped = [name for name, each in kept.items() if isinstance(each, Conv2d) and each.groups > 1]
    others = [name for name in kept if name not in grouped]
    said = [f"{_listed(grouped)}: in groups, such as depthwise, which codes would make slower"] if grouped else []
    return "; ".join([*said, *([_listed(others)] if others else [])])


def _listed(names: Sequence[str], most: int = 5) -> str:
    left = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + left
