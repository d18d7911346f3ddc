"""Times of messages whose truth is known."""

import numpy as np

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
