"""A run of a benchmark as one value, with its JSON, checked field by field when it is read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.variants import Right
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.measurement import Bytes, Seconds

Json = dict[str, Any]
#: Fields of the identity without which times are another machine's: what the fingerprint is made of.
FINGERPRINT = ("system", "cpu", "vectors", "cores_logical", "cores_usable", "memory_bytes", "python", "numpy")


@dataclass(frozen=True)
class Plan:
    """Plan of a run: what it is to measure.

    Attributes:
        subject: name of a suite, or ``module:factory``.
        batches: batch sizes, smallest first.
        processes: fresh processes, one after the other.
        repeats: samples of each batch size in a process; fewer if ``at_most_seconds`` for all variants are over.
        threads: of BLAS and of the compiled kernels.
        seed: of the order of the samples; each process adds its number.
        input_shape: of one input of ``module:factory``, or None where the model brings its own.
        data: path of examples with the right answers (see `zoo.examples_of`), or None.
        planned: whether a `plan` of the first variant is one more.
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


def check_plan(plan: Plan) -> None:
    """Raise ValueError if a number of the plan is out of its range."""
    counts = {"processes": plan.processes, "repeats": plan.repeats, "threads": plan.threads}
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    if not plan.at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {plan.at_most_seconds}")
    if not plan.batches or min(plan.batches) < 1:
        raise ValueError(f"batches must be whole numbers above 0, not {plan.batches}")


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

    @property
    def complete(self) -> bool:
        """Whether all that was planned is measured."""
        return self.done >= self.plan.processes

    @property
    def fingerprint(self) -> Json:
        """What makes times comparable: the machine's and the libraries' names, sizes and versions."""
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


SCHEMA_NAME = "tinytorch-benchmark"
#: Rises whenever a reader of the files would have to change.
SCHEMA_VERSION = 3


def save_results(results: Results, path: str | Path) -> Path:
    """Write ``results`` to ``path``, aside and then renamed; return the path.

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
    return write_whole(path, json.dumps(results_to_json(results), allow_nan=False))


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
    text = Path(path).read_text("utf-8")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} must be a whole file of results, but is cut short or damaged at character {error.pos}"
        ) from None
    try:
        return results_from_json(document)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def results_to_json(results: Results) -> Json:
    """Return everything as one object of `SCHEMA_NAME`, version `SCHEMA_VERSION`, with all samples."""
    return {
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "run": results.run,
        "created": results.created,
        "plan": to_json(results.plan),
        "done": results.done,
        "complete": results.complete,
        "identity": results.identity,
        "code": results.code,
        "variants": [performance_to_json(one) for one in results.performances.values()],
    }


@dataclass(frozen=True)
class _Accuracy:
    """Number of examples, and the indices of the wrong ones."""

    examples: int
    wrong: tuple[int, ...]


@dataclass(frozen=True)
class _Variant:
    """A `Performance` as its file has it."""

    name: str
    task: str
    model_bytes: int
    times: Mapping[int, tuple[Seconds, ...]]
    reference: Mapping[int, tuple[Seconds, ...]]
    memory: Mapping[int, Bytes]
    accuracy: _Accuracy | None


@dataclass(frozen=True)
class _File:
    """A file of results, less its schema."""

    run: str
    created: str
    plan: Plan
    done: int
    identity: Json
    code: Json
    variants: tuple[_Variant, ...]


def performance_to_json(one: Performance) -> Json:
    """Return all fields of ``one``; of the examples how many there are, and the indices of the wrong ones."""
    right = one.correct
    accuracy = None if right is None else _Accuracy(len(right), tuple(np.flatnonzero(~right).tolist()))
    made: Json = to_json(_Variant(one.name, one.task, one.model_bytes, one.times, one.reference, one.peaks, accuracy))
    return made


def results_from_json(given: Any) -> Results:
    """Return the results that `results_to_json` wrote.

    Raises:
        ValueError: if it is of another schema or version, or a field is missing or of another type or range.
    """
    if not isinstance(given, dict) or given.get("schema") != SCHEMA_NAME:
        found = given.get("schema") if isinstance(given, dict) else type(given).__name__
        raise ValueError(f"schema must be {SCHEMA_NAME!r}, not {found!r}: this is no file of results")
    if given.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"the file is of version {given.get('schema_version')!r}, and this program reads {SCHEMA_VERSION}: "
            "measure again, or read it with the program that wrote it"
        )
    file = from_json(given, _File, "results")
    for name in (*FINGERPRINT, "blas"):
        if name not in file.identity:
            raise ValueError(f"identity must have the field {name!r}")
    check_plan(file.plan)
    variants = [_performance(one, file.run) for one in file.variants]
    if len({one.name for one in variants}) < len(variants):
        raise ValueError("variants must have names of their own, but two share one")
    for one in variants:
        if any(len(times) != file.done for times in one.times.values()):
            raise ValueError(f"times of {one.name!r} must be of the {file.done} processes that are done")
    by_name = {one.name: one for one in variants}
    return Results(file.plan, by_name, file.done, file.identity, file.code, file.created, file.run)


def performance_from_json(given: Any, run: str) -> Performance:
    """Return the performance that `performance_to_json` wrote; raises as `results_from_json` does."""
    return _performance(from_json(given, _Variant, "variant"), run)


def _performance(one: _Variant, run: str) -> Performance:
    if one.model_bytes < 0:
        raise ValueError(f"model_bytes of {one.name!r} must be at least 0, not {one.model_bytes}")
    if not one.times or (one.reference and one.reference.keys() != one.times.keys()):
        raise ValueError(f"times and reference of {one.name!r} must be of the same batch sizes, one at least")
    for size, beside in one.reference.items():
        if [each.n for each in beside] != [each.n for each in one.times[size]]:
            raise ValueError(f"reference of {one.name!r} must have as many samples as its times at batch {size}")
    right = None if one.accuracy is None else _right(one.accuracy)
    return Performance(one.name, one.task, one.times, one.memory, one.model_bytes, right, run, one.reference)


def _right(given: _Accuracy) -> Right:
    if any(not 0 <= index < given.examples for index in given.wrong):
        raise ValueError(f"wrong must be indices below {given.examples}, but {max(given.wrong)} is among them")
    right = np.ones(given.examples, np.bool_)
    right[list(given.wrong)] = False
    return right
