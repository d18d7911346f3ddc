"""Profiles for other tools: Chrome's trace format (Perfetto opens it) and collapsed stacks (flame graphs)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile
from tinytorch.perf.events.call_tree import Frame, call_tree, frames_of
from tinytorch.perf.events.stream import COLLECTOR, Event, Profile

Json = dict[str, Any]


def trace_text(profile: Profile, memory: MemoryProfile | None = None, more: Iterable[Json] = ()) -> str:
    """Return a profile as JSON text in Chrome's trace event format; what ops of one kind share is made once.

    Complete events ("X") with ``ts`` and ``dur`` in microseconds from the start of the run: the run, regions and module
    calls as they nested, runs of the garbage collector, and ops with shapes, FLOPs and bytes. Modules have no call of
    their own in backward; there their events run from the first to the last of neighbouring ops that belong to them.
    With ``memory``, of a run of the same ops, counter events ("C") show live bytes after each op. ``more`` are events
    of other instruments that looked at the same run.

    Format: "Trace Event Format", Google, 2016.
    """
    where = {"pid": profile.process, "tid": profile.thread % 2**31}

    def complete(name: str, kind: str, start: int, end: int, args: Json) -> Json:
        timing = {"ts": (start - profile.start) / 1e3, "dur": (end - start) / 1e3}
        return {"name": name, "cat": kind, "ph": "X", **timing, **where, "args": args}

    columns = profile.columns
    before = [
        {"name": "process_name", "ph": "M", **where, "args": {"name": "tinytorch"}},
        {"name": "thread_name", "ph": "M", **where, "args": {"name": "ops"}},
        complete("run", "run", profile.start, profile.end, {"ops": len(columns)}),
    ]
    for region in profile.regions:
        kind = "collector" if region.name == COLLECTOR else "region"
        waited = {"waited (us)": region.waited / 1e3}
        before.append(complete(region.name, kind, region.start, region.end, waited))
    for span in profile.spans:
        before.append(complete(span.path or span.module, "module", span.start, span.end, {"class": span.module}))
    for one in backward_stretches(profile):
        before.append(complete(one.path, "module backward", one.start, one.end, {}))
    shared = []
    for op in columns.kinds:
        same = {"name": op.op, "cat": op.phase, "ph": "X", **where, "args": _arguments(op)}
        shared.append(json.dumps(same)[:-1])
    starts = ((columns.start - profile.start) / 1e3).tolist()
    lengths = ((columns.end - columns.start) / 1e3).tolist()
    ops = [
        f'{shared[number]}, "ts": {start!r}, "dur": {length!r}}}'
        for number, start, length in zip(columns.kind.tolist(), starts, lengths, strict=True)
    ]
    events = [*map(json.dumps, before), *ops, *map(json.dumps, (*_counters(profile, memory, where), *more))]
    return f'{{"traceEvents": [{", ".join(events)}], "displayTimeUnit": "ms"}}'


def _counters(profile: Profile, memory: MemoryProfile | None, where: Json) -> Iterator[Json]:
    """Yield the live bytes after each op."""
    if memory is None:
        return
    for event, step in zip(profile.events, memory.steps, strict=True):
        bytes_ = dict(zip(CATEGORIES, step.live, strict=True))
        yield {"name": "live bytes", "ph": "C", "ts": (event.end - profile.start) / 1e3, **where, "args": bytes_}


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
    columns = profile.columns
    frames_of_kind = [frames_of(kind.path, known) if kind.phase == "backward" else None for kind in columns.kinds]
    found: list[Stretch] = []
    running: list[Stretch] = []
    times = (columns.kind.tolist(), columns.start.tolist(), columns.end.tolist())
    for kind, start, end in zip(*times, strict=True):
        frames = frames_of_kind[kind]
        if frames is None:
            running = []
            continue
        same = 0
        while same < min(len(frames), len(running)) and running[same].path == frames[same]:
            same += 1
        del running[same:]
        for frame in frames[same:]:
            running.append(Stretch(frame, start, end))
            found.append(running[-1])
        for stretch in running:
            stretch.end = end
    return found


#: What collapsed stacks call the time of a run that lies in no frame.
NOT_NAMED = "not named"


def collapsed_stacks(profile: Profile) -> str:
    """Return one line for each stack, ``region;module;submodule;op nanoseconds``, the input of flame graph tools.

    The numbers are the own times of the frames of `call_tree` and sum to the wall time of the run. A backward is a
    frame of its own, named ``op backward``. Format: B. Gregg, FlameGraph, stackcollapse.
    """
    return stacks_of(call_tree(profile))


def stacks_of(root: Frame) -> str:
    """Return the lines of `collapsed_stacks` of a call tree."""
    lines = [f"{NOT_NAMED} {root.self_ns}\n"] if root.self_ns else []
    for names, frame in root.stacks():
        if frame.self_ns or frame.kind == "op":
            lines.append(f"{stack_text(names)} {frame.self_ns}\n")
    return "".join(lines)


def stack_text(names: Sequence[str]) -> str:
    """Return names of frames as one stack; what separates frames and lines is replaced in them."""
    return ";".join(" ".join(name.replace(";", ",").split()) for name in names)


def same_ops(one: Sequence[Event], other: Sequence[Event]) -> bool:
    """Return whether two runs ran the same ops in the same order on the same shapes."""
    return len(one) == len(other) and all(
        (a.op, a.phase, a.path, a.inputs, a.output) == (b.op, b.phase, b.path, b.inputs, b.output)
        for a, b in zip(one, other, strict=True)
    )
