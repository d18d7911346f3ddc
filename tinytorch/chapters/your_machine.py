"""The roofs of the book's machine, beside which a reader sets another, and four operations below them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tinytorch.chapters import calls
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.measuring import Counted, Measurement
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


@dataclass(frozen=True)
class Roof:
    """What does ``of`` "arithmetic" or holds "memory": its rate at most, for so many threads, and its reported size."""

    roof: str
    threads: int
    of: str
    rate: Measurement
    holds: Counted | None = None


def roof_rows(made: Iterable[Ceilings]) -> Iterator[Roof]:
    """Yield the flat roofs of each of the ceilings, and the best bandwidth of each level of its memory."""
    for one in made:
        yield Roof("FP32", one.threads, "arithmetic", one.fp32_peak)
        yield Roof("INT8", one.threads, "arithmetic", one.int8_peak)
        for level in one.levels:
            yield Roof(level.name, one.threads, "memory", best_bandwidth(level), reported(level))
