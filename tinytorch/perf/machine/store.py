"""Ceilings of this machine, measured once and kept: their files, and who may use them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinytorch.kept import keep, kept_folder
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.identity import identity
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.machine.levels import Ceilings
from tinytorch.perf.measuring.codec import Format

#: Told what is measured now, and how far the whole is, from 0 to 1.
StageProgress = Callable[[str, float], None]
_PERF = Path(__file__).resolve().parents[1]
#: Cores that others, and the host of a virtual machine, may keep busy in the mean while ceilings are measured.
QUIET = 0.1
#: How often they are measured at most, until a moment was that quiet.
MOST_TRIES = 2
#: Where ceilings are kept: a file for each machine, environment and number of threads.
KEPT = kept_folder("machine")
#: Sources that decide what is measured and how; a change of one makes kept ceilings those of other probes.
_PROBES = ("host/memory_pages.py", "host/pinned_threads.py", "kernels", "machine")
_FILES = Format("tinytorch-ceilings", 3, Ceilings, "`tinytorch machine`")
_in_process: dict[str, Ceilings] = {}


def ceilings(threads: int = 1, *, refresh: bool = False, on_progress: StageProgress | None = None) -> Ceilings:
    """Return the ceilings for ``threads`` threads: those kept for this machine and environment, else measured now.

    What was measured while others kept more than a tenth of a core busy is measured once more, whatever was found;
    ``taken.tries`` says so. Ceilings are kept in this process and on disk. A kept file that is
    broken or not of this machine is measured anew, and ``taken.note`` says so. ``refresh`` measures anew in any case;
    but what calls cost, for which threads do not matter, is that of the ceilings of one thread if these are
    kept. A measurement takes from some ten seconds of all its cores to a minute, the longer the larger the last cache
    is; ``on_progress`` is told the stage and how far it is, from 0 to 1.

    Raises:
        ValueError: if ``threads`` is below 1 or above the number of cores that this process may use.

    Examples:
        >>> from tinytorch.perf.machine import ceilings
        >>> ceilings(threads=0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: threads must be 1 to ..., the cores that this process may use, not 0
    """
    cores = len(usable_cores())
    if not 1 <= threads <= cores:
        raise ValueError(f"threads must be 1 to {cores}, the cores that this process may use, not {threads}")
    facts = _facts(threads)
    name = _name(facts)
    note = None
    if not refresh:
        found, note = _kept(facts)
        if found is not None:
            return found
    from tinytorch.perf.machine.measured_ceilings import measured_ceilings  # and the compiler, which takes seconds

    one = kept_ceilings(1) if threads > 1 else None
    tries, told = 0, on_progress or (lambda *_: None)
    while True:
        background, tries = BackgroundLoad(), tries + 1
        made = measured_ceilings(threads, told, one)
        if background.cores() <= QUIET or tries == MOST_TRIES:
            break
    made = replace(made, taken=replace(made.taken, note=note, tries=tries))
    _in_process[name] = made
    keep(KEPT / name, lambda path: _FILES.write(path, made, facts))
    return made


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


def _kept(facts: dict[str, Any]) -> tuple[Ceilings | None, str | None]:
    """Return the kept ceilings of ``facts``, or None with the reason if there is a file that cannot be used."""
    name = _name(facts)
    if name in _in_process:
        return _in_process[name], None
    try:
        found, machine = _FILES.read(KEPT / name)
        if machine != facts:
            raise ValueError("it is of another machine, environment or probe")
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
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
