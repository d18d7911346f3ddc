"""The profiler: where time, arithmetic and memory go in whatever ran; with all instruments of the course."""

from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.measuring import Timer
from tinytorch.perf.measuring.memory import MemoryProfiler, MemoryTracker
from tinytorch.perf.profiling.breakdown import LayerRow, OpRow
from tinytorch.perf.profiling.function_profile import ProfilerContext, SimpleProfiler, profile, profile_function
from tinytorch.perf.profiling.profiler import Profiler

__all__ = [
    "FLOPCounter",
    "LayerRow",
    "MemoryProfiler",
    "MemoryTracker",
    "OpRow",
    "Profiler",
    "ProfilerContext",
    "SimpleProfiler",
    "Timer",
    "profile",
    "profile_function",
]
