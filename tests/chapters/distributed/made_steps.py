"""Training steps whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinytorch.chapters.distributed.step_times import Overlap, Scaling, Way
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks

ROUNDS = 20


def made_steps(
    seconds: dict[str, float],
    noise: float = 0.005,
    marked: tuple[str, ...] = (),
    cpu_per_wall: Mapping[str, float] | None = None,
) -> dict[str, Measurement]:
    """Return steps of about these seconds that took turns; those of ``marked`` names had to share cores.

    Each had a whole core but for what ``cpu_per_wall`` says by name.
    """
    draw = np.random.default_rng(0)
    return {
        name: Measurement(
            name,
            tuple(value * np.exp(noise * draw.normal(size=ROUNDS))),
            "s",
            Conditions(
                interleaved_with=tuple(other for other in seconds if other != name),
                instrument=Ranks(ranks=2, oversubscribed=name in marked),
                cpu_per_wall=(cpu_per_wall or {}).get(name, 0.99),
                page_faults_per_call=3.2,
            ),
        )
        for name, value in seconds.items()
    }


def made_scaling(
    way: Way,
    seconds: dict[int, float],
    noise: float = 0.005,
    cores: int = 64,
    cpu_per_wall: Mapping[int, float] | None = None,
) -> Scaling:
    """Return steps by number of ranks; more of them than ``cores`` had to share these."""
    marked = tuple(str(count) for count in seconds if count > cores)
    had = {str(count): share for count, share in (cpu_per_wall or {}).items()}
    steps = made_steps({str(count): value for count, value in seconds.items()}, noise, marked, had)
    return Scaling(way, "gpt", 8, {int(count): one for count, one in steps.items()})


COMMUNICATING = {"overlapped": 0.011, "apart": 0.012, "alone": 0.010}


def overlapped(hidden: float, noise: float = 0.002, marked: tuple[str, ...] = ()) -> Overlap:
    """Return steps of 10 ms whose 2 ms of communication are hidden by this share."""
    steps = made_steps({**COMMUNICATING, "overlapped": 0.012 - 0.002 * hidden}, noise, marked)
    return Overlap(2, "mlp", 8, 2**20, steps["overlapped"], steps["apart"], steps["alone"])
