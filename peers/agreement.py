"""What two frameworks' float32 results must agree to, and how weights pass from one to the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from tests.perf.small_models import drawn
from tinytorch.core.module import Parameter
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor

torch.set_num_threads(1)

#: Largest difference, relative to the largest element: some hundred roundings of float32, whose sums run in another
#: order in each framework.
TOLERANCE = 2e-5


def theirs(array: Array, requires_grad: bool = True) -> torch.Tensor:
    """Return a copy of ``array`` as a tensor of PyTorch."""
    return torch.tensor(array, requires_grad=requires_grad)


def assert_close(ours: Any, other: torch.Tensor | None, tolerance: float = TOLERANCE) -> None:
    """Assert that a tensor or array of ours and one of PyTorch have one shape, one dtype and the same numbers."""
    assert ours is not None
    assert other is not None
    mine = ours.data if isinstance(ours, Tensor) else np.asarray(ours)
    expected = other.detach().numpy()
    assert mine.shape == expected.shape
    assert mine.dtype == expected.dtype
    scale = float(np.abs(expected).max(initial=0))
    np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance * max(scale, 1e-3))


def compare(ours: Any, other: Any, *arrays: Array) -> None:
    """Run two functions on the same arrays, send one gradient through both, and compare outputs and gradients."""
    mine, their = [Tensor(array, requires_grad=True) for array in arrays], [theirs(array) for array in arrays]
    made, expected = ours(*mine), other(*their)
    assert_close(made, expected)
    down = drawn(*made.shape, seed=7)
    made.backward(down)
    expected.backward(torch.tensor(down))
    for one, same in zip(mine, their, strict=True):
        assert_close(one.grad, same.grad)


def runtime(file: Path | bytes, feed: Sequence[Any] | dict[str, Array], **how: Any) -> list[Array]:
    """Return what ONNX Runtime answers to inputs by name, or in their order; ``how`` are its options."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name, value in how.items():
        setattr(options, name, value)
    source = file if isinstance(file, bytes) else str(file)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    if not isinstance(feed, dict):
        feed = {f"x{index}": each.numpy() for index, each in enumerate(feed)}
    answers: list[Array] = session.run(None, {each.name: feed[each.name] for each in session.get_inputs()})
    return answers


def give(source: torch.nn.Parameter, target: Parameter | None, transposed: bool = False) -> None:
    """Copy a parameter of PyTorch into one of ours; ``transposed`` where PyTorch stores (out, in)."""
    assert target is not None
    values = source.detach().numpy()
    target.data[...] = values.T if transposed else values


def give_linear(source: torch.nn.Linear, target: Any) -> None:
    give(source.weight, target.weight, transposed=True)
    if source.bias is not None:
        give(source.bias, target.bias)


def give_plain(source: Any, target: Any) -> None:
    give(source.weight, target.weight)
    give(source.bias, target.bias)
