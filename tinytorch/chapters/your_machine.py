"""The roofs of the book's machine, beside which a reader sets another, and four operations below them."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tinytorch.chapters import calls
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.roofline.bounds import best_bandwidth, reported
from tinytorch.perf.roofline.placement import Placed, place_call


def roofs() -> list[Ceilings]:
    """Return the ceilings of one thread and, where this process may use several cores, those of all of them."""
    cores = identity().cores_usable
    return [ceilings(threads) for threads in ((1, cores) if cores > 1 else (1,))]


def placed_operations(one: Ceilings, width: int = 1024) -> list[Placed]:
    """Return four operations on matrices that are ``width`` wide, placed under the ceilings of one thread."""
    draw = np.random.default_rng(0)

    def array(*shape: int) -> Tensor:
        return Tensor(draw.standard_normal(shape, dtype=np.float32))

    a, b, row = array(width, width), array(width, width), array(1, width)
    runs = {
        "add": lambda: apply(ops.add, a, b),
        "GELU": lambda: apply(ops.gelu, a),
        "matrix × vector": lambda: apply(ops.matmul, row, a),
        "matrix × matrix": lambda: apply(ops.matmul, a, b),
    }
    return [calls.on_a_million(place_call(name, run, one)) for name, run in runs.items()]


def roof_rows(made: Iterable[Ceilings]) -> Iterator[dict[str, Any]]:
    """Yield the roofs of each of the ceilings as rows: what does arithmetic or holds memory, and its rate at most.

    The rate is that of so many threads; what holds memory has the size that the system reports.
    """
    for one in made:
        for name, peak in (("FP32", one.fp32_peak), ("INT8", one.int8_peak)):
            yield {"roof": name, "threads": one.threads, "of": "arithmetic", "rate": peak, "holds": None}
        for level in one.levels:
            rate, holds = best_bandwidth(level), reported(level)
            yield {"roof": level.name, "threads": one.threads, "of": "memory", "rate": rate, "holds": holds}
