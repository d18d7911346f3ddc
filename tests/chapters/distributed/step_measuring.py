"""What the tests of the page's steps run on several ranks, as new processes import it by name."""

from __future__ import annotations

from typing import Any

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_recording import record_on_rank
from tinytorch.perf.distributed.ranks.communicator import Communicator


def measure(pair: Communicator) -> dict[str, Any]:
    """Return what two ranks time, weigh and record of steps."""
    plan: dict[str, Any] = {"repeats": 6, "at_most_seconds": 1e-9, "fewest": 6, "seed": 0}
    return {
        "scaling": step_programs.scaling_times(pair, "mlp", 8, [1, 2], weak=False, **plan),
        "overlap": step_programs.overlap_times(pair, "mlp", 8, 2**16, **plan),
        "memory": step_programs.kept_memory(pair, "mlp", 7),
        **record_on_rank(pair, "mlp", 8, steps=2, bucket_bytes=2**14, products=1, burdened=1, seed=3),
    }
