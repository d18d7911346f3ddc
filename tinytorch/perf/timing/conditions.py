"""Conditions of a measurement that are set and put back: the garbage collector, and the threads of BLAS."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from threadpoolctl import threadpool_info, threadpool_limits


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
    """Run the body with ``count`` BLAS threads.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    with _limited(count):
        yield


def limit_blas_threads(count: int) -> None:
    """Give BLAS ``count`` threads for the rest of the process, as the first cell of a page does.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    _limited(count)


def _limited(count: int) -> AbstractContextManager[object]:
    """Give BLAS ``count`` threads; return what gives it back those that it had."""
    if count < 1:
        raise ValueError(f"count must be at least 1 thread, not {count}")
    limits: AbstractContextManager[object] = threadpool_limits(limits=count, user_api="blas")
    return limits


def current_blas_threads() -> int:
    """Return how many threads the loaded BLAS may use now; 1 if none is loaded."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
