"""The reference: a fixed piece of work beside which a run's times are taken, so that separate runs can be compared."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: What the reference is called among the functions that take turns; no variant may have this name.
REFERENCE = "(reference)"
_STEPS = 800


def reference_work() -> Callable[[], None]:
    """Return a function of some hundred microseconds: a float32 product, operations on its result, a Python loop.

    What it computes is of no use. It belongs to no model, so that a change of the code under test does not move it;
    what the machine does to all programs, such as another clock or a busy neighbour, does.
    """
    draw = np.random.default_rng(0)
    left, right = draw.random((64, 256), dtype=np.float32), draw.random((256, 256), dtype=np.float32)
    product, rest = np.empty((64, 256), np.float32), np.empty((64, 256), np.float32)

    def work() -> None:
        np.matmul(left, right, out=product)
        np.maximum(product, 0, out=rest)
        np.sqrt(rest, out=rest)
        np.add(rest, product, out=rest)
        sum(range(_STEPS))

    return work
