"""Checks for the exercises on serving."""

from collections.abc import Callable

from tinytorch.chapters.checking import exercise_check


@exercise_check
def check_tokens_per_second(function: Callable[[float, float, int, float, float], float]) -> None:
    """Return "... passed" if ``function(weights, cache, batch, bandwidth, calls)`` is the tokens per second of a batch.

    A step takes ``calls`` seconds plus the time in which ``bandwidth`` delivers the weights and each sequence's cache.
    """
    weights, cache, bandwidth = 26e9, 1.6e9, 1.6e12
    cases = (
        ("one sequence without a cache or calls", (weights, 0.0, 1, bandwidth, 0.0), bandwidth / weights),
        ("twice the sequences without caches", (weights, 0.0, 2, bandwidth, 0.0), 2 * bandwidth / weights),
        ("calls alone", (0.0, 0.0, 8, bandwidth, 0.5), 16.0),
        ("caches alone, of any batch", (0.0, cache, 7, bandwidth, 0.0), bandwidth / cache),
        ("all together", (weights, cache, 10, bandwidth, 3e-3), 10 / 29.25e-3),
    )
    for said, given, right in cases:
        answer = function(*given)
        assert isinstance(answer, (int, float)), f"{said}: the answer must be a number of tokens, not {answer!r}"
        assert abs(answer / right - 1) < 1e-9, f"{said}: {given} give {right:.6g} tokens per second, not {answer}"


@exercise_check
def check_tokens_of_a_call(function: Callable[[float, int], float]) -> None:
    """Return "... passed" if ``function(right, guesses)`` is the mean number of tokens that a call writes."""
    for right, guesses, truth in ((0.0, 4, 1.0), (1.0, 4, 5.0), (0.8, 4, 3.3616), (0.5, 1, 1.5), (0.5, 0, 1.0)):
        answer = function(right, guesses)
        assert isinstance(answer, (int, float)), f"the answer must be a number of tokens, not {answer!r}"
        assert abs(answer - truth) < 1e-9, f"{guesses} guesses, each right with {right}: {truth} tokens, not {answer}"


@exercise_check
def check_pages(function: Callable[[list[int], int], int]) -> None:
    """Return "... passed" if ``function(lengths, page)`` is the number of pages that the sequences take."""
    for lengths, page, truth in (([16], 16, 1), ([17], 16, 2), ([300], 16, 19), ([1, 1, 1], 16, 3), ([5, 9, 8], 8, 4)):
        answer = function(lengths, page)
        assert answer == truth, f"sequences of {lengths} positions in pages of {page} take {truth} pages, not {answer}"
