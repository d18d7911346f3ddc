"""Answers to exercises, right and wrong, which a chapter's checks must tell apart."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

#: A check of an exercise with an answer that it is given.
Answer = tuple[Callable[[Any], str], Callable[..., Any]]
Test = Callable[..., None]


def judged_answers(right: Sequence[Answer], wrong: Sequence[Answer]) -> tuple[Test, Test]:
    """Return two tests: right answers pass, and wrong ones fail with what would be right."""

    @pytest.mark.parametrize(("check", "function"), right)
    def passes(check: Callable[[Any], str], function: Callable[..., Any]) -> None:
        assert ": passed" in check(function)

    @pytest.mark.parametrize(("check", "function"), wrong)
    def fails(check: Callable[[Any], str], function: Callable[..., Any]) -> None:
        with pytest.raises(AssertionError, match="not"):
            check(function)

    return passes, fails
