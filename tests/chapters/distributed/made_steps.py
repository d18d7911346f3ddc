"""Training steps whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinytorch.chapters.distributed.step_times import Overlap
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks

ROUNDS = 20


def made_steps(seconds: Mapping[str, float], noise: float = 0.005, shared: bool = False) -> dict[str, Measurement]:
    """Return steps of about these seconds that took turns."""
    draw = np.random.default_rng(0)
    return {
        name: Measurement(
            name,
            tuple(value * np.exp(noise * draw.normal(size=ROUNDS))),
            "s",
            Conditions(
                interleaved_with=tuple(other for other in seconds if other != name),
                instrument=Ranks(ranks=2, oversubscribed=shared),
                cpu_per_wall=0.99,
                blas_threads=1,
            ),
        )
        for name, value in seconds.items()
    }


def overlapped(hidden: float, shared: bool = False) -> Overlap:
    """Return steps of 10 ms whose 2 ms of communication are hidden by this part."""
    steps = made_steps({"overlapped": 0.012 - 0.002 * hidden, "apart": 0.012, "alone": 0.010}, 0.002, shared)
    return Overlap(**steps)
