"""Attention without the score matrix: the kernel against NumPy and PyTorch's fused attention, in turns.

    python -m benchmarks.attention [1 | 2]

On one core pinned, or with two threads. Shapes: GPT-2 small's heads at 128 and 512, and the book's GPT at batch 1 and
64. The target is at most 0.6 of PyTorch's time, forward and backward.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.conditions import one_core
from tinytorch.core import ops
from tinytorch.core.op import Implementation
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import blas_threads, interleave, ratio

#: Batch, heads, length, depth of a head.
SHAPES = ((1, 12, 128, 64), (1, 12, 512, 64), (1, 4, 20, 24), (64, 4, 20, 24))
TARGET = 0.6


def our_runs(implementation: Implementation, packed: Any, down: Any, heads: int) -> tuple[Callable[[], Any], ...]:
    """Return one forward and one backward of an implementation of causal self-attention."""
    _, saved = implementation.forward(True, packed, heads=heads, causal=True)
    return (
        lambda: implementation.forward(False, packed, heads=heads, causal=True),
        lambda: implementation.backward(down, saved, (True,), False),
    )


def peer_runs(packed: Any, down: Any, heads: int) -> tuple[Callable[[], Any], ...]:
    """Return one forward and one backward of PyTorch's, from the same packed operands to joined heads."""
    batch, length, width = packed.shape
    there, down_there = torch.tensor(packed, requires_grad=True), torch.tensor(down)

    def joined() -> torch.Tensor:
        q, k, v = there.view(batch, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return made.transpose(1, 2).reshape(batch, length, width // 3)

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return joined()

    kept = joined()
    return forward, lambda: torch.autograd.grad(kept, there, down_there, retain_graph=True)


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if the interval of a ratio lies wholly above the target."""
    count = int(arguments[0]) if arguments else 1
    conditions: AbstractContextManager[Any] = one_core() if count == 1 else blas_threads(count)
    table = Table(
        "B, H, T, D", "phase", "ours (us)", "NumPy (us)", "PyTorch (us)", "ours / PyTorch", "target", "verdict"
    )
    missed = 0
    torch.set_num_threads(count)
    draw = np.random.default_rng(0)
    with conditions:
        for batch, heads, length, depth in SHAPES:
            packed = draw.standard_normal((batch, length, 3 * heads * depth), dtype=np.float32)
            down = draw.standard_normal((batch, length, heads * depth), dtype=np.float32)
            ours = our_runs(kernel_implementations()[ops.self_attention], packed, down, heads)
            plain = our_runs(ops.self_attention.reference, packed, down, heads)
            peer = peer_runs(packed, down, heads)
            for number, phase in enumerate(("forward", "backward")):
                runs = {"ours": ours[number], "NumPy": plain[number], "PyTorch": peer[number]}
                times = interleave(runs, repeats=25, at_most_seconds=6)
                found = ratio(times["ours"], times["PyTorch"])
                low, high = found.interval.low, found.interval.high
                verdict = "met" if high <= TARGET else "missed" if low > TARGET else "unclear"
                missed += verdict == "missed"
                shown = [f"{times[name].median * 1e6:.1f}" for name in runs]
                row = (f"{batch}, {heads}, {length}, {depth}", phase, *shown)
                table.add_row(*row, f"{found.median:.2f} [{low:.2f}, {high:.2f}]", f"{TARGET}", verdict)
    console = Console(width=120)
    console.print(f"{count} thread(s), PyTorch {torch.__version__}, causal, float32.")
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
