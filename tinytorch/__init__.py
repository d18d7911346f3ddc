"""A small machine-learning framework to measure (core), and the instruments that measure it (perf).

``from tinytorch import Tensor, Linear, Profiler`` is all that a first look needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinytorch.core.layers import Linear
    from tinytorch.core.module import Module, Sequential
    from tinytorch.core.tensor import Tensor
    from tinytorch.perf.onnx import from_onnx
    from tinytorch.perf.profiling import Profiler

__all__ = ["Linear", "Module", "Profiler", "Sequential", "Tensor", "from_onnx"]


_HOMES = {
    "Linear": "tinytorch.core.layers",
    "Module": "tinytorch.core.module",
    "Profiler": "tinytorch.perf.profiling",
    "Sequential": "tinytorch.core.module",
    "Tensor": "tinytorch.core.tensor",
    "from_onnx": "tinytorch.perf.onnx",
}


def __getattr__(name: str) -> Any:
    """Return what `__all__` names, loaded when it is asked for: who needs a part must not wait for all."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("tinytorch")
        except PackageNotFoundError:
            raise AttributeError("tinytorch has no __version__ where it is not installed: pip install it") from None
    raise AttributeError(f"module 'tinytorch' has no attribute {name!r}")
