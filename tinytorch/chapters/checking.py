"""Checks of exercises: what fails is said in a sentence with a hint, what passes with what is right."""

import functools
import inspect
import traceback
from collections.abc import Callable
from numbers import Real
from typing import Any, Concatenate, ParamSpec, TypeVar

from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Verdict

Answer = TypeVar("Answer", bound=Callable[..., Any])
Given = ParamSpec("Given")


class NotYetError(AssertionError):
    """What is wrong with a reader's function, in a sentence, and what is asked for; a notebook shows no more of it."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in the place of a traceback."""
        return [f"Not yet: {self.args[0]}", *(f"Hint: {hint}" for hint in self.__notes__)]


class Passed(str):
    """Sentence that a notebook shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the sentence as it is."""
        return str(self)


def exercise_check(
    check: Callable[Concatenate[Answer, Given], str | None],
) -> Callable[Concatenate[Answer, Given], Passed]:
    """Return a ``check``, which raises AssertionError that says what is wrong, so that it else says what is right.

    That it takes from its docstring, which begins ``Return "... passed" if ``function(x)`` is ...``: the hint, too.
    A reader whose function is missing, is still empty or fails by itself is told so.
    """
    first, *rest = inspect.cleandoc(check.__doc__ or "").split("\n\n")

    @functools.wraps(check)
    def checked(function: Answer, /, *args: Given.args, **kwargs: Given.kwargs) -> Passed:
        if not callable(function):
            raise TypeError(f"{check.__name__} takes your function itself, not its result {function!r}")
        name = getattr(function, "__name__", "your function")
        asked = first.partition(" if ")[2].replace("function(", f"{name}(").replace("`", "")
        cause: Exception | None = None
        try:
            said = check(function, *args, **kwargs)
            return Passed(said or f"{check.__name__.removeprefix('check_')}: passed. {asked}")
        except NotImplementedError:
            wrong = f"{name} is not written yet: replace the line that raises NotImplementedError"
        except AssertionError as error:
            wrong = str(error)
        except Exception as error:
            cause = error
            own = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.name == name]
            who = f"{name} fails in the line “{own[-1]}”" if own else f"the check can do nothing with {name}"
            wrong = f"{who}: {type(error).__name__}, {error}"
        failed = NotYetError(wrong)
        failed.add_note(" ".join([asked, *rest]).replace("\n", " ").replace("`", ""))
        raise failed from cause

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
