"""Words that code chooses: each stands only where the whole interval says so."""

import numpy as np
import pytest

from tests.chapters.made_turns import made
from tests.perf.measuring.test_comparison import taken_in_turns
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.judge import Verdict, largest, word_between
from tinytorch.report.verdicts import words_of

BANDS = {"little": (None, 1.0), "some": (1.0, 2.0), "much": (2.0, None)}


@pytest.mark.parametrize(
    ("value", "noise", "words"),
    [
        *((0.5, 0.05, "little"), (1.5, 0.05, "some"), (4.0, 0.05, "much")),
        *((1.0, 0.05, "little or some"), (2.05, 0.05, "some or much"), (1.5, 0.9, "open, between 0.")),
    ],
)
def test_a_word_stands_where_the_whole_interval_lies_and_else_those_that_are_left(
    value: float, noise: float, words: str
) -> None:
    found = word_between(made(value, noise=noise), BANDS)
    assert words_of(found).startswith(words)
    assert (found.verdict is Verdict.SUPPORTED) is (found.open_test is None) is (words in BANDS)


def test_what_is_exactly_at_an_end_lies_on_neither_side() -> None:
    zeros = Measurement("gain", (0.0,) * 9, "points")
    assert word_between(zeros, {"better": (0.0, None), "worse": (None, 0.0)}).verdict is Verdict.OPEN


def test_the_largest_is_larger_than_each_other_in_every_pair() -> None:
    linear = (0.46, 0.44, 0.47, 0.43, 0.46, 0.44, 0.48, 0.42, 0.45)
    for attention, word in ((0.9 * np.array(linear), "linear"), (linear[::-1], "linear or attention")):
        sides = taken_in_turns(["linear", "attention", "gelu"], np.array([linear, attention, [0.1] * 9]), "%")
        found = largest({one.name: one for one in sides})
        assert found.verdict is (Verdict.SUPPORTED if word == "linear" else Verdict.OPEN)
        assert str(found) == word
    with pytest.raises(ValueError, match="least"):
        largest({"linear": sides[0]})
