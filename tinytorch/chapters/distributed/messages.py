"""Messages of the page on several ranks: what they take, and a ring beside what its formula makes of their lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytorch.perf.distributed.cluster_model.collective_costs import ring_all_reduce
from tinytorch.perf.distributed.collectives.link_fit import FittedLink, fit_pieces
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.ranks.measuring import BECAUSE
from tinytorch.perf.machine import ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, quotient
from tinytorch.perf.measuring.measurement import Statistic

_BYTES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))
#: Sizes in the table of the ring.
_SHOWN = 5
_RING = "the ring's formula"


def size_words(size: int) -> str:
    """Return bytes in powers of 1,024, with three digits."""
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"


@dataclass(frozen=True)
class LinkRow:
    """A fitted line, without bandwidth where no cost of bytes can be told, and how far off the worst median is."""

    name: str
    alpha: Statistic
    bandwidth: Statistic | None
    smallest: str
    largest: str
    worst: Derived


def link_rows(talk: Collectives) -> list[LinkRow] | Unmeasured:
    """Return the lines of each kind that was measured, for each range of sizes."""
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    rows = []
    for link in (link for kind in talk.kinds for link in fit_pieces(talk.of(kind))):
        smallest, largest = map(size_words, link.sizes)
        off = Derived(link.worst, "%", "distance from the line", (link.alpha, link.beta), "it is a largest one")
        rows.append(LinkRow(link.name, link.alpha, link.bandwidth, smallest, largest, off))
    return rows


@dataclass(frozen=True)
class AllReduces:
    """The smallest all-reduce, what a core could compute meanwhile, and how bytes and bandwidth grow to the largest."""

    smallest: Measurement
    flops: Measurement
    more: Counted
    grown: Statistic | Unmeasured


def all_reduces(talk: Collectives) -> AllReduces:
    """Return the ends of the measured all-reduces; how bandwidth grows is not told where ranks shared cores."""
    smallest, largest = (talk.of("all-reduce")[size] for size in (talk.sizes[0], talk.sizes[-1]))
    each = ceilings(threads=1).fp32_peak.per(1.0, "s", "an operation at the peak of one core")
    flops = quotient(smallest, each, "time of the smallest all-reduce times the peak of one core", "FLOP")
    more = Counted(talk.sizes[-1] / talk.sizes[0], "1", "bytes of the largest all-reduce over those of the smallest")
    grown = quotient(smallest, largest, "bandwidth of the largest all-reduce over that of the smallest")
    return AllReduces(smallest, flops, more, Unmeasured(BECAUSE) if talk.oversubscribed else grown.scaled(more.value))


@dataclass(frozen=True)
class RingRow:
    """All-reduce of an array: what a rank sends, what the formula says, and what our ring and the library took."""

    size: str
    sent: str
    predicted: Modelled
    ring: Measurement
    library: Measurement


def ring_rows(talk: Collectives) -> list[RingRow] | Unmeasured:
    """Return the ring beside its formula, for some sizes from the smallest to the largest."""
    links, ranks = talk.links("point to point"), talk.ranks
    if isinstance(links, Unmeasured):
        return links
    step = -(-(len(talk.sizes) - 1) // (_SHOWN - 1))
    return [
        RingRow(
            size_words(size),
            size_words(2 * (ranks - 1) * size // ranks),
            _by_formula(predicted_ring(links, ranks, size), "s"),
            talk.of("ring all-reduce")[size],
            talk.of("all-reduce")[size],
        )
        for size in sorted({*talk.sizes[::step], talk.sizes[-1]})
    ]


def predicted_ring(links: Sequence[FittedLink], ranks: int, nbytes: float) -> float:
    """Return the seconds of a ring all-reduce whose steps are messages of the lines of ``links``, by its formula.

    Each step sends a part of the array. The last line that begins at no more bytes counts.
    """
    line = next((link for link in reversed(links) if link.sizes[0] <= nbytes / ranks), links[0])
    return ring_all_reduce(nbytes, ranks, line)


def _by_formula(value: float, unit: str = "", what: str = "a ring all-reduce") -> Modelled:
    return Modelled(value, unit, what, _RING)


@dataclass(frozen=True)
class RingCost:
    """Ring by the formula: what a rank sends of the array, what a small and a large one take, and over fewest ranks."""

    ranks: int
    sent: Modelled
    small: Modelled
    large: Modelled
    small_growth: Modelled
    large_growth: Modelled


def ring_costs(grown: Mapping[int, tuple[float, float]]) -> list[RingCost]:
    """Return rings by number of ranks, rising, with the seconds of a small and of a large array by the formula."""
    first = next(iter(grown.values()))
    return [
        RingCost(
            p,
            _by_formula(2 * (p - 1) / p, "", "numbers sent over those of the array"),
            *(_by_formula(each, "s") for each in seconds),
            *(_by_formula(each / fewest) for each, fewest in zip(seconds, first, strict=True)),
        )
        for p, seconds in grown.items()
    ]
