"""What the checks of all exercises share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch.chapters.checking import exercise_check, judged_faster, returned_number
from tinytorch.perf.measuring.comparison import Comparison, compare_paired


@exercise_check
def check_five(function: Callable[[], int]) -> None:
    """Return "... passed" if ``function()`` is `FIVE`.

    Four is less.
    """
    if function() != 5:
        raise AssertionError("it must return 5")  # pytest says more behind an assert


def five() -> int:
    return 5


def test_what_passes_is_said_without_quotes() -> None:
    assert repr(check_five(five)) == "five: passed. five() is FIVE."


def fails(function: Callable[[], int]) -> list[str]:
    """Return what a notebook shows of a check that fails."""
    with pytest.raises(AssertionError) as caught:
        check_five(function)
    shown: list[str] = caught.value._render_traceback_()  # type: ignore[attr-defined]
    return shown


def test_what_fails_is_said_in_a_sentence_with_a_hint() -> None:
    def four() -> int:
        return 4

    assert fails(four) == ["Not yet: it must return 5", "Hint: four() is FIVE. Four is less."]


def test_what_fails_by_itself_is_told_with_its_line() -> None:
    def five() -> int:
        return int(5 / 0)

    assert fails(five)[0] == "Not yet: five fails in the line “return int(5 / 0)”: ZeroDivisionError, division by zero"
    wrong: Any = lambda x: x  # noqa: E731
    assert fails(wrong)[0].startswith("Not yet: the check can do nothing with <lambda>: TypeError")


def test_an_empty_function_is_told_by_its_name() -> None:
    def five() -> int:
        raise NotImplementedError("write five")

    with pytest.raises(AssertionError, match="written") as caught:
        check_five(five)
    assert caught.value.__cause__ is None


def test_the_result_instead_of_the_function_is_refused() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="check_five"):
        check_five(wrong)


@pytest.mark.parametrize("answer", [3, 0.5, np.float32(0.5), np.int64(3)])
def test_numbers_of_every_kind_are_numbers(answer: Any) -> None:
    assert returned_number(answer, "a case") == float(answer)


@pytest.mark.parametrize("answer", [None, "3", [3], np.ones(1)])
def test_what_is_no_number_is_told_with_the_case(answer: Any) -> None:
    with pytest.raises(AssertionError, match="answer"):
        returned_number(answer, "a case")


def _compared(ratio: float, scatter: float) -> Comparison:
    draw = np.random.default_rng(0)
    baseline = ratio * np.exp(draw.normal(0, scatter, 30))
    return compare_paired(baseline.tolist(), np.exp(draw.normal(0, scatter, 30)).tolist(), matters=0.05)


def test_speed_passes_only_beyond_the_interval() -> None:
    assert judged_faster("five", _compared(2.0, 0.01)).startswith("five: passed. ")
    told = judged_faster("five", _compared(1.02, 0.5))
    assert "passed" not in told
    assert "open" in told
    assert "run the check again" in told


@pytest.mark.parametrize("ratio", [0.5, 1])
def test_what_is_slower_or_as_fast_fails_with_the_ratio(ratio: float) -> None:
    with pytest.raises(AssertionError, match=f"right, but not faster.*ratio is {ratio}"):
        judged_faster("five", _compared(ratio, 0.0001))
