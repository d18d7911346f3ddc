"""What the tests of the page's steps run on several ranks, as new processes import it by name."""

from __future__ import annotations

from typing import Any

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_recording import record_on_rank
from tinytorch.perf.distributed.ranks.communicator import Communicator

#: Number of ranks, examples of all, and how gradients are summed.
CASES: list[step_programs.Case] = [
    (1, 8, None),
    (2, 8, {}),
    (1, 4, None),
    (2, 8, {"bucket_bytes": 2**16, "overlap": True}),
    (2, 8, None),
]


def measure(pair: Communicator) -> dict[str, Any]:
    """Return what two ranks time, weigh and record of steps."""
    return {
        "times": step_programs.step_times(pair, "mlp", CASES, repeats=6, at_most_seconds=1e-9),
        "memory": step_programs.kept_memory(pair, "mlp", 7),
        **record_on_rank(pair, "mlp", 8, steps=2, burdened=1, products=1),
    }
