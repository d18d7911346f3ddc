"""Ceilings of this machine: peaks, the memory ladder and its levels, cost of a call, cost of a wrong BLAS."""

from tinytorch.perf.host.identity import identity
from tinytorch.perf.machine.levels import Ceilings
from tinytorch.perf.machine.store import ceilings

__all__ = ["Ceilings", "ceilings", "identity"]
