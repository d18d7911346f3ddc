"""The call tree of a run: regions, modules, ops and the collector in one another, with all of the run's time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np

from tinytorch.perf.events.stream import COLLECTOR, Event, Profile, Region, Span, inside

Kind = Literal["run", "region", "collector", "module", "op", "thread", "own", "library", "compiled"]


@dataclass(slots=True)
class Frame:
    """All calls of one thing from one place: the same frames around it.

    Attributes:
        name: of the region or op; of a module as the one around it names it.
        kind: what it is.
        path: the module's path from the outermost class; of an op and of a region that of the module around it.
        calls: how often it ran; 0 for a module of which only ops of backward ran here.
        self_ns: its time without the frames in it; of the run what has no name.
        waited: nanoseconds of a region, with ops and modules in it but without inner regions, in which the thread did
            not run; see `Region`.
        inner: the frames in it, by kind and name.
    """

    name: str
    kind: Kind
    path: str = ""
    calls: int = 0
    self_ns: int = 0
    waited: int = 0
    inner: dict[tuple[str, str], Frame] = field(default_factory=dict)

    @property
    def total_ns(self) -> int:
        """Nanoseconds with the frames in it."""
        return self.self_ns + sum(frame.total_ns for frame in self.inner.values())

    def all(self) -> Iterator[Frame]:
        """Yield this frame and all in it, each before those in it."""
        yield self
        for frame in self.inner.values():
            yield from frame.all()

    def stacks(self, around: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Frame]]:
        """Yield each frame in this one with the names on the way to it."""
        for frame in self.inner.values():
            names = (*around, frame.name)
            yield names, frame
            yield from frame.stacks(names)

    def within(self, name: str, kind: Kind, path: str) -> Frame:
        """Return the frame of that name in this one, made where there is none yet."""
        return self.inner.setdefault((kind, name), Frame(name, kind, path))


def call_tree(profile: Profile) -> Frame:
    """Return the whole run as a frame. The own times of all frames in it sum to the wall time of the run.

    It is made once for a profile, whose read-outs all need it, and not to be changed.
    """
    kept: dict[str, Frame] = profile.__dict__  # as a cached property would have it
    if _KEPT not in kept:
        kept[_KEPT] = _made(profile)
    return kept[_KEPT]


_KEPT = "call tree"


def _made(profile: Profile) -> Frame:
    root = Frame("run", "run", calls=1, waited=profile.waited or 0)
    changes, entered = _enclosing(profile, root)
    innermost = list({id(frame): frame for frame in entered}.values())
    columns = profile.columns
    if len(columns):
        known = {span.path: span.module for span in profile.spans}
        number_of = {id(frame): number for number, frame in enumerate(innermost)}
        which_frame = np.array([number_of[id(frame)] for frame in entered], np.int64)
        around = which_frame[np.array([number for number, _ in changes], np.int64)]
        times = np.array([when for _, when in changes], np.int64)
        place = around[np.searchsorted(times, columns.start, side="right") - 1]
        pair, which, calls = np.unique(
            place * len(columns.kinds) + columns.kind, return_inverse=True, return_counts=True
        )
        own = np.zeros(len(pair), np.int64)
        np.add.at(own, which.reshape(-1), columns.self_ns)
        for at, count, nanoseconds in zip(pair.tolist(), calls.tolist(), own.tolist(), strict=True):
            outer, kind = innermost[at // len(columns.kinds)], columns.kinds[at % len(columns.kinds)]
            leaf = _leaf(outer, kind, known)
            leaf.calls += count
            leaf.self_ns += nanoseconds
            outer.self_ns -= nanoseconds
    return root


def _enclosing(profile: Profile, root: Frame) -> tuple[list[tuple[int, int]], list[Frame]]:
    """Hang modules and regions below ``root``, with all time that is in them.

    Returns which frame is the innermost from which moment on, and the frames by number.
    """
    frames, running = [root], [(profile.end, 0)]
    changes, last = [(0, profile.start)], profile.start
    owner = [root]  # the region around each frame, which waits in its place

    def pass_time(when: int) -> None:
        nonlocal last
        frames[running[-1][1]].self_ns += when - last
        last = when

    intervals: list[Span | Region] = [*profile.regions, *profile.spans]
    depth = [span.depth if isinstance(span, Span) else 0 for span in intervals]
    coming = [(each.start, -each.end, depth[index], index) for index, each in enumerate(intervals)]
    heapify(coming)
    while coming:
        since, _, _, index = heappop(coming)
        begun = intervals[index]
        start, end = max(since, profile.start), min(begun.end, profile.end)
        if end < start:
            continue
        while len(running) > 1 and running[-1][0] <= start:
            pass_time(running[-1][0])
            running.pop()
            changes.append((running[-1][1], last))
        pass_time(start)
        if end > running[-1][0]:  # it goes on when the one around it has ended: what is left comes later
            heappush(coming, (running[-1][0], -begun.end, depth[index], index))
        number = running[-1][1]
        outer, waiting = frames[number], owner[number]
        if isinstance(begun, Span):
            name = _module_name(begun.path, outer.path, begun.module) or begun.module
            frame = outer.within(name, "module", begun.path)
        else:
            kind: Kind = "collector" if begun.name == COLLECTOR else "region"
            frame = outer.within(begun.name, kind, outer.path)
            waiting.waited -= begun.waited if since == begun.start else 0
            frame.waited += begun.waited if since == begun.start else 0
            waiting = frame
        frame.calls += since == begun.start
        running.append((min(end, running[-1][0]), len(frames)))
        frames.append(frame)
        owner.append(waiting)
        changes.append((len(frames) - 1, start))
    while running:
        pass_time(running[-1][0])
        running.pop()
        if running:
            changes.append((running[-1][1], last))
    return changes, frames


def _module_name(path: str, outer: str, module: str) -> str:
    """Return the name of the module at ``path`` within that at ``outer``; "" if they are the same one.

    A number says nothing by itself, so that the class goes with it: ``0 Linear``.
    """
    name = path[len(outer) + 1 :] if outer and inside(path, outer) else path
    return f"{name} {module}" if module and name.isdigit() else name


def _leaf(outer: Frame, event: Event, known: Mapping[str, str]) -> Frame:
    """Return the frame of an op that ran in ``outer``, in those of its modules: backward has no module calls."""
    frame = outer
    for path in frames_of(event.path, known):
        if not (outer.path and inside(outer.path, path)):
            frame = frame.within(_module_name(path, frame.path, known.get(path, "")), "module", path)
    name = event.op if event.phase == "forward" else f"{event.op} {event.phase}"
    return frame.within(name, "op", event.path)


def frames_of(path: str, known: Collection[str]) -> list[str]:
    """Return the paths of the modules on the way to ``path``, outermost first; ``known`` are those that ran."""
    parts = path.split(".") if path else []
    outer = [".".join(parts[: count + 1]) for count in range(len(parts))]
    return [name for name in outer if name in known or name == path]
