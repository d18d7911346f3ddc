"""Checks of exercises: what is unwritten fails by name, and speed needs an interval."""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Real
from typing import Any, Concatenate, ParamSpec, TypeVar

from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Verdict

Answer = TypeVar("Answer", bound=Callable[..., Any])
Given = ParamSpec("Given")


def exercise_check(
    check: Callable[Concatenate[Answer, Given], str | None],
) -> Callable[Concatenate[Answer, Given], str]:
    """Return a ``check``, which raises AssertionError that says what is wrong, so that it says "passed" if nothing is.

    A reader whose function is missing or still empty is told so: exercises begin with a body that raises
    NotImplementedError.
    """

    @functools.wraps(check)
    def checked(function: Answer, /, *args: Given.args, **kwargs: Given.kwargs) -> str:
        if not callable(function):
            raise TypeError(
                f"{check.__name__} takes your function itself, without calling it, not its result {function!r}"
            )
        try:
            return check(function, *args, **kwargs) or f"{check.__name__.removeprefix('check_')}: passed"
        except NotImplementedError:
            name = getattr(function, "__name__", "your function")
            sentence = f"{name} is not written yet: replace the line that raises NotImplementedError"
            raise AssertionError(sentence) from None

    return checked


def returned_number(answer: Any, case: str) -> float:
    """Return what a reader's function answered in this case if it is a number, NumPy's scalars included.

    Raises:
        AssertionError: if it is none, as where a return is missing.
    """
    assert isinstance(answer, Real), f"{case}: the answer must be a number, not {answer!r}"
    return float(answer)


def judged_faster(name: str, comparison: Comparison) -> str:
    """Return "... passed" if the reader's function, the candidate, is faster, and what to do where that is open.

    Raises:
        AssertionError: with the ratio and its interval, if the candidate is slower or as fast as the baseline.
    """
    if comparison.verdict is Verdict.OPEN:
        return f"{name}: right, but whether it is faster is open; run the check again. {comparison.sentence()}"
    assert comparison.verdict == Verdict.FASTER, f"it is right, but not faster. {comparison.sentence()}"
    return f"{name}: passed. {comparison.sentence()}"
