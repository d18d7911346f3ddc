"""Ceilings of this machine: peaks, the memory ladder and its levels, cost of a call, cost of a wrong BLAS."""

from tinytorch.perf.host.identity import Identity, identity
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.machine.measured_ceilings import Ceilings
from tinytorch.perf.machine.memory_ladder import Curve, Point
from tinytorch.perf.machine.store import ceilings, kept_ceilings, settled_ceilings

__all__ = [
    "Ceilings",
    "Curve",
    "Identity",
    "Level",
    "Point",
    "ceilings",
    "identity",
    "kept_ceilings",
    "settled_ceilings",
]
