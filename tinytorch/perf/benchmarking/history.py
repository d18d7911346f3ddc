"""Results over time: a series for each variant and batch size on one machine, and which commit moved it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tinytorch.perf.benchmarking.change_points import change_points, levels
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.regressions import log_time
from tinytorch.perf.benchmarking.results import Results, load_results
from tinytorch.perf.measuring import Measurement

#: Relative change of a level below which it is not told.
DELTA = 0.02


@dataclass(frozen=True)
class Moved:
    """A level that changed: ``at`` is the index of the first run of the new level, ``ratio`` before / after.

    Above 1 is faster. ``when`` and ``commit`` are those of that run; ``commit`` is None where it was not known.
    """

    at: int
    ratio: float
    when: str
    commit: str | None


@dataclass(frozen=True)
class Series:
    """One variant at one batch size over the runs: ``seconds`` of each, and where the level changed."""

    variant: str
    batch: int
    seconds: tuple[Measurement, ...]
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class History:
    """Runs of one subject on one machine, oldest first, and the series that they make.

    A series leaves out the ``runs`` of the history that lack its variant.
    """

    subject: str
    runs: tuple[Results, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Histories:
    """All histories of a folder: one for each subject and machine."""

    histories: tuple[History, ...]

    def sentences(self) -> list[str]:
        """Return what changed, a sentence for each change."""
        return [
            f"{history.subject}: {one.variant} at batch {one.batch} {moved_words(moved)}"
            for history in self.histories
            for one in history.series
            for moved in one.moved
        ]


def moved_words(moved: Moved) -> str:
    """Return a change in words, as in "became 1.25 times as fast from the run of ... on, commit 0123456789ab"."""
    faster, longer = f"became {moved.ratio:.3g} times as fast", f"takes {1 / moved.ratio:.3g} times as long"
    pace = faster if moved.ratio > 1 else longer
    commit = "of an unknown commit" if moved.commit is None else f"commit {moved.commit[:12]}"
    return f"{pace} from the run of {moved.when} on, {commit}"


def history_of(folder: Path) -> Histories:
    """Return what the files of results below ``folder`` say over time.

    Runs of different machines, threads or libraries are not mixed: each makes a history of its own.

    Raises:
        ValueError: if there are none, or a file cannot be read; the message names it.
    """
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise ValueError(f"{folder} must hold files of results, but has no .json file")
    groups: dict[str, list[Results]] = {}
    for path in files:
        results = load_results(path)
        if results.performances:
            key = json.dumps([results.plan.subject, results.plan.threads, results.fingerprint], sort_keys=True)
            groups.setdefault(key, []).append(results)
    return Histories(tuple(history(group) for group in groups.values()))


def history(runs: Sequence[Results]) -> History:
    """Return the history of runs of one subject on one machine, whatever order they are given in.

    Change points are those of the median over each run's processes of the time over the reference's, which the clock
    and busy neighbours move less than the time itself. In a series without a change one is told with a chance of 1 %.

    Raises:
        ValueError: if there are no runs.
    """
    if not runs:
        raise ValueError("runs must hold at least one run")
    ordered = sorted(runs, key=lambda one: one.created)
    keys = dict.fromkeys(
        (name, size) for run in ordered for name, one in run.performances.items() for size in one.batches
    )
    series = tuple(_series(ordered, name, size) for name, size in keys)
    return History(ordered[0].plan.subject, tuple(ordered), series)


def _series(runs: Sequence[Results], name: str, batch: int) -> Series:
    having = [run for run in runs if name in run.performances and batch in run.performances[name].times]
    values = [_value(run.performances[name], batch) for run in having]
    seconds = tuple(run.performances[name].seconds(batch) for run in having)
    points = change_points(values)
    before_after = pairwise(levels(values, points))
    moved = [
        Moved(at, math.exp(before - after), having[at].created, having[at].code.get("commit"))
        for at, (before, after) in zip(points, before_after, strict=True)
    ]
    told = tuple(one for one in moved if abs(math.log(one.ratio)) > math.log1p(DELTA))
    return Series(name, batch, seconds, told)


def _value(one: Performance, batch: int) -> float:
    """Return the median over processes of `log_time`, over the reference's times if there are any."""
    times = one.times[batch]
    beside = one.reference.get(batch) or (None,) * len(times)
    return float(np.median([log_time(*pair) for pair in zip(times, beside, strict=True)]))
