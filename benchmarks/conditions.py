"""The conditions of a benchmark: one core, one thread, and what ran it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tinytorch.perf.host.blas import loaded_blas
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, pinned_to
from tinytorch.perf.measuring import blas_threads


@contextmanager
def one_core() -> Iterator[str]:
    """Keep the process on its last core, if it may, with one BLAS thread; give a line that describes NumPy's BLAS."""
    where = "one core" if may_pin() else "not kept on a core"
    with pinned_to(allowed_cores()[-1:]), blas_threads(1):
        yield f"NumPy's BLAS: {', '.join(one.label() for one in loaded_blas())}, one thread, {where}."
