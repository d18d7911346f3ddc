"""Training steps whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinytorch.chapters.distributed.step_times import Overlap, Scaling
from tinytorch.perf.distributed.cluster_model.scaling_laws import Way
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks

ROUNDS = 20


def made_steps(
    seconds: Mapping[str, float], noise: float = 0.005, shared: bool = False, busy: Mapping[str, float] | None = None
) -> dict[str, Measurement]:
    """Return steps of about these seconds that took turns; ``busy`` says how much of its core one had, if not all."""
    draw = np.random.default_rng(0)
    return {
        name: Measurement(
            name,
            tuple(value * np.exp(noise * draw.normal(size=ROUNDS))),
            "s",
            Conditions(
                interleaved_with=tuple(other for other in seconds if other != name),
                instrument=Ranks(ranks=2, oversubscribed=shared),
                cpu_per_wall=(busy or {}).get(name, 0.99),
                blas_threads=1,
            ),
        )
        for name, value in seconds.items()
    }


def made_scaling(
    way: Way, seconds: Mapping[int, float], noise: float = 0.005, busy: Mapping[int, float] | None = None
) -> Scaling:
    """Return steps by number of ranks."""
    had = {str(count): part for count, part in (busy or {}).items()}
    steps = made_steps({str(count): value for count, value in seconds.items()}, noise, busy=had)
    return Scaling(way, 8, {int(count): one for count, one in steps.items()}, linear=0.25)


def overlapped(hidden: float, shared: bool = False) -> Overlap:
    """Return steps of 10 ms whose 2 ms of communication are hidden by this part."""
    steps = made_steps({"overlapped": 0.012 - 0.002 * hidden, "apart": 0.012, "alone": 0.010}, 0.002, shared)
    return Overlap(**steps)
