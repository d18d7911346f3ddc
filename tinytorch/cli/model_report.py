"""What is said of a model above its tables: what it is, on what it ran, and what it gains beside its float origin."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.cli.usage import UsageError
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.measuring import interleave
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.profiling.model_profile import ModelProfile
from tinytorch.perf.quantization import stored_bytes
from tinytorch.perf.quantization.layers import is_quantizable
from tinytorch.perf.quantization.storage import QuantizedModule
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.provenance import Fact

#: Relative difference of times between a file and its origin that matters, and the seconds that finding it may take.
_MATTERS, _SECONDS = 0.05, 20.0


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


def beside(model: Module, inputs: Tensor, chosen: argparse.Namespace) -> list[Fact]:
    """Return what a file saves and gains beside the one that it was made from: weights, time, and what the outputs say.

    Both run in turns on the same inputs: the given ones, or else normal random numbers of the same shapes.

    Raises:
        UsageError: if the two files have other inputs or outputs.
    """
    if not isinstance(model, OnnxModel) or Path(chosen.beside).suffix.lower() != ".onnx":
        raise UsageError(f"--beside is for two files such as model.onnx, not for {chosen.model} and {chosen.beside}")
    origin = from_onnx(chosen.beside)
    if [each.name for each in origin.inputs] != [each.name for each in model.inputs]:
        raise UsageError(f"--beside {chosen.beside} must take the inputs of {chosen.model}: {origin._described()}")
    given = [each if chosen.inputs else _drawn(each) for each in model.completed((inputs,))]
    with undisturbed(model), undisturbed(origin), no_grad():
        made, wanted = _outputs(model(*given)), _outputs(origin(*given))
        if [each.shape for each in made] != [each.shape for each in wanted]:
            raise UsageError(f"--beside {chosen.beside} must have outputs of the shapes of {chosen.model}'s")
        both = {"origin": lambda: origin(*given), "this": lambda: model(*given)}
        times = interleave(both, resolve=_MATTERS, at_most_seconds=_SECONDS)
    change = compare_paired(times["origin"], times["this"], _MATTERS)
    before, after = stored_bytes(origin), stored_bytes(model)
    apart = max(map(_difference, made, wanted))
    fewer = f": {before / after:.2f} times smaller" if 0 < after < before else ""
    on = f"the arrays of {chosen.inputs}" if chosen.inputs else "normal random numbers"
    against = f"against {{}} of {Path(chosen.beside).name}"
    told = {name: format_measurement(each) for name, each in times.items()}
    return [
        Fact("weights", f"{_bytes(after)} {against.format(_bytes(before))}{fewer}"),
        Fact(
            "time",
            f"{told['this'].cell_text} {against.format(told['origin'].cell_text)}: speedup "
            f"{format_measurement(change.estimate).cell_with_interval}, {change}",
        ),
        Fact("largest difference of outputs", f"{apart:.2%} of the largest output, on {on}"),
    ]


def _bytes(count: int) -> str:
    return format_number(count, "B").text


def _drawn(value: Tensor) -> Tensor:
    """Return normal random numbers in the place of numbers, and whole ones, such as tokens, as they are."""
    if value.dtype.kind != "f" or not value.ndim:
        return value
    return Tensor(np.random.default_rng(0).standard_normal(value.shape).astype(value.dtype))


def _outputs(made: Any) -> list[np.ndarray[Any, Any]]:
    return [each.data.astype(np.float64) for each in (made if isinstance(made, tuple) else (made,))]


def _difference(made: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    """Return the largest difference over the largest wanted number."""
    apart, scale = np.abs(made - wanted).max(initial=0), np.abs(wanted).max(initial=0)
    if not np.isfinite(apart):
        raise UsageError("--beside cannot compare outputs that hold infinities or NaN")
    return float(apart / scale) if apart else 0.0
