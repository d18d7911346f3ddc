"""A timeline as a Chrome trace: a process for each rank, what is in flight beside its ops, arrows between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tinytorch.perf.distributed.recording.matched_calls import MatchedCall, RankCall
from tinytorch.perf.distributed.recording.tracks import Track
from tinytorch.perf.events.trace import chrome_trace

Json = dict[str, Any]


def timeline_trace(tracks: Sequence[Track], matched_calls: Sequence[MatchedCall]) -> Json:
    """Return a JSON object of Chrome's trace event format, times in microseconds from the first rank's beginning.

    Each rank is a process with one thread, both numbered from 1 (Perfetto takes 0 for the idle process) and named with
    rank, host and process. It has the events of `trace.chrome_trace`; those of communication are of category
    "communication" and also say group, sequence and the microseconds of waiting and moving. Calls that do not block are
    asynchronous events ("b", "e") while they are in flight. Flow events ("s", "f") lead from the call that a rank
    waited for, or the sender's, to the rank's own. An arrow that would lead back in time, as clocks have errors and the
    root of a broadcast may leave early, is left out.

    Format: "Trace Event Format", Google, 2016.
    """
    origin = min(track.profile.start for track in tracks)
    events = []
    for track in tracks:
        own = [(matched, call) for matched in matched_calls for call in matched.calls if call.rank == track.rank]
        events += _rank_events(track, own, origin)
    calls = [(matched, call) for matched in matched_calls for call in matched.calls]
    for number, (matched, call) in enumerate(calls):
        events += _in_flight(matched, call, number, origin)
        events += _arrow(matched, call, number, origin)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _where(rank: int) -> Json:
    """Return process and thread of a rank."""
    return {"pid": rank + 1, "tid": rank + 1}


def _micro(when: int, origin: int) -> float:
    return (when - origin) / 1e3


def _rank_events(track: Track, own: Sequence[tuple[MatchedCall, RankCall]], origin: int) -> list[Json]:
    """Return the events of one rank as a process."""
    profile = track.profile
    where = _where(track.rank)
    numbered = replace(profile, start=origin, process=where["pid"], thread=where["tid"])
    made = chrome_trace(numbered)["traceEvents"]
    for event in made:
        if event["name"] == "process_name":
            event["args"] = {"name": str(track.place)}
        elif event.get("cat") == "run":
            event |= {"ts": _micro(profile.start, origin), "dur": _micro(profile.end, profile.start)}
    first = len(made) - len(track.profile.events)  # ops come last, in their order
    for matched, call in own:
        for part in call.parts:
            shown = made[first + part.index]
            waiting = matched.waiting(call, part) / 1e3
            shown["cat"] = "communication"
            shown["args"] |= {
                "group": call.info.group,
                "sequence": call.info.sequence,
                "waiting (us)": waiting,
                "moving (us)": part.event.total_ns / 1e3 - waiting,
            }
    return [{"name": "process_sort_index", "ph": "M", **where, "args": {"sort_index": track.rank}}, *made]


def _in_flight(matched: MatchedCall, call: RankCall, number: int, origin: int) -> list[Json]:
    """Return the begin and the end of a call that does not block, or nothing."""
    if call.flight is None:
        return []
    start, end = call.flight
    name = f"{call.kind or 'begun before'} in flight"
    both = {"name": name, "cat": "in flight", "id": number, **_where(call.rank)}
    told = {"group": call.info.group, "sequence": call.info.sequence, "bytes": call.bytes, "matched": matched.whole}
    return [
        {**both, "ph": "b", "ts": _micro(start, origin), "args": told},
        {**both, "ph": "e", "ts": _micro(end, origin), "args": {}},
    ]


def _arrow(matched: MatchedCall, call: RankCall, number: int, origin: int) -> list[Json]:
    """Return an arrow to ``call`` from the one that it waited for, or nothing where there is none."""
    source = matched.awaited(call)
    if source is None or (call.info.peer >= 0 and call.kind == "send"):
        return []
    start = source.parts[0].event.start
    last = next((p.event for p in call.parts if call.flight and p.event.end == call.flight[1]), call.parts[-1].event)
    if last.end < start:
        return []
    both = {"name": matched.kind, "cat": "matched", "id": number, "args": {}}
    return [
        {**both, "ph": "s", **_where(source.rank), "ts": _micro(start, origin)},
        {**both, "ph": "f", "bp": "e", **_where(call.rank), "ts": _micro(max(start, last.start), origin)},
    ]
