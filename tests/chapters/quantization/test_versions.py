"""What is said of whole models in fewer bits, of made results."""

import numpy as np
import pytest

from tinytorch.chapters.quantization import versions as chapter
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.quantization import accuracy_change, paired_accuracy


def change(after: float, examples: int = 1000) -> Measurement:
    """Return a change from nine tenths of the examples, of which the first are right."""
    before, now = (np.arange(examples) < round(share * examples) for share in (0.9, after))
    return accuracy_change(paired_accuracy(before, now), "change")


@pytest.mark.parametrize(
    ("verdicts", "most"),
    [
        (["supported", "supported", "refuted"], "supported"),
        (["refuted", "supported", "refuted"], "refuted"),
        (["supported", "open", "refuted"], "open"),
        (["supported", "refuted"], "refuted"),
    ],
)
def test_most_is_more_than_half(verdicts: list[str], most: str) -> None:
    assert chapter.verdict_of_most([Judgement(Verdict(one)) for one in verdicts]).verdict == most


@pytest.mark.parametrize(("rounded", "proven"), [(0.5, True), (0.9, False), (0.899, False), (0.95, False)])
def test_nothing_is_recovered_where_nothing_is_proven_lost(rounded: float, proven: bool) -> None:
    assert isinstance(chapter.recovered(change(rounded), change(0.9)), Unmeasured) != proven


def test_what_is_recovered_is_as_uncertain_as_both_changes() -> None:
    found = chapter.recovered_share(change(0.5), change(0.7))
    assert found.median == pytest.approx(0.5)
    alone = [1 - end / -0.4 for end in (change(0.7).interval.low, change(0.7).interval.high)]
    assert found.interval.low < min(alone)
    assert found.interval.high > max(alone)
