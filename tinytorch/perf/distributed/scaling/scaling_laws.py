"""Amdahl's and Gustafson's laws: what a serial share leaves of many ranks. Modelled, whoever measured the share."""

from __future__ import annotations

from tinytorch.perf.profiling.breakdown import amdahl


def amdahl_speedup(serial: float, ranks: int) -> float:
    """Return the speedup of the same work on ``ranks`` ranks, 1 / (s + (1 - s) / p): strong scaling's bound.

    Args:
        serial: share of one rank's time that stays as it is, 0 to 1.
        ranks: p, at least 1.

    Source: G. M. Amdahl, 1967 (doi:10.1145/1465482.1465560).

    Raises:
        ValueError: if an argument is out of its range.
    """
    _check(serial, ranks)
    return amdahl(1 - serial, ranks)


def gustafson_speedup(serial: float, ranks: int) -> float:
    """Return the speedup of work that grows with the ranks, s + (1 - s) p: weak scaling's.

    Args:
        serial: share of the time on ``ranks`` ranks, not on one, in which only one could work, 0 to 1.
        ranks: p, at least 1.

    Source: J. L. Gustafson, 1988 (doi:10.1145/42411.42415).

    Raises:
        ValueError: if an argument is out of its range.
    """
    _check(serial, ranks)
    return serial + (1 - serial) * ranks


def _check(serial: float, ranks: int) -> None:
    if not 0 <= serial <= 1:
        raise ValueError(f"serial must be a share of 0 to 1, not {serial}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")
