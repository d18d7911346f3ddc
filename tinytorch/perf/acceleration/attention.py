"""Attention to call by name, on arrays or Tensors: compiled, and the matrix of scores is never stored."""

from __future__ import annotations

from tinytorch.core import ops
from tinytorch.perf.acceleration.by_name import Values, check_values, run_compiled


def fused_attention(q: Values, k: Values, v: Values, causal: bool = False) -> Values:
    """Return softmax(q k^T / sqrt(D)) v of shape (B, H, T, D) in blocks, with memory linear in T and S.

    float32 is compiled; float64 goes to the op's own NumPy. Source: T. Dao et al., FlashAttention, arXiv:2205.14135.

    Args:
        q: queries (B, H, T, D).
        k: keys (B, H, S, D).
        v: values (B, H, S, D).
        causal: hide later keys; the last query sees all of them.

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if the shapes do not fit, or there are more queries than keys and it is causal.
        ModuleNotFoundError: if Numba is not installed.
    """
    for name, values in (("q", q), ("k", k), ("v", v)):
        check_values(name, values)
    return run_compiled(ops.attention, q, k, v, causal=causal)
