"""Peaks of memory that following thousands of ops finds, asked of a fresh process.

Nothing else runs there: tracemalloc counts what every thread of a process allocates, and where tests run on several
processes a thread of each takes orders (lists of thousands of tests) at any moment.
"""

import json
import sys
from collections.abc import Callable

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.array_life import recording_memory

CALLS: dict[str, Callable[[Tensor], object]] = {
    "exp": lambda x: x.exp(),
    "product": lambda x: x @ x,
    "product and backward": lambda x: (x @ x).sum().backward(),
    "view": lambda x: x[2:5],
}


def peaks(count: int, late: int) -> dict[str, int]:
    """Return the peak of ``count`` calls of each kind with ``late`` bytes of the program's own after them."""
    found = {}
    for name, call in CALLS.items():
        x = Tensor(np.ones((10, 10), np.float32), requires_grad=True)
        with recording_memory(x) as done:
            for _ in range(count):
                call(x)
            bytearray(late)
        found[name] = done.profile.peak
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(peaks(*json.loads(sys.stdin.read()))))
