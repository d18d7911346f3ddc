"""Quantized models in files: their arrays, and a description of which layer is quantized how. No pickle."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
    plans = {name: _plan_of(module) for name, module in model.named_modules() if isinstance(module, QuantizedModule)}
    if not plans:
        raise ValueError("model must hold quantized layers: make it with quantize_model")
    _Described(json.dumps(plans).encode(), model).save(path)


def _plan_of(module: QuantizedModule) -> dict[str, Any]:
    if isinstance(module, QuantizedProduct):
        return asdict(module.plan)
    scheme = module.scheme
    return asdict(Plan(weights=Scheme(scheme.bits, scheme.symmetric, scheme.per, -1, scheme.group)))


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
    description = _description(path)
    layers = quantizable(model)
    unknown = sorted(description.keys() - layers.keys())
    if unknown:
        raise ValueError(f"model must have the layers of the file, but {unknown} are not among {[*layers]}")
    made = {
        id(layers[name]): quantized_layer(layers[name], plan)  # type: ignore[arg-type]
        for name, plan in description.items()
    }
    holder = _Described(_stored_description(path), replaced(model, dict(made)))
    return holder.load(path).model.eval()


def _stored_description(path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return bytes(np.asarray(archive["description"], np.uint8))
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"path {str(path)!r} holds no model that save_quantized wrote: {error}") from error


def _description(path: str | Path) -> dict[str, Plan]:
    try:
        read = json.loads(_stored_description(path))
        return {name: Plan(**{**plan, "weights": Scheme(**plan["weights"])}) for name, plan in read.items()}
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"path {str(path)!r} holds no model that save_quantized wrote: {error}") from error
