"""Timeline: what all ranks did, on one clock, and what is read off it. Made by `recorded` and its `gather`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tinytorch.perf.distributed.recording.clocks import Clocks, Reading
from tinytorch.perf.distributed.recording.meetings import Meeting, meetings_of
from tinytorch.perf.distributed.recording.shares import (
    COMMUNICATION_COLUMNS,
    LEAST_BYTES,
    SHARE_COLUMNS,
    CommunicationRow,
    Shares,
    communication_rows,
    shares_of,
)
from tinytorch.perf.distributed.recording.standstills import Standstill, standstills_of
from tinytorch.perf.distributed.recording.stragglers import (
    STRAGGLER_COLUMNS,
    Delay,
    Straggler,
    delays_of,
    stragglers_of,
)
from tinytorch.perf.distributed.recording.timeline_trace import timeline_trace
from tinytorch.perf.distributed.recording.tracks import Json, Track, track_from_json, track_to_json
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.text_table import print_table, sorted_rows
from tinytorch.perf.profiling import breakdown
from tinytorch.perf.profiling.breakdown import LayerRow, OpRow

#: The version of `Timeline.to_json`; it rises whenever a reader of it would have to change.
_VERSION = 1


@dataclass(frozen=True)
class Timeline:
    """The events of all ranks on rank 0's clock.

    Attributes:
        tracks: of each rank, in order; their times are in ns of rank 0's ``time.perf_counter_ns``.
        clocks: by which they were put there, with their errors and drift.
        oversubscribed: whether ranks shared cores, so that times tell nothing of how fast they would be alone.

    Raises:
        ValueError: if there is no track, or ranks or clocks do not fit.
    """

    tracks: tuple[Track, ...]
    clocks: Clocks
    oversubscribed: bool

    def __post_init__(self) -> None:
        ranks = [track.rank for track in self.tracks]
        if not ranks or ranks != list(range(len(ranks))):
            raise ValueError(f"tracks must be those of rank 0 and all after it, in order, not of {ranks}")
        if len(self.clocks.readings) != len(ranks):
            raise ValueError(f"clocks must be those of {len(ranks)} ranks, not of {len(self.clocks.readings)}")

    @property
    def start(self) -> int:
        """When the first rank's body began, in ns."""
        return min(track.profile.start for track in self.tracks)

    @property
    def end(self) -> int:
        """When the last rank's body ended, in ns."""
        return max(track.profile.end for track in self.tracks)

    @property
    def wall_seconds(self) -> float:
        """From the first rank's beginning to the last one's end."""
        return (self.end - self.start) * 1e-9

    @property
    def error_seconds(self) -> float:
        """How wrong the distance of two events of different ranks can be at most, if clocks drift evenly."""
        errors = sorted(self.clocks.largest_error(track.rank) for track in self.tracks)
        return sum(errors[-2:]) * 1e-9

    @cached_property
    def meetings(self) -> tuple[Meeting, ...]:
        """Every communication, with the calls of its ranks.

        Raises:
            ValueError: if two groups have the same name.
        """
        return tuple(meetings_of(self.tracks))

    @property
    def unmatched(self) -> int:
        """How many communications began before the recording on some rank: all their time counts as moving."""
        return sum(not meeting.whole for meeting in self.meetings)

    @cached_property
    def standstills(self) -> tuple[Standstill, ...]:
        """Every call in which a rank stood still for another."""
        return tuple(standstills_of(self.tracks, self.meetings))

    def shares(self, least_bytes: int = LEAST_BYTES) -> list[Shares]:
        """Return what the time of each rank went to, in the order of ranks.

        Calls of fewer than ``least_bytes`` do not count as hidden: there is nothing in them to hide.
        """
        return [shares_of(track, self.meetings, self.standstills, least_bytes) for track in self.tracks]

    def communication(self, rank: int) -> list[CommunicationRow]:
        """Return a row for each kind of communication of a rank and group: calls, bytes, waiting, moving, hidden.

        Raises:
            ValueError: if there is no such rank.
        """
        return communication_rows(self._track(rank), self.meetings, self.standstills)

    def delays(self) -> list[Delay]:
        """Return every communication in which ranks stood still for another, the costliest first."""
        return delays_of(self.tracks, self.standstills, self.clocks)

    def stragglers(self) -> list[Straggler]:
        """Return the ranks that others waited for, the costliest first; waits within the clocks' error do not count."""
        return stragglers_of(self.tracks, self.delays())

    def key_averages(self, rank: int, sort_by: str = "self_seconds") -> list[OpRow]:
        """Return one row for each op and phase of a rank, as `Profiler.key_averages` does, without a roof.

        Raises:
            ValueError: if there is no such rank, or ``sort_by`` is no field of `OpRow`.
        """
        return sorted_rows(breakdown.op_rows(self._track(rank).profile, None, timed=True), sort_by, OpRow)

    def by_layer(self, rank: int) -> list[LayerRow]:
        """Return one row for each module of a rank, as `Profiler.by_layer` does, without a roof.

        Raises:
            ValueError: if there is no such rank.
        """
        return breakdown.layer_rows(self._track(rank).profile, None, timed=True)

    def _track(self, rank: int) -> Track:
        if not 0 <= rank < len(self.tracks):
            raise ValueError(f"rank must be one of 0 to {len(self.tracks) - 1}, not {rank}")
        return self.tracks[rank]

    def print_shares(self) -> None:
        """Print `shares`, with the clocks' error and drift."""
        print_table(self.shares(), SHARE_COLUMNS, self.notes())

    def print_communication(self) -> None:
        """Print `communication` of every rank."""
        rows = [row for track in self.tracks for row in self.communication(track.rank)]
        print_table(rows, COMMUNICATION_COLUMNS, self.notes())

    def print_stragglers(self) -> None:
        """Print `stragglers`."""
        print_table(self.stragglers(), STRAGGLER_COLUMNS, self.notes())

    def notes(self) -> list[str]:
        """Return what a reader of the tables has to know: how well clocks agree, shared cores, what has no partner."""
        said = []
        if len(self.tracks) > 1:
            said.append(f"clocks of two ranks agree to {self.error_seconds * 1e6:.1f} µs")
        drifts = [(track.rank, self.clocks.drift(track.rank)) for track in self.tracks[1:]]
        for rank, drift in drifts:
            if drift is not None:
                said.append(
                    f"rank {rank}'s clock drifts by {drift.rate * 1e6:.2f} ± {drift.error * 1e6:.2f} µs a second"
                )
        if self.oversubscribed:
            said.append("ranks shared cores: these times tell nothing of how fast they would be with a core each")
        if self.unmatched:
            said.append(f"{self.unmatched} communications began before the recording: all their time counts as moving")
        return said

    def export_chrome_trace(self, path: str | Path) -> Path:
        """Write Chrome trace JSON, which Perfetto opens, with a process for each rank; return the path.

        See `timeline_trace.timeline_trace`.
        """
        return write_whole(path, json.dumps(timeline_trace(self.tracks, self.meetings)))

    def to_json(self) -> Json:
        """Return all of it as JSON holds it."""
        return {
            "timeline": _VERSION,
            "oversubscribed": self.oversubscribed,
            "clocks": [[asdict(reading) for reading in readings] for readings in self.clocks.readings],
            "tracks": [track_to_json(track) for track in self.tracks],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Timeline:
        """Return the timeline that `to_json` wrote.

        Raises:
            ValueError: if ``values`` are none, or of another version.
        """
        if values.get("timeline") != _VERSION:
            raise ValueError(f"values must be a timeline of version {_VERSION}, not {values.get('timeline')!r}")
        clocks = Clocks(tuple(tuple(Reading(**each) for each in readings) for readings in values["clocks"]))
        return cls(tuple(map(track_from_json, values["tracks"])), clocks, bool(values["oversubscribed"]))
