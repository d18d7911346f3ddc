"""Prepare photographs for a model: pixels of eight bits become numbers around zero."""

import numpy as np

from tinytorch.core.op import Array

MEAN, DEVIATION = 0.45, 0.22


def prepared(pixels: Array) -> Array:
    """Return the pixels, scaled to 0 to 1, less a mean and over a deviation."""
    scaled = pixels / 255
    centred = (scaled - MEAN) / DEVIATION
    return centred.astype(np.float32)


def prepared_in_floats(pixels: Array) -> Array:
    """Return the same from one product and one sum, both in float32."""
    ready = np.multiply(pixels, np.float32(1 / 255 / DEVIATION), dtype=np.float32)
    ready -= np.float32(MEAN / DEVIATION)
    return ready


def photographs() -> Array:
    """Return pixels of 32 photographs that nobody took."""
    return np.random.default_rng(0).integers(0, 256, (32, 3, 224, 224), np.uint8)


if __name__ == "__main__":
    taken = photographs()
    for _ in range(20):
        prepared(taken)
