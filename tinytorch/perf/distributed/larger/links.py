"""Links: how long a message takes between two ranks, within a node and between nodes, given or measured.

A message of n bytes takes alpha + beta n seconds, whoever else talks (R. W. Hockney, 1994,
doi:10.1016/S0167-8191(06)80021-9). No SciPy here: ranks import this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol


class Line(Protocol):
    """What a prediction needs to know of a link; a fit to measured messages has it, too."""

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
        alpha_s: latency in seconds, at least 0. beta_s_per_byte: seconds a byte, at least 0.
        source: who says so.

    Raises:
        ValueError: if a number is negative or not finite.
    """

    alpha_s: float
    beta_s_per_byte: float
    source: str = "given"

    def __post_init__(self) -> None:
        for name in ("alpha_s", "beta_s_per_byte"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of seconds that is at least 0, not {value}")


def given_link(alpha_s: float, bytes_per_second: float, source: str = "given") -> GivenLink:
    """Return a link of a latency in seconds and a bandwidth in B/s in one direction.

    Raises:
        ValueError: if the latency is negative or the bandwidth not above 0.
    """
    if not bytes_per_second > 0:
        raise ValueError(f"bytes_per_second must be above 0, not {bytes_per_second}")
    return GivenLink(alpha_s, 1 / bytes_per_second, source)


@dataclass(frozen=True)
class Cluster:
    """Nodes of as many ranks each, with a link inside a node and one between nodes.

    Attributes:
        inside: between two ranks of a node, while all of the node's ranks talk.
        between: between two ranks of different nodes, while all ranks of both nodes talk: a network card that the
            ranks of a node share gives each of them a part.
        ranks_per_node: at least 1.

    Raises:
        ValueError: if ``ranks_per_node`` is below 1.
    """

    inside: Line
    between: Line
    ranks_per_node: int

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1:
            raise ValueError(f"ranks_per_node must be at least 1, not {self.ranks_per_node}")
