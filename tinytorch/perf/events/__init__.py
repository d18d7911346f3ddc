"""The one stream of events, recorded at the seam, and its read-outs: arithmetic, life of arrays, traces."""

from tinytorch.perf.events.stream import Event, Profile, profiler_overhead, recording

__all__ = [
    "Event",
    "Profile",
    "profiler_overhead",
    "recording",
]
