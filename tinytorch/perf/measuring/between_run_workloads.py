"""Workloads of several kinds that show how far runs differ; run as a module, it is the process that times them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import blas_threads, interleave
from tinytorch.perf.measuring.between_run_variance import Process, RunStatistics
from tinytorch.perf.measuring.codec import to_json
from tinytorch.perf.measuring.sampling import rounds_in_block
from tinytorch.perf.measuring.statistics import (
    CONFIDENCE,
    LOGARITHMS,
    Percentile,
    block_spread,
    dependence,
    interval_of_law,
)

_SAMPLES = 24


def _workloads() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return pairs of calls that do alike work: NumPy and Python alone, so that a fresh process is ready at once."""
    draw = np.random.default_rng(0)
    wide = [draw.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2)]
    square, vector, few = wide[0][:256, :256].copy(), wide[0][0].copy(), np.ones(4, np.float32)
    rows, weights = wide[1][:64, :256].copy(), wide[1][:256, :256].copy()
    x, room = wide[0][:512].copy(), np.empty((512, 1024), np.float32)

    def chain() -> Any:
        return 0.5 * x * (1.0 + x * (1.0 + 0.044715 * x * x))

    def chain_in_place() -> Any:
        np.multiply(x, 0.044715, out=room)
        for step in (np.multiply, np.add, np.multiply, np.add, np.multiply):
            step(room, x, out=room)
        return room

    return {
        "four numbers": (lambda: few + few, lambda: few * few),
        "a loop in Python": (lambda: sum(range(3000)), lambda: max(range(3000))),
        "a million numbers": (lambda: wide[0] + wide[1], lambda: wide[0] * wide[1]),
        "matrix x vector": (lambda: wide[0] @ vector, lambda: vector @ wide[0]),
        "products": (lambda: square @ square, lambda: np.maximum(rows @ weights, 0) @ weights),
        "elementwise operations": (chain, chain_in_place),
        "reading 4 MiB": (lambda: wide[0].sum(), lambda: wide[0].max()),
    }


def one_process(seed: int) -> Process:
    """Return what this process makes of the workloads."""
    from scipy.special import ndtri  # takes longer to import than all else here

    block, when = rounds_in_block(_SAMPLES), time.time()
    with blas_threads(1):
        functions = {f"{name}, {way}": call for name, pair in _workloads().items() for way, call in enumerate(pair)}
        taken = interleave(functions, repeats=_SAMPLES, at_most_seconds=2.0, warmup_seconds=0.01, seed=seed)

    def seen(samples: npt.NDArray[np.float64]) -> RunStatistics:
        law = Percentile(tuple(samples.tolist()), LOGARITHMS, dependence(np.log(samples)).time)
        found = interval_of_law(law, CONFIDENCE)
        error = float(np.log(found.high / found.low) / 2 / ndtri((1 + CONFIDENCE) / 2))
        return RunStatistics(float(np.log(np.median(samples))), block_spread(samples.tolist(), block), error)

    times = {name: np.array(one.samples) for name, one in taken.items()}
    names = [*_workloads()]
    # Of two ways to do alike work, and of unlike work, of which a moment hits one more than the other.
    pairs = {name: (f"{name}, 0", f"{name}, 1") for name in names}
    pairs |= {f"{one} / {other}": (f"{one}, 0", f"{other}, 0") for one, other in pairwise(names)}
    return Process(
        when,
        {name: seen(each) for name, each in times.items()},
        {name: seen(times[one] / times[other]) for name, (one, other) in pairs.items()},
    )


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(to_json(one_process(json.loads(sys.stdin.read())))) + "\n")
