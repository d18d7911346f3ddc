"""Faster ways to run the same ops: what the chapter on acceleration teaches and measures."""

from typing import TYPE_CHECKING, Any

from tinytorch.perf.acceleration.functions import (
    col2im,
    fused_attention,
    fused_bias_gelu,
    fused_causal_softmax,
    fused_gelu,
    fused_layer_norm,
    fused_softmax,
    im2col,
    im2col_conv2d,
    unfused_gelu,
)
from tinytorch.perf.acceleration.fusion import fuse
from tinytorch.perf.acceleration.products import tiled_matmul, vectorized_matmul
from tinytorch.perf.kernels.registry import accelerated

if TYPE_CHECKING:
    from tinytorch.perf.acceleration.plans import plan
    from tinytorch.perf.roofline import arithmetic_intensity

__all__ = [
    "accelerated",
    "arithmetic_intensity",
    "col2im",
    "fuse",
    "fused_attention",
    "fused_bias_gelu",
    "fused_causal_softmax",
    "fused_gelu",
    "fused_layer_norm",
    "fused_softmax",
    "im2col",
    "im2col_conv2d",
    "plan",
    "tiled_matmul",
    "unfused_gelu",
    "vectorized_matmul",
]


def __getattr__(name: str) -> Any:
    """Return what is loaded when it is asked for: with it comes Numba, which takes long."""
    if name == "plan":
        from tinytorch.perf.acceleration.plans import plan

        return plan
    if name == "arithmetic_intensity":
        from tinytorch.perf.roofline import arithmetic_intensity

        return arithmetic_intensity
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
