"""Ceilings of this machine as one value, measured once and kept: their file, its checks, and who may use it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from tinytorch.kept import keep, kept_folder
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.identity import Identity, identity
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.machine.blas_costs import BusyNeighbour, Caution
from tinytorch.perf.machine.call_costs import CallCosts
from tinytorch.perf.machine.levels import CURVES, Curve, Level, Point
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.codec import SIGNED, from_json, to_json
from tinytorch.perf.measuring.measurement import FlopsPerSecond, Hertz, OpsPerSecond, Seconds

Json = dict[str, Any]
#: Told what is measured now, and how far the whole is, from 0 to 1.
StageProgress = Callable[[str, float], None]
#: Of the document that `machine_document` makes; raised when a field changes its meaning or goes away.
DOCUMENT_VERSION = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """The measuring of ceilings.

    Attributes:
        when: in UTC, ISO 8601.
        seconds: that it took.
        load_before: load average over the minute before; None where the system keeps none.
        huge_page_policy: the system's, in its word; None where it has none.
        huge_page_bytes: bytes of the probes' memory that were on huge pages; None where the system does not say.
        bytes_of_memory: bytes of that memory.
        note: why kept ceilings could not be used; None if there were none.
        tries: how often they were measured, these last, until others left the machine alone.
    """

    when: str
    seconds: float
    load_before: float | None
    huge_page_policy: str | None
    huge_page_bytes: int | None
    bytes_of_memory: int
    note: str | None = None
    tries: int = 1


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of this machine for ``threads`` threads.

    Attributes:
        threads: threads that every probe ran on, and that BLAS was told to use; see the conditions of ``sgemm``.
        fp32_peak: FLOP/s, 2 per multiply-add: the larger of the two below, which ``fp32_from`` names.
        fp32_from: ``"compiled multiply-add"`` or ``"sgemm"``.
        multiply_add: the sweep: (FLOPs per element, FLOP/s of a block in the first cache).
        sgemm: FLOP/s of a product of two float32 matrices, 2048 wide, by the BLAS of NumPy.
        int8_peak: OP/s, 2 per multiply-accumulate of 8-bit numbers into 32 bits, by the fastest way that this CPU has.
        int8_from: the instruction that multiplies them, such as "vpdpbusd zmm".
        levels: from the innermost cache to memory. A cache ends where the bandwidth falls, or at its reported size.
        curves: the ladder of each of "read", "copy", "triad" (B/s) and "latency" (s), by growing working set.
        clock: Hz, of a chain of dependent integer operations of one cycle each.
        page_fault: seconds that the first touch of a fresh page of memory takes.
        calls: what a call of each op takes at least, by NumPy and by its kernel. For several threads this and
            ``recorder`` are those of the ceilings of one, if these were kept.
        recorder: seconds that recording adds to an op: a difference, of which a sample may be below 0.
        evidence: for each probe the packed vector instructions found in its assembly, and how often.
        taken: when and how they were measured.

    Examples:
        >>> from tinytorch.perf.machine import ceilings
        >>> here = ceilings()
        >>> here.fp32_peak.unit, here.levels[-1].name
        ('FLOP/s', 'memory')
        >>> here.level_of(1024).name
        'L1'
    """

    threads: int
    fp32_peak: FlopsPerSecond
    fp32_from: str
    multiply_add: tuple[tuple[int, FlopsPerSecond], ...]
    sgemm: FlopsPerSecond
    int8_peak: OpsPerSecond
    int8_from: str
    levels: tuple[Level, ...]
    curves: Mapping[Curve, tuple[Point, ...]]
    clock: Hertz
    page_fault: Seconds
    calls: CallCosts
    recorder: Annotated[Seconds, SIGNED]
    evidence: Mapping[str, Mapping[str, int]]
    taken: Taken

    @property
    def peak_in_turns(self) -> bool:
        """Whether the FP32 peak was sampled in turns with the bandwidths, as the compiled one is, and no product."""
        return self.fp32_from != "sgemm"

    def level_of(self, working_set: int) -> Level:
        """Return the innermost level whose capacity holds ``working_set`` bytes, else memory.

        Raises:
            ValueError: if ``working_set`` is below 0.
        """
        if working_set < 0:
            raise ValueError(f"working_set must be at least 0 bytes, not {working_set}")
        fitting = (level for level in self.levels if working_set <= (level.capacity or 0))
        return next(fitting, self.levels[-1])


def machine_document(
    identity: Identity, ceilings: Sequence[Ceilings], cautions: Sequence[Caution], neighbour: BusyNeighbour | None
) -> Json:
    """Return what ``python -m tinytorch machine --json FILE`` writes.

    ``schema`` is "tinytorch-machine", ``schema_version`` 4. ``identity`` has the fields of `Identity`. ``ceilings`` is
    a list, one for one thread and one for all, with the fields of `Ceilings`. ``warnings`` is a list of
    ``{"what", "sentence", "cost"}``, where cost is a measurement or null. ``busy_neighbour`` has the fields of
    `BusyNeighbour`, or is null where there is one core. Each measurement is ``{"name", "unit", "median",
    "interval": {"low", "high", "confidence"} or null, "samples", "conditions"}``; units are "s", "Hz", "B/s", "FLOP/s",
    "OP/s", or "" for a ratio; sizes are bytes.
    """
    return {
        "schema": "tinytorch-machine",
        "schema_version": DOCUMENT_VERSION,
        "identity": identity.to_json(),
        "ceilings": [to_json(one) for one in ceilings],
        "warnings": [to_json(one) for one in cautions],
        "busy_neighbour": neighbour and to_json(neighbour),
    }


def ceilings_from_json(given: Any) -> Ceilings:
    """Return the ceilings that `codec.to_json` wrote.

    Raises:
        ValueError: if a field is missing, or is not of the type, unit or range that it must have.
    """
    found = from_json(given, Ceilings, "ceilings")
    if not found.levels or found.levels[-1].name != "memory":
        raise ValueError("levels must be caches, and then memory")
    if any(level.capacity is None for level in found.levels[:-1]):
        raise ValueError("levels that are caches must have a capacity")
    for curve in CURVES:
        if any(one.working_set >= next_one.working_set for one, next_one in pairwise(found.curves[curve])):
            raise ValueError(f"working sets of {curve} must grow")
    return found


_PERF = Path(__file__).resolve().parents[1]
#: Cores that others, and the host of a virtual machine, may keep busy in the mean while ceilings are measured.
QUIET = 0.1
#: How often they are measured at most, until a moment was that quiet.
MOST_TRIES = 2
#: Where ceilings are kept: a file for each machine, environment and number of threads.
KEPT = kept_folder("machine")
#: Sources that decide what is measured and how; a change of one makes kept ceilings those of other probes.
_PROBES = ("host/memory_pages.py", "host/pinned_threads.py", "kernels", "machine")
_SCHEMA, _VERSION = "tinytorch-ceilings", 2
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
    _check_threads(threads)
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
    document = {"schema": _SCHEMA, "schema_version": _VERSION, "of": facts, "ceilings": to_json(made)}
    _in_process[name] = made
    keep(KEPT / name, lambda path: write_whole(path, json.dumps(document, allow_nan=False)))
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
        if not isinstance(document, dict) or (document.get("schema"), document.get("schema_version")) != (
            _SCHEMA,
            _VERSION,
        ):
            raise ValueError("it is of an older version of this program")
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
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
