"""What each process of `launch` runs: it joins the others, calls the function asked for, and writes the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tinytorch.perf.distributed.ranks.communicator import Communicator, world
from tinytorch.perf.distributed.ranks.value_files import read_values, write_values
from tinytorch.perf.distributed.ranks.watch import watched
from tinytorch.perf.host.blas import ThreadSwitch
from tinytorch.perf.host.pinned_threads import allowed_cores, pin
from tinytorch.perf.measuring.processes import function_at


def pin_rank(communicator: Communicator) -> None:
    """Keep this process on one core of its own, or, where a host has more ranks than cores, on one of them.

    `launch` asks for it only where `team.may_pin` says so.

    Raises:
        OSError: if the system does not let it.
    """
    place = communicator.places[communicator.rank]
    neighbours = [other.rank for other in communicator.places if other.host == place.host]
    cores = allowed_cores()
    pin([cores[neighbours.index(communicator.rank) % len(cores)]])


def main(folder: Path) -> None:
    """Do what ``folder`` asks for; `watched` ends the run if that fails."""
    request: dict[str, Any] = read_values(folder / "request")
    asked = request.pop("/launch")
    communicator = world()
    if communicator.size != asked["ranks"]:
        raise SystemExit(
            f"mpiexec started groups of {communicator.size} ranks, not {asked['ranks']}: it belongs to another MPI "
            "than the one that mpi4py loads"
        )
    if asked["pinned"]:
        pin_rank(communicator)
    with watched(communicator, folder, asked["longest"]):
        program = function_at(asked["program"])
        # After that import, which may load another BLAS; not by perf.timing, whose imports take a second.
        ThreadSwitch().set(asked["threads"])
        values = program(communicator, **request)
        write_values(folder / f"rank-{communicator.rank}.result", {} if values is None else values)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
