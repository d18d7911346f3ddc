"""Rank 0 of a campaign: groups workers by machine, hands out turns, and keeps each machine's results in a file."""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking import running
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.placement import placed
from tinytorch.perf.benchmarking.results import Results, load_results, performance_from_json, save_results
from tinytorch.perf.benchmarking.running import continued, extended, open_numbers, request, started
from tinytorch.perf.distributed.campaigns import campaign_worker
from tinytorch.perf.distributed.campaigns.campaign import Campaign, CampaignSide, Machine, Progress
from tinytorch.perf.distributed.campaigns.stations import Station
from tinytorch.perf.distributed.ranks.agreement import code_version

Json = dict[str, Any]


@dataclass
class _Kept:
    """One side's results on one machine, and where they are kept.

    ``held`` are processes that ended before the first, which alone measures memory and accuracy; ``first`` is the
    number of that one while it runs.
    """

    side: CampaignSide
    path: Path
    results: Results
    held: list[list[Performance]] = field(default_factory=list)
    first: int | None = None

    def add(self, measured: list[Performance]) -> None:
        """Take in one process, and write the file."""
        if not self.results.performances and not measured[0].memory:
            self.held.append(measured)
            return
        self.results = extended(self.results, measured)
        while self.held:
            self.results = extended(self.results, self.held.pop())
        save_results(self.results, self.path)


@dataclass
class _Group:
    """The workers of one machine, what they measure, and the turns that nobody has taken yet."""

    name: str
    stations: Mapping[int, Station]
    kept: list[_Kept]
    open: deque[int]
    busy: int = 0
    failed: int = 0
    tried_again: bool = False

    @property
    def has_measured(self) -> bool:
        """Whether a process has ended well in this campaign or before it."""
        return any(each.results.performances or each.held for each in self.kept)

    def machine(self) -> Machine:
        """Return what is to be told of it."""
        return Machine(
            self.name,
            tuple(dict.fromkeys(station.host for station in self.stations.values())),
            len(self.stations),
            tuple(each.path for each in self.kept),
            sum(each.results.done for each in self.kept),
            sum(each.results.plan.processes for each in self.kept),
        )


@dataclass(frozen=True)
class _Turn:
    """One process of each of ``sides``, in this order, on one worker of the group."""

    group: _Group
    number: int
    sides: list[_Kept]

    @classmethod
    def next_of(cls, group: _Group) -> _Turn:
        """Take the group's next open turn; the order of its sides is drawn."""
        number = group.open.popleft()
        group.busy += 1
        draw = np.random.default_rng((group.kept[0].side.plan.seed, number))
        order = [group.kept[index] for index in draw.permutation(len(group.kept))]
        return cls(group, number, [kept for kept in order if number in open_numbers(kept.results)])

    def asked(self) -> Json:
        """Return what `campaign_worker.measure_turn` is asked; the first of a run is to measure memory and accuracy."""
        sides = []
        for kept in self.sides:
            whole = not kept.results.performances and kept.first is None
            if whole:
                kept.first = self.number
            folder = None if kept.side.folder is None else str(kept.side.folder)
            sides.append({"folder": folder, "request": request(kept.side.plan, self.number, whole)})
        return {"ranks": [*self.group.stations], "module": running.WORKER_MODULE, "sides": sides}


def manage(executor: Any, sides: Sequence[CampaignSide], progress: Progress) -> Campaign:
    """Return the campaign once all is measured, or has failed.

    Args:
        executor: of mpi4py, whose workers have not been asked for anything yet.

    Raises:
        ValueError: as `campaign.join_campaign` says, before anything is measured.
    """
    joined = _joined(executor, sides)
    groups = _groups(joined, sides)
    failures = _measure(executor, groups, progress)
    return Campaign(tuple(group.machine() for group in groups), tuple(failures))


def _joined(executor: Any, sides: Sequence[CampaignSide]) -> list[Json]:
    """Return what each worker said of itself, in the order of their ranks."""
    plan = sides[0].plan
    started(plan, {})  # whose numbers must be in their ranges
    asked = {
        "threads": plan.threads,
        "subject": plan.subject,
        "input_shape": plan.input_shape,
        "packages": [_package(side) for side in sides],
    }
    futures = [executor.submit(campaign_worker.join, asked) for _ in range(executor.num_workers)]
    joined = sorted((future.result() for future in futures), key=lambda one: int(one["station"]["rank"]))
    for one in joined:
        if one["error"] is not None:
            raise ValueError(f"{_words(_station(one))}: {one['error']}" if len(joined) > 1 else one["error"])
    return joined


def _package(side: CampaignSide) -> tuple[str | None, str]:
    if side.folder is None:
        return None, code_version()
    return str(side.folder), code_version(side.folder / "tinytorch")


def _station(one: Json) -> Station:
    return Station(**{**one["station"], "cores": tuple(one["station"]["cores"])})


def _words(station: Station) -> str:
    return f"worker {station.rank} ({station.host}, core {', '.join(map(str, station.cores))})"


def _groups(joined: Sequence[Json], sides: Sequence[CampaignSide]) -> list[_Group]:
    """Return a group for each machine, its earlier results loaded where they are to be resumed."""
    found: dict[str, list[Json]] = {}
    for one in joined:
        found.setdefault(machine_name(started(sides[0].plan, {}, one["identity"])), []).append(one)
    groups = []
    for name, members in found.items():
        made = {station.rank: station for station in map(_station, members)}
        workers = max(station.workers for station in made.values())
        kept = [_kept(side, name if len(found) > 1 else None, members[0]["identity"], workers) for side in sides]
        numbers = sorted({number for each in kept for number in open_numbers(each.results)})
        groups.append(_Group(name, made, kept, deque(numbers)))
    return groups


def machine_name(results: Results) -> str:
    """Return a name for the machine of ``results`` that a file can bear: its CPU, its cores, and its fingerprint."""
    digest = hashlib.sha256(json.dumps(results.fingerprint, sort_keys=True).encode()).hexdigest()[:8]
    cpu = re.sub(r"[^a-z0-9]+", "-", str(results.identity["cpu"]).lower()).strip("-")[:40]
    return f"{cpu}-{results.identity['cores_usable']}-cores-{digest}"


def _kept(side: CampaignSide, name: str | None, identity: Json, workers: int) -> _Kept:
    path = side.path if name is None else side.path.with_name(f"{side.path.stem}-{name}{side.path.suffix}")
    if side.resume and path.exists():
        return _Kept(side, path, continued(load_results(path), side.plan, side.code, identity, workers))
    return _Kept(side, path, started(side.plan, side.code, identity))


def _measure(executor: Executor, groups: Sequence[_Group], progress: Progress) -> list[str]:
    """Hand out all turns; return a sentence for each that failed."""
    failures: list[str] = []
    handed: dict[Future[Json], _Turn] = {}
    _tell(groups, progress)
    while True:
        for group in groups:
            while group.open and group.busy < len(group.stations):
                turn = _Turn.next_of(group)
                handed[executor.submit(campaign_worker.measure_turn, turn.asked())] = turn
        if not handed:
            return failures + [_lost(group, each) for group in groups for each in group.kept if each.held]
        for future in wait(handed, return_when=FIRST_COMPLETED).done:
            failure = _taken(handed.pop(future), future.result())
            if failure is not None:
                failures.append(failure)
        _tell(groups, progress)


def _tell(groups: Sequence[_Group], progress: Progress) -> None:
    machines = [group.machine() for group in groups]
    progress(sum(one.done for one in machines), sum(one.planned for one in machines))


def _taken(turn: _Turn, answer: Json) -> str | None:
    """Take in what a worker made of a turn; return a sentence if it failed."""
    group = turn.group
    group.busy -= 1
    if "answers" in answer:
        place = {"process": turn.number, **asdict(group.stations[answer["rank"]])}
        for kept, measured in zip(turn.sides, answer["answers"], strict=True):
            kept.add([placed(performance_from_json(one, kept.results.run), place) for one in measured])
        return None
    firsts = [kept for kept in turn.sides if kept.first == turn.number]
    for kept in firsts:
        kept.first = None
    if "declined" in answer:  # it went to a worker of another machine, which became free at the same time
        group.open.appendleft(turn.number)
        return None
    if any(kept.held for kept in firsts) and not group.open and not group.tried_again:
        group.open.append(turn.number)  # the others cannot be kept without it
        group.tried_again = True
        return None
    group.failed += 1
    if not group.has_measured and group.failed >= len(group.stations):
        group.open.clear()  # what failed on every worker would fail again
    station = group.stations[answer["rank"]]
    return f"{_words(station)}: process {turn.number} failed and stays open: {answer['failure']}"


def _lost(group: _Group, kept: _Kept) -> str:
    return (
        f"{group.name}: {len(kept.held)} processes that ended well are not kept, as none of those that had to measure "
        "memory and accuracy did"
    )
