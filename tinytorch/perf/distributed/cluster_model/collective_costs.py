"""Costs of collectives by the alpha-beta model: the cheapest of the algorithms that libraries know. Modelled.

A message of n bytes takes alpha + beta n seconds, whoever else talks (R. W. Hockney, 1994,
doi:10.1016/S0167-8191(06)80021-9). Sources: R. Thakur, R. Rabenseifner and W. Gropp, 2005
(doi:10.1177/1094342005051521), section 4, for all formulas; P. Patarasuk and X. Yuan, 2009
(doi:10.1016/j.jpdc.2008.09.002), for the ring. The arithmetic of reductions is left out: a beta that was fitted to an
all-reduce holds it, one that was fitted to messages does not. No SciPy here: ranks import this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from tinytorch.core.op import whole_numbers


class Line(Protocol):
    """Line of a link that a prediction needs; a fit to measured messages has it, too."""

    @property
    def alpha_s(self) -> float:
        """Seconds before the first byte arrives: latency."""

    @property
    def beta_s_per_byte(self) -> float:
        """Seconds that each further byte takes: 1 / bandwidth."""


@dataclass(frozen=True)
class GivenLink:
    """A link as its reader knows it, from a data sheet or from their own measurement.

    Attributes:
        alpha_s: latency in seconds, at least 0.
        beta_s_per_byte: seconds a byte, at least 0.

    Raises:
        ValueError: if a number is negative or not finite.
    """

    alpha_s: float
    beta_s_per_byte: float

    def __post_init__(self) -> None:
        for name in ("alpha_s", "beta_s_per_byte"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of seconds that is at least 0, not {value}")


def given_link(alpha_s: float, bytes_per_second: float) -> GivenLink:
    """Return a link of a latency in seconds and a bandwidth in B/s in one direction.

    Raises:
        ValueError: if the latency is negative or the bandwidth not above 0.

    Examples:
        >>> from tinytorch.perf.distributed import given_link
        >>> link = given_link(alpha_s=2e-6, bytes_per_second=10e9)
        >>> link.beta_s_per_byte
        1e-10
    """
    if not bytes_per_second > 0:
        raise ValueError(f"bytes_per_second must be above 0, not {bytes_per_second}")
    return GivenLink(alpha_s, 1 / bytes_per_second)


@dataclass(frozen=True)
class Cluster:
    """Cluster of nodes with the same number of ranks each, a link inside a node, and a link between nodes.

    Attributes:
        inside: between two ranks of a node, while all of the node's ranks talk.
        between: between two ranks of different nodes, while all ranks of both nodes talk: a network card that the
            ranks of a node share gives each of them a part.
        ranks_per_node: at least 1.

    Raises:
        ValueError: if ``ranks_per_node`` is below 1.

    Examples:
        >>> from tinytorch.perf.distributed import Cluster, given_link
        >>> fast, slow = given_link(1e-6, 100e9), given_link(5e-6, 10e9)
        >>> Cluster(inside=fast, between=slow, ranks_per_node=8).ranks_per_node
        8
    """

    inside: Line
    between: Line
    ranks_per_node: int

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1:
            raise ValueError(f"ranks_per_node must be at least 1, not {self.ranks_per_node}")


@whole_numbers
def ring_all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return 2 (p - 1) alpha + 2 (p - 1) / p n beta: seconds of a ring all-reduce of n bytes on p ranks."""
    steps = 2 * (ranks - 1)
    return steps * (line.alpha_s + nbytes / ranks * line.beta_s_per_byte)


@whole_numbers
def doubling_all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return lg p (alpha + n beta); where p is no power of two, two steps more than for the power below it."""
    rounds = ranks.bit_length() - 1
    if ranks & (ranks - 1):
        rounds += 2
    return rounds * (line.alpha_s + nbytes * line.beta_s_per_byte)


@whole_numbers
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


@whole_numbers
def all_reduce(nbytes: float, ranks: int, line: Line) -> float:
    """Return the seconds of the cheapest all-reduce of ``nbytes`` on ``ranks``."""
    if ranks == 1:
        return 0.0
    return min(
        ring_all_reduce(nbytes, ranks, line),
        doubling_all_reduce(nbytes, ranks, line),
        halving_all_reduce(nbytes, ranks, line),
    )


@whole_numbers
def all_gather(nbytes: float, ranks: int, line: Line) -> float:
    """Return the seconds of an all-gather to n bytes on each of p ranks: (p - 1) / p n beta, and lg p or p - 1 alpha.

    The logarithm is recursive doubling's, for powers of two; other numbers of ranks go round a ring. A reduce-scatter
    of ``nbytes`` costs the same, by recursive halving, or by messages to each other rank. Bruck's all-gather, with
    the logarithm for any number of ranks, is left out, as libraries take it for short messages alone.
    """
    steps = ranks - 1 if ranks & (ranks - 1) else ranks.bit_length() - 1
    return steps * line.alpha_s + (ranks - 1) / ranks * nbytes * line.beta_s_per_byte
