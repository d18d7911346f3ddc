"""Where random numbers come from: a seed, a generator, or the process's own generator."""

from __future__ import annotations

import numpy as np

Seed = int | np.random.Generator | None

_shared = np.random.default_rng(0)


def manual_seed(seed: int) -> None:
    """Restart the generator that is used where no seed is given."""
    global _shared
    _shared = np.random.default_rng(seed)


def generator_from(seed: Seed) -> np.random.Generator:
    """Return a generator: a new one from an integer, the given one, or the process's own for None."""
    if seed is None:
        return _shared
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
