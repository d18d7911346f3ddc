"""The noise floor: how far from 1 comparisons of the same code with itself come out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.kept import keep
from tinytorch.perf.measuring import Measurement, interleave
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.between_run_variance import kept_path
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.judge import had_less_than_a_core
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval

#: Numbers in the array, and steps of the Python loop, of the small workload: about half a millisecond in all.
_ELEMENTS = 2**15
_STEPS = 10_000
#: Pairs of a comparison, and comparisons of a floor, unless others are asked for.
_PAIRS, _COMPARISONS = 30, 39
#: Seconds for which a floor speaks.
_HOUR = 3600.0
_RANKS = {1: "largest", 2: "second largest"}


@dataclass(frozen=True)
class NoiseFloor:
    """Comparisons of code with itself.

    Attributes:
        workload: what ran.
        comparisons: each of A against A, from different stretches of time.
        shown: the ratio of each comparison, or its inverse, whichever is above 1: what lies nearer to 1 may be of the
            same code. The floor is the k-th largest of m, beyond which the next comparison lies with chance
            k / (m + 1): the largest k for which that is at most 5 %, so that of 39 one may come from a moment that was
            not like the others. Its interval is that of all.
    """

    workload: str
    comparisons: tuple[Comparison, ...]
    shown: Measurement

    @property
    def ratio(self) -> float:
        """The ratio above 1 that the same code shows against itself here."""
        return self.shown.median

    def hides(self, ratio: float) -> bool:
        """Return whether ``ratio`` is nearer to 1 than the floor, on either side.

        Raises:
            ValueError: if ``ratio`` is not above 0.
        """
        if not ratio > 0:
            raise ValueError(f"ratio must be above 0, not {ratio}")
        return max(ratio, 1 / ratio) < self.ratio

    def judged(self, comparison: Comparison) -> Comparison:
        """Return the comparison as far as the noise leaves it: see `Comparison.hidden_by`."""
        return comparison.hidden_by(self.ratio)


def noise_floor(
    function: Callable[[], Any],
    workload: str,
    *,
    pairs: int = _PAIRS,
    comparisons: int = _COMPARISONS,
    at_most_seconds: float = 10.0,
) -> NoiseFloor:
    """Return what comparisons of ``function`` with itself can resolve on this machine now.

    Args:
        function: what to run; a sample shorter than those that it is to speak for is noisier than they are.
        workload: what it is, in words.
        pairs: of each comparison.
        comparisons: made one after the other; fewer if the time is over.
        at_most_seconds: for all of them.

    Raises:
        ValueError: if ``pairs`` is below 6, ``comparisons`` below 1 or ``at_most_seconds`` not above 0.
    """
    if pairs < 6 or comparisons < 1:
        raise ValueError(f"pairs must be at least 6 and comparisons at least 1, not {pairs} and {comparisons}")
    both = interleave(
        {"once": function, "again": function}, repeats=pairs * comparisons, at_most_seconds=at_most_seconds
    )
    return _floor_of(both, workload, pairs)


def _floor_of(both: Mapping[str, Measurement], workload: str, pairs: int) -> NoiseFloor:
    once, again = (np.asarray(both[name].samples) for name in ("once", "again"))
    made = max(1, once.size // pairs)
    found = tuple(
        compare_paired(a, b, matters=0)
        for a, b in zip(np.array_split(once, made), np.array_split(again, made), strict=True)
    )
    ratios = tuple(max(1 / float(comparison), float(comparison)) for comparison in found)
    name = f"ratio of {workload} to itself"
    rank = max(1, (made + 1) // 20)
    conditions = replace(
        both["once"].conditions.within_bounds(_RANKS.get(rank, f"{rank}th largest"), "all of them"),
        sample=Sample.BLOCKS,
    )
    bounds = Interval(min(ratios), max(ratios), (made - 1) / (made + 1) if made > 1 else math.nan)
    value = sorted(ratios)[-rank]
    return NoiseFloor(workload, found, Statistic(name, ratios, "", conditions, value=value, bounds=bounds))


def small_noise_floor() -> NoiseFloor:
    """Return the noise floor of a small workload, measured once an hour on this machine, in about two seconds.

    So the pages of one build share it. If the process had less than a core, the next call measures again. The workload
    is a Python loop and an array operation of half a millisecond together, without BLAS.
    """
    path = kept_path().with_name(f"noise-{kept_path().name}")
    both = _kept_times(path)
    if both is None:
        both = _small_workload()
        if not had_less_than_a_core(both["once"].conditions):
            keep(path, lambda to: write_whole(to, json.dumps(to_json(both))))
    return _floor_of(both, "a small loop and array", _PAIRS)


def _kept_times(path: Path) -> dict[str, Measurement] | None:
    """Return the times in a file; None if there are none of the last hour."""
    try:
        if time.time() - path.stat().st_mtime > _HOUR:
            return None
        return from_json(json.loads(path.read_bytes()), dict[str, Measurement], "noise")
    except (OSError, ValueError):
        return None


def _small_workload() -> dict[str, Measurement]:
    numbers = np.linspace(0, 1, _ELEMENTS, dtype=np.float32)
    out = np.empty_like(numbers)

    def work() -> None:
        sum(range(_STEPS))
        for _ in range(16):
            np.multiply(numbers, numbers, out=out)
            np.sqrt(out, out=out)

    return interleave({"once": work, "again": work}, repeats=_PAIRS * _COMPARISONS, at_most_seconds=2.0)
