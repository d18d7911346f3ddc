"""Sentences of the course on products, loops and copies, tested as it says them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tinytorch.perf.acceleration import products
from tinytorch.perf.measuring import Counted, Measurement, interleave, ratio

#: Rows, inputs and outputs of the layer that the course writes in loops and as a product; numbers that it adds.
_LAYER, _ADDED = (32, 128, 64), 1000
#: Elements of the list that the course copies three times.
_COPIED = 5000


def study_sentences() -> tuple[Measurement, Measurement, Measurement]:
    """Return what the course's examples gain, as it writes them: a product and a sum over loops, a list over copies."""
    plan: dict[str, Any] = {"repeats": 12, "at_most_seconds": 0.5, "warmup_seconds": 0.05}
    layer, added, copied = (interleave(runs, **plan) for runs in (_layer, _added, _copied))
    return (
        ratio(layer["loops"], layer["product"], "loops over a product, 32 × 128 by 128 × 64, in time"),
        ratio(added["loop"], added["sum"], "a loop over one sum of arrays, 1,000 numbers, in time"),
        ratio(copied["with copies"], copied["list"], "a list and three copies over the list, in time"),
    )


def _layer() -> dict[str, Callable[[], Any]]:
    rows, inner, columns = _LAYER
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, inner), dtype=np.float32)
    weight = draw.standard_normal((inner, columns), dtype=np.float32)
    return {
        "loops": partial(products.array_element_loops, x, weight),
        "product": partial(products.vectorized_matmul, x, weight),
    }


def _added() -> dict[str, Callable[[], Any]]:
    a, b = np.random.default_rng(0).standard_normal((2, _ADDED))

    def loop() -> Any:
        result = np.zeros(_ADDED)
        for i in range(_ADDED):
            result[i] = a[i] + b[i]
        return result

    return {"loop": loop, "sum": lambda: a + b}


def _copied() -> dict[str, Callable[[], Any]]:
    def made() -> list[int]:
        return [i for i in range(_COPIED)]  # noqa: C416 - as the course writes it

    def with_copies() -> list[int]:
        return made().copy().copy().copy()

    return {"list": made, "with copies": with_copies}


#: What definitions and shapes decide of the course's other sentences.
LINE_NUMBERS = Counted(16, "numbers", "float32 of a cache line")
SQUARE_TILE = Counted(4 * 64 * 64, "B", "bytes of a tile of 64 × 64 float32")
INTENSITY = Counted(1024 / 6, "FLOP/B", "2 n³ operations over 3 n² numbers of four bytes, n = 1,024")
MOVED = Counted(3 * 4 * 1024**2, "B", "three matrices 1,024 wide")
