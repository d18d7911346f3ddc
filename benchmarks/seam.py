"""What the seam costs: an op through `dispatch.apply` against its NumPy implementation called directly.

    python -m benchmarks.seam

The target is at most 2 microseconds an op with no observer.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import interleave

TARGET_SECONDS = 2e-6


def main() -> int:
    """Print the difference for ops with and without a record for backward; return 1 if one is above target."""
    small = np.ones(4, np.float32)
    plain, tracked = Tensor(small), Tensor(small.copy(), requires_grad=True)
    table = Table("op", "gradients", "seam (µs)", "target (µs)")
    missed = 0
    with one_core() as conditions:
        for name, op, count in (("negative", ops.negative, 1), ("add", ops.add, 2), ("where", ops.where, 3)):
            for mode, tensor in (("off", plain), ("on", tracked)):
                direct = partial(op.selected.forward, mode == "on", *[small] * count)
                through = partial(apply, op, *[tensor] * count)
                both = interleave({"direct": direct, "through": through}, repeats=40)
                cost = both["through"].median - both["direct"].median
                missed += cost > TARGET_SECONDS
                table.add_row(name, mode, f"{cost * 1e6:.2f}", f"{TARGET_SECONDS * 1e6:.0f}")
    console = Console(width=110)
    console.print(conditions)
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
