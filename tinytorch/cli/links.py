"""``tinytorch links``: what messages and collectives take between ranks, as alpha + beta x bytes."""

import argparse
from typing import Any

from tinytorch.cli.usage import Parser, UsageError, check_folder, sizes
from tinytorch.perf.distributed.collectives.link_fit import BECAUSE, FEWEST_SIZES, TOLERANCE, fit_pieces
from tinytorch.perf.distributed.collectives.measured import (
    COLLECTIVES,
    SIZES,
    Collectives,
    measure_collectives,
    measure_collectives_on,
)
from tinytorch.perf.distributed.ranks.collective_ops import MPIMissingError
from tinytorch.perf.distributed.ranks.communicator import world
from tinytorch.perf.distributed.ranks.launch import started_by_launcher
from tinytorch.perf.host.identity import machine_label
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Derived
from tinytorch.report import tables

_BYTES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))
_HEADINGS = {
    "name": "Messages",
    "alpha": "Alpha",
    "bandwidth": "1 / beta",
    "smallest": "From",
    "largest": "To",
    "worst": "Farthest off",
}


def add(links: Parser) -> None:
    """Add the command's options to its parser."""
    links.add_argument("--ranks", type=int, metavar="N", help="number of ranks to start (default 1 per core)")
    links.add_argument(
        "--sizes", metavar="BYTES", help="message sizes in bytes, such as 8,1024,1048576 (default 8 bytes to 2 MiB)"
    )
    links.add_argument(
        "--at-most-seconds",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="time limit for the samples, in seconds (default 10)",
    )
    links.add_argument("--json", metavar="FILE", help="write all samples as JSON")
    links.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    check_folder("json", chosen.json)
    asked = SIZES if chosen.sizes is None else sizes("--sizes", chosen.sizes)
    if len(asked) < FEWEST_SIZES:
        raise UsageError(
            f"--sizes needs at least {FEWEST_SIZES} sizes to fit a line, such as 8,64,512, not {len(asked)}"
        )
    try:
        collectives = _measured(chosen, asked)
    except MPIMissingError as error:
        raise UsageError(str(error)) from None
    if collectives is None:
        return
    if chosen.json:
        COLLECTIVES.write(chosen.json, collectives, machine_label())
    _print(collectives)


def _measured(chosen: argparse.Namespace, asked: tuple[int, ...]) -> Collectives | None:
    """Return what was measured; None on all ranks that mpiexec started but the first."""
    if not started_by_launcher():
        ranks = len(usable_cores()) if chosen.ranks is None else chosen.ranks
        return measure_collectives(ranks, asked, at_most_seconds=chosen.at_most_seconds)
    if chosen.ranks is not None:
        raise UsageError("--ranks cannot be combined with mpiexec, whose option -n sets the number of ranks")
    communicator = world()
    found = measure_collectives_on(communicator, asked, at_most_seconds=chosen.at_most_seconds)
    return found if communicator.rank == 0 else None


def _print(collectives: Collectives) -> None:
    hosts = f"{collectives.hosts} hosts" if collectives.hosts > 1 else "1 host"
    about = f"{collectives.ranks} ranks on {hosts}, {collectives.library}"
    if collectives.oversubscribed:
        print(f"{about}\nNo line was fitted: {BECAUSE}.")
        return
    caption = (
        f"{about}: alpha + beta x bytes, with 95 % intervals, for ranges of sizes. If a median time differs by more "
        f"than {TOLERANCE:.0%}, or if beta is not known, use the times themselves."
    )
    columns, cells = tables.declared(_rows(collectives), _HEADINGS, "links", quoted=(), totals={})
    print(tables.to_text(cells, columns, caption=caption))


def _rows(collectives: Collectives) -> list[dict[str, Any]]:
    """Return the line of each measured kind and range of sizes, and how far off the worst median is.

    It has no bandwidth if the rounds do not tell what a byte costs.
    """
    rows = []
    for link in (link for kind in collectives.kinds for link in fit_pieces(collectives.of(kind))):
        smallest, largest = map(_in_words, link.sizes)
        off = Derived(link.worst, "%", "distance from the line", (link.alpha, link.beta), "it is a largest one")
        line = {"name": link.name, "alpha": link.alpha, "bandwidth": link.bandwidth}
        rows.append(line | {"smallest": smallest, "largest": largest, "worst": off})
    return rows


def _in_words(size: int) -> str:
    """Return bytes in powers of 1,024, with three digits."""
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"
