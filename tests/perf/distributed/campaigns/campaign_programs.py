"""What the ranks of a campaign run in a test: themselves, but processes that answer at once instead of measuring."""

from __future__ import annotations

from typing import Any

from tinytorch.perf.distributed.campaigns import campaign, campaign_worker
from tinytorch.perf.distributed.ranks.communicator import Communicator

_REAL = campaign.take_part


def take_part(communicator: Communicator, sides: list[Any], told: str) -> dict[str, Any] | None:
    """Take part in a campaign whose processes are `made_worker`'s."""
    campaign_worker.PREPARATION_MODULE = "tests.perf.distributed.campaigns.made_worker"
    if communicator.rank == 0:
        from tinytorch.perf.benchmarking import running  # rank 0 alone imports it

        running.WORKER_MODULE = "tests.perf.distributed.campaigns.made_worker"
    return _REAL(communicator, sides, told)
