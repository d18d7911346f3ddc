"""What the tests of the page's steps run on several ranks, as new processes import it by name."""

from typing import Any

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_recording import record_on_rank
from tinytorch.perf.distributed.ranks.communicator import Communicator


def measure(pair: Communicator) -> dict[str, Any]:
    """Return what two ranks weigh, compare and record of steps."""
    memory = step_programs.kept_memory(pair, "mlp", 7)
    return {**memory, **record_on_rank(pair, "mlp", 8, steps=2, burdened=1, products=1)}
