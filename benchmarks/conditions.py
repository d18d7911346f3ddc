"""The conditions of a benchmark: one core, one thread, and what ran it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinytorch.perf.host.blas import loaded_blas
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, pin
from tinytorch.perf.measuring import blas_threads


@contextmanager
def kept_on(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on ``cores`` in the body, where `may_pin` says so."""
    if not may_pin():
        yield
        return
    before = allowed_cores()
    pin(cores)
    try:
        yield
    finally:
        pin(before)


@contextmanager
def one_core() -> Iterator[str]:
    """Keep the process on its last core, if it may, with one BLAS thread; give a line that describes NumPy's BLAS."""
    where = "one core" if may_pin() else "not kept on a core"
    with kept_on(allowed_cores()[-1:]), blas_threads(1):
        yield f"NumPy's BLAS: {', '.join(one.label() for one in loaded_blas())}, one thread, {where}."
