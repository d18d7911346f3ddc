"""Repeated recordings of a run, shares of its ops and of the time outside of them, and calls timed one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tinytorch.perf.events.stream import Event, Profile, recording
from tinytorch.perf.measuring import Measurement, collector_off, own_loop, ratio
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions

#: Runs before the first that counts.
WARM_RUNS = 3


def share(
    name: str,
    parts: Sequence[float],
    wholes: Sequence[float],
    conditions: Conditions,
    of: str,
    block: int | None = None,
) -> Measurement:
    """Return the share (0 to 1) of each part in its whole; ``of`` says what the whole is, such as "the run's time".

    ``block`` is as in `with_between_run_spread`.
    """
    samples = tuple(part / whole for part, whole in zip(parts, wholes, strict=True))
    return with_between_run_spread(Measurement(name, samples, "%", replace(conditions, part_of=of)), block)


def share_in_turns(part: Measurement, whole: Measurement, name: str) -> Measurement:
    """Return the share (0 to 1) of a part in the whole that it was timed in turns with."""
    return ratio(part, whole, name).scaled(1, "%")


def shares(
    run: Callable[[], Any], parts: Mapping[str, Callable[[Event], bool]], repeats: int = 15
) -> dict[str, Measurement]:
    """Return the share (0 to 1) of the ops' time that belongs to each part, which accepts or rejects each event.

    Each of ``repeats`` runs is recorded anew and gives one sample of each part, so that parts can be compared run by
    run. The time between ops belongs to no part.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.profiling.shares import shares
        >>> layer, x = Linear(8, 4), Tensor([[1.0] * 8])
        >>> found = shares(lambda: layer(x), {"products": lambda event: event.op == "linear"}, repeats=6)
        >>> found["products"].median, found["products"].n  # nothing else ran
        (1.0, 6)
    """
    profiles, conditions = recorded_runs(run, repeats)
    names = {part: f"share of {part}" for part in parts}
    wholes = [profile.op_seconds for profile in profiles]
    found: dict[str, Measurement] = {}
    for part, accepts in parts.items():
        seconds = [1e-9 * sum(event.self_ns for event in profile.events if accepts(event)) for profile in profiles]
        beside = tuple(name for other, name in names.items() if other != part)
        own = replace(conditions, interleaved_with=beside)
        found[part] = share(names[part], seconds, wholes, own, "the time in operations")
    return found


def recorded_and_alone(run: Callable[[], Any], repeats: int = 15) -> dict[str, Measurement]:
    """Return what recording does to a run: each recorded run is followed by one that is not recorded.

    - ``alone``: the seconds of a run that is not recorded; ``slowdown``: the time recorded over this time, without
      what the recorder does before and after a run.
    - ``outside_recorded`` and ``outside_alone``: the share of the time that passes outside of ops. The recorder itself
      works there, so the time in ops is set against the recorded run and against the other one. The second share is 0
      if that run happened to take less than the ops of the first.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    rounds: list[tuple[float, float, float]] = []
    with own_loop(WARM_RUNS) as loop:
        for _ in range(WARM_RUNS + repeats):
            profile = _recorded(run)
            start = time.perf_counter_ns()
            run()
            rounds.append((profile.op_seconds, profile.wall_seconds, (time.perf_counter_ns() - start) * 1e-9))
    in_ops, recorded, alone = zip(*rounds[WARM_RUNS:], strict=True)
    slowdown = tuple(with_it / without for with_it, without in zip(recorded, alone, strict=True))
    found = {
        "alone": with_between_run_spread(Measurement("a run that is not recorded", alone, "s", loop.conditions)),
        "slowdown": with_between_run_spread(Measurement("time recorded over alone", slowdown, "", loop.conditions)),
    }
    for name, walls in (("recorded", recorded), ("alone", alone)):
        outside = [max(wall - inside, 0.0) for wall, inside in zip(walls, in_ops, strict=True)]
        what = f"share of the time outside of ops, {name}"
        found[f"outside_{name}"] = share(what, outside, walls, loop.conditions, "the run's time")
    return found


def recorded_runs(run: Callable[[], Any], repeats: int) -> tuple[list[Profile], Conditions]:
    """Return `recordings` of a run, and the conditions under which they were taken."""
    with own_loop(WARM_RUNS) as loop:
        profiles = recordings(run, repeats)
    return profiles, loop.conditions


def recordings(run: Callable[[], Any], repeats: int = 15) -> list[Profile]:
    """Return ``repeats`` recordings of a run, after three runs that are not recorded.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    return [profile for (profile,) in recordings_in_turns([run], repeats)]


def recordings_in_turns(runs: Sequence[Callable[[], Any]], repeats: int) -> list[tuple[Profile, ...]]:
    """Return ``repeats`` rounds of recordings, one of each run, after three of each that are not recorded.

    Raises:
        ValueError: as `recordings` does.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    for run in runs:
        for _ in range(WARM_RUNS):
            run()
    with collector_off():
        return [tuple(map(_recorded, runs)) for _ in range(repeats)]


def _recorded(run: Callable[[], Any]) -> Profile:
    with recording() as recorded:
        run()
    if not recorded.profile.events:
        raise ValueError("run must make at least one op of the framework, but made none")
    return recorded.profile


def single_calls(function: Callable[[], Any], name: str, calls: int) -> Measurement:
    """Return the wall time of each of ``calls`` calls in a row, in seconds, one by one, after a few that are not.

    Nothing is averaged, so the tail that a caller would meet is all there.

    Raises:
        ValueError: if ``calls`` is below 1.
    """
    if calls < 1:
        raise ValueError(f"calls must be at least 1, not {calls}")
    seconds = []
    for _ in range(WARM_RUNS):
        function()
    with own_loop(WARM_RUNS) as loop:
        for _ in range(calls):
            start = time.perf_counter_ns()
            function()
            seconds.append((time.perf_counter_ns() - start) * 1e-9)
    return with_between_run_spread(Measurement(name, tuple(seconds), "s", loop.conditions))
