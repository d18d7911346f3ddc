"""Gustafson's law: the speedup that a serial share leaves of many ranks whose work grows with them. Modelled."""

from __future__ import annotations


def gustafson(serial: float, ranks: int) -> float:
    """Return the speedup of work that grows with p ranks, s + (1 - s) p: weak scaling's, as `amdahl` is strong one's.

    ``serial`` is the share s of the time on all ranks, not on one, in which only one could work. Source: J. L.
    Gustafson, 1988 (doi:10.1145/42411.42415).
    """
    return serial + (1 - serial) * ranks
