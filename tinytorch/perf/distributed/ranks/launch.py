"""Launch: run a function on several ranks of this machine, in processes of their own, and return what each returned."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from tinytorch.perf.distributed.ranks import rank_process
from tinytorch.perf.distributed.ranks.collective_ops import MPIMissingError
from tinytorch.perf.distributed.ranks.watch import FAILURE, read_states
from tinytorch.perf.host.pinned_threads import may_pin, usable_cores
from tinytorch.perf.measuring.atomic_io import read_values, write_values
from tinytorch.perf.measuring.fresh import reference_to

#: Runs on each rank. Takes the communicator and the launch's arguments by name; returns values by name.
Program = Callable[..., Mapping[str, Any] | None]
#: Variables by which the launchers of MPI and of schedulers tell a process what it is: Hydra (MPICH, Intel MPI, Slurm's
#: PMI-2), PMIx, Open MPI, Cray's PALS, and a step of Slurm.
_LAUNCHERS = ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_STEP_ID")
#: Seconds for which a killed process may still be in the system's table.
_GOODBYE = 5.0


def started_by_launcher() -> bool:
    """Return whether mpiexec, or the like of a scheduler, started this process."""
    return any(name in os.environ for name in _LAUNCHERS)


class RankError(RuntimeError):
    """A rank failed, died or did not end in time. The message names the rank and its last op; ``trace`` has its stack.

    Examples:
        >>> from tinytorch.perf.distributed import RankError
        >>> raise RankError("rank 1 died in all_reduce")
        Traceback (most recent call last):
        tinytorch.perf.distributed.ranks.launch.RankError: rank 1 died in all_reduce
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def mpiexec() -> str:
    """Return the path of mpiexec: the one beside this Python, which a wheel brought, or else the first on the path.

    Raises:
        MPIMissingError: if there is neither.
    """
    beside = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("mpiexec")
    if found is None:
        raise MPIMissingError(
            "mpiexec is neither next to this Python nor on the path: run `pip install mpich`, or load the MPI module "
            "of the cluster"
        )
    return found


def launch(
    program: Program,
    ranks: int,
    arguments: Mapping[str, Any] | None = None,
    *,
    timeout: float = 300.0,
    longest_wait: float = 30.0,
    threads: int | None = None,
    pinned: bool = False,
) -> list[dict[str, Any]]:
    """Run ``program`` on ``ranks`` processes and return their results, in the order of ranks.

    Arguments and results travel in files, arrays as npz and all else as JSON, in which a tuple becomes a list. What the
    program prints is kept for the error, if there is one.

    Args:
        program: a function at the top level of a module that a new process can import.
        arguments: passed to it by name, after the `Communicator`.
        timeout: seconds for the whole run, after which everything is killed.
        longest_wait: seconds that a rank may keep the others waiting; see `watch.watched`.
        threads: of BLAS on each rank; by default the usable cores shared out, at least one.
        pinned: keep each rank on one core, where that is possible and harms no others; elsewhere the system moves them.

    Raises:
        ValueError: if ``program`` cannot be imported by name, or a number is out of range.
        TypeError: if an argument is neither an array nor what JSON can hold.
        MPIMissingError: if there is no mpiexec.
        RankError: if a rank fails, dies, hangs, or the time is over.

    Examples:
        >>> from tinytorch.perf.distributed import launch
        >>> launch(lambda communicator: {"rank": communicator.rank}, ranks=2)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: program must be a function at the top level of a module ...
    """
    each = max(1, len(usable_cores()) // max(1, ranks)) if threads is None else threads
    if ranks < 1 or each < 1 or not timeout > 0:
        raise ValueError(f"ranks and threads must be at least 1 and timeout above 0, not {ranks}, {each} and {timeout}")
    asked = {
        "program": reference_to("program", program),
        "ranks": ranks,
        "threads": each,
        "pinned": pinned and may_pin(),
        "longest": longest_wait,
    }
    command = [mpiexec(), "-n", str(ranks), sys.executable, rank_process.__file__]
    with TemporaryDirectory(prefix="ranks-") as name:
        folder = Path(name)
        write_values(folder / "request", {**(arguments or {}), "/launch": asked})
        code, printed = _run([*command, name], folder / "printed", timeout)
        _end_ranks(folder)
        if code != 0:
            raise _error(folder, code, printed, timeout)
        try:
            return [read_values(folder / f"rank-{rank}.result") for rank in range(ranks)]
        except FileNotFoundError as error:
            raise RankError(f"a rank left no result although the run ended well: {error}; {printed}") from None


def _run(command: list[str], printed: Path, timeout: float) -> tuple[int | None, str]:
    """Return the exit code of mpiexec, None if it had to be killed, and what it and the ranks printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with printed.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment)
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _kill_tree(process)
    return code, printed.read_text("utf-8", errors="replace")


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a process and of all that it started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
    process.wait()


def _end_ranks(folder: Path) -> None:
    """Kill ranks that outlived their mpiexec, and return when they are gone."""
    left = []
    for state in read_states(folder).values():
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(state.process)
            if str(folder) in process.cmdline():  # and not another process that got its number
                process.kill()
                left.append(process)
    psutil.wait_procs(left, timeout=_GOODBYE)


def _error(folder: Path, code: int | None, printed: str, timeout: float) -> RankError:
    """Return why a run ended badly: what was noted of a rank, with the states that ranks last wrote."""
    states = read_states(folder)
    each = "; ".join(f"{state.name}: {state.told()}" for state in states.values()) or "no rank began"
    if code is None:
        return RankError(f"the run did not end within {timeout:g} s and was killed: {each}", printed)
    notes = {folder / f"killed-{state.process}": state for state in states.values()}
    found = [path for path in (*notes, folder / FAILURE) if path.exists()]
    if not found:
        return RankError(f"the run ended with exit code {code}: {each}", printed)
    cause = min(found, key=lambda path: path.stat().st_mtime_ns)  # the others are what came of it
    if cause in notes:
        name, state = signal.Signals(int(cause.read_text("utf-8"))).name, notes[cause]
        return RankError(f"{state.name} died of {name}; the state that it last wrote: {state.told()}", printed)
    told = json.loads(cause.read_text("utf-8"))
    return RankError(told["message"], told.get("trace", ""))
