"""Expressions in a page's text: their values in its namespace, and which text an outcome has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from itertools import groupby
from typing import Any

from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement, Verdict, why_undecided, word_between
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.prose import Ends, is_simple, parsed
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.records import Json
from tinytorch.report.verdicts import Said, conditions_of, tested, verdict_of, words_of

#: Texts of a thing that is asked for no more than whether this build measured it.
MEASURED, UNMEASURED = "measured", "unmeasured"
OPEN, WITHHELD = Verdict.OPEN.value, Verdict.WITHHELD.value
#: Why a name or a truth value that code chose is what it is, where the page does not say it.
CHOSEN = "the code of this page chose it from its results"
#: Outcomes for which a page need not have a text: the book has one.
_TOLD_BY_THE_BOOK = (WITHHELD, UNMEASURED)


class ExpressionError(ValueError):
    """An expression in a page's text that gives nothing to show; the message says why."""


class NotYetError(ExpressionError):
    """An expression whose first name a later cell may define: a text may show what is measured below it."""


@dataclass(frozen=True)
class Found:
    """Outcome of an expression: the verdict, what a page calls it, and the outcome whose text it shows."""

    said: Said
    outcome: str


def evaluate(expression: str, namespace: Mapping[str, Any], *, calls: bool = False) -> Any:
    """Return the value in a page's namespace of a name, an attribute, an index, one operation on these, or a call.

    Raises:
        NotYetError: if a name is not there; the error lists similar ones.
        ExpressionError: if it is no such expression, or has no value.
    """
    try:
        if not calls and not is_simple(expression):
            raise ExpressionError(
                f"{expression!r} must be a name, an attribute, an index, or one operation on these: give its value a "
                "name in a cell above"
            )
        parsed(expression)
        return eval(compile(expression.strip(), "<text>", "eval"), dict(namespace))
    except ExpressionError:
        raise
    except NameError as error:
        raise NotYetError(
            f"{expression!r}: there is no {error.name!r} on this page{_like(error.name, namespace)}"
        ) from None
    except AttributeError as error:
        near = _like(error.name, dir(error.obj))
        raise ExpressionError(f"{expression!r}: {type(error.obj).__name__} has no {error.name!r}{near}") from None
    except KeyError as error:
        raise ExpressionError(f"{expression!r}: there is no key {error.args[0]!r}") from None
    except Exception as error:  # whatever the page's own code raises
        raise ExpressionError(f"{expression!r}: {error}") from None


def _like(name: str | None, known: Any) -> str:
    near = get_close_matches(name or "", [each for each in known if not each.startswith("_")], 2)
    return f": did you mean {' or '.join(map(repr, near))}?" if near else ""


def number_of(expression: str, value: object) -> Value | Unmeasured:
    """Return the number that a text shows; of a comparison its estimate.

    Raises:
        ExpressionError: if it is none.
    """
    if isinstance(value, Comparison):
        return value.estimate
    if isinstance(value, Value | Unmeasured):
        return value
    raise ExpressionError(
        f"{expression!r} is {value!r}, and a page shows no bare {type(value).__name__}: make it a Measurement, "
        "Counted, Derived, Modelled or Quoted"
    )


def name_of(value: object) -> Said | None:
    """Return what is shown as a word: a verdict, or a name that code chose; None for anything else."""
    if isinstance(value, Enum) and not isinstance(value, Verdict):
        return str(value.value)
    return value if isinstance(value, Judgement | Verdict | str) else None


def outcome_of(expression: str, value: object, arms: Mapping[str, Ends | None]) -> Found:
    """Return the outcome of a value that a page has texts for: ``arms``, by outcome, with the ends of those that have.

    The value is a comparison, a verdict, a word or truth value that code chose; a measurement, of which the texts have
    ends; or anything, if the page only asks whether it was measured.

    Raises:
        ExpressionError: if an outcome that can occur has no text, or a text belongs to none that can.
    """
    if isinstance(value, Unmeasured):
        return Found("not measured", UNMEASURED)
    if MEASURED in arms:
        _check(expression, arms, {MEASURED})
        return Found(MEASURED, MEASURED)
    if any(arms.values()):
        return _between(expression, value, arms)
    said: Said
    if isinstance(value, Comparison):
        quantity = value.quantity
        could_be = {quantity.more.value, quantity.less.value, OPEN}
        could_be |= {Verdict.NO_DIFFERENCE.value} if value.matters else set()
        said = value
    elif isinstance(value, bool):
        could_be, said = {"yes", "no"}, "yes" if value else "no"
    elif isinstance(value, Enum) and not isinstance(value, Verdict):
        could_be, said = {_plain(str(each.value)) for each in type(value)}, str(value.value)
    elif isinstance(value, Judgement) and not value.verdict.is_decided:
        could_be, said = {*arms, OPEN}, value  # what else it could have been nothing says
    elif isinstance(value, Judgement) and not value.word:
        could_be, said = {Verdict.SUPPORTED.value, Verdict.REFUTED.value}, value
        could_be |= set() if value.is_fixed else {OPEN}
    elif isinstance(value, Judgement | Verdict | str):
        said = value
        could_be = {*arms, _name(said)} | ({OPEN} if isinstance(value, Judgement) and not value.is_fixed else set())
    else:
        raise ExpressionError(
            f"{expression!r} is of type {type(value).__name__}, which has no outcomes: give the texts of a number "
            "ends, as in :::slower = above 1.2"
        )
    _check(expression, arms, could_be)
    return Found(said, _name(said))


def _between(expression: str, value: object, arms: Mapping[str, Ends | None]) -> Found:
    number = as_measurement(number_of(expression, value))  # type: ignore[arg-type]
    ends = {outcome: each for outcome, each in arms.items() if each is not None}
    _check(expression, arms, {*ends} | (set() if number.is_counted else {OPEN}))
    said = word_between(number, ends)
    return Found(said, OPEN if said.verdict is Verdict.OPEN else said.word)


def _name(said: Said) -> str:
    """Return the outcome that a verdict is."""
    verdict = verdict_of(said)
    if verdict in (Verdict.OPEN, Verdict.WITHHELD, Verdict.NO_DIFFERENCE):
        return verdict.value
    return _plain(str(said))


def _plain(word: str) -> str:
    return word.replace("-", " ")


def _check(expression: str, arms: Mapping[str, object], could_be: set[str]) -> None:
    if missing := sorted(could_be - {*arms}):
        raise ExpressionError(
            f"{expression!r} can be {' or '.join(map(repr, missing))}, and the page has no text for it"
        )
    if unknown := sorted({*arms} - could_be - {*_TOLD_BY_THE_BOOK}):
        near = _like(unknown[0], could_be)
        raise ExpressionError(f"{expression!r} can never be {unknown[0]!r}, for which the page has a text{near}")


def verdict_body(said: Said, because: str) -> Json:
    """Return what a record keeps of a verdict; ``because`` where nothing else says what it rests on."""
    rests_on = [test.measurement for test in said.tests] if isinstance(said, Judgement) else []
    if isinstance(said, Comparison):
        because = f"the estimate is {format_measurement(said.estimate).text}, and {said.because}"
    elif isinstance(said, Judgement) and said.verdict is Verdict.OPEN and (test := said.open_test):
        one = test.measurement
        why = why_undecided(test, lambda end: format_number(end, one.unit).text)
        because = f"{one.name} is {format_measurement(one).text}, and {why}"
    elif rests_on:
        named = groupby(rests_on, key=lambda one: one.name)
        values = ((name, [format_measurement(one).text for one in ones]) for name, ones in named)
        because = ", and ".join(f"{name} is {' and '.join(texts)}" for name, texts in values)
    return {"word": words_of(said), **tested(said), "because": because, "numbers": []}


def rests_on(said: Said, value: object) -> list[Any]:
    """Return the conditions of what an outcome was found from; none of whether something was measured."""
    if said == MEASURED:
        return []
    found = conditions_of(said)
    return found or ([value.conditions] if isinstance(value, Measurement) else [])
