"""Sentences of the course on products and loops, tested as it says them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tinytorch.perf.acceleration import products
from tinytorch.perf.measuring import Counted, Measurement, interleave, ratio

#: Rows, inputs and outputs of the layer that the course writes in loops and as a product.
_LAYER = (32, 128, 64)


def study_layer() -> Measurement:
    """Return how fast the course's layer is as a product, compared with loops of Python."""
    times = interleave(_layer, repeats=12, at_most_seconds=0.5, warmup_seconds=0.05)
    return ratio(times["loops"], times["product"], "loops over a product, 32 × 128 by 128 × 64, in time")


def _layer() -> dict[str, Callable[[], Any]]:
    rows, inner, columns = _LAYER
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, inner), dtype=np.float32)
    weight = draw.standard_normal((inner, columns), dtype=np.float32)
    return {
        "loops": partial(products.array_element_loops, x, weight),
        "product": partial(products.vectorized_matmul, x, weight),
    }


#: What definitions and shapes decide of the course's other sentences.
LINE_NUMBERS = Counted(16, "elements", "float32 in a cache line")
SQUARE_TILE = Counted(4 * 64 * 64, "B", "bytes of a tile of 64 × 64 float32")
INTENSITY = Counted(1024 / 6, "FLOP/B", "2 n³ operations over 3 n² elements of four bytes, n = 1,024")
MOVED = Counted(3 * 4 * 1024**2, "B", "three matrices 1,024 wide")
