"""What collectives cost by the alpha-beta model: the cheapest of the algorithms that libraries know. Modelled.

Sources: R. Thakur, R. Rabenseifner and W. Gropp, 2005 (doi:10.1177/1094342005051521), section 4, for all formulas; P.
Patarasuk and X. Yuan, 2009 (doi:10.1016/j.jpdc.2008.09.002), for the ring. The arithmetic of reductions is left out:
a beta that was fitted to an all-reduce holds it, one that was fitted to messages does not.
"""

from __future__ import annotations

from typing import NamedTuple

from tinytorch.perf.distributed.larger.links import Line


class Cost(NamedTuple):
    """Seconds, and the algorithm that takes them."""

    seconds: float
    algorithm: str


def ring_all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return 2 (p - 1) alpha + 2 (p - 1) / p n beta: seconds of a ring all-reduce of n bytes on p ranks."""
    steps = 2 * (ranks - 1)
    return steps * (line.alpha_s + nbytes / ranks * line.beta_s_per_byte)


def doubling_all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return lg p (alpha + n beta); where p is no power of two, two steps more than for the power below it."""
    rounds = ranks.bit_length() - 1
    if ranks & (ranks - 1):
        rounds += 2
    return rounds * (line.alpha_s + nbytes * line.beta_s_per_byte)


def halving_all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return 2 lg p alpha + 2 (p - 1) / p n beta, Rabenseifner's; where p is no power of two, two more whole messages.

    These are of the ranks beyond the power of two below, which hand their array over and get the sum back.
    """
    rounds = ranks.bit_length() - 1
    power = 2**rounds
    seconds = 2 * rounds * line.alpha_s + 2 * (power - 1) / power * nbytes * line.beta_s_per_byte
    if ranks > power:
        seconds += 2 * (line.alpha_s + nbytes * line.beta_s_per_byte)
    return seconds


def all_reduce(nbytes: float, ranks: int, line: Line) -> Cost:
    """Return the cheapest all-reduce of ``nbytes`` on ``ranks``; of equal ones the ring.

    Raises:
        ValueError: if ``nbytes`` is negative or ``ranks`` below 1.
    """
    _check(nbytes, ranks)
    if ranks == 1:
        return Cost(0.0, "none")
    found = (
        Cost(ring_all_reduce(nbytes, ranks, line), "ring"),
        Cost(doubling_all_reduce(nbytes, ranks, line), "recursive doubling"),
        Cost(halving_all_reduce(nbytes, ranks, line), "halving and doubling"),
    )
    return min(found, key=lambda cost: cost.seconds)


def all_gather(nbytes: float, ranks: int, line: Line) -> Cost:
    """Return the cost of an all-gather to ``nbytes`` on each of ``ranks``: (p - 1) / p n beta, and lg p or p - 1 alpha.

    The logarithm is recursive doubling's, for powers of two; other numbers of ranks go round a ring. A reduce-scatter
    of ``nbytes`` costs the same, by recursive halving, or by messages to each other rank. Bruck's all-gather, with
    the logarithm for any number of ranks, is left out, as libraries take it for short messages alone.

    Raises:
        ValueError: as `all_reduce`.
    """
    _check(nbytes, ranks)
    if ranks == 1:
        return Cost(0.0, "none")
    moving = (ranks - 1) / ranks * nbytes * line.beta_s_per_byte
    if ranks & (ranks - 1):
        return Cost((ranks - 1) * line.alpha_s + moving, "ring")
    return Cost((ranks.bit_length() - 1) * line.alpha_s + moving, "recursive doubling")


reduce_scatter = all_gather


def message(nbytes: float, line: Line) -> float:
    """Return alpha + n beta: seconds of one message.

    Raises:
        ValueError: if ``nbytes`` is negative.
    """
    _check(nbytes, 1)
    return line.alpha_s + nbytes * line.beta_s_per_byte


def _check(nbytes: float, ranks: int) -> None:
    if not nbytes >= 0:
        raise ValueError(f"nbytes must be at least 0, not {nbytes}")
    if ranks < 1:
        raise ValueError(f"ranks must be at least 1, not {ranks}")
