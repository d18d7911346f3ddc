"""Amdahl's and Gustafson's laws: what a serial share leaves of many ranks. Modelled, whoever measured the share."""

from __future__ import annotations


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
    return 1 / (serial + (1 - serial) / ranks)


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


def amdahl_serial(speedup: float, ranks: int) -> float:
    """Return the serial share that Amdahl's law finds behind a speedup on ``ranks`` ranks: 0 if it is linear.

    That is the experimentally determined serial fraction of A. H. Karp and H. P. Flatt, 1990 (doi:10.1145/78607.78614).
    It is below 0 where the speedup is above the number of ranks.

    Raises:
        ValueError: if ``speedup`` is not above 0 or there are fewer than two ranks.
    """
    _check_speedup(speedup, ranks)
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)


def gustafson_serial(speedup: float, ranks: int) -> float:
    """Return the serial share that Gustafson's law finds behind a scaled speedup: 0 if it is linear.

    Raises:
        ValueError: if ``speedup`` is not above 0 or there are fewer than two ranks.
    """
    _check_speedup(speedup, ranks)
    return (ranks - speedup) / (ranks - 1)


def _check(serial: float, ranks: int) -> None:
    if not 0 <= serial <= 1:
        raise ValueError(f"serial must be a share of 0 to 1, not {serial}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")


def _check_speedup(speedup: float, ranks: int) -> None:
    if not speedup > 0:
        raise ValueError(f"speedup must be above 0, not {speedup}")
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2 to tell a serial share, not {ranks}")
