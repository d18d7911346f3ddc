"""Whole models: quantize any module tree, find the layers that suffer, and keep it in a file without pickle."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.core.dataloader import input_batches
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.layers import Embedding
from tinytorch.core.module import Module, Parameter, check_module
from tinytorch.core.op import Array, Call, Saved
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import evaluating, one_at_a_time, undisturbed
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.ops.affine import Scheme
from tinytorch.perf.quantization.layers import Plan, QuantizedProduct, is_quantizable, quantized_layer
from tinytorch.perf.quantization.observers import MinMaxObserver, RangeObserver
from tinytorch.perf.quantization.storage import QuantizedModule

#: Ops whose first operand is the input of a layer that can be quantized.
_PRODUCTS = ("linear", "conv2d", "embedding")


def quantizable(model: Module) -> dict[str, Module]:
    """Return the layers of ``model`` that are quantized, by dotted name ("" if it is one itself).

    A convolution in groups, such as a depthwise one, is none of them: it has few products for each number that would
    have to be rounded, no kernel of codes does it, and its weights are few.
    """
    check_module(model)
    return {
        name: module
        for name, module in model.named_modules()
        if is_quantizable(module) and not (isinstance(module, Conv2d) and module.groups > 1)
    }


def quantize_model(
    model: Module,
    calibration_data: Any = None,
    plan: Plan | None = None,
    keep: Sequence[str] = (),
    plans: Mapping[str, Plan] | None = None,
    observer: Callable[[Scheme], RangeObserver] = MinMaxObserver,
) -> Module:
    """Return a copy of ``model`` with quantized linear, convolution and embedding layers.

    Convolutions in groups, such as depthwise ones, stay float: in codes they would be slower.

    Args:
        model: any module tree; attention's projections and the like are found inside of it.
        calibration_data: a batch of model inputs, or a `DataLoader`, list or generator of batches, of inputs alone or
            with targets; needed for static layers only.
        plan: how; by default dynamic with 8-bit weights per channel, or static if there is calibration data.
        keep: names of layers that stay float (see `sensitivity_scan`).
        plans: plans of layers by name, where they differ from ``plan``.
        observer: makes what watches the input of a static layer, from the scheme of its activations.

    Raises:
        ValueError: if there is nothing to quantize, a name is unknown, a static layer gets no calibration data, or
            data or weights are NaN, infinite or of a wrong type.

    Examples:
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.core.activations import ReLU
        >>> from tinytorch.perf.quantization import quantize_model
        >>> model = Sequential(Linear(64, 64), ReLU(), Linear(64, 10))
        >>> quantized = quantize_model(model, keep=["2"])
        >>> [type(layer).__name__ for _, layer in quantized.named_children()]
        ['QuantizedLinear', 'ReLU', 'Linear']
    """
    plan = plan or Plan("dynamic" if calibration_data is None else "static")
    layers = quantizable(model)
    chosen = chosen_plans(layers, plan, keep, plans or {})
    static = [name for name in chosen if chosen[name].mode == "static" and not isinstance(layers[name], Embedding)]
    observers = {name: observer(chosen[name].activation_scheme) for name in static}
    if static:
        if calibration_data is None:
            raise ValueError("calibration_data must be given for static layers: pass a batch of inputs or a DataLoader")
        _calibrate(model, calibration_data, observers)
    made: dict[int, Module] = {}
    for name, layer_plan in chosen.items():
        twin = quantized_layer(layers[name], layer_plan)  # type: ignore[arg-type]
        if name in observers and isinstance(twin, QuantizedProduct):
            twin.set_range(observers[name])
        twin.training = layers[name].training
        made[id(layers[name])] = twin
    return replaced(model, made)


def chosen_plans(
    layers: Mapping[str, Module], plan: Plan, keep: Sequence[str], plans: Mapping[str, Plan]
) -> dict[str, Plan]:
    """Return the plan of each of ``layers`` (see `quantizable`) that is not kept in float.

    Raises:
        ValueError: if there are no layers, or ``keep`` or ``plans`` name others.
    """
    if not layers:
        raise ValueError(
            "model must hold a layer to quantize (Linear, Conv2d without groups, or Embedding), but holds none"
        )
    for argument, names in (("keep", keep), ("plans", plans)):
        unknown = sorted(set(names) - layers.keys())
        if unknown:
            raise ValueError(f"{argument} must name layers that can be quantized, but {unknown} are not in {[*layers]}")
    return {name: plans.get(name, plan) for name in layers if name not in keep}


def _calibrate(model: Module, calibration_data: Any, observers: dict[str, RangeObserver]) -> None:
    watcher = _InputWatcher(lambda path, x: observers[path].observe(x), observers)
    with undisturbed(model), evaluating(model), no_grad(), observed_by(watcher):
        for batch in input_batches(calibration_data, "calibration_data"):
            model(batch)
    unseen = [name for name, each in observers.items() if not each.batches]
    if unseen:
        raise ValueError(f"calibration_data must reach every static layer, but never came to {unseen}")


class _InputWatcher(Observer):
    """Hands on the input of each product that runs in one of the named layers."""

    def __init__(self, take: Callable[[str, Array], object], names: Any) -> None:
        self._take, self._names = take, names

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Hand on the first operand."""
        del outputs, saved
        if call.phase == "forward" and call.op.name in _PRODUCTS and call.path in self._names:
            self._take(call.path, inputs[0])


def replaced(model: Module, made: dict[int, Module]) -> Module:
    """Return a copy of ``model`` in which each module whose ``id`` is a key of ``made`` is that module instead.

    A bias that several layers share stays one.
    """
    # What deepcopy finds in its memo it takes for copied already: shared modules and biases stay shared.
    memo: dict[int, Any] = dict(made)
    for _, module in model.named_modules():
        twin, bias = made.get(id(module)), vars(module).get("bias")
        if twin is not None and isinstance(bias, Parameter) and isinstance(vars(twin).get("bias"), Parameter):
            vars(twin)["bias"] = memo.setdefault(id(bias), vars(twin)["bias"])
    with one_at_a_time:
        return copy.deepcopy(model, memo)


def relative_error(expected: Array, got: Array) -> float:
    """Return the root of Σ (expected - got)² / Σ expected²: 0 for equal, NaN for a reference of zeros that differs."""
    wide = expected.astype(np.float64)
    difference, size = np.sum((wide - got) ** 2), np.sum(wide**2)
    if difference == 0:
        return 0.0
    return float(np.sqrt(difference / size)) if size else float("nan")


def decibels(expected: Array, got: Array) -> float:
    """Return the signal-to-noise ratio 10 log10(Σ expected² / Σ (expected - got)²); infinite for equal."""
    error = relative_error(expected, got)
    return float("inf") if error == 0 else float(-20 * np.log10(error))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity of the model's output to quantizing one layer alone.

    ``error`` is what the scan's measure says, 0 where nothing changed; ``saved_bytes`` is what the layer saves.
    """

    name: str
    kind: str
    error: float
    saved_bytes: int


def sensitivity_scan(
    model: Module, inputs: Any, plan: Plan | None = None, calibration_data: Any = None
) -> list[Sensitivity]:
    """Return one row for each layer that can be quantized, the most sensitive first.

    Args:
        model: the float model.
        inputs: the batch on which outputs are compared.
        plan: how each layer is quantized, one at a time.
        calibration_data: for a static plan; ``inputs`` by default.

    Examples:
        >>> from tinytorch.models import example, mlp
        >>> from tinytorch.perf.quantization import sensitivity_scan
        >>> rows = sensitivity_scan(mlp(), example("mlp", 16))
        >>> sorted(row.name for row in rows), rows[0].error >= rows[-1].error
        (['1', '3', '5'], True)
    """
    plan = plan or Plan()
    layers = quantizable(model)
    data = inputs if calibration_data is None and plan.mode == "static" else calibration_data
    if data is not None:  # it is gone through once for each layer, which a generator cannot be
        data = [*input_batches(data, "calibration_data")]
    rows = []
    with undisturbed(model), evaluating(model), no_grad():
        expected = model(inputs).data
        for name, layer in layers.items():
            alone = quantize_model(model, data, plan, keep=[other for other in layers if other != name])
            twin = dict(alone.named_modules())[name]
            assert isinstance(twin, QuantizedModule)
            saved = twin.float_nbytes - int(twin.memory_usage()["quantized_bytes"])
            rows.append(Sensitivity(name, type(layer).__name__, relative_error(expected, alone(inputs).data), saved))
    return sorted(rows, key=lambda row: row.error, reverse=True)


def layers_to_keep(rows: Sequence[Sensitivity], extra_bytes: int) -> list[str]:
    """Return the names of layers to leave in float, if ``extra_bytes`` more may be used.

    It is a greedy choice: layers in the order of error avoided per byte, as long as they fit.

    Raises:
        ValueError: if ``extra_bytes`` is negative.

    Examples:
        >>> from tinytorch.perf.quantization import layers_to_keep
        >>> from tinytorch.perf.quantization.convert import Sensitivity
        >>> rows = [Sensitivity("0", "Linear", 0.5, 1000), Sensitivity("1", "Linear", 0.1, 10)]
        >>> layers_to_keep(rows, extra_bytes=1000)  # most error avoided for each byte
        ['1']
    """
    if extra_bytes < 0:
        raise ValueError(f"extra_bytes must not be negative, but is {extra_bytes}")
    kept, left = [], extra_bytes
    for row in sorted(rows, key=lambda row: row.error / max(row.saved_bytes, 1), reverse=True):
        if row.error > 0 and row.saved_bytes <= left:
            kept.append(row.name)
            left -= row.saved_bytes
    return kept


def stored_bytes(model: Module) -> int:
    """Return the bytes of a model's state: parameters and buffers, codes and scales, each once.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.quantization import stored_bytes
        >>> stored_bytes(Linear(64, 10))  # four bytes for each weight and bias
        2600
    """
    check_module(model)
    return sum(tensor.nbytes for _, tensor in model._named_state())


def analyze_model_sizes(original_model: Module, quantized_model: Module) -> dict[str, float]:
    """Return the sizes of two models in MiB, their ratio, and the saved memory in MiB and per cent.

    The keys are ``original_mb``, ``quantized_mb``, ``compression_ratio``, ``memory_saved_mb`` and
    ``memory_saved_percent``. Nothing is assumed of either: the bytes are those that `Module.save` writes.

    Examples:
        >>> from tinytorch.models import mlp
        >>> from tinytorch.perf.quantization import analyze_model_sizes, quantize_model
        >>> model = mlp()
        >>> sizes = analyze_model_sizes(model, quantize_model(model))
        >>> 3.5 < sizes["compression_ratio"] < 4  # scales and biases are no codes
        True
    """
    before, after = stored_bytes(original_model), stored_bytes(quantized_model)
    if not before or not after:
        raise ValueError("original_model and quantized_model must have state, but one has none")
    return {
        "original_mb": before / MIB,
        "quantized_mb": after / MIB,
        "compression_ratio": before / after,
        "memory_saved_mb": (before - after) / MIB,
        "memory_saved_percent": 100 * (before - after) / before,
    }


class _Described(Module):
    """A quantized model and its description, as JSON in bytes: what a file holds."""

    def __init__(self, description: bytes, model: Module) -> None:
        self.description = Tensor(np.frombuffer(description, np.uint8).copy())
        self.model = model


def save_quantized(model: Module, path: str | Path) -> None:
    """Write a quantized model as an ``.npz`` file (NumPy arrays, no pickle), atomically; `load_quantized` reads it.

    Codes of 4 and 2 bits stay packed.

    Raises:
        TypeError: if ``model`` is not a Module.
        ValueError: if it holds no quantized layer.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.quantization import quantize_model, save_quantized
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "model.npz")
        ...     save_quantized(quantize_model(Sequential(Linear(256, 256))), path)
        ...     path.stat().st_size < 256 * 256 * 4 / 3  # a third of the float weights
        True
    """
    check_module(model)
    plans = {
        name: asdict(
            module.plan if isinstance(module, QuantizedProduct) else Plan(weights=replace(module.scheme, axis=-1))
        )
        for name, module in model.named_modules()
        if isinstance(module, QuantizedModule)
    }
    if not plans:
        raise ValueError("model must hold quantized layers: make it with quantize_model")
    _Described(json.dumps(plans).encode(), model).save(path)


def load_quantized(path: str | Path, model: Module) -> Module:
    """Return the quantized model that `save_quantized` wrote, in eval mode.

    Args:
        path: the file.
        model: a float model of the same architecture, such as an untrained one. It is not changed, and none of its
            weights survive.

    Raises:
        ValueError: if the file is none of these, or does not fit ``model``.
        FileNotFoundError: if there is no such file.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from tinytorch import Linear, Sequential
        >>> from tinytorch.perf.quantization import load_quantized, quantize_model, save_quantized
        >>> with TemporaryDirectory() as folder:
        ...     save_quantized(quantize_model(Sequential(Linear(8, 4))), f"{folder}/model.npz")
        ...     model = load_quantized(f"{folder}/model.npz", Sequential(Linear(8, 4)))
        >>> [type(layer).__name__ for _, layer in model.named_children()]
        ['QuantizedLinear']
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            description = bytes(np.asarray(archive["description"], np.uint8))
        read = json.loads(description)
        plans = {name: Plan(**{**plan, "weights": Scheme(**plan["weights"])}) for name, plan in read.items()}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"path {str(path)!r} holds no model that save_quantized wrote: {error}") from error
    layers = quantizable(model)
    unknown = sorted(plans.keys() - layers.keys())
    if unknown:
        raise ValueError(f"model must have the layers of the file, but {unknown} are not among {[*layers]}")
    made: dict[int, Module] = {
        id(layers[name]): quantized_layer(layers[name], plan)  # type: ignore[arg-type]
        for name, plan in plans.items()
    }
    return _Described(description, replaced(model, made)).load(path).model.eval()
