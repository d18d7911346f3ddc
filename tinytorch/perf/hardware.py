"""What this machine is and can do at most: the entrance to its identity and its ceilings, measured once and kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinytorch.perf.identity import Identity, identity
from tinytorch.perf.ladder import Curve, Point
from tinytorch.perf.levels import Level
from tinytorch.perf.machine_ceilings import Ceilings, StageProgress, measured_ceilings
from tinytorch.perf.machine_json import ceilings_from_json, ceilings_to_json
from tinytorch.perf.team import usable_cores
from tinytorch.perf.whole_files import write_whole

__all__ = [
    "Ceilings",
    "Curve",
    "Identity",
    "Level",
    "Point",
    "ceilings",
    "identity",
    "kept_ceilings",
    "settled_ceilings",
]

_PERF = Path(__file__).resolve().parent
#: Half-width of an interval over the value, at most, of ceilings that were measured in a quiet enough moment.
SETTLED = 0.15
#: Where ceilings are kept: a file for each machine, environment and number of threads.
KEPT = _PERF.parents[1] / "_build" / "machine"
#: Sources that decide what is measured and how; a change of one makes kept ceilings those of other probes.
_PROBES = (
    "arena.py",
    "kernels",
    "ladder.py",
    "levels.py",
    "machine_ceilings.py",
    "machine_json.py",
    "peaks.py",
    "plateaus.py",
    "probing.py",
    "team.py",
)
_SCHEMA = "tinytorch-ceilings"
_in_process: dict[str, Ceilings] = {}


def ceilings(threads: int = 1, *, refresh: bool = False, on_progress: StageProgress | None = None) -> Ceilings:
    """Return the ceilings for ``threads`` threads: those kept for this machine and environment, else measured now.

    They are kept in this process and below ``_build/machine``. A kept file that is broken or not of this machine is
    measured anew, and ``how["note"]`` says so. ``refresh`` measures anew in any case. A measurement takes some ten
    seconds of all its cores; ``on_progress`` is told the stage and how far it is, from 0 to 1.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of cores that this process may use.
        OSError: if the result cannot be written.
    """
    _check_threads(threads)
    facts = _facts(threads)
    name = _name(facts)
    note = None
    if not refresh:
        found, note = _kept(facts)
        if found is not None:
            return found
    made = measured_ceilings(threads, on_progress or _untold)
    made = replace(made, how={**made.how, "note": note})
    KEPT.mkdir(parents=True, exist_ok=True)
    document = {"schema": _SCHEMA, "schema_version": 1, "of": facts, "ceilings": ceilings_to_json(made)}
    write_whole(KEPT / name, json.dumps(document, allow_nan=False))
    _in_process[name] = made
    return made


def settled_ceilings(threads: int = 1) -> Ceilings:
    """Return what `ceilings` does, but measure anew where kept ones were taken in a moment too busy to tell.

    Settled are those whose peak and memory bandwidth have intervals of at most `SETTLED` of the value to either side.

    Raises:
        ValueError, OSError: as `ceilings` does.
    """
    found = kept_ceilings(threads)
    return ceilings(threads, refresh=found is not None and not _is_settled(found))


def _is_settled(found: Ceilings) -> bool:
    return max(found.fp32_peak.spread, found.levels[-1].read.spread) <= SETTLED


def _untold(_stage: str, _part: float) -> None:
    """Where nobody wants to know how far it is."""


def kept_ceilings(threads: int | None = 1) -> Ceilings | None:
    """Return the ceilings that `ceilings` would return without measuring, or None where it would have to measure.

    So that a table can show per cent of the roof where the roof is known, and never makes a reader wait for it.
    There are none for more threads than cores, nor for None, threads of a BLAS that nobody knows.

    Raises:
        ValueError: if ``threads`` is below 1.
    """
    if threads is None:
        return None
    if threads < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    return _kept(_facts(threads))[0] if threads <= len(usable_cores()) else None


def _check_threads(threads: int) -> None:
    cores = len(usable_cores())
    if not 1 <= threads <= cores:
        raise ValueError(f"threads must be 1 to {cores}, the cores that this process may use, not {threads}")


def _kept(facts: dict[str, Any]) -> tuple[Ceilings | None, str | None]:
    """Return the kept ceilings of ``facts``, or None with the reason if there is a file that cannot be used."""
    name = _name(facts)
    if name in _in_process:
        return _in_process[name], None
    try:
        document = json.loads((KEPT / name).read_bytes())
        if not isinstance(document, dict) or (document.get("schema"), document.get("schema_version")) != (_SCHEMA, 1):
            raise ValueError("it is not a file of ceilings of version 1")
        if document.get("of") != facts:
            raise ValueError("it is of another machine, environment or probe")
        found = ceilings_from_json(document.get("ceilings"))
        if found.threads != facts["threads"]:
            raise ValueError(f"it is of {found.threads} threads")
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError) as error:
        return None, f"measured anew, because {name} could not be used: {error}"
    _in_process[name] = found
    return found, None


def _name(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24] + ".json"


def _facts(threads: int) -> dict[str, Any]:
    """Return all that ceilings depend on, as JSON has it: the machine, what steers it, the probes, the threads."""
    made = identity().to_json()
    for passing in ("load", "cores_usable"):
        del made[passing]
    # SciPy's own BLAS may be loaded or not, and how many threads there are now does not matter: a probe sets them.
    blas = [{**one, "threads": None} for one in made["blas"] if one["of"] != "scipy"]
    facts = {**made, "blas": blas, "cores": usable_cores(), "probes": _probes_hash(), "threads": threads}
    return json.loads(json.dumps(facts))


def _probes_hash() -> str:
    digest = hashlib.sha256()
    for part in _PROBES:
        path = _PERF / part
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
