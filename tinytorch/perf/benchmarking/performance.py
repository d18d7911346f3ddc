"""Performance of one model, time, throughput, memory, size and accuracy, and its change from another's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from tinytorch.perf.benchmarking.variants import Right
from tinytorch.perf.measuring import Counted, Measurement, derived, quotient, ratio
from tinytorch.perf.measuring.between_run_variance import with_prior_spread
from tinytorch.perf.measuring.comparison import Comparison, Quantity, compare_paired, judged
from tinytorch.perf.measuring.conditions import Conditions, Sample, of_processes
from tinytorch.perf.measuring.judge import why_incomparable
from tinytorch.perf.measuring.measurement import Bytes, Seconds
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.measuring.processes import ratio_of_processes
from tinytorch.perf.measuring.statistics import Known, Share
from tinytorch.perf.measuring.text_table import aligned
from tinytorch.perf.quantization import paired_accuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change

#: Relative difference of time or memory that matters unless one says so.
MATTERS = 0.02
#: Difference of accuracy, as a share, that matters unless one says so: the zoo's 360 test digits can tell two
#: models that agree on all of them from ones that differ by 1.1 points, not from ones that differ by less.
ACCURACY_MATTERS = 0.02
#: Processes of each run below which they do not show what processes differ by.
FEWEST_PROCESSES = 5


@dataclass(frozen=True)
class RunConditions:
    """Conditions of a run that two measurements must share to be compared.

    Attributes:
        machine: CPU, cores, versions, and NumPy's BLAS with the core it is for: see `machine_label`.
        threads: of BLAS and of the compiled kernels; None if not known.
        others: cores that other programs kept busy meanwhile, in the mean.
        data: digest of the inputs and right answers.
    """

    machine: str
    threads: int | None
    others: float
    data: str


@dataclass(frozen=True, repr=False)
class Performance:
    """Measurements of one model.

    ``time``, ``memory`` and ``accuracy`` are three numbers of a user's own, which divide and subtract.

    Attributes:
        name: of the model or variant.
        task: what a call does.
        times: by batch size, seconds of one call: one `Measurement` from each process that measured.
        peaks: by batch size, bytes: the model's state and the most that one call allocated beside it.
        model_bytes: of its state: parameters and buffers, codes and scales, each once.
        correct: which examples of the whole test set it got right, or None where no answers are known.
        run: what tells the run from others: only times of one run were interleaved.
        reference: as ``times``, of a fixed piece of work that was interleaved with them; empty if none was.
        conditions: what it was measured under; None where the file that it is from says so for all it holds.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import measure_performance
        >>> x = np.ones((8, 3), np.float32)
        >>> found = measure_performance(Linear(3, 3), x, batches=(1, 8), repeats=6, at_most_seconds=0.1)
        >>> list(found.throughput), found.accuracy is None  # without answers there is none
        ([1, 8], True)
        >>> time, memory, accuracy = found
        >>> float(time) > 0
        True
    """

    name: str
    task: str
    times: Mapping[int, tuple[Seconds, ...]]
    peaks: Mapping[int, Bytes]
    model_bytes: int
    correct: Right | None
    run: str
    reference: Mapping[int, tuple[Seconds, ...]] = field(default_factory=dict)
    conditions: RunConditions | None = None

    def __iter__(self) -> Iterator[Outcome | None]:
        """Yield time, memory and accuracy, so that one line can take them apart."""
        return iter((self.time, self.memory, self.accuracy))

    def __repr__(self) -> str:
        return repr(Performances({self.name: self}))  # a table of one row

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that were measured, smallest first."""
        return tuple(sorted(self.times))

    @property
    def time(self) -> Time:
        """Seconds of one call at the smallest batch size."""
        return Time.of_performance(self, self.seconds(self.batches[0]))

    @property
    def memory(self) -> Memory:
        """Bytes at the largest batch size: the model's state and the most that one call allocated."""
        return Memory.of_performance(self, self.peaks[self.batches[-1]])

    @property
    def throughput(self) -> dict[int, Measurement]:
        """Items per second by batch size: batch over the seconds of one call."""
        return {batch: self.seconds(batch).per(batch, "items/s") for batch in self.batches}

    def seconds(self, batch: int) -> Measurement:
        """Return seconds of one call at ``batch``; of several processes the median of their medians.

        Its interval then is that of the processes, which differ by more than the calls in one.

        Raises:
            ValueError: if that batch size was not measured.
        """
        if batch not in self.times:
            raise ValueError(f"batch must be one of those measured, {', '.join(map(str, self.batches))}, not {batch}")
        return pooled(self.times[batch])

    @property
    def accuracy(self) -> Accuracy | Any:
        """Share (0 to 1) of right answers on the test set, with its exact 95 % interval; None if no answers are known.

        It is Any to type checkers, so that they let two be subtracted.
        """
        if self.correct is None:
            return None
        return Accuracy.of_performance(self, share_right(f"accuracy of {self.name}", self.correct))

    @property
    def size(self) -> Measurement:
        """Bytes of the model's state."""
        return Counted(self.model_bytes, "B", f"state of {self.name}")


def share_right(name: str, right: Right) -> Measurement:
    """Return the share of examples that are right, with what is known of it: see `statistics.Share`."""
    count, examples = int(right.sum()), len(right)
    note = f"{count:,} of {examples:,} are right."
    conditions = Conditions(
        sample=Sample.EXAMPLES, statistic="share", interval_by="Clopper and Pearson, mid-P", note=note
    )
    return Measurement(name, tuple(right.astype(float).tolist()), "%", conditions, law=Share(count, examples))


def pooled(processes: Sequence[Measurement]) -> Measurement:
    """Return one process's measurement as it is; of several the medians of each."""
    if len(processes) == 1:
        return processes[0]
    first, medians = processes[0], tuple(one.median for one in processes)
    return Measurement(first.name, medians, first.unit, of_processes(one.conditions for one in processes))


@dataclass(frozen=True, repr=False)
class Outcome(Measurement):
    """One of the three numbers of a `Performance`: a `Measurement` that another's is held against by ``/`` or ``-``.

    ``float`` gives its median in its unit: seconds, bytes, or a share from 0 to 1.
    """

    performance: Performance = field(kw_only=True)

    @classmethod
    def of_performance(cls, performance: Performance, measured: Measurement) -> Self:
        """Return ``measured``, a number of ``performance``."""
        return cls(
            measured.name,
            measured.samples,
            measured.unit,
            measured.conditions,
            law=Known(measured.median) if measured.is_counted else measured.law,
            performance=performance,
        )

    def __float__(self) -> float:
        return self.median

    def __format__(self, spec: str) -> str:
        return format(self.median, spec) if spec else repr(self)

    def __repr__(self) -> str:
        scale = 100 if self.unit == "%" else 1
        value, low, high = (scale * each for each in (self.median, self.interval.low, self.interval.high))
        return f"{self.name}: {value:.4g} {self.unit} ({low:.4g} to {high:.4g})"


@dataclass(frozen=True, repr=False)
class Time(Outcome):
    """Seconds of one call at the smallest batch size."""

    def __truediv__(self, other: object) -> Comparison:
        """Return how many times as long it is as the time of the model that it is divided by.

        Raises:
            ValueError: if the two did other tasks, on other data, or at other batch sizes.
        """
        if not isinstance(other, Time):
            return NotImplemented
        baseline, candidate = _checked_pair(self.performance, other.performance)
        batch = baseline.batches[0]
        if batch != candidate.batches[0]:
            raise ValueError(f"times must be of one batch size, not of {batch} and {candidate.batches[0]}")
        return _speedup(baseline, candidate, batch, MATTERS, 1)


@dataclass(frozen=True, repr=False)
class Memory(Outcome):
    """Bytes at the largest batch size."""

    def __truediv__(self, other: object) -> Comparison:
        """Return how many times as many bytes as the model takes by whose memory it is divided: above 1 is smaller.

        Raises:
            ValueError: as `Time` does.
        """
        if not isinstance(other, Memory):
            return NotImplemented
        baseline, candidate = _checked_pair(self.performance, other.performance)
        if baseline.batches[-1] != candidate.batches[-1]:
            sizes = f"{baseline.batches[-1]} and {candidate.batches[-1]}"
            raise ValueError(f"memory must be of one batch size, not of {sizes}")
        return _compare_bytes(self, other, _names(baseline, candidate))


@dataclass(frozen=True, repr=False)
class Accuracy(Outcome):
    """Share of the test set that a model gets right."""

    def __sub__(self, other: object) -> Comparison:
        """Return by how much more of the same examples it gets right than the model whose accuracy is taken away.

        Raises:
            ValueError: if the two did other tasks or on other data.
        """
        if not isinstance(other, Accuracy):
            return NotImplemented
        baseline, candidate = _checked_pair(other.performance, self.performance)
        names = _names(candidate, baseline)[::-1]  # the first is what stands first
        return _compare_accuracies(baseline, candidate, names)


class Performances(dict[str, Performance]):
    """Performances of one suite by name, which print as a table; the first is what the others are compared with."""

    def __repr__(self) -> str:
        if not self:
            return "{}"
        changes = compare_with_first(self) if len(self) > 1 else {}
        header = ["Model", "Time", "95 % interval", "Memory", "Accuracy"]
        lines = [[*header, "Speedup", "Verdict"] if changes else header]
        for name, one in self.items():
            interval, accuracy, change = one.time.interval, one.accuracy, changes.get(name)
            line = [
                name,
                f"{float(one.time) * 1e3:#.3g} ms",
                f"{interval.low * 1e3:#.3g} to {interval.high * 1e3:#.3g} ms",
                f"{float(one.memory) / MIB:.2f} MiB",
                "–" if accuracy is None else f"{float(accuracy):.1%}",
            ]
            if changes:
                line += ["–", "baseline"] if change is None else [f"{float(change.speedup):.2f}", str(change.speedup)]
            lines.append(line)
        first = next(iter(self.values()))
        note = f"Time: one call at batch {first.batches[0]}; memory: at batch {first.batches[-1]}."
        numeric = [False, True, True, True, True, True, False][: len(lines[0])]
        return f"{aligned(lines, numeric)}\n{note}"


@dataclass(frozen=True)
class Change:
    """Change from a baseline to a candidate.

    Attributes:
        speedups: by batch size, time of the baseline over the candidate's with its verdict: above 1 is faster.
        memory: peak memory at the largest batch size of both.
        size: bytes of the models' state.
        accuracy: share right of the candidate less the baseline's, on the same examples; None where no answers are
            known.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite, compare
        >>> models = {"one": Linear(3, 3), "two": Linear(3, 3)}
        >>> found = benchmark_suite(models, np.ones((8, 3), np.float32), batches=(1,), repeats=6, at_most_seconds=0.1)
        >>> change = compare(found["one"], found["two"])
        >>> str(change.size), list(change.speedups)
        ('no difference beyond 0 %', [1])
    """

    speedups: Mapping[int, Comparison]
    memory: Comparison
    size: Comparison
    accuracy: Comparison | None

    @property
    def speedup(self) -> Comparison:
        """Comparison of times at the smallest batch size."""
        return self.speedups[min(self.speedups)]


def compare(baseline: Performance, candidate: Performance, matters: float = MATTERS, *, together: int = 1) -> Change:
    """Return the speedup, memory reduction and accuracy difference of a candidate, with intervals and verdicts.

    Times of one run were interleaved: their neighbours are paired, and of several processes the process is the unit.
    Times of two runs are compared process by process, or, of less than five, with what repeats are known to differ by.
    Where the runs' conditions differ, or other programs took the machine's time from one of them, there is no verdict
    on times.

    Args:
        baseline: the old version.
        candidate: the new one, on the same examples.
        matters: relative difference of time that matters; by default 0.02.
        together: how many comparisons of times are read together: the level of each is corrected for them.

    Raises:
        ValueError: if they have no batch size in common, did other tasks or on other examples, or a number is out of
            its range.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.benchmarking import benchmark_suite, compare
        >>> models = {"wide": Linear(64, 64), "thin": Linear(64, 4)}
        >>> found = benchmark_suite(models, np.ones((8, 64), np.float32), batches=(1,), repeats=6, at_most_seconds=0.1)
        >>> change = compare(found["wide"], found["thin"])
        >>> str(change.size), float(change.size)  # 4160 numbers over 260
        ('smaller', 16.0)
    """
    _checked_pair(baseline, candidate)
    batches = [size for size in baseline.batches if size in candidate.times]
    if not batches:
        raise ValueError(
            f"candidate must have one of the baseline's batch sizes {baseline.batches}, but has {candidate.batches}"
        )
    names = _names(baseline, candidate)
    has_answers = baseline.correct is not None and candidate.correct is not None
    return Change(
        {size: _speedup(baseline, candidate, size, matters, together) for size in batches},
        _compare_bytes(baseline.peaks[batches[-1]], candidate.peaks[batches[-1]], names),
        _compare_bytes(baseline.size, candidate.size, names),
        _compare_accuracies(baseline, candidate, names) if has_answers else None,
    )


def _compare_bytes(before: Measurement, after: Measurement, names: tuple[str, str]) -> Comparison:
    """Return bytes of a baseline over those of a candidate, above 1 is smaller; counted where all calls agree."""
    before, after = (Counted(one.median, one.unit, one.name) if one.std == 0 else one for one in (before, after))
    return judged(quotient(before, after, f"{before.name} / {after.name}"), names, MATTERS, Quantity.BYTES)


def _compare_accuracies(baseline: Performance, candidate: Performance, names: tuple[str, str]) -> Comparison:
    """Return the share right of a candidate less that of a baseline, on the same examples."""
    assert baseline.correct is not None
    assert candidate.correct is not None
    paired = paired_accuracy(baseline.correct, candidate.correct)
    change = accuracy_change(paired, f"accuracy of {names[1]} less that of {names[0]}")
    return judged(change, names, ACCURACY_MATTERS, Quantity.ACCURACY)


def compare_with_first(performances: Mapping[str, Performance], matters: float = MATTERS) -> dict[str, Change]:
    """Return each performance's `Change` from the first, by name, its times corrected for all comparisons made.

    Raises:
        ValueError: if there are fewer than two, or as `compare` does.
    """
    first, *others = performances.values()
    if not others:
        raise ValueError("performances must be at least two, a baseline and what is compared with it")
    together = len(others) * len(first.batches)
    return {other.name: compare(first, other, matters, together=together) for other in others}


def _checked_pair(baseline: Performance, candidate: Performance) -> tuple[Performance, Performance]:
    """Return the two, or raise ValueError unless they did the same task on the same data."""
    if baseline.task != candidate.task:
        raise ValueError(
            f"candidate must do the baseline's task {baseline.task!r}, not {candidate.task!r}: measure both in one "
            "benchmark_suite"
        )
    one, other = baseline.conditions, candidate.conditions
    if one is not None and other is not None and one.data != other.data:
        raise ValueError("candidate must be measured on the baseline's data, but its inputs or answers are different")
    return baseline, candidate


def _names(baseline: Performance, candidate: Performance) -> tuple[str, str]:
    """Return what the two are called in sentences."""
    same = baseline.name == candidate.name
    return ("the first", "the second") if same else (baseline.name, candidate.name)


def _speedup(baseline: Performance, candidate: Performance, batch: int, matters: float, together: int) -> Comparison:
    """Return the comparison of times: of neighbours if they were taken in turns, else of processes of two runs."""
    before: Sequence[Measurement] = baseline.times[batch]
    after: Sequence[Measurement] = candidate.times[batch]
    names = _names(baseline, candidate)
    if baseline.run == candidate.run:
        if len(before) == len(after) == 1:
            made = compare_paired(before[0], after[0], matters, together=together)
            return replace(made, baseline=names[0], candidate=names[1])
        return judged(ratio_of_processes(before, after, names).together(together), names, matters)
    if batch in baseline.reference and batch in candidate.reference:
        before, after = (over_reference(one.times[batch], one.reference[batch]) for one in (baseline, candidate))
    made = compare_runs(before, after, matters, names=names, together=together)
    because = _objection(baseline, candidate, batch)
    return made if because is None else made.withheld(because)


def over_reference(times: Sequence[Measurement], reference: Sequence[Measurement]) -> list[Measurement]:
    """Return the times of each process over those of the fixed work beside them, which the machine slows alike."""
    pairs = zip(times, reference, strict=True)
    return [ratio(with_prior_spread(own), with_prior_spread(fixed)) for own, fixed in pairs]


def compare_runs(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    matters: float,
    *,
    names: tuple[str, str],
    together: int,
) -> Comparison:
    """Return the ratio baseline / candidate of times that two runs took apart, with the verdict that it supports.

    With at least `FEWEST_PROCESSES` processes on each side, each process counts as one observation, its median. With
    fewer, the variation between processes cannot be estimated; the result is then the median of the processes' medians,
    with the variation that is known for repeats.

    Args:
        baseline, candidate: times, or times over a reference, one measurement from each process.
        matters, together: those of `compare`.
        names: what the two are called.
    """
    few = min(len(baseline), len(candidate)) < FEWEST_PROCESSES
    before, after = (_of_few(side) if few else pooled(side) for side in (baseline, candidate))
    made = judged(quotient(before, after, " / ".join(names)).together(together), names, matters)
    if not few:
        return made
    because = f"{made.because}; they were not timed in turns, so it holds what separate runs differ by"
    return replace(made, because=because)


def _of_few(processes: Sequence[Measurement]) -> Measurement:
    known = [with_prior_spread(one) for one in processes]
    if len(known) == 1:
        return known[0]
    return derived(known[0].name, lambda *each: np.median(each, axis=0), *known, unit=known[0].unit)


def _objection(baseline: Performance, candidate: Performance, batch: int) -> str | None:
    """Return why times of two runs give no verdict, if conditions differ or a run was disturbed; None if they may."""
    one, other = baseline.conditions, candidate.conditions
    if one is None or other is None:
        return None
    different = [
        f"{what} {before} and {after}"
        for what, before, after in (("machine", one.machine, other.machine), ("threads", one.threads, other.threads))
        if before != after
    ]
    if different:
        return f"they were measured under different conditions: {'; '.join(different)}"
    before, after = ([time.conditions for time in side.times[batch]] for side in (baseline, candidate))
    return why_incomparable(before, after, (one.others, other.others))
