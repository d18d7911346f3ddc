"""Profiles for other tools: Chrome's trace format (Perfetto opens it) and collapsed stacks (flame graphs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.events.stream import Event, Profile

Json = dict[str, Any]


def chrome_trace(profile: Profile, memory: MemoryProfile | None = None) -> Json:
    """Return a profile as a JSON object of Chrome's trace event format.

    Complete events ("X") with ``ts`` and ``dur`` in microseconds from the start of the run: the run, module
    calls as they nested, and ops with shapes, FLOPs and bytes. Modules have no call of their own in backward;
    there their events run from the first to the last of neighbouring ops that belong to them. With
    ``memory``, of a run of the same ops, counter events ("C") show live bytes after each op.

    Format: "Trace Event Format", Google, 2016.
    """
    where = {"pid": profile.process, "tid": profile.thread % 2**31}

    def complete(name: str, kind: str, start: int, end: int, args: Json) -> Json:
        timing = {"ts": (start - profile.start) / 1e3, "dur": (end - start) / 1e3}
        return {"name": name, "cat": kind, "ph": "X", **timing, **where, "args": args}

    events = [
        {"name": "process_name", "ph": "M", **where, "args": {"name": "tinytorch"}},
        {"name": "thread_name", "ph": "M", **where, "args": {"name": "ops"}},
        complete("run", "run", profile.start, profile.end, {"ops": len(profile.events)}),
    ]
    for span in profile.spans:
        events.append(complete(span.path or span.module, "module", span.start, span.end, {"class": span.module}))
    for stretch in backward_stretches(profile):
        events.append(complete(stretch.path, "module backward", stretch.start, stretch.end, {}))
    for event in profile.events:
        events.append(complete(event.op, event.phase, event.start, event.end, _arguments(event)))
    if memory is not None:
        for event, step in zip(profile.events, memory.steps, strict=True):
            bytes_ = dict(zip(CATEGORIES, step.live, strict=True))
            at = (event.end - profile.start) / 1e3
            events.append({"name": "live bytes", "ph": "C", "ts": at, **where, "args": bytes_})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _arguments(event: Event) -> Json:
    return {
        "module": event.path,
        "implementation": event.implementation,
        "inputs": [f"{spec.dtype}{list(spec.shape)}" for spec in event.inputs],
        "output": f"{event.output.dtype}{list(event.output.shape)}",
        "macs": event.macs,
        "flops": event.flops,
        "elementwise": event.elementwise,
        "bytes": event.traffic,
    }


@dataclass(slots=True)
class Stretch:
    """Neighbouring backward ops of one module: from the start of the first to the end of the last, in ns."""

    path: str
    start: int
    end: int


def backward_stretches(profile: Profile) -> list[Stretch]:
    """Return the stretches of backward ops of each module, outer ones before those in them."""
    known = {span.path for span in profile.spans}
    found: list[Stretch] = []
    running: list[Stretch] = []
    for event in profile.events:
        if event.phase != "backward":
            running = []
            continue
        frames = frames_of(event.path, known)
        same = 0
        while same < min(len(frames), len(running)) and running[same].path == frames[same]:
            same += 1
        del running[same:]
        for frame in frames[same:]:
            running.append(Stretch(frame, event.start, event.end))
            found.append(running[-1])
        for stretch in running:
            stretch.end = event.end
    return found


def frames_of(path: str, known: set[str]) -> list[str]:
    """Return the paths of the modules on the way to ``path``, outermost first; ``known`` are those that ran."""
    parts = path.split(".") if path else []
    outer = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return [name for name in outer if name in known or name == path]


def collapsed_stacks(profile: Profile) -> str:
    """Return one line for each stack, ``module;submodule;op nanoseconds``, the input of flame graph tools.

    The numbers are self times of ops and sum to `Profile.op_seconds`. A backward is a frame of its own, named
    ``op backward``. Format: B. Gregg, FlameGraph, stackcollapse.
    """
    known = {span.path for span in profile.spans}
    stacks: dict[str, int] = {}
    for event in profile.events:
        frames = frames_of(event.path, known)
        names = [frame[len(outer) + 1 if outer else 0 :] for outer, frame in zip(["", *frames], frames, strict=False)]
        op = event.op if event.phase == "forward" else f"{event.op} backward"
        stack = ";".join([*names, op])
        stacks[stack] = stacks.get(stack, 0) + event.self_ns
    return "".join(f"{stack} {nanoseconds}\n" for stack, nanoseconds in stacks.items())


def same_ops(one: Sequence[Event], other: Sequence[Event]) -> bool:
    """Return whether two runs ran the same ops in the same order on the same shapes."""
    return len(one) == len(other) and all(
        (a.op, a.phase, a.path, a.inputs, a.output) == (b.op, b.phase, b.path, b.inputs, b.output)
        for a, b in zip(one, other, strict=True)
    )
