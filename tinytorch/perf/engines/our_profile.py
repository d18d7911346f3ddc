"""What a subject's calls on our own engines are made of: where the time goes, and how long the roofs would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinytorch.perf.engines import ours
from tinytorch.perf.engines.protocol import ENGINES, AdamWSettings, Engine, Phase
from tinytorch.perf.engines.workloads import Subject, prompt_of
from tinytorch.perf.events.stream import Profile, op_groups, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.roofline.bounds import bandwidth_at, roof_seconds

#: AdamW reads parameter, gradient and two moments, and writes all but the gradient.
_ARRAYS_OF_ADAMW = 7
WARM_UP_CALLS = 5
#: Calls that are recorded, of which the fastest is kept: in the first ones the recorder itself is cold.
RECORDINGS = 9


@dataclass(frozen=True)
class Part:
    """All calls of one op in one phase: its name, ``calls``, ``seconds``, and its ``share`` of the whole call."""

    name: str
    calls: int
    seconds: float
    share: float


def recorded(engine: Engine, subject: Subject, phase: Phase) -> Profile:
    """Return the events of one warm call on one of our engines, in this process; recording makes short ops longer.

    Raises:
        ValueError: if the engine is not ours: others have no events.
    """
    if engine.translation != "ours":
        raise ValueError(f"engine must be one of ours, whose ops the seam sees, not {engine.name!r}")
    with ours.scope(engine.setting):
        call: Callable[[], object]
        if phase == "decode":
            call = ours.decoding(engine.setting, *prompt_of(subject))
        elif phase == "forward":
            inputs, _ = subject.batch()
            call = ours.forward(engine.setting, subject.make(), inputs)
        else:
            call = ours.training(engine.setting, subject.make(), subject.batch(), subject.loss, AdamWSettings()).step
        for _ in range(WARM_UP_CALLS):
            call()
        return min((_recording(call) for _ in range(RECORDINGS)), key=lambda profile: profile.wall_seconds)


def _recording(call: Callable[[], object]) -> Profile:
    with recording() as found:
        call()
    return found.profile


def parts(profile: Profile) -> list[Part]:
    """Return where a recorded call's time went, the largest part first; what no op took, an optimizer's step
    among it, is named "between ops"."""
    whole = profile.wall_seconds
    found = [
        Part(" ".join(key), len(indices), seconds, seconds / whole)
        for key, indices in op_groups(profile).items()
        for seconds in [sum(profile.events[i].self_ns for i in indices) * 1e-9]
    ]
    left = whole - sum(part.seconds for part in found)
    return sorted([*found, Part("between ops", 0, left, left / whole)], key=lambda part: part.seconds, reverse=True)


def seconds_at_roof(subject: Subject, phase: Phase, ceilings: Ceilings) -> float:
    """Return the time that a call takes with every op at its roof, in seconds, ops as the unfused model has them.

    A training step adds AdamW's compulsory bytes at the bandwidth of the level that holds them. A fused model moves
    fewer bytes and may be faster.
    """
    profile = recorded(ENGINES["tinytorch"], subject, phase)
    seconds, _, _ = roof_seconds(profile.events, ceilings)
    if phase != "step":
        return seconds
    moved = _ARRAYS_OF_ADAMW * sum(parameter.data.nbytes for parameter in subject.make().parameters())
    return seconds + moved / bandwidth_at(moved, ceilings).median
