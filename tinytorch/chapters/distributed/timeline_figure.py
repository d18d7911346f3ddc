"""Timelines of several ranks as a figure, a lane for each rank, with words for who does not see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tinytorch.chapters.distributed.step_recording import Update
from tinytorch.perf.distributed.recording.blocked_time import LEAST_BYTES, communicating
from tinytorch.perf.distributed.recording.intervals import Interval, gaps, innermost_intervals, merged
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.tracks import Track
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, subplots

#: Inches: a rank's lane, what a panel has besides, and the legend and axis below all.
_LANE, _PANEL, _REST = 0.5, 0.28, 1.05
#: Stretches of one kind closer than this share of the figure's width are drawn as one: nobody could see the gap.
_GAP = 0.0008
#: Points of text; see `figures.SMALLEST_TEXT`.
_LABEL = 9.5


@dataclass(frozen=True)
class _Row:
    """One row of a lane: its upper edge and height in lanes, and what is drawn in it."""

    top: float
    height: float
    variant: str
    intervals: Sequence[Interval]


#: What the colours mean, in the order of the legend.
_MEANING = {
    "forward": "computes forward",
    "backward": "computes backward",
    "update": "updates parameters",
    "waiting": "in a call, waits for a rank",
    "unserved": "in a call, not served",
    "moving": "in a call, moves",
    "in-flight": "a call is in flight",
}


def timeline_figure(timelines: Mapping[str, Timeline]) -> Figure:
    """Return timelines as lanes of one time axis, a panel for each timeline and a lane for each rank.

    The upper row of a lane shows when the rank computes and updates, the next one when it is in a call of
    communication: highest where the call moves data, less high where it is not served, lowest where it waits for a
    rank to come. The thin row at the bottom shows when a call that does not block, of `shares.LEAST_BYTES` or
    more, is in flight. Where nothing is drawn the rank is between ops.

    Args:
        timelines: by the name of the panel, all of as many ranks; each starts at 0. One may be called "".

    Raises:
        ValueError: if there is none, or their ranks differ in number.
    """
    ranks = _checked_ranks(timelines)
    height = _REST + len(timelines) * (_PANEL + ranks * _LANE)
    figure, axes = subplots(len(timelines), height=height, sharex=True, squeeze=False)
    longest = max(round(timeline.wall_seconds * 1e9) for timeline in timelines.values())
    for ax, (name, timeline) in zip(axes[:, 0], timelines.items(), strict=True):
        _draw(ax, name, timeline, longest)
    axes[-1, 0].set_xlim(0, longest * 1e-6)
    axes[-1, 0].set_xlabel("time since the beginning (ms)")
    patches = [Patch(facecolor=color(name), label=label, linewidth=0) for name, label in _MEANING.items()]
    figure.legend(handles=patches, loc="outside lower left", ncols=2, frameon=False, fontsize=_LABEL, columnspacing=1.2)
    return figure


def timeline_words(timeline: Timeline) -> str:
    """Return in words what a figure of one timeline shows, for its alt text: each rank's shares of the time."""
    said = [f"{len(timeline.tracks)} ranks over {timeline.wall_seconds * 1e3:.3g} ms."]
    for shares in timeline.shares():
        part = shares.of_wall()
        said.append(
            f"Rank {shares.rank} computes for {part['computing']:.0%} of its time, waits in calls for "
            f"{part['waiting']:.0%}, moves data in calls for {part['moving']:.0%}, and a call is in flight while it "
            f"computes for {part['hidden']:.0%}."
        )
    return " ".join(said)


def _checked_ranks(timelines: Mapping[str, Timeline]) -> int:
    """Return the number of ranks of all timelines."""
    counts = {len(timeline.tracks) for timeline in timelines.values()}
    if len(counts) != 1:
        raise ValueError(f"timelines must be at least one, all of as many ranks, not of {sorted(counts) or 'none'}")
    return counts.pop()


def _draw(ax: Axes, name: str, timeline: Timeline, longest: int) -> None:
    """Draw a panel: its lanes from the top down, and their names."""
    for track in timeline.tracks:
        ax.axhline(track.rank + 0.93, color=INK, linewidth=0.5, alpha=0.3)
        for row in _rows(timeline, track):
            _bar(ax, row, track.rank, (timeline.start, longest))
        _write(ax, f"rank {track.rank}", (0, track.rank + 0.45), "data", (-6, 0), "right")
    if name:
        _write(ax, name, (0, 1), "axes fraction", (0, 8), "left")
    ax.set_ylim(len(timeline.tracks), 0)
    ax.yaxis.set_visible(False)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


def _write(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    height: Literal["data", "axes fraction"],
    moved: tuple[float, float],
    side: Literal["left", "right"],
) -> None:
    """Write ``text`` at a share of the width and a ``height``, moved by points; its ``side`` stands there."""
    place = {"xycoords": ("axes fraction", height), "xytext": moved, "textcoords": "offset points"}
    ax.annotate(text, at, ha=side, va="center", fontsize=_LABEL, **place)  # type: ignore[arg-type]


def _bar(ax: Axes, row: _Row, rank: int, scale: Interval) -> None:
    """Draw a row of a rank's lane, in ms since the timeline's start; ``scale`` is that start and the axis's length."""
    origin, longest = scale
    near = int(longest * _GAP)
    joined = merged((start, end + near) for start, end in row.intervals)
    spans = [((start - origin) * 1e-6, max(end - near - start, near) * 1e-6) for start, end in joined]
    ax.broken_barh(spans, (rank + row.top, row.height), facecolor=color(row.variant), linewidth=0)


def _rows(timeline: Timeline, track: Track) -> list[_Row]:
    """Return what the lane of a rank shows, what is drawn over the other last."""
    events = track.profile.events
    inners = [inner for inner in innermost_intervals(events) if inner.event not in track.comm_info]
    still = [each for each in timeline.blocked_times if each.rank == track.rank]
    waiting = merged(interval for each in still for interval in each.waiting)
    unserved = merged(interval for each in still for interval in each.unserved)
    stopped = merged([*waiting, *unserved])
    moving = [free for start, end in communicating(track) for free in gaps(stopped, start, end)]
    calls = [call for matched in timeline.matched_calls for call in matched.calls if call.rank == track.rank]
    flights = merged(call.flight for call in calls if call.flight and call.bytes >= LEAST_BYTES)
    updates = [(span.start, span.end) for span in track.profile.spans if span.module == Update.__name__]
    computing = {
        phase: [(inner.start, inner.end) for inner in inners if events[inner.event].phase == phase]
        for phase in ("forward", "backward")
    }
    return [
        *(_Row(0.08, 0.36, phase, intervals) for phase, intervals in computing.items()),
        _Row(0.08, 0.36, "update", updates),
        _Row(0.64, 0.10, "waiting", waiting),
        _Row(0.56, 0.18, "unserved", unserved),
        _Row(0.46, 0.28, "moving", moving),
        _Row(0.77, 0.10, "in-flight", flights),
    ]
