"""A module of PyTorch as one of ours: exported to a file, read, and checked to give the same answers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.perf.onnx.model import OnnxModel
from tinytorch.perf.onnx.reading import from_onnx

#: By how much an answer may differ, in its largest element: sums are added up in another order.
TOLERANCE = 1e-4
#: The version of the operators that both exporters of PyTorch write and nearly every file has.
OPSET = 18
_HOW = "where it is, torch.onnx.export(model.eval(), (example,), 'model.onnx') writes a file that from_onnx reads"


def from_torch(module: Any, example: Any) -> OnnxModel:
    """Return a module of PyTorch as a model whose ops run through dispatch, in eval mode; the module is not changed.

    It is exported with the sizes of the example, but for the first, the batch, where the exporter can leave that open.

    Args:
        module: a ``torch.nn.Module``.
        example: a tensor of PyTorch, or a tuple of several, as the module is called with.

    Raises:
        RuntimeError: if torch or onnx is not installed.
        TypeError: if the module or the example is none of PyTorch's.
        ValueError: if PyTorch cannot export the module, or what was read gives other answers than it.
        UntranslatedError: as `from_onnx` raises it.

    Examples:
        >>> from importlib.util import find_spec
        >>> from tinytorch.perf.onnx import from_torch
        >>> if find_spec("torch"):
        ...     import torch
        ...     model = from_torch(torch.nn.Linear(4, 2), torch.zeros(1, 4))
    """
    try:
        import torch
    except ImportError as error:
        raise RuntimeError(f"from_torch needs PyTorch, which is not installed here: {_HOW}") from error
    inputs = example if isinstance(example, tuple) else (example,)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, not {type(module).__name__}")
    if not inputs or not all(isinstance(each, torch.Tensor) for each in inputs):
        given = ", ".join(type(each).__name__ for each in inputs) or "nothing"
        raise TypeError(f"example must be a tensor of PyTorch or a tuple of them, not {given}")
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            expected = _arrays(module(*inputs))
        read = _read(torch, module, inputs)
    finally:
        for part, mode in modes.items():
            part.training = mode
    with no_grad():
        answers = read(*(each.detach().cpu().numpy() for each in inputs))
    found = [each.numpy() for each in (answers if isinstance(answers, tuple) else (answers,))]
    if len(found) != len(expected):
        raise ValueError(f"what was read of module gives {len(found)} outputs and module {len(expected)}")
    for ours, theirs in zip(found, expected, strict=True):
        difference = float(np.max(np.abs(ours - theirs), initial=0.0))
        if ours.shape != theirs.shape or not difference <= TOLERANCE * max(
            1.0, float(np.max(np.abs(theirs), initial=0))
        ):
            raise ValueError(
                f"what was read of module differs from it by {difference:.2g} on example: please report it"
            )
    return read


def _arrays(outputs: Any) -> list[Any]:
    """Return the tensors of an answer as arrays, in the order in which exporters name them."""
    if hasattr(outputs, "detach"):
        return [outputs.detach().cpu().numpy()]
    parts: Sequence[Any] = list(outputs.values()) if hasattr(outputs, "values") else outputs
    return [array for part in parts if part is not None for array in _arrays(part)]


def _read(torch: Any, module: Any, inputs: tuple[Any, ...]) -> OnnxModel:
    names = [f"input_{place}" if place else "input" for place in range(len(inputs))]
    batch = {name: {0: "batch"} for name, each in zip(names, inputs, strict=True) if each.ndim > 1}
    failed: list[str] = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        for how in ({"dynamic_axes": batch, "dynamo": False}, {"dynamo": True}, {"dynamo": False}):
            try:
                with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                    warnings.simplefilter("ignore")
                    torch.onnx.export(module, inputs, str(file), input_names=names, opset_version=OPSET, **how)
            except Exception as error:  # of the exporters, which raise what they like
                failed.append(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
            else:
                return from_onnx(file)
    hint = " (pip install onnxscript brings its newer exporter)" if "onnxscript" in "".join(failed) else ""
    raise ValueError(f"PyTorch cannot export module{hint}: {'; '.join(dict.fromkeys(failed))}")
