"""Repeats: by how much the time of a call differs from one process and moment to the next, as found on this machine.

Samples of one run share its process and its moment: where memory lies, what the clock of the processor was, who else
used the shared cache. An interval made of them alone is one that a repeat does not agree with. So a few fixed
workloads are timed in fresh processes, one after another while a page runs (`repeat_workloads`), and kept beside
the ceilings. What they differ by has two parts. One is common to all calls: a moment is a few per cent faster or
slower. The other grows with how much the blocks of samples in one process differ, which they do where a call depends on
where its memory lies: see `sampling.Places`. A machine that has run for a minute does not know yet how the next hour
differs, so the first processes count beside what other runs of the book found, `ELSEWHERE`.

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
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tinytorch.perf.host.blas import loaded_blas

if TYPE_CHECKING:
    from tinytorch.perf.measuring.measurement import Measurement

#: Where the times of the processes are kept, beside the ceilings.
KEPT = Path(__file__).resolve().parents[3] / "_build" / "machine"


#: What a measurement is of: a call's time (or rate, or a share of it), or messages from one core to another.
Kind = Literal["time", "messages"]


@dataclass(frozen=True)
class Repeats:
    """Spread of medians between repeats: relative standard deviations, widened by Student's quantile for so few.

    Attributes:
        alone: of a call's time, whatever its blocks do.
        in_turns: of the ratio of two calls that were taken in turns, so that a moment hits both.
        per_block: how many times the spread of a call's blocks is added, as a standard deviation.
        processes: that this was found from.
        messages: of what two cores send each other: the host may place them nearer or farther the next time. It is
            known from elsewhere alone, as all processes of a build live in one such place.
    """

    alone: float
    in_turns: float
    per_block: float
    processes: int
    messages: float = 0.0

    def between(self, common: float, samples: Sequence[float], block: int) -> float:
        """Return the relative standard deviation between repeats of a call.

        Args:
            common: `alone`, or `in_turns` for ratios of times.
            samples: in the order in which they were taken.
            block: samples in a row that were taken in one place.
        """
        return math.hypot(common, self.per_block * block_spread(samples, block))


def as_repeated(measurement: Measurement, block: int | None = None, *, of: Kind = "time") -> Measurement:
    """Return a measurement of times, or of rates or shares of them, with what is known of repeats in its conditions.

    Its ``how`` then has ``between_repeats``, which its interval takes in, and ``repeats``, of which `ratio` makes that
    of ratios; and ``block``, the samples in a row that were taken in one place, all of them if None. Where nothing is
    known of repeats it has the last alone. Ratios of times of messages differ by half of what the times do. Of a part
    of a whole it is the odds, its time to that of the rest, that differ as a call's time does: the two are different
    operations, which a moment does not hit alike.
    """
    found, size = known_repeats(), measurement.n if block is None else block
    if found is None:
        return replace(measurement, how={**measurement.how, "block": size})
    return _widened(measurement, size, found, of)


def as_repeated_elsewhere(measurement: Measurement) -> Measurement:
    """Return a measurement that says what repeats differ by: as it is, or else with what was found `ELSEWHERE`.

    It is for what is held against another measurement that was not taken in turns with it: without that, any two would
    differ.
    """
    if "between_repeats" in measurement.how:
        return measurement
    few = _of_few(ELSEWHERE.processes)
    parts = {name: few * getattr(ELSEWHERE, name) for name in ("alone", "in_turns", "per_block")}
    return _widened(measurement, measurement.how.get("block", measurement.n), replace(ELSEWHERE, **parts), "time")


def _widened(measurement: Measurement, block: int, found: Repeats, of: Kind) -> Measurement:
    common, turns = (found.messages, found.messages / 2) if of == "messages" else (found.alone, found.in_turns)
    samples: Sequence[float] = measurement.samples
    if "part_of" in measurement.how:
        samples = [part / (1 - part) if part < 1 else math.inf for part in samples]
    known = {
        "block": block,
        "between_repeats": found.between(common, samples, block),
        "repeats": {"in_turns": turns, "per_block": found.per_block},
    }
    return replace(measurement, how={**measurement.how, **known})


def _of_few(processes: int) -> float:
    """Return how many times the quantile of so few processes is that of the normal distribution."""
    from scipy.special import ndtri, stdtrit

    return float(stdtrit(processes - 2, 0.975) / ndtri(0.975))


def in_turns(how: Mapping[str, Any], ratios: Sequence[float]) -> dict[str, Any]:
    """Return ``how`` of a time for the ratios of times taken in turns: what is between repeats is that of ratios."""
    known = how.get("repeats")
    if known is None:
        return {name: value for name, value in how.items() if name != "between_repeats"}
    spread = known["per_block"] * block_spread(ratios, how["block"])
    return {**how, "between_repeats": math.hypot(known["in_turns"], spread)}


#: What builds of the book on virtual machines of one cloud differed by; it counts as much as so many processes. Of
#: messages: in five builds one after the other, 8 bytes took 0.68 µs in two, 1.0 µs in three; 2 MiB 0.17 and 0.39 ms.
ELSEWHERE = Repeats(alone=0.03, in_turns=0.015, per_block=1.0, processes=6, messages=0.3)


def block_spread(samples: Sequence[float], block: int) -> float:
    """Return by how much the blocks differ beyond what the samples in each explain, as a standard deviation of logs.

    The variance of the blocks' medians less that of a median of as many samples, of a normal distribution; 0 for one
    block, for blocks of one sample, and for samples that are not all above 0 and finite.
    """
    values = np.asarray(samples, np.float64)
    if block < 2 or values.size < 2 * block or not ((values > 0) & np.isfinite(values)).all():
        return 0.0
    logs = np.log(values[: values.size // block * block]).reshape(-1, block)
    explained = math.pi / 2 * float(logs.var(axis=1, ddof=1).mean()) / block
    return math.sqrt(max(0.0, float(np.median(logs, axis=1).var(ddof=1)) - explained))


@dataclass(frozen=True, slots=True)
class Seen:
    """A call, or the ratio of two, in one process: the log of its median, and its `block_spread`."""

    log: float
    blocks: float


@dataclass(frozen=True)
class Process:
    """A fresh process that timed the workloads: each call alone, and of each pair the ratio, from turns."""

    when: float
    calls: Mapping[str, Seen]
    ratios: Mapping[str, Seen]


def found_from(processes: Sequence[Process], beside: Repeats | None = None) -> Repeats:
    """Return the spread between repeats that processes show, beside what is known from elsewhere.

    The common part is the median over the half of the workloads whose blocks differ least. How many times the spread of
    the blocks is added is the median over the others, of what is left when the common part is taken out. Variances are
    pooled with those of ``beside`` (`ELSEWHERE` if None), each with its number of processes as weight.

    Raises:
        ValueError: if there are fewer than two processes.
    """
    if len(processes) < 2:
        raise ValueError(f"processes must be at least 2, not {len(processes)}")
    known = beside or ELSEWHERE
    alone, per_call = _parts([process.calls for process in processes])
    in_turns, per_ratio = _parts([process.ratios for process in processes])
    count = len(processes) + known.processes
    few = _of_few(count)

    def pooled(here: float, there: float) -> float:
        return few * math.sqrt((len(processes) * here**2 + known.processes * there**2) / count)

    return Repeats(
        pooled(alone, known.alone),
        pooled(in_turns, known.in_turns),
        pooled((per_call + per_ratio) / 2, known.per_block),
        len(processes),
        known.messages,
    )


def _parts(processes: Sequence[Mapping[str, Seen]]) -> tuple[float, float]:
    """Return the common spread, and how many times that of the blocks is added."""
    blocks = {name: float(np.mean([one[name].blocks ** 2 for one in processes])) for name in processes[0]}
    between = {name: float(np.var([one[name].log for one in processes], ddof=1)) for name in processes[0]}
    steady = sorted(blocks, key=lambda name: blocks[name])
    half = (len(steady) + 1) // 2
    common = float(np.median([between[name] for name in steady[:half]]))
    beyond = [max(0.0, between[name] - common) / blocks[name] for name in steady[half:] if blocks[name]]
    return math.sqrt(common), math.sqrt(float(np.median(beyond))) if beyond else 0.0


def kept_path() -> Path:
    """Return the file of this machine and BLAS."""
    from tinytorch.perf.host.identity import cpu_name  # loads the compiler, which most timings do not need

    facts = [cpu_name(), np.__version__, *sorted(one.label() for one in loaded_blas() if one.of != "scipy")]
    facts.append(hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
    return KEPT / f"repeats-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}.json"


def kept_processes() -> list[Process]:
    """Return the processes that are kept; none if the file is absent or broken."""
    from tinytorch.perf.measuring.codec import from_json  # not for programs that only time

    try:
        document = json.loads(kept_path().read_bytes())
        return [from_json(one, Process, "processes") for one in document["processes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


@cache
def known_repeats() -> Repeats | None:
    """Return the spread between repeats as kept for this machine; None where it was not measured."""
    kept = kept_processes()
    return found_from(kept) if len(kept) >= 2 else None


#: Seconds between two looks of a process that watches, as long as fewer than so many are kept, and how many times as
#: many from then on: what few show has wide limits, and each look takes a second or two from what is measured.
EVERY, FEW, SELDOM = 4.0, 24, 3.0
#: When this process last looked; None where it does not watch.
_last_look: float | None = None


def looked() -> None:
    """Note that this process has looked at repeats now, and is to look again and again."""
    global _last_look
    _last_look = time.monotonic()
    known_repeats.cache_clear()


def is_due() -> bool:
    """Return whether this process watches repeats and has not looked for a while."""
    if _last_look is None:
        return False
    known = known_repeats()
    every = EVERY if known is None or known.processes < FEW else SELDOM * EVERY
    return time.monotonic() - _last_look > every
