"""A run of a benchmark as one value, with its file, and two runs compared whole."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking.performance import MATTERS, Change, Performance, compare, compare_runs, over_reference
from tinytorch.perf.host.identity import machine_label
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.codec import Format
from tinytorch.perf.measuring.comparison import Comparison

Json = dict[str, Any]
#: Fields of the identity without which times are another machine's: what the fingerprint is made of.
FINGERPRINT = ("system", "cpu", "vectors", "cores_logical", "cores_usable", "memory_bytes", "python", "numpy")


@dataclass(frozen=True)
class Plan:
    """Plan of a run: what it is to measure.

    Attributes:
        subject: name of a suite, ``module:factory``, or a file; of several files, their names for a reader.
        batches: batch sizes, smallest first.
        processes: fresh processes, one after the other.
        repeats: samples of each batch size in a process; fewer if ``at_most_seconds`` for all variants are over.
        threads: of BLAS and of the compiled kernels.
        seed: of the order of the samples; each process adds its number.
        input_shape: of one input of ``module:factory``, or None where the model brings its own.
        data: path of examples with the right answers (see `zoo.examples_of`), or None.
        planned: whether a `plan` of the first variant is one more.
        files: paths of several files that are measured side by side in ONNX Runtime, or none.
    """

    subject: str
    batches: tuple[int, ...]
    processes: int = 12
    repeats: int = 200
    at_most_seconds: float = 5.0
    threads: int = 1
    seed: int = 0
    input_shape: tuple[int, ...] | None = None
    data: str | None = None
    planned: bool = False
    files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        counts = {"processes": self.processes, "repeats": self.repeats, "threads": self.threads}
        for name, count in counts.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, not {count}")
        if not self.at_most_seconds > 0:
            raise ValueError(f"at_most_seconds must be above 0, not {self.at_most_seconds}")
        if not self.batches or min(self.batches) < 1:
            raise ValueError(f"batches must be whole numbers above 0, not {self.batches}")


@dataclass(frozen=True)
class Results:
    """Results of a run, which may be one that was interrupted.

    Attributes:
        plan: what it was to measure.
        performances: by name, as of the processes that are done; empty if none is.
        done: processes that are.
        identity: of the machine: its CPU, memory, system, libraries and variables, as JSON holds them.
        code: of the package: version, commit, whether it was changed; what the caller knows of it.
        created: when it began, in UTC, ISO 8601.
        run: what tells it from other runs.

    Examples:
        >>> from tinytorch.perf.benchmarking.results import Plan
        >>> from tinytorch.perf.benchmarking.running import started
        >>> results = started(Plan("mlp", batches=(1, 64)), {"version": "0.1.0"})
        >>> results.done, results.complete
        (0, False)
    """

    plan: Plan
    performances: Mapping[str, Performance]
    done: int
    identity: Json
    code: Json = field(default_factory=dict)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        for name in (*FINGERPRINT, "blas"):
            if name not in self.identity:
                raise ValueError(f"identity must have the field {name!r}")
        for name, one in self.performances.items():
            if name != one.name:
                raise ValueError(f"performances must be by their names, but {one.name!r} is there as {name!r}")
            if not one.times or any(len(times) != self.done for times in one.times.values()):
                raise ValueError(
                    f"times of {one.name!r} must hold one measurement for each of the {self.done} finished processes"
                )
            if one.model_bytes < 0:
                raise ValueError(f"model_bytes of {one.name!r} must be at least 0, not {one.model_bytes}")
            if one.reference and one.reference.keys() != one.times.keys():
                raise ValueError(
                    f"reference of {one.name!r} must have the batch sizes of its times, {[*one.times]}, "
                    f"not {[*one.reference]}"
                )
            for size, beside in one.reference.items():
                if [each.n for each in beside] != [each.n for each in one.times[size]]:
                    raise ValueError(
                        f"reference of {one.name!r} must have as many samples as its times at batch {size}"
                    )

    @property
    def complete(self) -> bool:
        """Whether all planned measurements are done."""
        return self.done >= self.plan.processes

    @property
    def fingerprint(self) -> Json:
        """What must agree for times to be comparable: names, sizes and versions of the machine and its libraries."""
        named: Json = {name: self.identity[name] for name in FINGERPRINT}
        named["blas"] = [[one["name"], one["version"], one["core"]] for one in self.identity["blas"]]
        return named


def differences(one: Results, other: Results) -> list[str]:
    """Return what of two runs' conditions differs, a sentence each, none if nothing does.

    These are the fingerprints and the threads.
    """
    before: Json = {**one.fingerprint, "threads": one.plan.threads}
    after: Json = {**other.fingerprint, "threads": other.plan.threads}
    return [
        f"{name.replace('_', ' ')}: {before[name]} and {after[name]}" for name in before if before[name] != after[name]
    ]


#: Files of results.
RESULTS = Format("tinytorch-benchmark", 4, Results, "`tinytorch bench --json FILE`")


def save_results(results: Results, path: str | Path) -> Path:
    """Write ``results`` to ``path`` atomically, and return the path.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from tinytorch.perf.benchmarking import save_results
        >>> from tinytorch.perf.benchmarking.results import Plan
        >>> from tinytorch.perf.benchmarking.running import started
        >>> results = started(Plan("mlp", batches=(1,)), {"version": "0.1.0"})
        >>> with TemporaryDirectory() as folder:
        ...     save_results(results, f"{folder}/run.json").name
        'run.json'
    """
    return RESULTS.write(path, results, machine_label())


def load_results(path: str | Path) -> Results:
    """Return the results that `save_results` wrote to ``path``.

    Raises:
        ValueError: with the path and one reason, if the file is cut short, not of a benchmark, or of another version.
        OSError: if it cannot be read.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> from tinytorch.perf.benchmarking import load_results, save_results
        >>> from tinytorch.perf.benchmarking.results import Plan
        >>> from tinytorch.perf.benchmarking.running import started
        >>> results = started(Plan("mlp", batches=(1,)), {"version": "0.1.0"})
        >>> with TemporaryDirectory() as folder:
        ...     load_results(save_results(results, f"{folder}/run.json")).plan.subject
        'mlp'
    """
    return RESULTS.read(path)[0]


@dataclass(frozen=True)
class ResultsChange:
    """Change from a base run to a new one.

    Attributes:
        changes: of each variant that both runs measured, by name; times corrected for all comparisons made.
        geometric_mean: of all those times, base over new, taken in each process: above 1 is faster.
        warnings: sentences on what makes the comparison doubtful: other machine, other plan, incomplete runs.
        only_base, only_new: variants that only one of the runs has.
    """

    changes: Mapping[str, Change]
    geometric_mean: Comparison
    warnings: tuple[str, ...]
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]

    @property
    def regressions(self) -> tuple[str, ...]:
        """What is proven worse, a few words each: slower, larger or less accurate by more than does not matter."""
        found = []
        for name, change in self.changes.items():
            found += [
                f"{name} at batch {size} is slower: {_interval(speedup)} of its speed"
                for size, speedup in change.speedups.items()
                if speedup.is_loss
            ]
            if change.memory.is_loss:
                found.append(f"{name} takes more memory: {1 / float(change.memory):.3g} times as much")
            if change.size.is_loss:
                found.append(f"{name} is larger: {1 / float(change.size):.3g} times as many bytes")
            if change.accuracy is not None and change.accuracy.is_loss:
                found.append(f"{name} is less accurate: {100 * float(change.accuracy):+.2f} points")
        if self.geometric_mean.is_loss:
            found.append(f"the geometric mean is slower: {_interval(self.geometric_mean)} of the speed")
        return tuple(found)


def _interval(made: Comparison) -> str:
    return f"{made.interval.low:.3f} to {made.interval.high:.3f}"


def compare_results(base: Results, new: Results, matters: float = MATTERS) -> ResultsChange:
    """Return what two separate runs say of each variant that both have, and of all together.

    Args:
        base: the older run.
        new: the newer.
        matters: relative difference of time that matters: 0.02 is two per cent.

    Raises:
        ValueError: if the runs have no variant and batch size in common, or a number is out of its range.
    """
    if not 0 <= matters < math.inf:
        raise ValueError(f"matters must be at least 0, such as 0.02 for two per cent, not {matters}")
    names = [name for name in base.performances if name in new.performances]
    # A plan may be the same and the two files one run, which was saved twice: nothing then was taken in turns.
    before = {name: replace(base.performances[name], run="base") for name in names}
    after = {name: replace(new.performances[name], run="new") for name in names}
    shared = [(name, size) for name in names for size in before[name].batches if size in after[name].times]
    if not shared:
        raise ValueError("the runs must have a variant and a batch size in common, but have none")
    compared = len(shared) + 1
    changes = {
        name: compare(before[name], after[name], matters, together=compared)
        for name in dict.fromkeys(name for name, _ in shared)
    }
    mean = _geometric_mean(before, after, shared, matters, compared)
    return ResultsChange(
        changes,
        mean,
        tuple(_warnings(base, new)),
        tuple(name for name in base.performances if name not in new.performances),
        tuple(name for name in new.performances if name not in base.performances),
    )


def _warnings(base: Results, new: Results) -> list[str]:
    found = []
    changed = differences(base, new)
    if changed:
        found.append(f"this comparison crosses machines or environments: {'; '.join(changed)}")
    for name, one in (("base", base), ("new", new)):
        if not one.complete:
            found.append(f"the {name} run is not complete: {one.done} of {one.plan.processes} processes")
    if base.plan.subject != new.plan.subject:
        found.append(f"the runs are of {base.plan.subject} and {new.plan.subject}")
    return found


def _geometric_mean(
    before: Mapping[str, Performance],
    after: Mapping[str, Performance],
    shared: Sequence[tuple[str, int]],
    matters: float,
    together: int,
) -> Comparison:
    """Return the comparison of each process's geometric mean of all its times, over the reference's if both have it."""
    has_reference = all(one.reference for side in (before, after) for one in side.values())

    def means(side: Mapping[str, Performance]) -> list[Measurement]:
        times: list[Sequence[Measurement]] = [side[name].times[size] for name, size in shared]
        if has_reference:
            times = [over_reference(side[name].times[size], side[name].reference[size]) for name, size in shared]
        logs = np.log([[one.median for one in processes] for processes in times]).mean(axis=0)
        return [Measurement("geometric mean", (mean,), "") for mean in np.exp(logs).tolist()]

    return compare_runs(means(before), means(after), matters, names=("base", "new"), together=together)
