"""Campaigns: a benchmark whose processes are spread over the ranks of MPI, kept apart by machine.

What is compared with one another must be measured on the same core in turns. So what a worker is given is never a
variant but a whole turn: a fresh process in which all variants of the suite take turns, and with a base one process of
the change and one of the base, in an order drawn for the turn. One turn runs at a time on a worker's cores, and the
worker keeps it there. A run's processes may lie on different cores: each holds all variants, so that what differs
between cores is in all of them alike, and the process is what intervals count.

Each machine measures a whole run of its own, ``processes`` of it in all, by as many workers as it has. Machines are
told apart by what `Results.fingerprint` holds: hosts that are alike in all of it count as one machine. Results of
different machines go to different files and are never pooled. The workers of a host measure at the same time and are
one another's neighbours, so their number belongs to the conditions: a run is not resumed with another one, and a
comparison of runs that differ in it warns. With more workers than cores all times of that host are marked and support
no verdict.

Rank 0 hands out turns and writes the files, each whole, after each turn; it measures nothing. Tasks and answers are
JSON, not pickles.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tinytorch.perf.distributed.campaigns.json_messages import speak_json
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.mpi import load_mpi
from tinytorch.perf.measuring.atomic_io import write_whole

if TYPE_CHECKING:
    from tinytorch.perf.benchmarking.results import Plan

Json = dict[str, Any]
#: Called with the processes that are done and planned.
Progress = Callable[[int, int], None]
#: Variables by which the launchers of MPI and of schedulers tell a process what it is: Hydra (MPICH, Intel MPI, Slurm's
#: PMI-2), PMIx, Open MPI, Cray's PALS, and a step of Slurm.
_LAUNCHERS = ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_STEP_ID")
#: Seconds between two looks of a process that has nothing to do, mpi4py's own being so short that they would disturb.
_BACKOFF = 0.02
#: Seconds for a campaign that this process starts, a month; and without a sign of life from a rank.
_LONGEST, _SILENT = 30 * 86400.0, 120.0


@dataclass(frozen=True)
class CampaignSide:
    """What a campaign measures.

    Attributes:
        plan: of the run that each machine makes.
        code: of the package, as `Results.code` has it.
        path: where the results are kept; with several machines the name of each stands before the ending.
        folder: a checkout that holds the folder ``tinytorch``; None is the package that is imported.
        resume: whether to go on with what is in the file, if there is one.
    """

    plan: Plan
    code: Json
    path: Path
    folder: Path | None = None
    resume: bool = False


@dataclass(frozen=True)
class Machine:
    """One machine of a campaign.

    Attributes:
        name: made of its CPU, cores and fingerprint. hosts: those that are this machine.
        workers: of all its hosts.
        paths: the file of each side's results; it is there if ``done`` is above 0.
        done, planned: processes of all sides.
    """

    name: str
    hosts: tuple[str, ...]
    workers: int
    paths: tuple[Path, ...]
    done: int
    planned: int


@dataclass(frozen=True)
class Campaign:
    """What a campaign has measured, and a sentence for each process that failed, which stays open for a resumption."""

    machines: tuple[Machine, ...]
    failures: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether all that was planned is measured."""
        return all(machine.done >= machine.planned for machine in self.machines)


def started_by_launcher(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether mpiexec, or the like of a scheduler, started this process."""
    return any(name in environment for name in _LAUNCHERS)


def join_campaign(sides: Callable[[], Sequence[CampaignSide]], progress: Progress | None = None) -> Campaign | None:
    """Take part in a campaign as one of the ranks that mpiexec started; return it on rank 0 and None on the others.

    Also works under ``python -m mpi4py.futures``, where only rank 0 calls this.

    Args:
        sides: returns what to measure; called on rank 0 alone, which alone has to see the files.
        progress: called on rank 0 after each turn.

    Raises:
        MPIMissingError: if mpi4py or an MPI library is not there.
        ValueError: if there is one rank only; on rank 0 also if a run cannot be resumed, a worker has another version
            of the package, or the subject cannot be used.
    """
    world = load_mpi().COMM_WORLD
    if world.Get_size() < 2:
        raise ValueError(
            "a campaign needs a rank to hand out and one at least to measure, but this is the only one: "
            "mpiexec -n 3 starts two that measure; if it did, it belongs to another MPI than mpi4py's"
        )
    return _spread(world, sides, progress)


def start_campaign(sides: Sequence[CampaignSide], workers: int, progress: Progress | None = None) -> Campaign:
    """Start ranks on this machine, ``workers`` and one that hands out, and return their campaign.

    Raises:
        MPIMissingError: if mpi4py, an MPI library or mpiexec is not there.
        ValueError: as `join_campaign` does, or if ``workers`` is below 1.
        RankError: if a rank dies; what was measured has been kept.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    if find_spec("mpi4py") is None:
        load_mpi()  # says what to install; where mpi4py is there, MPI is not for this process to start
    with TemporaryDirectory(prefix="campaign-") as name:
        told = Path(name) / "progress.json"
        asked = [
            {**asdict(side), "path": str(side.path.absolute()), "folder": side.folder and str(side.folder.absolute())}
            for side in sides
        ]
        with _following(told, progress):
            found = launch(
                take_part,
                workers + 1,
                {"sides": asked, "told": str(told)},
                timeout=_LONGEST,
                longest_wait=_SILENT,
                threads=1,
            )[0]
    if "error" in found:
        raise ValueError(found["error"])
    machines = [
        Machine(**{**each, "hosts": tuple(each["hosts"]), "paths": tuple(map(Path, each["paths"]))})
        for each in found["machines"]
    ]
    return Campaign(tuple(machines), tuple(found["failures"]))


def take_part(communicator: Communicator, sides: list[Json], told: str) -> Json | None:
    """Be one of the ranks that `start_campaign` starts; return, on rank 0, the campaign or what is wrong."""

    def tell(done: int, planned: int) -> None:
        write_whole(told, json.dumps([done, planned]))

    def made() -> list[CampaignSide]:
        from tinytorch.perf.benchmarking.results import plan_from_json  # what a worker need not import

        return [
            CampaignSide(
                plan_from_json(each["plan"]),
                each["code"],
                Path(each["path"]),
                None if each["folder"] is None else Path(each["folder"]),
                each["resume"],
            )
            for each in sides
        ]

    try:
        campaign = _spread(communicator.raw, made, tell)
    except ValueError as error:
        return {"error": str(error)}
    if campaign is None:
        return None
    return {
        "machines": [{**asdict(each), "paths": [str(path) for path in each.paths]} for each in campaign.machines],
        "failures": campaign.failures,
    }


def _spread(raw: Any, sides: Callable[[], Sequence[CampaignSide]], progress: Progress | None) -> Campaign | None:
    """Return the campaign on rank 0; on the others do what it asks for until it is over, and return None."""
    from mpi4py.futures import MPICommExecutor  # which starts MPI

    with MPICommExecutor(raw, root=0, initializer=speak_json, backoff=_BACKOFF, main=False) as entered:
        executor: Any = entered  # its type there is not that of what it gives
        if executor is None:
            return None
        if not executor.num_workers:  # known once all have started
            raise RuntimeError("the workers of the campaign did not start: the package cannot be imported there")
        speak_json()
        # Rank 0 alone needs what this imports: a worker's memory and start are a cost for each core of a host.
        from tinytorch.perf.benchmarking import running
        from tinytorch.perf.distributed.campaigns.campaign_manager import manage

        return manage(executor, sides(), progress or running.silent)
    return None


@contextmanager
def _following(told: Path, progress: Progress | None) -> Iterator[None]:
    """Call ``progress`` with what rank 0 writes to ``told``, whenever it changes, while the body runs."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def follow() -> None:
        seen = ""
        while not over.wait(0.5):
            now = told.read_text("utf-8") if told.is_file() else ""
            if now != seen:
                progress(*json.loads(now))
            seen = now

    follower = threading.Thread(target=follow, name="progress")
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()
