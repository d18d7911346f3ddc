"""Between-run variance: how much the time of a call differs between processes and moments, as found on this machine.

Samples of one run share its process and its moment: where memory lies, what the clock of the processor was, who else
used the shared cache. An interval made of them alone is one that a repeat does not agree with. So a few fixed
workloads are timed in fresh processes, one after another while a page runs (`between_run_workloads`), and kept beside
the ceilings. What they differ by has two parts. One is common to all calls: a moment is a few per cent faster or
slower. The other grows with how much the blocks of samples in one process differ, which they do where a call depends on
where its memory lies: see `sampling.LayoutRandomizer`. A machine that has run for a minute does not know yet how the
next hour differs, so the first processes count beside what other runs of the book found, `PRIOR`.

Sources: T. Kalibera and R. Jones, Rigorous benchmarking in reasonable time, ISMM 2013 (variance by level of
repetition); A. Georges, D. Buytaert and L. Eeckhout, Statistically rigorous Java performance evaluation, OOPSLA 2007
(fresh processes, Student's quantiles for few of them).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from tinytorch import settings
from tinytorch.kept import kept_folder
from tinytorch.perf.host.blas import loaded_blas
from tinytorch.perf.measuring.conditions import BetweenRuns
from tinytorch.perf.measuring.fresh import answer_of
from tinytorch.perf.measuring.statistics import block_spread, clipped

if TYPE_CHECKING:
    from tinytorch.perf.measuring.codec import Format
    from tinytorch.perf.measuring.measurement import Measurement

#: Where the times of the processes are kept, beside the ceilings.
KEPT = kept_folder("machine")


#: What a measurement is of: a call's time (or rate, or a share of it), or messages from one core to another.
Kind = Literal["time", "messages"]


@dataclass(frozen=True)
class BetweenRunVariance:
    """Spread of medians between runs: relative standard deviations, widened by Student's quantile for so few.

    Attributes:
        alone: of a call's time, whatever its blocks do.
        interleaved: of the ratio of two calls that were interleaved, so that a moment hits both.
        per_block: how many times the spread of a call's blocks is added, as a standard deviation.
        processes: that this was found from.
        messages: of core-to-core latency, which depends on where the host places the virtual cores. It is known from
            elsewhere alone, as all processes of a build live in one such place.
    """

    alone: float
    interleaved: float
    per_block: float
    processes: int
    messages: float = 0.0


def with_between_run_spread(measurement: Measurement, block: int | None = None, *, of: Kind = "time") -> Measurement:
    """Return a measurement of times, or of rates or shares of them, with what runs differ by in its conditions.

    They then have ``between_runs``, which its interval takes in; and ``block``, the samples in a row that were taken in
    one place, all of them if None. Where nothing is known of runs they have the last alone. Ratios of times of messages
    differ by half of what the times do. Of a part of a whole it is the odds, its time to that of the rest, that differ
    as a call's time does: the two are different operations, which a moment does not hit alike.
    """
    found, size = known_variance(), measurement.n if block is None else block
    if found is None:
        return replace(measurement, conditions=replace(measurement.conditions, block=size))
    common, both = (found.messages, found.messages / 2) if of == "messages" else (found.alone, found.interleaved)
    between = BetweenRuns(_deviation(measurement, size, common, found.per_block), both, found.per_block)
    return replace(measurement, conditions=replace(measurement.conditions, block=size, between_runs=between))


def with_prior_spread(measurement: Measurement) -> Measurement:
    """Return a measurement that says what runs differ by: as it is, or else with the `PRIOR`.

    It is for what is held against another measurement that was not taken in turns with it: without that, any two would
    differ.
    """
    if measurement.conditions.between_runs is not None:
        return measurement
    few, block = _of_few(PRIOR.processes), measurement.conditions.block or measurement.n
    between = BetweenRuns(_deviation(measurement, block, few * PRIOR.alone, few * PRIOR.per_block))
    return replace(measurement, conditions=replace(measurement.conditions, block=block, between_runs=between))


def _deviation(measurement: Measurement, block: int, common: float, per_block: float) -> float:
    samples: Sequence[float] = measurement.samples
    if measurement.conditions.part_of is not None:
        samples = [part / (1 - part) if part < 1 else math.inf for part in samples]
    return math.hypot(common, per_block * block_spread(samples, block))


def _of_few(processes: int) -> float:
    """Return how many times the quantile of so few processes is that of the normal distribution."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(processes - 2, 0.975) / ndtri(0.975))


#: Prior from builds of the book on virtual machines of one cloud, weighted as ``processes`` runs. Of
#: messages: in five builds one after the other, 8 bytes took 0.68 µs in two, 1.0 µs in three; 2 MiB 0.17 and 0.39 ms.
PRIOR = BetweenRunVariance(alone=0.03, interleaved=0.02, per_block=1.0, processes=6, messages=0.3)


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """A call, or the ratio of two, in one process.

    Attributes:
        log: of its median.
        blocks: its `block_spread`.
        error: standard deviation of ``log`` that its samples alone explain, as the interval of the median has it.
    """

    log: float
    blocks: float
    error: float


@dataclass(frozen=True)
class Process:
    """A fresh process that timed the workloads: each call alone, and of each pair the ratio, from turns."""

    when: float
    calls: Mapping[str, RunStatistics]
    ratios: Mapping[str, RunStatistics]


def variance_from(processes: Sequence[Process], beside: BetweenRunVariance | None = None) -> BetweenRunVariance:
    """Return the spread between runs that processes show, beside what is known from elsewhere.

    What the samples of each process explain is taken out of the variance of their medians first: an interval holds that
    already. A process that met a pause of the host counts as no farther out than three robust deviations. The common
    part is the mean variance of the half of the workloads whose blocks differ least: in a median the many of which
    samples explain all would hide the others. How many times the spread of the blocks is added is the median over the
    others, of what is left when the common part is taken out. Variances are pooled with those of ``beside`` (`PRIOR` if
    None), each with its number of processes as weight.

    Raises:
        ValueError: if there are fewer than two processes.
    """
    if len(processes) < 2:
        raise ValueError(f"processes must hold at least 2 processes, not {len(processes)}")
    known = beside or PRIOR
    alone, per_call = _parts([process.calls for process in processes])
    interleaved, per_ratio = _parts([process.ratios for process in processes])
    count = len(processes) + known.processes
    few = _of_few(count)

    def pooled(here: float, there: float) -> float:
        return few * math.sqrt((len(processes) * here**2 + known.processes * there**2) / count)

    return BetweenRunVariance(
        pooled(alone, known.alone),
        pooled(interleaved, known.interleaved),
        pooled((per_call + per_ratio) / 2, known.per_block),
        len(processes),
        known.messages,
    )


def _parts(processes: Sequence[Mapping[str, RunStatistics]]) -> tuple[float, float]:
    """Return the common spread, and how many times that of the blocks is added."""
    blocks = {name: float(np.mean([one[name].blocks ** 2 for one in processes])) for name in processes[0]}
    between = {name: _unexplained([one[name] for one in processes]) for name in processes[0]}
    usual = {name: float(np.median([one[name].blocks for one in processes])) for name in blocks}
    steady = sorted(blocks, key=lambda name: usual[name])
    half = (len(steady) + 1) // 2
    common = float(np.mean([between[name] for name in steady[:half]]))
    beyond = [max(0.0, between[name] - common) / blocks[name] for name in steady[half:] if blocks[name]]
    return math.sqrt(common), math.sqrt(float(np.median(beyond))) if beyond else 0.0


def _unexplained(seen: Sequence[RunStatistics]) -> float:
    """Return the variance of medians between processes beyond what the samples in each explain."""
    return max(0.0, float(clipped([one.log for one in seen]).var(ddof=1) - np.median([one.error**2 for one in seen])))


@cache
def kept_path() -> Path:
    """Return the file of this machine and BLAS, and of whether measurements have a tiny budget."""
    from tinytorch.perf.host.identity import cpu_name  # loads the compiler, which most timings do not need
    from tinytorch.perf.measuring.planning import has_tiny_budget

    facts = [cpu_name(), np.__version__, str(has_tiny_budget())]
    facts += sorted(one.label() for one in loaded_blas() if one.of != "scipy")
    facts.append(hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
    return KEPT / f"between-runs-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.json"


def _files() -> Format[tuple[Process, ...]]:
    from tinytorch.perf.measuring.codec import Format  # not for programs that only time

    return Format("tinytorch-repeats", 3, tuple[Process, ...], "`make book`")


def kept_processes() -> tuple[Process, ...]:
    """Return the processes that are kept; none if the file is absent or broken."""
    try:
        return _files().read(kept_path())[0]
    except (OSError, ValueError):
        return ()


@cache
def known_variance() -> BetweenRunVariance | None:
    """Return the spread between runs as kept for this machine; None where it was not measured."""
    kept = kept_processes()
    return variance_from(kept) if len(kept) >= 2 else None


#: Seconds between two samples of a process that watches, as long as fewer than so many are kept, and how many times as
#: many from then on: what few show has wide limits, and each sample takes a second or two from what is measured.
EVERY, FEW, SELDOM = 4.0, 12, 16.0
#: The latest processes that are kept.
LATEST = 200
#: The module that times the workloads in a fresh process.
_WORKLOADS = "tinytorch.perf.measuring.between_run_workloads"
_watches = False


def watch_spread() -> None:
    """Have this process sample the spread between runs from now on, from time to time, before it measures.

    The time since the last sample counts, whichever process took it. So the pages of a build share their samples, and
    these are spread over all of it.
    """
    global _watches
    _watches = settings.SETTINGS.repeats != "0"


def spread_sample_is_due() -> bool:
    """Return whether this process watches the spread between runs and nobody has sampled it for a while."""
    if not _watches:
        return False
    known = known_variance()
    every = EVERY if known is None or known.processes < FEW else SELDOM * EVERY
    try:
        return time.time() - kept_path().stat().st_mtime > every
    except OSError:  # nothing is kept yet
        return True


def sample_spread() -> None:
    """Time the workloads in a fresh process, at first in two, and keep what they show; it takes a second or two.

    Raises:
        OSError: if the result cannot be written.
        RuntimeError: if a process fails.
    """
    from tinytorch.perf.host.identity import machine_label
    from tinytorch.perf.measuring.codec import from_json

    kept = kept_processes()
    for number in range(len(kept), len(kept) + (1 if kept else 2)):
        kept += (from_json(answer_of(_WORKLOADS, number), Process, "processes"),)
    path = kept_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    _files().write(path, kept[-LATEST:], machine_label())
    known_variance.cache_clear()
