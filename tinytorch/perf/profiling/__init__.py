"""The profiler: where time, arithmetic and memory go in whatever ran; with all instruments of the course."""

from tinytorch.core.dispatch import region
from tinytorch.perf.events.flops import FLOPCounter
from tinytorch.perf.measuring import Timer
from tinytorch.perf.measuring.memory import MemoryProfiler, MemoryTracker
from tinytorch.perf.profiling.breakdown import LayerRow, OpRow
from tinytorch.perf.profiling.function_profile import ProfilerContext, SimpleProfiler, profile, profile_function
from tinytorch.perf.profiling.profiler import Profiler, count_flops, quick_profile

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
    "count_flops",
    "profile",
    "profile_function",
    "quick_profile",
    "region",
]
