"""Repeated recordings of a run, shares of its ops and of the time between them, and calls timed one by one."""

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
    """Return, for each part, the share (0 to 1) of the ops' time that the events it accepts take.

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


def time_between_ops(run: Callable[[], Any], repeats: int = 15) -> Measurement:
    """Return the share (0 to 1) of a run's wall time that passes outside of ops: Python, the seam, the recorder.

    Raises:
        ValueError: if ``repeats`` is below 1 or the run makes no op.
    """
    profiles, conditions = recorded_runs(run, repeats)
    walls = [profile.wall_seconds for profile in profiles]
    between = [profile.wall_seconds - profile.op_seconds for profile in profiles]
    return share("share of the time between ops", between, walls, conditions, "the run's time")


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
        raise ValueError("run must make at least one op through the seam, but made none")
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
