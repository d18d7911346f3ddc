"""Whether something else ran on the machine while a page measured, and what the page says and withholds then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinytorch.report.records import Json

#: A function on one thread that has less of a core than this waited for it, or for something else.
WHOLE_CORE = 0.9
#: Cores that other processes keep busy in the mean, from which on they are what it waited for.
BUSY_CORES = 0.2
#: Share of a page's timed numbers from which on the page is called disturbed.
_MANY = 0.25
#: What a claim's evidence says where its verdict is withheld.
WITHHELD = (
    "Other programs took this machine's time from what was measured here, so this build does not judge the claim."
)
#: What stands behind a word that is withheld, before the reason that it would have had.
WITHHELD_WORD = "other programs took this machine's time, so this build does not judge by what it measured"


def had_less_than_a_core(number: Json) -> bool | None:
    """Return whether a timed number on one thread had less than a core; None if its conditions do not say."""
    how = number.get("how", {})
    if how.get("blas_threads") != 1 or "cpu_per_wall" not in how:
        return None
    return bool(how["cpu_per_wall"] < WHOLE_CORE)


def is_disturbed(numbers: Iterable[Json], others: float) -> bool:
    """Return whether one of ``numbers`` lacked its core because others were at work.

    A number may have waited for a process of its own or for a disk, so it takes both to say so.

    Args:
        numbers: records of numbers.
        others: cores that other processes kept busy meanwhile, in the mean: see `Neighbours`.
    """
    return others >= BUSY_CORES and any(had_less_than_a_core(number) for number in numbers)


def caution(numbers: Sequence[Json]) -> str | None:
    """Return a sentence for the page whose timed numbers often lacked a core; None if few did or none is timed."""
    known = [short for number in numbers if (short := had_less_than_a_core(number)) is not None]
    if not known or sum(known) < _MANY * len(known):
        return None
    return (
        f"{sum(known)} of the {len(known)} numbers timed on one thread had less than {WHOLE_CORE:.0%} of a core: this "
        "machine was busy with something else. Intervals are wider for it, and verdicts more often “cannot tell”."
    )
