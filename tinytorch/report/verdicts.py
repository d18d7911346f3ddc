"""Verdicts on a page: the words of each, the tests behind it, and the claims of textbooks that it answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from tinytorch.perf.measuring import Counted, Derived, Measurement
from tinytorch.perf.measuring.comparison import Comparison, Quantity
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Judgement, Test, Verdict, verdict_between_all, verdict_of_all, why_undecided
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.prose import REFERENCE
from tinytorch.report.numbers import RATIOS, format_number, number_text, percent
from tinytorch.report.records import Json

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

#: What a page can say in the place of a verdict: what the judge returned, or a word that code chose from counts.
Said = Judgement | Comparison | Verdict | str
#: What a verdict comes to in a list of them.
DECIDED, NO_DIFFERENCE, OPEN, WITHHELD, UNTESTED = "decided", "no difference", "open", "withheld", "not measured"
OUTCOMES = (DECIDED, NO_DIFFERENCE, OPEN, WITHHELD, UNTESTED)
_OUTCOMES = {Verdict.NO_DIFFERENCE: NO_DIFFERENCE, Verdict.OPEN: OPEN, Verdict.WITHHELD: WITHHELD}
_WITHHELD_WORDS = "withheld, because other programs were running"
#: Icons of a claim's verdicts, so that none rests on its word's colour.
ICONS = {"supported": "✓", "refuted": "✗", "open": "?", "withheld": "–"}


def verdict_of(said: Said) -> Verdict:
    """Return the verdict in what is said; a word that code chose from counts is supported by them."""
    if isinstance(said, Verdict):
        return said
    return Verdict.SUPPORTED if isinstance(said, str) else said.verdict


def words_of(said: Said) -> str:
    """Return what a page shows in the place of a verdict: where it is open, what is known."""
    verdict = verdict_of(said)
    if verdict is Verdict.WITHHELD:
        return _WITHHELD_WORDS
    if isinstance(said, Judgement) and verdict is Verdict.OPEN and not said.word and not said.choices:
        return _known(said.open_test)
    return str(said)


def _known(test: Test | None) -> str:
    if test is None:
        return Verdict.OPEN.value
    if test.interval is None:
        return "open, because one sample does not show how much samples vary"
    ends = (test.interval.low, test.interval.high)
    shown = format_number(test.measurement.median, test.measurement.unit, ends=ends)
    return f"open, between {shown.low} and {shown.with_unit(shown.high)}"


def called(said: Said, words: Mapping[str, str]) -> Said:
    """Return what is said in the words of a page, by what a study calls it; what these do not name stays as it is.

    Of words between which it is open each is called by its own.
    """
    if isinstance(said, Judgement):
        choices = tuple(words.get(one, one) for one in said.choices)
        return replace(said, word=words.get(str(said), said.word), choices=choices)
    return words.get(said, said) if isinstance(said, str) else said


def conditions_of(said: Said) -> list[Conditions]:
    """Return the conditions of what a verdict was tested on."""
    if isinstance(said, Comparison):
        return [said.estimate.conditions]
    return [test.measurement.conditions for test in said.tests] if isinstance(said, Judgement) else []


def tested(said: Said) -> Json:
    """Return what a record keeps of a verdict: its outcome, whether no measurement could turn it, and its tests."""
    outcome = _OUTCOMES.get(verdict_of(said), DECIDED)
    tests = [_test(test) for test in said.tests] if isinstance(said, Judgement) else []
    if isinstance(said, Comparison):
        tests = [_compared(said)]
    fixed = isinstance(said, Judgement | Comparison) and said.is_fixed
    return {"outcome": outcome, "fixed": fixed, "tests": tests}


def judged_claim(
    key: str,
    values: Sequence[Value | Judgement],
    *,
    above: float | None,
    below: float | None,
    at_least: float | None,
    at_most: float | None,
) -> Judgement:
    """Return the verdict on a claim that all values lie between ends, as `Page.test` has them.

    Raises:
        ValueError: if there is no value, or one that has no ends to be held against.
    """
    ends = [
        (low, high, strict)
        for low, high, strict in ((above, below, True), (at_least, at_most, False))
        if low is not None or high is not None
    ]
    judged = [value for value in values if isinstance(value, Judgement)]
    numbers = [_testable(value) for value in values if not isinstance(value, Judgement)]
    if not values or bool(ends) != bool(numbers):
        raise ValueError(
            f"test of {key!r} must hold values against above=, below=, at_least= or at_most=, or take a verdict"
        )
    judged += [verdict_between_all(numbers, low, high, strict=strict) for low, high, strict in ends]
    return judged[0] if len(judged) == 1 else verdict_of_all(judged)


def _testable(value: Value) -> Measurement:
    """Return a value as what the judge takes: what was derived from counts alone was counted."""
    if isinstance(value, Derived) and all(one.is_counted for one in value.measured):
        return Counted(value.value, value.unit, value.what)
    return as_measurement(value)


def _test(test: Test) -> Json:
    one, is_open = test.measurement, test.verdict is Verdict.OPEN
    return {
        **_found(one),
        "unit": one.unit,
        "low": test.low,
        "high": test.high,
        "verdict": test.verdict.value,
        "why_open": why_undecided(test, lambda end: format_number(end, one.unit).text) if is_open else None,
        "samples_needed": test.samples_needed if is_open else None,
    }


def _compared(made: Comparison) -> Json:
    return {
        **_found(made.estimate),
        "unit": "points" if made.quantity.is_difference else "",
        "quantity": made.quantity.name.lower(),
        "matters": made.matters,
        "verdict": made.verdict.value,
        "by_little": made.by_little,
    }


def _found(one: Measurement) -> Json:
    """Return what was found, with the interval that the verdict rests on; a single sample has none."""
    interval = asdict(one.interval) if one.has_interval or one.is_counted else None
    found = {"what": one.name, "value": one.median, "interval": interval, "n": one.n}
    return found | {"counted": True} if one.is_counted else found


def verdict_lines(said: Json) -> list[str]:
    """Return what a verdict rests on, a line for each of its first tests, and the rule that chose it."""
    if said["fixed"]:
        return ["This was counted, so no measurement can change it."]
    tests = said["tests"]
    if not tests:
        # What other programs disturbed, and what was not measured, was not judged.
        return (
            []
            if said["outcome"] in (WITHHELD, UNTESTED)
            else ["The code of the page chose this word from its results."]
        )
    lines = [_test_line(test) for test in tests[:_MOST_TESTS]]
    more = [f"It also rests on {len(tests) - _MOST_TESTS} more tests of this kind."] if len(tests) > _MOST_TESTS else []
    return [*lines, *more, _rule_of_comparing(tests[0]) if "matters" in tests[0] else _RULE_OF_TESTING]


def evidence_words(said: Json) -> str:
    """Return what was found for a claim, and what was asked of it, of its first tests."""
    found = " ".join(_test_line(test) for test in said["tests"][:_MOST_TESTS])
    return found or "It follows from counts."


#: Tests of one verdict whose numbers are told: of several the first stand for the kind.
_MOST_TESTS = 3
_ENDS = ("low", "high")
_RULE_OF_TESTING = (
    "The rule: the verdict is decided if the whole interval passes the test, or the whole interval fails it. "
    "Otherwise it is open."
)


def _rule_of_comparing(test: Json) -> str:
    quantity = Quantity[test["quantity"].upper()]
    none = 0 if quantity.is_difference else 1
    within = (
        "; no difference if it contains {none} and stays within the difference that matters" if test["matters"] else ""
    )
    return (
        f"The rule: {quantity.more} or {quantity.less} if the whole interval lies on one side of {none}"
        f"{within.format(none=none)}; otherwise open."
    )


def _test_line(test: Json) -> str:
    """Return a test in words: what was found, with its interval and samples, what it asks for, and why it is open."""
    found = f"{test['what']}: {_found_words(test)}"
    if "matters" in test:
        return f"{found}; {_what_matters(test)}."
    low, high = ("" if test[end] is None else format_number(float(test[end]), test["unit"]).text for end in _ENDS)
    asks = f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    asked = f"{found}; the test asks for {asks}."
    if test["why_open"] is None:
        return asked
    needed = test["samples_needed"]
    more = (
        f"about {needed:,} samples in total would decide it"
        if needed
        else "more samples in one build would not decide it"
    )
    return f"{asked} It is open, because {test['why_open']}{f'; {more}' if test['interval'] else ''}."


def _found_words(test: Json) -> str:
    """Return the value of a test with the interval that it rests on and n."""
    if test["interval"] is None:
        return f"{format_number(float(test['value']), test['unit']).text}, from one sample"
    if test.get("counted"):
        count = float(test["value"])
        whole = count.is_integer() and test["unit"] not in RATIOS
        return f"{format_number(int(count) if whole else count, test['unit']).text}, counted"
    return number_text(test)


def _what_matters(test: Json) -> str:
    if test["by_little"]:
        return f"{test['verdict']}, {test['by_little']}"
    if not test["matters"]:
        return "any difference matters here"
    matters = f"{100 * test['matters']:.3g} points" if test["unit"] == "points" else percent(test["matters"])
    return f"a difference of {matters} matters here"


def claim_parts(lines: Sequence[str]) -> tuple[str, list[str]]:
    """Return the quote, from lines that begin with ``>``, and the paragraphs of a claim: statement, then evidence.

    Raises:
        ValueError: if the quote or the statement is missing.
    """
    quote = " ".join(line.lstrip("> ").strip() for line in lines if line.startswith(">")).strip()
    rest = "\n".join(line for line in lines if not line.startswith(">"))
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", rest.strip()) if part.strip()]
    if not quote or not paragraphs:
        raise ValueError("a claim needs its source's words behind '>', and below them what they claim, in one sentence")
    return quote, paragraphs


def placeholders(text: str, key: str) -> list[str]:
    """Return the keys of numbers that stand in braces in ``text``.

    Raises:
        ValueError: if what stands in braces is not a key or ``page:key``, or a brace has no partner.
    """
    found = _PLACEHOLDER.findall(text)
    wrong = [name for name in found if not REFERENCE.fullmatch(name)]
    if wrong or re.search(r"[{}]", _PLACEHOLDER.sub("", text)):
        raise ValueError(
            f"braces in the text of {key!r} must hold the key of a number, as in {{mlp-latency}}: {text!r}"
        )
    return found


def split_at_placeholders(text: str) -> Sequence[tuple[str, str | None]]:
    """Return the pieces of ``text``: each as plain text and the key that follows it, None at the end."""
    pieces = _PLACEHOLDER.split(text)
    keys = [*pieces[1::2], None]
    return list(zip(pieces[0::2], keys, strict=True))


def filled_text(text: str, number: Callable[[str], str]) -> str:
    """Return ``text`` with the plain ``number(key)`` for each key in braces."""
    return "".join(piece + (number(key) if key is not None else "") for piece, key in split_at_placeholders(text))
