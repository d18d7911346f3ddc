"""A run of a benchmark as one value, with its JSON, checked field by field when it is read."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.machine.store import measurement_to_json
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.atomic_io import write_whole

Json = dict[str, Any]
#: Fields of the identity without which times are another machine's: what the fingerprint is made of.
FINGERPRINT = ("system", "cpu", "vectors", "cores_logical", "cores_usable", "memory_bytes", "python", "numpy")


@dataclass(frozen=True)
class Plan:
    """What a run is to measure.

    Attributes:
        subject: name of a suite, or ``module:factory``.
        batches: batch sizes, smallest first.
        processes: fresh processes, one after the other.
        repeats: samples of each batch size in a process; fewer if ``at_most_seconds`` for all variants are over.
        threads: of BLAS and of the compiled kernels.
        seed: of the order of the samples; each process adds its number.
        input_shape: of one input of ``module:factory``, or None where the model brings its own.
    """

    subject: str
    batches: tuple[int, ...]
    processes: int = 12
    repeats: int = 200
    at_most_seconds: float = 5.0
    threads: int = 1
    seed: int = 0
    input_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Results:
    """What a run has measured; it may be one that was interrupted.

    Attributes:
        plan: what it was to measure.
        performances: by name, as of the processes that are done; empty if none is.
        done: processes that are.
        identity: of the machine, as `Identity.to_json` gives it.
        code: of the package: version, commit, whether it was changed; what the caller knows of it.
        created: when it began, in UTC, ISO 8601.
        run: what tells it from other runs.
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
#: Rises whenever a reader of the files would have to change; `report/benchmark.schema.json` says what each field is.
SCHEMA_VERSION = 1
Value = TypeVar("Value")


def save_results(results: Results, path: str | Path) -> Path:
    """Write ``results`` to ``path``, aside and then renamed; return the path."""
    return write_whole(path, json.dumps(results_to_json(results), allow_nan=False))


def load_results(path: str | Path) -> Results:
    """Return the results that `save_results` wrote to ``path``.

    Raises:
        ValueError: with the path and one reason, if the file is cut short, not of a benchmark, or of another version.
        OSError: if it cannot be read.
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
        "plan": {**asdict(results.plan), "batches": list(results.plan.batches)},
        "done": results.done,
        "complete": results.complete,
        "identity": results.identity,
        "code": results.code,
        "variants": [performance_to_json(one) for one in results.performances.values()],
    }


def performance_to_json(one: Performance) -> Json:
    """Return all fields of ``one``; of the examples how many there are, and the indices of the wrong ones."""
    return {
        "name": one.name,
        "task": one.task,
        "model_bytes": one.model_bytes,
        "times": {str(size): [measurement_to_json(each) for each in times] for size, times in one.times.items()},
        "reference": {
            str(size): [measurement_to_json(each) for each in times] for size, times in one.reference.items()
        },
        "memory": {str(size): measurement_to_json(each) for size, each in one.memory.items()},
        "accuracy": None
        if one.correct is None
        else {"examples": len(one.correct), "wrong": np.flatnonzero(~one.correct).tolist()},
    }


def results_from_json(given: Any) -> Results:
    """Return the results that `results_to_json` wrote.

    Raises:
        ValueError: if it is of another schema or version, or a field is missing or of another type or range.
    """
    fields = _of(dict, given, "the file")
    if fields.get("schema") != SCHEMA_NAME:
        raise ValueError(f"schema must be {SCHEMA_NAME!r}, not {fields.get('schema')!r}: this is no file of results")
    if fields.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(
            f"schema_version must be {SCHEMA_VERSION}, not {fields.get('schema_version')!r}: "
            "measure again with this version, or read the file with the one that wrote it"
        )
    try:
        return _results(fields)
    except KeyError as error:
        raise ValueError(f"the field {error} is missing") from None


def _results(fields: Json) -> Results:
    identity, run = _of(dict, fields["identity"], "identity"), _of(str, fields["run"], "run")
    for name in (*FINGERPRINT, "blas"):
        identity[name]
    variants = [performance_from_json(one, run) for one in _of(list, fields["variants"], "variants")]
    done = _whole(fields["done"], "done", 0)
    if len({one.name for one in variants}) < len(variants):
        raise ValueError("variants must have names of their own, but two share one")
    for one in variants:
        if any(len(times) != done for times in one.times.values()):
            raise ValueError(f"times of {one.name!r} must be of the {done} processes that are done")
    return Results(
        plan_from_json(_of(dict, fields["plan"], "plan")),
        {one.name: one for one in variants},
        done,
        identity,
        _of(dict, fields["code"], "code"),
        _of(str, fields["created"], "created"),
        run,
    )


def plan_from_json(fields: Json) -> Plan:
    """Return the plan of those fields; ValueError or KeyError if one is not as it must be."""
    shape = fields["input_shape"]
    return Plan(
        _of(str, fields["subject"], "subject"),
        tuple(_whole(size, "batches") for size in _of(list, fields["batches"], "batches")),
        _whole(fields["processes"], "processes"),
        _whole(fields["repeats"], "repeats"),
        _number(fields["at_most_seconds"], "at_most_seconds"),
        _whole(fields["threads"], "threads"),
        _whole(fields["seed"], "seed", 0),
        None if shape is None else tuple(_whole(length, "input_shape") for length in _of(list, shape, "input_shape")),
    )


def performance_from_json(given: Any, run: str) -> Performance:
    """Return the performance that `performance_to_json` wrote; raises as `results_from_json` does."""
    fields = _of(dict, given, "variant")
    name = _of(str, fields["name"], "name")
    times = _by_batch(fields["times"], f"times of {name!r}", lambda one: _measurements(one, "s"))
    reference = _by_batch(fields["reference"], f"reference of {name!r}", lambda one: _measurements(one, "s"))
    if not times or (reference and reference.keys() != times.keys()):
        raise ValueError(f"times and reference of {name!r} must be of the same batch sizes, one at least")
    for size, beside in reference.items():
        if [one.n for one in beside] != [one.n for one in times[size]]:
            raise ValueError(f"reference of {name!r} must have as many samples as its times at batch {size}")
    return Performance(
        name,
        _of(str, fields["task"], "task"),
        times,
        _by_batch(fields["memory"], f"memory of {name!r}", lambda one: measurement_from_json(one, "B")),
        _whole(fields["model_bytes"], "model_bytes", 0),
        _correct(fields["accuracy"]),
        run,
        reference,
    )


def _by_batch(given: Any, name: str, read: Callable[[Any], Value]) -> dict[int, Value]:
    fields = _of(dict, given, name)
    if not all(key.isdecimal() and int(key) > 0 for key in fields):
        raise ValueError(f"{name} must be by batch size, not by {', '.join(fields)}")
    return {int(key): read(one) for key, one in fields.items()}


def _measurements(given: Any, unit: str) -> tuple[Measurement, ...]:
    return tuple(measurement_from_json(one, unit) for one in _of(list, given, "measurements"))


def measurement_from_json(given: Any, unit: str) -> Measurement:
    """Return what `measurement_to_json` wrote; ValueError unless it is of numbers above 0 in ``unit``."""
    fields = _of(dict, given, "measurement")
    name, samples = _of(str, fields["name"], "name"), _of(list, fields["samples"], "samples")
    if fields["unit"] != unit:
        raise ValueError(f"{name!r} must be in {unit}, not in {fields['unit']!r}")
    if not samples or not all(type(one) in (int, float) and 0 < one < math.inf for one in samples):
        raise ValueError(f"samples of {name!r} must be numbers above 0, one at least")
    return Measurement(name, tuple(map(float, samples)), unit, _of(dict, fields["how"], "how"))


def _correct(given: Any) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    if given is None:
        return None
    fields = _of(dict, given, "accuracy")
    examples = _whole(fields["examples"], "examples")
    wrong = [_whole(index, "wrong", 0) for index in _of(list, fields["wrong"], "wrong")]
    if any(index >= examples for index in wrong):
        raise ValueError(f"wrong must be indices below {examples}, but {max(wrong)} is among them")
    right = np.ones(examples, np.bool_)
    right[wrong] = False
    return right


def _of(kind: type[Value], given: Any, name: str) -> Value:
    words = {dict: "an object", list: "a list", str: "text"}
    if not isinstance(given, kind):
        raise ValueError(f"{name} must be {words[kind]}, not {type(given).__name__}")  # type: ignore[index]
    return given


def _whole(given: Any, name: str, least: int = 1) -> int:
    if type(given) is not int or given < least:
        raise ValueError(f"{name} must be a whole number from {least} on, not {given!r}")
    return given


def _number(given: Any, name: str) -> float:
    if type(given) not in (int, float) or not 0 < given < math.inf:
        raise ValueError(f"{name} must be a number above 0, not {given!r}")
    return float(given)
