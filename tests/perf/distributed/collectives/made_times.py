"""Times of messages and of steps whose truth is known."""

from __future__ import annotations

import numpy as np

from tinytorch.chapters.distributed.step_times import Scaling, Way
from tinytorch.perf.measuring import Measurement

SIZES = [8 * 4**power for power in range(10)]
ALPHA, BETA = 2e-6, 1e-10


def made_times(
    noise: float, misfit: float = 0.0, *, rounds: int = 15, seed: int = 0, sizes: list[int] | None = None
) -> dict[int, Measurement]:
    """Return times on a line: samples scatter by ``noise``, and each size as a whole lies off by about ``misfit``."""
    draw = np.random.default_rng(seed)
    times = {}
    for size in sizes or SIZES:
        level = (ALPHA + BETA * size) * (1 + misfit * draw.normal())
        times[size] = Measurement(f"message of {size} B", tuple(level * (1 + noise * draw.normal(size=rounds))), "s")
    return times


ROUNDS = 20


def made_steps(seconds: dict[str, float], noise: float = 0.005, marked: tuple[str, ...] = ()) -> dict[str, Measurement]:
    """Return steps of about these seconds that took turns; those of ``marked`` names had to share cores."""
    draw = np.random.default_rng(0)
    return {
        name: Measurement(
            name,
            tuple(value * np.exp(noise * draw.normal(size=ROUNDS))),
            "s",
            {
                "interleaved_with": [other for other in seconds if other != name],
                "oversubscribed": name in marked,
                "cpu_per_wall": 0.99,
            },
        )
        for name, value in seconds.items()
    }


def made_scaling(way: Way, seconds: dict[int, float], noise: float = 0.005, cores: int = 64) -> Scaling:
    marked = tuple(str(count) for count in seconds if count > cores)
    steps = made_steps({str(count): value for count, value in seconds.items()}, noise, marked)
    return Scaling(way, "mlp", 8, {int(count): one for count, one in steps.items()})
