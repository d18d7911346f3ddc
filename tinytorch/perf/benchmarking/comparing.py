"""Times, bytes and right answers of two models beside one another, each with its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinytorch.perf.measuring import Counted, Measurement, derived, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_prior_spread
from tinytorch.perf.measuring.comparison import Comparison, Quantity, compare_paired, judged
from tinytorch.perf.measuring.conditions import Sample
from tinytorch.perf.measuring.measurement import require_paired
from tinytorch.perf.measuring.processes import of_process_pairs
from tinytorch.perf.measuring.statistics import Shift, Turned
from tinytorch.perf.quantization import paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

#: Processes of each run below which they do not show what processes differ by.
FEWEST_PROCESSES = 5
Logs = npt.NDArray[np.float64]


def compare_processes(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    matters: float,
    *,
    names: tuple[str, str],
    together: int = 1,
    references: tuple[Sequence[Measurement], Sequence[Measurement]] | None = None,
) -> Comparison:
    """Return the ratio baseline / candidate of times that two runs took apart, with the verdict that it supports.

    A run's processes differ by what each drew, and the two runs by what else the machine did. The unit is the process:
    its value the log of its median time, or, with a reference in both runs, the median of the log-ratios of each time
    to the reference's that was taken beside it, which a change of the clock or a busy neighbour moves less. The ratio
    is Hodges and Lehmann's: see `statistics.Shift`. Where processes are too few to show what they differ by, it is the
    ratio of the medians of each run's processes, each with what repeats are known to differ by.

    Args:
        baseline, candidate: seconds, one measurement from each process.
        matters: relative difference that would make a reader act otherwise.
        names: what the two are called.
        together: how many comparisons are read together: the interval's level is corrected for them.
        references: times of the fixed work beside each of both, or None.
    """
    name = f"{names[0]} / {names[1]}"
    if min(len(baseline), len(candidate)) < FEWEST_PROCESSES:
        sides = (_beside(baseline, references and references[0]), _beside(candidate, references and references[1]))
        before, after = (_middle(side) for side in sides)
        made = judged(quotient(before, after, name).together(together), names, matters)
        because = f"{made.because}; they were not timed in turns, so it holds what separate runs differ by"
        return replace(made, because=because)
    logs = _values(baseline, references and references[0]), _values(candidate, references and references[1])
    shift = Shift(*(tuple(each.tolist()) for each in logs))
    unit = "time over that of the reference beside it" if references else "time"
    conditions = replace(
        of_process_pairs(baseline, candidate).told_as("Hodges-Lehmann"),
        sample=Sample.PROCESS_PAIRS,
        note=f"{len(baseline)} and {len(candidate)} processes, {unit}.",
    )
    samples = tuple(np.exp(shift.differences).tolist())
    estimate = Measurement(name, samples, "", conditions, law=Turned(shift, np.exp, falls=False))
    return judged(estimate.together(together), names, matters)


def _middle(processes: Sequence[Measurement]) -> Measurement:
    """Return what is known of the median of some processes from each of them."""
    if len(processes) == 1:
        return processes[0]
    name, unit = processes[0].name, processes[0].unit
    return derived(name, lambda *each: np.median(each, axis=0), *processes, unit=unit)


def _beside(times: Sequence[Measurement], references: Sequence[Measurement] | None) -> list[Measurement]:
    """Return each process's times with what repeats differ by, or their ratio to a reference's taken beside them."""
    known = [with_prior_spread(one) for one in times]
    if references is None:
        return known
    return [ratio(one, with_prior_spread(beside)) for one, beside in zip(known, references, strict=True)]


def log_time(times: Measurement, reference: Measurement | None) -> float:
    """Return the median log of a process's times, or of each over the reference's that was taken beside it."""
    logs = np.log(times.samples)
    return float(np.median(logs if reference is None else logs - np.log(reference.samples)))


def _values(processes: Sequence[Measurement], references: Sequence[Measurement] | None) -> Logs:
    """Return the `log_time` of each process."""
    beside = [None] * len(processes) if references is None else references
    return np.array([log_time(*pair) for pair in zip(processes, beside, strict=True)])


#: Relative difference of time or memory that matters unless one says so.
MATTERS = 0.02
#: Difference of accuracy, as a share, that matters unless one says so: the zoo's 360 test digits can tell two
#: models that agree on all of them from ones that differ by 1.1 points, not from ones that differ by less.
ACCURACY_MATTERS = 0.02


def compare_in_turns(
    before: Sequence[Measurement],
    after: Sequence[Measurement],
    matters: float,
    *,
    names: tuple[str, str],
    together: int = 1,
) -> Comparison:
    """Return the comparison of neighbouring times: of the pairs of one process, or of several processes.

    Args:
        before, after: seconds, one measurement from each process, in turns.
        matters, names, together: as of `compare_processes`.

    Raises:
        ValueError: if they were not taken in turns.
    """
    if len(before) == 1 and len(after) == 1:
        made = compare_paired(before[0], after[0], matters, together=together)
        return replace(made, baseline=names[0], candidate=names[1])
    medians = []
    for old, new in zip(before, after, strict=True):
        require_paired(old, new)
        medians.append(math.exp(np.median(np.log(old.samples) - np.log(new.samples))))
    ratios = Measurement(" / ".join(names), tuple(medians), "", of_process_pairs(before, after))
    return judged(ratios.together(together), names, matters)


def compare_sizes(before: Measurement, after: Measurement, names: tuple[str, str]) -> Comparison:
    """Return bytes of a baseline over those of a candidate, above 1 is smaller; counted where all calls agree."""
    before, after = (Counted(one.median, one.unit, one.name) if one.std == 0 else one for one in (before, after))
    return judged(quotient(before, after, f"{before.name} / {after.name}"), names, MATTERS, Quantity.BYTES)


def compare_accuracies(
    before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_], matters: float, names: tuple[str, str]
) -> Comparison:
    """Return the share right of a candidate less that of a baseline, on the same examples.

    Raises:
        ValueError: if they are not of as many examples.
    """
    paired = paired_accuracy(before, after)
    change = accuracy_change(paired, f"accuracy of {names[1]} less that of {names[0]}")
    return judged(change, names, matters, Quantity.ACCURACY)
