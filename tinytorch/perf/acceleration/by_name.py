"""What functions called by name share: they take arrays or Tensors, and run an op's compiled kernel on them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from tinytorch.core import dispatch
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.accelerated import kernel_implementations

#: An array or a Tensor; the result is of the same kind.
Values = TypeVar("Values", Array, Tensor)


def check_values(name: str, values: Any) -> None:
    """Raise TypeError, which names ``name``, unless ``values`` is a float32 or float64 array or such a Tensor."""
    if not isinstance(values, np.ndarray | Tensor) or values.dtype not in (np.float32, np.float64):
        kind = getattr(values, "dtype", None) or type(values).__name__
        raise TypeError(f"{name} must be a float32 or float64 array or Tensor, not {kind}: use np.asarray(..., dtype)")


def run_compiled(op: Op, *inputs: Any, **params: Any) -> Any:
    """Return the output of op's compiled implementation, also outside of `accelerated`.

    It is a Tensor, with its place in the graph, if one of ``inputs`` is; otherwise an array.

    Raises:
        ModuleNotFoundError: if Numba is not installed.
    """
    chosen = kernel_implementations()[op]
    if any(isinstance(value, Tensor) for value in inputs):
        with dispatch.implementations({op: chosen}):
            return dispatch.apply(op, *inputs, **params)
    return chosen.forward(False, *inputs, **params)[0]
