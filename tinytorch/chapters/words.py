"""Words that a page chooses from measurements: the judge decides, and where it is open the page says what is known."""

from __future__ import annotations

from collections.abc import Mapping

from tinytorch.perf.measuring import Measurement, difference
from tinytorch.perf.measuring.judge import Judgement, Test, Verdict, verdict_between, verdict_of_all

#: Ends of a measurement for which a word stands; None leaves a side open.
Ends = tuple[float | None, float | None]


def word_between(measurement: Measurement, words: Mapping[str, Ends], *, together: int = 1) -> Judgement:
    """Return the word between whose ends ``measurement`` is proven to lie, ends excluded.

    Where it is open it names the words that are left, if that leaves out any.

    Args:
        measurement: what was measured.
        words: each with its ends, which do not overlap.
        together: see `verdict_between`.
    """
    found = {
        word: verdict_between(measurement, low, high, strict=True, together=together)
        for word, (low, high) in words.items()
    }
    for word, one in found.items():
        if one.verdict is Verdict.SUPPORTED:
            return Judgement(Verdict.SUPPORTED, one.tests, word)
    left = [word for word, one in found.items() if one.verdict is Verdict.OPEN]
    tests: tuple[Test, ...] = found[left[0]].tests if left else next(iter(found.values())).tests
    return Judgement(Verdict.OPEN, tests, " or ".join(left) if 1 < len(left) < len(words) else "")


def largest(found: Mapping[str, Measurement]) -> Judgement:
    """Return the name of the measurement that is proven larger than each other; open if none is.

    Args:
        found: by name, all taken in turns.

    Raises:
        ValueError: if there are fewer than two, or two of them were not taken in turns.
    """
    if len(found) < 2:
        raise ValueError(f"found must hold at least two measurements to compare, not {len(found)}")
    name = max(found, key=lambda name: found[name].median)
    leads = {key: difference(found[name], other, f"lead of {name}") for key, other in found.items() if key != name}
    tested = {key: verdict_between(lead, low=0.0, strict=True, together=len(leads)) for key, lead in leads.items()}
    proven = verdict_of_all(tested.values())
    left = [key for key, one in tested.items() if one.verdict is not Verdict.SUPPORTED]
    verdict = Verdict.SUPPORTED if not left else Verdict.OPEN
    return Judgement(verdict, proven.tests, " or ".join([name, *left]) if len(left) < len(leads) else "")
