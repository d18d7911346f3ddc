"""Numbers that tests of several rooms draw."""

import numpy as np

from tinytorch.core.op import Array


def drawn(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of a normal distribution."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)
