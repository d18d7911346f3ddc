"""Peaks of memory of the first and the second call of compiled functions, asked of a fresh process.

There the first of all calls imports Numba, and each first one compiles its kernel or reads it from disk.
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

if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    sys.stdout.write(json.dumps([[INSTRUMENTS[how](CALLS[name]) for _ in range(2)] for name, how in asked]))
