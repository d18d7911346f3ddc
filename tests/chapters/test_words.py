"""Words that code chooses: each stands only where the whole interval says so."""

from __future__ import annotations

import pytest

from tests.chapters.made_turns import made
from tinytorch.chapters.words import largest, word_between
from tinytorch.perf.measuring import Measurement

BANDS = {"little": (None, 1.0), "some": (1.0, 2.0), "much": (2.0, None)}


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.5, "little"), (1.5, "some"), (4.0, "much"), (1.0, "cannot tell here"), (2.05, "cannot tell here")],
)
def test_a_word_stands_where_the_whole_interval_lies_between_its_ends(value: float, word: str) -> None:
    assert word_between(made(value, noise=0.05), BANDS) == word


def test_what_is_exactly_at_an_end_lies_on_neither_side() -> None:
    zeros = Measurement("gain", (0.0,) * 9, "points")
    assert word_between(zeros, {"better": (0.0, None), "worse": (None, 0.0)}) == "cannot tell here"


def taken_in_turns(**shares: tuple[float, ...]) -> dict[str, Measurement]:
    return {
        name: Measurement(name, samples, "%", {"interleaved_with": [other for other in shares if other != name]})
        for name, samples in shares.items()
    }


def test_the_largest_is_larger_than_each_other_in_every_pair() -> None:
    found = taken_in_turns(
        linear=made(0.5, noise=0.05).samples,
        attention=made(0.4, noise=0.1).samples,
        gelu=made(0.1, noise=0.2).samples,
    )
    assert largest(found) == "linear"


def test_none_is_the_largest_where_one_other_may_be_as_large() -> None:
    found = taken_in_turns(
        linear=(0.46, 0.44, 0.47, 0.43, 0.46, 0.44, 0.48, 0.42, 0.45),
        attention=(0.44, 0.46, 0.43, 0.45, 0.44, 0.46, 0.42, 0.46, 0.44),
        gelu=(0.1,) * 9,
    )
    assert largest(found) == "cannot tell here"


def test_one_alone_is_not_the_largest_of_anything() -> None:
    with pytest.raises(ValueError, match="at least two"):
        largest(taken_in_turns(linear=(1.0,) * 9))
