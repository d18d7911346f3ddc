"""Words that code chooses: each stands only where the whole interval says so."""

import pytest

from tests.chapters.made_turns import made
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
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
    assert found.verdict is (Verdict.SUPPORTED if words in BANDS else Verdict.OPEN)
    assert words_of(found).startswith(words)
    assert (found.open_test is None) == (words in BANDS)


def test_what_is_exactly_at_an_end_lies_on_neither_side() -> None:
    zeros = Measurement("gain", (0.0,) * 9, "points")
    assert word_between(zeros, {"better": (0.0, None), "worse": (None, 0.0)}).verdict is Verdict.OPEN


def taken_in_turns(**shares: tuple[float, ...]) -> dict[str, Measurement]:
    return {
        name: Measurement(
            name, samples, "%", Conditions(interleaved_with=tuple(other for other in shares if other != name))
        )
        for name, samples in shares.items()
    }


def test_the_largest_is_larger_than_each_other_in_every_pair() -> None:
    found = taken_in_turns(
        linear=made(0.5, noise=0.05).samples,
        attention=made(0.4, noise=0.1).samples,
        gelu=made(0.1, noise=0.2).samples,
    )
    assert (largest(found).verdict, largest(found).word) == (Verdict.SUPPORTED, "linear")


def test_none_is_the_largest_where_one_other_may_be_as_large() -> None:
    found = taken_in_turns(
        linear=(0.46, 0.44, 0.47, 0.43, 0.46, 0.44, 0.48, 0.42, 0.45),
        attention=(0.44, 0.46, 0.43, 0.45, 0.44, 0.46, 0.42, 0.46, 0.44),
        gelu=(0.1,) * 9,
    )
    assert (largest(found).verdict, largest(found).word) == (Verdict.OPEN, "linear or attention")


def test_one_alone_is_not_the_largest_of_anything() -> None:
    with pytest.raises(ValueError, match="least"):
        largest(taken_in_turns(linear=(1.0,) * 9))
