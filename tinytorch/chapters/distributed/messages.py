"""Messages of the page on several ranks: what they take, the lines fitted to them, and all-reduces by formulas."""

from collections.abc import Sequence
from types import SimpleNamespace as Row

from tinytorch.perf.distributed.cluster_model.collective_costs import Line, halving_all_reduce, ring_all_reduce
from tinytorch.perf.distributed.collectives.link_fit import fit_pieces
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.ranks.measuring import BECAUSE
from tinytorch.perf.machine import ceilings
from tinytorch.perf.measuring import Counted, Derived, Modelled, Unmeasured, quotient

_BYTES = ((1, "B"), (2**10, "KiB"), (2**20, "MiB"), (2**30, "GiB"))
#: Sizes in the table of messages.
_SHOWN = 5
_RING = "the ring's formula"


def size_words(size: int) -> str:
    """Return bytes in powers of 1,024, with three digits."""
    factor, unit = max((step for step in _BYTES if step[0] <= size), default=_BYTES[0])
    return f"{size / factor:.3g} {unit}"


def link_rows(talk: Collectives) -> list[Row] | Unmeasured:
    """Return the lines of each kind that was measured, for each range of sizes."""
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    rows = []
    for link in (link for kind in talk.kinds for link in fit_pieces(talk.of(kind))):
        smallest, largest = map(size_words, link.sizes)
        off = Derived(link.worst, "%", "distance from the line", (link.alpha, link.beta), "it is a largest one")
        named = {"name": link.name, "alpha": link.alpha, "bandwidth": link.bandwidth}
        rows.append(Row(**named, smallest=smallest, largest=largest, worst=off))
    return rows


def all_reduces(talk: Collectives) -> Row:
    """Return the ends of the measured all-reduces; how bandwidth grows is not told where ranks shared cores."""
    smallest, largest = (talk.of("all-reduce")[size] for size in (talk.sizes[0], talk.sizes[-1]))
    each = ceilings(threads=1).fp32_peak.per(1.0, "s", "an operation at the peak of one core")
    flops = quotient(smallest, each, "time of the smallest all-reduce times the peak of one core", "FLOP")
    more = Counted(talk.sizes[-1] / talk.sizes[0], "1", "bytes of the largest all-reduce over those of the smallest")
    grown = quotient(smallest, largest, "bandwidth of the largest all-reduce over that of the smallest")
    return Row(
        smallest=smallest,
        flops=flops,
        more=more,
        grown=Unmeasured(BECAUSE) if talk.oversubscribed else grown.scaled(more.value),
    )


def message_rows(talk: Collectives) -> list[Row] | Unmeasured:
    """Return messages between two ranks, for some sizes from the smallest to the largest."""
    if talk.oversubscribed:
        return Unmeasured(BECAUSE)
    times, step = talk.of("point to point"), -(-(len(talk.sizes) - 1) // (_SHOWN - 1))
    return [
        Row(
            size=size_words(size),
            time=times[size],
            slowest=times[size].tail(90),
            bandwidth=times[size].per(size, "B/s", "a message"),
        )
        for size in sorted({*talk.sizes[::step], talk.sizes[-1]})
    ]


def _by_formula(value: float, unit: str = "", what: str = "a ring all-reduce") -> Modelled:
    return Modelled(value, unit, what, _RING)


def ring_costs(counts: Sequence[int], few: float, many: float, line: Line) -> list[Row]:
    """Return all-reduces by number of ranks, rising, of few and of many bytes; growth is over the fewest ranks.

    The tree is the one of recursive halving, which sends as many bytes as the ring.
    """
    few_of, many_of = ({p: ring_all_reduce(nbytes, p, line) for p in counts} for nbytes in (few, many))
    return [
        Row(
            ranks=p,
            sent=_by_formula(2 * (p - 1) / p, "", "numbers sent over those of the array"),
            small=_by_formula(few_of[p], "s"),
            tree=_by_formula(halving_all_reduce(few, p, line), "s", "an all-reduce by halving"),
            large=_by_formula(many_of[p], "s"),
            small_growth=_by_formula(few_of[p] / few_of[counts[0]]),
            large_growth=_by_formula(many_of[p] / many_of[counts[0]]),
        )
        for p in counts
    ]
