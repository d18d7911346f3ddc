"""Peaks of memory, asked of a fresh process: of thousands of ops, and of first and second calls of compiled functions.

Nothing else runs there: tracemalloc counts what every thread of a process allocates, and where tests run on several
processes a thread of each takes orders (lists of thousands of tests) at any moment. The first of all calls imports
Numba, and each first one compiles its kernel or reads it from disk.
"""

import json
import sys
from collections.abc import Callable

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated, fused_gelu
from tinytorch.perf.acceleration.products import compiled_loops
from tinytorch.perf.events.array_life import recording_memory
from tinytorch.perf.measuring.memory import MemoryProfiler, MemoryTracker

OPS: dict[str, Callable[[Tensor], object]] = {
    "exp": lambda x: x.exp(),
    "product": lambda x: x @ x,
    "product and backward": lambda x: (x @ x).sum().backward(),
    "view": lambda x: x[2:5],
}


def of_many_ops(count: int, late: int) -> dict[str, int]:
    """Return the peak of ``count`` calls of each kind with ``late`` bytes of the program's own after them."""
    found = {}
    for name, call in OPS.items():
        x = Tensor(np.ones((10, 10), np.float32), requires_grad=True)
        with recording_memory(x) as done:
            for _ in range(count):
                call(x)
            bytearray(late)
        found[name] = done.profile.peak
    return found


def tracked(call: Callable[[], object]) -> int:
    with MemoryTracker() as tracker:
        call()
    return tracker.peak_bytes


def recorded(call: Callable[[], object]) -> int:
    with recording_memory() as done:
        call()
    return done.profile.peak


def profiled(call: Callable[[], object]) -> int:
    return round(MemoryProfiler().profile(call, calls=1)["needed_mb"] * 2**20)


def in_kernels(x: Tensor) -> object:
    with accelerated():
        return x.exp()


ARRAY = np.ones((256, 256), np.float32)
#: Calls, whose result is as large as the array, and what looks at them.
CALLS: dict[str, Callable[[], object]] = {
    "fused_gelu": lambda: fused_gelu(ARRAY),
    "fused_gelu into an array": lambda: fused_gelu(ARRAY, out=np.empty_like(ARRAY)),
    "compiled_loops": lambda: compiled_loops(ARRAY, ARRAY),
    "accelerated": lambda: in_kernels(Tensor(ARRAY)),
}
INSTRUMENTS = {"tracker": tracked, "recording": recorded, "profile": profiled}


def of_first_calls(calls: list[tuple[str, str]]) -> list[list[int]]:
    """Return the peaks of the first and the second call, of each call and its instrument."""
    return [[INSTRUMENTS[how](CALLS[name]) for _ in range(2)] for name, how in calls]


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    made = of_many_ops(*asked["many"]) if "many" in asked else of_first_calls(asked["first"])
    sys.stdout.write(json.dumps(made))
