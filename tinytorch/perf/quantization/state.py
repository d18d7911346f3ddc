"""Quantized models in files: their arrays, and a description of which layer is quantized how. No pickle."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from tinytorch.core.module import Module, check_module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.affine import Scheme
from tinytorch.perf.quantization.convert import quantizable, replaced
from tinytorch.perf.quantization.layers import Plan, QuantizedProduct, quantized_layer
from tinytorch.perf.quantization.storage import QuantizedModule


class _Described(Module):
    """A quantized model and its description, as JSON in bytes: what a file holds."""

    def __init__(self, description: bytes, model: Module) -> None:
        self.description = Tensor(np.frombuffer(description, np.uint8).copy())
        self.model = model


def save_quantized(model: Module, path: str | Path) -> None:
    """Write a quantized model as ``.npz`` (NumPy arrays, no pickle), whole or not at all; `load_quantized` reads it.

    Codes of 4 and 2 bits stay packed.

    Raises:
        TypeError: if ``model`` is no Module.
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
