"""Engines timed in turns, each in a process of its own: threads and memory of one disturb no other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from tinytorch.perf.engines.presence import available, missing, peers_python
from tinytorch.perf.engines.protocol import ENGINES, Phase, engine
from tinytorch.perf.engines.workloads import subject
from tinytorch.perf.host.identity import STEERING
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.codec import from_json
from tinytorch.perf.measuring.conditions import Conditions, of_all
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, percentile
from tinytorch.settings import variables

#: Samples of a turn.
_RUNS = 3


class EngineError(RuntimeError):
    """An engine's process failed or computes something else than we do; the message says which and why."""


@dataclass(frozen=True)
class Raced:
    """Times of several engines on one subject, taken in turns.

    Attributes:
        subject, phase, cores: what ran and on how many cores.
        times: seconds a call, by the engine's name, neighbours in time sample by sample.
        differences: by how much each engine's results differ from ours on NumPy, a share of the largest element.
    """

    subject: str
    phase: Phase
    cores: int
    times: dict[str, Measurement]
    differences: dict[str, float]

    def fastest(self, names: Iterable[str] | None = None) -> Measurement:
        """Return the times of the engine with the smallest median, among ``names`` if given.

        Raises:
            ValueError: if none of them ran.
        """
        wanted = [self.times[name] for name in (self.times if names is None else names) if name in self.times]
        if not wanted:
            raise ValueError(f"names must hold an engine that ran, one of {', '.join(self.times)}")
        return min(wanted, key=lambda times: times.median).together(len(wanted))  # which was chosen for being fast


class Runner:
    """The process of one engine."""

    def __init__(self, name: str, cores: int) -> None:
        self.name = name
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed by close()
        self._process = subprocess.Popen(
            [peers_python(), "-m", "tinytorch.perf.engines.worker", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=plain_environment() | variables(cores=str(cores)),
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the process's answer to one request.

        Raises:
            EngineError: if it says that it failed, or ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            raise EngineError(f"{self.name} failed: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with exit code {self._process.returncode}"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def plain_environment() -> dict[str, str]:
    """Return the variables of this process without those that steer BLAS and threads: each engine at its own best."""
    return {name: value for name, value in os.environ.items() if not name.startswith((*STEERING, "KMP_", "NVPL_"))}


@contextmanager
def runners(names: Sequence[str], cores: int) -> Iterator[dict[str, Runner]]:
    """Give a started process for each engine, ended after the body.

    Raises:
        ValueError: if a name is unknown, an engine is not installed, or the cores are not there.
    """
    if not 1 <= cores <= len(usable_cores()):
        raise ValueError(f"cores must be 1 to {len(usable_cores())}, those that this process may use, not {cores}")
    for name in names:
        lacks = missing(name)
        if lacks is not None:
            raise ValueError(lacks.reason)
    with ExitStack() as stack:
        started = {}
        for name in names:
            started[name] = Runner(name, cores)
            stack.callback(started[name].close)
        yield started


def race(started: dict[str, Runner], of: str, phase: Phase, *, cores: int, rounds: int = 15) -> Raced:
    """Return the times of engines on one subject, checked first to compute what ours do.

    Each round gives every engine one turn, in an order that is drawn: some untimed calls, because others had the
    caches, then three samples whose median is the turn's. Engines that cannot do the phase are left out.

    Raises:
        ValueError: if the subject is unknown or ``rounds`` below 6.
        EngineError: if an engine fails or disagrees.
    """
    subject(of)
    if rounds < FEWEST_FOR_INTERVAL:
        raise ValueError(f"rounds must be at least {FEWEST_FOR_INTERVAL}, not {rounds}")
    able = {name: runner for name, runner in started.items() if phase in engine(name).phases}
    differences = {name: runner.ask(subject=of, phase=phase)["difference"] for name, runner in able.items()}
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in able}
    order, names = np.random.default_rng(0), list(able)
    for _ in range(rounds):
        for index in order.permutation(len(names)):
            turns[names[index]].append(able[names[index]].ask(runs=_RUNS))
    versions = available()
    times = {name: _measurement(name, versions[name], of, phase, cores, taken, names) for name, taken in turns.items()}
    return Raced(of, phase, cores, times, differences)


def _measurement(
    name: str, version: str, of: str, phase: str, cores: int, turns: list[dict[str, Any]], names: list[str]
) -> Measurement:
    each = len(turns[0]["seconds"])
    taken = [from_json(turn["conditions"], Conditions, f"conditions of {name}") for turn in turns]
    conditions = replace(
        of_all(taken),
        interleaved_with=tuple(other for other in names if other != name),
        between_runs=None,
        note=f"{of}, {phase}, by {name} {version} on {cores} cores; a sample is the median of {each}.",
    )
    seconds = tuple(percentile(turn["seconds"], 50) for turn in turns)
    return with_between_run_spread(Measurement(name, seconds, "s", conditions))


def study(
    names: Sequence[str] = tuple(ENGINES),
    subjects: Sequence[str] = ("block-128",),
    phases: Sequence[Phase] = ("forward", "step"),
    *,
    cores: int = 1,
    rounds: int = 15,
) -> list[Raced] | Unmeasured:
    """Return `race` for each subject and phase, the engines' processes started once.

    Where an engine is not installed nothing runs, and what is returned says what to do.

    Raises:
        ValueError: if a name is unknown, the cores are not there, or the rounds are too few.
        EngineError: if an engine fails or disagrees with ours.
    """
    for name in names:
        lacks = missing(name)
        if lacks is not None:
            return lacks
    with runners(names, cores) as started:
        return [race(started, of, phase, cores=cores, rounds=rounds) for of in subjects for phase in phases]
