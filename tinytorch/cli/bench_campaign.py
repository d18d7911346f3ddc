"""``tinytorch bench --mpi``: the same suite, its processes spread over the ranks of MPI."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from tinytorch.cli.usage import UsageError
from tinytorch.perf.benchmarking import Results, load_results
from tinytorch.perf.distributed.campaigns.campaign import (
    Campaign,
    CampaignSide,
    join_campaign,
    start_campaign,
    started_by_launcher,
)
from tinytorch.perf.distributed.campaigns.stations import default_workers
from tinytorch.perf.distributed.ranks.launch import RankError
from tinytorch.perf.distributed.ranks.mpi import MPIMissingError

#: Exit code where a process failed and stays open.
OPEN = 1
Progress = Callable[[int, int], None]


def add(bench: argparse.ArgumentParser) -> None:
    """Add the options of campaigns to those of ``bench``."""
    bench.add_argument(
        "--mpi",
        action="store_true",
        help="spread the processes over ranks of MPI, each kept on cores of its own if it may: those that mpiexec -n N "
        "or a scheduler started, of which one hands out, or else new ones on this machine; each machine measures all "
        "--processes and has a file of its own",
    )
    bench.add_argument(
        "--workers", type=int, metavar="N", help="ranks that measure, if --mpi starts them (default one a core)"
    )


def measure(
    chosen: argparse.Namespace,
    sides: Callable[[], Sequence[CampaignSide]],
    progress: Callable[[], AbstractContextManager[Progress | None]],
    show: Callable[[Results], None],
) -> int:
    """Run the campaign, print the results of each machine on rank 0, and return the exit code.

    Args:
        sides: what to measure; called where the files are. progress: gives a function that shows how far it is.
        show: prints the results of one machine.
    """
    try:
        with progress() as told:
            campaign = _campaign(chosen, sides, told)
    except MPIMissingError as error:
        raise UsageError(str(error)) from None
    except RankError as error:
        raise UsageError(f"{error}; --resume goes on with what is in {chosen.json}") from None
    return 0 if campaign is None else _told(campaign, show)


def _campaign(
    chosen: argparse.Namespace, sides: Callable[[], Sequence[CampaignSide]], told: Progress | None
) -> Campaign | None:
    if not started_by_launcher():
        made = sides()
        workers = default_workers(chosen.threads) if chosen.workers is None else chosen.workers
        return start_campaign(made, workers, told)

    def checked() -> Sequence[CampaignSide]:
        if chosen.workers is not None:
            raise ValueError(
                "--workers is for ranks that --mpi starts: mpiexec's -n, one more, says how many there are"
            )
        return sides()

    return join_campaign(checked, told)


def _told(campaign: Campaign, show: Callable[[Results], None]) -> int:
    for machine in campaign.machines:
        if len(campaign.machines) > 1:
            print(f"{machine.name}: {', '.join(machine.hosts)}")
        if machine.done:
            show(load_results(machine.paths[0]))
            print(f"kept in {', '.join(map(str, machine.paths))}")
    for failure in campaign.failures:
        print(f"tinytorch bench: {failure}", file=sys.stderr)
    if campaign.complete:
        return 0
    print("tinytorch bench: --resume measures what is left open", file=sys.stderr)
    return OPEN
