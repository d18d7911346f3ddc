"""What each worker of a campaign does: it takes its place once, and then measures a turn whenever it is asked.

It starts a fresh process for each thing that it measures, on its own cores, and imports little itself: on a large host
there are many of it, and a process that dies takes no worker with it.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinytorch.perf.distributed.campaigns.stations import Station, physical_cores, stations
from tinytorch.perf.distributed.ranks.agreement import code_version
from tinytorch.perf.distributed.ranks.communicator import Activity, Communicator
from tinytorch.perf.host.pinned_threads import kept_on, usable_cores
from tinytorch.perf.measuring.processes import answer_of

Json = dict[str, Any]
#: What a host does once, in a fresh process.
PREPARATION_MODULE = "tinytorch.perf.benchmarking.preparation"
#: Where this worker measures, once it has joined; by one key, as a module has no other state that a task can keep.
_stations: dict[str, Station] = {}


def join(asked: Json) -> Json:
    """Take this worker's place; return it, its machine's identity, and what is wrong, None or a sentence.

    All workers must run it at the same time. The first one of each host prepares the subject for all there.

    Args:
        asked: ``threads``, ``subject``, ``input_shape``, and ``packages``: folder, None for the package that is
            imported, and the hash that it must have.
    """
    from mpi4py.futures import get_comm_workers  # which starts MPI

    communicator = Communicator(get_comm_workers(), "workers", Activity())
    kinds = communicator.exchange(list(physical_cores(usable_cores()).items()))
    made = stations(communicator.places, [dict(each) for each in kinds], asked["threads"])[communicator.rank]
    _stations["own"] = made
    first = next(place.rank for place in communicator.places if place.host == made.host)
    error = _other_code(asked["packages"])
    own = _prepared(asked) if first == communicator.rank and error is None else {}
    prepared = communicator.exchange(own)[first]
    return {
        "station": asdict(made),
        "identity": prepared.get("identity"),
        "error": error or prepared.get("error"),
    }


def _other_code(packages: list[tuple[str | None, str]]) -> str | None:
    for folder, version in packages:
        found = code_version(Path(folder) / "tinytorch") if folder else code_version()
        if found != version:
            return f"it has another tinytorch than rank 0, {found} and not {version}, in {folder or 'its Python'}"
    return None


def _prepared(asked: Json) -> Json:
    try:
        made: Json = answer_of(PREPARATION_MODULE, {"subject": asked["subject"], "input_shape": asked["input_shape"]})
    except RuntimeError as error:
        return {"error": str(error)}
    return made


def measure_turn(asked: Json) -> Json:
    """Measure one process of each side, one after the other on this worker's cores; return ``rank`` and ``answers``.

    In place of the answers there is ``failure``, a sentence, if a process failed, and ``declined`` if this worker is
    not one of those asked: which worker gets a task is up to mpi4py.

    Args:
        asked: ``ranks`` of the workers that may do it, ``module`` to run, and ``sides``: ``folder`` and ``request``.
    """
    station = _stations["own"]
    if station.rank not in asked["ranks"]:
        return {"rank": station.rank, "declined": True}
    answers = []
    with kept_on(station.cores):
        for side in asked["sides"]:
            folder = None if side["folder"] is None else Path(side["folder"])
            try:
                answers.append(answer_of(asked["module"], side["request"], folder))
            except RuntimeError as error:
                return {"rank": station.rank, "failure": str(error)}
    return {"rank": station.rank, "answers": answers}
