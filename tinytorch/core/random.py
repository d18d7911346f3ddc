"""Sources of random numbers: a seed, a generator, or the process's own generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Seed = int | np.random.Generator | None

#: Numbers that are drawn at a time.
_STRETCH = 1 << 18
_shared = np.random.default_rng(0)


def manual_seed(seed: int) -> None:
    """Restart the generator that is used where no seed is given."""
    _shared.bit_generator.state = np.random.default_rng(seed).bit_generator.state


def uniform(generator: np.random.Generator, bound: float, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return float32 numbers drawn evenly from -``bound`` to ``bound``, of ``shape``.

    They are drawn as float64, a stretch at a time: as many numbers at once would take three times the memory.
    """
    drawn = np.empty(shape, np.float32)
    flat = drawn.reshape(-1)
    for start in range(0, flat.size, _STRETCH):
        part = flat[start : start + _STRETCH]
        part[:] = generator.uniform(-bound, bound, part.size)
    return drawn


def generator_from(seed: Seed) -> np.random.Generator:
    """Return a generator: a new one from an integer, the given one, or the process's own for None."""
    if seed is None:
        return _shared
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
