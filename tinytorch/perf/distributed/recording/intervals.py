"""Intervals of time in whole ns: of the innermost op at each moment, merged, and between others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tinytorch.perf.events.stream import Event

#: Start and end.
Interval = tuple[int, int]


class InnerInterval(NamedTuple):
    """An interval in which the op at position ``event`` runs, and none inside it."""

    start: int
    end: int
    event: int


def innermost_intervals(events: Sequence[Event]) -> list[InnerInterval]:
    """Return the time of each event without the events inside it, in the order of time; none overlaps another.

    Events of one rank either follow or contain one another. What lies between them lies between ops.
    """
    order = sorted(range(len(events)), key=lambda index: (events[index].start, -events[index].end))
    inners: list[InnerInterval] = []
    running: list[int] = []
    now = events[order[0]].start if order else 0

    def go_on_to(when: int) -> None:
        """Give the time until ``when`` to the innermost op that runs."""
        nonlocal now
        if running and when > now:
            inners.append(InnerInterval(now, when, running[-1]))
        now = max(now, when)

    for index in order:
        while running and events[running[-1]].end <= events[index].start:
            go_on_to(events[running[-1]].end)
            running.pop()
        go_on_to(events[index].start)
        running.append(index)
    while running:
        go_on_to(events[running[-1]].end)
        running.pop()
    return inners


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the times that at least one of ``intervals`` covers, in order, none touching another."""
    found: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    """Return the sum of the lengths of ``intervals``."""
    return sum(end - start for start, end in intervals)


def gaps(intervals: Sequence[Interval], start: int, end: int) -> list[Interval]:
    """Return what ``intervals``, in order and without overlap, leave free from ``start`` to ``end``, in order."""
    found, now = [], start
    for first, last in intervals[bisect_right(intervals, start, key=lambda interval: interval[1]) :]:
        if first >= end:
            break
        if first > now:
            found.append((now, first))
        now = last
    if now < end:
        found.append((now, end))
    return found
