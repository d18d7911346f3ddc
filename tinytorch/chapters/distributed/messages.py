"""Messages of the page on several ranks: what they take, the lines fitted to them, and all-reduces by formulas."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinytorch.perf.distributed.cluster_model.collective_costs import Line, halving_all_reduce, ring_all_reduce
from tinytorch.perf.distributed.collectives.link_fit import fit_pieces
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.ranks.measuring import BECAUSE
from tinytorch.perf.machine import ceilings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Unmeasured, quotient

_BYTES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))
#: Sizes in the table of messages.
_SHOWN = 5
_RING = "the ring's formula"


def size_words(size: int) -> str:
    """Return bytes in powers of 1,024, with three digits."""
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"


def link_rows(talk: Collectives) -> list[dict[str, Any]] | Unmeasured:
    """Return the line of each measured kind and range of sizes, and how far off the worst median is.

    It has no bandwidth if the rounds do not tell what a byte costs.
    """
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    rows = []
    for link in (link for kind in talk.kinds for link in fit_pieces(talk.of(kind))):
        smallest, largest = map(size_words, link.sizes)
        off = Derived(link.worst, "%", "distance from the line", (link.alpha, link.beta), "it is a largest one")
        line = {"name": link.name, "alpha": link.alpha, "bandwidth": link.bandwidth}
        rows.append(line | {"smallest": smallest, "largest": largest, "worst": off})
    return rows


@dataclass(frozen=True)
class AllReduces:
    """The smallest all-reduce, what a core could compute meanwhile, and how bytes and bandwidth grow to the largest."""

    smallest: Measurement
    flops: Measurement
    more: Counted
    grown: Measurement | Unmeasured


def all_reduces(talk: Collectives) -> AllReduces:
    """Return the ends of the measured all-reduces; how bandwidth grows is not told where ranks shared cores."""
    smallest, largest = (talk.of("all-reduce")[size] for size in (talk.sizes[0], talk.sizes[-1]))
    each = ceilings(threads=1).fp32_peak.per(1.0, "s", "an operation at the peak of one core")
    flops = quotient(smallest, each, "time of the smallest all-reduce times the peak of one core", "FLOP")
    more = Counted(talk.sizes[-1] / talk.sizes[0], "1", "bytes of the largest all-reduce over those of the smallest")
    grown = quotient(smallest, largest, "bandwidth of the largest all-reduce over that of the smallest")
    return AllReduces(smallest, flops, more, Unmeasured(BECAUSE) if talk.oversubscribed else grown.scaled(more.value))


def message_rows(talk: Collectives) -> list[dict[str, Any]] | Unmeasured:
    """Return size, time and bandwidth of messages between two ranks, from the smallest to the largest."""
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    times, step = talk.of("point to point"), -(-(len(talk.sizes) - 1) // (_SHOWN - 1))
    return [
        {"size": size_words(size), "time": times[size], "bandwidth": times[size].per(size, "B/s", "a message")}
        for size in sorted({*talk.sizes[::step], talk.sizes[-1]})
    ]


def _by_formula(value: float, unit: str = "", what: str = "a ring all-reduce") -> Modelled:
    return Modelled(value, unit, what, _RING)


@dataclass(frozen=True)
class RingCost:
    """All-reduces by formulas: what a rank sends of the array in a ring, a ring's and a tree's seconds, and growth."""

    ranks: int
    sent: Modelled
    small: Modelled
    tree: Modelled
    large: Modelled
    small_growth: Modelled
    large_growth: Modelled


def ring_costs(counts: Sequence[int], few: float, many: float, line: Line) -> list[RingCost]:
    """Return all-reduces by number of ranks, rising, of few and of many bytes; growth is over the fewest ranks.

    The tree is the one of recursive halving, which sends as many bytes as the ring.
    """
    over_fewest = f"a ring all-reduce over that of {counts[0]} ranks"
    few_of, many_of = ({p: ring_all_reduce(nbytes, p, line) for p in counts} for nbytes in (few, many))
    return [
        RingCost(
            p,
            _by_formula(2 * (p - 1) / p, "", "numbers sent over those of the array"),
            _by_formula(few_of[p], "s"),
            _by_formula(halving_all_reduce(few, p, line), "s", "an all-reduce by halving"),
            _by_formula(many_of[p], "s"),
            *(_by_formula(each[p] / each[counts[0]], "", over_fewest) for each in (few_of, many_of)),
        )
        for p in counts
    ]
