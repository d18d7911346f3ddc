"""Process of one rank of `launch`: a supervisor that notes the signal which its rank dies of, and the rank itself.

When a process dies, mpiexec kills all others at once and reports any of them. The supervisor's note is written before
mpiexec can know. It is run by this file's path and imports nothing but the standard library; the rank is its child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def supervise(folder: Path) -> int:
    """Run the rank to its end; return its exit code."""
    command = [sys.executable, "-m", "tinytorch.perf.distributed.ranks.rank_process", str(folder), "rank"]
    child = subprocess.Popen(command, close_fds=False)  # which needs what mpiexec gave this process to talk through
    code = child.wait()
    if code >= 0:
        return code
    aside = folder / f".killed-{child.pid}.part"
    aside.write_text(str(-code), "utf-8")
    os.replace(aside, folder / f"killed-{child.pid}")
    return 128 - code


def run_rank(folder: Path) -> None:
    """Join the others, call what ``folder`` asks for and write its result; `watched` ends the run if that fails."""
    from tinytorch.perf.distributed.ranks.communicator import world
    from tinytorch.perf.distributed.ranks.watch import watched
    from tinytorch.perf.host.blas import ThreadSwitch
    from tinytorch.perf.host.pinned_threads import allowed_cores, pin
    from tinytorch.perf.measuring.atomic_io import read_values, write_values
    from tinytorch.perf.measuring.fresh import function_at

    arguments = read_values(folder / "request")
    asked = arguments.pop("/launch")
    communicator = world()
    if communicator.size != asked["ranks"]:
        raise SystemExit(
            f"mpiexec started groups of {communicator.size} ranks, not {asked['ranks']}: it belongs to another MPI "
            "than the one that mpi4py loads"
        )
    if asked["pinned"]:  # to a core of its own, or, where a host has more ranks than cores, to one of them
        here = communicator.places[communicator.rank].host
        before = sum(other.host == here for other in communicator.places[: communicator.rank])
        pin([(cores := allowed_cores())[before % len(cores)]])
    with watched(communicator, folder, asked["longest"]):
        program = function_at(asked["program"])
        # After that import, which may load another BLAS; not by perf.timing, whose imports take a second.
        ThreadSwitch().set(asked["threads"])
        values = program(communicator, **arguments)
        write_values(folder / f"rank-{communicator.rank}.result", {} if values is None else values)


if __name__ == "__main__":
    if sys.argv[2:] == ["rank"]:
        run_rank(Path(sys.argv[1]))
    else:
        sys.exit(supervise(Path(sys.argv[1])))
