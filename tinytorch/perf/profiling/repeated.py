"""Profiles of repeated runs: the time of each op, module and stack in every run, kept in a file, and two compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, NamedTuple

from tinytorch.perf.events.call_tree import Frame, call_tree
from tinytorch.perf.events.stream import COLLECTOR, Profile
from tinytorch.perf.events.trace import NOT_NAMED, stack_text
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread, with_prior_spread
from tinytorch.perf.measuring.codec import Format
from tinytorch.perf.measuring.comparison import Comparison, compare_apart
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import why_incomparable
from tinytorch.perf.profiling.breakdown import between_rows, layer_rows, op_rows

#: Times by name, of one run.
Times = Mapping[str, float]


class RunTimes(NamedTuple):
    """Seconds of one run by name: of the whole, and of ops, modules and stacks or what stands for them in a program."""

    whole: float
    ops: Times
    layers: Times
    stacks: Times


@dataclass(frozen=True)
class Timed:
    """One thing, and the time that it took in each run."""

    name: str
    seconds: Annotated[Measurement, "s"]


@dataclass(frozen=True)
class RepeatedProfile:
    """Several recorded runs of one program.

    Attributes:
        name: what ran.
        setting: on what, such as the shape of the input; "" of a script.
        others: cores that other processes kept busy meanwhile, in the mean.
        whole: wall time of each run.
        ops: own time of each op and phase, and of each thing that takes time between ops; they sum to the run.
        layers: time of each module with those in it and the Python between its ops, and of each region.
        stacks: own time of each stack of frames, ``region;module;op``.
        irregular: what did not take time in every run, and is not compared.
    """

    name: str
    setting: str
    others: float
    whole: Annotated[Measurement, "s"]
    ops: tuple[Timed, ...]
    layers: tuple[Timed, ...]
    stacks: tuple[Timed, ...]
    irregular: tuple[str, ...]


def repeated(name: str, record: Callable[[], Sequence[Profile]], setting: str = "") -> RepeatedProfile:
    """Return what recorded runs of one program say together.

    Args:
        name: what runs.
        setting: on what, such as the shape of the input.
        record: runs it, and returns the runs; what other processes do meanwhile is looked at.

    Raises:
        ValueError: if there are none.
    """
    neighbours = BackgroundLoad()
    profiles = record()
    others = neighbours.cores()
    if not profiles:
        raise ValueError("record must return at least one recorded run")
    conditions = Conditions(blas_threads=profiles[0].blas_threads or "unknown")
    waited = [profile.waited for profile in profiles]
    if None not in waited:
        lost = sum(filter(None, waited)) * 1e-9 / sum(profile.wall_seconds for profile in profiles)
        conditions = replace(conditions, cpu_per_wall=1 - lost)
    runs = [RunTimes(one.wall_seconds, own_times(one), _layers(one), _stacks(one)) for one in profiles]
    return _together(name, setting, others, conditions, runs)


def repeated_program(name: str, record: Callable[[], Sequence[RunTimes]], setting: str) -> RepeatedProfile:
    """Return what runs of one program say together, of which stacks were sampled: as `repeated`.

    What is seen in a part of the runs only is left out, because samples may miss what is short.
    """
    neighbours = BackgroundLoad()
    runs = record()
    made = _together(name, setting, neighbours.cores(), Conditions(blas_threads="unknown"), runs)
    return replace(made, irregular=())


def _together(
    name: str, setting: str, others: float, conditions: Conditions, runs: Sequence[RunTimes]
) -> RepeatedProfile:
    irregular: list[str] = []

    def timed(read: Callable[[RunTimes], Times]) -> tuple[Timed, ...]:
        found = []
        each = [read(run) for run in runs]
        for key in dict.fromkeys(key for times in each for key in times):
            samples = tuple(times.get(key, 0.0) for times in each)
            if min(samples) > 0:
                found.append(Timed(key, with_between_run_spread(Measurement(key, samples, "s", conditions))))
            else:
                irregular.append(key)
        return tuple(found)

    whole = tuple(run.whole for run in runs)
    return RepeatedProfile(
        name,
        setting,
        others,
        with_between_run_spread(Measurement(name, whole, "s", conditions)),
        timed(lambda run: run.ops),
        timed(lambda run: run.layers),
        timed(lambda run: run.stacks),
        tuple(dict.fromkeys(irregular)),
    )


def own_times(profile: Profile) -> Times:
    """Return the own time of each op and phase, and of each thing that takes time between ops; they sum to the run."""
    found: dict[str, float] = {}
    for row in [*op_rows(profile, None, timed=True), *between_rows(profile)]:
        key = f"{row.op} ({row.phase})"
        found[key] = found.get(key, 0.0) + (row.self_seconds or 0.0)
    return found


def _layers(profile: Profile) -> Times:
    return {
        row.path or "outside of modules": (row.total_seconds or 0.0) + (row.between_seconds or 0.0)
        for row in layer_rows(profile, None, timed=True)
    }


def _stacks(profile: Profile) -> Times:
    tree = call_tree(profile)
    found = {NOT_NAMED: tree.self_ns * 1e-9}
    for names, frame in tree.stacks():
        if frame.self_ns or frame.kind == "op":
            key = stack_text(names)
            found[key] = found.get(key, 0.0) + frame.self_ns * 1e-9
    return found


#: Files of repeated runs.
REPEATED = Format("tinytorch-repeated-profile", 5, RepeatedProfile, "`tinytorch profile --save FILE`")


@dataclass(frozen=True)
class Change:
    """One thing in two profiles, and the comparison of its times, base over new."""

    name: str
    base: Measurement
    new: Measurement
    speedup: Comparison

    @property
    def saved(self) -> float:
        """Seconds by which the medians differ, above 0 where the new one is shorter."""
        return self.base.median - self.new.median


@dataclass(frozen=True)
class ProfileChange:
    """What two profiles of repeated runs say together, each list by how much the medians differ.

    Attributes:
        whole: the runs themselves.
        ops, layers, stacks: what both have.
        only_base, only_new: what only one of them has.
        warnings: what makes the comparison doubtful, a sentence each.
    """

    whole: Change
    ops: tuple[Change, ...]
    layers: tuple[Change, ...]
    stacks: tuple[Change, ...]
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def slower(self) -> tuple[Change, ...]:
        """What is slower by more than what matters: the whole, ops and modules."""
        return tuple(one for one in (self.whole, *self.ops, *self.layers) if one.speedup.is_loss)


#: Relative difference of times between two runs that matters.
MATTERS = 0.02


def compare_profiles(
    base: RepeatedProfile, new: RepeatedProfile, matters: float = MATTERS, machines: tuple[str, str] = ("", "")
) -> ProfileChange:
    """Return what got faster and slower from ``base`` to ``new``: times of the whole, of ops, modules and stacks.

    Each speedup has the intervals of both sides, with what repeats differ by. Verdicts on the whole, ops and modules
    hold together with 95 % (Bonferroni), where the whole has half of what may go wrong; those on stacks, which only
    colour a drawing, among themselves. There are no verdicts between different machines or inputs, nor where other
    programs took the machine's time from one side.

    Args:
        base: the older runs.
        new: the newer.
        matters: relative difference of time that matters.
        machines: where each was recorded, as their files say; of runs of one process there is one machine.

    Raises:
        ValueError: if ``matters`` is below 0.
    """
    if not 0 <= matters < math.inf:
        raise ValueError(f"matters must be at least 0, such as 0.02 for two per cent, not {matters}")
    ops, layers, stacks = (_shared(getattr(base, kind), getattr(new, kind)) for kind in ("ops", "layers", "stacks"))
    withheld = _objection(base, new, machines)
    judge = partial(_change, matters=matters, together=2 * (len(ops) + len(layers)), withheld=withheld is not None)
    old_names, new_names = ({one.name for one in (*made.ops, *made.layers)} for made in (base, new))
    return ProfileChange(
        judge("the whole run", base.whole, new.whole, together=2),
        _changes(ops, judge),
        _changes(layers, judge),
        _changes(stacks, partial(judge, together=max(len(stacks), 1))),
        tuple(sorted(old_names - new_names)),
        tuple(sorted(new_names - old_names)),
        (*([withheld] if withheld else []), *_warnings(base, new)),
    )


def _objection(base: RepeatedProfile, new: RepeatedProfile, machines: tuple[str, str]) -> str | None:
    """Return why there is no verdict; None if there may be one."""
    if machines[0] != machines[1]:
        return (
            "no verdict, because the profiles were recorded on different machines or libraries: "
            f"{machines[0]}; {machines[1]}"
        )
    if base.setting != new.setting:
        return f"no verdict, because the profiles are of different work: {base.setting}; {new.setting}"
    because = why_incomparable([base.whole.conditions], [new.whole.conditions], (base.others, new.others))
    return because and f"no verdict, because {because}"


def _shared(base: Iterable[Timed], new: Iterable[Timed]) -> list[tuple[Timed, Timed]]:
    known = {one.name: one for one in new}
    return [(one, known[one.name]) for one in base if one.name in known]


def _changes(
    pairs: Iterable[tuple[Timed, Timed]], judge: Callable[[str, Measurement, Measurement], Change]
) -> tuple[Change, ...]:
    made = (judge(one.name, one.seconds, other.seconds) for one, other in pairs)
    return tuple(sorted(made, key=lambda change: -abs(change.saved)))


def _change(name: str, base: Measurement, new: Measurement, *, matters: float, together: int, withheld: bool) -> Change:
    sides = with_prior_spread(base), with_prior_spread(new)
    made = compare_apart(*sides, matters, names=("the base", name), together=together)
    return Change(name, *sides, made.withheld("the profiles cannot be compared") if withheld else made)


def _warnings(base: RepeatedProfile, new: RepeatedProfile) -> Iterable[str]:
    if base.name != new.name:
        yield f"the profiles are of {base.name} and of {new.name}"
    for name, made in (("base", base), ("new", new)):
        irregular = [one for one in made.irregular if COLLECTOR not in one]  # which runs when it wants to
        if irregular:
            yield f"in the {name} profile these did not run every time: {', '.join(irregular)}"


def tree_of(stacks: Iterable[Timed]) -> Frame:
    """Return the call tree of the median own times of stacks."""
    root = Frame("run", "run", calls=1)
    for one in stacks:
        nanoseconds = round(one.seconds.median * 1e9)
        if one.name == NOT_NAMED:
            root.self_ns += nanoseconds
            continue
        frame = root
        for part in one.name.split(";"):
            frame = frame.within(part, "op", "")
        frame.self_ns += nanoseconds
    return root
