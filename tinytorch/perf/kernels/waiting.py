"""Waiting for another thread in compiled code: short waits without sleep, and without the interpreter's lock."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numba import types

from tinytorch.perf.kernels.compiling import kernel

#: Whether this system has what `wait_until` calls.
POSSIBLE = hasattr(os, "sched_yield") and hasattr(time, "CLOCK_MONOTONIC")
_CLOCK = np.int32(getattr(time, "CLOCK_MONOTONIC", 0))
_give_way = types.ExternalFunction("sched_yield", types.int32())
_read_clock = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@kernel
def wait_until(signals: Any, place: Any, value: Any, ns: Any) -> Any:
    """Return whether ``signals[place]`` became ``value`` within about ``ns`` nanoseconds.

    Between two looks others may have the core; if they keep it for longer than ``ns``, this gives up.
    """
    clock = np.empty(2, np.int64)
    _read_clock(_CLOCK, clock.ctypes.data)
    end = clock[0] * 1_000_000_000 + clock[1] + ns
    while signals[place] != value:
        _give_way()
        _read_clock(_CLOCK, clock.ctypes.data)
        if clock[0] * 1_000_000_000 + clock[1] > end:
            return signals[place] == value
    return True
