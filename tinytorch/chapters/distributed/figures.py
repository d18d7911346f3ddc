"""Figures of the page on several ranks: times of messages with their lines, and timelines."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tinytorch.chapters.distributed.messages import size_words
from tinytorch.chapters.distributed.step_recording import Update, typical
from tinytorch.perf.distributed.collectives.link_fit import fit_pieces
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.recording.blocked_time import LEAST_BYTES, communicating
from tinytorch.perf.distributed.recording.intervals import Interval, gaps, innermost_intervals, merged
from tinytorch.perf.distributed.recording.timeline import Timeline
from tinytorch.perf.distributed.recording.tracks import Track
from tinytorch.report.colors import color
from tinytorch.report.figures import INK, draw_line, subplots
from tinytorch.report.numbers import common_scale

#: Inches of the figure of messages, and ticks on its axis of sizes.
_HEIGHT, _TICKS = 3.0, 6
#: Sizes from which on a figure shows every second one.
_MANY = 9
#: Inches: a rank's lane, what a panel has besides, and the legend and axis below all.
_LANE, _PANEL, _REST = 0.5, 0.28, 1.05
#: Stretches of one kind closer than this share of the figure's width are drawn as one: nobody could see the gap. Points
#: of text.
_GAP, _LABEL = 0.0008, 9.5
#: Upper edge and height, in lanes, of what is drawn, over the others last.
_ROWS = {
    "forward": (0.08, 0.36),
    "backward": (0.08, 0.36),
    "waiting": (0.60, 0.14),
    "moving": (0.46, 0.28),
    "in-flight": (0.77, 0.10),
}
#: Rows in the colour of another.
_LOOKS = {"in-flight": "moving"}


def times_figure(talk: Collectives, *, xlabel: str, ylabel: str) -> Figure:
    """Return the times of all kinds over size, both axes logarithmic, and dashed the lines that were fitted to them.

    Of many sizes every second one is shown, the smallest and the largest among them. Where ranks had to share cores,
    its name says so of each kind, and no line is fitted.
    """
    marked = ", ranks share cores" if talk.oversubscribed else ""
    figure, ax = subplots(height=_HEIGHT)
    shown = sorted({*talk.sizes[::2], talk.sizes[-1]}) if len(talk.sizes) >= _MANY else talk.sizes
    longest = max(one.median for one in talk.of(talk.kinds[0]).values())
    factor = common_scale([longest], "s").factor
    for kind in talk.kinds:
        variant, times = kind.replace(" ", "-"), talk.of(kind)
        draw_line(ax, shown, [times[size] for size in shown], quantity=ylabel, variant=variant,
                  label=kind + marked)  # fmt: skip
        for link in () if talk.oversubscribed else fit_pieces(times):
            sizes = np.geomspace(*link.sizes, 60).clip(*link.sizes)
            seconds = np.array([link.seconds(size) for size in sizes])
            ax.plot(sizes, seconds / factor, color=color(variant), linestyle=(0, (4, 3)), linewidth=1.2)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    chosen = talk.sizes[:: -(-len(talk.sizes) // _TICKS)]
    ax.set_xticks(chosen, [size_words(size) for size in chosen])
    ax.minorticks_off()
    ax.set_xlabel(xlabel)
    ax.legend()
    return figure


def timeline_figure(ways: Mapping[str, Sequence[Timeline]], meaning: Mapping[str, str], *, xlabel: str) -> Figure:
    """Return a typical timeline of each way on one time axis, from where a rank first computes backward.

    The upper row of a lane shows when the rank computes, the next one when it is in a call of communication: high where
    the call moves data, low where it waits, for a rank or to be served. The thin row at the bottom, in the colour of
    what moves, shows when a call that does not block, of `LEAST_BYTES` or more, is in flight. Where nothing is drawn
    the rank is between ops.

    ``ways`` are timelines by the name of the panel, ``meaning`` is what the colours of `_ROWS` mean, for the legend.
    """
    shown = {way: typical(timelines) for way, timelines in ways.items()}
    lanes = sum(_PANEL + len(timeline.tracks) * _LANE for timeline in shown.values())
    figure, axes = subplots(len(shown), height=_REST + lanes, sharex=True, squeeze=False)
    longest = max(round(timeline.wall_seconds * 1e9) for timeline in shown.values())
    for ax, (way, timeline) in zip(axes[:, 0], shown.items(), strict=True):
        _draw(ax, way, timeline, longest)
    begun = min(_backward_begins(timeline) for timeline in shown.values())
    axes[-1, 0].set_xlim(begun * 1e-6, longest * 1e-6)
    axes[-1, 0].set_xlabel(xlabel)
    patches = [Patch(facecolor=color(name), label=label, linewidth=0) for name, label in meaning.items()]
    figure.legend(handles=patches, loc="outside lower left", ncols=2, frameon=False, fontsize=_LABEL, columnspacing=1.2)
    return figure


def _backward_begins(timeline: Timeline) -> int:
    """Return the nanoseconds from the start to the first operation of a backward pass; 0 if there is none."""
    events = [event for track in timeline.tracks for event in track.profile.events if event.phase == "backward"]
    return min((event.start - timeline.start for event in events), default=0)


def _draw(ax: Axes, way: str, timeline: Timeline, longest: int) -> None:
    """Draw a panel: its lanes from the top down, in ms since its start, and their names."""
    words = {"va": "center", "fontsize": _LABEL, "textcoords": "offset points"}
    near = int(longest * _GAP)
    for track in timeline.tracks:
        ax.axhline(track.rank + 0.93, color=INK, linewidth=0.5, alpha=0.3)
        for row, intervals in _intervals(timeline, track).items():
            joined = merged((start, end + near) for start, end in intervals)
            spans = [((start - timeline.start) * 1e-6, max(end - near - start, near) * 1e-6) for start, end in joined]
            top, height = _ROWS[row]
            ax.broken_barh(spans, (track.rank + top, height), facecolor=color(_LOOKS.get(row, row)), linewidth=0)
        at: tuple[str, str] = ("axes fraction", "data")
        ax.annotate(f"rank {track.rank}", (0, track.rank + 0.45), (-6, 0), at, ha="right", **words)  # type: ignore[arg-type]
    ax.annotate(way, (0, 1), (0, 8), "axes fraction", ha="left", **words)  # type: ignore[arg-type]
    ax.set_ylim(len(timeline.tracks), 0)
    ax.yaxis.set_visible(False)
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


def _intervals(timeline: Timeline, track: Track) -> dict[str, Sequence[Interval]]:
    """Return when a rank is in what `_ROWS` has."""
    events = track.profile.events
    inners = [inner for inner in innermost_intervals(events) if inner.event not in track.comm_info]
    still = [each for each in timeline.blocked_times if each.rank == track.rank]
    waiting = merged(interval for each in still for interval in (*each.waiting, *each.unserved))
    calls = [call for matched in timeline.matched_calls for call in matched.calls if call.rank == track.rank]
    computing = {
        phase: [(inner.start, inner.end) for inner in inners if events[inner.event].phase == phase]
        for phase in ("forward", "backward")
    }
    computing["forward"] += [(span.start, span.end) for span in track.profile.spans if span.module == Update.__name__]
    return {
        **computing,
        "waiting": waiting,
        "moving": [free for start, end in communicating(track) for free in gaps(waiting, start, end)],
        "in-flight": merged(call.flight for call in calls if call.flight and call.bytes >= LEAST_BYTES),
    }
