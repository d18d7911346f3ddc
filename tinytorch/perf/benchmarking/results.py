"""A run of a benchmark as one value: what was planned, what has been measured so far, where, and of which code."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.placement import workers_at_once

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

    These are the fingerprints, the threads, and, if both have measured, the workers of a host at one time.
    """
    before: Json = {**one.fingerprint, "threads": one.plan.threads}
    after: Json = {**other.fingerprint, "threads": other.plan.threads}
    if one.performances and other.performances:
        before["workers at a time"] = workers_at_once(one.performances)
        after["workers at a time"] = workers_at_once(other.performances)
    return [
        f"{name.replace('_', ' ')}: {before[name]} and {after[name]}" for name in before if before[name] != after[name]
    ]
