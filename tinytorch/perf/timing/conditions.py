"""Conditions of a measurement that are set and put back: the garbage collector, and the threads of BLAS."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from tinytorch.perf.blas import ThreadSwitch


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off, and back to what it was at exit, also after an error."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Run the body with ``count`` threads for BLAS, as far as it can be limited, and for the compiled kernels.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    give_back = ThreadSwitch().set(count)
    try:
        yield
    finally:
        give_back()


def limit_blas_threads(count: int) -> None:
    """Give BLAS and the compiled kernels ``count`` threads for the rest of the process, as a page's first cell does.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    ThreadSwitch().set(count)
